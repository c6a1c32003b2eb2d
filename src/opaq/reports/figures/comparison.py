"""What each class of policies can hide, as a figure, beside what none exceeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.reports.answer_data import drawn_amount, optional, reading, unit_of
from opaq.reports.figures.style import COLOURS, SMALL, Column, add_title, figure_text, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEAST_RANGE = 0.02  # of the largest value: the axis shows no less


@dataclass(frozen=True, slots=True)
class LadderClass:
    """One class of policies and what the best policy found of it reaches."""

    name: str
    value: float  # of an interval the end that is proven to be reached
    lower: float  # of the bar: one standard error below an estimate, or the end of an interval
    upper: float
    words: str  # the figure beside the mark
    feasible: bool


@dataclass(frozen=True, slots=True)
class PolicyLadder:
    """Classes of policies, coarser ones first, and the certified bound where there is one."""

    of: str
    classes: tuple[LadderClass, ...]
    bound: float | None = None

    @classmethod
    def of_comparison(cls, comparison: Any) -> PolicyLadder:
        """From a Comparison."""
        of = comparison.rungs[0].measurement.of.name if comparison.rungs else "opacity"
        classes = [
            LadderClass(
                rung.name, *drawn, _words(rung.measurement.uncertainty.method, drawn), rung.measurement.feasible
            )
            for rung in comparison.rungs
            for drawn in [drawn_amount(rung.measurement.uncertainty, minimise=comparison.minimise)]
        ]
        return cls(of, tuple(classes), comparison.bound)

    @classmethod
    def of_answer(cls, answer: Mapping[str, Any]) -> PolicyLadder:
        """From the keys of a comparison's answer; of other uncertainties than these two it tells no values."""
        with reading("the answer of a comparison"):
            of = str(answer["of"])
            kept = of if of in ("opacity", "guess_error") else "opacity"
            minimise = bool(answer.get("minimise"))
            classes = tuple(_class(stated, kept, minimise=minimise) for stated in answer["classes"])
            return cls(kept, classes, optional(answer["bound"]) if kept == of else None)


def plot_comparison(
    comparison: Any, certificate: Any = None, *, column: Column = "single", title: str | None = None
) -> Figure:
    """What the best policy found of every class reaches, as a figure, and what no policy exceeds.

    Filled marks meet the task, hollow ones miss it. A line shows an interval, whose proven end is marked, or one
    standard error to each side of an estimate. Beyond the bound nothing is possible.

    comparison: a `Comparison`, or the answer of `opaq compare` as a mapping, as its JSON holds it.
    certificate: a `Certificate` of the same problem; its bound takes the place of the comparison's own.
    column: how wide: "single" (3.4 in) or "double" (7 in).
    title: a line above the figure; none unless given.

    Raises InputError when the mapping is no such answer, or where matplotlib is not installed.
    """
    known = isinstance(comparison, Mapping)
    with reading("a Comparison"):
        ladder = PolicyLadder.of_answer(comparison) if known else PolicyLadder.of_comparison(comparison)
    with reading("a Certificate"):
        bound = ladder.bound if certificate is None else optional(certificate.upper_bound)
    height = 0.75 + 0.2 * max(2, len(ladder.classes)) + (0.25 if title else 0.0)
    with new_figure(column, height=height) as figure:
        axes = figure.subplots()
        _fit(axes, ladder, bound)
        _draw_classes(axes, ladder)
        if bound is not None:
            _draw_bound(axes, bound)
        axes.set_xlabel(f"{ladder.of.replace('_', ' ')}{unit_of(ladder.of)}")
        add_title(figure, title, column=column)
    return figure


def _class(stated: Mapping[str, Any], of: str, *, minimise: bool) -> LadderClass:
    amount = stated["opacity"] if of == "opacity" else dict.fromkeys(("value", "lower", "upper"), stated[of])
    drawn = drawn_amount(amount, minimise=minimise)
    return LadderClass(str(stated["class"]), *drawn, _words(amount.get("method"), drawn), bool(stated["feasible"]))


def _words(method: Any, drawn: tuple[float, float, float]) -> str:
    value, lower, upper = drawn
    return f"{lower:.4f} to {upper:.4f}" if method == "interval" else f"{value:.4f}"


def _draw_classes(axes: Axes, ladder: PolicyLadder) -> None:
    left, right = axes.get_xlim()
    for row, rung in enumerate(ladder.classes):
        axes.plot([rung.lower, rung.upper], [row, row], color=COLOURS[0], linewidth=2.0, solid_capstyle="butt")
        face = COLOURS[0] if rung.feasible else "white"
        axes.plot(rung.value, row, marker="o", markersize=4.5, markerfacecolor=face, markeredgecolor=COLOURS[0])
        words = rung.words + ("" if rung.feasible else ", misses the task")
        before = rung.value > left + 0.6 * (right - left)  # no room behind it
        at, offset, side = (rung.lower, -5, "right") if before else (rung.upper, 5, "left")
        axes.annotate(words, (at, row), (offset, 0), textcoords="offset points", va="center", ha=side, fontsize=SMALL,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
    axes.set_yticks(range(len(ladder.classes)), [figure_text(rung.name) for rung in ladder.classes])
    axes.set_ylim(max(1, len(ladder.classes)) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x")


def _draw_bound(axes: Axes, bound: float) -> None:
    """Rounded up, so that the number that is read is a bound."""
    words = f"no policy exceeds {math.ceil(bound * 1e4 - 1e-9) / 1e4:.4f}"
    axes.axvline(bound, color=COLOURS[1], linestyle="--")
    axes.annotate(words, (bound, 1.0), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="right", va="bottom", fontsize=SMALL, color=COLOURS[1])  # fmt: skip


def _fit(axes: Axes, ladder: PolicyLadder, bound: float | None) -> None:
    """From below the smallest value to beyond the bound; words beside the marks stay inside."""
    ends = [end for rung in ladder.classes for end in (rung.lower, rung.upper)] + ([] if bound is None else [bound])
    if not ends:
        return
    low, high = min(ends), max(ends)
    spread = max(high - low, _LEAST_RANGE * max(abs(high), 1e-6))
    room = 0.08
    axes.set_xlim(low - 0.1 * spread, high + room * spread)
    if bound is not None:
        axes.axvspan(bound, high + room * spread, facecolor=COLOURS[1], alpha=0.12, edgecolor="none", zorder=0)
