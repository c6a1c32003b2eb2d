"""First and second derivatives of opacity and return, against differences of enumerated and exact values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import oracles
from opaq.beliefs.returns import return_gradient
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.opacity import sampled
from opaq.opacity.exact import gradient, hessian, hessian_vector
from opaq.product.compile import Product, compile_problem
from random_problems import CONDITIONS, SECRETS, random_problem

STEP = 1e-5


def slopes(function: Callable[[np.ndarray], float | np.ndarray], theta: np.ndarray) -> np.ndarray:
    """Central differences along every parameter."""
    steps = STEP * np.eye(theta.size)
    return np.array([(function(theta + step) - function(theta - step)) / (2 * STEP) for step in steps])


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    return bool(np.abs(found - expected).max(initial=0) <= tolerance * max(1.0, np.abs(expected).max(initial=0)))


def enumerated_return(problem: Problem, product: Product, theta: np.ndarray) -> float:
    return oracles.expected_return(problem, product.policy(product.process.softmax(theta)))


def enumerated_opacity(problem: Problem, product: Product, theta: np.ndarray) -> float:
    return oracles.opacity(oracles.joint(problem, product.policy(product.process.softmax(theta))))


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
def test_opacity_gradient_against_enumeration(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng([10, CONDITIONS.index(conditions)])
    for _ in range(4):
        problem = random_problem(rng, conditions=conditions, budget=200)
        product = compile_problem(problem)
        theta = rng.normal(size=product.process.num_slots)
        enumerated = partial(enumerated_opacity, problem, product)
        value, slope = gradient(product.process, theta)
        assert value == pytest.approx(enumerated(theta), abs=1e-10)
        assert close(slope, slopes(enumerated, theta), 1e-6)


@pytest.mark.parametrize("kind", SECRETS)
def test_opacity_gradient_against_exact_values(kind: str) -> None:
    rng = np.random.default_rng([11, SECRETS.index(kind)])
    for _ in range(3):
        process = compile_problem(random_problem(rng, secret=kind)).process
        theta = rng.normal(size=process.num_slots)
        _, slope = gradient(process, theta)
        assert close(slope, slopes(lambda t: gradient(process, t)[0], theta), 1e-6)  # noqa: B023


def test_return_gradient_against_enumeration() -> None:
    rng = np.random.default_rng(12)
    for _ in range(20):
        problem = random_problem(rng, budget=200)
        product = compile_problem(problem)
        theta = rng.normal(size=product.process.num_slots)
        enumerated = partial(enumerated_return, problem, product)
        value, slope = return_gradient(product.process, theta)
        assert value == pytest.approx(enumerated(theta), abs=1e-10)
        assert close(slope, slopes(enumerated, theta), 1e-6)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_hessian_against_differences_of_the_gradient(spread: float) -> None:
    # At 0 many beliefs coincide although their derivatives do not: merging them must not lose curvature.
    rng = np.random.default_rng(13)
    for _ in range(25):
        process = compile_problem(random_problem(rng, budget=500)).process
        theta = spread * rng.normal(size=process.num_slots)
        one, other = rng.normal(size=(2, process.num_slots))
        matrix = hessian(process, theta)
        assert close(matrix, slopes(lambda t: gradient(process, t)[1], theta), 1e-4)  # noqa: B023
        product = hessian_vector(process, theta, one)
        assert close(product, matrix @ one, 1e-9)
        assert other @ product == pytest.approx(one @ hessian_vector(process, theta, other), abs=1e-9)


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_curvature_of_beliefs_that_meet_with_different_slopes(horizon: int) -> None:
    # The observer sees the start (x or y), then nothing: u against v is hidden by one coin for each start. At 0 both
    # coins are fair and the beliefs are one, yet H = (h(p_x) + h(p_y)) / 2 has curvature -1 / (2 ln 2) in p_x's logits.
    moves = SparseRows.from_dense(np.eye(4)[[2, 3, 2, 3, 2, 3]])
    choices, actions = ints([0, 2, 4, 5, 6]), ints([0, 1, 0, 1, 0, 0])
    mdp = MDP(tuple("xyuv"), ("a", "b"), floats([0.5, 0.5, 0, 0]), choices, actions, moves, floats([0] * 6), {})
    observer = Observer(("x", "y", "null"), SparseRows.from_dense(np.eye(3)[[0, 1, 2, 2]]))
    secret = LastState(StateClasses(("u", "v"), ints([0, 0, 0, 1])))
    process = compile_problem(Problem(mdp, observer, secret, horizon)).process
    along_x = np.zeros(process.num_slots)
    along_x[:2] = 1.0, -1.0
    product = hessian_vector(process, np.zeros(process.num_slots), along_x)
    assert along_x @ product == pytest.approx(-0.5 / np.log(2), rel=1e-9)
    assert product[2:] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_hessian_against_enumeration(spread: float) -> None:
    rng = np.random.default_rng(16)
    for _ in range(8):
        problem = random_problem(rng, budget=200)
        product = compile_problem(problem)
        theta = spread * rng.normal(size=product.process.num_slots)
        direction = rng.normal(size=theta.size)
        curve = [enumerated_opacity(problem, product, theta + step * direction) for step in (-1e-4, 0.0, 1e-4)]
        expected = (curve[0] - 2 * curve[1] + curve[2]) / 1e-8
        found = direction @ hessian_vector(product.process, theta, direction)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_derivatives_are_finite_at_the_edge_of_the_parameters() -> None:
    rng = np.random.default_rng(14)
    for _ in range(40):
        process = compile_problem(random_problem(rng)).process
        theta = rng.choice([-700.0, 0.0, 700.0, 3.0], size=process.num_slots)
        value, slope = gradient(process, theta)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
        assert np.isfinite(hessian_vector(process, theta, rng.normal(size=theta.size))).all()
        assert np.isfinite(return_gradient(process, theta)[1]).all()


def test_adding_a_constant_to_a_row_changes_nothing() -> None:
    rng = np.random.default_rng(15)
    for _ in range(20):
        process = compile_problem(random_problem(rng)).process
        theta = rng.normal(size=process.num_slots)
        shift = rng.normal(size=process.num_rows)[process.row_of_slot()]
        value, slope = gradient(process, theta)
        moved, same = gradient(process, theta + shift)
        assert moved == pytest.approx(value, abs=1e-12)
        assert close(same, slope, 1e-10)
        assert np.add.reduceat(slope, process.row_start[:-1]) == pytest.approx(0, abs=1e-10)


def average(draws: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of independent estimates."""
    return np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))


def test_sampled_derivatives_are_unbiased() -> None:
    rng = np.random.default_rng(17)
    for _ in range(6):
        process = compile_problem(random_problem(rng, budget=500)).process
        theta, direction = rng.normal(size=(2, process.num_slots))
        estimates = [sampled.gradient(process, theta, samples=50, rng=rng)[2] for _ in range(150)]
        products = [sampled.hessian_vector(process, theta, direction, samples=50, rng=rng) for _ in range(150)]
        for (mean, error), truth in [
            (average(estimates), gradient(process, theta)[1]),
            (average(products), hessian_vector(process, theta, direction)),
        ]:
            assert (np.abs(mean - truth) <= 5 * error + 1e-9).all()
