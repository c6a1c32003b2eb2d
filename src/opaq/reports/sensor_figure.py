"""What each sensor costs, as a picture: on the grid, cells tinted by what the sensors that cover them cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.model.problem import Problem
from opaq.reports.figure_style import COLOURS, INK, WIDTHS, Column, new_figure, shown
from opaq.reports.grid_axes import draw_board, draw_heat
from opaq.reports.grid_view import GridView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SensorRanking = Any  # an opaq.study.sensor_ranking.SensorRanking

_TINT = "Oranges"
_MOST_BARS = 40
_DARK = 0.6  # of the largest cost: cells above are too dark for dark words
_INCH = 72.0  # points


def plot_sensors(ranking: SensorRanking, problem: Problem, *, column: Column = "single") -> Figure:
    """The costs of sensors: on the grid where the problem is one, and as bars where it is not.

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
        mesh = draw_heat(axes, view, costs, largest=max(float(costs.max(initial=0.0)), 1e-12), cmap=_TINT)
        figure.colorbar(mesh, ax=axes, shrink=0.8, label=_unit(ranking))
        _names(axes, ranking, problem, view, points=points, costs=costs)
    return figure


def cell_costs(ranking: SensorRanking, problem: Problem) -> FloatArray:
    """[state]: what the sensors that cover it cost together; those that gain nothing when removed count as 0."""
    index, costs = problem.mdp.state_index(), np.zeros(problem.mdp.num_states)
    for sensor, cost in ranking.costs.items():
        for state in ranking.coverage[sensor]:
            costs[index[state]] += max(cost, 0.0)
    return costs


def _names(
    axes: Axes, ranking: SensorRanking, problem: Problem, view: GridView, *, points: float, costs: FloatArray
) -> None:
    """The name of every sensor in the cells that it covers, where it can be read: light on dark cells."""
    index, size = problem.mdp.state_index(), min(7.0, 0.25 * points)
    if size < 3.0:
        return
    by_state: dict[int, list[str]] = {}
    for sensor in ranking.costs:
        for state in ranking.coverage[sensor]:
            by_state.setdefault(index[state], []).append(sensor)
    for state, names in by_state.items():
        ink = "white" if costs[state] > _DARK * costs.max() else INK
        words = shown(" ".join(names), most=max(3, int(points / (0.6 * size))))
        axes.text(*view.cells[state], words, ha="center", va="center", fontsize=size, color=ink)


def _bars(axes: Axes, ranking: SensorRanking) -> None:
    costs = list(ranking.costs.items())[:_MOST_BARS][::-1]
    axes.barh([shown(sensor) for sensor, _ in costs], [cost for _, cost in costs], color=COLOURS[1])
    axes.set(xlabel=_unit(ranking))


def _unit(ranking: SensorRanking) -> str:
    of = ranking.base.of
    return f"{of.title} gained without the sensor{f' ({of.unit})' if of.unit else ''}"
