"""The largest return any policy can reach, by dynamic programming over the product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.returns import EQUAL, start_distribution
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import HiddenProcess, Payoff
from opaq.stop import Stop


@dataclass(frozen=True, slots=True)
class Attainable:
    """The most that any policy can reach of one requirement, by dynamic programming."""

    name: str
    largest: float
    threshold: float
    rounding: float = 0.0  # how far below the exact figure the largest may have come out, and still be measured as met

    @property
    def out_of_reach(self) -> bool:
        """Whether it is proven that no policy meets the threshold, rounding included."""
        return self.largest + self.rounding < self.threshold - EQUAL * abs(self.threshold)


def largest_return(process: HiddenProcess, payoff: Payoff | None = None, *, stop: Stop | None = None) -> float:
    """max V over all policies, history-dependent ones included: no policy of any class does better.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    payoff = payoff or process.payoffs[0]
    choices = Choices.of(process, payoff)
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
    choices = Choices.of(process, payoff)
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
class Choices:
    """Every (state, slot) pair of a process: what it pays and where it leads."""

    state: IntArray  # [choice]
    slot: IntArray  # [choice]
    paid: FloatArray  # [choice]
    ahead: Any  # sparse [choice, state]
    first: IntArray  # [state]: its first choice

    @classmethod
    def of(cls, process: HiddenProcess, payoff: Payoff) -> Choices:
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
