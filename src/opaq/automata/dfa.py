"""Automata as tables: what every state does on every letter that occurs."""

from __future__ import annotations

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, IntArray
from opaq.model.automaton import Automaton
from opaq.model.guard import Guard
from opaq.model.mdp import MDP


def letters(mdp: MDP) -> tuple[tuple[frozenset[str], ...], IntArray]:
    """The distinct label sets that occur, and which of them each state carries."""
    labels = mdp.labels_of()
    distinct = tuple(dict.fromkeys(labels))
    place = {letter: position for position, letter in enumerate(distinct)}
    return distinct, np.array([place[letter] for letter in labels], dtype=np.int64)


MAX_MOVES = 20_000_000


def table(automaton: Automaton, alphabet: tuple[frozenset[str], ...]) -> IntArray:
    """[state, letter] -> next state. Raises BudgetError when the table would be too large."""
    size = (len(automaton.states) + len(automaton.edges)) * len(alphabet)
    if size > MAX_MOVES:
        found = f"{len(automaton.states):,} states and {len(automaton.edges):,} edges over {len(alphabet):,} label sets"
        raise BudgetError(f"an automaton of {found} is too large ({size:,} moves; the limit is {MAX_MOVES:,})")
    moves = np.repeat(np.arange(len(automaton.states), dtype=np.int64)[:, None], len(alphabet), axis=1)
    known: dict[Guard, BoolArray] = {}
    for edge in reversed(automaton.edges):  # the first edge that matches has the last word
        moves[edge.source, _truth(edge.guard, alphabet, known)] = edge.target
    return moves


def _truth(guard: Guard, alphabet: tuple[frozenset[str], ...], known: dict[Guard, BoolArray]) -> BoolArray:
    """Whether a guard holds, for every letter at once."""
    if guard in known:
        return known[guard]
    if guard.kind == "label":
        truth = np.array([guard.label in letter for letter in alphabet], dtype=bool)
    else:
        truth = np.full(len(alphabet), guard.kind in ("true", "and"))
        for part in guard.parts:
            inner = _truth(part, alphabet, known)
            truth = ~inner if guard.kind == "not" else truth & inner if guard.kind == "and" else truth | inner
    known[guard] = truth
    return truth
