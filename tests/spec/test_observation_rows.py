"""Observations in problem and policy files: read, written back, and every fault in one."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from aware_oracles import LazyPolicy, aware_truth
from opaq.errors import InputError
from opaq.model.conditions import CurrentState, MemoryNode, Observations
from opaq.model.policy import PolicyClass
from opaq.spec import build_problem
from opaq.spec.memory_part import free_memory
from opaq.spec.policy_table import policy_from_dict, policy_to_dict
from opaq.spec.problem_part import problem_schema, problem_to_dict
from problem_examples import TWO_SINK, edited
from random_problems import random_problem

PROBLEM = build_problem(TWO_SINK)
SEEN = PROBLEM.observer.observations
HEAD = {"format": "opaq-policy", "version": 1}


def looking_at(*conditions: Any) -> dict[str, Any]:
    return edited(TWO_SINK, {"policy": {"conditions_on": list(conditions)}})


def row(*observations: str, **more: Any) -> dict[str, Any]:
    return {"state": "q0", "observations": list(observations), "probabilities": "a"} | more


@pytest.mark.parametrize("count", [1, 2, 1_000, "all"])
def test_problems_come_back_equal(count: object) -> None:
    spec = looking_at("state", {"observations": count})
    jsonschema.Draft202012Validator(problem_schema()).validate(spec)
    problem = build_problem(spec)
    assert problem.policy_class.conditions == (CurrentState(), Observations(count))
    assert problem_to_dict(problem)["policy"] == {"conditions_on": ["state", {"observations": count}]}


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("observations", "policy.conditions_on[0]: 'observations' needs a value; say how many: {observations: 2}, or {observations: all}"),
        ({"observations": 0}, "policy.conditions_on[0].observations: is 0, not a whole number from 1 to 1,000"),
        ({"observations": "every"}, "policy.conditions_on[0].observations: is 'every', not a whole number or 'all'"),
        ({"observations": True}, "policy.conditions_on[0].observations: is true, not a whole number"),
    ],
)  # fmt: skip
def test_faults_in_problems(condition: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_problem(looking_at(condition))
    assert caught.value.lines() == [message]


@pytest.mark.parametrize("signs", [False, True], ids=["states seen", "actions seen"])
@pytest.mark.parametrize("seed", range(6))
def test_policies_come_back_equal(seed: int, signs: bool) -> None:
    rng = np.random.default_rng([91, seed])
    problem = random_problem(rng, conditions=("state",), watches_actions=signs, horizon=2, budget=300)
    memory = MemoryNode(free_memory(problem.mdp, 2))
    for conditions in ((CurrentState(), Observations(2)), (Observations("all"), CurrentState(), memory)):
        lazy = LazyPolicy(problem, PolicyClass(conditions), lambda size: rng.dirichlet(np.ones(size)))
        aware_truth(problem, lazy)
        policy = lazy.policy()
        again = policy_from_dict(json.loads(json.dumps(policy_to_dict(policy, problem=problem))), problem)
        assert list(again.rows) == list(policy.rows)
        assert all(again.rows[key] == pytest.approx(shares, abs=1e-12) for key, shares in policy.rows.items())
        assert [one.label for one in again.policy_class.conditions] == [one.label for one in conditions]


def test_the_form_of_a_row() -> None:
    policy = policy_from_dict(HEAD | {"rows": [row(SEEN[0]), row(SEEN[0], SEEN[1])]}, PROBLEM)
    assert policy.policy_class.conditions == (CurrentState(), Observations(2))  # as long as the longest row
    assert list(policy.rows) == [("q0", (SEEN[0],)), ("q0", (SEEN[0], SEEN[1]))]
    own = build_problem(looking_at("state", {"observations": "all"}))
    assert policy_from_dict(HEAD | {"rows": [row(SEEN[0])]}, own).policy_class == own.policy_class


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        ({"rows": [row()]}, ["rows[0].observations: has 0 observations, not 1 to 1; list the latest observations, oldest first"]),
        ({"rows": [row(SEEN[0], "X")]}, [f"rows[0].observations[1]: unknown observation 'X'; the observations are {', '.join(SEEN)}"]),
        ({"rows": [row(SEEN[0], observations=3)]}, ["rows[0].observations: is 3, not a list"]),
        ({"rows": [row(SEEN[0]), {"state": "q0", "probabilities": "a"}]}, ["rows[1].observations: is missing; every row needs it"]),
        ({"conditions_on": ["state", {"observations": "all"}], "rows": [row(*SEEN[:1] * 4)]}, ["rows[0].observations: has 4 observations, not 1 to 3; list the latest observations, oldest first"]),
        ({"rows": [row(SEEN[0], probabilities="c")]}, ["rows[0].probabilities: unknown action 'c'; the actions are a, b"]),
    ],
)  # fmt: skip
def test_faults_in_policies(data: dict[str, Any], messages: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        policy_from_dict(HEAD | data, PROBLEM)
    assert caught.value.lines() == messages


def test_actions_must_be_enabled_where_they_are_taken() -> None:
    problem = build_problem(edited(TWO_SINK, {"model/transitions/q1": {"a": "q1"}}))
    with pytest.raises(InputError, match="action 'b' is not enabled in state 'q1'"):
        policy_from_dict(HEAD | {"rows": [row(SEEN[0], state="q1", probabilities="b")]}, problem)
