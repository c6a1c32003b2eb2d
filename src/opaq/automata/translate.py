"""Translate formulas and expressions into automata, and tell what their author should know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Literal

from opaq.automata.dfa import Letter, Table, encode_letters, explore, minimise, restrict_letters, to_automaton
from opaq.automata.formula import PAST, Formula, parse_ltlf
from opaq.automata.progression import START, PastFormula, Progression, State
from opaq.automata.regex import parse_regex, translate_regex
from opaq.errors import BudgetError
from opaq.model.automaton import Automaton


def translate_ltlf(formula: Formula, alphabet: Sequence[Letter], *, minimal: bool = True) -> Automaton:
    """The automaton that accepts the non-empty words over `alphabet` that satisfy the formula.

    The alphabet is the label sets that can occur; only those that the formula tells apart are. A state accepts if
    the word read so far satisfies the formula. Raises BudgetError when the automaton grows too large.
    """
    letters = restrict_letters(alphabet, formula.labels())
    table = _tabulate_formula(formula, letters)
    return to_automaton(minimise(table) if minimal else table, letters)


def _tabulate_formula(formula: Formula, letters: Sequence[Letter]) -> Table:
    """What the formula does on each of the letters, not minimised."""
    labels = tuple(sorted(formula.labels()))
    numbers = encode_letters(letters, labels)
    return (_past_table if formula.kinds() & PAST else _future_table)(formula, labels, numbers)


def _past_table(formula: Formula, labels: tuple[str, ...], numbers: list[int]) -> Table:
    past = PastFormula(formula, labels)

    def successors(state: int) -> list[int]:
        return [past.step(state, number) for number in numbers]

    return explore(START, successors, past.accepts, num_letters=len(numbers))


def _future_table(formula: Formula, labels: tuple[str, ...], numbers: list[int]) -> Table:
    future = Progression(formula, labels)

    def successors(state: State) -> list[State]:
        mask = future.looks_at(state)
        distinct = {number & mask: number for number in numbers}
        following = {key: future.step(state, number) for key, number in distinct.items()}
        return [following[number & mask] for number in numbers]

    return explore(future.start, successors, lambda state: state[0], num_letters=len(numbers))


_MAX_TRIES = 200
_MAX_SIZE = 60  # of a formula that a shorter one is looked for: nobody reads a longer one
_MAX_WORK = 4_000  # states x letters of the automaton that shorter formulas are compared with
_FULL = 6  # up to so many labels an equivalence is tried on all label sets too


def explain(formula: Formula, automaton: Automaton, *, alphabet: Sequence[Letter]) -> list[str]:
    """Warnings about a formula and its minimal automaton: labels that never occur, and a shorter equal formula."""
    missing = sorted(formula.labels() - frozenset().union(*alphabet))
    warnings = [f"no state carries the label '{label}'" for label in missing]
    letters = restrict_letters(alphabet, formula.labels())
    if not letters or len(automaton.states) * len(letters) > _MAX_WORK or formula.size() > _MAX_SIZE:
        return warnings
    shorter = _simplify(formula, letters)
    if shorter == formula:
        return warnings
    labels = sorted(formula.labels())
    everywhere = len(labels) <= _FULL and _same(formula, shorter, _all_letters(labels))
    where = "" if everywhere else " on the label sets that occur"
    if shorter.kind in ("true", "false"):
        return [*warnings, f"{formula} is {shorter} of every run{where}: there is nothing to hide"]
    return [*warnings, f"{formula} is equivalent to {shorter}{where}"]


def _simplify(formula: Formula, letters: Sequence[Letter]) -> Formula:
    """The shortest formula found, by leaving parts out, that accepts the same words over the letters."""
    aim, tries = minimise(_tabulate_formula(formula, letters)), 0
    candidate: Formula | None = formula
    while candidate is not None:
        formula, candidate = candidate, None
        for shorter in sorted(set(_shorter(formula)), key=lambda each: (each.size(), str(each))):
            tries += 1
            if tries > _MAX_TRIES:
                return formula
            if _is(shorter, aim, letters):
                candidate = shorter
                break
    return formula


def _shorter(formula: Formula) -> Iterator[Formula]:
    """Every formula with one sub-formula replaced by a part of it or a constant."""
    if formula.kind not in ("true", "false"):
        yield Formula("true")
        yield Formula("false")
    yield from formula.parts
    for position, part in enumerate(formula.parts):
        before, after = formula.parts[:position], formula.parts[position + 1 :]
        if len(formula.parts) > 2:
            yield Formula(formula.kind, parts=before + after)
        for inner in _shorter(part):
            if inner.size() < part.size():
                yield Formula(formula.kind, parts=(*before, inner, *after))


def _same(one: Formula, other: Formula, letters: Sequence[Letter]) -> bool:
    return _is(other, minimise(_tabulate_formula(one, letters)), letters)


def _is(formula: Formula, aim: Table, letters: Sequence[Letter]) -> bool:
    """Whether a formula has the given minimal table."""
    try:
        table = minimise(_tabulate_formula(formula, letters))
    except BudgetError:
        return False
    same_shape = table.moves.shape == aim.moves.shape
    return same_shape and bool((table.moves == aim.moves).all() and (table.accepting == aim.accepting).all())


def _all_letters(labels: Sequence[str]) -> list[Letter]:
    sizes = (combinations(labels, size) for size in range(len(labels) + 1))
    return [frozenset(chosen) for chosen in chain.from_iterable(sizes)]


def language_automaton(
    kind: Literal["ltlf", "regex"], text: str, alphabet: Sequence[Letter], *, minimal: bool = True
) -> tuple[Automaton, list[str]]:
    """The automaton of a text over the label sets that occur, and what its author should know.

    Raises NotationError (a ValueError; FormulaError or RegexError) for a text that cannot be read, BudgetError for
    an automaton that grows too large.
    """
    if kind == "ltlf":
        formula = parse_ltlf(text)
        automaton = translate_ltlf(formula, alphabet, minimal=minimal)
        return automaton, explain(formula, automaton, alphabet=alphabet)
    regex = parse_regex(text)
    automaton = translate_regex(regex, alphabet, minimal=minimal)
    return automaton, _warnings(automaton, regex.labels() - frozenset().union(*alphabet))


def _warnings(automaton: Automaton, missing: frozenset[str]) -> list[str]:
    warnings = [f"no state carries the label '{label}'" for label in sorted(missing)]
    entered = {edge.target for edge in automaton.edges}
    if entered and not entered & automaton.accepting:
        warnings.append("the expression matches no run: there is nothing to hide")
    elif entered and entered <= automaton.accepting:
        warnings.append("the expression matches every run: there is nothing to hide")
    return warnings
