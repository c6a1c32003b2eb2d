"""Writing automata in the Hanoi Omega-Automata format (HOA v1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opaq.automata.diagrams import FALSE, Diagrams
from opaq.errors import Fault, InputError
from opaq.escapes import printable
from opaq.formats.format_registry import Export
from opaq.formats.naming import quoted, shown
from opaq.model.automaton import Automaton, Edge
from opaq.model.guard import Guard
from opaq.model.problem import Problem
from opaq.model.secret import Language


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
    lines += [f"Start: {automaton.initial}", " ".join([f"AP: {len(labels)}", *map(quoted, shown(labels))])]
    lines += ["Acceptance: 1 Inf(0)", "properties: trans-labels explicit-labels state-acc deterministic complete"]
    lines += [] if automaton.reads == "entered" else [f"opaq-reads: {automaton.reads}"]
    index_of = {label: position for position, label in enumerate(labels)}
    leaving: list[list[Edge]] = [[] for _ in automaton.states]
    for edge in automaton.edges:
        leaving[edge.source].append(edge)
    lines.append("--BODY--")
    for state, name in enumerate(shown(automaton.states)):
        lines.append(f"State: {state} {quoted(name)}{' {0}' if state in automaton.accepting else ''}")
        lines += [f"[{text}] {target}" for text, target in _disjoint(leaving[state], state, index_of)]
    return "\n".join([*lines, "--END--", ""])


def _disjoint(edges: Sequence[Edge], state: int, index_of: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The edges of a state, each without the letters of those before it, and staying where none matches."""
    diagrams = Diagrams()
    earlier: list[tuple[int, Guard]] = []
    for guard, target in [*((edge.guard, edge.target) for edge in edges), (Guard("true"), state)]:
        meant = diagrams.of_guard(guard, index_of)
        taken = [(other, text) for other, text in earlier if diagrams.both([meant, other]) != FALSE]
        left = diagrams.both([meant, *(diagrams.negate(other) for other, _ in taken)])
        if left != FALSE:
            others = [Guard("not", parts=(other,)) for _, other in taken]
            parts = (*([] if guard.kind == "true" and others else [guard]), *others)
            yield _text(parts[0] if len(parts) == 1 else Guard("and", parts=parts), index_of), target
        earlier.append((meant, guard))


def _text(guard: Guard, index_of: dict[str, int]) -> str:
    if guard.kind == "label":
        return str(index_of[guard.label])
    if guard.kind == "not":
        inner = _text(guard.parts[0], index_of)
        return f"!{inner}" if guard.parts[0].kind == "label" else f"!({inner})"
    if guard.kind in ("and", "or"):
        texts = [(part.kind in ("label", "not"), _text(part, index_of)) for part in guard.parts]
        return ("&" if guard.kind == "and" else "|").join(text if plain else f"({text})" for plain, text in texts)
    return guard.kind[0]
