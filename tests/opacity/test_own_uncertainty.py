"""An uncertainty of one's own, one class with one method, can be measured, solved for and certified.

Two of them: one is smooth, the other has kinks and no softened form. Neither says a word of costs or bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import opaq
import oracles
from opaq.certificates.certify import certify
from opaq.certificates.decoder.machines import ObservationTree
from opaq.extensions import Uncertainty
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.secret import LastState, StateClasses
from opaq.model.uncertainty import Cells, Smoothing
from opaq.opacity.exact import gradient
from opaq.product.compile import compile_problem
from random_problems import random_policy, random_problem
from trials import long, part_of


class Gini(Uncertainty):
    """Gini impurity: the probability that two draws from the observer's belief differ, sum q - sum q^2 / sum q."""

    name = "gini"
    title = "Gini impurity"
    smooth = True

    def rows(self, masses: Any, values: Any) -> tuple[Any, Any]:
        total = masses.sum(axis=1, keepdims=True)
        share = masses / np.where(total == 0.0, 1.0, total)
        squares = (share**2).sum(axis=1, keepdims=True)
        return (total * (1.0 - squares))[:, 0], 1.0 - 2.0 * share + squares


class TwoGuesses(Uncertainty):
    """The probability that two guesses of the secret are both wrong: sum q less its two largest entries."""

    name = "two_guesses"
    title = "error of two guesses"

    def rows(self, masses: Any, values: Any) -> tuple[Any, Any]:
        best = np.argsort(-masses, axis=1, kind="stable")[:, :2]
        slopes = np.ones(masses.shape)
        np.put_along_axis(slopes, best, 0.0, axis=1)
        return (masses * slopes).sum(axis=1), slopes


def enumerate_gini(joint: oracles.Joint) -> float:
    masses = [np.array(list(each.values())) for each in oracles.posterior_masses(joint).values()]
    return sum(float(mass.sum() - (mass**2).sum() / mass.sum()) for mass in masses)


def enumerate_two_guesses(joint: oracles.Joint) -> float:
    masses = [sorted(each.values()) for each in oracles.posterior_masses(joint).values()]
    return sum(sum(mass[:-2]) for mass in masses)


KINDS = [pytest.param(Gini(), enumerate_gini, id="gini"), pytest.param(TwoGuesses(), enumerate_two_guesses, id="two")]
Oracle = Callable[[oracles.Joint], float]


def about(problem: Problem, of: Uncertainty) -> Problem:
    return replace(problem, task=replace(problem.task, of=of))


@pytest.mark.parametrize(("of", "oracle"), KINDS)
def test_measured_as_enumerated(of: Uncertainty, oracle: Oracle) -> None:
    rng = np.random.default_rng(7)
    for _ in range(12):
        problem = about(random_problem(rng), of)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        measured = opaq.measure(problem, policy, mode="exact", sequences=0)
        assert measured.uncertainty.value == pytest.approx(oracle(joint), abs=1e-10)
        assert measured.secret_uncertainty == pytest.approx(oracle(oracles.without_observing(joint)), abs=1e-10)
        cut = opaq.measure(problem, policy, mode="interval", max_beliefs=2, width=0.0, sequences=0).uncertainty
        assert cut.lower - 1e-10 <= oracle(joint) <= cut.upper + 1e-10


@pytest.mark.parametrize(("of", "oracle"), KINDS)
def test_gradients_equal_differences(of: Uncertainty, oracle: Oracle) -> None:
    rng, step = np.random.default_rng(8), 1e-6
    for _ in range(6):
        compiled = compile_problem(random_problem(rng))
        process, leaf = compiled.process, of.over(compiled.secret_values)
        theta, along = rng.normal(size=(2, process.num_slots))
        _, slope = gradient(process, theta, leaf=leaf)
        policies = (compiled.policy(process.softmax(theta + sign * step * along)) for sign in (1, -1))
        ahead, behind = (oracle(oracles.joint(compiled.problem, policy)) for policy in policies)
        assert slope @ along == pytest.approx((ahead - behind) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("of", [Gini(), TwoGuesses(), opaq.Shannon(), opaq.GuessError(), opaq.Guesswork(),
                                opaq.ExpectedLoss.of({"g": {"a": 2.0, "c": -1.0}, "h": {"b": 1.0, "d": 3.0}})],
                         ids=lambda of: of.name)  # fmt: skip
def test_costs_are_valid_for_all_masses(of: Uncertainty) -> None:
    """f(q) <= cost . q, which every bound rests on; nearly equal at the masses that the costs are made from."""
    rng, leaf = np.random.default_rng(9), of.over(("a", "b", "c", "d"))
    cells = Cells.of(np.array([0, 4, 6, 9, 10]), np.array([0, 1, 2, 3, 1, 3, 0, 1, 2, 2]))
    for _ in part_of(range(60), 20):
        masses = rng.random(10) * (rng.random(10) < 0.8)
        for smoothing in (
            Smoothing(1e-9),
            Smoothing(0.1),
            Smoothing(1.0),
            leaf.smoothing(3, 4),
            leaf.smoothing(900, 4),
        ):
            costs = leaf.costs(masses, cells, smoothing)
            others = rng.random((20, 10)) * (rng.random((20, 10)) < 0.6)
            assert all(other @ costs >= leaf.total(other, cells) - 1e-13 for other in others)
        tight = leaf.costs(masses, cells, Smoothing(1e-9))
        assert masses @ tight == pytest.approx(leaf.total(masses, cells), abs=1e-6)


def small_problem(of: Uncertainty) -> Problem:
    """Three states, two actions, one of three secret values in the end, seen through a noisy sensor."""
    moves = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0, 0.9, 0.1], [0.5, 0, 0.5], [0.3, 0.4, 0.3], [0, 0.2, 0.8]])
    mdp = MDP(
        states=("x", "y", "z"),
        actions=("a", "b"),
        start=floats([0.6, 0.4, 0.0]),
        choice_start=ints([0, 2, 4, 6]),
        choice_action=ints([0, 1, 0, 1, 0, 1]),
        transitions=SparseRows.from_dense(moves),
        rewards=floats(np.zeros(6)),
        labels={},
    )
    sensor = SparseRows.from_dense(np.array([[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]]))
    secret = LastState(StateClasses(("x", "y", "z"), ints([0, 1, 2])))
    return Problem(mdp, Observer(("dim", "bright"), sensor), secret, 1, task=Task(of=of))


@long
@pytest.mark.parametrize(("of", "oracle"), KINDS)
def test_no_policy_is_below_the_solution_or_above_the_bound(of: Uncertainty, oracle: Oracle) -> None:
    """The only choices that matter are those at x and y at time 0: a grid of all policies."""
    problem = small_problem(of)

    def value(at_x: float, at_y: float) -> float:
        chances = {"x": at_x, "y": at_y, "z": 1.0}
        rows = {(state,): {"a": chance, "b": 1.0 - chance} for state, chance in chances.items()}
        return oracle(oracles.joint(problem, Policy(PolicyClass(("state",)), rows)))

    best = max(value(*point) for point in product(np.linspace(0.0, 1.0, 21), repeat=2))
    solution = opaq.solve(problem, starts=2)
    assert solution.measurement.uncertainty.value >= best - 1e-5
    certificate = certify(problem, solution.policy, gap=1e-4, time_limit=5.0, machines=(ObservationTree(),))
    assert certificate.of == of.name
    assert best <= certificate.upper_bound <= solution.measurement.uncertainty.value + 1e-2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("of", "oracle"), KINDS)
def test_no_policy_of_a_random_problem_exceeds_the_bound(seed: int, of: Uncertainty, oracle: Oracle) -> None:
    rng = np.random.default_rng([seed, 9])
    problem = replace(random_problem(rng, budget=800), task=Task(of=of))
    bound = certify(problem, gap=0.01, time_limit=1.0).upper_bound
    values = [oracle(oracles.joint(problem, random_policy(rng, problem))) for _ in range(4)]
    assert bound >= max(values) - 1e-12


def test_a_name_that_every_answer_has_is_refused() -> None:
    class Guesswork(Gini):
        name = "guesswork"

    with pytest.raises(opaq.InputError, match=r"task\.of: is named 'guesswork'"):
        opaq.measure(about(opaq.load_problem("two-sink"), Guesswork()))
