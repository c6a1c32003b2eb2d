"""From formulas to automata."""

from __future__ import annotations

from collections.abc import Sequence

from opaq.automata.minimise import minimise
from opaq.automata.past import START, Recollection
from opaq.automata.progression import Progression, State
from opaq.automata.readable import readable
from opaq.automata.syntax.formula import PAST, Formula
from opaq.automata.tables import Letter, Table, as_bits, explore, reduced
from opaq.model.automaton import Automaton


def translate_ltlf(formula: Formula, alphabet: Sequence[Letter], *, minimal: bool = True) -> Automaton:
    """The automaton that accepts the non-empty words over `alphabet` that satisfy the formula.

    The alphabet is the label sets that can occur; only those that the formula tells apart are. A state accepts if
    the word read so far satisfies the formula. Raises BudgetError when the automaton grows too large.
    """
    letters = reduced(alphabet, formula.labels())
    table = formula_table(formula, letters)
    return readable(minimise(table) if minimal else table, letters)


def formula_table(formula: Formula, letters: Sequence[Letter]) -> Table:
    """What the formula does on each of the letters, not minimised."""
    labels = tuple(sorted(formula.labels()))
    numbers = as_bits(letters, labels)
    return (_past_table if formula.kinds() & PAST else _future_table)(formula, labels, numbers)


def _past_table(formula: Formula, labels: tuple[str, ...], numbers: list[int]) -> Table:
    past = Recollection(formula, labels)

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
