"""Make the page of a comparison: the ladder of policy classes as a table, and what is missing from it.

Comes in: a `Comparison`. Goes out: a `Page`, its sentence, and the class that it recommends.
"""

from __future__ import annotations

from opaq.opacity.amount import Amount
from opaq.reports.layout import Notes, Page, TextTable
from opaq.reports.numbers import amount_cell, amount_phrase, bound_cell, bound_words, gap_words, number, trivial_words
from opaq.solvers.compare import ClassResult, Comparison

_HEAD = ("class", "opacity", "return", "guess error", "rows", "seconds", "status")
_COLUMNS = {"opacity": "opacity", "guess_error": "guess error"}  # measures that have a column in any case
_CLOSE = 1e-4  # classes this close come equally far


def comparison_page(comparison: Comparison) -> Page:
    """Return the page of a comparison: which class to take, a table with one line for every class, and notes.

    The table has a column for the objective where that is neither the opacity nor the guess error, and a last line
    with the bound where there is one.
    """
    of, title = comparison.objective.of, comparison.objective.title
    further = of.name not in _COLUMNS or comparison.objective.figure is not None
    head = (*_HEAD[:2], title, *_HEAD[2:]) if further else _HEAD
    rows = [_row(rung, further=further) for rung in comparison.rungs]
    if comparison.bound is not None:
        cells = dict.fromkeys(head, "")
        cell = bound_cell(comparison.bound, minimise=comparison.minimise)
        cells |= {head[0]: "any policy", title if further else _COLUMNS[of.name]: cell}
        rows.append((*list(cells.values())[:-1], "trivial bound" if comparison.is_trivial else "certified bound"))
    missing = _missing(comparison)
    table = TextTable(head, tuple(rows), range(1, len(head) - 1))
    parts = (table, Notes(missing)) if missing else (table,)
    return Page(comparison_sentence(comparison), parts, f"Comparison of {comparison.problem}")


def comparison_sentence(comparison: Comparison) -> str:
    """Return a sentence on which class to take: the first one that comes as far as any, beside the coarsest."""
    best = best_rung(comparison)
    if best is None:
        return "No class of policies was found to meet the task."
    of, reached = best.measurement.of, best.measurement.uncertainty
    unit, extreme = f" {of.unit}" if of.unit else "", "least" if comparison.minimise else "most"
    classes = _classes(len(comparison.rungs))
    most = f"{comparison.objective.title} {_write_amount(reached)}{unit}, the {extreme} of {classes}"
    first = comparison.rungs[0]
    coarser = "" if first is best else f" ({first.name}: {_write_amount(first.measurement.uncertainty)})"
    return f"Policies by {best.name} reach {most}{coarser}{_bound_words(comparison, reached, unit)}."


def _write_amount(amount: Amount) -> str:
    """Return the amount that a class reaches, in four digits, with its interval or standard error."""
    if amount.method == "interval":
        return amount_phrase(amount)
    return f"{number(amount.value, 4)}{'' if amount.standard_error is None else f' ± {amount.standard_error:.1g}'}"


def _bound_words(comparison: Comparison, reached: Amount, unit: str) -> str:
    """Return a clause on the bound, and how far from it the best class is at most; empty without a bound.

    reached: the amount of the best class. unit: with a space before it, or empty.
    """
    bound, minimise = comparison.bound, comparison.minimise
    if bound is None:
        return ""
    trivial = f" ({trivial_words(minimise=minimise)})" if comparison.is_trivial else ""
    proven = f"; no policy {bound_words(bound, unit=unit, minimise=minimise)}{trivial}"
    distance = gap_words(reached, bound, unit=unit, subject="it", minimise=minimise)
    return f"{proven}, so that {distance}" if distance else proven


def best_rung(comparison: Comparison) -> ClassResult | None:
    """Return the first class, from coarse to fine, that comes as far as any that meets the task.

    Classes within 1e-4 of the best come equally far. None where no class meets the task.
    """
    scores = {
        index: rung.measurement.uncertainty.score(minimise=comparison.minimise)
        for index, rung in enumerate(comparison.rungs)
        if rung.measurement.feasible
    }
    best = max(scores.values(), default=0.0)
    return next((comparison.rungs[index] for index, score in scores.items() if score >= best - _CLOSE), None)


def _classes(count: int) -> str:
    """Return a number of classes in words."""
    return "1 class" if count == 1 else f"{count} classes"


def _missing(comparison: Comparison) -> tuple[str, ...]:
    """Return notes: which policies the bound holds for, which classes have no answer, and why."""
    notes = []
    if comparison.bound is not None:
        so_far = "; interrupted: this is the best bound so far" if comparison.interrupted else ""
        notes.append(f"the bound holds for {comparison.scope}{so_far}")
    return (*notes, *(f"no answer for {missed.name}: {missed.reason}" for missed in comparison.unreached))


def _row(rung: ClassResult, *, further: bool) -> tuple[str, ...]:
    """Return the line of one class; further: True adds a cell for an objective that has no column of its own."""
    measurement = rung.measurement
    status = f"as {rung.warm_from}" if rung.carried else rung.status.name.lower().replace("_", " ")
    return (
        rung.name,
        amount_cell(measurement.opacity),
        *([amount_cell(measurement.uncertainty)] if further else []),
        number(measurement.expected_return),
        amount_cell(measurement.guess_error),
        f"{rung.num_rows:,}",
        f"{rung.seconds:.1f}",
        status if measurement.feasible else f"{status}, MISSES the task",
    )
