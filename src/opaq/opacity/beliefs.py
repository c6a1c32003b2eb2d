"""The belief graph: every distinct belief the observer can hold, level by level.

For one observation sequence y the observer's belief is alpha_y(x) = P(y, x_t = x). Opacity is a sum over y of a
positively homogeneous function of alpha_y, so sequences with proportional beliefs share one node that carries their
total mass, and one backward sweep gives the whole gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.opacity import kernels
from opaq.opacity.futures import Futures
from opaq.opacity.kernels import Arcs, Known, Moves, Nodes
from opaq.product.process import HiddenProcess, Pairs

DROPPED = -1  # the child of an arc whose node was dropped
_NO_DRAWS = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the graph may be kept; what is dropped widens the answer into an interval.

    nodes: the most nodes kept on one level; mass: how much probability may be dropped on purpose in all;
    memory: bytes for the graph.
    """

    nodes: int = 500_000
    mass: float = 0.0
    memory: int = 4 << 30


@dataclass(frozen=True, slots=True)
class Level:
    """The beliefs after one more observation, how the level before leads to them, and what was settled on the way."""

    nodes: Nodes
    arcs: Arcs
    known: Known

    @property
    def num_nodes(self) -> int:
        """How many beliefs there are."""
        return int(self.nodes.mass.size)

    @property
    def num_bytes(self) -> int:
        """Memory taken."""
        return sum(int(array.nbytes) for part in (self.nodes, self.arcs, self.known) for array in part)


@dataclass(frozen=True, slots=True)
class Graph:
    """A belief graph, or its last level only, and what was left out of it.

    Level 0 is the root, before anything is seen; level t + 1 holds the beliefs after o_0 .. o_t.
    """

    levels: tuple[Level, ...]
    num_nodes: int
    dropped_mass: float
    dropped_opacity: float  # the most the dropped nodes could add to opacity
    dropped_error: float  # the most they could add to the guess error

    @property
    def last(self) -> Nodes:
        """The nodes of the last level."""
        return self.levels[-1].nodes


@dataclass(frozen=True, slots=True)
class Chain:
    """A hidden process under one policy, laid out for the kernels."""

    process: HiddenProcess
    moves: Moves
    pairs: Pairs
    work: kernels.Scratch

    @classmethod
    def of(cls, process: HiddenProcess, pi: Any) -> Chain:
        """For one policy vector, real or complex."""
        moves = Moves(process.edge_start, process.edge_target, process.flow(pi))
        pairs = process.pairs
        sizes = (process.num_states, process.num_observations, pairs.state.size, pairs.cell_observation.size)
        return cls(process, moves, pairs, kernels.scratch(*sizes, dtype=moves.flow.dtype))


def _root(chain: Chain, samples: int) -> Level:
    """Before anything is seen: the source for certain."""
    nothing, one = np.zeros(0, dtype=np.int64), np.ones(1, dtype=chain.moves.flow.dtype)
    source = np.array([chain.pairs.state.size - 1], dtype=np.int32)
    zero, zero32 = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    nodes = Nodes(np.array([0, 1]), source, one, one, np.ones(1), zero, zero32, np.array([samples]))
    return Level(nodes, Arcs(nothing, nothing, _NO_DRAWS), Known(nothing, nothing, nothing, _NO_DRAWS))


def unroll(
    chain: Chain,
    *,
    steps: int,
    budget: Budget | None = None,
    keep: bool = False,
    samples: int = 0,
    rng: np.random.Generator | None = None,
) -> Graph:
    """The belief graph after `steps` observations; with `samples`, only what that many sampled runs visit.

    `keep` keeps every level, for gradients and for naming sequences.
    """
    trimmer = _Trimmer(chain, budget or Budget(), keep)
    level = _root(chain, samples)
    levels, num_nodes, losses, used = [level], 1, np.zeros(3), 0
    for time in range(steps):
        draws = rng.random(int(level.nodes.runs.sum())) if rng is not None and samples else _NO_DRAWS
        child, reached = _step(chain, level, draws=draws, keep=keep, max_entries=trimmer.max_entries(used))
        losses += trimmer.cost(level.nodes, time - 1, np.arange(reached, level.num_nodes))
        child, loss = trimmer.trim(child, time, used)
        losses += loss
        num_nodes += child.num_nodes
        used = used + child.num_bytes if keep else 0
        levels = [*levels, child] if keep else [child]
        level = child
    return Graph(tuple(levels), num_nodes, *(float(loss) for loss in losses))


def _step(chain: Chain, level: Level, *, draws: FloatArray, keep: bool, max_entries: int) -> tuple[Level, int]:
    """The next level, and how many nodes of this one were expanded."""
    settled = chain.process.settled
    *parts, reached = kernels.expand(
        level.nodes, chain.moves, chain.pairs, settled, draws, chain.work, keep, max_entries
    )
    return Level(*parts), int(reached)


@dataclass(slots=True)
class _Trimmer:
    """Keeps a level within the budget and adds up what that costs: (mass, opacity, guess error)."""

    chain: Chain
    budget: Budget
    keep: bool
    _futures: Futures | None = None

    def max_entries(self, used: int) -> int:
        """How many belief entries the next level may hold before expansion stops."""
        return max((self.budget.memory - used) // (2 * 64), 1024)

    def trim(self, level: Level, time: int, used: int) -> tuple[Level, FloatArray]:
        """Drop the nodes that matter least until the level fits."""
        horizon, free = self.chain.process.horizon, self.budget.memory - used
        allowance = self.budget.mass / (horizon + 1)
        share = max(free // (horizon + 1 - time) if self.keep else free, 1)
        fits = level.num_nodes <= self.budget.nodes and level.num_bytes <= share
        if level.num_nodes <= 1 or (fits and allowance == 0.0):
            return level, np.zeros(3)
        costs = self._costs(level.nodes, time, np.arange(level.num_nodes))
        order = np.argsort(-costs[:, 1], kind="stable")
        spare = int((np.cumsum(costs[order[::-1], 0]) <= allowance).sum())
        room = level.num_nodes if fits else min(self.budget.nodes, level.num_nodes * share // level.num_bytes)
        count = max(min(room, level.num_nodes - spare), 1)
        if count == level.num_nodes:
            return level, np.zeros(3)
        return _take(level, order[:count]), costs[order[count:]].sum(axis=0)

    def cost(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        """What dropping the chosen nodes costs."""
        return self._costs(nodes, time, chosen).sum(axis=0) if chosen.size else np.zeros(3)

    def _costs(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        if self._futures is None:
            self._futures = Futures.of(self.chain.process, np.real(self.chain.moves.flow))
        entropy, error = self._futures.doubt(nodes, time, chosen, pair_state=self.chain.pairs.state)
        mass = np.real(nodes.mass[chosen])
        return np.stack([mass, mass * entropy, mass * error], axis=1)


def _take(level: Level, chosen: IntArray) -> Level:
    """The level with only these nodes, in this order."""
    nodes, arcs = level.nodes, level.arcs
    _, entry = spread(nodes.start, chosen)
    counts = nodes.start[chosen + 1] - nodes.start[chosen]
    number = np.full(level.num_nodes, DROPPED, dtype=np.int64)
    number[chosen] = np.arange(chosen.size)
    kept = Nodes(
        np.concatenate(([0], np.cumsum(counts))),
        nodes.pair[entry],
        nodes.belief[entry],
        *(part[chosen] for part in nodes[3:]),
    )
    return replace(level, nodes=kept, arcs=arcs._replace(child=number[arcs.child]))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What is expected of the observer at every node before the last observation, and the derivatives."""

    entropy: FloatArray  # [node]: expected H(Z | y) in bits
    error: FloatArray  # [node]: expected guess error
    slope: Any  # [edge]: d opacity / d flow, empty if not asked for


def conclude(chain: Chain, graph: Graph, *, with_slope: bool = False) -> Conclusion:
    """The last observation, and the backward sweep if the slope is asked for (the graph must have kept its levels)."""
    moves, pairs, work = chain.moves, chain.pairs, chain.work
    slope = np.zeros(moves.flow.size if with_slope else 0, moves.flow.dtype)
    entropy, error, adjoint = kernels.conclude(graph.last, moves, pairs, work, with_slope, slope)
    if with_slope:
        for level, child in zip(graph.levels[-2::-1], graph.levels[:0:-1], strict=True):
            adjoint = kernels.retreat(level.nodes, child.arcs, child.nodes, adjoint, moves, pairs, slope, work.expected)
    return Conclusion(entropy, error, slope)
