"""Where the next point of a front goes, and where theory promises a concave front.

The optimal multiplier of a requirement is what one more unit of its threshold costs: minus the slope of the front. Of
a concave front every tangent is an upper bound and every chord a lower one, so that the front between two known points
lies in a triangle. The next threshold is where the largest triangle has its corner (the sandwich algorithm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from opaq.model.conditions import AutomatonState, Condition, CurrentState, LastStates, Observations, StartState
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, ReturnAtLeast
from opaq.model.secret import InitialState, Language, LastState

_NEAREST = 0.15  # of an interval: no new threshold comes closer to its ends
_LENGTH_COUNTS = 1e-3  # of the front's whole drop: what the length of an interval weighs beside its triangle


@dataclass(frozen=True, slots=True)
class FrontSample:
    """One point of a front: what is asked for, what it scores, and its slope there (None: not known)."""

    threshold: float
    score: float
    slope: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """How much is not known between two neighbours, and the threshold at which that is most."""

    threshold: float
    height: float  # from the chord to the tangents
    chord: float  # the score on the chord


def next_thresholds(known: Sequence[FrontSample], count: int) -> list[float]:
    """Where the next `count` points go, if they are to be solved side by side; fewer when nothing is left between.

    known: two points at least, by threshold.
    """
    points, chosen = sorted(known, key=lambda point: point.threshold), list[float]()
    span, drop = points[-1].threshold - points[0].threshold, abs(points[0].score - points[-1].score)
    for _ in range(count if span > 0 else 0):
        index, gap = max(
            ((index, gap_between(*pair)) for index, pair in enumerate(pairwise(points))),
            key=lambda entry: (
                entry[1].height
                + _LENGTH_COUNTS * drop * (points[entry[0] + 1].threshold - points[entry[0]].threshold) / span
            ),
        )
        if not points[index].threshold < gap.threshold < points[index + 1].threshold:
            break
        chosen.append(gap.threshold)
        points.insert(
            index + 1, FrontSample(gap.threshold, gap.chord + 0.5 * gap.height)
        )  # about where the front may be
    return sorted(chosen)


def gap_between(left: FrontSample, right: FrontSample) -> Gap:
    """The corner of the triangle between two neighbours; the middle where a slope is missing or none has a corner."""
    length = right.threshold - left.threshold
    drop = (right.score - left.score) / length if length > 0 else 0.0
    above = _slope(left.slope, drop, least=True) - drop  # how fast the left tangent leaves the chord
    below = drop - _slope(right.slope, drop, least=False)  # and the right one, seen from the right
    if above <= 0.0 or below <= 0.0:  # flat, not concave, or one tangent only
        share, height = 0.5, 0.5 * length * max(above, below, 0.0)
    else:
        share = below / (above + below)
        height = above * share * length
    share = min(max(share, _NEAREST), 1.0 - _NEAREST)
    return Gap(left.threshold + share * length, height, left.score + share * length * drop)


def _slope(slope: float | None, drop: float, *, least: bool) -> float:
    """A slope, or the chord's where it is not known or says that the front is not concave here."""
    if slope is None:
        return drop
    return max(slope, drop) if least else min(slope, drop)


def shortfalls(points: Sequence[tuple[float, float]]) -> list[float]:
    """How far each (threshold, score) lies below the least concave curve above all of them.

    That curve is what a private coin, tossed at the start between two policies of the front, is sure to reach:
    H(Z | Y) >= H(Z | Y, coin), which is the mean of the two.
    """
    hull: list[tuple[float, float]] = []
    for point in sorted(points):
        while len(hull) >= 2 and _turn(hull[-2], hull[-1], point) >= 0.0:
            hull.pop()
        hull.append(point)
    return [max(0.0, _height(hull, threshold) - score) for threshold, score in points]


def _turn(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> float:
    """Positive where the middle lies below the line from first to last."""
    return (middle[0] - first[0]) * (last[1] - first[1]) - (last[0] - first[0]) * (middle[1] - first[1])


def _height(hull: Sequence[tuple[float, float]], threshold: float) -> float:
    for left, right in pairwise(hull):
        if left[0] <= threshold <= right[0] and right[0] > left[0]:
            share = (threshold - left[0]) / (right[0] - left[0])
            return (1.0 - share) * left[1] + share * right[1]
    return max(score for place, score in hull if place == threshold)


def is_closed_under_mixing(problem: Problem, policy_class: PolicyClass, *, payoff: int = 0) -> bool:
    """Whether the front of a class against a payoff is concave, whatever the numbers."""
    observer = problem.observer
    states_alone = isinstance(observer, Observer) and observer.action_emission is None and observer.after_action is None
    if problem.task.minimise or not states_alone:
        return False
    return _all_states(problem, policy_class) or _all_observations(problem, policy_class)


def _all_states(problem: Problem, policy_class: PolicyClass) -> bool:
    everything = any(isinstance(one, LastStates) and one.count > problem.horizon for one in policy_class.conditions)
    seen = [one for one in policy_class.conditions if one.sees_observations]
    return everything and all(_is_everything_seen(problem, one) for one in seen)


def _is_everything_seen(problem: Problem, condition: Condition) -> bool:
    """Whether a condition holds all observations so far."""
    return isinstance(condition, Observations) and (condition.count == "all" or condition.count > problem.horizon)


def _all_observations(problem: Problem, policy_class: PolicyClass) -> bool:
    looks_at = {type(one) for one in policy_class.conditions}
    everything = any(_is_everything_seen(problem, one) for one in policy_class.conditions)
    needed = {LastState: CurrentState, Language: AutomatonState, InitialState: StartState}.get(type(problem.secret))
    returns_only = all(isinstance(one, ReturnAtLeast) for one in problem.task.requirements)
    return everything and CurrentState in looks_at and needed in looks_at and returns_only
