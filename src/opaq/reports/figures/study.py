"""Draw what a sweep found: the objective of every point by what is varied.

Comes in: a `Study`, or the folder of one. Goes out: a matplotlib figure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.errors import Fault, InputError, check_types, list_names
from opaq.reports.figures.axes import name_ticks
from opaq.reports.figures.style import (
    COLOURS,
    DASHES,
    INK,
    WALL,
    WIDTHS,
    Column,
    add_title,
    cut_to_width,
    new_figure,
    place_legend,
)
from opaq.reports.numbers import drawn_amount, figure_title
from opaq.reports.text.study import short_names
from opaq.study.sweep.study import Study, StudyPoint, load_study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class _StudyMark:
    """A point of a study as it is drawn."""

    across: float
    height: float
    bar: tuple[float, float] | None
    bound: float | None
    feasible: bool
    group: str  # the values of what else is varied


def plot_study(
    study: Study | str | os.PathLike[str],
    *,
    across: str | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """Draw what the tasks of a sweep are about by one of the paths that are varied, a line for every value of the rest.

    Filled marks meet their task and are joined, hollow ones miss it. A bar shows an interval, whose proven end is
    marked, or one standard error to each side of an estimate; bounds are dashed. With more than six lines, the best
    point at every value is joined, and the others are grey marks.

    study: a `Study`, or the folder of a sweep.
    across: the path on the horizontal axis, or its last keys; unless given, the first that has several numbers, else
        the first that has several values, which then stand in the order of the plan.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when there is no such path, when no point has an answer, or where matplotlib is not installed.
    """
    check_types({"across": (across, str, "a path that is varied")}, optional=("across",))
    if isinstance(study, str | os.PathLike):
        study = load_study(study)
    check_types({"study": (study, Study, "an opaq.Study, or the folder of a sweep")})
    answered = [point for point in study.points if point.objective is not None and point.objective.amount is not None]
    if not answered:
        raise InputError([Fault("study", "has no point with an answer", "wait until the sweep has solved some")])
    path = _choose_path(study, answered, across)
    names, numeric = short_names(study.parameters), _is_numeric(answered, path)
    values = list(dict.fromkeys(_text(point.parameters.get(path)) for point in answered))
    others: list[str] = []
    for other in study.parameters:
        if other != path and _varies_beside(answered, other, (path, *others)):
            others.append(other)
    minimise = any(point.objective is not None and point.objective.minimise for point in answered)
    marks = [
        _mark(point, path, others, names, values=None if numeric else values, minimise=minimise) for point in answered
    ]
    with new_figure(column, height=2.35 + (0.25 if title else 0.0)) as figure:
        axes = figure.subplots()
        entries = _draw(axes, marks, minimise=minimise)
        axes.set(xlabel=cut_to_width(path, inches=2.4, size=8.0), ylabel=figure_title(study.of))
        axes.grid()
        if not numeric:
            name_ticks(axes.xaxis, values)
        if len(entries) > 1 or others:
            legend = [cut_to_width(name, inches=WIDTHS[column] - 1.1) for name in entries]
            place_legend(axes, list(entries.values()), legend, column=column)
        add_title(figure, title, column=column)
    return figure


def _choose_path(study: Study, points: Sequence[StudyPoint], across: str | None) -> str:
    """Return the path of the horizontal axis; InputError where the one asked for is not varied, or none is."""
    if across is not None:
        ends = [path for path in study.parameters if f".{path}".endswith(f".{across}")]
        if len(ends) != 1:
            finding = f"'{across}' is {'no path that is varied' if not ends else 'the end of several paths'}"
            raise InputError([Fault("across", finding, f"there are {list_names(study.parameters)}")])
        return ends[0]
    varied = [path for path in study.parameters if len({_text(point.parameters.get(path)) for point in points}) > 1]
    numeric = [path for path in varied if _is_numeric(points, path)]
    return next(iter((*numeric, *varied, *study.parameters)))


def _is_numeric(points: Sequence[StudyPoint], path: str) -> bool:
    """Return whether every point has a number there."""
    values = [point.parameters.get(path) for point in points]
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _varies_beside(points: Sequence[StudyPoint], path: str, others: Sequence[str]) -> bool:
    """Return whether a path has several values where some others have one; what varies together with them has not."""
    seen: dict[tuple[str, ...], set[str]] = {}
    for point in points:
        key = tuple(_text(point.parameters.get(other)) for other in others)
        seen.setdefault(key, set()).add(_text(point.parameters.get(path)))
    return any(len(values) > 1 for values in seen.values())


def _mark(
    point: StudyPoint,
    path: str,
    others: Sequence[str],
    names: dict[str, str],
    *,
    values: list[str] | None,
    minimise: bool,
) -> _StudyMark:
    """Return the mark of a point; values: those of the axis in order, where they are no numbers."""
    assert point.objective is not None  # of points with an answer
    assert point.objective.amount is not None
    value, lower, upper = drawn_amount(point.objective.amount, minimise=minimise)
    own = point.parameters.get(path)
    return _StudyMark(
        float(own) if values is None and own is not None else (values or []).index(_text(own)) + 0.5,
        value,
        (lower, upper) if upper > lower else None,
        point.bound,
        bool(point.feasible) and point.status not in ("infeasible", "not_found"),
        ", ".join(f"{names[other]} {_text(point.parameters.get(other))}" for other in others),
    )


def _draw(axes: Axes, marks: list[_StudyMark], *, minimise: bool) -> dict[str, Any]:
    """Draw the points group by group; return name -> artist, for the legend."""
    groups = list(dict.fromkeys(mark.group for mark in marks))
    entries: dict[str, Any] = {}
    if len(groups) > _MOST_LINES:
        best: dict[float, _StudyMark] = {}
        for mark in sorted(marks, key=lambda mark: -mark.height if minimise else mark.height):
            if mark.feasible:
                best[mark.across] = mark
        (entries["other points"],) = axes.plot(
            [mark.across for mark in marks], [mark.height for mark in marks], linestyle="none", marker=".", color=WALL
        )
        entries["the best at every value"] = _draw_line(axes, list(best.values()), 0)
        return entries
    for index, group in enumerate(groups):
        entries[group or "best policy found"] = _draw_line(axes, [mark for mark in marks if mark.group == group], index)
    if any(mark.bound is not None for mark in marks):
        words = "no policy gets below" if minimise else "no policy exceeds"
        (entries[words],) = axes.plot([], [], color=INK, linestyle=":", marker="^" if minimise else "v")
    if not all(mark.feasible for mark in marks):
        look: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": INK}
        (entries["misses its task"],) = axes.plot([], [], linestyle="none", marker="o", **look)
    return entries


def _draw_line(axes: Axes, marks: list[_StudyMark], index: int) -> Any:
    """Draw the points of one line with their bars and bounds, and return what the legend shows."""
    colour, marks = COLOURS[index], sorted(marks, key=lambda mark: mark.across)
    met = [mark for mark in marks if mark.feasible]
    (artist,) = axes.plot(
        [mark.across for mark in met],
        [mark.height for mark in met],
        color=colour,
        marker="o",
        linestyle=DASHES[index % len(DASHES)],
        zorder=3,
    )
    for mark in marks:
        if mark.bar is not None:
            axes.plot([mark.across, mark.across], mark.bar, color=colour, marker="_", linewidth=0.9)
        if not mark.feasible:
            axes.plot(mark.across, mark.height, marker="o", markerfacecolor="white", markeredgecolor=colour, zorder=3)
    bounded = [mark for mark in marks if mark.bound is not None]
    if bounded:
        heights = [mark.bound for mark in bounded if mark.bound is not None]
        axes.plot([mark.across for mark in bounded], heights, color=colour, linestyle=":", marker="v", linewidth=0.9)
    return artist


def _text(value: Any) -> str:
    """Return a value of a parameter as text: lists of names by their names, what else is no text as JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
