"""Comparisons of policy classes as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from typing import Any

from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount
from opaq.reports.answer_page import Cells
from opaq.reports.certificate_text import rounded_up
from opaq.reports.layout import WIDTH, wrapped
from opaq.reports.measurement_text import amount_to_dict

Comparison = Any  # an opaq.solvers.comparison.Comparison; reports know no solver, only what they are given

HEAD = ("class", "opacity", "return", "guess error", "rows", "seconds", "status")
_COLUMNS = {"opacity": "opacity", "guess_error": "guess error"}  # measures that have a column in any case
_CLOSE = 1e-4  # classes this close come equally far


def comparison_to_dict(comparison: Comparison, *, problem_file: str | None = None) -> dict[str, Any]:
    """The ladder as plain data; its keys are a promise (docs/answers.md).

    problem_file: what the problem was read from.
    """
    return {
        "problem": comparison.problem,
        "problem_file": problem_file,
        "seed": comparison.seed,
        "seconds": comparison.seconds,
        "interrupted": comparison.interrupted,
        "of": _of(comparison).name,
        "minimise": comparison.minimise,
        "bound": comparison.bound,
        "bound_scope": comparison.bound_scope or None,
        "classes": [_rung_to_dict(rung) for rung in comparison.rungs],
        "unreached": [{"class": missed.name, "reason": missed.reason} for missed in comparison.unreached],
    }


def comparison_cells(comparison: Comparison) -> Cells:
    """The ladder as a table, one line for every class, coarser classes first."""
    head = comparison_head(comparison)
    return Cells(head, tuple(comparison_rows(comparison)), range(1, len(head) - 1))


def comparison_sentence(comparison: Comparison) -> str:
    """Which class to take: the first one that comes as far as any."""
    best = best_rung(comparison)
    if best is None:
        return "No class of policies was found to meet the task."
    of, value = best.measurement.of, best.measurement.uncertainty.value
    unit, extreme = f" {of.unit}" if of.unit else "", "least" if comparison.minimise else "most"
    most = f"{of.title} {value:.4g}{unit}, the {extreme} of {_classes(len(comparison.rungs))}"
    first = comparison.rungs[0]
    coarser = "" if first is best else f" ({first.name}: {first.measurement.uncertainty.value:.4g})"
    bound = "" if comparison.bound is None else f"; no policy exceeds {rounded_up(comparison.bound)}{unit}"
    return f"Policies by {best.name} reach {most}{coarser}{bound}."


def best_rung(comparison: Comparison) -> Any:
    """The first class, from coarse to fine, that comes as far as any that meets the task; None where none does."""
    sign = -1.0 if comparison.minimise else 1.0
    scores = {
        index: sign * rung.measurement.uncertainty.value
        for index, rung in enumerate(comparison.rungs)
        if rung.measurement.feasible
    }
    best = max(scores.values(), default=0.0)
    return next((comparison.rungs[index] for index, score in scores.items() if score >= best - _CLOSE), None)


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count} classes"


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
