"""Belief graphs of frozen shape: built once by hashing, then swept while only the policy changes.

While every probability that was positive stays positive, the supports of the beliefs, the arcs between them and the
merges that hold for every policy stay as they are; a sweep then only multiplies numbers, with no hashing and no search.
Merges that held at the policy the shape was built for by coincidence are found out: at every arc into a node that has
its belief already, one random projection of the belief is compared with the node's. The shape is not believed but
checked, and a sweep that finds a mismatch says so instead of giving a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from opaq.model.arrays import BoolArray, FloatArray, IntArray
from opaq.opacity import kernels
from opaq.opacity.beliefs import Budget, Chain, Graph, unroll
from opaq.opacity.kernels import Nodes, ShortArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_IMPOSSIBLE = 1e-290
_TOLERANCE = 1e-9  # of a projection, whose weights are between 1 and 2; merged beliefs agree to 4e-12


class Shape(NamedTuple):
    """The nodes of all levels, one level after the other, without their numbers."""

    entry_start: IntArray  # [node + 1]
    pair: ShortArray  # [entry]
    arc_start: IntArray  # [node + 1]: nodes of the last level have no arcs
    child: IntArray  # [arc]
    first_leaf: int  # the first node of the last level


class Buffers(NamedTuple):
    """The numbers of a sweep; the memory is used again by the next one."""

    belief: Any  # [entry]
    mass: Any  # [node]
    filled: BoolArray  # [node]: whether a sweep has given it its belief
    projection: FloatArray  # [node]
    adjoint: Any  # [entry]
    predicted: Any  # [state]: 0 between nodes
    expected: Any  # [state]: 0 between nodes


@dataclass(frozen=True, slots=True)
class FrozenGraph:
    """The belief graph of one process, to be evaluated at many policies near the one it was built for."""

    process: HiddenProcess
    shape: Shape
    weights: FloatArray  # [pair]: the random projection
    positive: BoolArray  # [edge]: which flows are positive
    num_nodes: int
    dropped_mass: float  # at the policy it was built for

    @classmethod
    def of(cls, process: HiddenProcess, pi: FloatArray, *, budget: Budget, stop: Stop | None = None) -> FrozenGraph:
        """Built at one policy vector; what does not fit the budget there is left out for good."""
        chain = Chain.of(process, pi, stop=stop)
        graph = unroll(chain, steps=process.horizon, budget=budget, keep=True)
        chain.stop.check()
        weights = 1.0 + np.random.default_rng(0x0BAC).random(chain.pairs.state.size)
        return cls(process, _shape(graph), weights, chain.moves.flow > 0.0, graph.num_nodes, graph.dropped_mass)

    def buffers(self, dtype: Any = np.float64) -> Buffers:
        """Memory for sweeps with real or complex numbers; one sweep at a time may use it."""
        num_nodes, num_entries = self.shape.entry_start.size - 1, self.shape.pair.size
        return Buffers(
            belief=np.empty(num_entries, dtype),
            mass=np.empty(num_nodes, dtype),
            filled=np.empty(num_nodes, np.bool_),
            projection=np.empty(num_nodes),
            adjoint=np.empty(num_entries, dtype),
            predicted=np.zeros(self.process.num_states + 1, dtype),
            expected=np.zeros(self.process.num_states + 1, dtype),
        )

    def sweep(self, pi: Any, buffers: Buffers, *, stop: Stop | None = None) -> tuple[float, Any] | None:
        """H(Z | Y) and its derivative by the policy vector, or None where the shape does not fit this policy.

        Raises StoppedError when `stop` is requested meanwhile.
        """
        chain = Chain.of(self.process, pi, stop=stop)
        if not np.array_equal(np.real(chain.moves.flow) > 0.0, self.positive):
            return None
        fits = _sweep_forward(self.shape, chain.moves, chain.pairs, self.weights, buffers, chain.work.stop)
        chain.stop.check()
        if not fits:
            return None
        slope = np.zeros(chain.moves.flow.size, chain.moves.flow.dtype)
        leaves = self._leaves(buffers)
        entropy, _, adjoint, _ = kernels.last_step(leaves, chain.moves, chain.pairs, chain.work, True, slope)
        buffers.adjoint[self.shape.entry_start[self.shape.first_leaf] :] = adjoint
        _sweep_backward(self.shape, chain.moves, chain.pairs, buffers, slope, chain.work.stop)
        chain.stop.check()
        return float(np.real(leaves.mass) @ entropy), self.process.edge_slots.T @ slope

    def _leaves(self, buffers: Buffers) -> Nodes:
        shape = self.shape
        first = int(shape.entry_start[shape.first_leaf])
        mass = buffers.mass[shape.first_leaf :]
        none, none32, zeros = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
        starts = shape.entry_start[shape.first_leaf :] - first
        return Nodes(starts, shape.pair[first:], buffers.belief[first:], mass, zeros, none, none32, none)


def _shape(graph: Graph) -> Shape:
    """All levels of a graph as one; arcs to dropped nodes are left out."""
    sizes = [level.num_nodes for level in graph.levels]
    first = np.concatenate(([0], np.cumsum(sizes)))
    counts = np.concatenate([np.diff(level.nodes.start) for level in graph.levels])
    arc_counts, children = [], []
    for depth, level in enumerate(graph.levels[1:], start=1):
        owner = np.repeat(np.arange(sizes[depth - 1]), np.diff(level.arcs.start))
        kept = level.arcs.child >= 0
        arc_counts.append(np.bincount(owner[kept], minlength=sizes[depth - 1]))
        children.append(level.arcs.child[kept] + first[depth])
    arc_counts.append(np.zeros(sizes[-1], dtype=np.int64))
    return Shape(
        entry_start=np.concatenate(([0], np.cumsum(counts))),
        pair=np.concatenate([level.nodes.pair for level in graph.levels]),
        arc_start=np.concatenate(([0], np.cumsum(np.concatenate(arc_counts)))),
        child=np.concatenate([*children, np.zeros(0, dtype=np.int64)]),
        first_leaf=int(first[-2]),
    )


@njit(cache=True, nogil=True)
def _sweep_forward(shape, moves, pairs, weights, buffers, stop):
    """Beliefs and masses of all nodes; False where two beliefs that were merged are no longer proportional."""
    belief, mass, filled, projection, predicted = (
        buffers.belief,
        buffers.mass,
        buffers.filled,
        buffers.projection,
        buffers.predicted,
    )
    mass[:] = 0.0
    filled[:] = False
    mass[0] = 1.0
    belief[0] = 1.0
    filled[0] = True
    fits = True
    for node in range(shape.first_leaf):
        if stop[0] != 0 or not fits:
            break
        if not filled[node]:
            continue
        _predict(shape, node, moves, pairs, belief, predicted)
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            first, last = shape.entry_start[child], shape.entry_start[child + 1]
            chance = predicted[0] * 0.0
            seen = 0.0
            if filled[child]:
                for entry in range(first, last):
                    pair = shape.pair[entry]
                    value = predicted[pairs.state[pair]] * pairs.value[pair]
                    chance += value
                    seen += value.real * weights[pair]
                if chance.real < _IMPOSSIBLE:
                    continue
                if not abs(seen / chance.real - projection[child]) <= _TOLERANCE:
                    fits = False
            else:
                for entry in range(first, last):
                    pair = shape.pair[entry]
                    value = predicted[pairs.state[pair]] * pairs.value[pair]
                    belief[entry] = value
                    chance += value
                    seen += value.real * weights[pair]
                if chance.real < _IMPOSSIBLE:
                    continue
                scale = 1.0 / chance
                for entry in range(first, last):
                    belief[entry] *= scale
                projection[child] = seen / chance.real
                filled[child] = True
            mass[child] += mass[node] * chance
        _clear(shape, node, moves, pairs, predicted)
    for node in range(filled.size):
        if not filled[node]:  # it has no mass at this policy, and no belief
            belief[shape.entry_start[node] : shape.entry_start[node + 1]] = 0.0
    return fits


@njit(cache=True, inline="always")
def _predict(shape, node, moves, pairs, belief, predicted):
    """P(x' | node), added to zeros."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = pairs.state[shape.pair[entry]]
        weight = belief[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] += weight * moves.flow[edge]


@njit(cache=True, inline="always")
def _clear(shape, node, moves, pairs, predicted):
    """Zeros again where _predict wrote."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = pairs.state[shape.pair[entry]]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] = 0.0


@njit(cache=True, nogil=True)
def _sweep_backward(shape, moves, pairs, buffers, slope, stop):
    """Adjoints of all entries from those of the last level; adds d opacity / d flow to `slope`."""
    belief, mass, adjoint, expected = buffers.belief, buffers.mass, buffers.adjoint, buffers.expected
    for node in range(shape.first_leaf - 1, -1, -1):
        if stop[0] != 0:
            break
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            for entry in range(shape.entry_start[child], shape.entry_start[child + 1]):
                pair = shape.pair[entry]
                expected[pairs.state[pair]] += pairs.value[pair] * adjoint[entry]
        for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
            state = pairs.state[shape.pair[entry]]
            weight = mass[node] * belief[entry]
            total = expected[0] * 0.0
            for edge in range(moves.start[state], moves.start[state + 1]):
                ahead = expected[moves.target[edge]]
                total += moves.flow[edge] * ahead
                slope[edge] += weight * ahead
            adjoint[entry] = total
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            for entry in range(shape.entry_start[child], shape.entry_start[child + 1]):
                expected[pairs.state[shape.pair[entry]]] = 0.0
