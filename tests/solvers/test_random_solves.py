"""A part of `python -m tests.stress solve`: random default solves, every claim confirmed by enumeration."""

from __future__ import annotations

from dataclasses import replace

import pytest

import opaq
from opaq.model.policy import PolicyClass
from opaq.model.problem import Task
from stress.solving import known_policy, try_solve
from trials import part_of


@pytest.mark.parametrize("first", part_of(range(0, 25, 5), 2))
def test_every_claim_is_confirmed(first: int) -> None:
    assert [line for number in range(first, first + 5) for line in try_solve(number).failures] == []


@pytest.mark.parametrize("number", [39, 57])
def test_converged_is_not_said_beside_a_large_curvature(number: int) -> None:
    # Both said "converged: no small change does better" where the curvature was above 4e-3.
    assert try_solve(number).failures == ()


def test_the_search_behind_not_found_finds_what_there_is() -> None:
    problem = replace(opaq.load_problem("graph"), horizon=3, policy_class=PolicyClass())
    assert known_policy(replace(problem, task=Task(return_at_least=0.2))) is not None
    assert known_policy(replace(problem, task=Task(return_at_least=4.0))) is None
