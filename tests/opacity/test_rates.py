"""Bits per step of endless runs: certified intervals against closed forms and long finite runs."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.opacity.measure import measure
from opaq.opacity.rates import long_run
from opaq.spec import build_problem

HALF = {"zero": 0.5, "one": 0.5}
NOISE = -(0.1 * np.log2(0.1) + 0.9 * np.log2(0.9))


def sticky(stay: float, flip: float, **more: object) -> dict:
    """A bit that stays as it is with some probability, seen through a channel that flips it."""
    rows = {"zero": {"a": {"zero": stay, "one": 1 - stay}}, "one": {"a": {"zero": 1 - stay, "one": stay}}}
    return {
        "opaq": 1,
        "model": {"states": ["zero", "one"], "actions": ["a"], "start": {"zero": 1}, "transitions": rows},
        "observer": {"emissions": {"zero": {"0": 1 - flip, "1": flip}, "one": {"0": flip, "1": 1 - flip}}},
        "secret": {"trajectory": True},
        "horizon": 3,
        **more,
    }


def test_independent_bits_hide_the_noise_of_the_channel() -> None:
    rate = measure(build_problem(sticky(0.5, 0.1)), rate=True).rate
    assert rate.opacity.value == pytest.approx(NOISE, abs=1e-9)
    assert rate.secret.value == pytest.approx(1.0, abs=1e-9)
    assert rate.leakage.value == pytest.approx(1.0 - NOISE, abs=1e-9)


@pytest.mark.parametrize(("flip", "opacity"), [(0.0, 0.0), (0.5, None)])
def test_who_sees_all_and_who_sees_nothing(flip: float, opacity: float | None) -> None:
    rate = measure(build_problem(sticky(0.8, flip)), rate=True).rate
    entropy = -(0.8 * np.log2(0.8) + 0.2 * np.log2(0.2))
    assert rate.opacity.value == pytest.approx(entropy if opacity is None else opacity, abs=1e-9)


def test_the_interval_holds_what_long_runs_come_to() -> None:
    """H(W | Y) of T + 1 steps less that of T tends to the rate."""
    rate = measure(build_problem(sticky(0.8, 0.2)), rate=True).rate
    longer, shorter = (measure(build_problem(sticky(0.8, 0.2, horizon=steps))) for steps in (14, 13))
    assert rate.opacity.upper - rate.opacity.lower < 2e-3
    assert rate.opacity.lower - 1e-4 <= longer.opacity.value - shorter.opacity.value <= rate.opacity.upper + 1e-4


def test_the_long_run_of_several_closed_classes() -> None:
    moves = np.array([[0, 0.5, 0.25, 0.25, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 1, 0]])
    found = long_run(moves, np.array([1.0, 0, 0, 0, 0]))
    assert found == pytest.approx([0, 0.375, 0.375, 1 / 6, 1 / 12], abs=1e-12)
    assert found @ moves == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize(
    "more", [{"secret": {"last_state": True}}, {"policy": {"conditions_on": ["state", "time"]}}], ids=str
)
def test_what_has_no_rate_is_refused(more: dict) -> None:
    with pytest.raises(InputError, match="rate"):
        measure(build_problem(sticky(0.5, 0.1, **more)), rate=True)
