"""Automata over labels, as users draw them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from opaq.errors import Faults
from opaq.model.automaton import Automaton, Edge
from opaq.model.guard import Guard, GuardError, parse_guard
from opaq.spec.cursor import (
    at,
    check_keys,
    gather,
    item,
    listing,
    mapping,
    option,
    shown,
    suggestion,
    unique_names,
    wrong,
)
from opaq.spec.names import Known, known

KEYS = ("states", "initial", "accepting", "edges", "reads")
EDGE_KEYS = ("from", "to", "when")
MAX_STATES = 100_000
_REQUIRED = {"states": "list its states", "initial": "name the state it starts in", "edges": "list its edges"}
_EDGE_REQUIRED = {"from": "name a state", "to": "name a state", "when": "write a guard, e.g. 'true'"}

Labels = Mapping[str, Any] | None  # label -> anything; None: the labels could not be read, so none is unknown


def build_automaton(
    spec: Mapping[str, Any], *, labels: Any = None, faults: Faults | None = None, path: str = "automaton"
) -> Automaton:
    """An automaton from {states, initial, accepting, edges, reads}; guards are checked if `labels` are given.

    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    allowed = None if labels is None else dict.fromkeys(labels)
    return gather(lambda found: read_automaton(spec, path, found, allowed, accepts=False), faults)


def read_automaton(value: Any, path: str, faults: Faults, labels: Labels, *, accepts: bool) -> Automaton | None:
    """An automaton from its mapping; `accepts` says whether it needs accepting states."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    required = _REQUIRED | ({"accepting": "list the accepting states"} if accepts else {})
    check_keys(spec, path, faults, allowed=KEYS, required=required)
    listed = "states" in spec
    names = unique_names(spec["states"], at(path, "states"), faults, kind="state", most=MAX_STATES) if listed else None
    states = known("automaton state", names)
    initial = states.find(spec["initial"], at(path, "initial"), faults) if "initial" in spec else None
    accepting = states.find_all(spec.get("accepting", []), at(path, "accepting"), faults)
    edges = _read_edges(spec["edges"], at(path, "edges"), faults, states, labels) if "edges" in spec else None
    reads = _read_reads(spec.get("reads", "entered"), at(path, "reads"), faults)
    if names is None or initial is None or accepting is None or edges is None:
        return None
    return Automaton(names, initial, frozenset(accepting), tuple(edges), reads)


def check_guards(automaton: Automaton, path: str, faults: Faults, labels: Labels) -> None:
    """Note the labels that the guards of a finished automaton mention and the model does not have."""
    for place, edge in enumerate(automaton.edges):
        _check_labels(edge.guard, at(item(at(path, "edges"), place), "when"), faults, labels)


def unknown_label(label: str, path: str, faults: Faults, labels: Mapping[str, Any]) -> None:
    """Note a label that the model does not have."""
    listed = f"the labels are {', '.join(labels)}" if labels else "the model has no labels"
    near = suggestion(label, labels, kind="label") if len(labels) > 8 else listed
    faults.error(path, f"unknown label '{label}'", near or listed)


def _read_reads(value: Any, path: str, faults: Faults) -> Literal["entered", "left"]:
    return "left" if option(value, path, faults, options=("entered", "left")) == "left" else "entered"


def _read_edges(value: Any, path: str, faults: Faults, states: Known, labels: Labels) -> list[Edge] | None:
    entries = listing(value, path, faults)
    if entries is None:
        return None
    read = [_read_edge(entry, item(path, place), faults, states, labels) for place, entry in enumerate(entries)]
    edges = [edge for edge in read if edge is not None]
    return edges if len(edges) == len(read) else None


def _read_edge(value: Any, path: str, faults: Faults, states: Known, labels: Labels) -> Edge | None:
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=EDGE_KEYS, required=_EDGE_REQUIRED)
    source = states.find(spec["from"], at(path, "from"), faults) if "from" in spec else None
    target = states.find(spec["to"], at(path, "to"), faults) if "to" in spec else None
    guard = _read_guard(spec["when"], at(path, "when"), faults, labels) if "when" in spec else None
    if source is None or target is None or guard is None:
        return None
    return Edge(source, target, guard)


def _read_guard(value: Any, path: str, faults: Faults, labels: Labels) -> Guard | None:
    if isinstance(value, bool):
        return Guard("true" if value else "false")
    if not isinstance(value, str):
        wrong(value, path, faults, "a guard", advice="write labels with ! & | in quotes")
        return None
    try:
        guard = parse_guard(value)
    except GuardError as error:
        faults.error(path, f"{shown(value)} is not a guard: {error}")
        return None
    _check_labels(guard, path, faults, labels)
    return guard


def _check_labels(guard: Guard, path: str, faults: Faults, labels: Labels) -> None:
    if labels is None:
        return
    for label in sorted(guard.names() - set(labels)):
        unknown_label(label, path, faults, labels)
