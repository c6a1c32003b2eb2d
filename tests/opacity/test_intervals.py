"""Answers that are not exact say so: truncated ones contain the truth, sampled ones know their error."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from opaq.opacity.measure import Amount, measure
from random_problems import SECRETS, random_policy, random_problem


def contains(amount: Amount, truth: float) -> bool:
    return amount.lower - 1e-10 <= truth <= amount.upper + 1e-10


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("kind", SECRETS)
def test_few_nodes_still_give_a_true_interval(kind: str, nodes: int) -> None:
    rng = np.random.default_rng([20, SECRETS.index(kind), nodes])
    for _ in range(3):
        problem = random_problem(rng, secret=kind)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        measurement = measure(problem, policy, mode="interval", max_beliefs=nodes)
        truth, entropy = oracles.opacity(joint), oracles.secret_entropy(joint)
        assert contains(measurement.opacity, truth)
        assert contains(measurement.leakage, entropy - truth)
        assert contains(measurement.guess_error, oracles.guess_error(joint))
        assert 0 <= measurement.opacity.lower <= measurement.opacity.value <= measurement.opacity.upper


def test_some_budgets_are_really_too_small() -> None:
    rng = np.random.default_rng(21)
    problems = [random_problem(rng, horizon=4) for _ in range(20)]
    widths = [m.upper - m.lower for m in (measure(p, mode="interval", max_beliefs=2).opacity for p in problems)]
    assert max(widths) > 0.01


def test_more_nodes_give_a_narrower_interval() -> None:
    rng = np.random.default_rng(22)
    for _ in range(10):
        problem = random_problem(rng, horizon=3)
        found = [measure(problem, mode="interval", max_beliefs=nodes).opacity for nodes in (2, 8, 100_000)]
        widths = [amount.upper - amount.lower for amount in found]
        assert widths[0] >= widths[1] - 1e-9
        assert widths[2] <= 1e-9


def test_the_width_asked_for_is_kept() -> None:
    rng = np.random.default_rng(23)
    for width in (0.2, 0.05, 1e-3, 1e-6):
        for _ in range(3):
            problem = random_problem(rng, horizon=4)
            opacity = measure(problem, mode="interval", width=width).opacity
            assert opacity.upper - opacity.lower <= width + 1e-12
            assert contains(opacity, oracles.opacity(oracles.joint(problem)))


@pytest.mark.parametrize("kind", SECRETS)
def test_sampled_values_lie_within_four_standard_errors(kind: str) -> None:
    rng = np.random.default_rng([24, SECRETS.index(kind)])
    for seed in range(4):
        problem = random_problem(rng, secret=kind)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        measurement = measure(problem, policy, mode="sampled", samples=2000, seed=seed)
        for amount, truth in [
            (measurement.opacity, oracles.opacity(joint)),
            (measurement.guess_error, oracles.guess_error(joint)),
        ]:
            assert abs(amount.value - truth) <= 4 * amount.standard_error + 1e-9
        # What does not depend on the observer is not sampled.
        assert measurement.secret_entropy == pytest.approx(oracles.secret_entropy(joint), abs=1e-10)
        assert measurement.expected_return == pytest.approx(oracles.expected_return(problem, policy), abs=1e-10)


def test_sampling_is_repeatable_and_improves() -> None:
    problem = random_problem(np.random.default_rng(25), secret="last_state", horizon=4)
    few, again, many = (
        measure(problem, mode="sampled", samples=samples, seed=7).opacity for samples in (500, 500, 50_000)
    )
    assert few == again
    assert many.standard_error <= few.standard_error
