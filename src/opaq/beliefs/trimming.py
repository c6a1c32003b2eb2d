"""Dropping the beliefs that matter least, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.beliefs.futures import Futures
from opaq.beliefs.graph import DROPPED, Budget, Chain, Level, Limit
from opaq.beliefs.kernels import Nodes, Room
from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.model.leaf import Leaf

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
    leaves: tuple[Leaf, ...] = ()
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
