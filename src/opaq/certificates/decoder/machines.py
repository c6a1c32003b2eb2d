"""Machines that read observations, which decoders may remember: windows, trees, belief graphs.

A machine gives the code of its node after the first observation and after each further one. A code is a row of whole
numbers of the machine's own choosing, which may mean different things at different times. Every machine is sound: a
coarser one only makes the bound weaker. Machines that merge by a hash are sound as well, because a collision merges
two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from opaq.beliefs.graph import Budget, Chain, Level
from opaq.beliefs.unroll import unroll
from opaq.certificates.decoder.numbering import number_distinct, split_points
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


class ObservationMachine(Protocol):
    """A machine that reads o_0 .. o_t."""

    @property
    def name(self) -> str:
        """Return what it is called in reports."""

    def begin(self, observations: IntArray) -> IntArray:
        """Return [case, part] the code after the first observation. observations: [case]."""

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """Return [case, part] the code after observation o_time, from the code after o_{time - 1}.

        time: from 1. codes: [case, part], as `begin` or `step` returned them. observations: [case].
        """


@dataclass(frozen=True, slots=True)
class ObservationWindow:
    """The last `last` observations."""

    last: int
    num_observations: int

    def __post_init__(self) -> None:
        """Raise BudgetError when the observations remembered do not fit one whole number."""
        if self.num_observations ** (self.last + 1) >= 2**62:
            raise BudgetError(f"{self.last} of {self.num_observations} observations are too many to remember")

    @property
    def name(self) -> str:
        """Return the name with its length."""
        return "last observation" if self.last == 1 else f"last {self.last} observations"

    def begin(self, observations: IntArray) -> IntArray:
        """Return [case, 1] the code of one observation."""
        return self.step(0, np.zeros((observations.size, 1), dtype=np.int64), observations)

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """Return [case, 1] a number whose digits, in base num_observations, are the last observations."""
        digits = codes * self.num_observations + observations[:, None]
        return np.asarray(digits % self.num_observations**self.last)


@dataclass(frozen=True, slots=True)
class ObservationTree:
    """Every observation, in full."""

    name: str = "full observation tree"

    def begin(self, observations: IntArray) -> IntArray:
        """Return [case, 1] a hash of the first observation."""
        return self.step(0, np.zeros((observations.size, 1), dtype=np.int64), observations)

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """Return [case, 1] a hash of all observations."""
        return _hash_codes(codes[:, 0], observations)[:, None]


@dataclass(frozen=True, slots=True)
class Both:
    """Two machines side by side."""

    one: ObservationMachine
    other: ObservationMachine

    @property
    def name(self) -> str:
        """Return the names of both."""
        return f"{self.one.name} x {self.other.name}"

    def begin(self, observations: IntArray) -> IntArray:
        """Return the codes of both, side by side."""
        return np.concatenate([self.one.begin(observations), self.other.begin(observations)], axis=1)

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """Return the codes of both, side by side."""
        width = self.one.begin(observations[:1]).shape[1]
        parts = (self.one, codes[:, :width]), (self.other, codes[:, width:])
        return np.concatenate([machine.step(time, part, observations) for machine, part in parts], axis=1)


def _hash_codes(codes: IntArray, observations: IntArray) -> IntArray:
    """Return a hash of a code and one more observation, at least 0. codes, observations: [case]."""
    bits = (codes.astype(np.uint64) ^ (observations.astype(np.uint64) + np.uint64(1)) * _MIX) * _MIX
    bits ^= bits >> _SHIFT
    bits *= _MIX
    return (bits >> np.uint64(2)).astype(np.int64)


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
        """Return [case, 1] the node after the first observation, from the root, which is node 0."""
        return self.step(0, np.zeros((observations.size, 1), dtype=np.int64), observations)

    def step(self, time: int, codes: IntArray, observations: IntArray) -> IntArray:
        """Return [case, 1] the belief one observation later; what is settled or lost stays so.

        What the graph leaves out is the one code -1: a machine may merge anything.
        """
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
    """Return the belief graph of a policy that is mixed with a little of the uniform one, as a machine.

    process: compiled for the policy's own class; the machine reads observations only and serves every class.
    pi: [slot], the policy vector. name: of the machine, in reports. budget: of the graph, which must fit as a whole.
    Raises BudgetError when the graph does not fit the budget, StoppedError when `stop` is requested meanwhile.
    """
    smoothed = (1.0 - _MIXED_IN) * pi + _MIXED_IN * process.uniform()
    chain = Chain.of(process, smoothed, named=True, stop=stop)
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
    """Return the arcs of a level as (key, code), ascending by key = belief before x num_observations + observation.

    An arc's observation is that of its child; arcs to settled values z have the code -2 - z.
    """
    arcs, known = level.arcs, level.known
    before = np.repeat(np.arange(arcs.start.size - 1), np.diff(arcs.start))
    key = np.concatenate(
        (
            before * num_observations + level.nodes.observation[arcs.child],
            known.node * num_observations + known.observation,
        )
    )
    code = np.concatenate((arcs.child.astype(np.int64), -2 - known.value))
    order = np.argsort(key)
    return key[order], code[order]


_FINEST = 2.0**40  # steps per unit of probability: beliefs that are equal once rounded to them are one


def rounded_belief_machine(
    process: HiddenProcess, pi: FloatArray, *, most_nodes: int, name: str, stop: Stop | None = None
) -> BeliefMachine:
    """Return a machine of at most `most_nodes` nodes per time: the beliefs of a policy, the closest ones merged.

    Merged beliefs go on as their mean, weighted by probability. Any merging makes a sound machine.

    process, pi: as in `belief_machine`; pi is mixed with a little of the uniform policy. name: of the machine.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    from scipy.sparse import csr_array

    stop = stop or Stop()
    num_states, num_observations = process.num_states, process.num_observations
    smoothed = (1.0 - _MIXED_IN) * pi + _MIXED_IN * process.uniform()
    matrix = csr_array(
        (process.flow(smoothed), process.edge_target, process.edge_start), shape=(num_states + 1, num_states)
    )
    emission = process.emission.dense().T  # [observation, state]
    beliefs: FloatArray = np.zeros((1, num_states + 1))  # [node, state]; the source comes last
    beliefs[0, -1] = 1.0
    mass: FloatArray = np.ones(1)
    keys, codes = [], []
    for _ in range(process.horizon):
        stop.check()
        predicted = np.asarray(beliefs @ matrix)  # [node, state]
        chance = predicted @ emission.T  # [node, observation]
        node, observation = np.nonzero(chance > 0.0)
        seen = chance[node, observation]
        after = predicted[node] * emission[observation] / seen[:, None]
        weight = mass[node] * seen
        group = _merge_beliefs(after, weight, most_nodes)
        mass = np.bincount(group, weights=weight).astype(np.float64)
        share = np.divide(weight, mass[group], out=np.zeros_like(weight), where=mass[group] > 0.0)
        gather = csr_array((share, (group, np.arange(group.size))), shape=(mass.size, group.size))
        beliefs = np.concatenate((np.asarray(gather @ after), np.zeros((mass.size, 1))), axis=1)
        keys.append(node * num_observations + observation)
        codes.append(group)
    return BeliefMachine(name, tuple(keys), tuple(codes), num_observations)


def _merge_beliefs(beliefs: FloatArray, weight: FloatArray, most: int) -> IntArray:
    """Return [belief] -> group, at most `most` of them: equal beliefs in one, and else the closest ones.

    Closeness is that of the roots of probabilities, whose squared distance is about what telling two beliefs apart is
    worth in bits. beliefs: [belief, state]. weight: [belief], its probability.
    """
    keys = np.random.default_rng(0x0BAC).integers(1, 2**62, size=beliefs.shape[1], dtype=np.int64)
    hashed = np.rint(beliefs * _FINEST).astype(np.int64) @ keys  # wraps around: a collision merges, which is sound
    number, example = number_distinct(hashed)
    if example.size <= most:
        return number
    points, order = np.sqrt(beliefs[example]), np.arange(example.size)
    bounds, cuts = np.zeros((most, 3), dtype=np.int64), np.zeros((most, 2))
    count = split_points(
        points, np.bincount(number, weights=weight), order, bounds, cuts, np.zeros((2, points.shape[1]))
    )
    begun = np.zeros_like(order)
    begun[bounds[1:count, 0]] = 1
    group = np.empty_like(order)
    group[order] = np.cumsum(begun)
    return np.asarray(group[number])
