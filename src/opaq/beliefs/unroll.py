"""Build the belief graph of a chain, level by level, within a budget.

Dropping nodes is a certificate: a node of mass m whose secret has predicted entropy h adds between 0 and m h bits,
    since later observations only lower the expected entropy (H(Z | Y) <= H(Z | node)). So

    H_kept <= H(Z | Y) <= H_kept + sum over dropped nodes of m h,

and the same holds for the guess error and every other uncertainty. `Graph.dropped` is that sum: mass, opacity, guess
error, then every further leaf.

Thinning is an estimate: instead of dropping the lightest nodes, some of them are drawn, node n with probability p_n,
and those weigh 1 / p_n times as much: the expected value is then that of the whole graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.expansion import NEVER, expand_kept_levels, expand_levels
from opaq.beliefs.graph import (
    DROPPED,
    PART_NODES,
    Arcs,
    Budget,
    Chain,
    Graph,
    Level,
    Limit,
    Nodes,
    NumberArray,
    Room,
    SettledArcs,
)
from opaq.beliefs.large_levels import expand_level
from opaq.beliefs.secret_prediction import SECONDS_AFTER_STOP, SecretPredictions
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.uncertainty import Uncertainty
from opaq.stop import Deadline

_NO_LIMIT = 2**62
_BYTES_PER_ENTRY, _BYTES_PER_NODE = 48, 256  # of two levels under construction
_BYTES_WITH_ARCS = 256  # per entry, the arcs between the two levels and nodes of one entry included
_LEAST_BYTES = 1 << 18
_BYTES_A_PREDICTION = 32
_LEAST_ENTROPY = 0.1  # of the largest, in the importance of a node that may be thinned out


@dataclass(slots=True)
class Trimmer:
    """Keeps a level within the budget and adds up what that costs: mass, opacity, guess error, then every leaf.

    chain, budget: what is unrolled, and how much may be kept.
    keep: every level is kept, so that bytes add up over levels; otherwise only two levels exist at a time.
    leaves: further uncertainties whose cost is added up.
    whole, sampled: nothing may be dropped, by demand or since dropping sampled runs would bias the estimate.
    The predictions that costs need are made when something is dropped for the first time.
    """

    chain: Chain
    budget: Budget
    keep: bool
    leaves: tuple[Uncertainty, ...] = ()
    whole: bool = False  # nothing may be dropped
    sampled: bool = False  # sampled runs are all kept: without some of them the estimate would be biased
    thin: np.random.Generator | None = None  # draw among the nodes that do not fit, instead of dropping the lightest
    _predictions: SecretPredictions | None = None

    @property
    def nothing(self) -> FloatArray:
        """The cost of dropping nothing: zeros [3 + leaf]."""
        return np.zeros(3 + len(self.leaves))

    @property
    def may_skip_ahead(self) -> bool:
        """True if small levels need no check: nothing is dropped on purpose."""
        return self.sampled or self.whole or self.budget.mass == 0.0

    @property
    def max_nodes(self) -> int:
        """The most nodes of a level; no limit for sampled runs."""
        if self.sampled:
            return _NO_LIMIT
        return self.budget.most_whole if self.whole else self.budget.nodes

    @property
    def small_level(self) -> int:
        """The most nodes of a level that is expanded together with others; one of sampled runs may have more."""
        return PART_NODES if self.sampled and self.keep else min(_SMALL_LEVEL, PART_NODES)

    def room(self, used: int) -> Room:
        """Return the memory that the next level may take before expansion stops, `used` bytes being taken already."""
        total = _NO_LIMIT if self.sampled else max(self.budget.memory - used, _LEAST_BYTES)
        return Room(total, _BYTES_WITH_ARCS, 0) if self.keep else Room(total, _BYTES_PER_ENTRY, _BYTES_PER_NODE)

    def room_ahead(self, used: int) -> Room:
        """Return the memory for small levels that are made in one call: so little that none need be trimmed."""
        room = self.room(used)
        if self.sampled or not self.keep:
            return room
        return room._replace(total=max(self.budget.memory - used, 0) // 4)

    def check_limits(self, level: Level, used: int, *, complete: bool) -> Limit | None:
        """Return the limit that a level of a graph of which nothing may be dropped exceeds; None: it fits.

        used: bytes of the levels before. complete: whether every node before the level was expanded.
        """
        if not complete:
            return "memory"
        if level.num_nodes > self.max_nodes:
            return "beliefs"
        return None if level.num_nodes <= 1 or level.num_bytes <= self._share(used) else "memory"

    def _share(self, used: int) -> int:
        """Return the bytes for one level: half of what is left, so that kept levels leave the next one its half."""
        return max((self.budget.memory - used) // 2, 1)

    def trim(self, level: Level, time: int, used: int) -> tuple[Level, FloatArray]:
        """Drop the nodes that matter least until the level fits; return the level and what that cost.

        The nodes with the least mass times predicted entropy go first. time: of the level's last observation. used:
        bytes of the levels before.
        """
        if self.sampled or self.chain.stop.requested:  # after a stop there is no next level to make room for
            return level, self.nothing
        allowance, share = self.budget.mass / (self.chain.process.horizon + 1), self._share(used)
        fits = level.num_nodes <= self.budget.nodes and level.num_bytes <= share
        if level.num_nodes <= 1 or (fits and allowance == 0.0):
            return level, self.nothing
        costs = self._costs(level.nodes, time, np.arange(level.num_nodes))
        ranked = costs[:, 1 if self.chain.process.num_secrets > 1 else 0]  # by mass where nothing is secret
        order = np.argsort(-ranked, kind="stable")
        spare = int((np.cumsum(costs[order[::-1], 0]) <= allowance).sum())
        room = level.num_nodes if fits else min(self.budget.nodes, level.num_nodes * share // level.num_bytes)
        count = max(min(room, level.num_nodes - spare), 1)
        if count == level.num_nodes:
            return level, self.nothing
        if self.thin is not None:
            return self._thin_out(level, costs, count), self.nothing
        return _take_nodes(level, order[:count]), costs[order[count:]].sum(axis=0)

    def _thin_out(self, level: Level, costs: FloatArray, count: int) -> Level:
        """Draw about `count` nodes; each weighs as much more as it was unlikely to be kept.

        Node n is kept with probability p_n = min(1, c importance_n), c such that the p_n sum to `count`, by systematic
        sampling. The importance is mass times predicted entropy, with a little of the largest entropy added.
        """
        assert self.thin is not None
        importance = costs[:, 1] + _LEAST_ENTROPY * math.log2(max(self.chain.process.num_secrets, 2)) * costs[:, 0]
        order = np.argsort(-importance, kind="stable")
        ranked = importance[order]
        left = np.cumsum(ranked[::-1])[::-1]  # [rank]: importance of this node and all lighter ones
        certain = int((ranked * (count - np.arange(ranked.size)) >= left)[:count].sum())
        share = np.ones(ranked.size)
        if certain < ranked.size:
            share[certain:] = np.minimum(ranked[certain:] * ((count - certain) / max(left[certain], _TINY_MASS)), 1.0)
        steps = np.floor(np.cumsum(share) + self.thin.random())
        kept = np.diff(steps, prepend=0.0) >= 1.0
        kept[:certain] = True
        return _take_nodes(level, order[kept], 1.0 / share[kept])

    def cost(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        """Return what dropping the chosen nodes costs: [3 + leaf], zeros for none."""
        return self._costs(nodes, time, chosen).sum(axis=0) if chosen.size else self.nothing

    def _costs(self, nodes: Nodes, time: int, chosen: IntArray) -> FloatArray:
        """Return [chosen node, 3 + leaf]: mass, then mass times every predicted uncertainty.

        When the stop is requested, what is not predicted within a moment counts as uncertain as it can be.
        """
        if self._predictions is None:
            entries = max(self.budget.memory // (8 * _BYTES_A_PREDICTION), 1024)
            flow, stop = np.real(self.chain.moves.flow), self.chain.stop
            self._predictions = SecretPredictions.of(self.chain.process, flow, max_entries=entries, stop=stop)
        predictions, clock = self._predictions, Deadline(SECONDS_AFTER_STOP)

        def cost_part(chain: Chain, first: int, last: int) -> FloatArray:
            part, states = chosen[first:last], chain.pairs.state
            known = -1 if chain.stop.requested and clock.passed else time
            uncertainties = predictions.uncertainty(nodes, known, part, pair_state=states, leaves=self.leaves)
            mass = np.real(nodes.mass[part])
            return np.stack([mass, *(mass * per_unit for per_unit in uncertainties)], axis=1)

        return np.concatenate(list(self.chain.map_parts(cost_part, chosen.size)))


def _take_nodes(level: Level, chosen: IntArray, weight: FloatArray | None = None) -> Level:
    """Return the level with only the chosen nodes, in this order; arcs to the others lead to DROPPED.

    weight: [chosen], what their masses are multiplied by; None: 1.
    """
    nodes, arcs = level.nodes, level.arcs
    _, entry = expand_rows(nodes.start, chosen)
    counts = nodes.start[chosen + 1] - nodes.start[chosen]
    number = np.full(level.num_nodes, DROPPED, dtype=np.int32)
    number[chosen] = np.arange(chosen.size)
    kept = Nodes(
        np.concatenate(([0], np.cumsum(counts))),
        nodes.pair[entry],
        nodes.belief[entry],
        nodes.mass[chosen] if weight is None else nodes.mass[chosen] * weight,
        nodes.best[chosen],
        nodes.parent[chosen],
        nodes.observation[chosen],
        nodes.runs[chosen],
    )
    return replace(level, nodes=kept, arcs=arcs._replace(child=number[arcs.child]))


def _strip(level: Level) -> Level:
    """Return the level without the numbers of its nodes."""
    numbers: list[Any] = [np.empty(0, array.dtype) for array in level.nodes[2:]]
    return replace(level, nodes=Nodes(level.nodes.start, level.nodes.pair, *numbers))


OnLevel = Callable[[int, int], None]
_NO_NUMBERS = np.zeros(0)
_SMALL_LEVEL = 512  # levels of at most this many nodes are made many at a time
_LEVELS_A_CALL = 256
_MOST_DRAWS = 1 << 18  # uniform numbers drawn at once where levels are kept
_MOST_LEVELS = 100  # a graph with more nodes than this many full levels is not built as a whole
_TINY_MASS = 1e-300


def _make_root(chain: Chain, samples: int) -> Level:
    """Return level 0, before anything is seen: the source for certain, with mass 1 and all sampled runs."""
    one: NumberArray = np.ones_like(chain.moves.flow[:1])
    source = np.array([chain.pairs.state.size - 1], dtype=np.uint32)
    zero, runs = np.zeros(1, dtype=np.int32), np.array([samples], dtype=np.int32)
    return _level_without_arcs(Nodes(np.array([0, 1]), source, one, one, np.ones(1), zero, zero, runs))


def _level_without_arcs(nodes: Nodes) -> Level:
    """Return a level of which only the nodes are known."""
    nothing, no_child = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    return Level(nodes, Arcs(nothing, no_child, _NO_NUMBERS), SettledArcs(nothing, nothing, nothing, _NO_NUMBERS))


def unroll(
    chain: Chain,
    *,
    steps: int,
    budget: Budget | None = None,
    keep: bool = False,
    shape_only: bool = False,
    whole: bool = False,
    leaves: Sequence[Uncertainty] = (),
    samples: int = 0,
    rng: np.random.Generator | None = None,
    thin: bool = False,
    early: bool = False,
    on_level: OnLevel | None = None,
) -> Graph:
    """Build the belief graph after `steps` observations.

    budget: nodes, mass and memory that may be kept; the default budget unless given.
    keep: keep every level and its arcs, for gradients and for naming sequences; otherwise the last level only.
    shape_only: of the levels before the last one keep only the entries and the arcs, for graphs of frozen shape.
    whole: the first level that does not fit the budget (or very many levels that do) ends the work: the graph returned
        is not whole then, and `limit` says why.
    leaves: further uncertainties whose dropped part is added up.
    samples, rng: follow only the observations that so many sampled runs make; such a graph is never trimmed.
    thin: draw the nodes that fit by `rng`, instead of dropping the lightest ones: values are then unbiased estimates.
    early: settle beliefs whose secret the steps that are left cannot change, where only the end counts; otherwise those
        whose secret never changes again.
    on_level: called with (levels done, nodes so far).
    When the chain's stop is requested, what has not been expanded counts as dropped.
    """
    trimmer = Trimmer(chain, budget or Budget(), keep, leaves=tuple(leaves), whole=whole, sampled=samples > 0)
    if thin:
        trimmer.thin, rng = rng, None
    level = _make_root(chain, samples)
    levels, num_nodes, num_entries, settled_mass, used, time = [level], 1, 1, 0.0, 0, 0
    dropped, limit, thinned = trimmer.nothing, None, False
    while time < steps and limit is None:
        stopped = chain.stop.requested
        if stopped:  # what has not been expanded counts as dropped
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(level.num_nodes))
            levels = [*levels[:-1], _take_nodes(level, np.zeros(0, dtype=np.int64))]
            break
        left = chain.process.horizon - time if early else NEVER
        if trimmer.may_skip_ahead and level.num_nodes <= trimmer.small_level:
            ahead = _expand_small_levels(chain, level, trimmer, rng, left=left, steps=steps - time, used=used)
            if ahead.levels:
                if on_level is not None:
                    ahead.report(on_level, time, num_nodes)
                num_nodes, num_entries = num_nodes + ahead.num_nodes, num_entries + ahead.num_entries
                settled_mass, time = settled_mass + ahead.settled_mass, time + ahead.num_levels
                level = ahead.levels[-1]
                levels = [*levels, *ahead.levels] if keep else [level]
                if keep and shape_only:
                    levels = [*(_strip(each) for each in levels[:-1]), level]
                if keep and time < steps:
                    used += sum(each.num_bytes for each in ahead.levels)
                limit = _check_total_size(chain, trimmer.budget, num_nodes, num_entries) if whole else None
                continue
        draws = _draw_uniforms(_count_runs(level, rng), rng)
        room = trimmer.room(used)
        child, reached, settled = expand_level(chain, level.nodes, left=left, draws=draws, keep_arcs=keep, room=room)
        stopped = chain.stop.requested
        if stopped and time + 1 < steps:
            continue
        if whole and not stopped:
            limit = trimmer.check_limits(child, used, complete=reached == level.num_nodes)
        else:
            dropped = dropped + trimmer.cost(level.nodes, time - 1, np.arange(reached, level.num_nodes))
            made = child.num_nodes
            child, cost = trimmer.trim(child, time, used)
            dropped, thinned = dropped + cost, thinned or (thin and child.num_nodes < made)
        num_nodes += child.num_nodes
        num_entries += child.nodes.pair.size
        settled_mass += settled
        used = used + child.num_bytes if keep else 0
        if keep and shape_only:
            levels[-1] = _strip(level)
        levels = [*levels, child] if keep else [child]
        level = child
        time += 1
        if on_level is not None:
            on_level(time, num_nodes)
        if whole and limit is None:
            limit = _check_total_size(chain, trimmer.budget, num_nodes, num_entries)
    if limit is not None:
        dropped[0] = max(dropped[0], _TINY_MASS)
    return Graph(tuple(levels), num_nodes, num_entries, settled_mass, dropped, limit, thinned)


def _check_total_size(chain: Chain, budget: Budget, num_nodes: int, num_entries: int) -> Limit | None:
    """Return the limit that all levels together exceed, if any."""
    if num_nodes > _MOST_LEVELS * budget.most_whole:
        return "beliefs"
    if budget.whole_work is None:
        return None
    per_state = chain.moves.target.size + chain.pairs.state.size  # edges that leave it, observations made in it
    return "work" if num_entries * per_state > budget.whole_work * chain.process.num_states else None


def _count_runs(level: Level, rng: np.random.Generator | None) -> int:
    """Return how many sampled runs pass the nodes of a level; 0 where nothing is sampled."""
    return int(level.nodes.runs.sum()) if rng is not None else 0


def _draw_uniforms(count: int, rng: np.random.Generator | None) -> FloatArray:
    """Return so many uniform numbers, none where nothing is sampled."""
    return rng.random(count) if rng is not None and count else np.zeros(0)


class _Ahead(NamedTuple):
    """Small levels that were made in one call."""

    levels: Sequence[Level]  # all of them where levels are kept, otherwise the last
    num_levels: int
    num_nodes: int
    num_entries: int
    settled_mass: float

    def report(self, on_level: OnLevel, time: int, num_nodes: int) -> None:
        """Call `on_level` for every level that is kept, or for the last; time, num_nodes: of the levels before."""
        if len(self.levels) < self.num_levels:
            on_level(time + self.num_levels, num_nodes + self.num_nodes)
            return
        for done, level in enumerate(self.levels, start=time + 1):
            num_nodes += level.num_nodes
            on_level(done, num_nodes)


def _expand_small_levels(
    chain: Chain,
    level: Level,
    trimmer: Trimmer,
    rng: np.random.Generator | None,
    *,
    left: int,
    steps: int,
    used: int,
) -> _Ahead:
    """Expand several small levels in one call, up to one that is no longer small, or before one that does not fit.

    steps: the most levels. used: bytes of the levels before.
    """
    runs = _count_runs(level, rng)
    at_once = min(steps, _LEVELS_A_CALL, max(_MOST_DRAWS // max(runs, 1), 1) if trimmer.keep else _LEVELS_A_CALL)
    room, most, small = trimmer.room_ahead(used), trimmer.max_nodes, trimmer.small_level
    state = rng.bit_generator.state if rng is not None and runs and trimmer.keep else None
    draws = _draw_uniforms(at_once * runs, rng)
    if not trimmer.keep:
        most = min(most, small)  # larger ones are reported, and have their numbers drawn, by themselves
        made = expand_levels(chain, level.nodes, left=left, draws=draws, room=room, levels=at_once, max_nodes=most)
        last = [_level_without_arcs(made.nodes)] if made.levels else []
        return _Ahead(last, made.levels, made.num_nodes, made.num_entries, made.settled_mass)
    levels, settled_mass, drawn = expand_kept_levels(
        chain, level.nodes, left=left, draws=draws, room=room, levels=at_once, max_nodes=most, small=small
    )
    if state is not None and rng is not None and drawn < draws.size:  # as if every level had drawn its own
        rng.bit_generator.state = state
        rng.random(drawn)
    num_nodes, num_entries = sum(each.num_nodes for each in levels), sum(each.nodes.pair.size for each in levels)
    return _Ahead(levels, len(levels), num_nodes, num_entries, settled_mass)
