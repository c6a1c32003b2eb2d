"""The belief graph of a policy as an observation machine: sequences with the same belief share a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.beliefs.graph import Budget, Chain, Level
from opaq.beliefs.unrolling import unroll
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_LOST = -1  # the code of what the graph leaves out
_MIXED_IN = 0.02  # of the uniform policy, so that what other policies can do has a belief too


@dataclass(frozen=True, slots=True, eq=False)
class BeliefMachine:
    """Nodes are the distinct beliefs after o_0 .. o_t under one policy.

    After the last observation a node is (belief before it, observation): finer than the belief after it. The codes
    -2 - z stand for "the secret is settled to be z".
    """

    name: str
    keys: tuple[IntArray, ...]  # [time]: (belief before, observation) as one number, ascending
    codes: tuple[IntArray, ...]  # [time]: the code after it
    num_observations: int

    def begin(self, observations: IntArray) -> IntArray:
        """From the root, which is node 0."""
        return self.step(0, np.zeros((observations.size, 1), dtype=np.int64), observations)

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """The belief one observation later; what is settled or lost stays so."""
        before = codes[:, 0]
        key = before * self.num_observations + observations
        if time == len(self.keys):
            return np.where(before < 0, before, key)[:, None]
        index = np.minimum(np.searchsorted(self.keys[time], key), max(self.keys[time].size - 1, 0))
        known = self.keys[time][index] == key if self.keys[time].size else np.zeros(key.size, dtype=bool)
        after = np.where(known, self.codes[time][index], _LOST) if self.keys[time].size else np.full(key.size, _LOST)
        return np.where(before < 0, before, after)[:, None]


def belief_machine(
    process: HiddenProcess, pi: FloatArray, *, name: str, budget: Budget | None = None, stop: Stop | None = None
) -> BeliefMachine:
    """The belief graph of a policy that is mixed with a little of the uniform one.

    process: compiled for the policy's own class; the machine reads observations only and serves every class.
    Raises BudgetError when the graph does not fit the budget, StoppedError when `stop` is requested meanwhile.
    """
    mixed = (1.0 - _MIXED_IN) * pi + _MIXED_IN * process.uniform()
    chain = Chain.of(process, mixed, stop=stop)
    graph = unroll(chain, steps=process.horizon, budget=budget, keep=True, whole=True)
    chain.stop.check()
    if not graph.whole:
        raise BudgetError("the belief graph does not fit the budget")
    tables = []
    for level in graph.levels[1:]:
        chain.stop.check()
        tables.append(_table(level, process.num_observations))
    keys, codes = tuple(key for key, _ in tables), tuple(code for _, code in tables)
    return BeliefMachine(name, keys, codes, process.num_observations)


def _table(level: Level, num_observations: int) -> tuple[IntArray, IntArray]:
    """From the arcs of a level: an arc's observation is that of its child."""
    arcs, known = level.arcs, level.known
    before = np.repeat(np.arange(arcs.start.size - 1), np.diff(arcs.start))
    key = np.concatenate(
        (
            before * num_observations + level.nodes.observation[arcs.child],
            known.node * num_observations + known.observation,
        )
    )
    code = np.concatenate((arcs.child, -2 - known.value))
    order = np.argsort(key)
    return key[order], code[order]
