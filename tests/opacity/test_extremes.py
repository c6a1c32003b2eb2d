"""Long runs and probabilities at the end of the floating-point range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.opacity.exact import gradient, hessian_vector
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem
from random_problems import random_policy, random_problem


def coin_problem(horizon: int, observer: Observer) -> Problem:
    """Starts in x; from then on x or y is drawn afresh at every step, whatever is done."""
    mdp = MDP(
        states=("x", "y"),
        actions=("a", "b"),
        start=floats([1, 0]),
        choice_start=ints([0, 2, 4]),
        choice_action=ints([0, 1, 0, 1]),
        transitions=SparseRows.from_dense(np.full((4, 2), 0.5)),
        rewards=floats([1, 1, 0, 0]),
        labels={},
    )
    return Problem(mdp, observer, LastState(StateClasses(("x", "y"), ints([0, 1]))), horizon)


@pytest.mark.parametrize("horizon", [10, 300, 3000])
def test_only_the_last_of_many_independent_states_counts(horizon: int) -> None:
    noisy = Observer(("u", "v", "w"), SparseRows.from_dense([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    once = oracles.joint(coin_problem(1, noisy))
    measurement = measure(coin_problem(horizon, noisy), mode="exact")
    assert measurement.opacity.value == pytest.approx(oracles.opacity(once), abs=1e-10)
    assert measurement.guess_error.value == pytest.approx(oracles.guess_error(once), abs=1e-10)
    assert measurement.expected_return == pytest.approx(1 + horizon / 2, rel=1e-12)


def test_a_long_run_of_unlikely_observations() -> None:
    # Every single sequence of the 1000 observations has a probability far below the smallest float.
    observations = tuple("uvwz")
    alike = Observer(observations, SparseRows.from_dense(np.full((2, 4), 0.25)))
    process = compile_problem(coin_problem(1000, alike)).process
    value, slope = gradient(process, np.array([1.0, 0.0, 0.0, -1.0]))
    assert value == pytest.approx(1, abs=1e-10)
    assert slope == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("gap", [650, 700, 709, 712, 730, 744, 750, 1400])
def test_actions_of_hardly_any_probability_are_never_nan(gap: float) -> None:
    # exp(-gap) passes from normal through subnormal numbers to 0, and the observer sees which action was taken.
    watching = Observer(("o",), SparseRows.from_dense([[1.0], [1.0]]), ("A", "B"), SparseRows.from_dense(np.eye(2)))
    problem = coin_problem(2, watching)
    process = compile_problem(problem).process
    theta = np.array([gap / 2, -gap / 2, 0.0, 0.0])
    value, slope = gradient(process, theta)
    assert value == pytest.approx(1, abs=1e-10)
    assert slope == pytest.approx(0, abs=1e-10)
    assert np.isfinite(hessian_vector(process, theta, np.ones(4))).all()
    rare, often = process.softmax(theta)[[1, 0]].tolist()
    rows = {("x",): {"a": often, "b": rare}, ("y",): {"a": 0.5, "b": 0.5}}
    measurement = measure(problem, Policy(PolicyClass(), rows), mode="exact")
    assert measurement.opacity.value == pytest.approx(1, abs=1e-10)
    assert measurement.guess_error.value == pytest.approx(0.5, abs=1e-10)


def test_rare_actions_are_measured_exactly() -> None:
    rng = np.random.default_rng(70)
    for _ in range(40):
        problem = random_problem(rng, budget=1000)
        policy = random_policy(rng, problem, softmax=True)
        rare = replace(policy, rows={key: scattered(rng, row) for key, row in policy.rows.items()})
        joint = oracles.joint(problem, rare)
        measurement = measure(problem, rare, mode="exact")
        assert measurement.opacity.value == pytest.approx(oracles.opacity(joint), abs=1e-10)
        assert measurement.guess_error.value == pytest.approx(oracles.guess_error(joint), abs=1e-10)


def scattered(rng: np.random.Generator, row: dict[str, float]) -> dict[str, float]:
    """The row with some actions made rare, some of them extremely."""
    weights = np.array(list(row.values())) * rng.choice([1.0, 1e-6, 1e-12, 1e-100, 1e-300], size=len(row))
    weights[rng.integers(len(row))] = 1.0
    return dict(zip(row, (weights / weights.sum()).tolist(), strict=True))
