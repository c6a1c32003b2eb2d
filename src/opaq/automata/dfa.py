"""Build deterministic automata as tables over the letters that occur, and the smallest one of a language.

A letter is a set of labels. Only letters that occur in the model are looked at, each restricted to the labels that the
language mentions, so that a table has one column per letter and not 2^labels. `explore` makes a table from a
successor function, `minimise` the smallest equivalent one, `to_automaton` an automaton with guards; `tabulate` goes
the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, IntArray, frozen
from opaq.model.automaton import Automaton, Edge, Guard
from opaq.model.mdp import MDP

Letter = frozenset[str]
MAX_STATES = 20_000
_MAX_MOVES = 5_000_000
MAX_LABELS = 60
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Table:
    """The moves of a deterministic automaton over numbered letters; state 0 is the one before anything is read.

    The letters themselves are kept by the caller: column i of `moves` is for letter i.
    """

    moves: IntArray  # [state, letter] -> state
    accepting: BoolArray  # [state]


def restrict_letters(alphabet: Sequence[Letter], labels: Collection[str]) -> tuple[Letter, ...]:
    """Return the distinct letters restricted to some labels, in the order in which they occur.

    alphabet: the label sets that occur in the model.
    labels: those that the language mentions; more than MAX_LABELS raise BudgetError.
    """
    if len(labels) > MAX_LABELS:
        raise BudgetError(f"{len(labels)} labels are too many for one automaton; the limit is {MAX_LABELS}")
    mentioned = frozenset(labels)
    return tuple(dict.fromkeys(letter & mentioned for letter in alphabet))


def encode_letters(letters: Sequence[Letter], labels: Sequence[str]) -> list[int]:
    """Return every letter as a number whose bit i is set when label i is in it.

    letters: sets of labels; labels: the label of every bit; others in a letter are left out.
    """
    return [sum(1 << bit for bit, label in enumerate(labels) if label in letter) for letter in letters]


def explore(
    start: State, successors: Callable[[State], Sequence[State]], accepts: Callable[[State], bool], *, num_letters: int
) -> Table:
    """Return the table of all states that can be reached, numbered breadth first from `start`.

    start: the state before anything is read; states are any hashable values, and equal ones are the same state.
    successors: the next state for every letter, in the order of the letters.
    accepts: whether a state accepts.
    num_letters: how many letters there are, so that the table has its shape also without any.
    Raises BudgetError when there are more than MAX_STATES states or _MAX_MOVES moves.
    """
    number: dict[State, int] = {start: 0}
    states, rows = [start], []
    for state in states:
        row = []
        for target in successors(state):
            if target not in number:
                number[target] = len(states)
                states.append(target)
            row.append(number[target])
        rows.append(row)
        if len(states) > MAX_STATES or len(states) * num_letters > _MAX_MOVES:
            raise BudgetError(
                f"the automaton has more than {len(states) - 1:,} states over {num_letters:,} letters; "
                f"the limit is {MAX_STATES:,} states and {_MAX_MOVES:,} moves; write a simpler secret"
            )
    moves = np.array(rows, dtype=np.int64).reshape(len(states), num_letters)
    return Table(frozen(moves), frozen(np.array([accepts(state) for state in states], dtype=bool)))


def label_sets(mdp: MDP) -> tuple[tuple[frozenset[str], ...], IntArray]:
    """Return the distinct label sets of a model, and [state] -> the number of the one it carries."""
    labels = mdp.labels_of()
    distinct = tuple(dict.fromkeys(labels))
    number = {letter: index for index, letter in enumerate(distinct)}
    return distinct, np.array([number[letter] for letter in labels], dtype=np.int64)


MAX_EDGES = 20_000_000


def tabulate(automaton: Automaton, alphabet: tuple[frozenset[str], ...]) -> IntArray:
    """Return [state, letter] -> next state of an automaton whose edges have guards.

    alphabet: the letters, one per column, e.g. the label sets of `label_sets`.
    The first edge whose guard holds is taken; where none holds the state stays. Raises BudgetError when the table would
    have more than MAX_EDGES entries.
    """
    size = (len(automaton.states) + len(automaton.edges)) * len(alphabet)
    if size > MAX_EDGES:
        counts = (
            f"{len(automaton.states):,} states and {len(automaton.edges):,} edges over {len(alphabet):,} label sets"
        )
        raise BudgetError(f"an automaton of {counts} is too large ({size:,} moves; the limit is {MAX_EDGES:,})")
    moves = np.repeat(np.arange(len(automaton.states), dtype=np.int64)[:, None], len(alphabet), axis=1)
    known: dict[Guard, BoolArray] = {}
    for edge in reversed(automaton.edges):  # the first edge that matches has the last word
        moves[edge.source, _evaluate_guard(edge.guard, alphabet, known)] = edge.target
    return moves


def _evaluate_guard(guard: Guard, alphabet: tuple[frozenset[str], ...], known: dict[Guard, BoolArray]) -> BoolArray:
    """Return [letter] -> whether a guard holds.

    alphabet: the letters.
    known: guard -> its answer so far; edges share guards and parts of guards, so each is evaluated once.
    """
    if guard in known:
        return known[guard]
    if guard.kind == "label":
        truth = np.array([guard.label in letter for letter in alphabet], dtype=bool)
    else:
        truth = np.full(len(alphabet), guard.kind in ("true", "and"))
        for part in guard.parts:
            inner = _evaluate_guard(part, alphabet, known)
            truth = ~inner if guard.kind == "not" else truth & inner if guard.kind == "and" else truth | inner
    known[guard] = truth
    return truth


def minimise(table: Table) -> Table:
    """Return the smallest table for the same non-empty words, states numbered breadth first from the initial one.

    Moore's refinement: states start as two classes, accepting or not, and are split until all of a class move alike. At
    least one letter is always read (that of s_0), so whether the initial state accepts is free unless it is entered
    again: it joins any class that moves alike.
    """
    if not table.moves.size:
        return Table(table.moves[:1], table.accepting[:1])
    # Letters that do the same everywhere split no class: refinement needs each of them once.
    classes = _refine_classes(np.unique(table.moves, axis=1), table.accepting)
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


def _refine_classes(moves: IntArray, accepting: BoolArray) -> IntArray:
    """Return [state] -> class of the coarsest partition that respects acceptance and moves.

    moves: [state, letter]; accepting: [state]. Classes are numbered from 0.
    """
    classes = np.unique(accepting, return_inverse=True)[1].astype(np.int64)
    count = 0
    while count <= int(classes.max()):
        count = int(classes.max()) + 1
        signatures = np.column_stack((classes, classes[moves]))
        classes = np.unique(signatures, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return classes


def _initial_class(moves: IntArray, classes: IntArray, accepting: BoolArray) -> int:
    """Return the class of the initial state before anything is read: one that moves alike, or a new number.

    moves, accepting: the table; classes: [state] -> class.
    Among classes that move alike, one that does not accept is preferred.
    """
    entered = np.unique(moves)  # a state that is never entered has no say
    alike = entered[(classes[moves[entered]] == classes[moves[0]]).all(axis=1)]
    if not alike.size:
        return int(classes.max()) + 1
    return int(classes[alike[np.argmin(accepting[alike])]])  # rather one that does not accept


def _breadth_first(targets: dict[int, IntArray], initial: int) -> list[int]:
    """Return the classes in the order in which they are reached from `initial`, letters in order.

    targets: class -> [letter], the class that each letter leads to. Classes that are not reached are left out.
    """
    order, seen = [initial], {initial}
    for name in order:
        for target in dict.fromkeys(targets[name].tolist()):
            if target not in seen:
                seen.add(target)
                order.append(target)
    return order


_ANY_LETTER = Guard("true")


def to_automaton(table: Table, letters: Sequence[Letter]) -> Automaton:
    """Return the automaton of a table, with guards that people can read.

    table: the moves; letters: the letter of every column.
    States are called q0, q1, ...; every letter that occurs has one edge, and the edge that stays comes last.
    """
    labels = sorted(frozenset().union(*letters))
    bits = np.array(encode_letters(letters, labels), dtype=np.int64)
    edges: list[Edge] = []
    known: dict[bytes, Guard] = {}  # many states tell the same letters apart
    for source, row in enumerate(table.moves):
        for target in sorted(set(row.tolist()), key=lambda state: (state == source, state)):
            key = (row == target).tobytes()
            if key not in known:
                known[key] = cover_letters(bits[row == target], bits[row != target], labels)
            edges.append(Edge(source, target, known[key]))
    names = tuple(f"q{state}" for state in range(len(table.moves)))
    return Automaton(names, 0, frozenset(np.flatnonzero(table.accepting).tolist()), tuple(edges))


def cover_letters(inside: IntArray, outside: IntArray, labels: Sequence[str]) -> Guard:
    """Return a short guard that holds for the letters inside and not for those outside.

    inside, outside: letters as numbers (`encode_letters`); any other letter does not occur and may do either.
    labels: the label of every bit.
    """
    return _join_guards("or", [_make_term(care, value, labels) for care, value in _cover(inside, outside, len(labels))])


def _cover(inside: IntArray, outside: IntArray, num_labels: int) -> Iterator[tuple[int, int]]:
    """Yield terms (bits that are looked at, their values) that together hold for all letters inside and none outside.

    inside, outside: letters as numbers; num_labels: how many bits they have.
    Greedy: each term is made for the first letter that is left, and takes all others that it covers.
    """
    remaining = inside
    while remaining.size:
        care = _distinguishing_labels(int(remaining[0]), outside, num_labels)
        value = int(remaining[0]) & care
        yield care, value
        remaining = remaining[(remaining & care) != value]


def _distinguishing_labels(letter: int, outside: IntArray, num_labels: int) -> int:
    """Return bits that tell a letter from all those outside, none of which can be left out.

    letter, outside: letters as numbers; num_labels: how many bits they have.
    Absent labels are dropped first, which reads better.
    """
    care = (1 << num_labels) - 1
    bits = [1 << index for index in range(num_labels)]
    for bit in sorted(bits, key=lambda bit: bool(letter & bit)):
        if not ((outside ^ letter) & (care & ~bit) == 0).any():
            care &= ~bit
    return care


def _make_term(care: int, value: int, labels: Sequence[str]) -> Guard:
    """Return the conjunction of the labels in `care`, negated where their bit in `value` is not set."""
    literals = []
    for bit, label in enumerate(labels):
        if care >> bit & 1:
            literal = Guard("label", label)
            literals.append(literal if value >> bit & 1 else Guard("not", parts=(literal,)))
    return _join_guards("and", literals)


def _join_guards(kind: str, parts: list[Guard]) -> Guard:
    """Return the conjunction or disjunction of some guards; of none, true or false; of one, that one."""
    if not parts:
        return _ANY_LETTER if kind == "and" else Guard("false")
    return parts[0] if len(parts) == 1 else Guard(kind, parts=tuple(parts))
