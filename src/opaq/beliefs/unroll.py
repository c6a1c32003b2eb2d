"""Building the belief graph of a chain, level by level, within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from opaq.beliefs.expansion import expand, expand_levels
from opaq.beliefs.graph import DROPPED, Budget, Chain, Graph, Level, Limit
from opaq.beliefs.kernels import Arcs, Nodes, NumberArray, Room, SettledArcs
from opaq.beliefs.returns import moves
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.uncertainty import MassRows, Uncertainty
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_MAX_ENTRIES = 20_000_000
_MOMENT = 0.2  # seconds for predictions when the work was asked to stop: without them the interval is trivial
_TINY = 1e-300  # stands for 0 under a logarithm


@dataclass(frozen=True, slots=True)
class Futures:
    """P(Z = z | x_t = x) for the last times of the horizon; earlier ones, if too large, are bounded crudely."""

    predictions: tuple[Any, ...]  # [time counted from the end] -> sparse [state, secret value]
    horizon: int
    num_secrets: int

    @classmethod
    def of(
        cls,
        process: HiddenProcess,
        flow: FloatArray,
        *,
        steps: int | None = None,
        max_entries: int = _MAX_ENTRIES,
        stop: Stop | None = None,
    ) -> Futures:
        """Predict backwards from the horizon, all the way or a number of steps, while it stays affordable.

        When `stop` is requested, only as far as a moment allows.
        """
        from scipy.sparse import csr_array

        size, onward = process.num_states, moves(process, flow)
        shape = (size, process.num_secrets)
        predictions = [csr_array((np.ones(size), (np.arange(size), process.secret)), shape=shape)]
        entries, begun, stop = size, perf_counter(), stop or Stop()
        for _ in range(process.horizon if steps is None else steps):
            predictions.append(csr_array(onward @ predictions[-1]))
            entries += predictions[-1].nnz
            if entries > min(max_entries, _MAX_ENTRIES) or (stop.requested and perf_counter() - begun > _MOMENT):
                break
        return cls(tuple(predictions), process.horizon, process.num_secrets)

    def doubt(
        self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any, leaves: Sequence[Uncertainty] = ()
    ) -> tuple[FloatArray, ...]:
        """Entropy and guess error of the secret predicted from the chosen nodes (time -1: before the run).

        Then, for every leaf, how far it is above what is left when the secret is known.
        """
        ahead = self.horizon - time
        if time < 0 or ahead >= len(self.predictions):
            largest = [leaf.largest_excess for leaf in leaves]
            crude = (math.log2(self.num_secrets), 1.0 - 1.0 / self.num_secrets, *largest)
            return tuple(np.full(chosen.size, most) for most in crude)
        outlook = self.outlook(nodes, time, chosen, pair_state=pair_state)
        entropy = -_row_totals(outlook, outlook.data * np.log2(np.maximum(outlook.data, _TINY)))
        error = 1.0 - np.asarray(outlook.max(axis=1).todense()).reshape(-1)
        rows = MassRows.of(outlook.indptr.astype(np.int64), outlook.indices) if leaves else None
        others = [] if rows is None else [rows.evaluate(leaf, outlook.data)[0] for leaf in leaves]
        return tuple(np.maximum(amounts, 0.0) for amounts in (entropy, error, *others))

    def outlook(self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any) -> Any:
        """P(Z = z | node) as a sparse matrix [node, secret value]."""
        from scipy.sparse import csr_array

        _, entry = expand_rows(nodes.start, chosen)
        starts = np.concatenate(([0], np.cumsum(nodes.start[chosen + 1] - nodes.start[chosen])))
        prediction = self.predictions[self.horizon - time]
        shape = (chosen.size, prediction.shape[0])
        beliefs = csr_array((np.real(nodes.belief[entry]), pair_state[nodes.pair[entry]], starts), shape=shape)
        return csr_array(beliefs @ prediction)


def _row_totals(matrix: Any, values: FloatArray) -> FloatArray:
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.bincount(owner, weights=values, minlength=matrix.shape[0]).astype(np.float64)


_NO_LIMIT = 2**62
_BYTES_PER_ENTRY, _BYTES_PER_NODE = 48, 256  # of two levels under construction
_BYTES_WITH_ARCS = 256  # per entry, the arcs between the two levels and nodes of one entry included
_LEAST_BYTES = 1 << 18
_BYTES_A_PREDICTION = 32


@dataclass(slots=True)
class Trimmer:
    """Keeps a level within the budget and adds up what that costs: mass, opacity, guess error, then every leaf."""

    chain: Chain
    budget: Budget
    keep: bool
    leaves: tuple[Uncertainty, ...] = ()
    whole: bool = False  # nothing may be dropped
    sampled: bool = False  # sampled runs are all kept: without some of them the estimate would be biased
    _futures: Futures | None = None

    @property
    def nothing(self) -> FloatArray:
        """What it costs to drop nothing."""
        return np.zeros(3 + len(self.leaves))

    @property
    def may_skip_ahead(self) -> bool:
        """Whether small levels need no look: nothing is dropped on purpose, and no level is kept."""
        return not self.keep and (self.sampled or self.whole or self.budget.mass == 0.0)

    @property
    def max_nodes(self) -> int:
        """The most nodes of a level."""
        if self.sampled:
            return _NO_LIMIT
        return self.budget.most_whole if self.whole else self.budget.nodes

    def room(self, used: int) -> Room:
        """The memory that the next level may take before expansion stops."""
        total = _NO_LIMIT if self.sampled else max(self.budget.memory - used, _LEAST_BYTES)
        return Room(total, _BYTES_WITH_ARCS, 0) if self.keep else Room(total, _BYTES_PER_ENTRY, _BYTES_PER_NODE)

    def exceeded(self, level: Level, used: int, *, complete: bool) -> Limit | None:
        """Return what stops a graph of which nothing may be dropped at this level; None: the level fits.

        complete: whether every node before the level was expanded.
        """
        if not complete:
            return "memory"
        if level.num_nodes > self.max_nodes:
            return "beliefs"
        return None if level.num_nodes <= 1 or level.num_bytes <= self._share(used) else "memory"

    def _share(self, used: int) -> int:
        """Bytes for one level: of what is left, kept levels leave the next one its half."""
        return max((self.budget.memory - used) // 2, 1)

    def trim(self, level: Level, time: int, used: int) -> tuple[Level, FloatArray]:
        """Drop the nodes that matter least until the level fits."""
        if self.sampled:
            return level, self.nothing
        allowance, share = self.budget.mass / (self.chain.process.horizon + 1), self._share(used)
        fits = level.num_nodes <= self.budget.nodes and level.num_bytes <= share
        if level.num_nodes <= 1 or (fits and allowance == 0.0):
            return level, self.nothing
        costs = self._costs(level.nodes, time, np.arange(level.num_nodes))
        order = np.argsort(-costs[:, 1], kind="stable")
        spare = int((np.cumsum(costs[order[::-1], 0]) <= allowance).sum())
        room = level.num_nodes if fits else min(self.budget.nodes, level.num_nodes * share // level.num_bytes)
        count = max(min(room, level.num_nodes - spare), 1)
        if count == level.num_nodes:
            return level, self.nothing
        return take(level, order[:count]), costs[order[count:]].sum(axis=0)

    def cost(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        """What dropping the chosen nodes costs."""
        return self._costs(nodes, time, chosen).sum(axis=0) if chosen.size else self.nothing

    def _costs(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        if self._futures is None:
            entries = max(self.budget.memory // (8 * _BYTES_A_PREDICTION), 1024)
            flow, stop = np.real(self.chain.moves.flow), self.chain.stop
            self._futures = Futures.of(self.chain.process, flow, max_entries=entries, stop=stop)
        doubts = self._futures.doubt(nodes, time, chosen, pair_state=self.chain.pairs.state, leaves=self.leaves)
        mass = np.real(nodes.mass[chosen])
        return np.stack([mass, *(mass * doubt for doubt in doubts)], axis=1)


def take(level: Level, chosen: IntArray) -> Level:
    """The level with only these nodes, in this order."""
    nodes, arcs = level.nodes, level.arcs
    _, entry = expand_rows(nodes.start, chosen)
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


OnLevel = Callable[[int, int], None]
_NO_NUMBERS = np.zeros(0)
_SMALL_LEVEL = 512  # levels of at most this many nodes are made many at a time
_LEVELS_A_CALL = 256
_MOST_LEVELS = 100  # a graph with more nodes than this many full levels is not built as a whole
_TINY_MASS = 1e-300


def _root(chain: Chain, samples: int) -> Level:
    """Before anything is seen: the source for certain."""
    one: NumberArray = np.ones_like(chain.moves.flow[:1])
    source = np.array([chain.pairs.state.size - 1], dtype=np.uint32)
    zero, zero32 = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32)
    return _bare(Nodes(np.array([0, 1]), source, one, one, np.ones(1), zero, zero32, np.array([samples])))


def _bare(nodes: Nodes) -> Level:
    """A level of which only the nodes are known."""
    nothing = np.zeros(0, dtype=np.int64)
    return Level(nodes, Arcs(nothing, nothing, _NO_NUMBERS), SettledArcs(nothing, nothing, nothing, _NO_NUMBERS))


def unroll(
    chain: Chain,
    *,
    steps: int,
    budget: Budget | None = None,
    keep: bool = False,
    whole: bool = False,
    leaves: Sequence[Uncertainty] = (),
    samples: int = 0,
    rng: np.random.Generator | None = None,
    on_level: OnLevel | None = None,
) -> Graph:
    """The belief graph after `steps` observations; with `samples`, only what that many sampled runs visit.

    `keep` keeps every level, for gradients and for naming sequences. With `whole`, the first level that does not fit
    the budget (or very many levels that do) ends the work: the graph returned is not whole then, and says which limit
    it met. When the chain's stop is requested, what has not been expanded counts as dropped, for opacity, guess error
    and the `leaves`. A graph of sampled runs is never trimmed.
    `on_level` is told (levels done, nodes so far).
    """
    trimmer = Trimmer(chain, budget or Budget(), keep, leaves=tuple(leaves), whole=whole, sampled=samples > 0)
    level = _root(chain, samples)
    levels, num_nodes, num_entries, settled_mass, used, time = [level], 1, 1, 0.0, 0, 0
    dropped, limit = trimmer.nothing, None
    while time < steps and limit is None:
        if chain.stop.requested:  # what has not been expanded counts as dropped
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(level.num_nodes))
            levels = [*levels[:-1], take(level, np.zeros(0, dtype=np.int64))]
            break
        if trimmer.may_skip_ahead and level.num_nodes <= _SMALL_LEVEL:
            at_once = min(steps - time, _LEVELS_A_CALL)
            level, made, new_nodes, new_entries, settled = _steps(chain, level, trimmer, rng, steps=at_once)
            num_nodes, num_entries = num_nodes + new_nodes, num_entries + new_entries
            settled_mass, time = settled_mass + settled, time + made
            levels = [level]
            if made:
                _tell(on_level, time, num_nodes)
                limit = _exceeded(chain, trimmer.budget, num_nodes, num_entries) if whole else None
                continue
        child, reached, settled = _step(chain, level, rng, keep=keep, room=trimmer.room(used))
        if whole and not chain.stop.requested:
            limit = trimmer.exceeded(child, used, complete=reached == level.num_nodes)
        else:
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(reached, level.num_nodes))
            child, cost = trimmer.trim(child, time, used)
            dropped = dropped + cost
        num_nodes += child.num_nodes
        num_entries += child.nodes.pair.size
        settled_mass += settled
        used = used + child.num_bytes if keep else 0
        levels = [*levels, child] if keep else [child]
        level = child
        time += 1
        _tell(on_level, time, num_nodes)
        if whole and limit is None:
            limit = _exceeded(chain, trimmer.budget, num_nodes, num_entries)
    if limit is not None:
        dropped[0] = max(dropped[0], _TINY_MASS)
    return Graph(tuple(levels), num_nodes, num_entries, settled_mass, dropped, limit)


def _exceeded(chain: Chain, budget: Budget, num_nodes: int, num_entries: int) -> Limit | None:
    """What all levels together exceed."""
    if num_nodes > _MOST_LEVELS * budget.most_whole:
        return "beliefs"
    if budget.whole_work is None:
        return None
    per_state = chain.moves.target.size + chain.pairs.state.size  # edges that leave it, observations made in it
    return "work" if num_entries * per_state > budget.whole_work * chain.process.num_states else None


def _tell(on_level: OnLevel | None, levels: int, num_nodes: int) -> None:
    if on_level is not None:
        on_level(levels, num_nodes)


def _draws(level: Level, rng: np.random.Generator | None, *, levels: int) -> FloatArray:
    """One uniform number per sampled run and level; none where nothing is sampled."""
    runs = int(level.nodes.runs.sum()) if rng is not None else 0
    return rng.random((levels, runs)) if rng is not None and runs else np.zeros((levels, 0))


def _step(
    chain: Chain, level: Level, rng: np.random.Generator | None, *, keep: bool, room: Room
) -> tuple[Level, int, float]:
    """The next level, how many nodes of this one were expanded, and the mass that was settled."""
    draws, settled = _draws(level, rng, levels=1)[0], chain.process.settled
    *parts, reached, mass = expand(level.nodes, chain.moves, chain.pairs, settled, draws, chain.work, keep, room)
    return Level(*parts), int(reached), float(mass)


def _steps(
    chain: Chain, level: Level, trimmer: Trimmer, rng: np.random.Generator | None, *, steps: int
) -> tuple[Level, int, int, int, float]:
    """Several levels at once while they are small: the last one, how many, their nodes and entries, settled mass."""
    draws = _draws(level, rng, levels=steps)
    nodes, made, num_nodes, num_entries, settled = expand_levels(
        level.nodes,
        chain.moves,
        chain.pairs,
        chain.process.settled,
        draws,
        chain.work,
        steps,
        min(_SMALL_LEVEL, trimmer.max_nodes),
        trimmer.room(0),
    )
    return (_bare(nodes) if made else level), int(made), int(num_nodes), int(num_entries), float(settled)
