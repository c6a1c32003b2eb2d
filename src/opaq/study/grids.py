"""Grid problems as pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from opaq.model.observer import with_tables
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.grid_figure import Cell, GridFigure

_CELL = re.compile(r"\((\d+),(\d+)\)")


def is_grid(problem: Problem) -> bool:
    """Whether the states are cells."""
    return all(_CELL.fullmatch(state) for state in problem.mdp.states)


def grid_figure(problem: Problem, policy: Policy, *, title: str) -> GridFigure:
    """The grid, its sensors and a policy that looks at the state alone."""
    mdp, cells = problem.mdp, [_cell(state) for state in problem.mdp.states]
    return GridFigure(
        title=title,
        width=max(column for column, _ in cells) + 1,
        height=max(row for _, row in cells) + 1,
        free=set(cells),
        traps={cells[state] for state in _traps(problem)},
        starts={cells[state] for state in np.flatnonzero(mdp.start)},
        marks={label: {cells[state] for state in states} for label, states in mdp.labels.items()},
        sensors=_sensors(problem, cells),
        actions={_cell(str(key[0])): row for key, row in policy.rows.items()},
    )


def _cell(state: str) -> Cell:
    column, row = state.strip("()").split(",")
    return int(column), int(row)


def _traps(problem: Problem) -> Iterable[int]:
    """The states no action leaves."""
    mdp = problem.mdp
    leaves = mdp.transitions.columns != mdp.choice_state()[mdp.transitions.row_of_entry()]
    leaving = set(mdp.choice_state()[mdp.transitions.row_of_entry()][leaves].tolist())
    return [state for state in range(mdp.num_states) if state not in leaving]


def _sensors(problem: Problem, cells: list[Cell]) -> dict[str, set[Cell]]:
    """Observation -> the cells that can show it; what every cell can show tells nothing and is left out."""
    observer = with_tables(problem.observer, needed_by="the picture of a grid")
    emission = observer.emission
    states, shown = emission.row_of_entry(), emission.columns
    found = {
        name: {cells[state] for state in states[shown == place]} for place, name in enumerate(observer.observations)
    }
    return {name: covered for name, covered in found.items() if covered and len(covered) < len(cells)}
