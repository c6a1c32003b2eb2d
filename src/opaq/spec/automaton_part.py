"""Read and write automata over labels: drawn, in another file, or written as formulas and regular expressions.

A mapping comes in, a `model.Automaton` goes out. It is one of

    automaton: {states: [x, y], initial: x, accepting: [y], edges: [{from: x, to: y, when: "p & !q"}]}
    automaton: {file: x.hoa}                  HOA or DOT, relative to the problem file
    ltlf: "F(p & F q)"                        a formula on finite runs (opaq.automata.formula has the grammar)
    regex: "p .* q"                           a regular expression over labels (opaq.automata.regex)

Edges are tried in order and no match means stay. Labels that the model does not have are faults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from opaq.errors import BudgetError, Faults, check_types, describe_value
from opaq.model.automaton import MAX_STATES, Automaton, Edge, Guard, GuardError, check_guards, check_labels, parse_guard
from opaq.spec.cursor import Cursor, NameTable, Scope, read_with_faults
from opaq.spec.grammar import (
    FLAG,
    TEXT_SCHEMA,
    Fields,
    Key,
    Plain,
    Record,
    ValueType,
    accept_object,
    build_from_keys,
    list_of,
    name_of,
    names_of,
    one_of,
    raw_value,
    single_key_schema,
    unique_names,
    write_unchanged,
)

LANGUAGES = ("automaton", "ltlf", "regex")
_EXAMPLES = {"ltlf": '"F(p & F q)"', "regex": '"p .* q"'}


def build_automaton(
    spec: Mapping[str, Any], *, labels: Any = None, faults: Faults | None = None, path: str = "automaton"
) -> Automaton:
    """Build an automaton over labels.

    spec: {"states": [...], "initial": name, "accepting": [...], "edges": [{"from", "to", "when"}], "reads": "entered"}.
    labels: those that guards may mention; None allows all.
    faults: collects every fault instead of raising InputError; the automaton is then None when it is unusable.
    path: what faults call the automaton.
    """
    check_types({"labels": (labels, _are_names, "a list of labels")}, optional=("labels",))
    names = Scope(labels=None if labels is None else dict.fromkeys(labels))
    return read_with_faults(AUTOMATON.read, names.cursor(spec, path), faults)


def _are_names(labels: object) -> bool:
    """Return whether a value is a collection of texts; a single text is none."""
    is_collection = isinstance(labels, Iterable) and not isinstance(labels, str)
    return is_collection and all(isinstance(label, str) for label in labels)  # type: ignore[attr-defined]


def _check_guards(cursor: Cursor, automaton: Automaton) -> None:
    """Note the labels that the guards of a finished automaton mention and the model does not have."""
    check_guards(automaton, cursor.faults, cursor.path, labels=cursor.scope.labels)


def read_language(fields: Fields, *, accepts: bool) -> Automaton | None:
    """Return the automaton of the kind that the fields have: drawn, a formula or an expression; None after a fault.

    fields: an opened mapping with one of the keys LANGUAGES as its kind, and perhaps `minimal`.
    accepts: whether it needs accepting states, which a drawn one must then list.
    """
    cursor, minimal = fields.at(str(fields.kind)), fields.read("minimal")
    if fields.kind != "automaton":
        automaton = _translate(cursor, "ltlf" if fields.kind == "ltlf" else "regex", minimal=minimal is not False)
        return None if minimal is None else automaton
    if accepts and isinstance(cursor.value, Mapping) and not {"accepting", "file"} & set(cursor.value):
        cursor.child("accepting", None).error("is missing", "list the accepting states")
    return _DRAWING.read(cursor)


def _read_drawing(cursor: Cursor) -> Automaton | None:
    """Return an automaton stated by its states and edges, or read from another file.

    cursor: the mapping of `automaton`, or {file: name} where the scope has sources to read it. None after a fault.
    """
    if not isinstance(cursor.value, Mapping) or set(cursor.value) != {"file"} or cursor.scope.sources is None:
        return AUTOMATON.read(cursor)
    automaton = cursor.scope.sources.automaton(cursor.child("file", cursor.value["file"]))
    if automaton is not None:
        _check_guards(cursor, automaton)
    return automaton


def _make(fields: Fields) -> Automaton | None:
    """Build the automaton; initial and accepting states and edges refer to its own states.

    fields: the keys of AUTOMATON; without `accepting` no state accepts. None when one of them is unusable.
    """
    names: tuple[str, ...] | None = fields.read("states")
    scope = dataclasses.replace(fields.cursor.scope, automaton=NameTable.of("automaton state", names))
    initial = fields.read("initial", scope)
    accepting = fields.read("accepting", scope) if "accepting" in fields else []
    edges, reads = fields.read("edges", scope), fields.read("reads")
    if names is None or initial is None or accepting is None or edges is None or reads is None:
        return None
    return Automaton(names, initial, frozenset(accepting), tuple(edges), reads)


def _read_guard(cursor: Cursor) -> Guard | None:
    """Return the guard of an edge: text such as "p & !q", or true or false.

    Returns None after noting what is no guard; a label that the model does not have is noted, and the guard returned.
    """
    if isinstance(cursor.value, bool):
        return Guard("true" if cursor.value else "false")
    if not isinstance(cursor.value, str):
        return cursor.wrong("a guard", "write labels with ! & | in quotes")
    try:
        guard = parse_guard(cursor.value)
    except GuardError as error:
        return cursor.error(f"{describe_value(cursor.value)} is not a guard: {error}")
    _check_labels(cursor, guard.names())
    return guard


def _check_labels(cursor: Cursor, mentioned: set[str] | frozenset[str]) -> bool:
    """Note the labels that are mentioned and that the model does not have; return whether there are none.

    cursor: where the faults are noted; its scope has the labels. mentioned: the labels to look for.
    """
    return check_labels(mentioned, cursor.faults, cursor.path, labels=cursor.scope.labels)


def _translate(cursor: Cursor, kind: Literal["ltlf", "regex"], *, minimal: bool) -> Automaton | None:
    """Return the automaton of a formula or an expression over the label sets that occur; None after a fault.

    cursor: the text, in a scope with states and labels.
    kind: the notation of the text at the cursor.
    minimal: whether the automaton is made minimal.
    Labels that the model does not have are faults, and so is an automaton that grows too large; what its author should
    know (a label that no state carries, a shorter formula) is noted as warnings.
    """
    from opaq.automata.formula import NotationError, parse_ltlf  # problems without formulas need none of it
    from opaq.automata.regex import parse_regex
    from opaq.automata.translate import language_automaton

    text = cursor.value
    if not isinstance(text, str):
        return cursor.wrong("text", f"write it in quotes, e.g. {_EXAMPLES[kind]}")
    try:
        mentioned = parse_ltlf(text).labels() if kind == "ltlf" else parse_regex(text).labels()
        alphabet = _alphabet(cursor.scope)
        if not _check_labels(cursor, mentioned) or alphabet is None:
            return None
        automaton, warnings = language_automaton(kind, text, alphabet, minimal=minimal)
    except NotationError as error:
        return cursor.error(f"{describe_value(text)} cannot be read: {error}")
    except BudgetError as error:
        return cursor.error(str(error))
    for warning in warnings:
        cursor.warn(warning)
    return automaton


def _alphabet(scope: Scope) -> list[frozenset[str]] | None:
    """Return the label sets that occur, in the order in which states first carry them.

    scope: has the states and label -> states. Returns None when states or some labels are not known.
    """
    labels = scope.labels
    if labels is None or scope.states.index is None or any(states is None for states in labels.values()):
        return None
    has_label = np.zeros((len(scope.states), len(labels)), dtype=bool)
    for index, states in enumerate(labels.values()):
        if states is not None:
            has_label[states, index] = True
    distinct, first = np.unique(has_label, axis=0, return_index=True)
    names = tuple(labels)
    return [frozenset(names[index] for index in np.flatnonzero(row)) for row in distinct[np.argsort(first)]]


def _parts(automaton: Automaton, scope: Scope) -> Plain:
    """Return the values of the keys, to be written: states by name, guards as text."""
    states = automaton.states
    return {
        "states": states,
        "initial": states[automaton.initial],
        "accepting": [states[state] for state in sorted(automaton.accepting)],
        "edges": [
            {"from": states[edge.source], "to": states[edge.target], "when": str(edge.guard)}
            for edge in automaton.edges
        ],
        "reads": automaton.reads,
    }


_NODE = name_of("automaton", "a state of the automaton")
_GUARD: ValueType[Guard] = ValueType(
    "a guard: labels joined with `! & | ( )`, or `true`", _read_guard, {"type": ["string", "boolean"]}
)
_EDGE: Record[Edge] = Record(
    "edge",
    "Edges are tried in order; no match means stay.",
    (
        Key("from", _NODE, "Where it leaves.", required="name a state"),
        Key("to", _NODE, "Where it leads.", required="name a state"),
        Key("when", _GUARD, "The label sets it reads.", required="write a guard, e.g. 'true'"),
    ),
    build_from_keys(Edge, "from", "to", "when"),
)
_EDGES = dataclasses.replace(list_of(_EDGE.shape, "a list of edges"), write=write_unchanged)
_READS = "Which label moves it: of the state entered (first that of the start), or of the state left."
AUTOMATON: Record[Automaton] = Record(
    "automaton",
    "A deterministic automaton over labels.",
    (
        Key("states", unique_names("state", MAX_STATES), "Its states.", required="list its states"),
        Key("initial", _NODE, "Where it starts.", required="name the state it starts in"),
        Key("accepting", names_of("automaton", "a list of states"), "The states in which it accepts.", default=()),
        Key("edges", _EDGES, "Tried in order; no match means stay.", required="list its edges"),
        Key("reads", one_of("entered", "left"), _READS, default="entered"),
    ),
    _make,
    _parts,
    example="""\
automaton:
  states: [x, y]
  initial: x
  accepting: [y]
  edges: [{from: x, to: y, when: goal}]""",
)
_DRAWING: ValueType[Automaton] = accept_object(
    ValueType(
        "a mapping: [automaton](#automaton), or `{file: x.hoa}` or `{file: x.dot}`, relative to the problem file",
        _read_drawing,
        (AUTOMATON.shape, single_key_schema("file", TEXT_SCHEMA)),
        AUTOMATON.write,
        inside=(AUTOMATON.shape,),
    ),
    Automaton,
    _check_guards,
)
_LTLF, _REGEX = (raw_value(f"text, e.g. `{_EXAMPLES[kind]}`", TEXT_SCHEMA) for kind in ("ltlf", "regex"))
LANGUAGE_KEYS = {
    "automaton": Key("automaton", _DRAWING, "An automaton over labels."),
    "ltlf": Key("ltlf", _LTLF, "A formula of linear temporal logic on finite runs."),
    "regex": Key("regex", _REGEX, "A regular expression over labels."),
}
MINIMAL = Key(
    "minimal",
    FLAG,
    "Whether the automaton of a formula or an expression is made minimal.",
    default=True,
    goes_with=("ltlf", "regex"),
    otherwise_with={"automaton": "an automaton is taken as it is drawn"},
)
