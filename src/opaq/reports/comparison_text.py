"""Comparisons of policy classes as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount
from opaq.reports.layout import WIDTH, wrapped
from opaq.reports.measurement_text import amount_to_dict

Comparison = Any  # an opaq.solvers.comparison.Comparison; reports know no solver, only what they are given

HEAD = ("class", "opacity", "return", "guess error", "rows", "seconds", "status")
_COLUMNS = {"opacity": "opacity", "guess_error": "guess error"}  # measures that have a column in any case


def number_columns(comparison: Comparison) -> range:
    """The columns that are aligned to the right: all but the first and the last."""
    return range(1, len(comparison_head(comparison)) - 1)


_GAP = "  "


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """The ladder as plain data; its keys are a promise (docs/answers.md)."""
    return {
        "problem": comparison.problem,
        "seed": comparison.seed,
        "seconds": comparison.seconds,
        "interrupted": comparison.interrupted,
        "of": _of(comparison).name,
        "bound": comparison.bound,
        "bound_scope": comparison.bound_scope or None,
        "classes": [_rung_to_dict(rung) for rung in comparison.rungs],
        "unreached": [{"class": missed.name, "reason": missed.reason} for missed in comparison.unreached],
    }


def render_comparison(comparison: Comparison, *, width: int = WIDTH) -> str:
    """The ladder as a table, one line for every class, coarser classes first; the last column may go on below."""
    lines = _aligned([comparison_head(comparison), *comparison_rows(comparison)], width)
    return "\n".join(lines + missing_lines(comparison, width=width))


def comparison_head(comparison: Comparison) -> tuple[str, ...]:
    """The columns: those of HEAD, and one for what the task is about where it has none."""
    of = _of(comparison)
    return HEAD if of.name in _COLUMNS else (*HEAD[:2], of.title, *HEAD[2:])


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """The lines of the table, each with the cells of its head."""
    of, head = _of(comparison), comparison_head(comparison)
    rows = [_row(rung, further=of.name not in _COLUMNS) for rung in comparison.rungs]
    if comparison.bound is not None:
        bound = math.ceil(comparison.bound * 1e5) / 1e5  # what is read must still be a bound
        cells = dict.fromkeys(head, "")
        cells |= {head[0]: "any policy", head[head.index(_COLUMNS.get(of.name, of.title))]: f"<= {bound:.5f}"}
        rows.append((*list(cells.values())[:-1], "certified bound"))
    return rows


def _of(comparison: Comparison) -> Any:
    """What the task is about."""
    return comparison.rungs[0].measurement.of if comparison.rungs else Shannon()


def missing_lines(comparison: Comparison, *, width: int = WIDTH) -> list[str]:
    """Which policies the bound holds for; which classes have no answer, and why."""
    lines: list[str] = []
    if comparison.bound is not None:
        lines += wrapped(f"the bound holds for {comparison.bound_scope}", rest="  ", width=width)
    for missed in comparison.unreached:
        lines += wrapped(f"no answer for {missed.name}: {missed.reason}", rest="  ", width=width)
    return lines


def _rung_to_dict(rung: Any) -> dict[str, Any]:
    measurement = rung.measurement
    return {
        "class": rung.name,
        "conditions_on": list(rung.policy.policy_class.conditions_on),
        "opacity": amount_to_dict(measurement.opacity),
        "return": measurement.expected_return,
        "guess_error": measurement.guess_error.value,
        "feasible": measurement.feasible,
        "rows": rung.num_rows,
        "starts": rung.num_starts,
        "seconds": rung.seconds,
        "status": rung.status.name.lower(),
        "status_text": rung.status_text,
        "warm_from": rung.warm_from,
        "carried": rung.carried,
    }


def _row(rung: Any, *, further: bool) -> tuple[str, ...]:
    measurement = rung.measurement
    status = "as " + rung.warm_from if rung.carried else rung.status.name.lower().replace("_", " ")
    return (
        rung.name,
        _short(measurement.opacity),
        *([_short(measurement.uncertainty)] if further else []),
        f"{measurement.expected_return:.6g}",
        _short(measurement.guess_error),
        f"{rung.num_rows:,}",
        f"{rung.seconds:.1f}",
        status if measurement.feasible else f"{status}, MISSES the task",
    )


def _short(amount: Amount) -> str:
    if amount.method == "exact":
        return f"{amount.value:.5f}"
    if amount.standard_error is not None:
        return f"{amount.value:.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:.4f}, {amount.upper:.4f}]"


def _aligned(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for cells in rows:
        padded = [
            cell.rjust(size) if 0 < place < len(cells) - 1 else cell.ljust(size)
            for place, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        first = _GAP.join(padded[:-1]) + _GAP
        lines += wrapped(cells[-1], first=first, rest=" " * len(first), width=width)
    return lines
