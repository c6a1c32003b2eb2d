"""The belief graph: every distinct belief the observer can hold, level by level.

For one observation sequence y the observer's belief is alpha_y(x) = P(y, x_t = x). Opacity is a sum over y of a
positively homogeneous function of alpha_y, so sequences with proportional beliefs share one node that carries their
total mass, and one backward sweep gives the whole gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from opaq.beliefs import kernels
from opaq.beliefs.kernels import Arcs, ChainEdges, Nodes, SettledArcs
from opaq.errors import check_numbers
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop

Limit = Literal["beliefs", "memory", "work"]
DROPPED = -1  # the child of an arc whose node was dropped


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the graph may be kept; what is dropped widens the answer into an interval.

    nodes: the most nodes kept on one level; mass: how much probability may be dropped on purpose in all;
    memory: bytes for the graph; whole_nodes: the most nodes on one level of a graph that is kept whole (None: as
    `nodes`); whole_work: the most operations for such a graph, entries moved along edges and to observations (None: no
    limit).
    """

    nodes: int = 500_000
    mass: float = 0.0
    memory: int = 4 << 30
    whole_nodes: int | None = None
    whole_work: float | None = None

    @property
    def most_whole(self) -> int:
        """The most nodes on one level of a graph that is kept whole."""
        return self.nodes if self.whole_nodes is None else self.whole_nodes

    def __post_init__(self) -> None:
        limits = {
            "nodes": (self.nodes, 1, 10**12),
            "mass": (self.mass, 0, 1),
            "memory": (self.memory, 1, 2**60),
            "whole_nodes": (self.whole_nodes, 1, 2**63),
            "whole_work": (self.whole_work, 0, math.inf),
        }
        check_numbers(limits, whole=("nodes", "memory", "whole_nodes"), optional=("whole_nodes", "whole_work"))


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The beliefs after one more observation, how the level before leads to them, and what was settled on the way."""

    nodes: Nodes
    arcs: Arcs
    known: SettledArcs

    @property
    def num_nodes(self) -> int:
        """How many beliefs there are."""
        return int(self.nodes.mass.size)

    @property
    def num_bytes(self) -> int:
        """Memory taken."""
        return sum(int(array.nbytes) for part in (self.nodes, self.arcs, self.known) for array in part)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A belief graph, or its last level only, and what was left out of it.

    Level 0 is the root, before anything is seen; level t + 1 holds the beliefs after o_0 .. o_t.
    """

    levels: tuple[Level, ...]
    num_nodes: int
    num_entries: int
    settled_mass: float  # of the sequences that settled the secret before the last observation
    dropped: FloatArray  # [1 + leaf]: mass of the dropped nodes, and the most they could add to every uncertainty
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped

    @property
    def last(self) -> Nodes:
        """The nodes of the last level."""
        return self.levels[-1].nodes

    @property
    def dropped_mass(self) -> float:
        """The probability of the sequences that were left out."""
        return float(self.dropped[0])

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.dropped_mass == 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A hidden process under one policy, laid out for the kernels."""

    process: HiddenProcess
    moves: ChainEdges
    pairs: Pairs
    work: kernels.Scratch
    stop: Stop

    @classmethod
    def of(cls, process: HiddenProcess, pi: Any, *, stop: Stop | None = None) -> Chain:
        """For one policy vector, real or complex; `stop` ends kernels that run when it is requested."""
        stop = stop or Stop()
        moves = ChainEdges(*process.edges, process.flow(pi))
        pairs = process.pairs
        work = kernels.scratch(
            num_states=process.num_states,
            num_observations=process.num_observations,
            num_pairs=pairs.state.size,
            num_cells=pairs.cell_observation.size,
            like=moves.flow,
            stop=stop.cell(),
        )
        return cls(process, moves, pairs, work, stop)
