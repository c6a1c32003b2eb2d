"""Translate formulas and expressions into automata, and warn their author of labels and forms that mean little.

The text of a notation and the label sets that occur come in, an `Automaton` and warnings go out. Past and future
formulas are stepped by `progression`, expressions by `regex`; `dfa` makes the result minimal.
"""

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
    """Return the automaton that accepts the non-empty words over `alphabet` that satisfy the formula.

    alphabet: the label sets that can occur; letters that the formula does not tell apart become one.
    minimal: whether the automaton is made minimal; otherwise its states are those of the progression.
    A state accepts if the word read so far satisfies the formula. Raises BudgetError when the automaton grows too
    large.
    """
    letters = restrict_letters(alphabet, formula.labels())
    table = _tabulate_formula(formula, letters)
    return to_automaton(minimise(table) if minimal else table, letters)


def _tabulate_formula(formula: Formula, letters: Sequence[Letter]) -> Table:
    """Return the table of a formula over some letters, not minimised."""
    labels = tuple(sorted(formula.labels()))
    numbers = encode_letters(letters, labels)
    return (_past_table if formula.kinds() & PAST else _future_table)(formula, labels, numbers)


def _past_table(formula: Formula, labels: tuple[str, ...], numbers: list[int]) -> Table:
    """Return the table of a formula about the past.

    labels: the label of every bit; numbers: the letters as bits of the labels, one per column.
    """
    past = PastFormula(formula, labels)

    def successors(state: int) -> list[int]:
        """Return the state after each letter."""
        return [past.step(state, number) for number in numbers]

    return explore(START, successors, past.accepts, num_letters=len(numbers))


def _future_table(formula: Formula, labels: tuple[str, ...], numbers: list[int]) -> Table:
    """Return the table of a formula about the future; letters that a state does not tell apart are stepped once.

    labels: the label of every bit; numbers: the letters as bits of the labels, one per column.
    """
    future = Progression(formula, labels)

    def successors(state: State) -> list[State]:
        """Return the state after each letter."""
        mask = future.labels_read(state)
        distinct = {number & mask: number for number in numbers}
        next_state = {key: future.step(state, number) for key, number in distinct.items()}
        return [next_state[number & mask] for number in numbers]

    return explore(future.start, successors, lambda state: state[0], num_letters=len(numbers))


_MAX_TRIES = 200
_MAX_SIZE = 60  # of a formula that a shorter one is looked for: nobody reads a longer one
_MAX_WORK = 4_000  # states x letters of the automaton that shorter formulas are compared with
_FULL = 6  # up to so many labels an equivalence is tried on all label sets too


def explain(formula: Formula, automaton: Automaton, *, alphabet: Sequence[Letter]) -> list[str]:
    """Return warnings about a formula: labels that never occur, and a shorter formula that accepts the same words.

    automaton: its minimal automaton; a shorter formula is looked for only if this and the formula are small.
    alphabet: the label sets that occur. A formula that is true or false of every run leaves nothing to hide.
    """
    missing = sorted(formula.labels() - frozenset().union(*alphabet))
    warnings = [f"no state carries the label '{label}'" for label in missing]
    letters = restrict_letters(alphabet, formula.labels())
    if not letters or len(automaton.states) * len(letters) > _MAX_WORK or formula.size() > _MAX_SIZE:
        return warnings
    shorter = _simplify(formula, letters)
    if shorter == formula:
        return warnings
    labels = sorted(formula.labels())
    everywhere = False
    if len(labels) <= _FULL:
        letters = _all_letters(labels)
        everywhere = _has_table(shorter, minimise(_tabulate_formula(formula, letters)), letters)
    where = "" if everywhere else " on the label sets that occur"
    if shorter.kind in ("true", "false"):
        return [*warnings, f"{formula} is {shorter} of every run{where}: there is nothing to hide"]
    return [*warnings, f"{formula} is equivalent to {shorter}{where}"]


def _simplify(formula: Formula, letters: Sequence[Letter]) -> Formula:
    """Return the shortest formula that accepts the same words over the letters, as far as leaving out parts finds one.

    Tries at most _MAX_TRIES formulas, shortest first, and goes on from each that is equivalent.
    """
    aim, tries = minimise(_tabulate_formula(formula, letters)), 0
    candidate: Formula | None = formula
    while candidate is not None:
        formula, candidate = candidate, None
        for shorter in sorted(set(_shorter(formula)), key=lambda each: (each.size(), str(each))):
            tries += 1
            if tries > _MAX_TRIES:
                return formula
            if _has_table(shorter, aim, letters):
                candidate = shorter
                break
    return formula


def _shorter(formula: Formula) -> Iterator[Formula]:
    """Yield every formula with one subformula replaced by a part of it or by a constant."""
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


def _has_table(formula: Formula, aim: Table, letters: Sequence[Letter]) -> bool:
    """Return whether a formula has the given minimal table.

    aim: the table; minimal tables of one language are equal, because states are numbered breadth first.
    Returns False when the formula's own table grows too large.
    """
    try:
        table = minimise(_tabulate_formula(formula, letters))
    except BudgetError:
        return False
    same_shape = table.moves.shape == aim.moves.shape
    return same_shape and bool((table.moves == aim.moves).all() and (table.accepting == aim.accepting).all())


def _all_letters(labels: Sequence[str]) -> tuple[Letter, ...]:
    """Return every subset of the labels."""
    sizes = (combinations(labels, size) for size in range(len(labels) + 1))
    return tuple(frozenset(chosen) for chosen in chain.from_iterable(sizes))


def language_automaton(
    kind: Literal["ltlf", "regex"], text: str, alphabet: Sequence[Letter], *, minimal: bool = True
) -> tuple[Automaton, list[str]]:
    """Return the automaton of a text over the label sets that occur, and warnings for its author.

    kind: the notation, "ltlf" or "regex".
    alphabet: the label sets that occur.
    minimal: whether the automaton is made minimal.
    Raises NotationError (a ValueError; FormulaError or RegexError) for a text that cannot be read, BudgetError for an
    automaton that grows too large.
    """
    if kind == "ltlf":
        formula = parse_ltlf(text)
        automaton = translate_ltlf(formula, alphabet, minimal=minimal)
        return automaton, explain(formula, automaton, alphabet=alphabet)
    regex = parse_regex(text)
    automaton = translate_regex(regex, alphabet, minimal=minimal)
    return automaton, _warnings(automaton, regex.labels() - frozenset().union(*alphabet))


def _warnings(automaton: Automaton, missing: frozenset[str]) -> list[str]:
    """Return warnings about an expression: labels that no state carries, and a match of no run or of every run.

    automaton: that of the expression; missing: the labels that it mentions and that no state carries.
    """
    warnings = [f"no state carries the label '{label}'" for label in sorted(missing)]
    entered = {edge.target for edge in automaton.edges}
    if entered and not entered & automaton.accepting:
        warnings.append("the expression matches no run: there is nothing to hide")
    elif entered and entered <= automaton.accepting:
        warnings.append("the expression matches every run: there is nothing to hide")
    return warnings
