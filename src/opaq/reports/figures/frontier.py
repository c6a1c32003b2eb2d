"""Draw what is hidden against what is earned.

Comes in: a `Frontier`, its JSON, or a list of points. Goes out: a matplotlib figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.errors import Fault, InputError, check_numbers
from opaq.opacity.amount import Amount
from opaq.reports.figures.style import COLOURS, Column, add_title, expect, new_figure, place_legend
from opaq.reports.numbers import axis_title, drawn_amount
from opaq.study.front.frontier import Frontier, FrontierPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_TANGENT = 0.035  # of the width of the axes, to each side of a point


@dataclass(frozen=True, slots=True)
class _FrontMark:
    """One point of a front as it is drawn."""

    across: float
    height: float  # of an interval the end that is proven to be reached
    bound: float | None = None  # what no policy with this return exceeds
    slope: float | None = None  # bits per unit of return
    bar: tuple[float, float] | None = None  # an interval, or one standard error to each side of an estimate

    @classmethod
    def of(cls, point: FrontierPoint | Mapping[str, Any] | Sequence[Any]) -> _FrontMark:
        """Return the mark of a point: (return, opacity[, bound[, slope]]), or these under their names.

        Raises InputError where a value is missing, no number or not finite.
        """
        with expect("points with a return and an opacity"):
            if isinstance(point, FrontierPoint):
                across, hidden, *rest = point.expected_return, point.opacity, point.bound, point.slope
            elif isinstance(point, Mapping):
                across, hidden, *rest = point["return"], point["opacity"], _bound_of(point), point.get("slope")
            else:
                across, hidden, *rest = point
            if isinstance(hidden, Mapping):
                hidden = Amount(**hidden)
            amount = hidden if isinstance(hidden, Amount) else Amount.exact(float(hidden))
            bound, slope = (None if each is None else _finite(each) for each in (*rest, *[None] * (2 - len(rest))))
            value, lower, upper = drawn_amount(amount)
            return cls(_finite(across), _finite(value), bound, slope, (lower, upper) if upper > lower else None)


def plot_frontier(
    points: Frontier | Mapping[str, Any] | Sequence[FrontierPoint | Mapping[str, Any] | Sequence[Any]],
    *,
    threshold: float | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """Draw the Pareto front of opacity and return.

    A mark for every policy, with a bar where its opacity is estimated (one standard error to each side) or only known
    to lie in an interval (whose proven end is marked), a dashed line through the certified bounds, with the gap between
    them shaded, and a short tangent where the slope is known: what one more unit of return costs in bits.

    points: a `Frontier`, or the answer of `opaq frontier` as a mapping, as its JSON holds it; its axes are what is
        traded against what. Or a list of points: tuples (return, opacity[, bound[, slope]]), or mappings with
        `return`, `opacity` (a number, or an amount as JSON has it), `upper_bound` or `lower_bound`, and `slope`.
    threshold: a return to mark, such as that of the task.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when there are no points, or where matplotlib is not installed.
    """
    check_numbers({"threshold": (threshold, -math.inf, math.inf)}, optional=("threshold",))
    front = Frontier.from_dict(points) if isinstance(points, Mapping) else points
    if isinstance(front, Frontier):
        marks, across, upwards = _marks(front), front.against, axis_title(front.of)
    else:
        with expect("points with a return and an opacity"):
            marks, across, upwards = [_FrontMark.of(each) for each in front], "return", "opacity (bits)"
    marks.sort(key=lambda mark: mark.across)
    if not marks:
        raise InputError([Fault("points", "there is none", "give at least one (return, opacity)")])
    with new_figure(column, height=2.35 + (0.25 if title else 0.0)) as figure:
        axes = figure.subplots()
        entries = _draw(axes, marks, minimise=isinstance(front, Frontier) and front.objective.minimise)
        if threshold is not None:
            entries["threshold"] = axes.axvline(threshold, color=COLOURS[6], linestyle=":", linewidth=0.9)
        axes.set(xlabel=across, ylabel=upwards)
        axes.grid()
        if len(entries) > 1:
            place_legend(axes, list(entries.values()), list(entries), column=column)
        add_title(figure, title, column=column)
    return figure


def _marks(front: Frontier) -> list[_FrontMark]:
    """Return the marks of a front; heights are of its own objective, against the requirement that is traded."""
    marks = []
    for point in front.points:
        value, lower, upper = drawn_amount(point.measurement.uncertainty, minimise=front.objective.minimise)
        bar = (lower, upper) if upper > lower else None
        marks.append(_FrontMark(point.value, value, point.bound, point.slope, bar))
    return marks


def _draw(axes: Axes, marks: list[_FrontMark], *, minimise: bool) -> dict[str, Any]:
    """Draw policies, bounds and tangents; return name -> artist, for the legend.

    marks: by return. minimise: bounds are lower ones.
    """
    earned, hidden = [mark.across for mark in marks], [mark.height for mark in marks]
    (policies,) = axes.plot(earned, hidden, color=COLOURS[0], marker="o", zorder=3)
    entries: dict[str, Any] = {"best policy found": policies}
    for mark in marks:
        if mark.bar is not None:
            at = [mark.across, mark.across]
            (entries["interval or standard error"],) = axes.plot(
                at, mark.bar, color=COLOURS[0], marker="_", linewidth=0.9
            )
    bounded = [(mark.across, mark.height, mark.bound) for mark in marks if mark.bound is not None]
    if bounded:
        at, below, bounds = (list(each) for each in zip(*bounded, strict=True))
        words, marker = ("no policy gets below", "^") if minimise else ("no policy exceeds", "v")
        (entries[words],) = axes.plot(at, bounds, color=COLOURS[1], linestyle="--", marker=marker)
        axes.fill_between(at, below, bounds, color=COLOURS[1], alpha=0.12, linewidth=0)
    reach = _TANGENT * ((earned[-1] - earned[0]) or 1.0)
    for mark in marks:
        if mark.slope is not None:
            rise = reach * mark.slope
            ends = [mark.across - reach, mark.across + reach]
            heights = [mark.height - rise, mark.height + rise]
            (entries["slope"],) = axes.plot(ends, heights, color=COLOURS[2], linewidth=1.8, alpha=0.8, zorder=4)
    return entries


def _bound_of(point: Mapping[str, Any]) -> Any:
    """Return the bound of either kind of a point as JSON has it; None where there is none."""
    upper = point.get("upper_bound")
    return point.get("lower_bound") if upper is None else upper


def _finite(value: Any) -> float:
    """Return the value as a float. Raises ValueError where it is not finite."""
    if not math.isfinite(float(value)):
        raise ValueError
    return float(value)
