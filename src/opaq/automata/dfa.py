"""Automata as tables: what every state does on every letter that occurs."""

from __future__ import annotations

import numpy as np

from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP


def letters(mdp: MDP) -> tuple[tuple[frozenset[str], ...], IntArray]:
    """The distinct label sets that occur, and which of them each state carries."""
    labels = mdp.labels_of()
    distinct = tuple(dict.fromkeys(labels))
    place = {letter: position for position, letter in enumerate(distinct)}
    return distinct, np.array([place[letter] for letter in labels], dtype=np.int64)


def table(automaton: Automaton, alphabet: tuple[frozenset[str], ...]) -> IntArray:
    """[state, letter] -> next state."""
    rows = [[automaton.step(state, letter) for letter in alphabet] for state in range(len(automaton.states))]
    return np.array(rows, dtype=np.int64)
