"""The grid shorthand."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.spec import build_grid, build_mdp, build_problem
from problem_examples import GRID

SMALL: dict[str, Any] = {"width": 3, "height": 2, "start": {"column": 0}}


def moves(mdp: Any, state: str, action: str) -> dict[str, float]:
    place = mdp.states.index(state)
    choice = next(
        choice
        for choice in range(mdp.choice_start[place], mdp.choice_start[place + 1])
        if mdp.actions[mdp.choice_action[choice]] == action
    )
    columns, values = mdp.transitions.row(choice)
    return {mdp.states[column]: round(float(value), 12) for column, value in zip(columns, values, strict=True)}


def test_the_grid_of_the_paper() -> None:
    problem = build_problem(GRID)
    mdp = problem.mdp
    assert (mdp.num_states, mdp.num_choices) == (34, 34 * 5)
    assert mdp.actions == ("N", "E", "S", "W", "stay")
    assert [mdp.states[state] for state in np.flatnonzero(mdp.start)] == [f"(0,{row})" for row in range(6)]
    assert {mdp.states[state] for state in mdp.labels["secret"]} == {"(2,0)", "(2,3)", "(4,5)"}
    assert mdp.rewards.sum() == 10
    assert moves(mdp, "(2,2)", "N") == {"(2,1)": 0.8, "(1,2)": 0.1, "(3,2)": 0.1}
    assert moves(mdp, "(0,0)", "N") == {"(0,0)": 0.9, "(1,0)": 0.1}
    assert moves(mdp, "(0,3)", "E") == {"(0,3)": 0.8, "(0,2)": 0.1, "(0,4)": 0.1}  # a wall on the east
    assert moves(mdp, "(4,2)", "S") == {"(4,3)": 0.8, "(4,2)": 0.1, "(3,2)": 0.1}
    assert moves(mdp, "(1,1)", "W") == {"(1,1)": 1}  # a trap
    assert moves(mdp, "(2,2)", "stay") == {"(2,2)": 1}
    assert problem.observer.observations == ("quiet", "A", "B", "C")


def test_moves_without_slip_are_certain() -> None:
    mdp = build_grid(**SMALL)
    assert mdp.actions == ("N", "E", "S", "W")
    ends = {"N": "(1,0)", "E": "(2,0)", "S": "(1,1)", "W": "(0,0)"}
    assert {action: moves(mdp, "(1,0)", action) for action in ends} == {
        action: {end: 1} for action, end in ends.items()
    }


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"column": 0}, {"(0,0)": 0.5, "(0,1)": 0.5}),
        ({"column": 2, "row": 1}, {"(2,1)": 1}),
        ({"row": 0}, {"(0,0)": 1 / 3, "(1,0)": 1 / 3, "(2,0)": 1 / 3}),
        ([[0, 0], "2,1"], {"(0,0)": 0.5, "(2,1)": 0.5}),
        ([1, 1], {"(1,1)": 1}),
        ("(1,1)", {"(1,1)": 1}),
        ({"0,0": 0.25, (2, 1): 0.75}, {"(0,0)": 0.25, "(2,1)": 0.75}),
    ],
)
def test_starts(start: Any, expected: dict[str, float]) -> None:
    mdp = build_grid(**(SMALL | {"start": start}))
    assert {mdp.states[state]: mdp.start[state] for state in np.flatnonzero(mdp.start)} == expected


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([{"cells": [[1, 0], [2, 0]], "reward": 2}, {"cells": "goal", "reward": -1}], [0, 2, 2, 0, 0, -1]),
        ({"goal": 5, "*": -0.5, "0,0": 1}, [1, -0.5, -0.5, -0.5, -0.5, 5]),
    ],
)
def test_rewards(rewards: Any, expected: list[float]) -> None:
    mdp = build_grid(**SMALL, rewards=rewards, labels={"goal": [[2, 1]]})
    assert mdp.rewards[mdp.choice_start[:-1]].tolist() == expected


START = "say where the run starts: cells, {cell: probability}, {column: c} or {row: r}"
FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"width": None}, ["grid.width: is missing; say how many cells"]),
    ({"size": [3, 2]}, ["grid: has 'size' and 'width'; keep size: [width, height], or width and height"]),
    ({"width": 0}, ["grid.width: is 0, not a whole number from 1 to 1,000,000"]),
    ({"width": 9999, "height": 9999}, ["grid: has 99,980,001 cells, more than 1,000,000"]),
    (
        {"walls": [[3, 0], "x"]},
        [
            "grid.walls[0]: (3,0) is outside the 3 x 2 grid; columns and rows count from 0",
            "grid.walls[1]: is 'x', not a cell; write [column, row]",
        ],
    ),
    ({"walls": [[0, 0], [0, 1]]}, [f"grid.start: has no free cell; {START}"]),
    ({"walls": [[c, r] for c in range(3) for r in range(2)]}, ["grid.walls: leave no free cell"]),
    ({"slip": 0.6}, ["grid.slip: is 0.6, not a number from 0 to 0.5"]),
    ({"stay": "yes"}, ["grid.stay: is 'yes', not true or false"]),
    ({"start": {"column": 3}}, ["grid.start.column: is 3, not a whole number from 0 to 2"]),
    ({"start": [[1, 0], [9, 9]]}, ["grid.start[1]: (9,9) is not a free cell of the grid; it is a wall or outside"]),
    ({"start": {"0,0": 0.5, (0, 0): 0.5}}, ["grid.start: names a state twice, spelled differently; keep one of them"]),
    ({"traps": [[1, 9]]}, ["grid.traps[0]: (1,9) is not a free cell of the grid; it is a wall or outside"]),
    ({"rewards": 3}, ["grid.rewards: is 3, not a list or a mapping; write [{cells: [...], reward: 1}]"]),
    (
        {"rewards": [{"cells": [[1, 1]], "reward": 1}, {"cells": "1,1", "reward": 2}]},
        ["grid.rewards[1].cells: (1,1) has a reward already; the other is at grid.rewards[0].cells"],
    ),
    ({"rewards": [{"cels": [], "reward": 1}]}, ["grid.rewards[0].cels: unknown key; did you mean 'cells'?"]),
    ({"labels": {"goal": [[7, 7]]}}, ["grid.labels.goal[0]: (7,7) is not a free cell of the grid; it is a wall or outside"]),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "messages"), FAULTS)
def test_faults(edits: dict[str, Any], messages: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        build_grid(**(SMALL | edits))
    assert caught.value.lines() == messages


def test_a_grid_may_stand_inside_model() -> None:
    inside = {key: value for key, value in GRID.items() if key != "grid"} | {"model": {"grid": GRID["grid"]}}
    assert build_problem(inside).mdp.states == build_problem(GRID).mdp.states


MAP = """
S..G
.#Ax
SBC.
"""
LEGEND = {
    "G": ["trap", {"label": ["goal", "exit"]}],
    "A": {"sensor": "A"},
    "B": ["wall", {"sensor": "B", "radius": 1}],
    "C": {"sensor": ["A", "B"], "label": "secret"},
}


def cells(mdp: Any, states: Any) -> set[str]:
    return {mdp.states[state] for state in states}


def test_a_map_draws_what_keys_list() -> None:
    mdp = build_grid(map=MAP, legend=LEGEND, slip=0.1, labels={"secret": [[0, 1]]}, walls=[[3, 2]])
    listed = build_grid(
        size=[4, 3], walls=[[1, 1], [1, 2], [3, 2]], traps=[[3, 0], [3, 1]], start=[[0, 0], [0, 2]], slip=0.1,
        labels={"secret": [[0, 1], [2, 2]], "goal": [[3, 0]], "exit": [[3, 0]]},
    )  # fmt: skip
    assert mdp == listed
    assert build_grid(map=MAP.split(), legend=LEGEND, slip=0.1, labels={"secret": [[0, 1]]}, walls=[[3, 2]]) == listed


def test_sensors_of_a_map_cover_what_is_drawn_and_walls_are_cut() -> None:
    sensors: Any = {"A": {"detects": 0.7}, "B": {"detects": 0.6}, "C": {"covers": [[1, 1], [0, 0]], "detects": 0.5}}
    stated = {"grid": {"map": MAP, "legend": LEGEND}, "observer": {"sensors": sensors}, "opaq": 1}
    problem = build_problem(stated | {"secret": {"last_state": {"where": "column > 1 & row <= 1"}}, "horizon": 2})
    covered = {sensor.name: cells(problem.mdp, sensor.covers) for sensor in problem.observer.sensors.sensors}
    assert covered == {"A": {"(2,1)", "(2,2)"}, "B": {"(0,2)", "(2,2)"}, "C": {"(0,0)"}}
    assert cells(problem.mdp, np.flatnonzero(problem.secret.classes.of_state)) == {
        "(2,0)", "(3,0)", "(2,1)", "(3,1)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("region", "inside"),
    [
        ({"rectangle": [1, 0, 2, 1]}, lambda column, row: 1 <= column <= 2 and row <= 1),
        ({"rectangle": [2, 1, 1, 0]}, lambda column, row: 1 <= column <= 2 and row <= 1),
        ({"rectangle": [3, 3, 9, 9]}, lambda column, row: column >= 3 and row >= 3),
        ({"disc": [2, 2, 1.5]}, lambda column, row: (column - 2) ** 2 + (row - 2) ** 2 <= 2.25),
        ({"disc": [1.5, 2, 5**0.5 / 2]}, lambda column, row: (column - 1.5) ** 2 + (row - 2) ** 2 < 1.25001),
        ({"where": "column > 2 & row <= 1"}, lambda column, row: column > 2 and row <= 1),
    ],
)
def test_regions_hold_the_cells_inside(region: Any, inside: Any) -> None:
    expected = {f"({column},{row})" for column in range(5) for row in range(4) if inside(column, row)}
    free = build_grid(size=[5, 4], start=[0, 0], labels={"there": region, "more": [region, [0, 0]]}, traps=region)
    assert cells(free, free.labels["there"]) == expected
    assert cells(free, free.labels["more"]) == expected | {"(0,0)"}
    walled = build_grid(size=[5, 4], start={"column": 0}, walls=[region, [4, 0]])
    everything = {f"({column},{row})" for column in range(5) for row in range(4)}
    assert set(walled.states) == everything - expected - {"(4,0)"}


@pytest.mark.parametrize(
    ("edits", "messages"),
    [
        ({"map": "S.\n...\n..."}, ["grid.map: line 1 has 2 letters, not 3 as most lines"]),
        ({"map": "S.Q\nQ.."}, ["grid.map: unknown letter 'Q' in line 1, column 3 and once more; add it to 'legend'"]),
        ({"map": "S.Q", "labels": {"a": {"where": "rwo > 1"}}}, ["grid.map: unknown letter 'Q' in line 1, column 3; add it to 'legend'", "grid.labels.a.where: at character 1: 'rwo' is not a variable"]),
        ({"legend": {"Z": "wall"}}, ["grid.legend.Z: is not in the map; draw it or remove it"]),
        ({"legend": {"SS": "wall"}}, ["grid.legend.SS: 'SS' is not one letter; a map has one letter per cell"]),
        ({"legend": {"S": "goal"}}, ["grid.legend.S: is 'goal', not a meaning; write wall, free, trap, start, a label is {label: goal}, a sensor {sensor: NAME}"]),
        ({"legend": {"S": ["wall", "start"]}}, ["grid.legend.S: is a wall and something that only free cells are; use another letter"]),
        ({"legend": {"S": {"label": "a&b"}}}, ["grid.legend.S.label: 'a&b' cannot name a label; labels stand in guards: leave out \" & | ! ~ ( )"]),
        ({"legend": {"S": {"radius": 2}}}, ["grid.legend.S.radius: needs a sensor; write {sensor: NAME, radius: cells}"]),
        ({"size": [3, 2]}, ["grid.size: does not go with 'map'; remove it: the map has a size"]),
        ({"start": [0, 0]}, ["grid.start: the map has starts too; keep one of them"]),
        ({"map": "...\n..."}, [f"grid.start: is missing; {START}, or S in the map"]),
        ({"map": "\n\n"}, ["grid.map: is empty; draw a letter for every cell, such as . and #"]),
        ({"map": 3}, ["grid.map: is 3, not a text with a line for every row; write it after 'map: |'"]),
        ({"map": "##"}, ["grid.map: leave no free cell"]),
        ({"walls": [{"disk": [1, 1, 1]}, [9, 9]], "labels": {"a": {"disk": [1, 1, 1]}}}, ["grid.walls[0]: is a mapping, not a cell; write [column, row], {where:", "grid.walls[1]: (9,9) is outside the 3 x 2 grid", "grid.labels.a: is a mapping, not a name or a region; write {where:"]),
        ({"walls": [{"disc": [1, 1]}]}, ["grid.walls[0].disc: has 2 numbers, not 3; write [x, y, r]"]),
        ({"labels": {"a": {"rectangle": [1, 1, "x", None]}}}, ["grid.labels.a.rectangle[2]: 'x' is text, not a number; write it as a decimal number", "grid.labels.a.rectangle[3]: is empty, not a number"]),
        ({"labels": {"a": {"where": "col > 1"}}}, ["grid.labels.a.where: at character 1: 'col' is not a variable; the variables are: column, row"]),
        ({"map": "S.Q\n..", "legend": {"W": "wal", "V": "wall"}}, ["grid.legend.W: is 'wal', not a meaning", "grid.map: line 2 has 2 letters, not 3 as most lines", "grid.map: unknown letter 'Q' in line 1, column 3", "grid.legend.W: is not in the map", "grid.legend.V: is not in the map"]),
    ],
)  # fmt: skip
def test_faults_of_maps(edits: dict[str, Any], messages: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        build_grid(**({"map": "S..\n..."} | edits))
    lines = caught.value.lines()
    assert [line[: len(message)] for line, message in zip(lines, messages, strict=True)] == messages


def test_a_legend_needs_a_map() -> None:
    with pytest.raises(InputError, match="legend: needs a map"):
        build_grid(**SMALL, legend={"a": "wall"})


def test_regions_need_coordinates() -> None:
    model = {"states": ["a", "b"], "actions": ["go"], "start": "a", "transitions": {"*": {"go": "b"}}}
    model["transitions"] = {"a": {"go": "b"}, "b": {"go": "a"}}
    with pytest.raises(InputError, match="the model has no coordinates"):
        build_mdp(**model, labels={"there": {"disc": [0, 0, 1]}})
    placed = build_mdp(**model, labels={"there": {"disc": [0, 0, 1]}}, positions={"a": [0.5, 0.5], "b": [2, 0]})
    assert cells(placed, placed.labels["there"]) == {"a"}


def test_a_letter_without_a_meaning_hides_no_other_fault() -> None:
    with pytest.raises(InputError) as caught:
        build_problem(
            {
                "opaq": 1,
                "grid": {"map": "S.cQ", "legend": {"c": {"sensor": "camera"}}},
                "observer": {"sensors": {"camera": {"detects": 2}}},
                "secret": {"last_state": {"a": {"where": "colum > 1"}}},
                "horizon": 2,
            }
        )
    paths = [fault.where for fault in caught.value.faults]
    assert paths == ["grid.map", "observer.sensors.camera.detects", "secret.last_state.a.where"]
