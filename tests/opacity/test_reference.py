"""Published and independently computed figures, to the last digit that was given."""

from dataclasses import replace

import numpy as np
import pytest

import opaq
from opaq.model.policy import Policy, PolicyClass


@pytest.mark.parametrize(
    ("scenario", "horizon", "opacity", "expected_return", "guess_error"),
    [
        ("grid-last-state-4", 11, 0.09590501570204, 0.10993119080861, 0.014650266044485),
        ("grid-initial-state", 7, 0.8943227191977, 0.08554240000000, 0.28223517550678),
        ("graph", 5, 0.36687189913094, 1.174609375, 0.1220703125),
    ],
)
def test_uniform_policy(scenario, horizon, opacity, expected_return, guess_error):
    found = opaq.measure(replace(opaq.load_problem(scenario), horizon=horizon), sequences=0)
    assert found.opacity.method == "exact"
    assert found.opacity.value == pytest.approx(opacity, abs=1e-10)
    assert found.expected_return == pytest.approx(expected_return, abs=1e-10)
    assert found.guess_error.value == pytest.approx(guess_error, abs=1e-10)


def entropy_term(value):
    return value * np.log2(value) if value > 0 else 0.0


@pytest.mark.parametrize("alpha", np.linspace(0, 1, 50))
def test_two_sink_closed_form(alpha):
    rows = {("q0",): {"a": alpha, "b": 1 - alpha}}
    found = opaq.measure(opaq.load_problem("two-sink"), Policy(PolicyClass(), rows), sequences=0)
    secret = -(alpha**2) / 4 + alpha / 8 + 1 / 8
    other = 3 * alpha**2 / 4 + alpha / 8 + 1 / 8
    expected = -(entropy_term(secret) + entropy_term(other) - entropy_term(secret + other))
    assert found.opacity.value == pytest.approx(expected, abs=1e-12)


def test_two_sink_finite_memory_controller():
    problem = opaq.load_problem("two-sink")
    update = [{"from": "first", "to": "later"}]
    memory = opaq.build_memory(problem.mdp, nodes=["first", "later"], update=update)
    rows = {("q0", "first"): {"a": 1.0}, ("q0", "later"): {"b": 1.0}}
    policy = Policy(PolicyClass(("state", "memory"), memory=memory), rows)
    assert opaq.measure(problem, policy).opacity.value == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("horizon", [100, 1000])
def test_long_horizons_stay_finite_and_exact(horizon):
    problem = replace(opaq.load_problem("two-sink"), horizon=horizon)
    staying = 1 - 1 / horizon
    found = opaq.measure(problem, Policy(PolicyClass(), {("q0",): {"a": staying, "b": 1 - staying}}), sequences=0)
    # Only "N for ever" leaves a doubt: the run is still in q0, or in q1 with its sensor silent since.
    left = staying**horizon
    silent = sum(
        staying ** (time - 1) * (1 - staying) / 2 * 0.5 ** (horizon - time + 1) for time in range(1, horizon + 1)
    )
    total = left + 2 * silent
    expected = -(silent * np.log2(silent / total) + (left + silent) * np.log2((left + silent) / total))
    assert found.opacity.value == pytest.approx(expected, abs=1e-10)
