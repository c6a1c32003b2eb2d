"""Grid problems as pictures see them: cells, walls, traps, and what can be observed where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem

Cell = tuple[int, int]  # column, row; row 0 on top

MOST_CELLS = 250_000  # a board of more cells is no picture
_CELL = re.compile(r"\((\d{1,6}),(\d{1,6})\)")


@dataclass(frozen=True, slots=True)
class GridView:
    """A grid whose states are cells; cells without a state are walls."""

    width: int
    height: int
    cells: tuple[Cell, ...]  # [state]
    walls: tuple[Cell, ...]
    traps: tuple[int, ...]  # states that no action leaves
    starts: Mapping[int, float]  # state -> probability
    labels: Mapping[str, tuple[int, ...]]  # label -> states
    coverage: Mapping[str, Mapping[int, float]]  # observation -> state -> P(observation | state)

    @classmethod
    def of(cls, problem: Problem) -> GridView | None:
        """The problem as a grid, if its states are called (column,row) and fill a board worth drawing."""
        found = [_CELL.fullmatch(state) for state in problem.mdp.states]
        cells = tuple((int(match[1]), int(match[2])) for match in found if match is not None)
        if len(cells) < len(found):
            return None
        width, height = max(column for column, _ in cells) + 1, max(row for _, row in cells) + 1
        if width * height > min(MOST_CELLS, 100 * len(cells)):
            return None
        mdp, free = problem.mdp, set(cells)
        return cls(
            width=width,
            height=height,
            cells=cells,
            walls=tuple((x, y) for y in range(height) for x in range(width) if (x, y) not in free),
            traps=traps(mdp),
            starts={int(state): float(mdp.start[state]) for state in np.flatnonzero(mdp.start)},
            labels={label: tuple(states.tolist()) for label, states in mdp.labels.items()},
            coverage=coverage(problem),
        )


def traps(mdp: MDP) -> tuple[int, ...]:
    """The states that no action leaves."""
    source = mdp.choice_state()[mdp.transitions.row_of_entry()]
    left = np.zeros(mdp.num_states, dtype=bool)
    left[source[(mdp.transitions.columns != source) & (mdp.transitions.values > 0)]] = True
    return tuple(np.flatnonzero(~left).tolist())


def coverage(problem: Problem) -> dict[str, dict[int, float]]:
    """Observation -> state -> how likely it is seen there; what every state can show tells nothing and is left out.

    Of an observer that is no table, nothing is known by state alone.
    """
    observer = problem.observer
    if not isinstance(observer, Observer):
        return {}
    emission = observer.emission
    by_observation: dict[str, dict[int, float]] = {name: {} for name in observer.observations}
    for state, shown, chance in zip(emission.row_of_entry(), emission.columns, emission.values, strict=True):
        if chance > 0:
            by_observation[observer.observations[shown]][int(state)] = float(chance)
    return {name: states for name, states in by_observation.items() if 0 < len(states) < emission.num_rows}
