"""Where points of a front go, on fronts that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opaq.study.front.placement import FrontSample, gap_between, next_thresholds, shortfalls


def arc(threshold: float) -> FrontSample:
    """A quarter of a circle, with its true slope: steep at the end, as fronts are."""
    slope = -threshold / math.sqrt(1 - threshold**2) if threshold < 1 else -1e6
    return FrontSample(threshold, math.sqrt(max(0.0, 1 - threshold**2)), slope)


def largest_gap(known: list[FrontSample]) -> float:
    """How far the arc is from the line through the points, at most."""
    at = np.linspace(0, 1, 2001)
    line = np.interp(at, [point.threshold for point in known], [point.score for point in known])
    return float((np.sqrt(1 - at**2) - line).max())


def placed(count: int, *, at_once: int) -> list[FrontSample]:
    known = [arc(0.0), arc(1.0)]
    while len(known) < count:
        thresholds = next_thresholds(known, min(at_once, count - len(known)))
        known = sorted([*known, *map(arc, thresholds)], key=lambda point: point.threshold)
    return known


@pytest.mark.parametrize("at_once", [1, 2])
def test_points_placed_by_slopes_follow_a_bend_better_than_even_ones(at_once: int) -> None:
    even = [arc(threshold) for threshold in np.linspace(0, 1, 12)]
    assert largest_gap(placed(12, at_once=at_once)) < largest_gap(even) / 3


def test_the_corner_of_the_triangle() -> None:
    gap = gap_between(
        FrontSample(0.0, 1.0, 0.0), FrontSample(1.0, 0.0, -2.0)
    )  # tangents y = 1 and y = 2 - 2x meet at x = 1/2
    assert (gap.threshold, gap.height, gap.chord) == pytest.approx((0.5, 0.5, 0.5))


def test_missing_and_contradicting_slopes_lead_to_the_middle() -> None:
    assert gap_between(FrontSample(0.0, 1.0), FrontSample(2.0, 0.0)).threshold == 1.0
    convex = gap_between(FrontSample(0.0, 1.0, -3.0), FrontSample(2.0, 0.0, 0.0))
    assert (convex.threshold, convex.height) == (1.0, 0.0)


def test_no_two_points_fall_together() -> None:
    flat = [FrontSample(0.0, 1.0, 0.0), FrontSample(1.0, 1.0, 0.0)]
    chosen = next_thresholds(flat, 9)
    assert len(set(chosen)) == 9
    assert all(0 < threshold < 1 for threshold in chosen)
    assert next_thresholds([FrontSample(1.0, 1.0, 0.0), FrontSample(1.0, 1.0, 0.0)], 2) == []


def test_shortfalls_are_measured_from_the_least_concave_curve_above() -> None:
    points = [(0.0, 1.0), (1.0, 0.9), (2.0, 0.5), (3.0, 0.4), (4.0, 0.1)]
    assert shortfalls(points) == pytest.approx([0, 0, 0.65 - 0.5, 0, 0])
    assert shortfalls([(threshold, arc(threshold).score) for threshold in np.linspace(0, 1, 9)]) == pytest.approx(
        [0] * 9
    )
    assert shortfalls([(0.0, 1.0)]) == [0.0]
