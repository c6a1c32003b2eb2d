"""Policies told as mappings and read back, and every fault in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from opaq.errors import Fault, Faults, InputError
from opaq.spec import build_problem
from opaq.spec.policy_table import policy_from_dict, policy_to_dict
from problem_examples import GRAPH, GRID, TASKS, TWO_SINK, alike, check_faults, edited
from random_problems import random_policy, random_problem
from trials import part_of

PROBLEM = build_problem(TWO_SINK)
HEAD = {"format": "opaq-policy", "version": 1}
HALF = {"a": 0.5, "b": 0.5}


def row(probabilities: Any = "a", **key: Any) -> dict[str, Any]:
    return {"state": "q0"} | key | {"probabilities": probabilities}


def test_the_form_of_a_file() -> None:
    data = HEAD | {"rows": [row({"a": 0.3, "b": 0.7}), row(state="q1")]}
    policy = policy_from_dict(data, PROBLEM)
    assert policy.policy_class.conditions_on == ("state",)
    assert policy.rows == {("q0",): {"a": 0.3, "b": 0.7}, ("q1",): {"a": 1.0}}
    assert policy_to_dict(policy) == HEAD | {
        "conditions_on": ["state"],
        "rows": [
            {"state": "q0", "probabilities": {"a": 0.3, "b": 0.7}},
            {"state": "q1", "probabilities": {"a": 1.0}},
        ],
    }


@pytest.mark.parametrize("named", [True, False], ids=["in names", "in arrays"])
@pytest.mark.parametrize("seed", part_of(range(40), 10))
def test_random_policies_come_back_equal(seed: int, named: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    policy = random_policy(rng, problem)
    told = json.loads(json.dumps(policy_to_dict(policy, problem=problem if named else None)))
    again = policy_from_dict(told, problem)
    assert again.policy_class.conditions_on == policy.policy_class.conditions_on
    assert list(again.rows) == list(policy.rows)
    for key, shares in policy.rows.items():
        assert again.rows[key] == pytest.approx(shares, abs=1e-12)
    assert alike(policy_from_dict(policy_to_dict(again), problem), again)


def test_conditions_are_inferred_from_the_rows() -> None:
    graph = build_problem(GRAPH)
    key = {"memory": "m", "automaton": "x", "last_states": [0, "h"], "state": "h"}
    policy = policy_from_dict(HEAD | {"rows": [key | {"probabilities": {"go": 1}}]}, graph)
    assert policy.policy_class.conditions_on == graph.policy_class.conditions_on
    assert policy.policy_class.memory is graph.policy_class.memory
    assert list(policy.rows) == [("h", "x", ("0", "h"), "m")]
    timed = policy_from_dict(HEAD | {"rows": [{"time": 2, "state": "q0", "probabilities": "b"}]}, PROBLEM)
    assert (timed.policy_class.conditions_on, list(timed.rows)) == (("state", "time"), [("q0", 2)])


def test_cells_are_told_as_the_model_spells_them() -> None:
    rows = [{"state": [0, 0], "probabilities": "N"}, {"state": "0,1", "probabilities": "stay"}]
    assert list(policy_from_dict(HEAD | {"rows": rows}, build_problem(GRID)).rows) == [("(0,0)",), ("(0,1)",)]


def test_a_memory_machine_travels_with_the_policy() -> None:
    memory = {"nodes": 2, "update": [{"from": 0, "to": 1}]}
    data = HEAD | {"conditions_on": ["state", {"memory": memory}], "rows": [row(memory=1)]}
    policy = policy_from_dict(data, PROBLEM)
    assert list(policy.rows) == [("q0", "1")]
    assert policy_to_dict(policy, problem=PROBLEM)["conditions_on"][1] == {
        "memory": {
            "nodes": ["0", "1"],
            "start_in": {"q0": {"0": 1.0}, "q1": {"0": 1.0}, "q2": {"0": 1.0}},
            "update": [{"from": "0", "to": {"1": 1.0}}],
        }
    }


FAULTS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, [("format", "is missing"), ("version", "is missing"), ("rows", "is missing")]),
    ({"format": "x", "version": 2, "rows": [row()]}, [("format", "not 'opaq-policy'"), ("version", "not 1")]),
    (HEAD | {"rows": {}}, [("rows", "not a list")]),
    (HEAD | {"rows": [3]}, [("rows[0]", "not a mapping"), ("rows", "no row says")]),
    (HEAD | {"rows": [row({"a": 0.5})]}, [("rows[0].probabilities", "sum to")]),
    (HEAD | {"rows": [row({"c": 1})]}, [("rows[0].probabilities.c", "unknown")]),
    (HEAD | {"rows": [row(state="q9")]}, [("rows[0].state", "unknown")]),
    (HEAD | {"rows": [row(), row(HALF)]}, [("rows[1]", "repeats")]),
    (HEAD | {"rows": [{"state": "q0"}]}, [("rows[0].probabilities", "is missing")]),
    (HEAD | {"rows": [row(time=0), row()]}, [("rows[1].time", "is missing")]),
    (HEAD | {"rows": [row(time=3)]}, [("rows[0].time", "not a whole number")]),
    (HEAD | {"rows": [row(prob=3)]}, [("rows[0].prob", "unknown key")]),
    (HEAD | {"rows": [row(memory="m")]}, [("rows", "no machine")]),
    (HEAD | {"rows": [row(automaton="x")]}, [("rows", "no automaton")]),
    (HEAD | {"rows": [row(last_states=[])]}, [("rows[0].last_states", "has 0 states")]),
    (HEAD | {"rows": [row(last_states=["q0", "q7"])]}, [("rows[0].last_states[1]", "unknown")]),
    (HEAD | {"rows": [], "conditions_on": ["stat"]}, [("conditions_on[0]", "unknown")]),
    (
        HEAD | {"rows": [row(time=1)], "conditions_on": ["state"]},
        [("rows[0].time", "unknown key")],
    ),
]  # fmt: skip


def faults_of(data: dict[str, Any]) -> tuple[Fault, ...]:
    with pytest.raises(InputError) as caught:
        policy_from_dict(data, PROBLEM)
    return caught.value.faults


@pytest.mark.parametrize(("data", "expected"), FAULTS)
def test_faults(data: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    check_faults(faults_of(data), expected)


def test_sentences(golden: Callable[[str, Iterable[str]], None]) -> None:
    golden("policy files", [str(fault) for data, _ in FAULTS for fault in faults_of(data)])


def test_actions_must_be_enabled_where_they_are_taken() -> None:
    problem = build_problem(edited(TWO_SINK, {"model/transitions/q1": {"a": "q1"}}))
    faults = Faults()
    data = HEAD | {"rows": [row(HALF, state="q1"), row({"a": 1, "b": 0}, state="q1"), row(HALF)]}
    assert policy_from_dict(data, problem, faults=faults, path="policy") is None
    check_faults(
        faults.errors, [("policy.rows[0].probabilities.b", "not enabled in state 'q1'"), ("policy.rows[1]", "repeats")]
    )


def test_missing_rows_are_no_fault() -> None:
    assert policy_from_dict(HEAD | {"rows": [row()]}, PROBLEM).rows == {("q0",): {"a": 1.0}}


def test_a_free_memory_is_chosen_with_the_action() -> None:
    problem = build_problem(TASKS)
    memory = problem.policy_class.memory
    assert memory is not None
    assert memory.free
    assert memory.updates.dense()[memory.update_of[1]].tolist() == [[[0, 1], [0, 1]]] * 3
    data = HEAD | {"rows": [{"state": "t", "memory": 1, "probabilities": {"a>0": 0.25, "b>1": 0.75}}]}
    policy = policy_from_dict(data, problem)
    assert policy.rows == {("t", "1"): {"a>0": 0.25, "b>1": 0.75}}
    for told in (policy_to_dict(policy), policy_to_dict(policy, problem=problem)):
        again = policy_from_dict(json.loads(json.dumps(told)), problem)
        assert again.policy_class.memory.free
        assert alike(again.rows, policy.rows)


def test_faults_with_a_free_memory() -> None:
    problem = build_problem(edited(TASKS, {"model/transitions/t": {"a": "u"}}))
    rows = [
        {"state": "t", "memory": 0, "probabilities": {"b>0": 1}},
        {"state": "t", "memory": 1, "probabilities": {"a": 1}},
    ]
    with pytest.raises(InputError) as caught:
        policy_from_dict(HEAD | {"rows": rows}, problem)
    expected = [("rows[0].probabilities.b>0", "not enabled"), ("rows[1].probabilities.a", "unknown choice")]
    check_faults(caught.value.faults, expected)


def test_a_policy_knows_its_model() -> None:
    told = policy_to_dict(policy_from_dict(HEAD | {"rows": [row()]}, PROBLEM), problem=PROBLEM)
    assert told["model"].startswith("sha256:")
    assert policy_from_dict(told, PROBLEM).rows == {("q0",): {"a": 1.0}}
    other = build_problem(edited(TWO_SINK, {"model/rewards": {"q1": 2}}))
    with pytest.raises(InputError, match="model: the policy was made for another model"):
        policy_from_dict(told, other)
    assert policy_from_dict(told, other, ignore_model_mismatch=True).rows == {("q0",): {"a": 1.0}}


def test_actions_with_an_arrow_in_their_name() -> None:
    actions = [f"{number}>on" for number in range(5)]
    problem = build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["s"],
                "actions": actions,
                "start": "s",
                "transitions": {"s": dict.fromkeys(actions, "s")},
            },
            "observer": {"emissions": {"s": "o"}},
            "secret": {"last_state": ["s"]},
            "horizon": 1,
        }
    )
    shares = dict.fromkeys(actions, 0.2)
    policy = policy_from_dict(HEAD | {"rows": [{"state": "s", "probabilities": shares}]}, problem)
    assert policy.rows == {("s",): shares}
