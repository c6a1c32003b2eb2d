"""Problem files as plain mappings, ways to spoil them, and how to compare what is built from them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opaq.errors import Fault, Faults
from opaq.spec import build_problem

GONE = object()

TWO_SINK: dict[str, Any] = {
    "opaq": 1,
    "name": "two-sink",
    "model": {
        "states": ["q0", "q1", "q2"],
        "actions": ["a", "b"],
        "start": {"q0": 1.0},
        "transitions": {
            "q0": {"a": {"q0": 1}, "b": {"q1": 0.5, "q2": 0.5}},
            "q1": {"*": {"q1": 1}},
            "q2": {"*": "q2"},
        },
        "rewards": {"q1": 1, "q2": 1},
        "labels": {"secret": ["q1"], "goal": ["q1", "q2"]},
    },
    "observer": {"emissions": {"q0": {"N": 1}, "q1": {"R": 0.5, "N": 0.5}, "q2": {"B": 0.5, "N": 0.5}}},
    "secret": {"last_state": "secret"},
    "horizon": 2,
    "discount": 1.0,
    "task": {"return_at_least": 0.0},
    "policy": {"conditions_on": ["state"]},
}

GRID: dict[str, Any] = {
    "opaq": 1,
    "description": "the grid of the paper",
    "grid": {
        "size": [6, 6],
        "walls": [[5, 2], [1, 3]],
        "traps": [[1, 1], "3,2", "(1,4)"],
        "slip": 0.1,
        "stay": True,
        "start": {"column": 0},
        "rewards": {"goal": 1},
        "named_rewards": {"fuel": {"*": -1, "goal": 0}},
        "labels": {"goal": [[2, 2], [4, 3]], "secret": [[2, 0], [2, 3], [4, 5]]},
    },
    "observer": {
        "sensors": {
            "A": {"covers": [3, 1], "detects": 0.7},
            "B": {"covers": [[3, 3], [4, 3], [3, 4], [4, 4]], "detects": 0.7},
            "C": {"covers": ["5,3", "(5,4)"], "detects": 0.7, "false_alarm": 0},
        },
        "null": "quiet",
    },
    "secret": {"last_state": "secret"},
    "horizon": 11,
    "task": {"return_at_least": 0.3},
}

GRAPH: dict[str, Any] = {
    "opaq": 1,
    "model": {
        "states": [0, 1, "h"],
        "actions": ["go"],
        "start": 0,
        "transitions": {0: {"go": {1: 0.5, "h": 0.5}}, 1: {"go": 0}, "h": {"go": "h"}},
        "rewards": {"*": -1, "h": {"go": 2}},
        "labels": {"pg": 1, "ps": "h"},
    },
    "observer": {"emissions": {"*": "none", "h": {"h": 0.9, "none": 0.1}}, "actions": {"*": {"seen": 0.5, "not": 0.5}}},
    "secret": {
        "automaton": {
            "states": ["x", "y"],
            "initial": "x",
            "accepting": ["y"],
            "edges": [{"from": "x", "to": "y", "when": "pg & !ps"}, {"from": "y", "to": "y", "when": True}],
            "reads": "left",
        },
        "reveal": "acceptance",
    },
    "horizon": 3,
    "discount": 0.9,
    "task": {"return_at_least": -1, "over": "forever"},
    "policy": {
        "conditions_on": [
            "state",
            "automaton",
            {"last_states": 2},
            {
                "memory": {
                    "nodes": ["m", "n"],
                    "start": {"m": 0.5, "n": 0.5},
                    "start_in": {"h": "n"},
                    "update": [
                        {"from": "m", "to": "n", "state": "pg", "action": "go"},
                        {"from": "m", "to": {"m": 0.2, "n": 0.8}, "state": ["h", 1]},
                    ],
                }
            },
        ]
    },
}

TASKS: dict[str, Any] = {
    "opaq": 1,
    "model": {
        "states": ["s", "t", "u"],
        "actions": ["a", "b"],
        "start": "s",
        "transitions": {"s": {"a": {"t": 0.5, "u": 0.5}, "b": "s"}, "t": {"*": "u"}, "u": {"a": "s", "b": "u"}},
        "rewards": {"t": 1},
        "named_rewards": {"fuel": {"*": {"a": -2, "b": -1}, "u": 0}, "time": [1, 2, 3]},
        "labels": {"p": "t", "q": ["u"]},
    },
    "observer": {
        "emissions": {"*": "blank"},
        "after_action": {"a": {"*": {"x": 0.9, "y": 0.1}, "u": "y"}, "b": {"*": "x"}},
    },
    "secret": {"ltlf": "F(p & F q)", "reveal": "acceptance"},
    "horizon": 3,
    "task": {
        "return_at_least": 0.1,
        "objective": "minimise",
        "ltlf": "G !p",
        "probability_at_least": 0.1,
        "requirements": [
            {"reward": "fuel", "return_at_least": -5},
            {"reach": "q", "probability_at_least": 0.9},
            {"reach": ["t", "u"], "probability_at_least": 0.25, "name": "away"},
            {"regex": ".* q", "probability_at_least": 0.2, "minimal": False},
            {
                "automaton": {
                    "states": ["x", "y"],
                    "initial": "x",
                    "accepting": ["y"],
                    "edges": [{"from": "x", "to": "y", "when": "p"}],
                },
                "probability_at_least": 0.3,
            },
        ],
    },
    "policy": {"conditions_on": ["state", {"memory": {"nodes": 2, "start_in": {"u": 1}, "update": "free"}}]},
}

EXAMPLES = {"two-sink": TWO_SINK, "grid": GRID, "graph": GRAPH, "tasks": TASKS}


def edited(spec: Mapping[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with some values replaced; keys are paths such as "model/start"."""
    changed: dict[str, Any] = copy.deepcopy(dict(spec))
    for path, value in edits.items():
        *holders, last = path.split("/")
        place = changed
        for key in holders:
            place = place[key]
        if value is GONE:
            del place[last]
        else:
            place[last] = value
    return changed


def findings(spec: Any) -> tuple[list[Fault], list[Fault]]:
    """Return the errors and the warnings of a problem."""
    faults = Faults()
    problem = build_problem(spec, faults=faults)
    assert (problem is None) == bool(faults.errors)
    return faults.errors, faults.warnings


def check_faults(faults: Sequence[Fault], expected: Sequence[tuple[str, str]]) -> None:
    """Assert that faults stand at these paths, in this order, and that each says the words that tell its kind."""
    assert [fault.where for fault in faults] == [path for path, _ in expected]
    for fault, (_, kind) in zip(faults, expected, strict=True):
        assert kind in fault.message


def alike(one: Any, other: Any) -> bool:
    """Whether two built objects are equal, array by array."""
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        fields = [field.name for field in dataclasses.fields(one)]
        same_kind = type(one) is type(other)
        return same_kind and all(alike(getattr(one, name), getattr(other, name)) for name in fields)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(alike(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)
