"""Expected payoffs, their slopes, and how far rounding can put them off: against enumeration and exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import oracles
from beliefs.prefix_oracle import extreme, ordinary
from opaq.beliefs.returns import (
    absolute_payoff,
    expected_return,
    infinite_return,
    largest_absolute_payoff,
    return_gradient,
    return_slope,
    rounding_share,
    secret_distribution,
    secret_slope,
    start_distribution,
)
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem, Task
from opaq.model.secret import LastState, StateClasses
from opaq.product.compile import compile_problem
from opaq.stop import Stop, StoppedError
from random_problems import random_policy, random_problem
from stress.extremes import bounded_model, exact_return
from trials import part_of


def absolute_return(problem, policy) -> float:
    """E[sum over t of |discount^t R|], run by run."""
    rewards = np.abs(problem.mdp.rewards)
    return sum(
        run.probability * oracles.run_return(problem, run, rewards) for run in oracles.enumerate_runs(problem, policy)
    )


@pytest.mark.parametrize("model", [ordinary, extreme])
def test_returns_requirements_and_the_prior_equal_enumeration(model) -> None:
    for number in range(40):
        problem, policy = model(number)
        product = compile_problem(problem)
        process, pi, truth = product.process, product.policy_vector(policy), oracles.enumerate_truth(problem, policy)
        values = [expected_return(process, pi, payoff) for payoff in process.payoffs]
        assert values == pytest.approx([truth.expected_return, *truth.requirements], abs=1e-9), number
        prior = dict(zip(product.secret_values, secret_distribution(process, pi).tolist(), strict=True))
        expected = oracles.secret_distribution(truth.joint)
        assert all(prior[name] == pytest.approx(expected.get(name, 0.0), abs=1e-10) for name in prior), number
        assert start_distribution(process).sum() == pytest.approx(1.0, abs=1e-12)
        paid = absolute_payoff(process, pi, process.payoffs[0])
        assert paid == pytest.approx(absolute_return(problem, policy), abs=1e-9), number
        assert paid <= largest_absolute_payoff(process, process.payoffs[0]) * (1 + 1e-12), number


def test_slopes_equal_differences_of_enumerated_values() -> None:
    rng, step = np.random.default_rng(2), 1e-5
    for number in range(20):
        product = compile_problem(ordinary(number)[0])
        process = product.process
        theta, along = rng.normal(size=process.num_slots), rng.normal(size=process.num_slots)
        worth = rng.normal(size=process.num_secrets)
        named = dict(zip(product.secret_values, worth, strict=True))
        pi = process.softmax(theta)
        ahead, behind = (
            oracles.enumerate_truth(product.problem, product.policy(process.softmax(theta + sign * step * along)))
            for sign in (1, -1)
        )
        earned = (ahead.expected_return - behind.expected_return) / (2 * step)
        assert return_gradient(process, theta)[1] @ along == pytest.approx(earned, rel=1e-6, abs=1e-7)
        means = [sum(named[value] * mass for (value, _), mass in one.joint.items()) for one in (ahead, behind)]
        slope = process.pull_back(pi, secret_slope(process, pi, worth)[1]) @ along
        assert slope == pytest.approx((means[0] - means[1]) / (2 * step), rel=1e-6, abs=1e-7)


def test_visits_of_rows_equal_enumeration() -> None:
    for number in range(20):
        problem, policy = ordinary(number)
        product = compile_problem(problem)
        visits = dict.fromkeys(product.rows, 0.0)
        for run in oracles.enumerate_runs(problem, policy):
            for time in range(problem.horizon + 1):
                key = oracles.row_key(problem, policy.policy_class, run.states[: time + 1], run.nodes[time])
                visits[key] += run.probability
        _, _, rows = return_slope(product.process, product.policy_vector(policy))
        assert rows == pytest.approx(np.array(list(visits.values())), abs=1e-10), number


def test_endless_returns_equal_the_solution_of_the_linear_system() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        drawn = random_problem(rng, conditions=("state",))
        problem = replace(drawn, discount=float(rng.uniform(0.1, 0.95)), task=Task(0.0, over="forever"))
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        value = infinite_return(product.process, product.policy_vector(policy))
        assert value == pytest.approx(oracles.infinite_return(problem, policy), abs=1e-10)


def large_problem(rng: np.random.Generator, *, size: int, spread: float, absorbing: int) -> Problem:
    """States with one action each; rewards are 1 plus `spread` times noise, and some states are never left."""
    moves = sparse_moves(rng, size)
    moves[:absorbing] = np.eye(size)[:absorbing]
    mdp = MDP(
        states=tuple(f"s{state}" for state in range(size)),
        actions=("go",),
        start=floats(rng.dirichlet(np.ones(size))),
        choice_start=ints(np.arange(size + 1)),
        choice_action=ints(np.zeros(size)),
        transitions=SparseRows.from_dense(moves),
        rewards=floats(1.0 + spread * rng.normal(size=size)),
        labels={},
    )
    blind = Observer(("o",), SparseRows.from_dense(np.ones((size, 1))))
    secret = LastState(StateClasses(("x",), ints(np.zeros(size))))
    return Problem(mdp, blind, secret, 1, 0.9, Task(None, over="forever"))


def sparse_moves(rng: np.random.Generator, size: int) -> np.ndarray:
    """Rows of four random entries that sum to 1."""
    moves = np.zeros((size, size))
    for row in moves:
        row[rng.choice(size, 4, replace=False)] = rng.dirichlet(np.ones(4))
    return moves


@pytest.mark.parametrize(
    ("spread", "absorbing", "discount"),
    [(0.0, 0, 0.9), (0.1, 0, 0.9), (0.1, 20, 0.9), (1e6, 0, 0.9), (0.1, 20, 0.9999)],
    ids=["even", "mixing", "absorbing", "cancelling", "slow"],
)
def test_endless_returns_of_many_states_are_within_rounding(spread: float, absorbing: int, discount: float) -> None:
    """Value iteration settles in the first three, and gives up in the others."""
    rng = np.random.default_rng(5)
    problem = replace(large_problem(rng, size=300, spread=spread, absorbing=absorbing), discount=discount)
    process = compile_problem(problem).process
    pi, start, mdp = process.uniform(), problem.mdp.start, problem.mdp
    system = np.eye(mdp.num_states) - discount * mdp.transitions.dense()
    value = np.linalg.solve(system, mdp.rewards)
    exact = system.astype(np.longdouble)  # one correction in more digits makes it exact to rounding
    value = value + np.linalg.solve(system, (mdp.rewards - exact @ value).astype(np.float64))
    share = min(rounding_share(process, forever=True), 1e-14 / (1.0 - discount))
    allowed = share * absolute_payoff(process, pi, process.payoffs[0], forever=True)
    assert infinite_return(process, pi) == pytest.approx(float(start @ value), rel=0, abs=allowed)


@pytest.mark.parametrize("first", part_of(range(0, 80, 20), 1))
def test_no_return_is_further_off_than_rounding_allows(first: int) -> None:
    """Payments of 1e8 to 1e12 that cancel, and subnormal probabilities, against fractions."""
    for number in range(first, first + 20):
        problem, policy = bounded_model(number)
        product = compile_problem(problem)
        process, pi = product.process, product.policy_vector(policy)
        payoff = process.payoffs[0]
        allowed = rounding_share(process) * absolute_payoff(process, pi, payoff)
        error = abs(Fraction(expected_return(process, pi, payoff)) - exact_return(problem, policy))
        assert float(error) <= allowed + 1e-300, number
        assert expected_return(process, pi, payoff) == pytest.approx(float(exact_return(problem, policy)), abs=allowed)


def test_a_stop_ends_a_sum() -> None:
    problem, policy = ordinary(0)
    product, stop = compile_problem(problem), Stop()
    stop.request()
    with pytest.raises(StoppedError):
        expected_return(product.process, product.policy_vector(policy), stop=stop)
