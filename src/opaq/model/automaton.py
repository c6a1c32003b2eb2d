"""Deterministic automata over labels, and the guards on their edges.

A guard is a Boolean formula over labels, with `!`, `&`, `|`, brackets, `true` and `false`; `&` binds tighter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from opaq.errors import Faults, describe_value, suggestion, whole_fault
from opaq.lexer import InLine, Tokens
from opaq.model.checks import Checked, Checks

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
_PATTERN = re.compile(rf"(?P<name>{_NAME}|\"[^\"]*\")|&&?|\|\|?|[!~()]")
_PLAIN = re.compile(_NAME)
_JOINED_BY = {"or": ("|", "||"), "and": ("&", "&&")}


class GuardError(ValueError):
    """A text is not a guard; the message says where, and what was expected."""


_STYLE = InLine("a guard", GuardError, hint="use labels and ! & | ( )", end="'the end'")


@dataclass(frozen=True, slots=True)
class Guard:
    """A parsed guard: `kind` is one of true, false, label, not, and, or.

    label: for kind "label". parts: the operands of not, and, or.
    """

    kind: str
    label: str = ""
    parts: tuple[Guard, ...] = ()

    def holds(self, labels: frozenset[str]) -> bool:
        """Return whether the guard is true for a set of labels.

        Labels that are not in the set are false.
        """
        if self.kind == "label":
            return self.label in labels
        if self.kind == "not":
            return not self.parts[0].holds(labels)
        if self.kind == "and":
            return all(part.holds(labels) for part in self.parts)
        if self.kind == "or":
            return any(part.holds(labels) for part in self.parts)
        return self.kind == "true"

    def names(self) -> frozenset[str]:
        """Return every label the guard mentions."""
        own = frozenset([self.label]) if self.kind == "label" else frozenset()
        return own.union(*(part.names() for part in self.parts))

    def __str__(self) -> str:
        if self.kind == "label":
            plain = _PLAIN.fullmatch(self.label) and self.label not in ("true", "false")
            return self.label if plain else f'"{self.label}"'
        if self.kind == "not":
            return f"!{self._inner(self.parts[0])}"
        if self.kind in ("and", "or"):
            return (" & " if self.kind == "and" else " | ").join(self._inner(part) for part in self.parts)
        return self.kind

    @staticmethod
    def _inner(part: Guard) -> str:
        """Return an operand as text, in brackets where it is a conjunction or disjunction."""
        return f"({part})" if part.kind in ("and", "or") else str(part)


def parse_guard(text: str) -> Guard:
    """Parse a guard such as "a & !(b | c)". Raises GuardError with the position of the first fault."""
    tokens = Tokens(text, _PATTERN, _STYLE)
    guard = read_guard(tokens, _label)
    if tokens.text:
        raise tokens.unexpected("'&', '|' or the end")
    return guard


def read_guard(tokens: Tokens, atom: Callable[[Tokens], Guard], *, depth: int = 0, kind: str = "or") -> Guard:
    """Read parts joined by `|` and, tighter, by `&` from tokens.

    atom: reads what is neither negated nor in brackets. depth: of brackets so far; too many are refused.
    """
    parts = []
    while True:
        parts.append(
            read_guard(tokens, atom, depth=depth, kind="and") if kind == "or" else _single(tokens, atom, depth)
        )
        if not tokens.skip(*_JOINED_BY[kind]):
            return parts[0] if len(parts) == 1 else Guard(kind, parts=tuple(parts))


def _single(tokens: Tokens, atom: Callable[[Tokens], Guard], depth: int) -> Guard:
    """Read a negation, a guard in brackets, or an atom."""
    tokens.check_depth(depth)
    if tokens.skip("!", "~"):
        return Guard("not", parts=(_single(tokens, atom, depth + 1),))
    if tokens.skip("("):
        guard = read_guard(tokens, atom, depth=depth + 1)
        tokens.expect(")")
        return guard
    return atom(tokens)


def _label(tokens: Tokens) -> Guard:
    """Read a label, "true" or "false"."""
    if tokens.kind != "name":
        raise tokens.unexpected("a label, '!' or '('")
    text = tokens.take()
    return Guard(text) if text in ("true", "false") else Guard("label", text.strip('"'))


MAX_STATES = 100_000


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge: taken from `source` to `target` when its guard holds for the labels read."""

    source: int
    target: int
    guard: Guard


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Automaton(Checked):
    """States and guarded edges; edges are tried in the order listed, and no match means stay.

    initial, accepting, Edge.source, Edge.target: positions in `states`.
    reads: which state's labels move it: "entered" reads L(s_0), L(s_1), .., "left" reads the state before each
        transition.
    InputError lists every fault when one is made.
    """

    states: tuple[str, ...]
    initial: int
    accepting: frozenset[int]
    edges: tuple[Edge, ...]
    reads: Literal["entered", "left"] = "entered"

    def __post_init__(self) -> None:
        checks = Checks(self, "automaton")
        states = checks.names("states", kind="state", most=MAX_STATES)
        checks.word("reads", ("entered", "left"))
        if states is not None:
            last = len(states) - 1
            checks.whole("initial", low=0, high=last)
            if not isinstance(self.accepting, frozenset | set) or not all(
                _is_one(state, last) for state in self.accepting
            ):
                checks.error(
                    "accepting", "is not a set of positions of states", f"use whole numbers from 0 to {last:,}"
                )
            else:
                checks.put("accepting", frozenset(map(int, self.accepting)))
            _check_edges(self.edges, last, checks)
        checks.finish()

    def step(self, state: int, labels: frozenset[str]) -> int:
        """Return the state after reading one set of labels."""
        for edge in self.edges:
            if edge.source == state and edge.guard.holds(labels):
                return edge.target
        return state


def _is_one(state: object, last: int) -> bool:
    """Return whether a value is the position of a state."""
    return whole_fault(state, low=0, high=last) is None


def _check_edges(edges: object, last: int, checks: Checks) -> None:
    """Note edges that are no edges, or that join states that do not exist."""
    if not isinstance(edges, tuple | list):
        checks.error("edges", f"is {describe_value(edges)}, not a tuple of edges")
        return
    for index, edge in enumerate(edges):
        if not isinstance(edge, Edge) or not isinstance(edge.guard, Guard):
            checks.error(f"edges[{index}]", f"is {describe_value(edge)}, not an Edge with a Guard")
        elif not _is_one(edge.source, last) or not _is_one(edge.target, last):
            checks.error(f"edges[{index}]", f"joins states {edge.source} and {edge.target}, not 0 to {last:,}")
    checks.put("edges", tuple(edges))


def check_guards(automaton: Automaton, faults: Faults, where: str, *, labels: Collection[str] | None) -> None:
    """Note the labels that guards mention and a model does not have.

    where: path of the automaton, for the faults. labels: of the model; None where they are not known.
    """
    for index, edge in enumerate(() if labels is None else automaton.edges):
        check_labels(edge.guard.names(), faults, f"{where}.edges[{index}].when", labels=labels)


def check_labels(
    mentioned: frozenset[str] | set[str], faults: Faults, where: str, *, labels: Collection[str] | None
) -> bool:
    """Note the mentioned labels that a model does not have; return True if there are none.

    where: path for the faults. labels: of the model; None where they are not known, and nothing is noted.
    """
    unknown = [] if labels is None else sorted(mentioned - set(labels))
    for label in unknown:
        listed = f"the labels are {', '.join(labels)}" if labels else "the model has no labels"
        near = suggestion(label, labels or (), kind="label") if len(labels or ()) > 8 else listed
        faults.error(where, f"unknown label '{label}'", near or listed)
    return not unknown
