"""From tables to automata with guards people can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opaq.automata.dfa import Letter, Table, as_bits
from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton, Edge, Guard

TRUE = Guard("true")


def readable(table: Table, letters: Sequence[Letter]) -> Automaton:
    """The automaton of a table: states q0, q1, ...; every letter that occurs has one edge, staying comes last."""
    labels = sorted(frozenset().union(*letters))
    bits = np.array(as_bits(letters, labels), dtype=np.int64)
    edges: list[Edge] = []
    known: dict[bytes, Guard] = {}  # many states tell the same letters apart
    for source, row in enumerate(table.moves):
        for target in _targets(row, source):
            key = (row == target).tobytes()
            if key not in known:
                known[key] = guard_of(bits[row == target], bits[row != target], labels)
            edges.append(Edge(source, target, known[key]))
    names = tuple(f"q{state}" for state in range(len(table.moves)))
    return Automaton(names, 0, frozenset(np.flatnonzero(table.accepting).tolist()), tuple(edges))


def _targets(row: IntArray, source: int) -> list[int]:
    found = sorted(set(row.tolist()))
    return [target for target in found if target != source] + [source] * (source in found)


def guard_of(inside: IntArray, outside: IntArray, labels: Sequence[str]) -> Guard:
    """A short guard that holds for the letters inside and not for those outside; others do not occur."""
    return _join_guards("or", [_term(care, value, labels) for care, value in _cover(inside, outside, len(labels))])


def _cover(inside: IntArray, outside: IntArray, num_labels: int) -> Iterator[tuple[int, int]]:
    """Terms (labels it looks at, those that must hold) that together hold for all letters inside."""
    left = inside
    while left.size:
        care = _distinguishing_labels(int(left[0]), outside, num_labels)
        value = int(left[0]) & care
        yield care, value
        left = left[(left & care) != value]


def _distinguishing_labels(letter: int, outside: IntArray, num_labels: int) -> int:
    """The labels that tell a letter from all those outside; absent labels are left out first, to read better."""
    care = (1 << num_labels) - 1
    bits = [1 << place for place in range(num_labels)]
    for bit in sorted(bits, key=lambda bit: bool(letter & bit)):
        if not ((outside ^ letter) & (care & ~bit) == 0).any():
            care &= ~bit
    return care


def _term(care: int, value: int, labels: Sequence[str]) -> Guard:
    literals = []
    for place, label in enumerate(labels):
        if care >> place & 1:
            literal = Guard("label", label)
            literals.append(literal if value >> place & 1 else Guard("not", parts=(literal,)))
    return _join_guards("and", literals)


def _join_guards(kind: str, parts: list[Guard]) -> Guard:
    if not parts:
        return TRUE if kind == "and" else Guard("false")
    return parts[0] if len(parts) == 1 else Guard(kind, parts=tuple(parts))
