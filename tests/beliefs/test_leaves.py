"""What is uncertain after the last observation, and its slope, against enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import oracles
from beliefs.prefix_oracle import extreme, ordinary
from opaq.beliefs.graph import Chain
from opaq.beliefs.leaves import evaluate_leaves, slope_of_leaf
from opaq.beliefs.returns import secret_distribution, secret_slope
from opaq.beliefs.unroll import unroll
from opaq.model.uncertainty import ExpectedLoss, GuessError, Guesswork, MassRows, Shannon, Uncertainty
from opaq.product.compile import Product, compile_problem

LOSSES = {"guess": 1.0, "other": 2.5}


def losses(values: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Losses of both signs, other ones for every guess, that never vanish where the secret is known."""
    return {name: {v: scale * (index - 1.3) for index, v in enumerate(values)} for name, scale in LOSSES.items()} | {
        "refuse": dict.fromkeys(values, 0.4)
    }


def stated(values: tuple[str, ...]) -> list[tuple[Uncertainty, Callable[[oracles.Joint], float]]]:
    """Every leaf beside its oracle."""
    return [
        (Shannon().over(values), oracles.opacity),
        (GuessError().over(values), oracles.guess_error),
        (Guesswork().over(values), oracles.guesswork),
        (ExpectedLoss.of(losses(values)).over(values), lambda joint: oracles.expected_loss(joint, losses(values))),
    ]


@pytest.mark.parametrize("model", [ordinary, extreme])
def test_every_leaf_equals_enumeration(model) -> None:
    for number in range(40):
        problem, policy = model(number)
        product = compile_problem(problem)
        pi, joint = product.policy_vector(policy), oracles.joint(problem, policy)
        chain = Chain.of(product.process, pi)
        graph = unroll(chain, steps=problem.horizon)
        leaves = stated(product.secret_values)
        end = evaluate_leaves(chain, graph, leaves=[leaf for leaf, _ in leaves])
        compiled = evaluate_leaves(chain, graph)
        assert end.num_done == compiled.num_done == graph.last.mass.size
        assert graph.last.mass @ compiled.excess["opacity"] == pytest.approx(oracles.opacity(joint), abs=1e-10)
        assert graph.last.mass @ compiled.excess["guess_error"] == pytest.approx(oracles.guess_error(joint), abs=1e-10)
        prior = secret_distribution(product.process, pi)
        for leaf, oracle in leaves:
            amounts = end.excess[leaf.name]
            total = float(graph.last.mass @ amounts + leaf.certain @ prior)
            assert total == pytest.approx(oracle(joint), abs=1e-9), (number, type(leaf).__name__)
            assert (amounts <= leaf.largest_excess + 1e-9).all()
            assert (amounts >= -1e-9).all()


def slope_by_policy(product: Product, pi: np.ndarray, leaf: Uncertainty) -> np.ndarray:
    """d leaf / d pi on a graph that keeps its levels."""
    chain = Chain.of(product.process, pi)
    _, slope = slope_of_leaf(chain, unroll(chain, steps=product.process.horizon, keep=True), leaf)
    return product.process.edge_slots.T @ slope + secret_slope(product.process, pi, leaf.certain)[1]


def test_slopes_equal_differences_of_enumerated_values() -> None:
    rng, step = np.random.default_rng(0), 1e-5
    for number in range(12):
        product = compile_problem(ordinary(number)[0])
        process = product.process
        theta, along = rng.normal(size=process.num_slots), rng.normal(size=process.num_slots)
        pi = process.softmax(theta)
        joints = [
            oracles.joint(product.problem, product.policy(process.softmax(theta + sign * step * along)))
            for sign in (1, -1)
        ]
        for leaf, oracle in stated(product.secret_values):
            slope = process.pull_back(pi, slope_by_policy(product, pi, leaf)) @ along
            expected = (oracle(joints[0]) - oracle(joints[1])) / (2 * step)
            assert slope == pytest.approx(expected, rel=1e-5, abs=1e-6), (number, type(leaf).__name__)


def test_slopes_are_finite_at_extreme_probabilities() -> None:
    for number in range(40):
        problem, policy = extreme(number)
        product = compile_problem(problem)
        pi = product.policy_vector(policy)
        for leaf, _ in stated(product.secret_values):
            assert np.isfinite(slope_by_policy(product, pi, leaf)).all(), number


def test_rows_of_any_length_are_evaluated_one_by_one() -> None:
    rng, values = np.random.default_rng(1), ("u", "v", "w", "x", "y")
    leaf = Guesswork().over(values)
    starts, value, observation, masses, expected = [0], [], [], [], []
    for _ in range(60):
        total = 0.0
        for seen in range(rng.integers(0, 4)):
            chosen = rng.permutation(5)[: rng.integers(1, 6)]
            row = np.zeros(5)
            row[chosen] = rng.random(chosen.size)
            value += chosen.tolist()
            masses += row[chosen].tolist()
            observation += [seen] * chosen.size
            total += leaf.value(row) - leaf.certain @ row
        starts.append(len(value))
        expected.append(total)
    order = [at for first, last in pairwise(starts) for at in first + rng.permutation(last - first)]
    rows = MassRows.of(*(np.array(part) for part in (starts, np.array(value)[order], np.array(observation)[order])))
    amounts, slopes = rows.evaluate(leaf, np.array(masses)[order])
    assert amounts == pytest.approx(np.array(expected), abs=1e-12)
    # Homogeneous: the slope times the masses is the value.
    assert slopes @ np.array(masses)[order] == pytest.approx(sum(expected), abs=1e-10)
    whole = MassRows.of(np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 2]))
    sparse = whole.evaluate(leaf, np.array([0.5, 0.25, 0.1, 0.2, 0.3]))[0]
    assert sparse == pytest.approx([0.25, 0.0, 0.4], abs=1e-12)  # ranks less 1: 0.25; nothing; 0.2 + 2 * 0.1
