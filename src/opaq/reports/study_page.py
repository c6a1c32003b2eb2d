"""Describe the page of a study: the points of a sweep or of a front in one shape, and sentences about them.

Comes in: a `Study` or a `Frontier`. Goes out: a `StudyPage`, whose `to_dict` is the data of the page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from opaq.codec import encode, if_known, key
from opaq.errors import cut_middle, escape_invisible
from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount, Target
from opaq.reports.numbers import amount_phrase, axis_title, drawn_amount, number
from opaq.reports.report_data import FORMAT, VERSION
from opaq.study.front.frontier import Frontier, FrontierPoint
from opaq.study.sweep.study import Study, StudyPoint
from opaq.version import __version__

_CLOSE = 1e-4  # of the range of returns
_ROUNDING = 1e-7  # of their size
_LONGEST = 40  # characters of a name or a value
_FIGURES = {  # key of a figure -> its title; the order is that of the table
    "opacity": "opacity (bits)",
    "objective": "hidden",
    "upper_bound": "bound",
    "lower_bound": "lower bound",
    "value": "reached",
    "return": "return",
    "guess_error": "guess error",
    "slope": "slope",
    "seconds": "seconds",
    "status": "status",
}
_Outcome = Literal["feasible", "infeasible", "failed", "unfinished"]


@dataclass(frozen=True, slots=True)
class PagePoint:
    """A point of a sweep or of a front.

    name: by which it is called.
    parameters: path -> value; of a front `threshold`.
    status: how its search ended, "failed", or empty where there is no result yet.
    feasible: whether it meets its task; null where there is no answer.
    opacity: as in a measurement; null where there is no answer.
    objective: what the task is about, where that is not the opacity; else null.
    value: of a front against another requirement than the return, what is reached of it; else null.
    expected_return: as in a measurement; null where there is no answer.
    guess_error: as in a measurement; null where there is no answer.
    upper_bound: what no policy exceeds; null where that is not known.
    lower_bound: of tasks that minimise: what no policy gets below; left out where that is not known.
    is_trivial: whether the bound says no more than the number of secret values does.
    gap: of a sweep, from the value to the bound; null where that is not known.
    slope: of a front, what one more unit of threshold changes; else null.
    seconds: the time of its search; null where there is no answer.
    error: why it failed; else null.
    report: the file of its report, relative to the page; null: it has none.
    """

    name: str = field(metadata=key("point"))
    parameters: Mapping[str, Any]
    status: str
    feasible: bool | None = None
    opacity: Amount | None = None
    objective: Target | None = None
    value: float | None = None
    expected_return: float | None = field(default=None, metadata=key("return"))
    guess_error: Amount | None = None
    upper_bound: float | None = None
    lower_bound: float | None = field(default=None, metadata=if_known())
    is_trivial: bool = False
    gap: float | None = None
    slope: float | None = None
    seconds: float | None = None
    error: str | None = None
    report: str | None = None

    @property
    def outcome(self) -> _Outcome:
        """What became of it, in one word."""
        if not self.status:
            return "unfinished"
        if self.status == "failed":
            return "failed"
        return "feasible" if self.feasible else "infeasible"

    @property
    def hidden(self) -> Amount | None:
        """The amount that its task is about: its opacity or, in its place, another uncertainty."""
        return self.opacity if self.objective is None else self.objective.amount

    def hidden_value(self, *, minimise: bool = False) -> float:
        """Return that amount, of points that have one; of an interval the end that is proven to be reached."""
        assert self.hidden is not None
        return drawn_amount(self.hidden, minimise=minimise)[0]

    def hidden_words(self) -> str:
        """Return that amount in a sentence, of points that have one."""
        assert self.hidden is not None
        return amount_phrase(self.hidden)


@dataclass(frozen=True, slots=True)
class ReportCount:
    """Which points have a report of their own.

    made: how many.
    text: which have none, and why.
    """

    made: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column of the table.

    key: of the points.
    title: its head.
    parameter: whether the key is one of `parameters`.
    numeric: whether its values are numbers.
    """

    key: str
    title: str
    parameter: bool
    numeric: bool


@dataclass(frozen=True, slots=True)
class StudyPage:
    """All that the page of a study shows.

    title: above the page.
    problem: the problem's name.
    source: "sweep" or "frontier".
    parameters: the paths that are varied; `threshold` of a front.
    against: the requirement that is traded.
    objective: what the tasks and the bounds are about.
    interrupted: whether the work was ended before its time.
    warnings: of a sweep, the laws that its answers break, as sentences.
    points: every point.
    largest: of a front, what no policy exceeds of the requirement; else null.
    policy_class: of a front, what its policies look at; else null.
    complete: of a front, whether all points asked for are there.
    concave_by_theory: of a front, whether it must be concave; else null.
    reports: which points have a report of their own.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("counts", "columns", "best", "front", "question", "answer")

    title: str
    problem: str
    source: Literal["sweep", "frontier"]
    parameters: tuple[str, ...]
    against: str
    objective: Target
    interrupted: bool
    points: tuple[PagePoint, ...]
    largest: float | None = None
    policy_class: str | None = None
    complete: bool = True
    concave_by_theory: bool | None = None
    reports: ReportCount = ReportCount()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of_sweep(cls, study: Study) -> StudyPage:
        """Return the page of a sweep; of tasks that are not about the same, it shows the opacity."""
        targets = {
            (point.objective.of.name, point.objective.direction): point.objective
            for point in study.points
            if point.objective is not None
        }
        minimise = {direction for _, direction in targets} == {"minimise"}
        same = next(iter(targets.values())).of if len({of for of, _ in targets}) == 1 else Shannon()
        objective = Target.of_task(same, minimise=minimise)
        return cls(
            title=f"Sweep of {study.problem}",
            problem=study.problem,
            source="sweep",
            parameters=study.parameters,
            against="return",
            objective=objective,
            interrupted=study.interrupted,
            points=tuple(_sweep_point(point, objective.of.name) for point in study.points),
            warnings=tuple(f"A law is broken: {law.text}." for law in study.broken_laws),
        )

    @classmethod
    def of_front(cls, front: Frontier) -> StudyPage:
        """Return the page of a front."""
        digits = max(2, len(str(len(front.points))))
        return cls(
            title=f"Front of {front.problem}",
            problem=front.problem,
            source="frontier",
            parameters=("threshold",),
            against=front.against,
            objective=front.objective,
            interrupted=front.interrupted,
            points=tuple(
                _front_point(point, f"{index:0{digits}}", front) for index, point in enumerate(front.points, start=1)
            ),
            largest=front.largest if math.isfinite(front.largest) else None,
            policy_class=front.policy_class,
            complete=front.complete,
            concave_by_theory=front.concave_by_theory,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the object that stands in the page as JSON."""
        return {"format": FORMAT, "version": VERSION, "opaq": __version__, "kind": "study", **encode(self)}

    @property
    def minimise(self) -> bool:
        """Whether what the tasks are about is to be small."""
        return self.objective.minimise

    @property
    def done(self) -> tuple[PagePoint, ...]:
        """The points that meet their task."""
        return tuple(point for point in self.points if point.outcome == "feasible" and point.hidden is not None)

    @property
    def counts(self) -> dict[str, int]:
        """As in the answer of a sweep."""
        outcomes = [point.outcome for point in self.points]
        rest = {kind: outcomes.count(kind) for kind in ("infeasible", "failed", "unfinished")}
        return {"points": len(outcomes), "done": len(outcomes) - rest["failed"] - rest["unfinished"], **rest}

    @property
    def columns(self) -> tuple[PageColumn, ...]:
        """What the table shows beside the name: the parameters, then every figure that some point has."""
        titles = {**_FIGURES, "value": self.against, "objective": axis_title(self.objective.of)}
        twice = "objective" if self.objective.of.name == "guess_error" else ""
        names = {"return": "expected_return"}
        varied = [
            PageColumn(path, path, True, _numeric(point.parameters.get(path) for point in self.points))
            for path in self.parameters
        ]
        figures = [
            PageColumn(name, titles[name], False, name != "status")
            for name in _FIGURES
            if name != twice
            if name == "status" or any(getattr(point, names.get(name, name)) is not None for point in self.points)
        ]
        return (*varied, *figures)

    @property
    def best(self) -> int | None:
        """The position in `points` of the one that meets its task and hides most (of tasks that minimise: least)."""
        sign = -1.0 if self.minimise else 1.0
        known = [
            index for index, point in enumerate(self.points) if point.outcome == "feasible" and point.hidden is not None
        ]
        return max(
            known, key=lambda index: sign * self.points[index].hidden_value(minimise=self.minimise), default=None
        )

    @property
    def front(self) -> tuple[int, ...]:
        """The positions of the points that meet their tasks and that no other one exceeds in return and in what the
        task is about, by return; returns that differ by 1e-4 of their range or less count as one.
        """
        sign = -1.0 if self.minimise else 1.0
        known = [
            (point.expected_return, sign * point.hidden_value(minimise=self.minimise), index)
            for index, point in enumerate(self.points)
            if point.outcome == "feasible" and point.hidden is not None and point.expected_return is not None
        ]
        returns = [earned for earned, *_ in known]
        spread = max(returns) - min(returns) if returns else 0.0
        # closer than searches meet their thresholds
        close = math.inf if spread <= _ROUNDING * max(1.0, *map(abs, returns)) else _CLOSE * spread
        front: list[tuple[float, float, int]] = []
        for each in sorted(known, key=lambda each: (-each[0], -each[1], each[2])):
            if not front or each[1] > front[-1][1]:
                if front and front[-1][0] - each[0] <= close:
                    front.pop()
                front.append(each)
        return tuple(index for *_, index in reversed(front))

    @property
    def question(self) -> str:
        """What is varied, or what is traded for what, in one sentence."""
        problem, of = abbreviate(self.problem), self.objective.of
        how = f"How much of the secret of {problem} can be {'revealed' if self.minimise else 'hidden'}"
        if of.name != "opacity":
            how = f"How {'small' if self.minimise else 'large'} can the {of.title} of {problem} be"
        if self.source == "frontier":
            return f"{how} for how much {'return' if self.against == 'return' else abbreviate(self.against)}?"
        names = [abbreviate(path) for path in self.parameters]
        varied = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
        return f"{how} for different values of {varied}?"

    @property
    def answer(self) -> str:
        """What became of the points, in plain sentences."""
        return self._answer_of_front() if self.source == "frontier" else self._answer_of_sweep()

    def with_unit(self, words: str) -> str:
        """Return a value of the objective with its unit."""
        return f"{words} {self.objective.of.unit}".rstrip()

    def _answer_of_sweep(self) -> str:
        """Return how many points there are, what became of them, how far the objective goes, and the best point."""
        points = sorted(self.done, key=lambda point: point.hidden_value(minimise=self.minimise))
        if not points:
            return f"{self._count()}. No point has an answer that meets its task."
        title, low = self.objective.of.title.capitalize(), points[0].hidden_words()
        high = self.with_unit(points[-1].hidden_words())
        same = low == points[-1].hidden_words()  # in the digits shown
        spread = f"{title} is {high}" if same else f"{title} goes from {low} to {high}"
        best = self.points[self.best or 0]
        earned = "" if best.expected_return is None else f", at a return of {number(best.expected_return, 4)}"
        verb = "reveals most" if self.minimise else "hides most"
        if self.objective.of.name != "opacity":
            verb = f"has the {'lowest' if self.minimise else 'highest'}"
        where = ", ".join(f"{abbreviate(path)} {abbreviate(value)}" for path, value in best.parameters.items())
        return (
            f"{self._count()}. {spread}; point {abbreviate(best.name)}{f' ({where})' if where else ''} {verb}{earned}."
        )

    def _answer_of_front(self) -> str:
        """Return how many points there are, the two ends of the front, and that points are missing where they are."""
        points = [point for point in self.points if point.hidden is not None]
        if not points:
            return "No policy was found that meets the other requirements."
        first, last = (self._end(point) for point in (points[0], points[-1]))
        ends = f"from {first} to {last}" if len(points) > 1 else first
        missing = "" if self.complete else "; the work was ended before all points were there"
        return f"{self._count()}, {ends}{missing}."

    def _end(self, point: PagePoint) -> str:
        """Return one end of a front in words: the objective, and what is reached of the requirement."""
        reached = point.expected_return if self.against == "return" else point.value
        kind = "a return of" if self.against == "return" else abbreviate(self.against)
        title = "" if self.objective.of.name == "opacity" else f"{self.objective.of.title} "
        return f"{self.with_unit(f'{title}{point.hidden_words()}')} at {kind} {number(reached or 0.0, 4)}"

    def _count(self) -> str:
        """Return how many points there are and, where not all are done and feasible, what became of them."""
        counts = self.counts
        unmet = f" ({counts['infeasible']:,} infeasible)" if counts["infeasible"] else ""
        done = f"{counts['done']:,} done{unmet}"
        parts = [f"{counts[kind]:,} {kind}" for kind in ("failed", "unfinished") if counts[kind]]
        total = f"{counts['points']:,} point{'' if counts['points'] == 1 else 's'}"
        return f"{total}: {', '.join([done, *parts])}" if parts or counts["infeasible"] else total


def abbreviate(value: object) -> str:
    """Return a name or a value in at most 40 characters, cut in the middle; what is no text is written as JSON."""
    text = escape_invisible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return cut_middle(text, _LONGEST)


def _sweep_point(point: StudyPoint, of: str) -> PagePoint:
    """Return a point of a sweep as the page has it; of: the name of the uncertainty that the page shows."""
    return PagePoint(
        name=point.name,
        parameters=point.parameters,
        status=point.status,
        feasible=None if point.feasible is None else point.feasible and point.status not in ("infeasible", "not_found"),
        opacity=point.opacity,
        objective=None if of == "opacity" else point.objective,
        expected_return=_finite(point.expected_return),
        guess_error=point.guess_error,
        upper_bound=_finite(point.upper_bound),
        lower_bound=_finite(point.lower_bound),
        gap=_finite(point.gap),
        seconds=_finite(point.seconds),
        error=point.error or None,
    )


def _front_point(point: FrontierPoint, name: str, front: Frontier) -> PagePoint:
    """Return a point of a front as the page has it; name: by which it is called, its number in the front."""
    return PagePoint(
        name=name,
        parameters={"threshold": point.threshold},
        status="as the next point" if point.carried else point.status.name.lower(),
        feasible=point.measurement.feasible and point.status.name not in ("INFEASIBLE", "NOT_FOUND"),
        opacity=point.opacity,
        objective=None if front.of.name == "opacity" else point.measurement.objective,
        value=None if front.against == "return" else _finite(point.value),
        expected_return=_finite(point.expected_return),
        guess_error=point.guess_error,
        upper_bound=_finite(point.upper_bound),
        lower_bound=_finite(point.lower_bound),
        is_trivial=point.is_trivial,
        slope=_finite(point.slope),
        seconds=_finite(point.seconds),
    )


def _numeric(values: Iterable[object]) -> bool:
    """Return whether there are values, and all of those that are not None are numbers."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _finite(value: float | None) -> float | None:
    """Return the value, None where it is not finite: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
