"""Where solvers begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.unrolling import unroll
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.solvers.attainable import eager_policy
from opaq.solvers.objective import Objective
from opaq.solvers.policy_classes import has_many_optima
from opaq.stop import Stop

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
