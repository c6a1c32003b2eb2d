"""Draw what the observer believes: along one run, and as time goes on.

Comes in: a problem with a policy, or points of opacity over time. Goes out: a matplotlib figure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opaq.errors import Fault, InputError, check_numbers, check_types, choose
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.filtering import filter_states
from opaq.opacity.over_time import OpacityOverTime
from opaq.opacity.policies import compile_for_policy
from opaq.product.compile import Product
from opaq.reports.figures.axes import Chart, LevelLine, Line, draw_board, draw_heat, draw_table, name_ticks, plot_charts
from opaq.reports.figures.style import (
    COLOURS,
    HEAT,
    SMALL,
    WIDTHS,
    Column,
    add_title,
    expect,
    figure_text,
    new_figure,
    panels,
)
from opaq.reports.grid import GridView
from opaq.simulation.replay import ReplayStep, replay_runs
from opaq.simulation.runs import Run, simulate_product

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Over = Literal["secret", "states"]

OVERS: tuple[Over, ...] = ("secret", "states")
_MOST_ROWS = 24  # the likeliest values; the others are one row
_MOST_PANELS = {"single": 9, "double": 15}
_ACROSS = {"single": 3, "double": 5}
_MOST_RUNS = 100_000
_SEEN = 0.7  # inches for the name of an observation


@dataclass(frozen=True, slots=True)
class _BeliefRun:
    """One run as far as it is known, and the beliefs along it."""

    product: Product
    steps: tuple[ReplayStep, ...]
    secret: str  # empty: not known
    states: FloatArray  # [time, state of the model]: P(s_t | o_0 .. o_t)


def plot_beliefs(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    run: int = 1,
    seed: int = 0,
    observations: Sequence[str] | None = None,
    over: Over = "secret",
    time: Sequence[int] | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """Return what the observer believes after every observation of one run, as a figure.

    The observations stand above the columns; a frame marks what is true, where that is known.

    problem: an object, the name of a file, or the name of a scenario.
    policy: the policy the observer expects: an object, a file, "uniform" or "return-optimal"; None is uniform.
    run, seed: which sampled run, counted from 1: as `simulate` and `replay` sample them with this seed.
    observations: instead of a sampled run, what was seen, o_0 .. o_t.
    over: "secret", the values of the secret; or "states", where the agent is now: on a grid one board for each time.
    time: the times that are shown; all of them unless given, on grids at most 9 (single) or 15 (double).
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when an argument does not fit, or where matplotlib is not installed.
    """
    choose("column", column, tuple(WIDTHS))
    choose("over", over, OVERS)
    check_numbers({"run": (run, 1, _MOST_RUNS), "seed": (seed, 0, 2**64)}, whole=("run", "seed"))
    if isinstance(observations, str):
        raise InputError([Fault("observations", "is a text", "give a list of observations")])
    check_types({"observations": (observations, Sequence, "a list of observations")}, optional=("observations",))
    product, pi = compile_for_policy(problem, policy)
    seen = Run((), (), tuple(observations), "") if observations is not None else None
    course = _course(product, pi, seen or simulate_product(product, pi, count=run, rng=np.random.default_rng(seed))[-1])
    view = GridView.of(product.problem) if over == "states" else None
    if view is not None:
        times = _times(time, len(course.steps), _MOST_PANELS[column])
        return _boards(course, view, times, column=column, title=title)
    times = _times(time, len(course.steps), len(course.steps))
    return _table(course, times, over=over, column=column, title=title)


def _course(product: Product, pi: FloatArray, run: Run) -> _BeliefRun:
    """Return a run with the observer's beliefs over the secret and over the model's states after every observation."""
    (replay,) = replay_runs(product, pi, [run])
    beliefs = [now for now, _ in filter_states(product, pi, run.observations)]
    size = product.problem.mdp.num_states
    by_state = np.array([np.bincount(product.state_of, weights=now, minlength=size) for now in beliefs])
    return _BeliefRun(product, replay.steps, replay.secret, by_state)


def _times(time: Any, count: int, most: int) -> list[int]:
    """Return the times that are shown: those asked for, else all, else as many as fit, first and last among them.

    time: a time, a list of them, or None. count: times of the run. most: panels that fit.
    Raises InputError for a time outside the run, or an empty list.
    """
    if time is None:
        return sorted({round(float(each)) for each in np.linspace(0, count - 1, min(count, most))})
    times = list(time) if isinstance(time, Sequence) else [time]
    check_numbers({f"time[{index}]": (each, 0, count - 1) for index, each in enumerate(times)},
                  whole=[f"time[{index}]" for index in range(len(times))])  # fmt: skip
    if not times:
        raise InputError([Fault("time", "names no time", "give at least one, or leave it out")])
    return [int(each) for each in times]


def _table(course: _BeliefRun, times: list[int], *, over: Over, column: Column, title: str | None) -> Figure:
    """Return a figure of values by times, the observations above, the truth framed."""
    names, values, true = _rows(course, over)
    values = values[:, times]
    seen = [course.steps[time].observation for time in times]
    above_it = min(_SEEN, 0.06 * max(map(len, seen)))
    height = 0.85 + above_it + max(0.8, 0.2 * len(names)) + (0.25 if title else 0.0)
    with new_figure(column, height=height) as figure:
        axes = figure.subplots()
        mesh = draw_table(axes, values, rows=names, columns=[str(time) for time in times], cmap=HEAT)
        axes.set_xlabel("time (framed: what is true)" if course.secret else "time")
        axes.set_ylabel(over.removesuffix("s"))
        above = axes.secondary_xaxis("top")
        above.tick_params(length=0)
        above.spines[:].set_visible(False)
        name_ticks(above.xaxis, seen, longest=_SEEN)
        above.set_xlabel("observation")
        _frame(axes, [(at, names.index(true[time])) for at, time in enumerate(times) if true[time] in names])
        figure.colorbar(mesh, ax=axes, label="probability", aspect=12, pad=0.02)
        add_title(figure, title, column=column)
    return figure


def _rows(course: _BeliefRun, over: Over) -> tuple[list[str], FloatArray, list[str]]:
    """Return names, probabilities [row, time] and the true name at every time.

    Of more than 24 rows the least likely are put together in the last one.
    """
    if over == "secret":
        names = list(course.product.secret_values)
        values = np.array([[step.belief[name] for step in course.steps] for name in names])
        true = [course.secret] * len(course.steps)
    else:
        names, values = list(course.product.problem.mdp.states), course.states.T
        true = [step.state for step in course.steps]
    if len(names) <= _MOST_ROWS:
        return names, values, true
    kept = np.sort(np.argsort(-values.max(axis=1), kind="stable")[: _MOST_ROWS - 1])
    others = np.delete(values, kept, axis=0).sum(axis=0)
    label = f"{len(names) - kept.size} others"
    return [*(names[row] for row in kept), label], np.vstack([values[kept], others]), true


def _frame(axes: Any, cells: list[tuple[int, int]]) -> None:
    """Draw a frame around every cell (column, row) that is true; cells side by side share one."""
    from matplotlib.patches import Rectangle

    begin = 0
    for index, (column, row) in enumerate(cells):
        if index + 1 == len(cells) or cells[index + 1] != (column + 1, row):
            first = cells[begin][0]
            look: dict[str, Any] = {"edgecolor": COLOURS[1], "linewidth": 1.2, "zorder": 5, "clip_on": False}
            axes.add_patch(Rectangle((first, row), column + 1 - first, 1, fill=False, **look))
            begin = index + 1


def _boards(course: _BeliefRun, view: GridView, times: list[int], *, column: Column, title: str | None) -> Figure:
    """Return a figure with one board for every time; a dot marks the agent's own cell, where it is known."""
    across = min(_ACROSS[column], len(times))
    down = -(-len(times) // across)
    side = (WIDTHS[column] - 0.85) / across
    height = down * (side * view.height / view.width + 0.2) + 0.25 + (0.25 if title else 0.0)
    largest = float(course.states[times].max())
    position = course.product.problem.mdp.state_index()
    with new_figure(column, height=height) as figure:
        areas = panels(figure, len(times), across=across)
        for area, time in zip(areas, times, strict=True):
            step = course.steps[time]
            mesh = draw_heat(area, view, course.states[time], largest=largest, cmap=HEAT)
            draw_board(area, view, points=72 * side / view.width)
            if step.state:
                x, y = view.cells[position[step.state]]
                size = max(3.0, 24 * side / view.width)  # points: seen on large boards as well
                edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": size / 8}
                area.plot(x, y, marker="o", color=COLOURS[1], markersize=size, zorder=5, **edge)
            area.set_title(f"t = {time}: {figure_text(step.observation, most=8)}", pad=2, fontsize="small")
        figure.colorbar(mesh, ax=areas, label="P(state | seen)", shrink=0.7, aspect=25, pad=0.02)
        if course.secret:
            figure.supxlabel("dot: where the agent is", fontsize=SMALL)
        add_title(figure, title, column=column)
    return figure


_FEW = 40  # points that still get a mark each


def plot_opacity_over_time(
    points: OpacityOverTime | Sequence[Any] | Mapping[str, OpacityOverTime | Sequence[Any]],
    *,
    secret_entropy: float | None = None,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """H(secret | o_0 .. o_t) against the time t, as a figure.

    points: what `opacity_over_time` returned; tuples (time, opacity), or mappings with these keys; or name -> any of
        these, for a line each.
    secret_entropy: H(secret), the uncertainty before observing, as a level.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when there are no points, or where matplotlib is not installed.
    """
    check_numbers({"secret_entropy": (secret_entropy, 0, math.inf)}, optional=("secret_entropy",))
    named = points if isinstance(points, Mapping) else {"opacity": points}
    lines = [_line(name, points, index) for index, (name, points) in enumerate(named.items())]
    if not lines or not all(line.points for line in lines):
        raise InputError([Fault("points", "there is none", "give at least one (time, opacity)")])
    levels = [] if secret_entropy is None else [LevelLine(f"H(secret) = {secret_entropy:.4g}", secret_entropy)]
    chart = Chart("time t", "H(Z | o₀…oₜ) (bits)", lines, levels)
    return plot_charts([chart], column=column, title=title)


def _line(name: str, points: OpacityOverTime | Sequence[Any], index: int) -> Line:
    """Return one line of opacity over time, with marks where there are few points.

    points: as `plot_opacity_over_time` takes them. index: gives the colour.
    Raises InputError for points that do not read so.
    """
    with expect("points with a time and an opacity"):
        listed = enumerate(points.opacity) if isinstance(points, OpacityOverTime) else points
        pairs = [(each["time"], each["opacity"]) if isinstance(each, Mapping) else each for each in listed]
        ends = [(float(time), float(opacity)) for time, opacity in pairs]
    return Line(name, ends, style="both" if len(ends) <= _FEW else "line", colour=index % 6)
