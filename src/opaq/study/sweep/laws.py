"""Laws that the answers of a sweep keep if its searches were long enough, and the pairs of points that break them.

A sensor that detects less often, or is not there, shows its observer a garbled version of what the better one shows:
for every policy the uncertainty is at least as large. A task with a lower threshold allows at least the same policies.
So the best value of a point bounds that of a neighbour whose observer sees no less and whose task asks no less, and
where two answers say otherwise, the neighbour's policy is a better answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from opaq.errors import InputError
from opaq.study.sweep.plan import SweepPoint, is_threshold
from opaq.study.sweep.points import lines_of, options_with, spec_with

if TYPE_CHECKING:
    from opaq.opacity.amount import Target
    from opaq.study.sweep.study import StudyPoint

_MARGIN = 1e-6  # what searches leave open, as between neighbours
_SHORT_LINE = 20  # points of a line of which all pairs are compared; of longer ones those next to each other
_ANYTHING = -math.inf  # the threshold of a task that asks nothing


@dataclass(frozen=True, slots=True)
class BrokenLaw:
    """Two points whose values no pair of best policies has.

    point: the name of the point whose answer is not the best.
    other: the name of the point whose policy is a better answer for it.
    text: what is wrong, as a sentence.
    """

    point: str
    other: str
    text: str


def find_broken_laws(
    points: Sequence[StudyPoint], problem: Mapping[str, Any], together: Sequence[str] = ()
) -> tuple[BrokenLaw, ...]:
    """Return the pairs of points on one line of a sweep whose answers break a law.

    points: of the study, in their order; those that have no answer are passed over. problem: the content of the problem
    file of the sweep. together: the paths that are varied together, if any.
    """
    stated = [SweepPoint(index, point.name, point.parameters) for index, point in enumerate(points)]
    broken = dict[tuple[str, str], BrokenLaw]()
    for line in lines_of(stated, together):
        answered = [point for point in line if points[point.index].objective is not None]
        pairs = combinations(answered, 2) if len(answered) <= _SHORT_LINE else pairwise(answered)
        for one, other in pairs:
            for low, high in ((one, other), (other, one)):
                law = _compare(points[low.index], points[high.index], problem)
                if law is not None:
                    broken.setdefault((law.point, law.other), law)
    return tuple(broken.values())


def _compare(upper: StudyPoint, lower: StudyPoint, problem: Mapping[str, Any]) -> BrokenLaw | None:
    """Return the law that two points break: the best value of the first is not below that of the second; else None."""
    try:
        first, second = (spec_with(problem, point.parameters) for point in (upper, lower))
    except InputError:
        return None
    targets = (upper.objective, lower.objective)
    if targets[0] is None or targets[1] is None:
        return None
    minimise = targets[0].minimise
    if first == second or not _same_but_observer_and_task(upper, lower, first, second):
        return None
    asks = _asks_no_more(second, first) if minimise else _asks_no_more(first, second)
    if not (asks and _sees_no_more(first, second)):
        return None
    one, other = (
        LawAnswer(point.name, f"point {point.name} ({_words(point)})", f"point {point.name}", target, point.feasible)
        for point, target in ((upper, targets[0]), (lower, targets[1]))
    )
    return compare_answers(one, other, asks=" and its task asks no more")


@dataclass(frozen=True, slots=True)
class LawAnswer:
    """One of two answers that a law compares.

    name: of the point. subject: what it is called where it breaks a law. reference: what it is called beside another.
    objective: what it reaches. feasible: whether it meets the task; None: that is not known.
    """

    name: str
    subject: str
    reference: str
    objective: Target
    feasible: bool | None


def compare_answers(upper: LawAnswer, lower: LawAnswer, *, asks: str = "") -> BrokenLaw | None:
    """Return the law that two answers break: the best value of the first is not below that of the second; else None.

    upper: of the observer who sees no more. asks: what is said of its task, where tasks differ.
    """
    minimise, high, low = upper.objective.minimise, upper.objective.amount, lower.objective.amount
    worse, better = (lower, upper) if minimise else (upper, lower)
    if high is None or low is None or not better.feasible:
        return None
    why = f"although its observer sees no {'less' if minimise else 'more'}{asks}"
    advice = "its search was too short: allow it more time or more starts"
    if not worse.feasible:
        text = f"{worse.subject} has no policy that meets its task, {why} than those of {better.reference}; {advice}"
        return BrokenLaw(worse.name, better.name, text)
    noise = 3.0 * math.hypot(high.standard_error or 0.0, low.standard_error or 0.0)
    sampled = "sampled" in (high.method, low.method)
    most, least = (high.value, low.value) if sampled else (high.upper, low.lower)
    if most >= least - _MARGIN - noise:
        return None
    own, others = (least, most) if minimise else (most, least)
    relation = "more than" if minimise else "less than"
    unit = f" {upper.objective.of.unit}".rstrip()
    than = f"the {others:.6g}{unit} of {better.reference}"
    there = "those there" if asks else "that one"
    text = f"{worse.subject} reaches {own:.6g}{unit}, {relation} {than}, {why} than {there}; {advice}"
    return BrokenLaw(worse.name, better.name, text)


def _words(point: StudyPoint) -> str:
    """Return what is varied at a point."""
    return SweepPoint(0, point.name, point.parameters).words


def _same_but_observer_and_task(
    one: StudyPoint, other: StudyPoint, first: Mapping[str, Any], second: Mapping[str, Any]
) -> bool:
    """Return whether two points differ at most in observer and task, and their policies do not see the observations.

    one, other: the points. first, second: the contents of their problem files.
    """
    apart = ("observer", "task")
    if options_with({}, one.parameters) != options_with({}, other.parameters):
        return False
    looks = f"{first.get('policy')} {options_with({}, one.parameters)}"
    if "observations" in looks or "belief" in looks:
        return False
    keys = (first.keys() | second.keys()) - set(apart)
    return all(first.get(key) == second.get(key) for key in keys)


def _asks_no_more(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the task of one problem file differs from another's in thresholds alone, none of them higher."""
    first, second = (dict(_leaves(spec.get("task") or {}, "task")) for spec in (one, other))
    return all(
        first.get(path, _ANYTHING) <= second.get(path, _ANYTHING)
        if is_threshold(path) and _are_numbers(first.get(path, 0.0), second.get(path, 0.0))
        else first.get(path) == second.get(path)
        for path in first.keys() | second.keys()
    )


def _leaves(holder: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every path of nested mappings and lists with the value there."""
    if isinstance(holder, Mapping):
        for key, value in holder.items():
            yield from _leaves(value, f"{path}.{key}")
    elif isinstance(holder, list):
        for index, value in enumerate(holder):
            yield from _leaves(value, f"{path}.{index}")
    elif holder is not None:
        yield path, holder


def _sees_no_more(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the observer of one problem file sees a garbled version of what another's sees.

    They are the same, or both have sensors, of which some are missing in the first or detect less often there, but no
    less often than they fire elsewhere: with false alarms above, a sensor tells more the less it detects.
    """
    first, second = one.get("observer"), other.get("observer")
    if first == second:
        return True
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return False
    sensors, better = first.get("sensors") or {}, second.get("sensors") or {}
    if not (isinstance(sensors, Mapping) and isinstance(better, Mapping)) or "sensors" not in second:
        return False
    if {**first, "sensors": None} != {**second, "sensors": None} or not sensors.keys() <= better.keys():
        return False
    return all(_is_garbled(sensor, better[name]) for name, sensor in sensors.items())


def _is_garbled(sensor: Any, better: Any) -> bool:
    """Return whether a sensor is another one that detects less often, as problem files state them."""
    if sensor == better:
        return True
    if not (isinstance(sensor, Mapping) and isinstance(better, Mapping)):
        return False
    rates: list[Any] = [sensor.get("false_alarm", 0.0), sensor.get("detects"), better.get("detects")]
    if not _are_numbers(*rates) or {**sensor, "detects": None} != {**better, "detects": None}:
        return False
    return rates == sorted(rates)


def _are_numbers(*values: Any) -> bool:
    """Return whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
