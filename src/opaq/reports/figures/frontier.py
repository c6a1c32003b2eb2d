"""What is hidden against what is earned, as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.errors import Fault, InputError, check_numbers
from opaq.reports.answer_data import drawn_amount, optional, reading
from opaq.reports.figures.style import COLOURS, Column, add_title, new_figure, place_legend
from opaq.reports.layout import axis_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_TANGENT = 0.035  # of the width of the axes, to each side of a point


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One point of a front."""

    expected_return: float
    opacity: float  # of an interval the end that is proven to be reached
    bound: float | None = None  # what no policy with this return exceeds
    slope: float | None = None  # bits per unit of return
    bar: tuple[float, float] | None = None  # an interval, or one standard error to each side of an estimate

    @classmethod
    def of(cls, stated: Any, *, minimise: bool = False) -> FrontPoint:
        """From a mapping, a tuple (return, opacity, bound, slope) or an object with these attributes."""
        with reading("points with a return and an opacity"):
            if isinstance(stated, Mapping):
                earned, hidden = stated["return"], stated["opacity"]
                rest = [stated.get("bound", stated.get("upper_bound")), stated.get("slope")]
            elif isinstance(stated, Sequence):
                earned, hidden, *rest = stated
            else:
                earned, hidden, rest = stated.expected_return, stated.opacity, [stated.bound, stated.slope]
            value, lower, upper = map(_finite, drawn_amount(hidden, minimise=minimise))
            bound, slope = (optional(each) for each in (*rest, *[None] * (2 - len(rest))))
            return cls(_finite(float(earned)), value, bound, slope, (lower, upper) if upper > lower else None)


def plot_frontier(
    points: Any, *, threshold: float | None = None, column: Column = "single", title: str | None = None
) -> Figure:
    """The Pareto front of opacity and return, as a figure.

    A mark for every policy, with a bar where its opacity is estimated (one standard error to each side) or only known
    to lie in an interval (whose proven end is marked), a dashed line through the certified bounds, with the gap between
    them shaded, and a short tangent where the slope is known: what one more unit of return costs in bits.

    points: tuples (return, opacity[, bound[, slope]]), mappings with these keys, or objects with `expected_return`,
    `opacity`, `bound` and `slope`; also an object or a mapping that holds them as `points`. One that says what is
    traded `against` what (a front, or what `opaq frontier --json` prints) is drawn on these axes.
    threshold: a return to mark, such as that of the task.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when there are no points, or where matplotlib is not installed.
    """
    check_numbers({"threshold": (threshold, -math.inf, math.inf)}, optional=("threshold",))
    with reading("points with a return and an opacity"):
        listed, across, upwards = _points_and_titles(points)
    minimise = _minimises(points)
    front = sorted((FrontPoint.of(each, minimise=minimise) for each in listed), key=lambda point: point.expected_return)
    if not front:
        raise InputError([Fault("points", "there is none", "give at least one (return, opacity)")])
    with new_figure(column, height=2.35 + (0.25 if title else 0.0)) as figure:
        axes = figure.subplots()
        entries = _draw(axes, front)
        if threshold is not None:
            entries["threshold"] = axes.axvline(threshold, color=COLOURS[6], linestyle=":", linewidth=0.9)
        axes.set(xlabel=across, ylabel=upwards)
        axes.grid()
        if len(entries) > 1:
            place_legend(axes, list(entries.values()), list(entries), column=column)
        add_title(figure, title, column=column)
    return figure


def _points_and_titles(points: Any) -> tuple[Sequence[Any], str, str]:
    """The points and the titles of the two axes; the points of a front as tuples on its own axes."""
    listed = points["points"] if isinstance(points, Mapping) else points
    listed = listed if isinstance(listed, Sequence) else listed.points
    if isinstance(points, Mapping) and "against" in points and "of" in points:
        ends = [(each["value"], each["uncertainty"], each.get("bound"), each.get("slope")) for each in listed]
        return ends, str(points["against"]), axis_title(str(points["of"]))
    if hasattr(points, "against") and hasattr(points, "of"):
        ends = [(each.value, each.measurement.uncertainty, each.bound, each.slope) for each in listed]
        return ends, points.against, axis_title(points.of.name, points.of)
    return listed, "return", "opacity (bits)"


def _draw(axes: Axes, front: list[FrontPoint]) -> dict[str, Any]:
    """Policies, bounds and tangents; what the legend names."""
    earned, hidden = [point.expected_return for point in front], [point.opacity for point in front]
    (policies,) = axes.plot(earned, hidden, color=COLOURS[0], marker="o", zorder=3)
    entries: dict[str, Any] = {"best policy found": policies}
    for point in front:
        if point.bar is not None:
            at = [point.expected_return, point.expected_return]
            (entries["interval or standard error"],) = axes.plot(
                at, point.bar, color=COLOURS[0], marker="_", linewidth=0.9
            )
    bounded = [(point.expected_return, point.opacity, point.bound) for point in front if point.bound is not None]
    if bounded:
        at, below, bounds = (list(each) for each in zip(*bounded, strict=True))
        (entries["no policy exceeds"],) = axes.plot(at, bounds, color=COLOURS[1], linestyle="--", marker="v")
        axes.fill_between(at, below, bounds, color=COLOURS[1], alpha=0.12, linewidth=0)
    reach = _TANGENT * ((earned[-1] - earned[0]) or 1.0)
    for point in front:
        if point.slope is not None:
            rise = reach * point.slope
            ends = [point.expected_return - reach, point.expected_return + reach]
            heights = [point.opacity - rise, point.opacity + rise]
            (entries["slope"],) = axes.plot(ends, heights, color=COLOURS[2], linewidth=1.8, alpha=0.8, zorder=4)
    return entries


def _minimises(points: Any) -> bool:
    """Whether the front is of a task that is to reveal."""
    if isinstance(points, Mapping):
        return bool(points.get("minimise"))
    stated = getattr(points, "stated", None)
    return stated is not None and bool(stated.task.minimise)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError
    return number
