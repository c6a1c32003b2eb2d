"""Write automata and small models as Graphviz drawings, and read automata back from them.

An automaton or a model goes out as DOT text, DOT text comes in as an `Automaton`. What is read of the language:

    graph     ::= "strict"? "digraph" name? "{" (statement (";" | ",")?)* "}"
    statement ::= name ("->" name)* attributes         a state, or a chain of edges
                | ("node" | "edge" | "graph") attributes       of all that follow
                | name "=" value                       of the graph; `reads=left` is opaq's own
    attributes ::= ("[" (name "=" value (";" | ",")?)* "]")*

An edge is `q0 -> q1 [label="p & !q"];`, its label a guard. Subgraphs, ports and edges without direction are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from opaq.errors import BudgetError, escape_invisible
from opaq.formats.names import escape_labels, quote, unique_name, unquote
from opaq.lexer import InFile, Tokens
from opaq.model.automaton import Automaton, Edge, Guard, GuardError, parse_guard
from opaq.model.mdp import MDP
from opaq.spec.yaml import read_text

_MAX_DRAWN = 500  # states of a model beyond which a drawing shows nothing
_MAX_STATES = 100_000
_MAX_GUARD = 10_000
_PATTERN = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|\#[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>->|--|[\[\]{}=;,:])"
    r"|(?P<name>(?![0-9])(?:[A-Za-z0-9_]|[^\x00-\x7f])+|-?(?:\.\d+|\d+(?:\.\d*)?))",
    re.DOTALL,
)
_MARKERS = ("point", "none", "plaintext", "plain")


def read_dot(path: str) -> Automaton:
    """Read the automaton that a file draws.

    path: the file. Raises InputError when it cannot be read, or with the first fault and its position.
    """
    return automaton_from_dot(read_text(path), source=path)


def automaton_to_dot(automaton: Automaton) -> str:
    """Return the Graphviz drawing of an automaton, which `automaton_from_dot` reads back.

    Edges stand in the order they are tried, and no match means stay. Accepting states are double circles, and an arrow
    from a point marks the initial state. Invisible characters of names are escaped.
    """
    marker, names = unique_name("start", automaton.states), escape_labels(automaton.states)
    lines = ["digraph automaton {", "  rankdir=LR;", f"  reads={automaton.reads};", f"  {marker} [shape=point];"]
    for index, name in enumerate(names):
        lines.append(f"  {quote(name)} [shape={'doublecircle' if index in automaton.accepting else 'circle'}];")
    lines.append(f"  {marker} -> {quote(names[automaton.initial])};")
    for edge in automaton.edges:
        source, target = quote(names[edge.source]), quote(names[edge.target])
        lines.append(f"  {source} -> {target} [label={quote(escape_invisible(str(edge.guard)))}];")
    return "\n".join([*lines, "}", ""])


def mdp_to_dot(mdp: MDP) -> str:
    """Return a drawing of a small model: states with their labels, an arrow per move with action and probability.

    mdp: the model; probabilities are rounded to four digits, and those of 1 left out.
    Raises BudgetError for more than _MAX_DRAWN states. A drawing of a model is not read back.
    """
    if mdp.num_states > _MAX_DRAWN:
        raise BudgetError(f"a model of {mdp.num_states:,} states is too large to draw; the limit is {_MAX_DRAWN}")
    lines = ["digraph model {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for index, (name, labels) in enumerate(zip(mdp.states, mdp.labels_of(), strict=True)):
        label_lines = [f"{{{', '.join(sorted(labels))}}}"] if labels else []
        text = "\n".join(map(escape_invisible, [name, *label_lines]))
        lines.append(f"  s{index} [label={quote(text)}];")
    for index, share in enumerate(mdp.start.tolist()):
        if share > 0:
            lines.append(f"  start{index} [shape=point]; start{index} -> s{index} [label={quote(f'{share:.4g}')}];")
    for (source, target), moves in _merge_moves(mdp).items():
        move_text = "\n".join(map(escape_invisible, moves))
        lines.append(f"  s{source} -> s{target} [label={quote(move_text)}];")
    return "\n".join([*lines, "}", ""])


def _merge_moves(mdp: MDP) -> dict[tuple[int, int], list[str]]:
    """Return (state, next state) -> the actions that may lead there, each with its probability."""
    moves: dict[tuple[int, int], list[str]] = {}
    for choice, (state, action) in enumerate(zip(mdp.choice_state().tolist(), mdp.choice_action.tolist(), strict=True)):
        targets, shares = mdp.transitions.row(choice)
        for target, share in zip(targets.tolist(), shares.tolist(), strict=True):
            text = mdp.actions[action] if share == 1 else f"{mdp.actions[action]}: {share:.4g}"
            moves.setdefault((state, target), []).append(text)
    return moves


def automaton_from_dot(text: str, *, source: str = "") -> Automaton:
    """Read an automaton from a drawing.

    text: the drawing; source: its file, for errors.
    Edges carry guards as labels (none: `true`), accepting states are double circles, and an arrow from a node of
    shape point or none marks the initial state; without one it is the state mentioned first. Raises InputError.
    """
    tokens = Tokens(text, _PATTERN, InFile(source))
    drawing = _Drawing()
    _read_opening(tokens)
    while not tokens.skip("}"):
        _read_statement(tokens, drawing)
        tokens.skip(";", ",")
    if tokens.kind != "end":
        raise tokens.unexpected("nothing after '}'")
    return _assemble(tokens, drawing)


_Attributes = dict[str, tuple[str, int]]  # name -> its value, and the token it is


@dataclass(slots=True)
class _Arrow:
    """One arrow: its ends, its attributes, and the token it begins with."""

    source: str
    target: str
    attributes: _Attributes
    at: int


@dataclass(slots=True)
class _Drawing:
    """The nodes and arrows so far, and the attributes of new ones.

    looks: "graph", "node" and "edge" -> the attributes that new ones get; nodes: name -> its attributes.
    """

    looks: dict[str, _Attributes] = field(default_factory=lambda: {"graph": {}, "node": {}, "edge": {}})
    nodes: dict[str, _Attributes] = field(default_factory=dict)
    arrows: list[_Arrow] = field(default_factory=list)

    def look(self, name: str, attribute: str) -> str:
        """Return the attribute of a node in lower case, empty if it has none."""
        return self.nodes[name].get(attribute, ("",))[0].lower()


def _word(tokens: Tokens) -> str:
    """Return the next token in lower case if it may be a keyword, else ""."""
    return tokens.text.lower() if tokens.kind == "name" else ""


def _read_opening(tokens: Tokens) -> None:
    """Read `digraph NAME {`, perhaps after `strict`. Raises InputError for anything else."""
    if _word(tokens) == "strict":
        tokens.take()
    if _word(tokens) != "digraph":
        raise tokens.unexpected("'digraph'")
    tokens.take()
    if tokens.kind in ("name", "string"):
        tokens.take()
    tokens.expect("{")


def _read_name(tokens: Tokens, wanted: str) -> str:
    """Return the next token, a name or a string; `wanted` is what the error says was expected."""
    if tokens.kind not in ("name", "string"):
        raise tokens.unexpected(wanted)
    return unquote(tokens.take()) if tokens.kind == "string" else tokens.take()


def _read_statement(tokens: Tokens, drawing: _Drawing) -> None:
    """Read a node, a chain of arrows, or attributes of all nodes or edges, into the drawing."""
    first, word = tokens.at, _word(tokens)
    if word == "subgraph" or tokens.text == "{":
        raise tokens.error("subgraphs are not read", "draw the automaton as one graph")
    if word in drawing.looks:
        tokens.take()
        drawing.looks[word].update(_read_attributes(tokens))
        return
    path = [_read_name(tokens, "a state, an edge or '}'")]
    if tokens.skip("="):
        drawing.looks["graph"][path[0]] = (_read_name(tokens, "a value"), first)
        return
    while tokens.skip("->"):
        path.append(_read_name(tokens, "a state"))
    if tokens.text in ("--", ":"):
        what = "edges without direction" if tokens.text == "--" else "ports"
        raise tokens.error(f"{what} are not read", "write edges as a -> b")
    attributes = _read_attributes(tokens)
    for name in path:
        drawing.nodes.setdefault(name, dict(drawing.looks["node"]))
    if len(drawing.nodes) > _MAX_STATES:
        raise tokens.error(f"more than {_MAX_STATES:,} states", at=first)
    if len(path) == 1:
        drawing.nodes[path[0]].update(attributes)
    drawing.arrows += [_Arrow(*ends, drawing.looks["edge"] | attributes, first) for ends in pairwise(path)]


def _read_attributes(tokens: Tokens) -> _Attributes:
    """Return the attributes in brackets, if any; of two with one name the later counts."""
    attributes: _Attributes = {}
    while tokens.skip("["):
        while not tokens.skip("]"):
            key = _read_name(tokens, "an attribute or ']'")
            tokens.expect("=")
            at = tokens.at
            attributes[key] = (_read_name(tokens, "a value"), at)
            tokens.skip(",", ";")
    return attributes


def _assemble(tokens: Tokens, drawing: _Drawing) -> Automaton:
    """Return the automaton of a drawing. Raises InputError when it has no state or two initial ones.

    tokens: for the position of faults; drawing: all that was read.
    Nodes of the shapes _MARKERS that no arrow enters are no states: they mark the initial one.
    """
    entered = {arrow.target for arrow in drawing.arrows}
    markers = {name for name in drawing.nodes if drawing.look(name, "shape") in _MARKERS and name not in entered}
    index_of = {name: index for index, name in enumerate(name for name in drawing.nodes if name not in markers)}
    if not index_of:
        raise tokens.error("there are no states", "draw at least one")
    initial_arrows = [arrow for arrow in drawing.arrows if arrow.source in markers]
    if len(initial_arrows) > 1:
        raise tokens.error("a second initial state", "mark one state only", at=initial_arrows[1].at)
    accepting = frozenset(
        index
        for name, index in index_of.items()
        if drawing.look(name, "shape") == "doublecircle" or drawing.look(name, "peripheries") == "2"
    )
    edges = tuple(
        Edge(index_of[arrow.source], index_of[arrow.target], _parse_label(tokens, arrow))
        for arrow in drawing.arrows
        if arrow.source not in markers
    )
    reads, at = drawing.looks["graph"].get("reads", ("entered", tokens.at))
    if reads not in ("entered", "left"):
        raise tokens.error(f"reads is '{reads}'", "write entered or left", at=at)
    initial = index_of[initial_arrows[0].target] if initial_arrows else 0
    return Automaton(tuple(index_of), initial, accepting, edges, "left" if reads == "left" else "entered")


def _parse_label(tokens: Tokens, arrow: _Arrow) -> Guard:
    """Return the guard on an arrow, true where it has no label.

    Raises InputError when its label is no guard, or longer than _MAX_GUARD characters.
    """
    text, at = arrow.attributes.get("label", ("true", arrow.at))
    if len(text) > _MAX_GUARD:
        finding = f"a guard of {len(text):,} characters is too long; the limit is {_MAX_GUARD:,}"
        raise tokens.error(finding, at=at)
    try:
        return parse_guard(text if text.strip() else "true")
    except GuardError as error:
        finding = f"the label of {arrow.source} -> {arrow.target} is not a guard: {error}"
        raise tokens.error(finding, at=at) from None
