"""Read and write the secret: which property of a run must stay hidden, from the mapping a user writes.

A mapping with exactly one kind comes in, a secret of `model.secret` goes out, and back. One line of each:

    secret: {last_state: goal}                        also initial_state; true: the state itself
    secret: {visited: [q1, q2]}                       whether any of these was ever visited
    secret: {state_at: {time: 3, states: goal}}       at a time, counted from the start
    secret: {trajectory: true}                        the whole run; also its classes, labels or a variable
    secret: {ltlf: "F(p & F q)"}                      also regex and automaton

Kinds that are registered later (`SECRET.add`) are read in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from opaq.errors import Faults, check_numbers
from opaq.model.mdp import MDP
from opaq.model.secret import (
    MAX_TIME,
    InitialState,
    Language,
    LastState,
    Secret,
    StateAt,
    StateClasses,
    StepsAgo,
    Trajectory,
    Visited,
    check_secret,
)
from opaq.spec.automaton_part import LANGUAGE_KEYS, LANGUAGES, MINIMAL, read_language
from opaq.spec.cursor import Cursor, Scope, read_with_faults
from opaq.spec.grammar import (
    Fields,
    Key,
    Kind,
    Record,
    Union,
    ValueType,
    accept_object,
    attributes,
    build_from_keys,
    one_of,
    raw_value,
)
from opaq.spec.sets import CLASS_FORMS, CLASSES, STATES, WORDS, read_only_states, write_states


def build_secret(
    spec: Mapping[str, Any], mdp: MDP, *, horizon: int | None = None, faults: Faults | None = None, path: str = "secret"
) -> Secret:
    """Build a secret of a model's runs.

    spec: a mapping with one kind of secret, such as {"last_state": "goal"}, {"visited": [...]} or {"ltlf": "F p"}.
    mdp: the model.
    horizon: the number of transitions, with which times are compared; None compares nothing.
    faults: collects every fault instead of raising InputError; the secret is then None when it is unusable.
    path: what faults call the secret.
    """
    check_numbers({"horizon": (horizon, 0, MAX_TIME)}, whole=("horizon",), optional=("horizon",))
    return read_with_faults(ANY_SECRET.read, Scope.of(mdp, horizon=horizon).cursor(spec, path), faults)


def may_have_automaton(secret: Any) -> bool:
    """Return whether a secret has an automaton or is not known to have none.

    secret: a finished one, or the mapping that still is to be read. Anything else counts as not known.
    """
    if isinstance(secret, Mapping):
        return not any(key in secret for key in SECRET.kinds if key not in LANGUAGES)
    return not SECRET.is_object(secret) or isinstance(secret, Language)


def _check(cursor: Cursor, secret: Any) -> None:
    """Note when a finished secret does not fit the model or the horizon."""
    names = cursor.scope
    check_secret(
        secret,
        cursor.faults,
        cursor.path,
        num_states=names.states.size,
        labels=names.labels,
        horizon=names.horizon,
    )


def _read_time(cursor: Cursor) -> int | None:
    """Return a time from 0 to the horizon, to MAX_TIME where that is not known; None after a fault."""
    horizon = cursor.scope.horizon
    return cursor.whole(low=0, high=MAX_TIME if horizon is None else horizon)


def _read_visited(fields: Fields) -> Visited | None:
    """Return the secret `visited`; one given by a label or a state keeps its name for reports. None after a fault."""
    cursor = fields.at("visited")
    states = read_only_states(cursor)
    if states is None:
        return None
    return Visited(states, cursor.value) if isinstance(cursor.value, str) else Visited(states)


def _write_visited(secret: Visited, scope: Scope) -> str | list[str]:
    """Return the label or state that the secret is named after, so that the name survives; else its states."""
    name, index, labels = secret.name, scope.states.index or {}, scope.labels or {}
    label = labels.get(name) if name not in index else None
    same_state = name in index and secret.states.tolist() == [index[name]]
    same_label = label is not None and secret.states.tolist() == label.tolist()
    return name if same_state or same_label else write_states(secret.states, scope)


def _read_language(fields: Fields) -> Language | None:
    """Return the secret of an automaton, a formula or an expression; None after a fault.

    fields: one of `automaton`, `ltlf` and `regex`, with `minimal` and `reveal`. A drawn automaton must list accepting
        states where acceptance is what it reveals.
    """
    reveal = fields.read("reveal")
    automaton = read_language(fields, accepts=reveal == "acceptance")
    return None if automaton is None or reveal is None else Language(automaton, reveal)


def _class_kind(name: str, of: type, help: str, classes: ValueType[StateClasses] = CLASSES) -> Kind[Any]:
    """Return the kind of a secret that is a class of one state of the run, or of all.

    name, help: its key and what the reference page says.
    of: the class of the secret, made of the state classes alone. classes: how those are stated.
    """
    return Kind(Key(name, classes, help), build_from_keys(of, name), of, lambda secret, _: {name: secret.classes})


def _time_kind(name: str, count: str, of: type, help: str) -> Kind[Any]:
    """Return the kind of a secret of a state at one time, counted from the start or back from the end.

    name, help: its key and what the reference page says.
    count: the key and attribute that has the number of transitions.
    of: the class of the secret, made of the count and the state classes.
    """
    record: Record[Any] = Record(
        name,
        help,
        (
            Key(count, _TIME, "How many transitions.", required="give a whole number up to the horizon"),
            Key("states", CLASSES, "What about the state is secret.", required=f"give {CLASS_FORMS}"),
        ),
        build_from_keys(of, count, "states"),
        lambda secret, _: {count: getattr(secret, count), "states": secret.classes},
    )
    return Kind(
        Key(name, record.shape, help),
        build_from_keys(lambda secret: secret, name),
        of,
        lambda secret, _: {name: secret},
    )


def _language_kind(name: str, of: type | None = None) -> Kind[Any]:
    """Return the kind of a secret that an automaton computes from the run.

    name: its key, one of LANGUAGES.
    of: the class of the secret, for the one kind that is written; None for the other notations.
    """
    return Kind(LANGUAGE_KEYS[name], _read_language, of, attributes("automaton", "reveal") if of else None)


_TIME: ValueType[int] = ValueType("a whole number up to the horizon", _read_time, {"type": "integer", "minimum": 0})
_VISITED = raw_value(STATES.description, STATES, write=_write_visited)
_EVER = "Hide whether any of these states was ever visited."
SECRET: Union[Any] = Union.of(
    "secret",
    "What must stay hidden: exactly one kind.",
    [
        _class_kind("last_state", LastState, "Hide where the run ends."),
        _class_kind("initial_state", InitialState, "Hide where the run starts."),
        _time_kind("state_at", "time", StateAt, "Hide the state at one time."),
        _time_kind("steps_ago", "steps", StepsAgo, "Hide the state some steps before the end."),
        _class_kind(
            "trajectory", Trajectory, "Hide the whole run: the sequence of its states, or of their classes.", WORDS
        ),
        Kind(Key("visited", _VISITED, _EVER), _read_visited, Visited, lambda secret, _: {"visited": secret}),
        _language_kind("automaton", Language),
        _language_kind("ltlf"),
        _language_kind("regex"),
    ],
    (
        Key(
            "reveal",
            one_of("progress", "acceptance"),
            "What of the automaton is secret: its state, or whether it accepts.",
            default="progress",
            goes_with=LANGUAGES,
            otherwise="only an automaton reveals progress or acceptance",
        ),
        dataclasses.replace(MINIMAL, otherwise="only formulas and expressions become automata"),
    ),
    example='secret: {ltlf: "F(p & F q)", reveal: acceptance}',
)
ANY_SECRET: ValueType[Secret] = accept_object(SECRET.shape, SECRET.is_object, _check)
