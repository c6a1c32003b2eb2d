"""The data of the belief graph, as Python and as compiled kernels see it.

Level 0 is the root, before anything is seen; level t + 1 holds the distinct normalised beliefs P(x_t | o_0 .. o_t) and
for each the total mass P(y) of the sequences y that lead to it. Beliefs are stored sparsely: node n owns the entries
start[n] .. start[n + 1] - 1, and an entry names a *pair* (state, observation that the state just emitted), so that its
state, its observation and E(o | x) are all at hand. Cost follows the support of the beliefs, not the number of states.

Conventions of all kernels:

- They work for real and for complex numbers. An imaginary part of size STEP carries a derivative along a direction (the
  complex-step method: Im f(x + i h d) / h = f'(x) d without cancellation), which turns gradients into Hessian-vector
  products.
- Zero is a value, never a mark: products of small probabilities underflow to 0. What has been visited is recorded in
  flags of its own, and every buffer is sized by what can be visited once.
- Kernels that loop over nodes read `work.stop` and return early when it is set; they return how many nodes they dealt
  with.
- Machine code is kept on disk by the time of its own file: after an edit of a function that another file's kernel
  calls, remove the __pycache__ folders.
- They give every array a name at their top, allocate nothing and return numbers only (see `kernel_cache`): Python makes
  the room, and calls again where it was not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from opaq.errors import check_numbers
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop
from opaq.threads import map_in_threads

_Outcome = TypeVar("_Outcome")
ShortArray = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
NumberArray = NDArray[np.float64] | NDArray[np.complex128]

STEP = 1e-20  # size of the imaginary part that carries a derivative
IMPOSSIBLE = 1e-290  # observations less likely than this are left out: dividing by less overflows
BITS = 1.0 / math.log(2.0)


class ChainEdges(NamedTuple):
    """The Markov chain under one policy: P_pi(x' | x) on edges ordered by state, those of the source last.

    The edges of state x are start[x] .. start[x + 1] - 1. The source, state number num_states, leads to every start
    state.
    """

    start: IndexArray  # [state + 2]
    target: IndexArray  # [edge]
    flow: NumberArray  # [edge], real or complex


class Nodes(NamedTuple):
    """The distinct beliefs of one level, sparsely."""

    start: IntArray  # [node + 1]
    pair: IndexArray  # [entry]
    belief: NumberArray  # [entry]: P(x | y), summing to 1 over a node; real or complex
    mass: NumberArray  # [node]: P(y), summed over the sequences of the node; real or complex
    best: FloatArray  # [node]: probability of its likeliest sequence
    parent: ShortArray  # [node]: the node which that sequence comes from
    observation: ShortArray  # [node]: the last observation
    runs: ShortArray  # [node]: how many sampled runs passed (0 when nothing is sampled)

    def part(self, first: int, last: int) -> Nodes:
        """Return the nodes first .. last - 1, as a level of their own."""
        if last - first == self.mass.size:
            return self
        entries = slice(self.start[first], self.start[last])
        per_node: list[Any] = [array[first:last] for array in self[3:]]
        start = self.start[first : last + 1] - self.start[first]
        return Nodes(start, self.pair[entries], self.belief[entries], *per_node)


class Room(NamedTuple):
    """Memory for two levels under construction: bytes in all, and how many an entry and a node take of them."""

    total: int
    per_entry: int
    per_node: int


class Arcs(NamedTuple):
    """Arcs from the nodes of one level to those of the next, ordered by parent.

    With sampled runs, weight is the factor count / (runs of the parent * P(o | parent)); it is empty where every weight
    is 1.
    """

    start: IntArray  # [node + 1]
    child: ShortArray  # [arc]
    weight: FloatArray  # [arc]


class SettledArcs(NamedTuple):
    """Continuations (node, observation) after which the secret is certain whatever follows; they get no node.

    Nothing about them is uncertain, so they add nothing to any excess; only their mass P(y) counts.
    """

    node: IntArray
    observation: IntArray
    value: IntArray
    mass: FloatArray


class Scratch(NamedTuple):
    """Working memory of kernels, clean between nodes, and the byte that asks a kernel to stop.

    "Clean" means: marked, listed and fill are all False or 0, and so is `expected`; other arrays may hold old numbers
    and are written before they are read. A kernel lists what it touched (touched, seen, cells) and cleans only that, so
    that a node costs no more than its support.
    """

    predicted: NumberArray  # [state]
    marked: BoolArray  # [state]: whether it is among the touched ones
    touched: IndexArray  # [state]: the marked states
    chance: NumberArray  # [observation]: P(o | node)
    fill: IndexArray  # [observation]: how many entries it has; 0 between nodes
    settled: IntArray  # [observation]
    runs: IntArray  # [observation]
    seen: IndexArray  # [observation]: those with entries
    pair: IndexArray  # [pair]: entries, a segment per observation
    value: NumberArray  # [pair]
    listed: BoolArray  # [cell]: whether it is among the listed cells; False between nodes
    cells: IndexArray  # [cell]: the listed cells
    cell_mass: NumberArray  # [cell]
    surprise: NumberArray  # [cell]
    largest: FloatArray  # [observation]
    expected: NumberArray  # [state]: 0 between nodes
    stop: ByteArray  # [1]: not 0 when the work should end


def new_numbers(size: int, like: NumberArray) -> NumberArray:
    """Return zeros of the same number type, real or complex."""
    return cast(NumberArray, np.zeros(size, like.dtype))


def new_scratch(
    *,
    num_states: int,
    num_observations: int,
    num_pairs: int,
    num_cells: int,
    like: NumberArray,
    stop: ByteArray,
) -> Scratch:
    """Return working memory for the kernels of one chain.

    like: any array of the chain; tells real from complex numbers.
    stop: [1] byte; kernels return early once it is not 0.
    """
    return Scratch(
        predicted=new_numbers(num_states + 1, like),
        marked=np.zeros(num_states + 1, np.bool_),
        touched=np.zeros(num_states + 1, np.uint32),
        chance=new_numbers(num_observations, like),
        fill=np.zeros(num_observations, np.uint32),
        settled=np.zeros(num_observations, np.int64),
        runs=np.zeros(num_observations, np.int64),
        seen=np.zeros(num_observations, np.uint32),
        pair=np.zeros(num_pairs, np.uint32),
        value=new_numbers(num_pairs, like),
        listed=np.zeros(num_cells, np.bool_),
        cells=np.zeros(num_cells, np.uint32),
        cell_mass=new_numbers(num_cells, like),
        surprise=new_numbers(num_cells, like),
        largest=np.zeros(num_observations, np.float64),
        expected=new_numbers(num_states + 1, like),
        stop=stop,
    )


Limit = Literal["beliefs", "memory", "work"]
PART_NODES = 1 << 13  # levels of more nodes are worked on in parts of so many
DROPPED = -1  # the child of an arc whose node was dropped


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on what is kept of a belief graph; what is dropped widens the answer into an interval.

    nodes: the most nodes kept on one level.
    mass: how much probability may be dropped on purpose in all, spread evenly over the levels.
    memory: bytes for the graph.
    whole_nodes: the most nodes on one level of a graph that must be kept whole (None: as `nodes`).
    whole_work: the most operations for such a graph, counting entries moved along edges and to observations (None: no
        limit).
    workers: the most threads that make and sweep the graph; what they return does not depend on it.
    Raises InputError for numbers outside their limits.
    """

    nodes: int = 500_000
    mass: float = 0.0
    memory: int = 4 << 30
    whole_nodes: int | None = None
    whole_work: float | None = None
    workers: int = 1

    @property
    def most_whole(self) -> int:
        """The most nodes on one level of a graph that must be kept whole."""
        return self.nodes if self.whole_nodes is None else self.whole_nodes

    def __post_init__(self) -> None:
        limits = {
            "nodes": (self.nodes, 1, 10**12),
            "mass": (self.mass, 0, 1),
            "memory": (self.memory, 1, 2**60),
            "whole_nodes": (self.whole_nodes, 1, 2**63),
            "whole_work": (self.whole_work, 0, math.inf),
            "workers": (self.workers, 1, 10**6),
        }
        whole = ("nodes", "memory", "whole_nodes", "workers")
        check_numbers(limits, whole=whole, optional=("whole_nodes", "whole_work"))


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The beliefs after one more observation, the arcs that lead to them, and the continuations settled on the way.

    nodes: the beliefs of this level.
    arcs: from the nodes of the level before to these; empty where arcs are not kept.
    known: continuations of the level before after which the secret is certain; empty where arcs are not kept.
    """

    nodes: Nodes
    arcs: Arcs
    known: SettledArcs

    @property
    def num_nodes(self) -> int:
        """Number of distinct beliefs."""
        return int(self.nodes.start.size - 1)

    @property
    def num_bytes(self) -> int:
        """Memory taken by all arrays of the level."""
        return sum(int(array.nbytes) for part in (self.nodes, self.arcs, self.known) for array in part)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A belief graph, or its last level only, and what was left out of it.

    levels: level 0 is the root; level t + 1 holds the beliefs after o_0 .. o_t. Without `keep` only the last one is
        there.
    """

    levels: tuple[Level, ...]
    num_nodes: int
    num_entries: int
    settled_mass: float  # of the sequences that settled the secret before the last observation
    dropped: FloatArray  # [3 + leaf]: mass dropped, and the most it could add to opacity, guess error, every leaf
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped
    thinned: bool = False  # whether nodes were drawn to stand for others too: values are unbiased estimates

    @property
    def last(self) -> Nodes:
        """Nodes of the last level."""
        return self.levels[-1].nodes

    @property
    def dropped_mass(self) -> float:
        """Probability of the sequences that were left out."""
        return float(self.dropped[0])

    @property
    def whole(self) -> bool:
        """True if nothing was left out."""
        return self.dropped_mass == 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A hidden process under one policy, laid out for the kernels, with their working memory.

    Not to be shared by threads: kernels write to `work`. Large levels are worked on in parts (`map_parts`), each with
    working memory of its own.
    """

    process: HiddenProcess
    moves: ChainEdges
    pairs: Pairs
    work: Scratch
    stop: Stop
    workers: int = 1

    @classmethod
    def of(
        cls, process: HiddenProcess, pi: Any, *, named: bool = False, stop: Stop | None = None, workers: int = 1
    ) -> Chain:
        """Lay out a process under one policy vector [slot], real or complex.

        named: keep observations that say the same apart, so that those of nodes and arcs are the observer's own.
        stop: ends kernels that are running once it is requested; optional.
        workers: the most threads that work on one level.
        """
        stop = stop or Stop()
        moves = ChainEdges(*process.edges, process.flow(pi))
        pairs = Pairs.of(process.emission, process.secret, merged=False) if named else process.pairs
        work = new_scratch(
            num_states=process.num_states,
            num_observations=process.num_observations,
            num_pairs=pairs.state.size,
            num_cells=pairs.cell_observation.size,
            like=moves.flow,
            stop=stop.cell(),
        )
        return cls(process, moves, pairs, work, stop, workers)

    def map_parts(self, function: Callable[[Chain, int, int], _Outcome], num_nodes: int) -> Iterator[_Outcome]:
        """Yield what a function returns for every part of a level, in order; parts are the same for all `workers`.

        function: called with a chain, whose working memory it may use, the first node of a part and the first after it.
        """
        if num_nodes <= PART_NODES:
            yield function(self, 0, num_nodes)
            return
        workers = self.workers if num_nodes > 3 * PART_NODES // 2 else 1  # half a part is no work for a thread

        def work_apart(first: int) -> _Outcome:
            memory = (np.zeros(array.shape, array.dtype) for array in self.work[:-1])
            apart = replace(self, work=Scratch._make([*memory, self.work.stop]))
            return function(apart, first, min(first + PART_NODES, num_nodes))

        yield from map_in_threads(work_apart, range(0, num_nodes, PART_NODES), workers=workers)
