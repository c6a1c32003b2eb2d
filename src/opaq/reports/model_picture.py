"""The model of a report: names, what is where, and a picture of it as a grid or as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opaq.model.secret import Language, Secret
from opaq.product.compile import Product
from opaq.reports.graph_layout import graph_layout
from opaq.reports.grid_view import GridView, coverage, has_stated_sensors, traps
from opaq.reports.policy_view import Shares
from opaq.reports.report_limits import LIMITS, ReportLimits
from opaq.reports.sentences import secret_label


def model_to_dict(product: Product, average: Shares, *, limits: ReportLimits = LIMITS) -> dict[str, Any]:
    """Everything about the model that the page shows; `average` is P(action | state) of the policy."""
    problem, mdp = product.problem, product.problem.mdp
    grid = GridView.of(problem)
    drawn = grid is None and mdp.num_states <= limits.graph_states
    seen, left_out = _coverage(coverage(problem), limits.coverage_entries)
    return {
        "kind": "grid" if grid is not None else "graph" if drawn else "table",
        "states": list(mdp.states),
        "actions": list(mdp.actions),
        "observations": list(product.observations),
        "secret_values": list(product.secret_values),
        "sizes": {
            "states": mdp.num_states,
            "actions": len(mdp.actions),
            "observations": len(product.observations),
            "secret_values": len(product.secret_values),
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
        "grid": None if grid is None else _grid(grid),
        "graph": _graph(product, average, limits) if drawn else None,
    }


def _secret_kind(secret: Secret) -> str | None:
    """What the secret values are, where their names could be taken for those of the model's states."""
    return "automaton state" if isinstance(secret, Language) and secret.reveal == "progress" else None


def _grid(grid: GridView) -> dict[str, Any]:
    return {"width": grid.width, "height": grid.height, "cells": [list(cell) for cell in grid.cells]}


def _coverage(by_observation: Mapping[str, Mapping[int, float]], most: int) -> tuple[list[dict[str, Any]], int]:
    """What can be observed where, the observations of fewest states first in line; and how many are left out."""
    kept, entries = [], 0
    for name, states in sorted(by_observation.items(), key=lambda item: len(item[1])):
        entries += len(states)
        if entries <= most:
            kept.append(name)
    chosen = set(kept)
    shown = [
        {"observation": name, "states": [[state, round(chance, 6)] for state, chance in states.items()]}
        for name, states in by_observation.items()
        if name in chosen
    ]
    return shown, len(by_observation) - len(shown)


def _graph(product: Product, average: Shares, limits: ReportLimits) -> dict[str, Any]:
    mdp = product.problem.mdp
    edges = _edges(product, average)
    positions = graph_layout(mdp.num_states, [edge[:2] for edge in edges], np.flatnonzero(mdp.start).tolist())
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
    """(from, to, probability under the policy, actions that may lead there, P(to | from, action) of each), by state.

    The probability is 0 from states never visited.
    """
    mdp = product.problem.mdp
    chances: dict[tuple[int, int], float] = {}
    actions: dict[tuple[int, int], list[int]] = {}
    given: dict[tuple[int, int], list[float]] = {}
    owner, choice = mdp.choice_state(), mdp.transitions.row_of_entry()
    entries = zip(choice.tolist(), mdp.transitions.columns.tolist(), mdp.transitions.values.tolist(), strict=True)
    for number, target, chance in entries:
        if chance > 0:
            state, action = int(owner[number]), int(mdp.choice_action[number])
            edge = state, target
            chances[edge] = chances.get(edge, 0.0) + average.get(state, {}).get(action, 0.0) * chance
            actions.setdefault(edge, []).append(action)
            given.setdefault(edge, []).append(chance)
    return [(*edge, min(1.0, chances[edge]), actions[edge], given[edge]) for edge in sorted(chances)]
