"""What a formula's author should know: that a shorter one means the same, or that it says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from opaq.automata.minimise import minimise
from opaq.automata.syntax.formula import Formula
from opaq.automata.tables import Letter, Table, reduced
from opaq.automata.translate import formula_table
from opaq.errors import BudgetError
from opaq.model.automaton import Automaton

MAX_TRIES = 200
MAX_SIZE = 60  # of a formula that a shorter one is looked for: nobody reads a longer one
MAX_WORK = 4_000  # states x letters of the automaton that shorter formulas are compared with
_FULL = 6  # up to so many labels an equivalence is tried on all label sets too


def explain(formula: Formula, automaton: Automaton, *, alphabet: Sequence[Letter]) -> list[str]:
    """Warnings about a formula and its minimal automaton: labels that never occur, and a shorter equal formula."""
    missing = sorted(formula.labels() - frozenset().union(*alphabet))
    warnings = [f"no state carries the label '{label}'" for label in missing]
    letters = reduced(alphabet, formula.labels())
    if not letters or len(automaton.states) * len(letters) > MAX_WORK or formula.size() > MAX_SIZE:
        return warnings
    shorter = simplest(formula, letters)
    if shorter == formula:
        return warnings
    labels = sorted(formula.labels())
    everywhere = len(labels) <= _FULL and _same(formula, shorter, _all_letters(labels))
    where = "" if everywhere else " on the label sets that occur"
    if shorter.kind in ("true", "false"):
        return [*warnings, f"{formula} is {shorter} of every run{where}: there is nothing to hide"]
    return [*warnings, f"{formula} is equivalent to {shorter}{where}"]


def simplest(formula: Formula, letters: Sequence[Letter]) -> Formula:
    """The shortest formula found, by leaving parts out, that accepts the same words over the letters."""
    aim, tries = minimise(formula_table(formula, letters)), 0
    found: Formula | None = formula
    while found is not None:
        formula, found = found, None
        for shorter in sorted(set(_shorter(formula)), key=lambda each: (each.size(), str(each))):
            tries += 1
            if tries > MAX_TRIES:
                return formula
            if _is(shorter, aim, letters):
                found = shorter
                break
    return formula


def _shorter(formula: Formula) -> Iterator[Formula]:
    """Every formula with one sub-formula replaced by a part of it or a constant."""
    if formula.kind not in ("true", "false"):
        yield Formula("true")
        yield Formula("false")
    yield from formula.parts
    for place, part in enumerate(formula.parts):
        before, after = formula.parts[:place], formula.parts[place + 1 :]
        if len(formula.parts) > 2:
            yield Formula(formula.kind, parts=before + after)
        for inner in _shorter(part):
            if inner.size() < part.size():
                yield Formula(formula.kind, parts=(*before, inner, *after))


def _same(one: Formula, other: Formula, letters: Sequence[Letter]) -> bool:
    return _is(other, minimise(formula_table(one, letters)), letters)


def _is(formula: Formula, aim: Table, letters: Sequence[Letter]) -> bool:
    """Whether a formula has the given minimal table."""
    try:
        table = minimise(formula_table(formula, letters))
    except BudgetError:
        return False
    same_shape = table.moves.shape == aim.moves.shape
    return same_shape and bool((table.moves == aim.moves).all() and (table.accepting == aim.accepting).all())


def _all_letters(labels: Sequence[str]) -> list[Letter]:
    sizes = (combinations(labels, size) for size in range(len(labels) + 1))
    return [frozenset(chosen) for chosen in chain.from_iterable(sizes)]
