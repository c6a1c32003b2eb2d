"""Read and write automata in the Hanoi Omega-Automata format (HOA v1), as automata on finite words.

HOA text comes in, a `model.Automaton` goes out, and back. A word is accepted when the state after its last letter
carries the acceptance mark 0. Files must be deterministic, with marks on states; letters without an edge lead to a
rejecting sink.

    file   ::= "HOA: v1" header* "--BODY--" state* "--END--"
    header ::= "States:" n | "Start:" n | "AP:" n label* | "Acceptance:" condition | "Alias:" @name expression
             | "opaq-reads:" ("entered" | "left")            unknown headers in lower case are skipped
    state  ::= "State:" ("[" expression "]")? n name? ("{" 0 "}")? edge*
    edge   ::= ("[" expression "]")? n                       without labels: one edge per letter, in order

An expression joins numbers of labels with `! & |`, and `t` and `f`: `[0 & !1] 2` goes to state 2. The acceptance is
`1 Inf(0)`, or `0 t` and `0 f` where all states accept or none does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from opaq.automata.dfa import cover_letters
from opaq.automata.progression import FALSE, TRUE, Diagrams
from opaq.errors import BudgetError, Fault, InputError, escape_invisible
from opaq.formats.format import Export
from opaq.formats.names import escape_labels, quote, unique_name, unquote
from opaq.lexer import MAX_DEPTH, InFile, Tokens
from opaq.model.automaton import Automaton, Edge, Guard, read_guard
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.spec.yaml import read_text

_MAX_STATES = 100_000
_MAX_LABELS = 100
_MAX_IMPLICIT = 10  # labels of a file that lists its edges without labels
_MAX_GUARD = 10_000
_PATTERN = re.compile(
    r"(?P<skip>/\*.*?\*/)"
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
    """Read the automaton in a file.

    path: the file. Raises InputError when it cannot be read, or with the position of the first fault.
    """
    return automaton_from_hoa(read_text(path), source=path)


def automaton_from_hoa(text: str, *, source: str = "") -> Automaton:
    """Read a deterministic automaton; letters without an edge lead to a rejecting sink.

    text: the content; source: its file, for errors.
    Raises InputError with the line and column of the first fault.
    """
    return _read(Tokens(text, _PATTERN, InFile(source)))


@dataclass(slots=True)
class _Header:
    """The lines before the body; labels in aliases are still numbers.

    start: the token of the initial state's number. accepts: None when the marks of states tell, else whether all
        accept.
    """

    num_states: int | None = None
    start: int | None = None  # the token
    labels: list[str] | None = None
    accepts: bool | None = None  # None: the marks of the states tell
    has_acceptance: bool = False
    reads: Literal["entered", "left"] = "entered"
    aliases: dict[str, Guard] = field(default_factory=dict)


@dataclass(slots=True)
class _Body:
    """The states and edges as they are listed, each with the token it begins with.

    names: state -> its name; marked: the accepting states; edges: (source, target, guard, token).
    """

    names: dict[int, tuple[str, int]] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    edges: list[tuple[int, int, Guard, int]] = field(default_factory=list)


def _read(tokens: Tokens) -> Automaton:
    """Return the automaton of a whole file: header, body and nothing after it. Raises InputError at the first fault."""
    if tokens.text != "HOA:":
        raise tokens.unexpected("'HOA: v1'")
    tokens.take()
    tokens.expect("v1")
    header = _Header()
    while tokens.kind == "header":
        _read_header(tokens, header)
    tokens.expect("--BODY--")
    if header.start is None or not header.has_acceptance:
        missing = "Start:" if header.start is None else "Acceptance:"
        raise tokens.error(f"the header has no '{missing}'", "add it before --BODY--")
    body = _Body()
    while tokens.skip("State:"):
        _read_state(tokens, header, body)
    tokens.expect("--END--")
    if tokens.kind != "end":
        raise tokens.unexpected("nothing after --END--")
    return _assemble(tokens, header, body)


def _read_header(tokens: Tokens, header: _Header) -> None:
    """Read one header line into `header`.

    Unknown ones in capitals may change the meaning and are refused, others are skipped.
    """
    at, text = tokens.at, tokens.take()
    if text == "States:":
        header.num_states = _read_number(tokens, "a number of states", most=_MAX_STATES)
    elif text == "Start:":
        _read_start(tokens, at, header)
    elif text == "AP:":
        _read_labels(tokens, at, header)
    elif text == "Acceptance:":
        _read_acceptance(tokens, at, header)
    elif text == "Alias:":
        name = tokens.expect_kind("name", "an alias such as @a")
        header.aliases[name] = _read_expression(tokens, header)
    elif text == "opaq-reads:":
        if tokens.text not in ("entered", "left"):
            raise tokens.unexpected("'entered' or 'left'")
        header.reads = "left" if tokens.take() == "left" else "entered"
    elif text[0].isupper():
        raise tokens.error(f"the header '{text}' is not known", "it may change the meaning; remove it", at=at)
    else:
        while tokens.kind in ("string", "name", "number", "sign"):
            tokens.take()


def _read_start(tokens: Tokens, at: int, header: _Header) -> None:
    """Read the initial state; there is exactly one.

    at: the token `Start:`, for faults; header: gets the token of the state's number.
    """
    if header.start is not None:
        raise tokens.error("a second 'Start:'", "a deterministic automaton has one initial state", at=at)
    header.start = tokens.at
    _read_number(tokens, "the number of a state", most=_MAX_STATES)
    if tokens.text == "&":
        raise tokens.error("alternating automata are not read")


def _read_labels(tokens: Tokens, at: int, header: _Header) -> None:
    """Read the labels (`AP:`), which must be different."""
    if header.labels is not None:
        raise tokens.error("a second 'AP:'", at=at)
    count = _read_number(tokens, "a number of labels", most=_MAX_LABELS)
    header.labels = [unquote(tokens.expect_kind("string", "a label in quotes")) for _ in range(count)]
    if len(set(header.labels)) < count or "" in header.labels:
        raise tokens.error("labels must be different and not empty", at=at)


def _read_acceptance(tokens: Tokens, at: int, header: _Header) -> None:
    """Read the acceptance condition, which must be that of a finite automaton, one of _ACCEPTANCE.

    at: the token `Acceptance:`, for faults.
    """
    condition = ""
    while tokens.kind in ("name", "number", "sign"):
        condition += tokens.take()
    if condition not in _ACCEPTANCE:
        finding = "the acceptance is not that of a finite automaton"
        raise tokens.error(finding, "write 'Acceptance: 1 Inf(0)'", at=at)
    header.has_acceptance, header.accepts = True, _ACCEPTANCE[condition]


def _read_number(tokens: Tokens, wanted: str, *, most: int) -> int:
    """Return a whole number up to `most`; `wanted` is what the error says was expected."""
    at, text = tokens.at, tokens.expect_kind("number", wanted)
    if len(text) > 12 or int(text) > most:
        raise tokens.error(f"'{text[:20]}' is too large; the limit is {most:,}", at=at)
    return int(text)


def _read_expression(tokens: Tokens, header: _Header) -> Guard:
    """Return a label expression, aliases written out; labels are still numbers."""
    first = tokens.at
    guard = read_guard(tokens, lambda tokens: _read_atom(tokens, header))
    if _is_too_large(guard):
        finding = "the label expression is too large once aliases are written out"
        raise tokens.error(finding, f"limit: {_MAX_GUARD:,} signs, nested {MAX_DEPTH} deep", at=first)
    return guard


def _read_atom(tokens: Tokens, header: _Header) -> Guard:
    """Return a label, true, false or the expression of an alias."""
    if tokens.kind == "number":
        return Guard("label", str(_read_number(tokens, "", most=_MAX_LABELS)))
    if tokens.text in ("t", "f"):
        return Guard("true" if tokens.take() == "t" else "false")
    if tokens.text not in header.aliases:
        raise tokens.unexpected("the number of a label, 't', 'f', '!', '(' or an alias")
    return header.aliases[tokens.take()]


def _is_too_large(guard: Guard) -> bool:
    """Return whether a guard is too long or too deep; looks at no more of it than is allowed."""
    size, stack = 0, [(guard, 1)]
    while stack and size <= _MAX_GUARD:
        part, depth = stack.pop()
        size += part.kind not in ("and", "or")
        if depth > MAX_DEPTH:
            return True
        stack += [(inner, depth + 1) for inner in part.parts]
    return size > _MAX_GUARD


def _parse_label(tokens: Tokens, header: _Header) -> Guard | None:
    """Return the label expression in brackets with the labels' names; None if there is none.

    Raises InputError for a number that is not among those of `AP:`.
    """
    if not tokens.skip("["):
        return None
    first, labels = tokens.at, header.labels or []
    guard = _read_expression(tokens, header)
    tokens.expect("]")
    unknown = sorted(int(name) for name in guard.names() if int(name) >= len(labels))
    if unknown:
        raise tokens.error(f"label {unknown[0]} is not among the {len(labels)} of 'AP:'", at=first)
    return _rename_labels(guard, labels)


def _rename_labels(guard: Guard, labels: Sequence[str]) -> Guard:
    """Return a guard with the names of its labels in place of their numbers."""
    if guard.kind == "label":
        return Guard("label", labels[int(guard.label)])
    return Guard(guard.kind, parts=tuple(_rename_labels(part, labels) for part in guard.parts))


def _read_state(tokens: Tokens, header: _Header, body: _Body) -> None:
    """Read one state with its name, mark and edges into the body; `State:` is read already.

    Edges have labels of their own, share that of the state, or have none: then there is one edge for every letter.
    Raises InputError for a state that is listed twice, alternation, and acceptance marks on edges.
    """
    shared = _parse_label(tokens, header)
    at, state = tokens.at, _read_number(tokens, "the number of a state", most=_MAX_STATES)
    if state in body.names:
        raise tokens.error(f"state {state} is listed twice", at=at)
    body.names[state] = (unquote(tokens.take()) if tokens.kind == "string" else f"q{state}", at)
    if _read_marks(tokens):
        body.marked.add(state)
    implicit: list[int] = []
    first = tokens.at
    while tokens.text == "[" or tokens.kind == "number":
        edge = tokens.at
        guard = _parse_label(tokens, header) if shared is None else shared
        target = _read_number(tokens, "the number of a state", most=_MAX_STATES)
        if tokens.text in ("&", "{"):
            what = "alternating automata are" if tokens.text == "&" else "acceptance on edges is"
            raise tokens.error(f"{what} not read", "write a deterministic automaton with marks on states")
        if guard is None:
            first = first if implicit else edge
            implicit.append(target)
        else:
            body.edges.append((state, target, guard, edge))
    if implicit:
        by_target = _label_edges(tokens, header, implicit, first)
        body.edges += [(state, target, guard, first) for target, guard in by_target]


def _read_marks(tokens: Tokens) -> bool:
    """Return whether a state carries acceptance marks; there is one mark only."""
    marked = False
    if tokens.skip("{"):
        while not tokens.skip("}"):
            marked = True
            if not tokens.skip("0"):
                raise tokens.unexpected("the mark 0 or '}'")
    return marked


def _label_edges(tokens: Tokens, header: _Header, targets: list[int], first: int) -> list[tuple[int, Guard]]:
    """Return (target, guard) for edges without labels: the i-th one is for the letter whose bits are those of i.

    targets: where they lead; first: the token of the first one, for faults.
    """
    labels = header.labels or []
    if len(labels) > _MAX_IMPLICIT or len(targets) != 1 << len(labels):
        finding = f"{len(targets)} edges without labels, not one for each of the 2^{len(labels)} letters"
        raise tokens.error(finding, "write the label of each edge in brackets", at=first)
    letters, bits = np.array(targets), np.arange(len(targets))
    return [
        (target, cover_letters(bits[letters == target], bits[letters != target], labels))
        for target in dict.fromkeys(targets)
    ]


def _assemble(tokens: Tokens, header: _Header, body: _Body) -> Automaton:
    """Return the automaton of a header and a body, with a sink where letters have no edge.

    Raises InputError for states beyond `States:`, two states of one name, and two edges of one state for one letter.
    """
    assert header.start is not None
    initial = int(tokens.texts[header.start])
    used = [initial, *body.names, *(edge[1] for edge in body.edges)]
    num_states = max(used) + 1 if header.num_states is None else header.num_states
    if max(used) >= num_states:
        at = next((at for _, target, _, at in body.edges if target >= num_states), header.start)
        at = next((at for state, (_, at) in body.names.items() if state >= num_states), at)
        raise tokens.error(f"names a state that is not among the {num_states:,} of 'States:'", at=at)
    names = _name_states(tokens, body, num_states)
    missing = _check_deterministic(tokens, header, body, num_states)
    edges = [Edge(source, target, guard) for source, target, guard, _ in body.edges]
    if missing:
        names.append(unique_name("sink", names))
        edges += [Edge(state, num_states, Guard("true")) for state in missing]
    accepting = body.marked if header.accepts is None else range(num_states) if header.accepts else ()
    return Automaton(tuple(names), initial, frozenset(accepting), tuple(edges), header.reads)


def _name_states(tokens: Tokens, body: _Body, num_states: int) -> list[str]:
    """Return the names of all states, "q" and the number for those without. Raises InputError when two share one."""
    state_of: dict[str, int] = {}
    for state, (name, at) in body.names.items():
        if state_of.setdefault(name, state) != state:
            raise tokens.error(f"two states are called '{name}'", "give every state a name of its own", at=at)
    own = {state: name for name, state in state_of.items()}
    return [own[state] if state in own else unique_name(f"q{state}", state_of) for state in range(num_states)]


def _check_deterministic(tokens: Tokens, header: _Header, body: _Body, num_states: int) -> list[int]:
    """Refuse letters with two targets; return the states that lack an edge for some letter.

    The letters that edges cover are kept as decision diagrams, so that 2^labels letters need not be listed.
    """
    index_of = {label: position for position, label in enumerate(header.labels or [])}
    covered = [FALSE] * num_states
    diagrams = Diagrams(most=_MAX_STATES)
    for source, _, guard, at in body.edges:
        try:
            function = diagrams.of_guard(guard, index_of)
            overlaps = diagrams.both([covered[source], function]) != FALSE
            covered[source] = diagrams.either([covered[source], function])
        except BudgetError:
            raise tokens.error("the labels of the edges are too complicated to compare", at=at) from None
        if overlaps:
            raise tokens.error(
                f"state {source} has two edges for one letter", "make the automaton deterministic", at=at
            )
    return [state for state in range(num_states) if covered[state] != TRUE]


def write_secret(problem: Problem, export: Export) -> str:
    """Return the HOA file of the automaton of a problem's secret. Raises InputError when the secret has none."""
    if not isinstance(problem.secret, Language):
        raise InputError([Fault("secret", "has no automaton", "only languages become HOA files")], problem.name)
    export.notes.append("HOA holds the automaton of the secret and nothing else")
    return automaton_to_hoa(problem.secret.automaton, name=problem.name)


def automaton_to_hoa(automaton: Automaton, *, name: str = "") -> str:
    """Return the HOA file of an automaton: complete, deterministic, acceptance on states.

    automaton: the automaton; that it reads the state left is kept in the header `opaq-reads:`, which other tools skip.
    name: the `name:` of the header; left out when it is empty.
    """
    labels = sorted(frozenset().union(*(edge.guard.names() for edge in automaton.edges)))
    lines = [
        "HOA: v1",
        *([f"name: {quote(escape_invisible(name))}"] if name else []),
        f"States: {len(automaton.states)}",
    ]
    lines += [f"Start: {automaton.initial}", " ".join([f"AP: {len(labels)}", *map(quote, escape_labels(labels))])]
    lines += ["Acceptance: 1 Inf(0)", "properties: trans-labels explicit-labels state-acc deterministic complete"]
    lines += [] if automaton.reads == "entered" else [f"opaq-reads: {automaton.reads}"]
    index_of = {label: position for position, label in enumerate(labels)}
    leaving: list[list[Edge]] = [[] for _ in automaton.states]
    for edge in automaton.edges:
        leaving[edge.source].append(edge)
    lines.append("--BODY--")
    for state, name in enumerate(escape_labels(automaton.states)):
        lines.append(f"State: {state} {quote(name)}{' {0}' if state in automaton.accepting else ''}")
        lines += [f"[{text}] {target}" for text, target in _split_edges(leaving[state], state, index_of)]
    return "\n".join([*lines, "--END--", ""])


def _split_edges(edges: Sequence[Edge], state: int, index_of: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the edges of a state as (label expression, target), no two for one letter.

    edges: those that leave the state, in the order they are tried; index_of: label -> its number in `AP:`.
    Each is without the letters of those before it, and the last one stays where none matches; empty ones are left out.
    """
    diagrams = Diagrams()
    earlier: list[tuple[int, Guard]] = []
    for guard, target in [*((edge.guard, edge.target) for edge in edges), (Guard("true"), state)]:
        function = diagrams.of_guard(guard, index_of)
        overlapping = [(other, text) for other, text in earlier if diagrams.both([function, other]) != FALSE]
        remaining = diagrams.both([function, *(diagrams.negate(other) for other, _ in overlapping)])
        if remaining != FALSE:
            others = [Guard("not", parts=(other,)) for _, other in overlapping]
            parts = (*([] if guard.kind == "true" and others else [guard]), *others)
            yield _text(parts[0] if len(parts) == 1 else Guard("and", parts=parts), index_of), target
        earlier.append((function, guard))


def _text(guard: Guard, index_of: dict[str, int]) -> str:
    """Return a guard as a label expression of HOA, e.g. "0&!1"; `index_of` gives the numbers of labels."""
    if guard.kind == "label":
        return str(index_of[guard.label])
    if guard.kind == "not":
        inner = _text(guard.parts[0], index_of)
        return f"!{inner}" if guard.parts[0].kind == "label" else f"!({inner})"
    if guard.kind in ("and", "or"):
        texts = [(part.kind in ("label", "not"), _text(part, index_of)) for part in guard.parts]
        return ("&" if guard.kind == "and" else "|").join(text if plain else f"({text})" for plain, text in texts)
    return guard.kind[0]
