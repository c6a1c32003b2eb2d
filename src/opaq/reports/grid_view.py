"""Grid problems as pictures see them: cells, walls, traps, and what can be observed where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import SparseRows
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.sensor_names import are_sensor_sets, quiet_observation, sensors_in

Cell = tuple[int, int]  # column, row; row 0 on top

MOST_CELLS = 250_000  # a board of more cells is no picture
_EQUAL = 1e-12  # chances this close are the same
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
    coverage: Mapping[str, Mapping[int, float]]  # sensor or observation -> state -> how likely it is there

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


def has_stated_sensors(problem: Problem) -> bool:
    """Whether the coverage is that of stated sensors, not one that is inferred from emissions."""
    return isinstance(problem.observer, Observer) and problem.observer.sensors is not None


def coverage(problem: Problem) -> dict[str, dict[int, float]]:
    """Sensor -> state that it covers -> how likely it fires there, as the sensors are stated.

    Where only emissions are stated, a sensor covers where it fires more than at its least: than its false alarms. An
    observation that names several sensors, "A+B", counts for each of them. Observations that are no sets of sensors
    stand for themselves; one that every state can show tells nothing where most show it. Of an observer that is no
    table, nothing is known by state alone.
    """
    observer = problem.observer
    if not isinstance(observer, Observer):
        return {}
    if observer.sensors is not None:
        return observer.sensors.coverage()
    names, shown = _by_sensor(observer)
    sensor, state, chance = shown.row_of_entry(), shown.columns, shown.values
    least = np.full(len(names), np.inf)
    np.minimum.at(least, sensor, chance)
    least[np.bincount(sensor, minlength=len(names)) < shown.num_columns] = 0.0
    by_sensor: dict[str, dict[int, float]] = {}
    for entry in np.flatnonzero(chance > least[sensor] + _EQUAL):
        by_sensor.setdefault(names[sensor[entry]], {})[int(state[entry])] = float(chance[entry])
    return by_sensor


def _by_sensor(observer: Observer) -> tuple[list[str], SparseRows]:
    """Sensors, and [sensor, state] how likely each fires; observations where they are no sets of sensors."""
    emission, sets = observer.emission, are_sensor_sets(observer)
    quiet = quiet_observation(observer)
    everywhere = np.bincount(emission.columns[emission.values > 0], minlength=1).max() == emission.num_rows
    left_out = quiet if sets or everywhere else None
    fired = [[] if name == left_out else sensors_in(name) if sets else [name] for name in observer.observations]
    names = list(dict.fromkeys(sensor for each in fired for sensor in each))
    index = {name: position for position, name in enumerate(names)}
    entries = [
        (index[sensor], state, chance)
        for state, seen, chance in zip(emission.row_of_entry(), emission.columns, emission.values, strict=True)
        for sensor in fired[seen]
    ]
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(names), emission.num_rows)
    table = SparseRows.from_entries(
        np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64), np.array(values), shape=shape
    )
    return names, table
