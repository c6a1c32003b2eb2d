"""The thresholds that a front is solved at next, its dents, and the classes whose fronts are concave by theory.

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
    """One point of a front, with the slope of the front there (None: not known)."""

    threshold: float  # of the requirement
    score: float  # bits, or the unit of another uncertainty; higher is better
    slope: float | None = None  # score per unit of threshold


@dataclass(frozen=True, slots=True)
class Gap:
    """The corner of the triangle in which the front between two neighbours lies."""

    threshold: float  # where the tangents meet
    height: float  # of that corner above the chord: how much is not known
    chord: float  # the score on the chord there


def next_thresholds(known: Sequence[FrontSample], count: int) -> list[float]:
    """Return the thresholds of the next points, in order: the corners of the largest triangles.

    known: two points at least. count: how many points are solved side by side; there are fewer where no interval has
    an inside left. A threshold that is chosen counts as known for the next one, half way up its triangle.
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
        expected = gap.chord + 0.5 * gap.height  # about where the front may be
        points.insert(index + 1, FrontSample(gap.threshold, expected))
    return sorted(chosen)


def gap_between(left: FrontSample, right: FrontSample) -> Gap:
    """Return the corner of the triangle between two neighbours; the middle where it has none.

    With the chord's slope c, the tangents' slopes l >= c >= r and the length d of the interval, the tangents meet
    (c - r) / (l - r) d to the right of its left end, (l - c) (c - r) / (l - r) d above the chord. A slope that is not
    known, or that contradicts a concave front, counts as the chord's. No corner comes closer to an end than 15% of d.
    """
    length = right.threshold - left.threshold
    chord = (right.score - left.score) / length if length > 0 else 0.0
    above = 0.0 if left.slope is None else max(left.slope, chord) - chord  # how fast the left tangent leaves the chord
    below = 0.0 if right.slope is None else chord - min(right.slope, chord)  # and the right one, seen from the right
    if above <= 0.0 or below <= 0.0:  # flat, not concave, or one tangent only
        share, height = 0.5, 0.5 * length * max(above, below, 0.0)
    else:
        share = below / (above + below)
        height = above * share * length
    share = min(max(share, _NEAREST), 1.0 - _NEAREST)
    return Gap(left.threshold + share * length, height, left.score + share * length * chord)


def shortfalls(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return how far each (threshold, score) lies below the least concave curve above all of them.

    That curve is what a private coin, tossed at the start between two policies of the front, is sure to reach:
    H(Z | Y) >= H(Z | Y, coin), which is the mean of the two.
    """
    hull: list[tuple[float, float]] = []
    for last in sorted(points):
        while len(hull) >= 2:
            first, middle = hull[-2], hull[-1]
            turn = (middle[0] - first[0]) * (last[1] - first[1]) - (last[0] - first[0]) * (middle[1] - first[1])
            if turn < 0.0:  # the middle lies above the line from first to last
                break
            hull.pop()
        hull.append(last)

    def height(threshold: float) -> float:
        """Return the height of the hull at a threshold, on the straight line between its two corners."""
        for left, right in pairwise(hull):
            if left[0] <= threshold <= right[0] and right[0] > left[0]:
                share = (threshold - left[0]) / (right[0] - left[0])
                return (1.0 - share) * left[1] + share * right[1]
        return max(score for corner, score in hull if corner == threshold)

    return [max(0.0, height(threshold) - score) for threshold, score in points]


def is_closed_under_mixing(problem: Problem, policy_class: PolicyClass) -> bool:
    """Return whether the front of a class against any requirement is concave, whatever the numbers.

    It is where, for any two policies of the class, a policy of the class behaves as a private coin does that is tossed
    at the start between them: then the front contains every mixture. Two kinds of class are known to be such, for an
    observer who sees nothing of the actions: one that remembers all states, and one that remembers all observations
    beside what the secret and the returns depend on.
    """
    observer, conditions = problem.observer, policy_class.conditions
    states_alone = isinstance(observer, Observer) and observer.action_emission is None and observer.after_action is None
    if problem.task.minimise or not states_alone:
        return False

    def holds_all_observations(condition: Condition) -> bool:
        """Return whether a condition is all observations up to the horizon."""
        return isinstance(condition, Observations) and (condition.count == "all" or condition.count > problem.horizon)

    remembers_states = any(isinstance(one, LastStates) and one.count > problem.horizon for one in conditions)
    if remembers_states and all(holds_all_observations(one) for one in conditions if one.sees_observations):
        return True
    kinds = {type(one) for one in conditions}
    needed = {LastState: CurrentState, Language: AutomatonState, InitialState: StartState}.get(type(problem.secret))
    returns_only = all(isinstance(one, ReturnAtLeast) for one in problem.task.requirements)
    remembers_observations = any(map(holds_all_observations, conditions))
    return remembers_observations and CurrentState in kinds and needed in kinds and returns_only
