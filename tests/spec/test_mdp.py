"""Models from names, from arrays and from sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from opaq.errors import Fault, Faults, InputError
from opaq.spec import build_mdp, build_problem
from opaq.spec import rows as arrays
from opaq.spec.problem_part import problem_to_dict
from problem_examples import TWO_SINK, alike, check_faults

TENSOR = np.zeros((3, 2, 3))
TENSOR[0, 0, 0] = TENSOR[1, :, 1] = TENSOR[2, :, 2] = 1
TENSOR[0, 1, 1:] = 0.5
NAMES: dict[str, Any] = {"states": ["q0", "q1", "q2"], "actions": ["a", "b"]}


def faults_of(**spec: Any) -> tuple[Fault, ...]:
    with pytest.raises(InputError) as caught:
        build_mdp(**spec)
    return caught.value.faults


def test_names_in_arrays_out() -> None:
    mdp = build_mdp(**TWO_SINK["model"])
    assert mdp.states == ("q0", "q1", "q2")
    assert mdp.choice_start.tolist() == [0, 2, 4, 6]
    assert mdp.choice_action.tolist() == [0, 1, 0, 1, 0, 1]
    assert mdp.transitions.dense()[:2].tolist() == [[1, 0, 0], [0, 0.5, 0.5]]
    assert mdp.rewards.tolist() == [0, 0, 1, 1, 1, 1]
    assert {label: states.tolist() for label, states in mdp.labels.items()} == {"secret": [1], "goal": [1, 2]}


@pytest.mark.parametrize(
    "transitions",
    [
        TENSOR,
        TENSOR.tolist(),
        {"a": TENSOR[:, 0], "b": TENSOR[:, 1].tolist()},
        {"b": sparse.csr_array(TENSOR[:, 1]), "a": sparse.coo_matrix(TENSOR[:, 0])},
    ],
    ids=["array", "lists", "matrices", "sparse"],
)
def test_every_form_gives_the_same_model(transitions: Any) -> None:
    rest = {"rewards": [0, 1, 1], "labels": {"secret": "q1", "goal": ["q1", "q2"]}, "start": np.array([1, 0, 0])}
    assert alike(build_mdp(transitions=transitions, **NAMES, **rest), build_mdp(**TWO_SINK["model"]))


def test_names_may_be_left_out_with_arrays() -> None:
    mdp = build_mdp(transitions=TENSOR, start=0)
    assert (mdp.states, mdp.actions) == (("0", "1", "2"), ("0", "1"))
    assert build_mdp(transitions={"x": TENSOR[:, 0]}, start=0).actions == ("x",)


def test_rows_of_zeros_are_actions_not_enabled() -> None:
    tensor = TENSOR.copy()
    tensor[1, 0] = 0
    mdp = build_mdp(transitions=tensor, start=0, rewards=[[1, 2], [3, 4], [5, 6]])
    assert mdp.choice_action.tolist() == [0, 1, 1, 0, 1]
    assert mdp.rewards.tolist() == [1, 2, 4, 5, 6]


def test_star_is_every_action_not_listed() -> None:
    spec = {
        "transitions": {"s": {"*": "s", "b": "t"}, "t": {"b": "t"}},
        "states": ["s", "t"],
        "actions": ["a", "b", "c"],
    }
    mdp = build_mdp(start="s", **spec)
    assert mdp.choice_action.tolist() == [0, 1, 2, 1]
    assert mdp.transitions.columns.tolist() == [0, 1, 0, 1]


def test_exact_rewards_win_over_stars() -> None:
    rewards = {"q0": {"*": 2, "b": 3}, "*": {"*": 1, "a": -1}, "q2": {"a": 7}}
    mdp = build_mdp(**(TWO_SINK["model"] | {"rewards": rewards}))
    assert mdp.rewards.tolist() == [2, 3, -1, 1, 7, 1]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("q1", [0, 1, 0]),
        ({"q0": 0.25, "q2": 0.75}, [0.25, 0, 0.75]),
        (["q0", "q1"], [0.5, 0.5, 0]),
        ([0.5, 0.5, 0.0], [0.5, 0.5, 0]),
        (np.array([0, 0, 1]), [0, 0, 1]),
        (np.array(["q2"]), [0, 0, 1]),
    ],
)
def test_starts(start: Any, expected: list[float]) -> None:
    assert build_mdp(**(TWO_SINK["model"] | {"start": start})).start.tolist() == expected


def test_faults_of_arrays_say_where() -> None:
    tensor = TENSOR.copy()
    tensor[0, 1, 1], tensor[1, 0, 1], tensor[2] = 0.4, -1, 0
    expected = [("[1, 0, 1]", "is negative"), ("[0, 1]", "sum to 0.9"), ("[2]", "no action is enabled")]
    check_faults(
        faults_of(transitions=tensor, start=0), [(f"model.transitions{index}", kind) for index, kind in expected]
    )
    matrix = sparse.csr_array(np.array([[0.5, 0.4], [0, np.inf]]))
    check_faults(
        faults_of(transitions={"go": matrix}, start=0), [("model.transitions.go[1, 1]", "not a finite number")]
    )
    off = {"go": np.array([[0.5, 0.4], [0, 1.0]])}
    check_faults(faults_of(transitions=off, start=0), [("model.transitions.go[0]", "sum to 0.9")])


SHAPES: list[tuple[dict[str, Any], str, str]] = [
    ({"transitions": np.ones((2, 1))}, "model.transitions", "2 axes"),
    ({"transitions": np.ones((2, 1, 3))}, "model.transitions", "2 states on its first axis and 3"),
    ({"transitions": np.ones((0, 1, 0))}, "model.transitions", "is empty"),
    ({"transitions": TENSOR, "states": ["x"]}, "model.transitions", "3 states"),
    ({"transitions": TENSOR, "actions": ["x"]}, "model.transitions", "2 actions"),
    ({"transitions": {"a": TENSOR[:, 0]}, "actions": ["a", "b"]}, "model.transitions.b", "is missing"),
    ({"transitions": dict.fromkeys("ac", TENSOR[:, 0]), "actions": ["a"]}, "model.transitions.c", "unknown action"),
    ({"transitions": {"a": np.eye(2), "b": np.eye(3)}}, "model.transitions.b", "has shape"),
]


def faults_of_shape(spec: dict[str, Any]) -> tuple[Fault, ...]:
    return faults_of(start="x" if spec.get("states") else 0, **spec)


@pytest.mark.parametrize(("spec", "path", "kind"), SHAPES)
def test_shapes(spec: dict[str, Any], path: str, kind: str) -> None:
    check_faults(faults_of_shape(spec), [(path, kind)])


def test_sentences(golden: Callable[[str, Iterable[str]], None]) -> None:
    golden("shapes of arrays", [str(fault) for spec, *_ in SHAPES for fault in faults_of_shape(spec)])


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_MATRIX_ENTRIES", 10)
    check_faults(faults_of(transitions=TENSOR, start=0), [("model.transitions", "18 entries, more than 10")])
    huge = sparse.csr_array((6_000_000, 6_000_000))
    check_faults(
        faults_of(transitions={"a": huge}, start=0)[:1], [("model.transitions", "6,000,000 states, more than")]
    )


def test_slightly_off_arrays_are_scaled_with_one_warning() -> None:
    faults = Faults()
    mdp = build_mdp(transitions=(TENSOR * (1 - 1e-6)).tolist(), start=0, faults=faults)
    assert np.allclose(mdp.transitions.row_sums(), 1, atol=1e-15)
    check_faults(faults.warnings, [("model.transitions", "6 rows sum to 1 only within 1e-06")])


def test_a_collector_gets_the_faults_and_none_comes_back() -> None:
    faults = Faults()
    assert build_mdp(transitions=TENSOR, start="nowhere", faults=faults, path="m") is None
    check_faults(faults.errors, [("m.start", "unknown state 'nowhere'")])


PLACED: dict[str, Any] = {
    "states": ["a", "b"],
    "actions": ["go"],
    "start": "a",
    "transitions": {"a": {"go": "b"}, "b": {"go": "a"}},
}


def test_positions_are_read_and_written() -> None:
    model = PLACED | {"positions": {"b": [1, 0.5], "a": [0, 0]}, "labels": {"up": {"where": "y > 0"}}}
    stated = {"opaq": 1, "model": model, "observer": {"emissions": {"*": "o"}}, "secret": {"last_state": "up"}}
    problem = build_problem(stated | {"horizon": 1})
    assert problem.mdp.positions.tolist() == [[0, 0], [1, 0.5]]
    assert problem.mdp.labels["up"].tolist() == [1]
    written = problem_to_dict(problem)
    assert written["model"]["positions"] == {"a": [0, 0], "b": [1, 0.5]}
    assert build_problem(written) == problem


@pytest.mark.parametrize(
    ("positions", "messages"),
    [
        ({"a": [0, 0]}, ["model.positions: no position for b; give every state one, or remove them all"]),
        (
            {"a": [0], "b": "x", "c": [1, 1]},
            [
                "model.positions.a: has 1 numbers, not 2",
                "model.positions.b: is 'x', not a list",
                "model.positions.c: unknown state 'c'",
            ],
        ),
        ({"a": [0, "y"], "b": [0, 1]}, ["model.positions.a[1]: 'y' is text, not a number"]),
        ([1, 2], ["model.positions: is a list, not a mapping"]),
    ],
)  # fmt: skip
def test_faults_of_positions(positions: Any, messages: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        build_mdp(**PLACED, positions=positions)
    assert [line[: len(each)] for line, each in zip(caught.value.lines(), messages, strict=True)] == messages
