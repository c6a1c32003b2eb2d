"""The smallest automaton that accepts the same non-empty words."""

from __future__ import annotations

import numpy as np

from opaq.automata.tables import Table
from opaq.model.arrays import BoolArray, IntArray, frozen


def minimise(table: Table) -> Table:
    """The smallest table for the same non-empty words, states numbered breadth first from the initial one.

    At least one letter is always read (that of s_0), so whether the initial state accepts is free unless it is
    entered again: it joins any class that moves alike.
    """
    if not table.moves.size:
        return Table(table.moves[:1], table.accepting[:1])
    classes = _classes(_distinct_columns(table.moves), table.accepting)
    initial = _initial_class(table.moves, classes, table.accepting)
    member = dict(zip(reversed(classes.tolist()), range(classes.size - 1, -1, -1), strict=True))
    accepts = {name: bool(table.accepting[state]) for name, state in member.items()}
    if initial not in member:
        member[initial], accepts[initial] = 0, False
    targets = {name: classes[table.moves[state]] for name, state in member.items()}
    order = _breadth_first(targets, initial)
    number = np.zeros(max(member) + 1, dtype=np.int64)
    number[order] = np.arange(len(order))
    moves = number[np.array([targets[name] for name in order])]
    return Table(frozen(moves), frozen(np.array([accepts[name] for name in order], dtype=bool)))


def _distinct_columns(moves: IntArray) -> IntArray:
    """The moves without letters that do the same everywhere: refinement needs each of them once."""
    distinct: IntArray = np.unique(moves, axis=1)
    return distinct


def _classes(moves: IntArray, accepting: BoolArray) -> IntArray:
    """[state] -> class of the coarsest partition that respects acceptance and moves (Moore's refinement)."""
    classes = np.unique(accepting, return_inverse=True)[1].astype(np.int64)
    count = 0
    while count <= int(classes.max()):
        count = int(classes.max()) + 1
        signatures = np.column_stack((classes, classes[moves]))
        classes = np.unique(signatures, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return classes


def _initial_class(moves: IntArray, classes: IntArray, accepting: BoolArray) -> int:
    """The class of the initial state before anything is read: one that moves alike, or a new one."""
    entered = np.unique(moves)  # a state that is never entered has no say
    alike = entered[(classes[moves[entered]] == classes[moves[0]]).all(axis=1)]
    if not alike.size:
        return int(classes.max()) + 1
    return int(classes[alike[np.argmin(accepting[alike])]])  # rather one that does not accept


def _breadth_first(targets: dict[int, IntArray], initial: int) -> list[int]:
    """The classes in the order they are met."""
    order, met = [initial], {initial}
    for name in order:
        for target in dict.fromkeys(targets[name].tolist()):
            if target not in met:
                met.add(target)
                order.append(target)
    return order
