"""Vulnerability, min-entropy leakage and g-leakage against enumeration, libqif and the intervals they come with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.model.problem import Task
from opaq.model.uncertainty import ExpectedLoss
from opaq.opacity.amount import Amount
from opaq.opacity.leakage import map_amount
from opaq.opacity.measure import Measurement, measure
from opaq.product.compile import compile_problem
from random_problems import channel_problem, random_policy, random_problem


def largest(masses: dict[str, float]) -> float:
    return max(masses.values())


def test_guesses_before_and_after_observing_agree_with_enumeration() -> None:
    rng = np.random.default_rng(81)
    for _ in range(40):
        problem = random_problem(rng)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        before = largest(oracles.secret_distribution(joint))
        after = sum(map(largest, oracles.posterior_masses(joint).values()))
        found = measure(problem, policy, sequences=0)
        assert found.secret_guess_error == pytest.approx(1 - before, abs=1e-12)
        assert found.vulnerability.prior == pytest.approx(before, abs=1e-12)
        assert found.vulnerability.posterior.value == pytest.approx(after, abs=1e-9)
        assert found.vulnerability.additive.value == pytest.approx(after - before, abs=1e-9)
        assert found.vulnerability.multiplicative is not None
        assert found.vulnerability.multiplicative.value == pytest.approx(after / before, abs=1e-9)
        assert found.min_entropy_leakage.value == pytest.approx(math.log2(after / before), abs=1e-9)
        assert found.min_entropy_leakage.method == "exact"
        assert found.g_leakage is None
        assert Measurement.from_dict(found.to_dict()).to_dict() == found.to_dict()


@pytest.mark.parametrize("kind", ["losses", "gains", "both"])
def test_losses_before_and_after_observing_agree_with_enumeration(kind: str) -> None:
    rng = np.random.default_rng(82)
    for _ in range(15):
        problem = random_problem(rng)
        values = compile_problem(problem).secret_values
        low, high = {"losses": (0.1, 1), "gains": (-1, -0.1), "both": (-1, 1)}[kind]
        losses = {f"g{guess}": {value: float(rng.uniform(low, high)) for value in values} for guess in range(3)}
        problem = replace(problem, task=Task(of=ExpectedLoss.of(losses)))
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        after = oracles.expected_loss(joint, losses)
        before = oracles.expected_loss(oracles.without_observing(joint), losses)
        leakage = measure(problem, policy, sequences=0).g_leakage
        assert leakage is not None
        assert leakage.prior == pytest.approx(before, abs=1e-9)
        assert leakage.posterior.value == pytest.approx(after, abs=1e-9)
        assert leakage.additive.value == pytest.approx(before - after, abs=1e-9)
        if kind == "both":
            assert leakage.multiplicative is None
        else:
            assert leakage.multiplicative is not None
            factor = before / after if kind == "losses" else after / before
            assert leakage.multiplicative.value == pytest.approx(factor, abs=1e-9)
            assert leakage.multiplicative.value >= 1


def test_a_loss_that_may_be_nothing_has_no_factor() -> None:
    rng = np.random.default_rng(83)
    problem = random_problem(rng, secret="last_state", horizon=3)
    values = compile_problem(problem).secret_values
    losses = {value: {other: 1.0 for other in values if other != value} for value in values}
    found = measure(replace(problem, task=Task(of=ExpectedLoss.of(losses))), mode="sampled", samples=50, sequences=0)
    assert found.uncertainty.lower == 0
    assert found.g_leakage is not None
    assert found.g_leakage.multiplicative is None


def test_only_intervals_are_said_where_only_intervals_are_known() -> None:
    rng, wide = np.random.default_rng(84), 0
    for _ in range(30):
        problem = random_problem(rng, horizon=4)
        policy = random_policy(rng, problem)
        exact = measure(problem, policy, sequences=0)
        part = measure(problem, policy, mode="interval", max_beliefs=1, width=0.0, sequences=0)
        pairs = [(exact.min_entropy_leakage, part.min_entropy_leakage), (exact.leakage, part.leakage)]
        pairs += [
            (getattr(exact.vulnerability, name), getattr(part.vulnerability, name))
            for name in ("posterior", "additive", "multiplicative")
        ]
        for truth, interval in pairs:
            assert interval.lower - 1e-12 <= truth.value <= interval.upper + 1e-12
        if part.guess_error.method == "interval":
            wide += 1
            lower = math.log2(max(part.vulnerability.prior, 1 - part.guess_error.upper) / part.vulnerability.prior)
            upper = math.log2((1 - part.guess_error.lower) / part.vulnerability.prior)
            assert part.min_entropy_leakage.method == "interval"
            assert part.min_entropy_leakage.lower == pytest.approx(lower)
            assert part.min_entropy_leakage.upper == pytest.approx(upper)
    assert wide > 5


def test_errors_of_estimates_follow_the_slope() -> None:
    estimate = Amount.estimate(0.25, 0.0, 1.0, standard_error=0.01)
    mapped = map_amount(estimate, lambda value: 2 - value**2, slope=-0.5)
    assert mapped == Amount(2 - 0.0625, 1.0, 2.0, "sampled", 0.005)


def test_libqif_agrees_on_leakage() -> None:
    qif = pytest.importorskip("qif")
    rng = np.random.default_rng(85)
    for _ in range(15):
        size, columns = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        prior, channel = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(columns), size=size)
        table = rng.uniform(0.1, 1, (3, size))
        names = ("u", "v", "w", "x", "y")[:size]
        losses = {f"g{guess}": dict(zip(names, row.tolist(), strict=True)) for guess, row in enumerate(table)}
        found = measure(channel_problem(prior, channel, ExpectedLoss.of(losses)), sequences=0, capacity=True)
        checks = qif.measure
        guess, loss, capacity = found.vulnerability, found.g_leakage, found.capacity
        assert guess.multiplicative is not None
        assert loss is not None
        assert loss.multiplicative is not None
        assert capacity is not None
        assert guess.multiplicative.value == pytest.approx(checks.bayes_vuln.mult_leakage(prior, channel), abs=1e-9)
        assert guess.additive.value == pytest.approx(checks.bayes_vuln.add_leakage(prior, channel), abs=1e-9)
        min_entropy = checks.bayes_vuln.min_entropy_leakage(prior, channel)
        assert found.min_entropy_leakage.value == pytest.approx(min_entropy, abs=1e-9)
        assert loss.additive.value == pytest.approx(checks.l_risk.add_leakage(table, prior, channel), abs=1e-9)
        assert loss.multiplicative.value == pytest.approx(checks.l_risk.mult_leakage(table, prior, channel), abs=1e-9)
        assert capacity.bits.value == pytest.approx(checks.shannon.add_capacity(channel)[0], abs=1e-4)
        most = math.log2(np.max(channel, axis=0).sum())
        assert capacity.min_entropy.value == pytest.approx(most, abs=1e-9)
