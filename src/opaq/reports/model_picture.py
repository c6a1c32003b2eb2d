"""Describe the model of a report: names, sensors and labels by state, and a picture of it as a grid or as a graph.

Comes in: a compiled problem and P(action | state) of the policy. Goes out: plain data for the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.mdp import MDP
from opaq.model.secret import Language, Secret
from opaq.product.compile import Product, possible_secrets
from opaq.reports.grid import GridView, Shares, coverage, directions, has_stated_sensors, traps
from opaq.reports.limits import LIMITS, ReportLimits
from opaq.reports.text.names import tell_apart
from opaq.reports.text.sentences import secret_label

_ROUNDS = 300
_SETTLED = 1e-5  # movement per round, as a share of an edge, below which the picture is done
_APART = 1.5  # distance between parts that nothing joins, as a share of the largest distance


def graph_layout(num_states: int, edges: Sequence[tuple[int, int]], starts: Sequence[int]) -> FloatArray:
    """Return positions [state, 2]: x and y from 0 to 1, starts to the left; directions of edges do not count.

    num_states: states, counted from 0. edges: pairs of states (from, to).
    starts: states where runs begin; without any, state 0 counts as one.
    The same arguments give the same picture: nothing is drawn at random.
    """
    if num_states == 1:
        return np.full((1, 2), 0.5)
    distance = _distances(num_states, edges)
    depth = distance[list(starts) or [0]].min(axis=0)
    return _fit_unit_square(_orient(_majorise(_layers(depth), distance), list(starts) or [0]))


def _distances(num_states: int, edges: Sequence[tuple[int, int]]) -> FloatArray:
    """Return [state, state] how many edges apart two states are.

    Parts that nothing joins are set a little further apart than any others.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(num_states, num_states))
    distance = np.asarray(shortest_path(joined, directed=False, unweighted=True))
    finite = distance[np.isfinite(distance)]
    return np.where(np.isfinite(distance), distance, max(1.0, _APART * float(finite.max())))


def _layers(depth: FloatArray) -> FloatArray:
    """Return positions to begin with: a column per distance from the start, states one below the other.

    depth: [state], edges from the nearest start. Columns stand a little aslant, so that states do not stay on one line
    only because they began there.
    """
    positions = np.zeros((depth.size, 2))
    for layer in np.unique(depth):
        states = np.flatnonzero(depth == layer)
        spread = np.arange(states.size) - 0.5 * (states.size - 1)
        positions[states] = np.stack([layer + 0.01 * spread, spread], axis=1)
    return positions


def _majorise(positions: FloatArray, distance: FloatArray) -> FloatArray:
    """Return positions after rounds of X <- V^+ B(X) X, which never raise sum_ij w_ij (|x_i - x_j| - d_ij)^2, w = d^-2.

    positions: [state, 2] to begin with. distance: [state, state], d.
    The rounds end after 300, or when nothing moves by 1e-5.
    """
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
    """Return [state, state] the straight distances between positions."""
    x, y = (positions[:, [axis]] - positions[:, axis] for axis in (0, 1))
    return np.asarray(np.sqrt(x * x + y * y))


def _orient(positions: FloatArray, starts: list[int]) -> FloatArray:
    """Return the positions turned: the longer side lies flat, the start is on the left.

    Of the states off the middle line, the first one is in the upper half.
    """
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


def _fit_unit_square(positions: FloatArray) -> FloatArray:
    """Return the positions scaled to the unit square, in its middle where one side is shorter.

    They have four digits, so that rounding errors of different machines are not seen.
    """
    low, high = positions.min(axis=0), positions.max(axis=0)
    scale = max(float((high - low).max()), 1e-9)
    return np.asarray(np.round(0.5 + (positions - 0.5 * (low + high)) / scale, 4))


def model_to_dict(product: Product, average: Shares, *, limits: ReportLimits = LIMITS) -> dict[str, Any]:
    """Return everything about the model that the page shows, as plain data (keys: docs/answers.md).

    product: the compiled problem. average: P(action | state) of the policy, for the widths of edges.
    limits: beyond `graph_states` a model that is no grid becomes a table; coverage and edges are cut as they say.
    """
    problem, mdp = product.problem, product.problem.mdp
    grid, secrets = GridView.of(problem), possible_secrets(product)
    drawn = grid is None and mdp.num_states <= limits.graph_states
    seen, left_out = _coverage(coverage(problem), limits.coverage_entries)
    return {
        "kind": "grid" if grid is not None else "graph" if drawn else "table",
        "states": list(mdp.states),
        "shown_states": tell_apart(mdp.states),
        "actions": list(mdp.actions),
        "observations": list(product.observations),
        "secret_values": list(secrets),
        "sizes": {
            "states": mdp.num_states,
            "actions": len(mdp.actions),
            "observations": len(product.observations),
            "secret_values": len(secrets),
            "product_states": product.process.num_states,
            "horizon": problem.horizon,
        },
        "start": [[int(state), float(mdp.start[state])] for state in np.flatnonzero(mdp.start)],
        "traps": list(traps(mdp)),
        "labels": {label: states.tolist() for label, states in mdp.labels.items()},
        "secret_label": secret_label(problem.secret, mdp),
        "secret_kind": _secret_kind(problem.secret),
        "coverage": seen,
        "coverage_stated": has_stated_sensors(problem),
        "coverage_left_out": left_out,
        "grid": None if grid is None else _grid(grid, mdp),
        "graph": _graph(product, average, limits) if drawn else None,
    }


def _secret_kind(secret: Secret) -> str | None:
    """Return a word for secret values whose names could be taken for those of the model's states; None for others."""
    return "automaton state" if isinstance(secret, Language) and secret.reveal == "progress" else None


def _grid(grid: GridView, mdp: MDP) -> dict[str, Any]:
    """Return the size of a grid, its rulers, the [column, row] of every state and the direction of every action."""
    return {
        "width": grid.width,
        "height": grid.height,
        "columns": list(grid.columns),
        "rows": list(grid.rows),
        "cells": [list(cell) for cell in grid.cells],
        "directions": [list(direction) for direction in directions(mdp, grid)],
    }


def _coverage(by_observation: Mapping[str, Mapping[int, float]], most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the entries of coverage that are kept, and how many observations are left out.

    by_observation: observation or sensor -> state -> probability.
    most: entries (observation, state) in all; observations of fewest states are kept first, whole or not at all.
    """
    kept, entries = [], 0
    for name, states in sorted(by_observation.items(), key=lambda item: len(item[1])):
        entries += len(states)
        if entries <= most:
            kept.append(name)
    chosen = set(kept)
    drawn = [
        {"observation": name, "states": [[state, round(chance, 6)] for state, chance in states.items()]}
        for name, states in by_observation.items()
        if name in chosen
    ]
    return drawn, len(by_observation) - len(drawn)


def _graph(product: Product, average: Shares, limits: ReportLimits) -> dict[str, Any]:
    """Return positions and edges of a graph; of too many edges the likeliest under the policy are kept.

    Positions that the model states are kept, y down as on a page.
    """
    mdp = product.problem.mdp
    edges = _edges(product, average)
    if mdp.positions is None:
        positions = graph_layout(mdp.num_states, [edge[:2] for edge in edges], np.flatnonzero(mdp.start).tolist())
    else:
        positions = _fit_unit_square(mdp.positions * [1.0, -1.0])
    kept = sorted(sorted(edges, key=lambda edge: -edge[2])[: limits.graph_edges], key=lambda edge: edge[:2])
    return {
        "positions": positions.tolist(),
        "edges": [
            [source, target, round(chance, 6), actions, [round(each, 6) for each in chances]]
            for source, target, chance, actions, chances in kept
        ],
        "edges_left_out": len(edges) - len(kept),
    }


def _edges(product: Product, average: Shares) -> list[tuple[int, int, float, list[int], list[float]]]:
    """Return the edges by state: (from, to, probability, actions that may lead there, P(to | from, action) of each).

    The probability is that under the policy, `average`: 0 from states never visited.
    """
    mdp = product.problem.mdp
    chances: dict[tuple[int, int], float] = {}
    actions: dict[tuple[int, int], list[int]] = {}
    conditional: dict[tuple[int, int], list[float]] = {}
    owner, choice = mdp.choice_state(), mdp.transitions.row_of_entry()
    entries = zip(choice.tolist(), mdp.transitions.columns.tolist(), mdp.transitions.values.tolist(), strict=True)
    for number, target, chance in entries:
        if chance > 0:
            state, action = int(owner[number]), int(mdp.choice_action[number])
            edge = state, target
            chances[edge] = chances.get(edge, 0.0) + average.get(state, {}).get(action, 0.0) * chance
            actions.setdefault(edge, []).append(action)
            conditional.setdefault(edge, []).append(chance)
    return [(*edge, min(1.0, chances[edge]), actions[edge], conditional[edge]) for edge in sorted(chances)]
