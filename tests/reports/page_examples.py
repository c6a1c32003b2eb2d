"""Reports that the tests of the page show: the paper's problems, large models, hostile names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import opaq


@dataclass(frozen=True, slots=True)
class Example:
    """A problem and a policy (None: uniform), and what a report holds of them."""

    problem: opaq.Problem
    policy: opaq.Policy | None
    data: dict[str, Any]


def _example(problem: opaq.Problem, policy: opaq.Policy | None = None, **given: Any) -> Example:
    return Example(problem, policy, opaq.report(problem, policy, **given).data)


@cache
def grid_example() -> Example:
    """The grid of the paper with a timed policy and its certificate."""
    problem = opaq.load_problem("grid-last-state-4")
    solution = opaq.solve(problem, conditions="state,time", starts=1, seed=1)
    certificate = opaq.certify(problem, solution.policy, gap=0.02, time_limit=3)
    return _example(problem, solution.policy, solution=solution, certificate=certificate)


@cache
def graph_example() -> Example:
    """The graph of the paper with a solved policy and everything else a report can hold."""
    problem = opaq.load_problem("graph")
    solution = opaq.solve(problem, starts=1, seed=1)
    certificate = opaq.certify(problem, solution.policy, time_limit=2)
    comparison = opaq.compare(problem, classes=["state", "state,automaton", "state,time"], starts=1)
    return _example(problem, solution.policy, solution=solution, certificate=certificate, comparison=comparison)


@cache
def progress_example() -> Example:
    """A small graph whose policy changes with time and whose secret values are states of an automaton."""
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "progress",
            "model": {
                "states": ["q0", "q1", "q2", "q3"],
                "actions": ["a", "b"],
                "start": "q0",
                "transitions": {
                    "q0": {"a": "q0", "b": {"q1": 0.5, "q2": 0.5}},
                    "q1": {"*": {"q1": 0.7, "q3": 0.3}},
                    "q2": {"a": "q2", "b": "q0"},
                    "q3": {"*": "q0"},
                },
                "labels": {"p": ["q1"], "g": ["q3"]},
            },
            "observer": {"emissions": {"q0": "N", "q1": {"R": 0.5, "N": 0.5}, "q2": {"B": 0.5, "N": 0.5}, "q3": "N"}},
            "secret": {"ltlf": "F(p & X F g)", "reveal": "progress"},
            "horizon": 6,
        }
    )
    solution = opaq.solve(problem, conditions="state,automaton,time", starts=1, seed=1)
    return _example(problem, solution.policy, solution=solution)


@cache
def ring_example(num_states: int = 300) -> Example:
    """A generated model: rooms around a ring with short cuts, watched in eight sectors; the uniform policy."""
    rng = np.random.default_rng(3)
    names = [f"room{number}" for number in range(num_states)]
    far = rng.integers(0, num_states, size=num_states)
    transitions = {
        name: {
            "on": {names[(number + 1) % num_states]: 0.9, name: 0.1},
            "leap": {names[far[number] if number % 10 == 0 else (number + 3) % num_states]: 1},
        }
        for number, name in enumerate(names)
    }
    sectors = {name: f"sector {number * 8 // num_states}" for number, name in enumerate(names)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": f"ring of {num_states} rooms",
            "model": {
                "states": names,
                "actions": ["on", "leap"],
                "start": {names[0]: 0.5, names[num_states // 2]: 0.5},
                "transitions": transitions,
                "labels": {"vault": names[::7]},
            },
            "observer": {"emissions": {name: {sectors[name]: 0.6, "quiet": 0.4} for name in names}},
            "secret": {"last_state": "vault"},
            "horizon": 8,
        }
    )
    return _example(problem)


@cache
def table_example() -> Example:
    """The same model without a picture."""
    ring = ring_example()
    model = ring.data["model"] | {"kind": "table", "graph": None}
    return Example(ring.problem, None, ring.data | {"model": model})


@cache
def warehouse_example(side: int = 100) -> Example:
    """10,000 cells with walls, sensors and a quarter that is secret; the uniform policy."""
    walls = [[column, row] for column in range(4, side, 8) for row in range(2, side) if row % 12 > 2]
    taken = {tuple(wall) for wall in walls}

    def block(left: int, top: int, size: int) -> list[list[int]]:
        cells = [[x, y] for x in range(left, left + size) for y in range(top, top + size)]
        return [cell for cell in cells if tuple(cell) not in taken and max(cell) < side]

    middle, quarter = side // 2, side // 4
    corners = {f"S{i}": (9 + 30 * (i % 3), 5 + 32 * (i // 3)) for i in range(9)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "warehouse of 10,000 cells",
            "grid": {
                "size": [side, side],
                "walls": walls,
                "slip": 0.05,
                "start": block(middle - 3, middle - 3, 6),
                "labels": {"secret": block(0, 0, middle), "goal": block(quarter, quarter, 3)},
            },
            "observer": {
                "sensors": {name: {"covers": block(*corner, 7), "detects": 0.8} for name, corner in corners.items()}
            },
            "secret": {"last_state": "secret"},
            "horizon": 20,
        }
    )
    return _example(problem, runs=2, time_limit=10)


HOSTILE: Mapping[str, str] = {
    "script": "<script>alert(1)</script>",
    "end": "</script><img src=x onerror=alert(2)>",
    "quotes": "\"'`&amp;<b>bold</b>",
    "rtl": "‮שלום مرحبا",
    "long": "x" * 200,
    "proto": "__proto__",
    "newline": "two\nlines {{ 7*7 }} {% raw %}",
}


@cache
def hostile_example() -> Example:
    """States, actions, observations and labels called what no one should be called."""
    names = list(HOSTILE.values())
    after = {name: names[(number + 1) % len(names)] for number, name in enumerate(names)}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "</title><script>alert(3)</script> & “names”",
            "model": {
                "states": names,
                "actions": ["<i>go</i>", "constructor"],
                "start": {names[0]: 0.5, names[3]: 0.5},
                "transitions": {
                    name: {"<i>go</i>": {after[name]: 0.7, name: 0.3}, "constructor": {HOSTILE["proto"]: 1}}
                    for name in names
                },
                "labels": {"hasOwnProperty": [HOSTILE["proto"], HOSTILE["rtl"]]},
            },
            "observer": {"emissions": {name: {name: 0.5, "toString": 0.5} for name in names}},
            "secret": {"initial_state": True},
            "horizon": 5,
        }
    )
    return _example(problem)


@cache
def carrier_example() -> Example:
    """A board of 4 x 3 cells, y up, with two states in each; names of variables, actions without names."""
    cells = [(x, y) for x in range(4) for y in range(3)]

    def name(x: int, y: int, loaded: int) -> str:
        return f"mode=0,x={x},y={y},loaded={loaded}"

    def after(x: int, y: int, loaded: int, step: tuple[int, int]) -> str:
        target = (x + step[0], y + step[1])
        x, y = target if target in cells else (x, y)
        return name(x, y, 1 if (x, y) == (3, 2) else loaded)

    steps = {"0": (1, 0), "1": (-1, 0), "2": (0, 1), "3": (0, -1)}
    states = [(x, y, loaded) for x, y in cells for loaded in (0, 1)]
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "carrier",
            "model": {
                "states": [name(*state) for state in states],
                "actions": list(steps),
                "start": name(0, 0, 0),
                "transitions": {
                    name(*state): {
                        action: {after(*state, step): 0.8, name(*state): 0.2}
                        if after(*state, step) != name(*state)
                        else name(*state)
                        for action, step in steps.items()
                    }
                    for state in states
                },
                "labels": {"depot": [name(3, 2, 0), name(3, 2, 1)]},
                "positions": {name(*state): [state[0], state[1]] for state in states},
            },
            "observer": {"emissions": {name(*state): f"row {state[1]}" for state in states}},
            "secret": {"visited": {"where": "x = 3 & y = 2"}},
            "horizon": 8,
        }
    )
    return _example(problem)


EXAMPLES = {
    "carrier": carrier_example,
    "grid": grid_example,
    "graph": graph_example,
    "progress": progress_example,
    "ring": ring_example,
    "table": table_example,
    "warehouse": warehouse_example,
    "hostile": hostile_example,
}
