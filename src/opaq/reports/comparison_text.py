"""Comparisons of policy classes as a table for people and as JSON for programs."""

from __future__ import annotations

import math
from typing import Any

from opaq.model.uncertainty import Shannon
from opaq.opacity.amount import Amount
from opaq.reports.certificate_text import TRIVIAL, gap_words, rounded_up
from opaq.reports.layout import WIDTH, TextTable, short_amount, wrap_lines
from opaq.reports.measurement_text import amount_to_dict

Comparison = Any  # an opaq.solvers.compare.Comparison; reports know no solver, only what they are given

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
        "bound_is_trivial": comparison.bound_is_trivial,
        "classes": [_rung_to_dict(rung) for rung in comparison.rungs],
        "unreached": [{"class": missed.name, "reason": missed.reason} for missed in comparison.unreached],
    }


def comparison_cells(comparison: Comparison) -> TextTable:
    """The ladder as a table, one line for every class, coarser classes first."""
    head = comparison_head(comparison)
    return TextTable(head, tuple(comparison_rows(comparison)), range(1, len(head) - 1))


def comparison_sentence(comparison: Comparison) -> str:
    """Which class to take: the first one that comes as far as any."""
    best = best_rung(comparison)
    if best is None:
        return "No class of policies was found to meet the task."
    of, reached = best.measurement.of, best.measurement.uncertainty
    unit, extreme = f" {of.unit}" if of.unit else "", "least" if comparison.minimise else "most"
    most = f"{of.title} {_reached(reached)}{unit}, the {extreme} of {_classes(len(comparison.rungs))}"
    first = comparison.rungs[0]
    coarser = "" if first is best else f" ({first.name}: {_reached(first.measurement.uncertainty)})"
    return f"Policies by {best.name} reach {most}{coarser}{_bound_words(comparison, reached, unit)}."


def _reached(amount: Amount) -> str:
    if amount.method == "interval":
        return f"between {amount.lower:.4g} and {amount.upper:.4g}"
    return f"{amount.value:.4g}{'' if amount.standard_error is None else f' ± {amount.standard_error:.1g}'}"


def _bound_words(comparison: Comparison, reached: Amount, unit: str) -> str:
    """What no policy exceeds, and how far below it the best class is at most."""
    if comparison.bound is None:
        return ""
    trivial = f" ({TRIVIAL})" if comparison.bound_is_trivial else ""
    proven = f"; no policy exceeds {rounded_up(comparison.bound)}{unit}{trivial}"
    distance = gap_words(reached, comparison.bound, unit=unit, subject="it")
    return f"{proven}, so that {distance}" if distance else proven


def best_rung(comparison: Comparison) -> Any:
    """The first class, from coarse to fine, that comes as far as any that meets the task; None where none does."""
    sign = -1.0 if comparison.minimise else 1.0
    scores = {
        index: sign * (amount.at_most if comparison.minimise else amount.at_least)
        for index, rung in enumerate(comparison.rungs)
        if rung.measurement.feasible
        for amount in [rung.measurement.uncertainty]
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
        rows.append((*list(cells.values())[:-1], "trivial bound" if comparison.bound_is_trivial else "certified bound"))
    return rows


def _of(comparison: Comparison) -> Any:
    """What the task is about."""
    return comparison.rungs[0].measurement.of if comparison.rungs else Shannon()


def missing_lines(comparison: Comparison, *, width: int = WIDTH) -> list[str]:
    """Which policies the bound holds for; which classes have no answer, and why."""
    lines: list[str] = []
    if comparison.bound is not None:
        so_far = "; interrupted: this is the best bound so far" if comparison.interrupted else ""
        lines += wrap_lines(f"the bound holds for {comparison.bound_scope}{so_far}", rest="  ", width=width)
    for missed in comparison.unreached:
        lines += wrap_lines(f"no answer for {missed.name}: {missed.reason}", rest="  ", width=width)
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
        short_amount(measurement.opacity),
        *([short_amount(measurement.uncertainty)] if further else []),
        f"{measurement.expected_return:.6g}",
        short_amount(measurement.guess_error),
        f"{rung.num_rows:,}",
        f"{rung.seconds:.1f}",
        status if measurement.feasible else f"{status}, MISSES the task",
    )
