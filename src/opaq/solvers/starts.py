"""Initial policies of the starts, and the largest return that any policy can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.returns import EQUAL, start_distribution
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import HiddenProcess, Payoff
from opaq.solvers.objective import Objective
from opaq.solvers.policy_classes import has_many_optima
from opaq.stop import Stop


@dataclass(frozen=True, slots=True)
class Attainable:
    """The most that any policy can reach of one requirement, by dynamic programming.

    name: the requirement.
    largest: what no policy exceeds of it.
    threshold: what is asked.
    rounding: how far below the exact figure the largest may have come out, and still be measured as met.
    """

    name: str
    largest: float
    threshold: float
    rounding: float = 0.0

    @property
    def out_of_reach(self) -> bool:
        """Whether it is proven that no policy meets the threshold, rounding included."""
        return self.largest + self.rounding < self.threshold - EQUAL * abs(self.threshold)


def largest_return(process: HiddenProcess, payoff: Payoff | None = None, *, stop: Stop | None = None) -> float:
    """max V over all policies, history-dependent ones included: no policy of any class does better.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    payoff = payoff or process.payoffs[0]
    choices = StateActions.of(process, payoff)
    value = payoff.final + payoff.discount**process.horizon * choices.best(choices.paid)
    for time in range(process.horizon - 1, -1, -1):
        if stop is not None:
            stop.check()
        value = choices.best(payoff.discount**time * choices.paid + choices.ahead @ value)
    return float(start_distribution(process) @ value)


def eager_policy(process: HiddenProcess, payoff: Payoff, *, stop: Stop) -> FloatArray:
    """A policy vector that earns much: every row plays what the best timed policy would, as often as it would.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    choices = StateActions.of(process, payoff)
    value = payoff.final.copy()
    wishes = np.zeros(process.num_slots)
    for time in range(process.horizon, -1, -1):
        stop.check()
        values = payoff.discount**time * choices.paid + (choices.ahead @ value if time < process.horizon else 0.0)
        np.add.at(wishes, choices.greedy(values), 1.0)
        value = choices.best(values) + (payoff.final if time == process.horizon else 0.0)
    rows = np.add.reduceat(wishes, process.row_start[:-1])
    return np.asarray(wishes / np.repeat(rows, np.diff(process.row_start)))


@dataclass(frozen=True, slots=True)
class StateActions:
    """Every (state, slot) pair of a process: what it pays and where it leads."""

    state: IntArray  # [choice]
    slot: IntArray  # [choice]
    paid: FloatArray  # [choice]
    ahead: Any  # sparse [choice, state]
    first: IntArray  # [state]: its first choice

    @classmethod
    def of(cls, process: HiddenProcess, payoff: Payoff) -> StateActions:
        """Laid out state by state, slots of a state in order."""
        from scipy.sparse import csr_array

        counts = np.diff(process.row_start)[process.row]
        state = np.repeat(np.arange(process.num_states), counts)
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        slot = np.arange(state.size) - np.repeat(first - process.row_start[process.row], counts)
        paid = np.asarray(payoff.slots[state, slot]).reshape(-1)
        inner = int(process.edge_start[process.num_states])
        owner = np.repeat(np.arange(process.num_states), np.diff(process.edge_start[:-1]))
        inside = process.edge_slots[:inner].tocoo()
        source = owner[inside.row]
        choice = first[source] + inside.col - process.row_start[process.row[source]]
        shape = (state.size, process.num_states)
        ahead = csr_array((inside.data, (choice, process.edge_target[inside.row])), shape=shape)
        return cls(state, slot, paid, ahead, first)

    def best(self, values: FloatArray) -> FloatArray:
        """The largest value among the choices of every state."""
        return np.asarray(np.maximum.reduceat(values, self.first))

    def greedy(self, values: FloatArray) -> IntArray:
        """The slot of the first best choice of every state."""
        tie = 1e-12 * min(1.0, float(np.abs(values).max(initial=0.0)))
        top = values >= np.repeat(self.best(values), np.diff(np.append(self.first, values.size))) - tie
        places = np.flatnonzero(top)
        _, earliest = np.unique(self.state[places], return_index=True)
        return self.slot[places[earliest]]


_BYTES_AN_ENTRY = 40  # of a frozen graph, with its buffers
_WIDE = 3.0  # logits of a random start that is nearly deterministic


@dataclass(frozen=True, slots=True)
class Start:
    """One beginning: its place, what kind it is, and its logits."""

    place: int
    kind: str
    theta: FloatArray


def starts(
    objective: Objective, *, count: int, kind: str = "mixed", seed: int = 0, warm: FloatArray | None = None
) -> list[Start]:
    """The starts of a solve; a warm one (a policy vector) comes first. The same seed gives the same starts.

    Where policies of the class often have several local optima, every second random start is nearly deterministic: one
    with even odds forgets what its memory holds, and ends where no memory is used.
    """
    seeds = np.random.SeedSequence(seed).spawn(count)
    found = [
        _start(objective, place, _kind(kind, place), np.random.default_rng(seeds[place])) for place in range(count)
    ]
    if warm is not None:
        found[0] = Start(0, "warm", objective.process.logits(warm))
    return found


def graph_size(process: HiddenProcess, *, budget: Budget, stop: Stop) -> tuple[int, bool]:
    """How many beliefs the graph of some policy has, and whether all of it fits the budget: the cost of an evaluation.

    The policy is random, but always the same: that of the uniform policy is smaller than most by its symmetry.
    """
    theta = np.random.default_rng(0).normal(size=process.num_slots)
    chain = Chain.of(process, process.softmax(theta), stop=stop)
    graph = unroll(chain, steps=process.horizon, budget=budget, whole=True)
    stop.check()
    return graph.num_nodes, graph.whole and graph.num_entries * _BYTES_AN_ENTRY <= budget.memory


def _kind(kind: str, place: int) -> str:
    if kind != "mixed":
        return kind
    return {0: "uniform", 1: "return-optimal"}.get(place, "random")


def _start(objective: Objective, place: int, kind: str, rng: np.random.Generator) -> Start:
    process = objective.process
    noise = rng.normal(size=process.num_slots)
    if kind == "uniform":
        return Start(place, kind, 0.05 * noise)  # exactly uniform may be a saddle
    if kind == "return-optimal":
        payoff = (objective.requirements() or process.payoffs)[0]
        return Start(
            place,
            kind,
            np.log(0.6 * eager_policy(process, payoff, stop=objective.stop) + 0.4 * process.uniform()) + 0.05 * noise,
        )
    wide = place % 2 == 1 and has_many_optima(objective.product.policy_class)
    return Start(place, kind, _WIDE * noise if wide else noise)
