"""The grid shorthand."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.spec import build_grid, build_problem
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
