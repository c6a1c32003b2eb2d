"""What must stay hidden, from the mapping a user writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import IntArray, ints
from opaq.model.mdp import MDP
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.spec.automaton_part import check_guards
from opaq.spec.cursor import at, check_keys, gather, mapping, one_key, option, whole, wrong
from opaq.spec.language_part import KINDS as LANGUAGES
from opaq.spec.language_part import read_language
from opaq.spec.names import Names, state_set

STATE_KINDS = ("last_state", "initial_state", "state_at", "steps_ago", "visited")
KINDS = (*STATE_KINDS, *LANGUAGES)
_LANGUAGE_KEYS = {
    "reveal": "only an automaton reveals progress or acceptance",
    "minimal": "only formulas and expressions become automata",
}
_FORMS = "true, a label, a list of states, or a mapping {class: states}"


def build_secret(
    spec: Mapping[str, Any], mdp: MDP, *, horizon: int | None = None, faults: Faults | None = None, path: str = "secret"
) -> Secret:
    """A secret from a mapping with one kind of secret, such as last_state, visited or ltlf (see KINDS).

    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    return cast("Secret", gather(lambda found: read_secret(spec, path, found, Names.of(mdp), horizon=horizon), faults))


def read_secret(value: Any, path: str, faults: Faults, names: Names, *, horizon: int | None) -> Secret | None:
    """A secret from its mapping; a horizon of None is not compared with times."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    meant = check_keys(spec, path, faults, allowed=(*KINDS, "reveal", "minimal"))
    kind = one_key(spec, path, faults, options=KINDS, meant=meant)
    if kind is None:
        return None
    if kind in LANGUAGES:
        return _read_language(spec, kind, path, faults, names)
    for key, advice in _LANGUAGE_KEYS.items():
        if key in spec:
            faults.error(at(path, key), f"does not go with '{kind}'", advice)
    where = at(path, kind)
    if kind == "visited":
        return _read_visited(spec[kind], where, faults, names)
    if kind == "state_at":
        return _read_timed(spec[kind], where, faults, names, key="time", horizon=horizon, make=StateAt)
    if kind == "steps_ago":
        return _read_timed(spec[kind], where, faults, names, key="steps", horizon=horizon, make=StepsAgo)
    classes = _read_classes(spec[kind], where, faults, names)
    if classes is None:
        return None
    return LastState(classes) if kind == "last_state" else InitialState(classes)


def check_secret(secret: Secret, path: str, faults: Faults, names: Names, *, horizon: int | None) -> None:
    """Note when a finished secret does not fit the model or the horizon."""
    if isinstance(secret, Language):
        check_guards(secret.automaton, at(path, "automaton"), faults, names.labels)
        return
    size = None if names.states.index is None else len(names.states)
    if isinstance(secret, Visited):
        if size is not None and secret.states.size and secret.states.max() >= size:
            faults.error(path, f"names state {secret.states.max()}, but the model has {size:,}")
        return
    if size is not None and secret.classes.of_state.size != size:
        faults.error(path, f"classes {secret.classes.of_state.size:,} states, but the model has {size:,}")
    time = secret.time if isinstance(secret, StateAt) else secret.steps if isinstance(secret, StepsAgo) else 0
    if horizon is not None:
        whole(time, path, faults, low=0, high=horizon)


def _read_language(spec: Mapping[str, Any], kind: str, path: str, faults: Faults, names: Names) -> Language | None:
    reveal = option(spec.get("reveal", "progress"), at(path, "reveal"), faults, options=("progress", "acceptance"))
    automaton = read_language(spec, kind, path, faults, names, accepts=reveal == "acceptance")
    if automaton is None or reveal is None:
        return None
    return Language(automaton, "acceptance" if reveal == "acceptance" else "progress")


def _read_visited(value: Any, path: str, faults: Faults, names: Names) -> Visited | None:
    if isinstance(value, bool | Mapping) or value is None:
        wrong(value, path, faults, "a label or a list of states")
        return None
    states = state_set(value, path, faults, names)
    if states is None:
        return None
    return Visited(states, value) if isinstance(value, str) else Visited(states)


def _read_timed(
    value: Any,
    path: str,
    faults: Faults,
    names: Names,
    *,
    key: str,
    horizon: int | None,
    make: Callable[[int, StateClasses], StateAt | StepsAgo],
) -> StateAt | StepsAgo | None:
    """A secret of a state at one time, counted from the start or back from the end."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    required = {key: "give a whole number up to the horizon", "states": f"give {_FORMS}"}
    check_keys(spec, path, faults, allowed=tuple(required), required=required)
    most = 1_000_000 if horizon is None else horizon
    time = whole(spec[key], at(path, key), faults, low=0, high=most) if key in spec else None
    classes = _read_classes(spec["states"], at(path, "states"), faults, names) if "states" in spec else None
    return None if time is None or classes is None else make(time, classes)


def _read_classes(value: Any, path: str, faults: Faults, names: Names) -> StateClasses | None:
    """What about a state is secret: itself, whether it is in a set, or which class of a partition it is in."""
    if value is False or value is None:
        wrong(value, path, faults, _FORMS)
        return None
    if isinstance(value, Mapping):
        return _read_partition(value, path, faults, names)
    if value is True:
        index = names.states.index
        return None if index is None else StateClasses(tuple(index), ints(range(len(index))))
    states = state_set(value, path, faults, names)
    if states is None or names.states.index is None:
        return None
    if states.size in (0, len(names.states)):
        faults.warn(path, f"holds {'no' if not states.size else 'every'} state", "there is nothing to hide")
    return StateClasses(("no", "yes"), _members(states, len(names.states)))


def _members(states: IntArray, num_states: int) -> IntArray:
    found = np.zeros(num_states, dtype=np.int64)
    found[states] = 1
    return ints(found)


def _read_partition(value: Mapping[Any, Any], path: str, faults: Faults, names: Names) -> StateClasses | None:
    table = mapping(value, path, faults) or {}
    if not table:
        faults.error(path, "is empty", f"give {_FORMS}")
        return None
    sets = {key: state_set(listed, at(path, key), faults, names) for key, listed in table.items()}
    if names.states.index is None or any(states is None for states in sets.values()):
        return None
    classes = tuple(sets)
    of_state = np.full(len(names.states), -1)
    spelled = tuple(names.states.index)
    for place, (key, states) in enumerate(sets.items()):
        for state in [] if states is None else states.tolist():
            if of_state[state] >= 0:
                other = classes[of_state[state]]
                faults.error(at(path, key), f"state '{spelled[state]}' is in '{other}' too", "put it in one class")
            of_state[state] = place
    if (of_state < 0).any():
        classes = classes if "other" in classes else (*classes, "other")
        of_state[of_state < 0] = classes.index("other")
    return StateClasses(classes, ints(of_state))
