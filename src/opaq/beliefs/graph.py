"""The belief graph: every distinct belief the observer can hold, level by level.

For one observation sequence y the observer's belief is alpha_y(x) = P(y, x_t = x). Opacity is a sum over y of a
positively homogeneous function of alpha_y, so sequences with proportional beliefs share one node that carries their
total mass, and one backward sweep gives the whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs import kernels
from opaq.beliefs.futures import Futures
from opaq.beliefs.kernels import Arcs, Known, Moves, Nodes
from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop

DROPPED = -1  # the child of an arc whose node was dropped
OnLevel = Callable[[int, int], None]
_NO_NUMBERS = np.zeros(0)
_NO_LIMIT = 2**62
_SMALL_LEVEL = 512  # levels of at most this many nodes are made many at a time
_LEVELS_A_CALL = 256
_MOST_LEVELS = 100  # a graph with more nodes than this many full levels is not built as a whole
_TINY_MASS = 1e-300
_BYTES_AN_ENTRY = 256  # of two levels under construction, nodes of one entry included
_BYTES_A_PREDICTION = 32


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
    num_entries: int
    settled_mass: float  # of the sequences that settled the secret before the last observation
    dropped_mass: float
    dropped_opacity: float  # the most the dropped nodes could add to opacity
    dropped_error: float  # the most they could add to the guess error

    @property
    def last(self) -> Nodes:
        """The nodes of the last level."""
        return self.levels[-1].nodes

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.dropped_mass == 0.0


@dataclass(frozen=True, slots=True)
class Chain:
    """A hidden process under one policy, laid out for the kernels."""

    process: HiddenProcess
    moves: Moves
    pairs: Pairs
    work: kernels.Scratch
    stop: Stop

    @classmethod
    def of(cls, process: HiddenProcess, pi: Any, *, stop: Stop | None = None) -> Chain:
        """For one policy vector, real or complex; `stop` ends kernels that run when it is requested."""
        stop = stop or Stop()
        moves = Moves(*process.edges, process.flow(pi))
        pairs = process.pairs
        sizes = (process.num_states, process.num_observations, pairs.state.size, pairs.cell_observation.size)
        return cls(process, moves, pairs, kernels.scratch(*sizes, dtype=moves.flow.dtype, stop=stop.cell()), stop)


def _root(chain: Chain, samples: int) -> Level:
    """Before anything is seen: the source for certain."""
    one = np.ones(1, dtype=chain.moves.flow.dtype)
    source = np.array([chain.pairs.state.size - 1], dtype=np.uint32)
    zero, zero32 = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    return _bare(Nodes(np.array([0, 1]), source, one, one, np.ones(1), zero, zero32, np.array([samples])))


def _bare(nodes: Nodes) -> Level:
    """A level of which only the nodes are known."""
    nothing = np.zeros(0, dtype=np.int64)
    return Level(nodes, Arcs(nothing, nothing, _NO_NUMBERS), Known(nothing, nothing, nothing, _NO_NUMBERS))


def unroll(
    chain: Chain,
    *,
    steps: int,
    budget: Budget | None = None,
    keep: bool = False,
    whole: bool = False,
    samples: int = 0,
    rng: np.random.Generator | None = None,
    on_level: OnLevel | None = None,
) -> Graph:
    """The belief graph after `steps` observations; with `samples`, only what that many sampled runs visit.

    `keep` keeps every level, for gradients and for naming sequences. With `whole`, the first level that does not fit
    the budget (or very many levels that do) ends the work: the graph returned is not whole then. When the chain's
    stop is requested, what has not been expanded counts as dropped. A graph of sampled runs is never trimmed.
    `on_level` is told (levels done, nodes so far).
    """
    trimmer = _Trimmer(chain, budget or Budget(), keep, sampled=samples > 0)
    level = _root(chain, samples)
    levels, num_nodes, num_entries, settled_mass, losses, used, time = [level], 1, 1, 0.0, np.zeros(3), 0, 0
    while time < steps:
        if chain.stop.requested:  # what has not been expanded counts as dropped
            losses += trimmer.cost(level.nodes, time - 1, np.arange(level.num_nodes))
            levels = [*levels[:-1], _take(level, np.zeros(0, dtype=np.int64))]
            break
        if trimmer.may_skip_ahead and level.num_nodes <= _SMALL_LEVEL:
            at_once = min(steps - time, _LEVELS_A_CALL)
            level, made, new_nodes, new_entries, settled = _steps(chain, level, trimmer, rng, steps=at_once)
            num_nodes, num_entries = num_nodes + new_nodes, num_entries + new_entries
            settled_mass, time = settled_mass + settled, time + made
            levels = [level]
            if made:
                _tell(on_level, time, num_nodes)
                continue
        max_entries = trimmer.max_entries(used)
        child, reached, settled = _step(chain, level, rng, keep=keep, max_entries=max_entries)
        losses += trimmer.cost(level.nodes, time - 1, np.arange(reached, level.num_nodes))
        child, loss = trimmer.trim(child, time, used)
        losses += loss
        num_nodes += child.num_nodes
        num_entries += child.nodes.pair.size
        settled_mass += settled
        used = used + child.num_bytes if keep else 0
        levels = [*levels, child] if keep else [child]
        level = child
        time += 1
        _tell(on_level, time, num_nodes)
        if whole and not chain.stop.requested and (losses[0] > 0.0 or num_nodes > _MOST_LEVELS * trimmer.budget.nodes):
            losses[0] = max(losses[0], _TINY_MASS)
            break
    return Graph(tuple(levels), num_nodes, num_entries, settled_mass, *(float(loss) for loss in losses))


def _tell(on_level: OnLevel | None, levels: int, num_nodes: int) -> None:
    if on_level is not None:
        on_level(levels, num_nodes)


def _draws(level: Level, rng: np.random.Generator | None, *, levels: int) -> FloatArray:
    """One uniform number per sampled run and level; none where nothing is sampled."""
    runs = int(level.nodes.runs.sum()) if rng is not None else 0
    return rng.random((levels, runs)) if rng is not None and runs else np.zeros((levels, 0))


def _step(
    chain: Chain, level: Level, rng: np.random.Generator | None, *, keep: bool, max_entries: int
) -> tuple[Level, int, float]:
    """The next level, how many nodes of this one were expanded, and the mass that was settled."""
    draws, settled = _draws(level, rng, levels=1)[0], chain.process.settled
    *parts, reached, mass = kernels.expand(
        level.nodes, chain.moves, chain.pairs, settled, draws, chain.work, keep, max_entries
    )
    return Level(*parts), int(reached), float(mass)


def _steps(
    chain: Chain, level: Level, trimmer: _Trimmer, rng: np.random.Generator | None, *, steps: int
) -> tuple[Level, int, int, int, float]:
    """Several levels at once while they are small: the last one, how many, their nodes and entries, settled mass."""
    draws = _draws(level, rng, levels=steps)
    nodes, made, num_nodes, num_entries, settled = kernels.expand_levels(
        level.nodes,
        chain.moves,
        chain.pairs,
        chain.process.settled,
        draws,
        chain.work,
        steps,
        min(_SMALL_LEVEL, trimmer.max_nodes),
        trimmer.max_entries(0),
    )
    return (_bare(nodes) if made else level), int(made), int(num_nodes), int(num_entries), float(settled)


@dataclass(slots=True)
class _Trimmer:
    """Keeps a level within the budget and adds up what that costs: (mass, opacity, guess error)."""

    chain: Chain
    budget: Budget
    keep: bool
    sampled: bool = False  # sampled runs are all kept: without some of them the estimate would be biased
    _futures: Futures | None = None

    @property
    def may_skip_ahead(self) -> bool:
        """Whether small levels need no look: nothing is dropped on purpose, and no level is kept."""
        return not self.keep and (self.sampled or self.budget.mass == 0.0)

    @property
    def max_nodes(self) -> int:
        """The most nodes of a level."""
        return _NO_LIMIT if self.sampled else self.budget.nodes

    def max_entries(self, used: int) -> int:
        """How many belief entries the next level may hold before expansion stops."""
        return _NO_LIMIT if self.sampled else max((self.budget.memory - used) // _BYTES_AN_ENTRY, 1024)

    def trim(self, level: Level, time: int, used: int) -> tuple[Level, FloatArray]:
        """Drop the nodes that matter least until the level fits."""
        if self.sampled:
            return level, np.zeros(3)
        horizon, free = self.chain.process.horizon, self.budget.memory - used
        allowance = self.budget.mass / (horizon + 1)
        share = max(free // 2, 1)  # of what is left; kept levels leave the next one its half
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
            entries = max(self.budget.memory // (8 * _BYTES_A_PREDICTION), 1024)
            self._futures = Futures.of(self.chain.process, np.real(self.chain.moves.flow), max_entries=entries)
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
        nodes.mass[chosen],
        nodes.best[chosen],
        nodes.parent[chosen],
        nodes.observation[chosen],
        nodes.runs[chosen],
    )
    return replace(level, nodes=kept, arcs=arcs._replace(child=number[arcs.child]))


@dataclass(frozen=True, slots=True)
class LastStep:
    """What is expected of the observer at every node before the last observation, and the derivatives."""

    entropy: FloatArray  # [node]: expected H(Z | y) in bits
    error: FloatArray  # [node]: expected guess error
    slope: Any  # [edge]: d opacity / d flow, empty if not asked for
    num_done: int  # how many nodes were dealt with before the work was asked to stop


def last_step(chain: Chain, graph: Graph, *, with_slope: bool = False) -> LastStep:
    """The last observation, and the backward sweep if the slope is asked for (the graph must have kept its levels).

    Raises StoppedError when a slope is asked for and the work was asked to stop.
    """
    moves, pairs, work = chain.moves, chain.pairs, chain.work
    slope = np.zeros(moves.flow.size if with_slope else 0, moves.flow.dtype)
    entropy, error, adjoint, num_done = kernels.last_step(graph.last, moves, pairs, work, with_slope, slope)
    if with_slope:
        for level, child in zip(graph.levels[-2::-1], graph.levels[:0:-1], strict=True):
            adjoint = kernels.backward_step(level.nodes, child.arcs, child.nodes, adjoint, moves, pairs, slope, work)
        chain.stop.check()
    return LastStep(entropy, error, slope, int(num_done))


def unfinished_cost(chain: Chain, graph: Graph, end: LastStep, budget: Budget) -> FloatArray:
    """(mass, opacity, guess error) of the nodes that the last step did not deal with."""
    left = np.arange(end.num_done, graph.last.mass.size)
    return _Trimmer(chain, budget, keep=False).cost(graph.last, chain.process.horizon - 1, left)
