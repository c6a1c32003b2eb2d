"""Every uncertainty against enumeration, laws, differences, and libqif on small channels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opaq
import oracles
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.errors import InputError, InvariantError
from opaq.model.arrays import FloatArray, floats
from opaq.model.problem import Problem
from opaq.model.uncertainty import (
    UNCERTAINTIES,
    ExpectedLoss,
    GuessError,
    Guesswork,
    Shannon,
    Uncertainty,
)
from opaq.opacity import sampled
from opaq.opacity.amount import Amount, bound_amount
from opaq.opacity.exact import evaluate, gradient, hessian_vector
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem
from opaq.spec import problem_to_dict
from random_problems import SECRETS, channel_problem, random_policy, random_problem
from toys import Collisions

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES = ("u", "v", "w", "x", "y")


def random_losses(rng: np.random.Generator, names: tuple[str, ...], *, guesses: int = 4) -> dict[str, dict[str, float]]:
    """Losses of both signs; some are not named."""
    return {
        f"guess{guess}": {name: float(rng.normal() * 3) for name in names if rng.random() < 0.7}
        for guess in range(guesses)
    }


def about(problem: Problem, of: Uncertainty, *, minimise: bool = False) -> Problem:
    return replace(problem, task=replace(problem.task, of=of, minimise=minimise))


def leaves(rng: np.random.Generator) -> list[Uncertainty]:
    stated = [*UNCERTAINTIES.values(), ExpectedLoss.of(random_losses(rng, VALUES)), Collisions()]
    exact = [uncertainty.over(VALUES) for uncertainty in stated]
    return [*exact, *(leaf.soften(0.05) for leaf in exact), *(leaf.soften(1e-3) for leaf in exact)]


def slope_of(uncertainty: Uncertainty, masses: FloatArray) -> FloatArray:
    return uncertainty.rows(masses[None, :], np.arange(masses.size)[None, :])[1][0]


def test_concave_homogeneous_and_bounded() -> None:
    rng = np.random.default_rng(0)
    for leaf in leaves(rng):
        for _ in range(30):
            first, second = rng.random(5) * (rng.random(5) < 0.7), rng.random(5)
            assert leaf.value(3.0 * first) == pytest.approx(3.0 * leaf.value(first), abs=1e-10)
            assert leaf.value(first + second) >= leaf.value(first) + leaf.value(second) - 1e-10
            assert leaf.value(first) <= leaf.highest * first.sum() + 1e-10
            assert leaf.value(first) >= leaf.certain @ first - 1e-10
            # a supergradient: the tangent plane lies above
            assert slope_of(leaf, second) @ first >= leaf.value(first) - 1e-10
            assert slope_of(leaf, second) @ second == pytest.approx(leaf.value(second), abs=1e-10)


def test_known_secrets() -> None:
    for leaf in leaves(np.random.default_rng(1)):
        for value, unit in enumerate(np.eye(5)):
            assert leaf.value(unit) == pytest.approx(leaf.certain[value], abs=1e-12)


def test_softened_ones_are_close_below() -> None:
    rng = np.random.default_rng(2)
    for uncertainty in (GuessError(), Guesswork(), ExpectedLoss.of(random_losses(rng, VALUES))):
        leaf = uncertainty.over(VALUES)
        for _ in range(20):
            q = rng.dirichlet(np.ones(5))
            gaps = [leaf.value(q) - leaf.soften(softness).value(q) for softness in (0.1, 0.01, 1e-4)]
            assert gaps[0] >= gaps[1] >= gaps[2] >= -1e-12
            assert gaps[2] <= 1e-3 * leaf.scale


def test_by_hand() -> None:
    q = np.array([0.1, 0.3, 0.0, 0.4])
    assert Shannon().over("abcd").value(np.array([0.5, 0.25, 0.25, 0.0])) == pytest.approx(1.5)
    assert GuessError().over("abcd").value(q) == pytest.approx(0.4)
    assert Guesswork().over("abcd").value(q) == pytest.approx(0.4 + 2 * 0.3 + 3 * 0.1)
    loss = ExpectedLoss.of({"attack": {"a": 1.0, "d": 1.0}, "wait": {"b": 2.0}}).over("abcd")
    assert loss.value(q) == pytest.approx(min(0.1 + 0.4, 0.6))


@pytest.mark.parametrize("kind", SECRETS)
def test_measured_as_enumerated(kind: str) -> None:
    rng = np.random.default_rng([40, SECRETS.index(kind)])
    for _ in range(6):
        problem = random_problem(rng, secret=kind)
        losses = random_losses(rng, compile_problem(problem).secret_values)
        policy = random_policy(rng, problem)
        found = measure(about(problem, ExpectedLoss.of(losses)), policy, mode="exact", sequences=0)
        joint = oracles.joint(problem, policy)
        before = oracles.without_observing(joint)
        assert found.guesswork.value == pytest.approx(oracles.guesswork(joint), abs=1e-10)
        assert found.secret_guesswork == pytest.approx(oracles.guesswork(before), abs=1e-10)
        assert found.uncertainty.value == pytest.approx(oracles.expected_loss(joint, losses), abs=1e-10)
        assert found.secret_uncertainty == pytest.approx(oracles.expected_loss(before, losses), abs=1e-10)
        assert found.opacity.value == pytest.approx(oracles.opacity(joint), abs=1e-10)
        for of, truth in ((GuessError(), oracles.guess_error(joint)), (Guesswork(), oracles.guesswork(joint))):
            own = measure(about(problem, of), policy, mode="exact", sequences=0)
            assert own.uncertainty.value == pytest.approx(truth, abs=1e-10)


def test_truncated_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(41)
    proper = 0
    for _ in range(40):
        problem = random_problem(rng)
        policy = random_policy(rng, problem)
        losses = random_losses(rng, compile_problem(problem).secret_values)
        joint = oracles.joint(problem, policy)
        found = measure(
            about(problem, ExpectedLoss.of(losses)), policy, mode="interval", max_beliefs=2, width=0.0, sequences=0
        )
        truths = (oracles.guesswork(joint), oracles.expected_loss(joint, losses), oracles.guess_error(joint))
        for amount, truth in zip((found.guesswork, found.uncertainty, found.guess_error), truths, strict=True):
            assert amount.lower - 1e-10 <= truth <= amount.upper + 1e-10
        proper += found.uncertainty.width > 1e-6 and found.guesswork.width > 1e-6
    assert proper >= 5  # some were really cut


def test_losses_of_a_cut_graph_are_intersected_with_what_is_known() -> None:
    rng = np.random.default_rng(47)
    cut = 0
    for _ in range(40):
        problem = random_problem(rng)
        policy = random_policy(rng, problem)
        names = compile_problem(problem).secret_values
        losses = {guess: {name: float(rng.uniform(0.5, 10)) for name in names} for guess in ("g", "h")}
        found = measure(
            about(problem, ExpectedLoss.of(losses)), policy, max_beliefs=1, samples=50, width=0.0, sequences=0
        )
        truth = oracles.expected_loss(oracles.joint(problem, policy), losses)
        assert found.uncertainty.lower - 1e-10 <= truth <= found.uncertainty.upper + 1e-10
        assert found.uncertainty.upper <= found.secret_uncertainty + 1e-10
        cut += found.uncertainty.method != "exact"
    assert cut >= 10


def test_only_an_empty_intersection_is_an_error() -> None:
    leaf, prior = ExpectedLoss.of({"g": {"a": 1.0, "b": 4.0}, "h": {"a": 3.0, "b": 2.0}}).over("ab"), floats([0.5, 0.5])
    wide = bound_amount(Amount.between(0.0, 9.0), leaf, prior)
    assert (wide.lower, wide.upper) == (1.5, 2.5)
    with pytest.raises(InvariantError):
        bound_amount(Amount.between(0.0, 1.0), leaf, prior)


def test_estimates_lie_in_their_certified_intervals() -> None:
    rng = np.random.default_rng(48)
    estimates = 0
    for seed in range(30):
        problem = random_problem(rng, horizon=3)
        names = compile_problem(problem).secret_values
        asked = about(problem, ExpectedLoss.of(random_losses(rng, names)))
        found = measure(asked, random_policy(rng, problem), mode="sampled", samples=3, seed=seed, sequences=0)
        for amount in (found.opacity, found.guess_error, found.guesswork, found.uncertainty, found.leakage):
            assert amount.lower <= amount.value <= amount.upper
            estimates += amount.method == "sampled"
    assert estimates >= 100


def test_sampled_within_their_errors() -> None:
    rng = np.random.default_rng(42)
    problem = about(
        opaq.load_problem("graph-published"), ExpectedLoss.of({"g": {"q1": 2.0}, "h": {"q2": 1.0, "q3": -1.0}})
    )
    for _ in range(3):
        product = compile_problem(problem)
        policy = product.policy(product.process.softmax(rng.normal(size=product.process.num_slots)))
        exact = measure(problem, policy, sequences=0)
        estimate = measure(problem, policy, mode="sampled", samples=20_000, sequences=0)
        for one, other in ((exact.guesswork, estimate.guesswork), (exact.uncertainty, estimate.uncertainty)):
            assert other.standard_error is not None
            assert abs(one.value - other.value) <= 5 * other.standard_error + 1e-12


def differences(function: Any, theta: FloatArray, step: float = 1e-6) -> FloatArray:
    units = step * np.eye(theta.size)
    return np.array([(function(theta + unit) - function(theta - unit)) / (2 * step) for unit in units])


@pytest.mark.parametrize("kind", SECRETS)
def test_gradients_against_differences(kind: str) -> None:
    """Random policies are away from ties; the frozen sweep and the hashed one agree."""
    rng = np.random.default_rng([43, SECRETS.index(kind)])
    for _ in range(3):
        product = compile_problem(random_problem(rng, secret=kind))
        process, names = product.process, product.secret_values
        theta = rng.normal(size=process.num_slots)
        pi = process.softmax(theta)
        loss = ExpectedLoss.of(random_losses(rng, names)).over(names)
        for leaf in (GuessError().over(names).soften(0.05), loss, loss.soften(0.05), Collisions().over(names)):
            value, slope = gradient(process, theta, leaf=leaf)
            numeric = differences(lambda t: gradient(process, t, leaf=leaf)[0], theta)  # noqa: B023
            assert np.abs(slope - numeric).max(initial=0) <= 1e-6 * max(1.0, leaf.scale)
            graph = FrozenGraph.of(process, pi, budget=Budget(), leaf=leaf)
            swept = graph.sweep(pi, graph.buffers())
            assert swept is not None
            assert swept[0] == pytest.approx(value, abs=1e-11)
            assert process.pull_back(pi, swept[1]) == pytest.approx(slope, abs=1e-10)


def test_values_of_gradients_are_those_of_evaluations() -> None:
    rng = np.random.default_rng(44)
    for _ in range(20):
        product = compile_problem(random_problem(rng))
        process, names = product.process, product.secret_values
        theta = rng.normal(size=process.num_slots)
        for of in (GuessError(), Guesswork(), Collisions(), ExpectedLoss.of(random_losses(rng, names))):
            leaf = of.over(names)
            found = evaluate(process, process.softmax(theta), leaves=(leaf,))
            assert gradient(process, theta, leaf=leaf)[0] == pytest.approx(found.figures[leaf.name].value, abs=1e-10)


def test_supergradients_lie_above_at_ties() -> None:
    """At the uniform policy beliefs are tied; in the policy's masses the tangent still lies above."""
    problem = opaq.load_problem("two-sink")
    product = compile_problem(problem)
    process, names = product.process, product.secret_values
    rng = np.random.default_rng(45)
    for of in (GuessError(), Guesswork()):
        leaf = of.over(names)
        here, slope = gradient(process, np.zeros(process.num_slots), leaf=leaf)
        for _ in range(10):
            direction = rng.normal(size=process.num_slots)
            ahead = gradient(process, 1e-5 * direction, leaf=leaf)[0]
            assert ahead - here <= 1e-5 * (slope @ direction) + 1e-9


def test_curvature_of_a_smooth_one() -> None:
    rng = np.random.default_rng(46)
    product = compile_problem(random_problem(rng, secret="last_state"))
    process, leaf = product.process, Collisions().over(product.secret_values)
    theta, direction = rng.normal(size=(2, process.num_slots))
    ahead, behind = (gradient(process, theta + step * direction, leaf=leaf)[1] for step in (1e-5, -1e-5))
    product_found = hessian_vector(process, theta, direction, leaf=leaf)
    assert product_found == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)


def test_sampled_gradients_have_the_right_mean() -> None:
    product = compile_problem(opaq.load_problem("graph-published"))
    process = product.process
    leaf = GuessError().over(product.secret_values)
    theta = np.random.default_rng(0).normal(size=process.num_slots)
    value, slope = gradient(process, theta, leaf=leaf)
    found = [
        sampled.gradient(process, theta, samples=500, rng=np.random.default_rng([47, seed]), leaf=leaf)
        for seed in range(60)
    ]
    slopes = np.array([each[2] for each in found])
    spread = slopes.std(axis=0) / math.sqrt(len(found))
    assert np.abs(slopes.mean(axis=0) - slope).max() <= 5 * spread.max() + 1e-9
    assert np.mean([each[0] for each in found]) == pytest.approx(value, abs=5 * found[0][1] / math.sqrt(len(found)))


def test_libqif_agrees_on_channels() -> None:
    qif = pytest.importorskip("qif")
    rng = np.random.default_rng(48)
    for _ in range(25):
        size, columns = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        prior = rng.dirichlet(np.ones(size))
        channel = rng.dirichlet(np.ones(columns), size=size) * (rng.random((size, columns)) < 0.8) + 1e-3
        channel /= channel.sum(axis=1, keepdims=True)
        table = rng.random((3, size))
        names = VALUES[:size]
        losses = {f"g{guess}": dict(zip(names, row.tolist(), strict=True)) for guess, row in enumerate(table)}
        found = measure(channel_problem(prior, channel, ExpectedLoss.of(losses)), sequences=0)
        checks = qif.measure
        assert found.opacity.value == pytest.approx(checks.shannon.posterior(prior, channel), abs=1e-9)
        assert found.guess_error.value == pytest.approx(1 - checks.bayes_vuln.posterior(prior, channel), abs=1e-9)
        assert found.guesswork.value == pytest.approx(checks.guessing.posterior(prior, channel), abs=1e-9)
        assert found.secret_guesswork == pytest.approx(checks.guessing.prior(prior), abs=1e-9)
        # the loss of a guess is minus its gain
        assert found.uncertainty.value == pytest.approx(-checks.g_vuln.posterior(-table, prior, channel), abs=1e-9)
        assert found.secret_uncertainty == pytest.approx(-checks.g_vuln.prior(-table, prior), abs=1e-9)


def test_laws_on_random_problems() -> None:
    rng = np.random.default_rng(49)
    for _ in range(40):
        problem = random_problem(rng)
        losses = random_losses(rng, compile_problem(problem).secret_values)
        found = measure(about(problem, ExpectedLoss.of(losses)), random_policy(rng, problem), sequences=0)
        shares = found.secret_distribution.values()
        assert 0 <= found.guess_error.value <= 1 - max(shares) + 1e-12
        assert 1 - 1e-12 <= found.guesswork.value <= found.secret_guesswork + 1e-12
        assert found.uncertainty.value <= found.secret_uncertainty + 1e-12
        assert found.guesswork.value >= 1 + found.guess_error.value - 1e-12  # a wrong first guess costs one more


def test_crowds_in_closed_form() -> None:
    """10 honest and 5 corrupt members, forwarding with probability 0.7 (Reiter and Rubin)."""
    pytest.importorskip("stormpy")
    found = measure(opaq.load_problem(EXAMPLES / "crowds.yaml"))
    assert found.leakage.value == pytest.approx(0.6307, abs=1e-4)
    assert found.guess_error.value == pytest.approx(0.6, abs=1e-4)
    assert found.uncertainty == found.guess_error


def test_modes_are_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match="use one of auto, exact, interval, sampled"):
        measure(opaq.load_problem("two-sink"), mode="exactly")  # type: ignore[arg-type]


def test_losses_must_be_finite() -> None:
    with pytest.raises(InputError, match="finite losses"):
        ExpectedLoss.of({"g": {"a": math.inf}})
    with pytest.raises(InputError, match="at least one guess"):
        ExpectedLoss.of({})


def test_a_new_one_is_a_class_and_a_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from a problem file, measured, and solved for by the default solver."""
    monkeypatch.setitem(UNCERTAINTIES, Collisions.name, Collisions())
    spec = problem_to_dict(opaq.load_problem("two-sink"))
    problem = opaq.build_problem({**spec, "task": {**spec.get("task", {}), "of": Collisions.name}})
    assert problem_to_dict(problem)["task"]["of"] == Collisions.name
    uniform = measure(problem, sequences=0)
    masses = oracles.posterior_masses(oracles.joint(problem)).values()
    truth = sum(sum(row.values()) - sum(q * q for q in row.values()) / sum(row.values()) for row in masses)
    assert uniform.uncertainty.value == pytest.approx(truth, abs=1e-10)
    found = opaq.solve(problem, starts=2, workers=1)
    assert found.measurement.uncertainty.value > uniform.uncertainty.value - 1e-9
    assert found.status.name == "CONVERGED"
    assert found.measurement.to_dict()["objective"]["value"] == found.measurement.uncertainty.value
