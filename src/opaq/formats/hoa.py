"""Automata in the Hanoi Omega-Automata format (HOA v1), read as automata on finite words.

A word is accepted when the state after its last letter carries the acceptance mark 0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from opaq.automata.diagrams import FALSE, TRUE, Diagrams
from opaq.automata.readable import guard_of
from opaq.errors import BudgetError, Fault, InputError
from opaq.escapes import printable
from opaq.formats.registry import Export
from opaq.formats.signs import Sign, Signs, quoted, unquoted
from opaq.formats.umb.umb_values import distinct
from opaq.model.automaton import Automaton, Edge
from opaq.model.guard import Guard
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.spec.yaml_reader import read_text

MAX_STATES = 100_000
MAX_LABELS = 100
MAX_IMPLICIT = 10  # labels of a file that lists its edges without labels
MAX_DEPTH = 100
MAX_GUARD = 10_000
_NODES = 100_000
_PATTERN = re.compile(
    r"(?P<skip>\s+|/\*.*?\*/)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<section>--[A-Z]+--)"
    r"|(?P<header>[A-Za-z_][A-Za-z0-9_\-]*:)"
    r"|(?P<name>@?[A-Za-z_][A-Za-z0-9_\-]*)"
    r"|(?P<number>\d+)"
    r"|(?P<sign>[\[\]{}()!&|])",
    re.DOTALL,
)
_ACCEPTANCE = {"1Inf(0)": None, "1(Inf(0))": None, "0t": True, "0f": False}


def read_hoa(path: str) -> Automaton:
    """Read the automaton in a file. Raises InputError."""
    return automaton_from_hoa(read_text(path), source=path)


def hoa_of_automaton(automaton: Automaton, export: Export) -> str:
    """An automaton as a HOA file."""
    return automaton_to_hoa(automaton)


def hoa_of_secret(problem: Problem, export: Export) -> str:
    """The automaton of a problem's secret as a HOA file; raises InputError when the secret has none."""
    if not isinstance(problem.secret, Language):
        raise InputError([Fault("secret", "has no automaton", "only languages become HOA files")], problem.name)
    export.notes.append("HOA holds the automaton of the secret and nothing else")
    return automaton_to_hoa(problem.secret.automaton, name=problem.name)


def automaton_to_hoa(automaton: Automaton, *, name: str = "") -> str:
    """The text of a HOA file: complete, deterministic, acceptance on states."""
    labels = sorted(frozenset().union(*(edge.guard.names() for edge in automaton.edges)))
    lines = ["HOA: v1", *([f"name: {quoted(printable(name))}"] if name else []), f"States: {len(automaton.states)}"]
    lines += [f"Start: {automaton.initial}", " ".join([f"AP: {len(labels)}", *map(quoted, _shown(labels))])]
    lines += ["Acceptance: 1 Inf(0)", "properties: trans-labels explicit-labels state-acc deterministic complete"]
    lines += [] if automaton.reads == "entered" else [f"opaq-reads: {automaton.reads}"]
    place = {label: position for position, label in enumerate(labels)}
    leaving: list[list[Edge]] = [[] for _ in automaton.states]
    for edge in automaton.edges:
        leaving[edge.source].append(edge)
    lines.append("--BODY--")
    for state, told in enumerate(_shown(automaton.states)):
        lines.append(f"State: {state} {quoted(told)}{' {0}' if state in automaton.accepting else ''}")
        lines += [f"[{text}] {target}" for text, target in _disjoint(leaving[state], state, place)]
    return "\n".join([*lines, "--END--", ""])


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    """Names without control characters, still different from one another."""
    return distinct([printable(name) for name in names])


def automaton_from_hoa(text: str, *, source: str = "") -> Automaton:
    """Read a deterministic automaton; letters without an edge lead to a rejecting sink. Raises InputError."""
    return _read(Signs(text, _PATTERN, source=source))


def _disjoint(edges: Sequence[Edge], state: int, place: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The edges of a state, each without the letters of those before it, and staying where none matches."""
    diagrams = Diagrams()
    earlier: list[tuple[int, Guard]] = []
    for guard, target in [*((edge.guard, edge.target) for edge in edges), (Guard("true"), state)]:
        meant = diagrams.of_guard(guard, place)
        taken = [(other, text) for other, text in earlier if diagrams.both([meant, other]) != FALSE]
        left = diagrams.both([meant, *(diagrams.negate(other) for other, _ in taken)])
        if left != FALSE:
            others = [Guard("not", parts=(other,)) for _, other in taken]
            parts = (*([] if guard.kind == "true" and others else [guard]), *others)
            yield _told(parts[0] if len(parts) == 1 else Guard("and", parts=parts), place), target
        earlier.append((meant, guard))


def _told(guard: Guard, place: dict[str, int]) -> str:
    if guard.kind == "label":
        return str(place[guard.label])
    if guard.kind == "not":
        inner = _told(guard.parts[0], place)
        return f"!{inner}" if guard.parts[0].kind == "label" else f"!({inner})"
    if guard.kind in ("and", "or"):
        told = (
            _told(part, place) if part.kind in ("label", "not") else f"({_told(part, place)})" for part in guard.parts
        )
        return ("&" if guard.kind == "and" else "|").join(told)
    return guard.kind[0]


@dataclass(slots=True)
class _Header:
    """What the lines before the body say; labels in aliases are still numbers."""

    num_states: int | None = None
    start: Sign | None = None
    labels: list[str] | None = None
    accepts: bool | None = None  # None: the marks of the states tell
    has_acceptance: bool = False
    reads: Literal["entered", "left"] = "entered"
    aliases: dict[str, tuple[Guard, int, int]] = field(default_factory=dict)  # (guard, size, depth)


@dataclass(slots=True)
class _Body:
    """The states and edges as they are listed."""

    names: dict[int, tuple[str, Sign]] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    edges: list[tuple[int, int, Guard, Sign]] = field(default_factory=list)


def _read(signs: Signs) -> Automaton:
    if signs.next.text != "HOA:":
        raise signs.unexpected("'HOA: v1'")
    signs.take()
    if not signs.skip("v1"):
        raise signs.unexpected("'v1'")
    header = _Header()
    while signs.next.kind == "header":
        _read_header(signs, header)
    signs.expect_sign("--BODY--")
    if header.start is None or not header.has_acceptance:
        missing = "Start:" if header.start is None else "Acceptance:"
        raise signs.error(signs.next, f"the header has no '{missing}'", "add it before --BODY--")
    body = _Body()
    while signs.next.text == "State:":
        _read_state(signs, header, body)
    signs.expect_sign("--END--")
    if signs.next.kind != "end":
        raise signs.unexpected("nothing after --END--")
    return _assembled(signs, header, body)


def _read_header(signs: Signs, header: _Header) -> None:
    sign = signs.take()
    if sign.text == "States:":
        header.num_states = _number(signs, "a number of states", most=MAX_STATES)
    elif sign.text == "Start:":
        _read_start(signs, sign, header)
    elif sign.text == "AP:":
        _read_labels(signs, sign, header)
    elif sign.text == "Acceptance:":
        _read_acceptance(signs, sign, header)
    elif sign.text == "Alias:":
        name = signs.expect("name", "an alias such as @a")
        header.aliases[name.text] = _expression(signs, header)
    elif sign.text == "opaq-reads:":
        if signs.next.text not in ("entered", "left"):
            raise signs.unexpected("'entered' or 'left'")
        header.reads = "left" if signs.take().text == "left" else "entered"
    elif sign.text[0].isupper():
        raise signs.error(sign, f"the header '{sign.text}' is not known", "it may change the meaning; remove it")
    else:
        while signs.next.kind in ("string", "name", "number", "sign"):
            signs.take()


def _read_start(signs: Signs, sign: Sign, header: _Header) -> None:
    if header.start is not None:
        raise signs.error(sign, "a second 'Start:'", "a deterministic automaton has one initial state")
    header.start = signs.next
    _number(signs, "the number of a state", most=MAX_STATES)
    if signs.next.text == "&":
        raise signs.error(signs.next, "alternating automata are not read")


def _read_labels(signs: Signs, sign: Sign, header: _Header) -> None:
    if header.labels is not None:
        raise signs.error(sign, "a second 'AP:'")
    count = _number(signs, "a number of labels", most=MAX_LABELS)
    header.labels = [unquoted(signs.expect("string", "a label in quotes").text) for _ in range(count)]
    if len(set(header.labels)) < count or "" in header.labels:
        raise signs.error(sign, "labels must be different and not empty")


def _read_acceptance(signs: Signs, sign: Sign, header: _Header) -> None:
    told = ""
    while signs.next.kind in ("name", "number", "sign"):
        told += signs.take().text
    if told not in _ACCEPTANCE:
        raise signs.error(sign, "the acceptance is not that of a finite automaton", "write 'Acceptance: 1 Inf(0)'")
    header.has_acceptance, header.accepts = True, _ACCEPTANCE[told]


def _number(signs: Signs, wanted: str, *, most: int) -> int:
    sign = signs.expect("number", wanted)
    if len(sign.text) > 12 or int(sign.text) > most:
        raise signs.error(sign, f"'{sign.text[:20]}' is too large; the limit is {most:,}")
    return int(sign.text)


def _expression(signs: Signs, header: _Header) -> tuple[Guard, int, int]:
    """A label expression, how many signs it is made of and how deep it is, aliases written out."""
    begun = signs.next
    guard, size, depth = _either(signs, header, 0)
    if size > MAX_GUARD or depth > MAX_DEPTH:
        limits = f"{MAX_GUARD:,} signs, nested {MAX_DEPTH} deep"
        raise signs.error(begun, "the label expression is too large once aliases are written out", f"limit: {limits}")
    return guard, size, depth


def _either(signs: Signs, header: _Header, level: int) -> tuple[Guard, int, int]:
    return _chain(signs, header, level, kind="or")


def _chain(signs: Signs, header: _Header, level: int, *, kind: str) -> tuple[Guard, int, int]:
    found = []
    while True:
        found.append(_chain(signs, header, level, kind="and") if kind == "or" else _atom(signs, header, level))
        if not signs.skip("|" if kind == "or" else "&"):
            break
    if len(found) == 1:
        return found[0]
    guard = Guard(kind, parts=tuple(part for part, _, _ in found))
    return guard, sum(size for _, size, _ in found), 1 + max(depth for _, _, depth in found)


def _atom(signs: Signs, header: _Header, level: int) -> tuple[Guard, int, int]:
    if level > MAX_DEPTH:
        raise signs.error(signs.next, f"nested deeper than {MAX_DEPTH}")
    if signs.skip("!"):
        part, size, depth = _atom(signs, header, level + 1)
        return Guard("not", parts=(part,)), size + 1, depth + 1
    if signs.skip("("):
        found = _either(signs, header, level + 1)
        signs.expect_sign(")")
        return found
    if signs.next.kind == "number":
        return Guard("label", str(_number(signs, "", most=MAX_LABELS))), 1, 1
    sign = signs.next
    if sign.kind == "name" and sign.text in ("t", "f"):
        signs.take()
        return Guard("true" if sign.text == "t" else "false"), 1, 1
    if sign.kind == "name" and sign.text in header.aliases:
        signs.take()
        return header.aliases[sign.text]
    raise signs.unexpected("the number of a label, 't', 'f', '!', '(' or an alias")


def _bracketed(signs: Signs, header: _Header) -> Guard | None:
    """A label expression in brackets with the labels' names, or None if there is none."""
    if not signs.skip("["):
        return None
    begun = signs.next
    guard, _, _ = _expression(signs, header)
    signs.expect_sign("]")
    labels = header.labels or []
    unknown = sorted(int(name) for name in guard.names() if int(name) >= len(labels))
    if unknown:
        raise signs.error(begun, f"label {unknown[0]} is not among the {len(labels)} of 'AP:'")
    return _renamed(guard, labels)


def _renamed(guard: Guard, labels: Sequence[str]) -> Guard:
    if guard.kind == "label":
        return Guard("label", labels[int(guard.label)])
    return Guard(guard.kind, parts=tuple(_renamed(part, labels) for part in guard.parts))


def _read_state(signs: Signs, header: _Header, body: _Body) -> None:
    signs.take()
    shared = _bracketed(signs, header)
    sign = signs.next
    state = _number(signs, "the number of a state", most=MAX_STATES)
    if state in body.names:
        raise signs.error(sign, f"state {state} is listed twice")
    name = unquoted(signs.take().text) if signs.next.kind == "string" else f"q{state}"
    body.names[state] = (name, sign)
    if _marks(signs):
        body.marked.add(state)
    implicit: list[tuple[int, Sign]] = []
    while signs.next.text == "[" or signs.next.kind == "number":
        begun = signs.next
        guard = _bracketed(signs, header) if shared is None else shared
        target = _number(signs, "the number of a state", most=MAX_STATES)
        if signs.next.text in ("&", "{"):
            what = "alternating automata are" if signs.next.text == "&" else "acceptance on edges is"
            raise signs.error(signs.next, f"{what} not read", "write a deterministic automaton with marks on states")
        if guard is None:
            implicit.append((target, begun))
        else:
            body.edges.append((state, target, guard, begun))
    if implicit:
        body.edges += _by_position(signs, header, state, implicit)


def _marks(signs: Signs) -> bool:
    """Whether a state carries acceptance marks; there is one mark only."""
    found = False
    if signs.skip("{"):
        while not signs.skip("}"):
            found = True
            if signs.next.text != "0":
                raise signs.unexpected("the mark 0 or '}'")
            signs.take()
    return found


def _by_position(
    signs: Signs, header: _Header, state: int, listed: list[tuple[int, Sign]]
) -> list[tuple[int, int, Guard, Sign]]:
    """Edges without labels: the i-th one is for the letter whose bits are those of i."""
    labels = header.labels or []
    if len(labels) > MAX_IMPLICIT or len(listed) != 1 << len(labels):
        found = f"{len(listed)} edges without labels, not one for each of the 2^{len(labels)} letters"
        raise signs.error(listed[0][1], found, "write the label of each edge in brackets")
    targets, bits = np.array([target for target, _ in listed]), np.arange(len(listed))
    return [
        (state, target, guard_of(bits[targets == target], bits[targets != target], labels), listed[0][1])
        for target in dict.fromkeys(targets.tolist())
    ]


def _assembled(signs: Signs, header: _Header, body: _Body) -> Automaton:
    assert header.start is not None
    used = [int(header.start.text), *body.names, *(edge[1] for edge in body.edges)]
    num_states = max(used) + 1 if header.num_states is None else header.num_states
    if max(used) >= num_states:
        sign = next((sign for _, to, _, sign in body.edges if to >= num_states), header.start)
        sign = next((sign for state, (_, sign) in body.names.items() if state >= num_states), sign)
        raise signs.error(sign, f"names a state that is not among the {num_states:,} of 'States:'")
    names = _distinct_names(signs, body, num_states)
    missing = _check_deterministic(signs, header, body, num_states)
    edges = [Edge(source, target, guard) for source, target, guard, _ in body.edges]
    if missing:
        names.append(_new_name("sink", set(names)))
        edges += [Edge(state, num_states, Guard("true")) for state in missing]
    everywhere = range(num_states) if header.accepts else ()
    accepting = frozenset(body.marked if header.accepts is None else everywhere)
    return Automaton(tuple(names), int(header.start.text), accepting, tuple(edges), header.reads)


def _distinct_names(signs: Signs, body: _Body, num_states: int) -> list[str]:
    found: dict[str, int] = {}
    for state, (name, sign) in body.names.items():
        if found.setdefault(name, state) != state:
            raise signs.error(sign, f"two states are called '{name}'", "give every state a name of its own")
    told = {state: name for name, state in found.items()}
    return [told[state] if state in told else _new_name(f"q{state}", found) for state in range(num_states)]


def _new_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _check_deterministic(signs: Signs, header: _Header, body: _Body, num_states: int) -> list[int]:
    """Refuse letters with two targets; the states that lack an edge for some letter."""
    place = {label: position for position, label in enumerate(header.labels or [])}
    covered = [FALSE] * num_states
    diagrams = Diagrams(most=_NODES)
    for source, _, guard, sign in body.edges:
        try:
            meant = diagrams.of_guard(guard, place)
            overlaps = diagrams.both([covered[source], meant]) != FALSE
            covered[source] = diagrams.either([covered[source], meant])
        except BudgetError:
            raise signs.error(sign, "the labels of the edges are too complicated to compare") from None
        if overlaps:
            found = f"state {source} has two edges for one letter"
            raise signs.error(sign, found, "make the automaton deterministic")
    return [state for state in range(num_states) if covered[state] != TRUE]
