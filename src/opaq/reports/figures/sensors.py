"""Draw what each sensor costs: on a grid, cells tinted by what the sensors that cover them cost; else bars.

Comes in: a `SensorRanking` and its problem. Goes out: a matplotlib figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.model.problem import Problem
from opaq.reports.figures.axes import draw_board, draw_heat
from opaq.reports.figures.style import COLOURS, FAINT, INK, WIDTHS, Column, figure_text, new_figure
from opaq.reports.grid import GridView
from opaq.study.sensors import SensorRanking

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_TINT = "Oranges"
_MOST_BARS = 40
_DARK = 0.6  # of the largest cost: cells above are too dark for dark words
_INCH = 72.0  # points


def plot_sensors(ranking: SensorRanking, problem: Problem, *, column: Column = "single") -> Figure:
    """Return the costs of sensors: on the grid where the problem is one, and as bars where it is not.

    ranking: what `sensors` returned. problem: the problem it is of.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    """
    view = GridView.of(problem)
    if view is None:
        with new_figure(column, height=0.8 + 0.18 * min(len(ranking.costs), _MOST_BARS)) as figure:
            _bars(figure.subplots(), ranking)
        return figure
    height = WIDTHS[column] * 0.85 * view.height / view.width + 0.3
    with new_figure(column, height=height) as figure:
        axes = figure.subplots()
        points = _INCH * 0.8 * WIDTHS[column] / view.width
        draw_board(axes, view, points=points)
        costs = cell_costs(ranking, problem)
        largest = float(np.nanmax(costs, initial=0.0))
        mesh = draw_heat(axes, view, costs, largest=max(largest, 1e-12), cmap=_TINT)
        figure.colorbar(mesh, ax=axes, shrink=0.8, label=_unit(ranking))
        _hatch_unknown(axes, view, costs)
        _names(axes, ranking, problem, view, points=points, costs=costs)
    return figure


def cell_costs(ranking: SensorRanking, problem: Problem) -> FloatArray:
    """Return [state] what the sensors that cover it cost together; those that gain nothing when removed count as 0.

    Costs are in the unit of the ranking's objective. One in an interval counts with its lower end; NaN where the
    interval is wider than that, so that it says too little.
    """
    index, costs = problem.mdp.state_index(), np.zeros(problem.mdp.num_states)
    for sensor, cost in ranking.costs.items():
        known = cost.method != "interval" or cost.width <= cost.lower
        for state in ranking.coverage[sensor]:
            costs[index[state]] += max(cost.at_least, 0.0) if known else np.nan
    return costs


def _hatch_unknown(axes: Axes, view: GridView, costs: FloatArray) -> None:
    """Hatch the cells whose cost is not known, and say so below the board."""
    unknown = [view.cells[state] for state in np.flatnonzero(np.isnan(costs))]
    if not unknown:
        return
    from matplotlib.patches import Rectangle

    for column, row in unknown:
        corner = column - 0.5, row - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, facecolor="none", edgecolor=FAINT, hatch="////", linewidth=0, zorder=1))
    axes.set_xlabel("hatched: not measured closely enough", fontsize="x-small")


def _names(
    axes: Axes, ranking: SensorRanking, problem: Problem, view: GridView, *, points: float, costs: FloatArray
) -> None:
    """Write the name of every sensor in the cells that it covers, where it can be read: light on dark cells.

    points: the side of a cell, in points. costs: [state], which say how dark cells are.
    """
    index, size = problem.mdp.state_index(), min(7.0, 0.25 * points)
    if size < 3.0:
        return
    by_state: dict[int, list[str]] = {}
    for sensor in ranking.costs:
        for covered in ranking.coverage[sensor]:
            by_state.setdefault(index[covered], []).append(sensor)
    for state, names in by_state.items():
        ink = "white" if costs[state] > _DARK * np.nanmax(costs, initial=0.0) else INK
        words = figure_text(" ".join(names), most=max(3, int(points / (0.6 * size))))
        axes.text(*view.cells[state], words, ha="center", va="center", fontsize=size, color=ink)


def _bars(axes: Axes, ranking: SensorRanking) -> None:
    """Draw a bar for what is known, with its standard error; an open box where only an interval is. At most 40."""
    costs = list(ranking.costs.items())[:_MOST_BARS][::-1]
    for height, (_, cost) in enumerate(costs):
        if cost.method == "interval":
            axes.barh(height, cost.width, left=cost.lower, facecolor="none", edgecolor=COLOURS[1], linestyle=":")
        else:
            axes.barh(height, cost.value, xerr=cost.standard_error, color=COLOURS[1])
    axes.set_yticks(range(len(costs)), [figure_text(sensor) for sensor, _ in costs])
    axes.set(xlabel=_unit(ranking))


def _unit(ranking: SensorRanking) -> str:
    """Return the label of the costs: what is gained without the sensor, with its unit."""
    of = ranking.base.of
    return f"{of.title} gained without the sensor{f' ({of.unit})' if of.unit else ''}"
