"""Automata and small models as Graphviz drawings, and automata read back from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from opaq.errors import BudgetError
from opaq.escapes import printable
from opaq.formats.registry import Export
from opaq.formats.signs import Sign, Signs, quoted, unquoted
from opaq.formats.umb.umb_values import distinct
from opaq.model.automaton import Automaton, Edge
from opaq.model.guard import Guard, GuardError, parse_guard
from opaq.model.imported import Imported
from opaq.model.mdp import MDP
from opaq.model.problem import Problem
from opaq.spec.yaml_reader import read_text

MAX_DRAWN = 500  # states of a model beyond which a drawing shows nothing
MAX_STATES = 100_000
MAX_GUARD = 10_000
_PATTERN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>->|--|[\[\]{}=;,:])"
    r"|(?P<name>[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*|-?(?:\.\d+|\d+(?:\.\d*)?))",
    re.DOTALL,
)
_MARKERS = ("point", "none", "plaintext", "plain")


def read_dot(path: str) -> Automaton:
    """Read the automaton that a file draws. Raises InputError."""
    return automaton_from_dot(read_text(path), source=path)


def dot_of_automaton(automaton: Automaton, export: Export) -> str:
    """An automaton as a drawing."""
    return automaton_to_dot(automaton)


def dot_of_model(source: Problem | Imported, export: Export) -> str:
    """The model (of a problem) as a drawing."""
    return mdp_to_dot(source.mdp)


def automaton_to_dot(automaton: Automaton) -> str:
    """The text of a Graphviz drawing; edges stand in the order they are tried, and no match means stay."""
    marker, names = _marker(automaton), distinct([printable(name) for name in automaton.states])
    lines = ["digraph automaton {", "  rankdir=LR;", f"  reads={automaton.reads};", f"  {marker} [shape=point];"]
    for place, name in enumerate(names):
        lines.append(f"  {quoted(name)} [shape={'doublecircle' if place in automaton.accepting else 'circle'}];")
    lines.append(f"  {marker} -> {quoted(names[automaton.initial])};")
    for edge in automaton.edges:
        source, target = quoted(names[edge.source]), quoted(names[edge.target])
        lines.append(f"  {source} -> {target} [label={quoted(printable(str(edge.guard)))}];")
    return "\n".join([*lines, "}", ""])


def _marker(automaton: Automaton) -> str:
    name = "start"
    while name in automaton.states:
        name += "_"
    return name


def mdp_to_dot(mdp: MDP) -> str:
    """A drawing of a small model: states with their labels, an arrow for every move with action and probability."""
    if mdp.num_states > MAX_DRAWN:
        raise BudgetError(f"a model of {mdp.num_states:,} states is too large to draw; the limit is {MAX_DRAWN}")
    lines = ["digraph model {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for place, (name, labels) in enumerate(zip(mdp.states, mdp.labels_of(), strict=True)):
        listed = [f"{{{', '.join(sorted(labels))}}}"] if labels else []
        told = "\n".join(map(printable, [name, *listed]))
        lines.append(f"  s{place} [label={quoted(told)}];")
    for place, share in enumerate(mdp.start.tolist()):
        if share > 0:
            lines.append(f"  start{place} [shape=point]; start{place} -> s{place} [label={quoted(f'{share:.4g}')}];")
    for (source, target), told_moves in _moves(mdp).items():
        joined = "\n".join(map(printable, told_moves))
        lines.append(f"  s{source} -> s{target} [label={quoted(joined)}];")
    return "\n".join([*lines, "}", ""])


def _moves(mdp: MDP) -> dict[tuple[int, int], list[str]]:
    """(state, next state) -> the actions that may lead there, each with its probability."""
    found: dict[tuple[int, int], list[str]] = {}
    for choice, (state, action) in enumerate(zip(mdp.choice_state().tolist(), mdp.choice_action.tolist(), strict=True)):
        targets, shares = mdp.transitions.row(choice)
        for target, share in zip(targets.tolist(), shares.tolist(), strict=True):
            told = mdp.actions[action] if share == 1 else f"{mdp.actions[action]}: {share:.4g}"
            found.setdefault((state, target), []).append(told)
    return found


def automaton_from_dot(text: str, *, source: str = "") -> Automaton:
    """Read an automaton from a drawing.

    Edges carry guards as labels (none: `true`), accepting states are double circles, and an arrow from a node of
    shape point or none marks the initial state; without one it is the state mentioned first. Raises InputError.
    """
    signs = Signs(text, _PATTERN, source=source)
    drawing = _Drawing()
    _read_opening(signs)
    while not signs.skip("}"):
        _read_statement(signs, drawing)
        signs.skip(";", ",")
    if signs.next.kind != "end":
        raise signs.unexpected("nothing after '}'")
    return _assembled(signs, drawing)


@dataclass(slots=True)
class _Arrow:
    source: str
    target: str
    attributes: dict[str, tuple[str, Sign]]
    sign: Sign


@dataclass(slots=True)
class _Drawing:
    """What has been drawn so far, and what new nodes and edges look like."""

    graph: dict[str, tuple[str, Sign]] = field(default_factory=dict)
    node: dict[str, tuple[str, Sign]] = field(default_factory=dict)
    edge: dict[str, tuple[str, Sign]] = field(default_factory=dict)
    nodes: dict[str, dict[str, tuple[str, Sign]]] = field(default_factory=dict)
    arrows: list[_Arrow] = field(default_factory=list)

    def look(self, name: str, attribute: str) -> str:
        """What a node's attribute says, empty if it has none."""
        return self.nodes[name].get(attribute, ("",))[0].lower()


def _word(sign: Sign) -> str:
    return sign.text.lower() if sign.kind == "name" else ""


def _read_opening(signs: Signs) -> None:
    if _word(signs.next) == "strict":
        signs.take()
    if _word(signs.next) != "digraph":
        raise signs.unexpected("'digraph'")
    signs.take()
    if signs.next.kind in ("name", "string"):
        signs.take()
    signs.expect_sign("{")


def _name(signs: Signs, wanted: str) -> str:
    if signs.next.kind not in ("name", "string"):
        raise signs.unexpected(wanted)
    sign = signs.take()
    return unquoted(sign.text) if sign.kind == "string" else sign.text


def _read_statement(signs: Signs, drawing: _Drawing) -> None:
    begun, word = signs.next, _word(signs.next)
    if word == "subgraph" or begun.text == "{":
        raise signs.error(begun, "subgraphs are not read", "draw the automaton as one graph")
    if word in ("graph", "node", "edge"):
        signs.take()
        {"graph": drawing.graph, "node": drawing.node, "edge": drawing.edge}[word].update(_attributes(signs))
        return
    name = _name(signs, "a state, an edge or '}'")
    if signs.skip("="):
        drawing.graph[name] = (_name(signs, "a value"), begun)
        return
    path = [name]
    while signs.skip("->"):
        path.append(_name(signs, "a state"))
    if signs.next.text in ("--", ":"):
        what = "edges without direction" if signs.next.text == "--" else "ports"
        raise signs.error(signs.next, f"{what} are not read", "write edges as a -> b")
    attributes = _attributes(signs)
    for each in path:
        drawing.nodes.setdefault(each, dict(drawing.node))
    if len(drawing.nodes) > MAX_STATES:
        raise signs.error(begun, f"more than {MAX_STATES:,} states")
    if len(path) == 1:
        drawing.nodes[name].update(attributes)
    for source, target in pairwise(path):
        drawing.arrows.append(_Arrow(source, target, drawing.edge | attributes, begun))


def _attributes(signs: Signs) -> dict[str, tuple[str, Sign]]:
    """The attributes in brackets, if any."""
    found: dict[str, tuple[str, Sign]] = {}
    while signs.skip("["):
        while not signs.skip("]"):
            key = _name(signs, "an attribute or ']'")
            signs.expect_sign("=")
            sign = signs.next
            found[key] = (_name(signs, "a value"), sign)
            signs.skip(",", ";")
    return found


def _assembled(signs: Signs, drawing: _Drawing) -> Automaton:
    entered = {arrow.target for arrow in drawing.arrows}
    markers = {name for name in drawing.nodes if drawing.look(name, "shape") in _MARKERS and name not in entered}
    states = tuple(name for name in drawing.nodes if name not in markers)
    if not states:
        raise signs.error(signs.next, "there are no states", "draw at least one")
    place = {name: position for position, name in enumerate(states)}
    marked = [arrow for arrow in drawing.arrows if arrow.source in markers]
    if len(marked) > 1:
        raise signs.error(marked[1].sign, "a second initial state", "mark one state only")
    accepting = frozenset(
        position
        for name, position in place.items()
        if drawing.look(name, "shape") == "doublecircle" or drawing.look(name, "peripheries") == "2"
    )
    edges = tuple(
        Edge(place[arrow.source], place[arrow.target], _guard(signs, arrow))
        for arrow in drawing.arrows
        if arrow.source not in markers
    )
    initial = place[marked[0].target] if marked else 0
    reads, sign = drawing.graph.get("reads", ("entered", signs.next))
    if reads not in ("entered", "left"):
        raise signs.error(sign, f"reads is '{reads}'", "write entered or left")
    return Automaton(states, initial, accepting, edges, "left" if reads == "left" else "entered")


def _guard(signs: Signs, arrow: _Arrow) -> Guard:
    text, sign = arrow.attributes.get("label", ("true", arrow.sign))
    if len(text) > MAX_GUARD:
        raise signs.error(sign, f"a guard of {len(text):,} characters is too long; the limit is {MAX_GUARD:,}")
    try:
        return parse_guard(text if text.strip() else "true")
    except GuardError as error:
        raise signs.error(sign, f"the label of {arrow.source} -> {arrow.target} is not a guard: {error}") from None
