"""Complete deterministic automata as tables over the letters that occur."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, IntArray, frozen

Letter = frozenset[str]
MAX_STATES = 20_000
MAX_MOVES = 5_000_000
MAX_LABELS = 60
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Table:
    """What every state does on every letter; state 0 is the one before anything is read."""

    moves: IntArray  # [state, letter] -> state
    accepting: BoolArray  # [state]


def reduced(alphabet: Sequence[Letter], labels: Collection[str]) -> tuple[Letter, ...]:
    """The letters that differ in the given labels, those that occur only, in the order they occur."""
    if len(labels) > MAX_LABELS:
        raise BudgetError(f"{len(labels)} labels are too many for one automaton; the limit is {MAX_LABELS}")
    kept = frozenset(labels)
    return tuple(dict.fromkeys(letter & kept for letter in alphabet))


def as_bits(letters: Sequence[Letter], labels: Sequence[str]) -> list[int]:
    """Every letter as a number: bit i tells whether label i is in it."""
    return [sum(1 << place for place, label in enumerate(labels) if label in letter) for letter in letters]


def explore(
    start: State, successors: Callable[[State], Sequence[State]], accepts: Callable[[State], bool], *, num_letters: int
) -> Table:
    """The table of all states that can be reached, numbered breadth first. Raises BudgetError if there are too many."""
    number: dict[State, int] = {start: 0}
    states, rows = [start], []
    for state in states:
        row = []
        for following in successors(state):
            if following not in number:
                number[following] = len(states)
                states.append(following)
            row.append(number[following])
        rows.append(row)
        if len(states) > MAX_STATES or len(states) * num_letters > MAX_MOVES:
            raise BudgetError(
                f"the automaton has more than {len(states) - 1:,} states over {num_letters:,} letters; "
                f"the limit is {MAX_STATES:,} states and {MAX_MOVES:,} moves; write a simpler secret"
            )
    moves = np.array(rows, dtype=np.int64).reshape(len(states), num_letters)
    return Table(frozen(moves), frozen(np.array([accepts(state) for state in states], dtype=bool)))
