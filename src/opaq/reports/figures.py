"""Charts as SVG: lines, marks and levels over plain axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from opaq.reports.svg import COLOURS, FAINT, INK, document, element, path, text

_WIDTH, _PLOT_HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 38, 52
_LEGEND_LINE, _GLYPH = 20, 6.5  # pixels a legend line; pixels a letter of its text, roughly
_MAX_POINTS = 1000  # a line with more is thinned: no screen shows them


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points, marks at them, or both."""

    name: str
    points: Sequence[tuple[float, float]]
    style: Literal["line", "marks", "both"] = "line"
    colour: int = 0  # place in the palette


@dataclass(frozen=True, slots=True)
class Level:
    """A named dashed line at one height."""

    name: str
    value: float
    colour: int = 4


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[Level] = ()


def render_charts(charts: Sequence[Chart]) -> str:
    """The charts as one SVG, one below the other."""
    pieces, top = [], 0.0
    for chart in charts:
        frame = _Frame.around(chart, top)
        pieces.append(frame.drawn(chart))
        top = frame.end
    return document(_WIDTH, top, *pieces, title="; ".join(chart.title for chart in charts))


def ticks(low: float, high: float, *, about: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) from at or below `low` to at or above `high`."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a chart stands on the page, and how its numbers become pixels."""

    x_ticks: list[float]
    y_ticks: list[float]
    top: float  # of the chart
    head: float  # of the plot, below title and legend
    legend: list[list[Line | Level]]

    @classmethod
    def around(cls, chart: Chart, top: float) -> _Frame:
        xs = [x for line in chart.lines for x, _ in line.points]
        ys = [y for line in chart.lines for _, y in line.points] + [level.value for level in chart.levels]
        legend = _legend([*chart.lines, *chart.levels])
        head = top + _TOP + _LEGEND_LINE * len(legend)
        return cls(ticks(min(xs), max(xs), about=8), ticks(_bottom(ys), max(ys)), top, head, legend)

    @property
    def foot(self) -> float:
        return self.head + _PLOT_HEIGHT

    @property
    def end(self) -> float:
        return self.foot + _BOTTOM

    def x(self, value: float) -> float:
        first, last = self.x_ticks[0], self.x_ticks[-1]
        return _LEFT + (value - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        first, last = self.y_ticks[0], self.y_ticks[-1]
        return self.foot - (value - first) / (last - first) * _PLOT_HEIGHT

    def drawn(self, chart: Chart) -> str:
        title = text(chart.title, _LEFT, self.top + 24, size=15, font_weight="bold")
        lines = [self._line(line) for line in chart.lines]
        levels = [self._level(level) for level in chart.levels]
        return element("g", title, *self._keys(), *self._axes(chart), *lines, *levels)

    def _axes(self, chart: Chart) -> list[str]:
        right, middle = _WIDTH - _RIGHT, self.head + _PLOT_HEIGHT / 2
        pieces = []
        for value in self.y_ticks:
            height = self.y(value)
            pieces.append(path([(_LEFT, height), (right, height)], stroke=FAINT))
            pieces.append(text(_told(value), _LEFT - 8, height + 4, anchor="end"))
        for value in self.x_ticks:
            place = self.x(value)
            pieces.append(path([(place, self.foot), (place, self.foot + 5)], stroke=INK))
            pieces.append(text(_told(value), place, self.foot + 19, anchor="middle"))
        pieces.append(path([(_LEFT, self.head), (_LEFT, self.foot), (right, self.foot)], stroke=INK))
        pieces.append(text(chart.x_label, (_LEFT + right) / 2, self.foot + 40, size=13, anchor="middle"))
        turned = f"rotate(-90 18 {middle:.1f})"
        pieces.append(text(chart.y_label, 18, middle, size=13, anchor="middle", transform=turned))
        return pieces

    def _line(self, line: Line) -> str:
        every = -(-len(line.points) // _MAX_POINTS)
        placed = [(self.x(x), self.y(y)) for x, y in line.points[::every]]
        return _traced(placed, line.style, COLOURS[line.colour])

    def _level(self, level: Level) -> str:
        height = self.y(level.value)
        return _dashed(_LEFT, _WIDTH - _RIGHT, height, COLOURS[level.colour])

    def _keys(self) -> list[str]:
        pieces = []
        for place, row in enumerate(self.legend):
            left, height = float(_LEFT), self.top + _TOP + _LEGEND_LINE * place
            for entry in row:
                pieces.append(_swatch(entry, left, height))
                pieces.append(text(entry.name, left + 34, height + 4))
                left += _key_width(entry)
        return pieces


def _bottom(heights: Sequence[float]) -> float:
    """Amounts are shown from 0 on, unless they are negative or all far from it."""
    low, high = min(heights), max(heights)
    return 0.0 if 0.0 <= low <= 0.6 * high else low


def _legend(entries: Sequence[Line | Level]) -> list[list[Line | Level]]:
    """The entries, broken into rows that fit the page."""
    rows: list[list[Line | Level]] = [[]]
    used = 0.0
    for entry in entries:
        width = _key_width(entry)
        if rows[-1] and used + width > _WIDTH - _LEFT:
            rows.append([])
            used = 0.0
        rows[-1].append(entry)
        used += width
    return rows


def _key_width(entry: Line | Level) -> float:
    return 34 + _GLYPH * len(entry.name) + 14


def _swatch(entry: Line | Level, left: float, height: float) -> str:
    colour = COLOURS[entry.colour]
    if isinstance(entry, Level):
        return _dashed(left, left + 28, height, colour)
    if entry.style == "line":
        return _traced([(left, height), (left + 28, height)], "line", colour)
    middle = _traced([(left + 14, height)], "marks", colour)
    return middle if entry.style == "marks" else middle + _swatch(replace(entry, style="line"), left, height)


def _dashed(left: float, right: float, height: float, colour: str) -> str:
    return path([(left, height), (right, height)], stroke=colour, stroke_width=1.6, stroke_dasharray="7 4")


def _traced(placed: list[tuple[float, float]], style: str, colour: str) -> str:
    line = path(placed, stroke=colour, stroke_width=1.8, stroke_linejoin="round") if style != "marks" else ""
    marks = [element("circle", cx=x, cy=y, r=3.2, fill=colour) for x, y in placed] if style != "line" else []
    return line + "".join(marks)


def _told(value: float) -> str:
    return f"{value:,.6g}"
