"""Charts: lines, marks and levels over one pair of axes, several of them below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from opaq.reports.figure_style import (
    COLOURS,
    DASHES,
    WIDTHS,
    Column,
    add_title,
    fitting,
    new_figure,
    panels,
    place_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MANY = 500  # points of a line
_BESIDE = 0.95  # inches beside the names of a legend: ticks and the line itself
_PLOT, _AROUND, _LEGEND_LINE = 1.25, 0.55, 0.15  # inches: the axes, what is around them, a line of a legend


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points, marks at them, both, or steps that hold until the next point."""

    name: str
    points: Sequence[tuple[float, float]]
    style: Literal["line", "marks", "both", "steps"] = "line"
    colour: int = 0  # index in the palette


@dataclass(frozen=True, slots=True)
class Level:
    """A named line at one height."""

    name: str
    value: float
    colour: int = 6


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn over one pair of axes."""

    x_label: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[Level] = ()
    title: str = ""


def plot_charts(
    charts: Sequence[Chart],
    *,
    column: Column = "single",
    title: str | None = None,
    across: int | None = None,
    plot_height: float = _PLOT,
) -> Figure:
    """The charts as one figure: below each other; over both columns of a page, up to three side by side.

    across: charts in a row. plot_height: of every pair of axes, in inches.
    """
    if across is None and column == "single" and len({chart.x_label for chart in charts}) == 1:
        charts = [*(replace(chart, x_label="") for chart in charts[:-1]), charts[-1]]
    across = across or (min(3, len(charts)) if column == "double" else 1)
    down = -(-len(charts) // across)
    height = down * (plot_height + _AROUND) + (0.2 if title else 0.0)
    height += sum(max(_legend_height(chart) for chart in charts[row::down]) for row in range(down))
    with new_figure(column, height=height) as figure:
        for chart, area in zip(charts, panels(figure, len(charts), across=across), strict=True):
            draw_chart(area, chart, column=column, share=1 / across)
        add_title(figure, title, column=column)
    return figure


def _legend_height(chart: Chart) -> float:
    entries = len(chart.lines) + len(chart.levels)
    return _LEGEND_LINE * (entries if entries > 1 else 0) + (_LEGEND_LINE if chart.title else 0.0)


def draw_chart(axes: Axes, chart: Chart, *, column: Column, share: float = 1.0) -> None:
    """One chart; `share` is the part of the figure's width that it has."""
    lines = [_line(axes, line, index) for index, line in enumerate(chart.lines)]
    levels = [_level(axes, level, index) for index, level in enumerate(chart.levels)]
    room = share * WIDTHS[column] - _BESIDE
    names = [fitting(name, inches=room) for name in _names(chart)]
    axes.set_xlabel(fitting(chart.x_label, inches=room + _BESIDE / 3, size=8.0))
    axes.set_ylabel(fitting(chart.y_label, inches=1.6, size=8.0))
    axes.grid(axis="y")
    _fit(axes, chart)
    if len(names) > 1:
        place_legend(axes, [*lines, *levels], names, column=column, share=share)
    if chart.title:  # above the legend, which stands where titles are
        title = axes.legend_ if axes.legend_ is not None else axes
        title.set_title(fitting(chart.title, inches=room, size=8.0), **_title_style(title is axes))


def _names(chart: Chart) -> list[str]:
    return [*(line.name for line in chart.lines), *(level.name for level in chart.levels)]


def _title_style(plain: bool) -> dict[str, Any]:
    return {"loc": "left"} if plain else {"prop": {"size": 8.0}}


def _line(axes: Axes, line: Line, index: int) -> Any:
    xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
    mark = "o" if line.style in ("marks", "both") else None
    dash = "none" if line.style == "marks" else DASHES[index % len(DASHES)]
    drawn = "steps-post" if line.style == "steps" else "default"
    width = 1.0 if len(xs) <= _MANY else 0.5  # of noisy lines, levels stay visible
    look: dict[str, Any] = {"linestyle": dash, "linewidth": width, "marker": mark, "drawstyle": drawn, "clip_on": False}
    (artist,) = axes.plot(xs, ys, color=COLOURS[line.colour], **look)
    return artist


def _level(axes: Axes, level: Level, index: int) -> Any:
    dash = DASHES[1 + index % (len(DASHES) - 1)]
    return axes.axhline(level.value, color=COLOURS[level.colour], linestyle=dash, linewidth=0.9)


def _fit(axes: Axes, chart: Chart) -> None:
    """Amounts are shown from 0 on, unless they are negative or all far from it."""
    heights = [y for line in chart.lines for _, y in line.points] + [level.value for level in chart.levels]
    if heights and 0.0 <= min(heights) <= 0.6 * max(heights):
        axes.set_ylim(bottom=0.0)
    axes.margins(x=0.02)
