"""Positions for the states of a graph: the same every time, the start on the left (docs/decisions/0008-report.md).

Stress majorisation (Gansner, Koren and North, 2004): distances in the picture come close to distances in the graph. It
begins with layers by the distance from the start and has nothing random in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opaq.model.arrays import FloatArray, IntArray

_ROUNDS = 300
_SETTLED = 1e-5  # movement per round, as a share of an edge, below which the picture is done
_APART = 1.5  # distance between parts that nothing joins, as a share of the largest distance


def graph_layout(num_states: int, edges: Sequence[tuple[int, int]], starts: Sequence[int]) -> FloatArray:
    """[state, 2]: x and y from 0 to 1, x to the right; directions of edges do not count."""
    if num_states == 1:
        return np.full((1, 2), 0.5)
    distance = _distances(num_states, edges)
    depth = distance[list(starts) or [0]].min(axis=0)
    return _fitted(_turned(_majorised(_layers(depth), distance), list(starts) or [0]))


def _distances(num_states: int, edges: Sequence[tuple[int, int]]) -> FloatArray:
    """How many edges apart two states are; parts that nothing joins are set a little further apart than any others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(num_states, num_states))
    distance = np.asarray(shortest_path(joined, directed=False, unweighted=True))
    finite = distance[np.isfinite(distance)]
    return np.where(np.isfinite(distance), distance, max(1.0, _APART * float(finite.max())))


def _layers(depth: FloatArray) -> FloatArray:
    """A column per distance from the start, states one below the other; a little aslant, so that nothing is on a line
    that should not be."""
    positions = np.zeros((depth.size, 2))
    for layer in np.unique(depth):
        states = np.flatnonzero(depth == layer)
        spread = np.arange(states.size) - 0.5 * (states.size - 1)
        positions[states] = np.stack([layer + 0.01 * spread, spread], axis=1)
    return positions


def _majorised(positions: FloatArray, distance: FloatArray) -> FloatArray:
    """Rounds of X <- V^+ B(X) X, which never raise sum_ij w_ij (|x_i - x_j| - d_ij)^2, w = d^-2."""
    size = distance.shape[0]
    weight = 1.0 / np.where(np.eye(size, dtype=bool), 1.0, distance) ** 2
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.inv(laplacian + 1.0 / size) - 1.0 / size
    for _ in range(_ROUNDS):
        pull = weight * distance / np.maximum(_apart(positions), 1e-9)
        moved = inverse @ (pull.sum(axis=1)[:, None] * positions - pull @ positions)
        if np.abs(moved - positions).max() < _SETTLED:
            break
        positions = moved
    return positions


def _apart(positions: FloatArray) -> FloatArray:
    x, y = (positions[:, [axis]] - positions[:, axis] for axis in (0, 1))
    return np.asarray(np.sqrt(x * x + y * y))


def _turned(positions: FloatArray, starts: list[int]) -> FloatArray:
    """The longer side lies flat, the start is on the left, and the first state that can be is in the upper half."""
    centred = positions - positions.mean(axis=0)
    angle = 0.5 * np.arctan2(
        2 * (centred[:, 0] @ centred[:, 1]), (centred[:, 0] ** 2).sum() - (centred[:, 1] ** 2).sum()
    )
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    flat = centred @ turn
    x, y = flat[:, 0], flat[:, 1]
    if x[starts].mean() > 1e-6:
        x = -x
    off: IntArray = np.flatnonzero(np.abs(y) > 1e-6)
    if off.size and y[off[0]] > 0:
        y = -y
    return np.stack([x, y], axis=1)


def _fitted(positions: FloatArray) -> FloatArray:
    """In the unit square, in the middle of it where one side is shorter; four digits, so that rounding is not seen."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    scale = max(float((high - low).max()), 1e-9)
    return np.asarray(np.round(0.5 + (positions - 0.5 * (low + high)) / scale, 4))
