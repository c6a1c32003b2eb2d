"""Draw a policy: arrows on a grid, or a table of states and actions.

Comes in: a problem with a policy. Goes out: a matplotlib figure.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opaq.errors import check_numbers, choose
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.policies import compile_for_policy
from opaq.reports.figures.axes import (
    draw_arrows,
    draw_board,
    draw_flow,
    draw_scene,
    draw_table,
    hatched_labels,
    range_colour,
    shown_ranges,
)
from opaq.reports.figures.style import COLOURS, HEAT, INK, WIDTHS, Column, add_title, figure_text, new_figure, panels
from opaq.reports.grid import GridView, PolicyView, Shares, directions, has_stated_sensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_ACROSS = {"single": 2, "double": 4}  # boards in a row
_FLOWS_FROM = 40  # cells in a row or a column: then a flow takes the place of arrows in every cell
_MOST_STATES = 40  # in a table
_MOST_TIMES = 24  # panels
_LEGEND_ROW = 0.16  # inches


def plot_policy(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    time: int | Sequence[int] | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """Return what a policy does in every state, as a figure.

    On a grid, or a model with positions on one: an arrow for every action that is likely, the longer and darker the
    likelier, beside walls, traps, starts, labels and sensor ranges. From 40 cells on in a row or a column: how often
    cells are visited as colour, and the mean direction of each block as one arrow. Of another model: a table of states
    and actions, the first 40 states.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy.
    time: shows what it does at this time; several times give a panel each; None averages over the run.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given, since papers have captions.

    Raises InputError when an argument does not fit, or where matplotlib is not installed.
    """
    choose("column", column, tuple(WIDTHS))
    product, pi = compile_for_policy(problem, policy)
    times = _times(time, product.process.horizon)
    view = GridView.of(product.problem)
    pictures = _pictures(PolicyView(product, pi), times, None if view is None else view.first)
    if view is None:
        return _table(product.problem, pictures, column=column, title=title)
    return _boards(product.problem, view, pictures, column=column, title=title)


def _times(time: Any, horizon: int) -> tuple[int, ...]:
    """Return the times asked for; none stands for the average over the run.

    time: a time, a list of them, or None. Raises InputError for a time after the horizon, or for more than 24.
    """
    times = () if time is None else tuple(time) if isinstance(time, Sequence) else (time,)
    limits = {f"time[{index}]" if len(times) > 1 else "time": (each, 0, horizon) for index, each in enumerate(times)}
    check_numbers({**limits, "number of times": (len(times), 0, _MOST_TIMES)}, whole=tuple(limits))
    return tuple(int(each) for each in times)


class _Picture(NamedTuple):
    """What one panel shows: a caption, P(action | state), by cell on a board, and how often states are visited."""

    caption: str
    shares: Shares
    visits: FloatArray  # [state]


def _pictures(view: PolicyView, times: Sequence[int], group: IntArray | None) -> list[_Picture]:
    """Return every panel: one for each time, or without times one with the average; group: [state] -> its cell."""
    if not times:
        return [_Picture("", view.average(group), view.occupation())]
    until = max(times) + 1
    by_time = list(islice(zip(view.by_time(group), view.occupation_by_time(), strict=True), until))
    return [_Picture(f"t = {time}", *by_time[time]) for time in times]


def _boards(problem: Problem, view: GridView, pictures: list[_Picture], *, column: Column, title: str | None) -> Figure:
    """Return a figure with one board per panel and a legend below; pictures: a caption and shares for each."""
    across = min(_ACROSS[column], len(pictures))
    down = -(-len(pictures) // across)
    side = (WIDTHS[column] - 0.1 * across) / across
    flows = max(view.width, view.height) >= _FLOWS_FROM
    keys = _keys(problem, view, flows=flows)
    per_row = 4 if column == "single" else 8
    captions = 0.2 * down * bool(pictures[0][0]) + (0.25 if title else 0.0)
    legend = _LEGEND_ROW * -(-len(keys) // per_row) + 0.06
    towards = directions(problem.mdp, view)
    with new_figure(column, height=side * view.height / view.width * down + captions + legend) as figure:
        areas = panels(figure, len(pictures), across=across)
        for area, picture in zip(areas, pictures, strict=True):
            draw_board(area, view, points=72 * side / view.width)
            draw_scene(area, view, points=72 * side / view.width)
            figure.draw_without_rendering()
            if flows:
                visits = picture.visits
                draw_flow(area, view, picture.shares, towards, visits=visits, points=72 * side / view.width)
            else:
                draw_arrows(area, view, picture.shares, towards)
            area.set_title(picture.caption, pad=3)
        add_title(figure, title, column=column)
        _legend(figure, keys, per_row)
    return figure


def _keys(problem: Problem, view: GridView, *, flows: bool) -> list[tuple[Any, str]]:
    """Return ((kind, colour), name) for every entry of the legend that occurs; flows: whether a flow is drawn.

    Handles are made from kind and colour by `_legend`, inside the style of the figure.
    """
    keys: list[tuple[Any, str]] = [(("frame", COLOURS[2]), "start")]
    if view.traps:
        keys.append((("cross", "#888888"), "trap"))
    if flows:
        keys.append((("patch", "#084594"), "visited"))
        keys += [((hatch, "#9a4400"), figure_text(label, most=14)) for label, hatch in hatched_labels(view).items()]
    elif not all(any(step) for step in directions(problem.mdp, view)):
        keys.append((("dot", INK), "stay"))
    kind = "sensor" if has_stated_sensors(problem) else "sees"
    for index, name in enumerate(shown_ranges(view)):
        keys.append((("patch", range_colour(index)), f"{kind} {figure_text(name, most=10)}"))
    return keys


def _legend(figure: Figure, keys: list[tuple[Any, str]], per_row: int) -> None:
    """Draw the legend below the figure; per_row: entries side by side at most."""
    handles, names = [_handle(*kind) for kind, _ in keys], [name for _, name in keys]
    figure.legend(
        handles, names, loc="outside lower center", ncols=min(per_row, len(keys)), handlelength=1.0, columnspacing=1.0,
        handletextpad=0.4, borderpad=0.0,
    )  # fmt: skip


def _handle(kind: str, colour: str) -> Any:
    """Return the mark of an entry; kind: "frame", "patch", "cross", "dot" or a hatch."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if kind == "frame":
        return Patch(facecolor="none", edgecolor=colour, linewidth=1.2)
    if kind not in ("patch", "cross", "dot"):
        return Patch(facecolor="none", edgecolor=colour, hatch=kind, linewidth=0.0)
    if kind == "patch":
        return Patch(facecolor=(colour, 0.27), edgecolor="none")
    return Line2D([], [], linestyle="none", marker="x" if kind == "cross" else "o", color=colour, markersize=4)


def _table(problem: Problem, pictures: list[_Picture], *, column: Column, title: str | None) -> Figure:
    """Return a figure of states by actions, a panel for every time; at most the first 40 states."""
    mdp = problem.mdp
    states = sorted({state for _, shares, _ in pictures for state in shares})
    kept = states[:_MOST_STATES]
    across = min(_ACROSS[column], len(pictures))
    down = -(-len(pictures) // across)
    height = down * (0.55 + max(0.8, 0.16 * len(kept))) + 0.2
    with new_figure(column, height=height) as figure:
        areas = panels(figure, len(pictures), across=across, sharey=True)
        for area, (caption, shares, _) in zip(areas, pictures, strict=True):
            values = np.array(
                [[shares.get(state, {}).get(action, np.nan) for action in range(len(mdp.actions))] for state in kept]
            )
            mesh = draw_table(area, values, rows=[mdp.states[state] for state in kept], columns=mdp.actions, cmap=HEAT)
            area.set(xlabel="action", title=caption)
        for area in areas[::across]:
            left_out = f" (first {len(kept)} of {len(states)})" if len(kept) < len(states) else ""
            area.set_ylabel(f"state{left_out}")
        figure.colorbar(mesh, ax=areas, label="probability", shrink=0.9, aspect=25, pad=0.02)
        add_title(figure, title, column=column)
    return figure
