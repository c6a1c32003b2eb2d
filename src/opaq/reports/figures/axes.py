"""Draw charts, grids and heat tables on matplotlib axes.

Comes in: points, tables of numbers, a `GridView` with probabilities. Goes out: marks on the axes of a figure that
the caller has made, or a whole figure of charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.reports.figures.style import (
    COLOURS,
    DASHES,
    FAINT,
    INK,
    WALL,
    WIDTHS,
    Column,
    add_title,
    cut_to_width,
    figure_text,
    new_figure,
    panels,
    place_legend,
)
from opaq.reports.grid import Cell, Direction, GridView, Shares, seldom_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MANY = 500  # points of a line
_BESIDE = 0.95  # inches beside the names of a legend: ticks and the line itself
_PLOT, _AROUND, _LEGEND_LINE = 1.25, 0.55, 0.15  # inches: the axes, what is around them, a line of a legend


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points, marks at them, both, or steps that hold until the next point.

    points: (x, y), in the order in which they are joined. colour: index in the palette.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: Literal["line", "marks", "both", "steps"] = "line"
    colour: int = 0  # index in the palette


@dataclass(frozen=True, slots=True)
class LevelLine:
    """A named line at one height; value: in units of y. colour: index in the palette."""

    name: str
    value: float
    colour: int = 6


@dataclass(frozen=True, slots=True)
class Chart:
    """The lines over one pair of axes, with their labels; title: above them, none where it is empty."""

    x_label: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[LevelLine] = ()
    title: str = ""


def plot_charts(
    charts: Sequence[Chart],
    *,
    column: Column = "single",
    title: str | None = None,
    across: int | None = None,
    plot_height: float = _PLOT,
) -> Figure:
    """Return the charts as one figure.

    charts: drawn below each other; over both columns of a page, up to three side by side.
    column: how wide, "single" (3.4 in) or "double" (7 in). title: a line above the figure; None for none.
    across: charts in a row; None lets the column decide. plot_height: of every pair of axes, in inches.

    Raises InputError where matplotlib is not installed.
    """
    if across is None and column == "single" and len({chart.x_label for chart in charts}) == 1:
        charts = [*(replace(chart, x_label="") for chart in charts[:-1]), charts[-1]]
    across = across or (min(3, len(charts)) if column == "double" else 1)
    down = -(-len(charts) // across)
    height = down * (plot_height + _AROUND) + (0.2 if title else 0.0)
    height += sum(max(_legend_height(chart) for chart in charts[row::down]) for row in range(down))
    with new_figure(column, height=height) as figure:
        for chart, area in zip(charts, panels(figure, len(charts), across=across), strict=True):
            _draw_chart(area, chart, column=column, share=1 / across)
        add_title(figure, title, column=column)
    return figure


def _legend_height(chart: Chart) -> float:
    """Return the inches that the legend and the title of a chart take."""
    entries = len(chart.lines) + len(chart.levels)
    return _LEGEND_LINE * (entries if entries > 1 else 0) + (_LEGEND_LINE if chart.title else 0.0)


def _draw_chart(axes: Axes, chart: Chart, *, column: Column, share: float = 1.0) -> None:
    """Draw one chart; share: the part of the figure's width that it has."""
    lines = [_line(axes, line, index) for index, line in enumerate(chart.lines)]
    levels = [_level(axes, level, index) for index, level in enumerate(chart.levels)]
    room = share * WIDTHS[column] - _BESIDE
    names = [cut_to_width(name, inches=room) for name in _names(chart)]
    axes.set_xlabel(cut_to_width(chart.x_label, inches=room + _BESIDE / 3, size=8.0))
    axes.set_ylabel(cut_to_width(chart.y_label, inches=1.6, size=8.0))
    axes.grid(axis="y")
    _fit(axes, chart)
    if len(names) > 1:
        place_legend(axes, [*lines, *levels], names, column=column, share=share)
    if chart.title:  # above the legend, which stands where titles are
        title = axes.legend_ if axes.legend_ is not None else axes
        title.set_title(cut_to_width(chart.title, inches=room, size=8.0), **_title_style(title is axes))


def _names(chart: Chart) -> list[str]:
    """Return the names of all lines, then of all levels, as the legend has them."""
    return [*(line.name for line in chart.lines), *(level.name for level in chart.levels)]


def _title_style(plain: bool) -> dict[str, Any]:
    """Return the arguments for a title: on the axes themselves (`plain`), or on their legend."""
    return {"loc": "left"} if plain else {"prop": {"size": 8.0}}


def _line(axes: Axes, line: Line, index: int) -> Any:
    """Draw a line and return what the legend shows; index: gives its dashes, so that lines differ in grey as well."""
    xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
    mark = "o" if line.style in ("marks", "both") else None
    dash = "none" if line.style == "marks" else DASHES[index % len(DASHES)]
    drawn = "steps-post" if line.style == "steps" else "default"
    width = 1.0 if len(xs) <= _MANY else 0.5  # of noisy lines, levels stay visible
    look: dict[str, Any] = {"linestyle": dash, "linewidth": width, "marker": mark, "drawstyle": drawn, "clip_on": False}
    (artist,) = axes.plot(xs, ys, color=COLOURS[line.colour], **look)
    return artist


def _level(axes: Axes, level: LevelLine, index: int) -> Any:
    """Draw a level and return what the legend shows; index: gives its dashes."""
    dash = DASHES[1 + index % (len(DASHES) - 1)]
    return axes.axhline(level.value, color=COLOURS[level.colour], linestyle=dash, linewidth=0.9)


def _fit(axes: Axes, chart: Chart) -> None:
    """Set the range of the axes: amounts are shown from 0 on, unless they are negative or all far from it."""
    heights = [y for line in chart.lines for _, y in line.points] + [level.value for level in chart.levels]
    if heights and 0.0 <= min(heights) <= 0.6 * max(heights):
        axes.set_ylim(bottom=0.0)
    axes.margins(x=0.02)


_MOST_NUMBERS = 260  # cells that still get their number
_MOST_TICKS = 40
_DARK = 0.55  # numbers are white from here on


def draw_table(
    axes: Axes, values: FloatArray, *, rows: Sequence[str], columns: Sequence[str], cmap: str, longest: float = 0.9
) -> Any:
    """Draw values as coloured cells and return the mesh, for a colour bar.

    values: [row, column], probabilities; the first row on top, NaN left empty. Small tables get numbers in their cells.
    rows, columns: names along the sides. cmap: a colour map of matplotlib, from 0 to 1. longest: inches for a name.
    """
    num_rows, num_columns = values.shape
    lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.4} if values.size <= 4000 else {}
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), cmap=cmap, vmin=0.0, vmax=1.0, **lines)
    axes.set_ylim(num_rows, 0)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    name_ticks(axes.yaxis, rows, longest=longest)
    name_ticks(axes.xaxis, columns, longest=longest)
    if values.size <= _MOST_NUMBERS and num_columns <= 16:
        _write_numbers(axes, values)
    return mesh


def name_ticks(axis: Any, names: Sequence[str], *, longest: float = 0.9) -> None:
    """Write names at the middle of the cells, upright along x where they are long; every so many where there are many.

    axis: of matplotlib, x or y. names: one per cell. longest: inches for a name.
    """
    every = -(-len(names) // _MOST_TICKS)
    kept = range(0, len(names), every)
    labels = [cut_to_width(names[index], inches=longest) for index in kept]
    room = 30 / max(1, len(labels))  # characters for each name along x, about
    upright = axis.axis_name == "x" and max((len(label) for label in labels), default=0) > max(1.0, room)
    axis.set_ticks([index + 0.5 for index in kept], labels, rotation=90 if upright else 0)


def _write_numbers(axes: Axes, values: FloatArray) -> None:
    """Write every value of 0.005 or more into its cell, white on dark ones."""
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value) and value >= 0.005:
            text = "1" if value >= 0.995 else f"{value:.2f}".removeprefix("0")
            colour = "white" if value > _DARK else "#333333"
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=5.5, color=colour)


_ARROW_ROOM = 18.0  # points from one arrow of a flow to the next
_SELDOM = 1.6e-3  # of the visits of the busiest block: no arrow
_FLOW = (0.03, 0.27, 0.58)  # the colour of what is visited
_HATCHES = ("/////", "\\\\\\\\\\", "-----", "|||||")
_MOST_RANGES = 8  # sensor ranges; where more observations than this depend on the cell, none is drawn
_APART, _SHORTEST, _LONGEST = 0.04, 0.12, 0.36  # of a cell: from its middle to an arrow, and the arrow
_LEAST = 0.02  # an action less likely than this is not drawn
_SMALLEST, _LARGEST = 3.2, 6.5  # points, of words in cells; smaller ones are left out
_RANGE_COLOURS = (COLOURS[0], COLOURS[4], COLOURS[2], COLOURS[3], COLOURS[1], COLOURS[5], INK, WALL)
_MARK = "#9a4400"  # of labels
_CORNER = 0.48  # of a cell: the room for the names of its sensors
_FEWEST = 4  # letters; of a name cut to fewer, nothing is shown
_GLYPH = 0.58  # the width of a letter as a part of its size, about


def draw_board(axes: Axes, view: GridView, *, points: float) -> None:
    """Draw cells, walls and traps, and set the range of the axes.

    points: the side of a cell, in points, which says how thick lines are.
    """
    axes.set(xlim=(-0.5, view.width - 0.5), ylim=(view.height - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    lines = 0.4 if points > 8 else 0.1
    _tiles(axes, view.cells, facecolor="none", edgecolor=FAINT, linewidth=lines, zorder=1)
    _tiles(axes, view.walls, facecolor=WALL, edgecolor=WALL, linewidth=lines, zorder=2)
    for column, row in (view.cells[state] for state in view.traps):
        axes.plot(column, row, marker="x", color="#888888", markersize=0.4 * points, markeredgewidth=points / 18)


def draw_scene(axes: Axes, view: GridView, *, points: float) -> None:
    """Draw the sensor ranges, starts and labels of the problem.

    points: the side of a cell, in points; words are left out where they could not be read.
    """
    for index, states in enumerate(shown_ranges(view).values()):
        _draw_range(axes, view, states, index=index)
    _draw_range_names(axes, view, points)
    starts = [view.cells[state] for state in view.starts]
    _tiles(axes, starts, facecolor="none", edgecolor=COLOURS[2], linewidth=min(1.3, points / 15), size=0.86, zorder=3)
    _draw_labels(axes, view, points)


def shown_ranges(view: GridView) -> Mapping[str, Mapping[int, float]]:
    """Return the sensor ranges that are drawn: all of them, or none where there are too many to tell apart."""
    return view.coverage if len(view.coverage) <= _MOST_RANGES else {}


def range_colour(index: int) -> str:
    """Return the colour of a sensor range; index: in the order of `shown_ranges`."""
    return _RANGE_COLOURS[index % len(_RANGE_COLOURS)]


def draw_arrows(axes: Axes, view: GridView, shares: Shares, towards: list[Direction]) -> None:
    """Draw an arrow for every likely action of a state, the longer and darker the likelier; a dot for staying put.

    shares: state -> action -> probability; those below 0.02 and those of traps are left out.
    towards: [action] -> its direction, as `reports.grid.directions` returns it.
    """
    moves: list[tuple[float, ...]] = []
    stays: list[tuple[float, ...]] = []
    for state, actions in shares.items():
        if state in view.traps:
            continue
        for action, share in actions.items():
            if share >= _LEAST:
                (moves if any(towards[action]) else stays).append((*view.cells[state], *towards[action], share))
    if moves:
        column, row, right, down, share = np.array(sorted(moves, key=lambda move: move[-1])).T
        reach = _SHORTEST + (_LONGEST - _SHORTEST) * share
        axes.quiver(
            column + _APART * right, row + _APART * down, reach * right, reach * down, color=_ink(share), angles="xy",
            scale_units="xy", scale=1, units="xy", width=0.035, headwidth=4.2, headlength=4.0, headaxislength=3.6,
            minlength=0, zorder=4,
        )  # fmt: skip
    if stays:
        column, row, _, _, share = np.array(stays).T
        axes.scatter(column, row, s=_dots(axes, share), color=_ink(share), linewidths=0, zorder=4)


def draw_flow(
    axes: Axes, view: GridView, shares: Shares, towards: list[Direction], *, visits: FloatArray, points: float
) -> None:
    """Draw where the agent is as shade and its mean direction as one arrow per block of cells: for large boards.

    shares, towards: as for `draw_arrows`, by cell. visits: [state], the expected number of visits.
    points: the side of a cell, in points. Arrows are the longer the more the moves agree, and the darker the more
    often the block is visited; of blocks that are hardly visited there is none.
    """
    from matplotlib.colors import LinearSegmentedColormap

    of_cell = np.bincount(view.first, weights=visits, minlength=view.first.size)
    shade = LinearSegmentedColormap.from_list("visited", [(*_FLOW, 0.0), (*_FLOW, 0.9)])
    of_first = np.where(view.first == np.arange(view.first.size), np.sqrt(of_cell), 0.0)
    draw_heat(axes, view, of_first, largest=float(np.sqrt(of_cell.max())), cmap=shade)
    block = max(1, int(-(-_ARROW_ROOM // points)))
    sums: dict[Cell, FloatArray] = {}
    for state, actions in shares.items():
        mean = np.array([share * np.array(towards[action]) for action, share in actions.items()]).sum(axis=0)
        column, row = view.cells[state]
        here = of_cell[state] * np.array([1.0, column, row, *(mean if state not in view.traps else (0.0, 0.0))])
        cell = column // block, row // block
        sums[cell] = sums.get(cell, np.zeros(5)) + here
    most = max((each[0] for each in sums.values()), default=0.0)
    blocks = np.array([each for each in sums.values() if each[0] > _SELDOM * most])
    if blocks.size:
        mass, middle, mean = blocks[:, 0], blocks[:, 1:3] / blocks[:, [0]], blocks[:, 3:] / blocks[:, [0]]
        reach, from_ = 0.9 * block * mean, middle - 0.45 * block * mean
        axes.quiver(
            *from_.T, *reach.T, color=_ink(np.sqrt(mass / mass.max())), angles="xy", scale_units="xy", scale=1,
            units="xy", width=0.09 * block, headwidth=3.6, headlength=3.6, headaxislength=3.2, minlength=0, zorder=4,
        )  # fmt: skip


def draw_heat(axes: Axes, view: GridView, masses: FloatArray, *, largest: float, cmap: Any) -> Any:
    """Draw a colour for every cell by its probability, and return the mesh, for a colour bar.

    masses: [state], summed where states share a cell; NaN leaves a cell empty.
    largest: the value of the darkest colour. cmap: of matplotlib.
    """
    board = np.full((view.height, view.width), np.nan)
    columns, rows = np.array(view.cells).T
    board[rows, columns] = 0.0
    np.add.at(board, (rows, columns), masses)
    edges = np.arange(view.width + 1) - 0.5, np.arange(view.height + 1) - 0.5
    return axes.pcolormesh(*edges, board, cmap=cmap, vmin=0.0, vmax=largest, zorder=0)


def _ink(share: FloatArray) -> FloatArray:
    """Return black in RGBA for every share, the more solid the likelier."""
    colours = np.zeros((share.size, 4))
    colours[:, 3] = 0.25 + 0.75 * share
    return colours


def _dots(axes: Axes, share: FloatArray) -> FloatArray:
    """Return the areas of dots in square points, so that a dot is a fixed part of its cell."""
    figure = axes.get_figure(root=True)
    width = axes.get_position().width * float(figure.get_size_inches()[0] if figure is not None else 1.0)
    side = 72 * width / abs(float(np.diff(axes.get_xlim())[0]))
    return np.asarray((side * (0.05 + 0.12 * share)) ** 2)


def _tiles(axes: Axes, cells: Iterable[Cell], *, size: float = 1.0, **style: Any) -> None:
    """Draw squares around cells; size: of a side, as a share of a cell. style: looks, as matplotlib names them."""
    from matplotlib.collections import PolyCollection

    half = size / 2
    corners = np.array([(-half, -half), (half, -half), (half, half), (-half, half)])
    tiles = [corners + cell for cell in cells]
    if tiles:
        axes.add_collection(PolyCollection(tiles, **style), autolim=False)


def _draw_range(axes: Axes, view: GridView, states: Mapping[int, float], *, index: int) -> None:
    """Tint the cells of one sensor, the stronger the surer it is; states: state -> probability that it fires."""
    from matplotlib.colors import to_rgba

    colour = range_colour(index)
    fills = [to_rgba(colour, 0.08 + 0.22 * chance) for chance in states.values()]
    _tiles(axes, [view.cells[state] for state in states], facecolor=fills, edgecolor="none", zorder=0)


def _draw_range_names(axes: Axes, view: GridView, points: float) -> None:
    """Write the sensors of every cell in its corner, those that share it side by side.

    Names of more than three characters are left out; so are all where cells are too small.
    """
    size = _word_size(points)
    if not size:
        return
    short = {name: states for name, states in shown_ranges(view).items() if len(name) <= 3}
    for state, names in _by_state(short).items():
        column, row = view.cells[state]
        words, fits = _fit_text(",".join(names), room=_CORNER * points, size=size)
        axes.text(column + 0.44, row - 0.44, words, ha="right", va="top", fontsize=fits, color="#555555")


def _by_state(named: Mapping[str, Iterable[int]]) -> dict[int, list[str]]:
    """Return state -> the names that list it; named: name -> its states."""
    by_state: dict[int, list[str]] = {}
    for name, states in named.items():
        for state in states:
            by_state.setdefault(state, []).append(name)
    return by_state


def hatched_labels(view: GridView) -> dict[str, str]:
    """Return label -> its hatch, for boards too small for words."""
    return {label: _HATCHES[index % len(_HATCHES)] for index, label in enumerate(seldom_labels(view))}


def _draw_labels(axes: Axes, view: GridView, points: float) -> None:
    """Write the labels of every cell in its upper left corner; hatch cells that are too small for words."""
    size = _word_size(points)
    if not size:
        for label, hatch in hatched_labels(view).items():
            cells = [view.cells[state] for state in view.labels[label]]
            _tiles(axes, cells, hatch=hatch, facecolor="none", edgecolor=_MARK, linewidth=0.0, alpha=0.7, zorder=3)
        return
    for state, labels in _by_state({label: view.labels[label] for label in seldom_labels(view)}).items():
        column, row = view.cells[state]
        words, fits = _fit_text(", ".join(labels), room=(0.85 if state in view.traps else 0.37) * points, size=size)
        axes.text(column - 0.44, row - 0.44, words, ha="left", va="top", fontsize=fits, color=_MARK)


def _fit_text(text: str, *, room: float, size: float) -> tuple[str, float]:
    """Return words made smaller, then cut, until they leave the middle of the cell to the arrows; and their size.

    room: points of width. size: points of the font, at most. The words are empty where too few letters would be left.
    """
    smaller = max(_SMALLEST, min(size, room / (_GLYPH * len(text))))
    most = int(room / (_GLYPH * smaller) + 1e-6)
    cut = text if len(text) <= most else f"{text[: most - 1]}…" if most >= _FEWEST else ""
    return figure_text(cut), smaller


def _word_size(points: float) -> float:
    """Return the size of words in a cell, in points; 0 where they could not be read."""
    size = min(_LARGEST, 0.19 * points)
    return size if size >= _SMALLEST else 0.0
