"""Exact measurement equals the enumeration of every run, for every kind of secret and policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Task
from opaq.opacity.measure import Measurement, measure
from random_problems import CONDITIONS, LANGUAGES, SECRETS, random_policy, random_problem
from trials import part_of

CASES = [(s, c) for s in SECRETS for c in CONDITIONS if s in LANGUAGES or "automaton" not in c]


def exactly(value: float) -> object:
    return pytest.approx(value, abs=1e-10)


def check(problem: Problem, policy: Policy | None) -> None:
    measurement = measure(problem, policy, mode="exact")
    joint = oracles.joint(problem, policy)
    check_opacity(measurement, joint)
    returned = oracles.expected_return(problem, policy)
    assert measurement.expected_return == exactly(returned)
    threshold = problem.task.return_at_least
    if threshold is None or abs(returned - threshold) > 1e-6:
        assert measurement.feasible == (threshold is None or returned > threshold)


def check_opacity(measurement: Measurement, joint: oracles.Joint) -> None:
    opacity, entropy = oracles.opacity(joint), oracles.secret_entropy(joint)
    error = oracles.guess_error(joint)
    for amount, truth in [
        (measurement.opacity, opacity),
        (measurement.leakage, entropy - opacity),
        (measurement.guess_error, error),
    ]:
        assert amount.value == exactly(truth)
        assert amount.lower == exactly(truth)
        assert amount.upper == exactly(truth)
        assert amount.lower <= amount.value <= amount.upper
    assert measurement.secret_entropy == exactly(entropy)
    assert measurement.fano_bound <= error + 1e-10
    check_distribution(measurement.secret_distribution, oracles.secret_distribution(joint))


def check_distribution(found: dict[str, float], expected: dict[str, float]) -> None:
    for name in found.keys() | expected.keys():
        assert found.get(name, 0.0) == exactly(expected.get(name, 0.0))


@pytest.mark.parametrize(
    ("kind", "conditions"), CASES, ids=lambda case: case if isinstance(case, str) else "-".join(case)
)
def test_every_secret_and_policy_class(kind: str, conditions: tuple[str, ...]) -> None:
    for seed in part_of(range(4), 2):
        rng = np.random.default_rng([seed, SECRETS.index(kind), CONDITIONS.index(conditions)])
        problem = random_problem(rng, secret=kind, conditions=conditions)
        check(problem, random_policy(rng, problem))


@pytest.mark.parametrize("kind", SECRETS)
def test_uniform_policy(kind: str) -> None:
    rng = np.random.default_rng([1, SECRETS.index(kind)])
    for _ in range(6):
        check(random_problem(rng, secret=kind), None)


@pytest.mark.parametrize("kind", SECRETS)
def test_an_observer_of_actions(kind: str) -> None:
    rng = np.random.default_rng([2, SECRETS.index(kind)])
    for _ in range(6):
        problem = random_problem(rng, secret=kind, watches_actions=True)
        check(problem, random_policy(rng, problem))


def test_longer_runs() -> None:
    rng = np.random.default_rng(3)
    for horizon in (5, 6, 7, 8):
        problem = random_problem(rng, horizon=horizon, budget=20_000)
        check(problem, random_policy(rng, problem))


def test_a_policy_of_another_class_than_the_problem_asks_for() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        problem = random_problem(rng)
        policy = random_policy(rng, problem)
        check(
            replace(problem, policy_class=replace(problem.policy_class, conditions_on=("state",), memory=None)), policy
        )


def test_return_for_ever() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        drawn = random_problem(rng, conditions=("state",))
        problem = replace(drawn, discount=float(rng.uniform(0.1, 0.95)), task=Task(0.0, over="forever"))
        policy = random_policy(rng, problem)
        measurement = measure(problem, policy, mode="exact")
        assert measurement.expected_return == exactly(oracles.infinite_return(problem, policy))
