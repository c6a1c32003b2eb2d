"""Draw what each class of policies can hide beside what none exceeds.

Comes in: a `Comparison`. Goes out: a matplotlib figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opaq.certificates.certify import Certificate
from opaq.errors import check_types
from opaq.reports.figures.style import COLOURS, SMALL, Column, add_title, figure_text, new_figure
from opaq.reports.numbers import bound_words, drawn_amount, figure_title, page_amount
from opaq.solvers.compare import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEAST_RANGE = 0.02  # of the largest value: the axis shows no less


def plot_comparison(
    comparison: Comparison | Mapping[str, Any],
    certificate: Certificate | None = None,
    *,
    column: Column = "single",
    title: str | None = None,
) -> Figure:
    """Draw what the best policy found of every class reaches, and what no policy exceeds.

    Filled marks meet the task, hollow ones miss it. A line shows an interval, whose proven end is marked, or one
    standard error to each side of an estimate. Beyond the bound nothing is possible.

    comparison: a `Comparison`, or the answer of `opaq compare` as a mapping, as its JSON holds it.
    certificate: a `Certificate` of the same problem; its bound takes the place of the comparison's own.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when the mapping is no such answer, or where matplotlib is not installed.
    """
    comparison = Comparison.from_dict(comparison) if isinstance(comparison, Mapping) else comparison
    check_types(
        {
            "comparison": (comparison, Comparison, "an opaq.Comparison"),
            "certificate": (certificate, Certificate, "an opaq.Certificate"),
        },
        optional=("certificate",),
    )
    bound = comparison.bound if certificate is None else certificate.bound
    bound = bound if bound is not None and math.isfinite(bound) else None
    height = 0.75 + 0.2 * max(2, len(comparison.rungs)) + (0.25 if title else 0.0)
    with new_figure(column, height=height) as figure:
        axes = figure.subplots()
        _fit(axes, comparison, bound)
        _draw_classes(axes, comparison)
        if bound is not None:
            _draw_bound(axes, bound, minimise=comparison.minimise)
        axes.set_xlabel(figure_title(comparison.objective.of.name))
        add_title(figure, title, column=column)
    return figure


def _draw_classes(axes: Axes, comparison: Comparison) -> None:
    """Draw a mark and a bar for every class, with its value in words on the side where there is room."""
    left, right = axes.get_xlim()
    for row, rung in enumerate(comparison.rungs):
        amount, feasible = rung.measurement.uncertainty, rung.measurement.feasible
        value, lower, upper = drawn_amount(amount, minimise=comparison.minimise)
        axes.plot([lower, upper], [row, row], color=COLOURS[0], linewidth=2.0, solid_capstyle="butt")
        face = COLOURS[0] if feasible else "white"
        axes.plot(value, row, marker="o", markersize=4.5, markerfacecolor=face, markeredgecolor=COLOURS[0])
        words = page_amount(amount, "{:z.4f}".format)
        words += "" if feasible else ", misses the task"
        before = value > left + 0.6 * (right - left)  # no room behind it
        at, offset, side = (lower, -5, "right") if before else (upper, 5, "left")
        axes.annotate(words, (at, row), (offset, 0), textcoords="offset points", va="center", ha=side, fontsize=SMALL,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
    axes.set_yticks(range(len(comparison.rungs)), [figure_text(rung.name) for rung in comparison.rungs])
    axes.set_ylim(max(1, len(comparison.rungs)) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x")


def _draw_bound(axes: Axes, bound: float, *, minimise: bool) -> None:
    """Draw the bound as an upright line, with words above it; minimise: it is a lower one."""
    words = f"no policy {bound_words(bound, minimise=minimise)}"
    axes.axvline(bound, color=COLOURS[1], linestyle="--")
    axes.annotate(words, (bound, 1.0), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="left" if minimise else "right", va="bottom", fontsize=SMALL, color=COLOURS[1])  # fmt: skip


def _fit(axes: Axes, comparison: Comparison, bound: float | None) -> None:
    """Set the range from below the smallest value to beyond the bound, and shade what is beyond; None: no bound."""
    amounts = [drawn_amount(rung.measurement.uncertainty, minimise=comparison.minimise) for rung in comparison.rungs]
    ends = [end for _, *bar in amounts for end in bar] + ([] if bound is None else [bound])
    if not ends:
        return
    low, high = min(ends), max(ends)
    spread = max(high - low, _LEAST_RANGE * max(abs(high), 1e-6))
    room = 0.08
    axes.set_xlim(low - 0.1 * spread, high + room * spread)
    if bound is not None:
        beyond = (low - 0.1 * spread, bound) if comparison.minimise else (bound, high + room * spread)
        axes.axvspan(*beyond, facecolor=COLOURS[1], alpha=0.12, edgecolor="none", zorder=0)
