"""What a policy conditions on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opaq.errors import Faults
from opaq.model.conditions import CONDITIONS
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.model.policy import PolicyClass
from opaq.model.secret import Language, Secret
from opaq.spec.cursor import at, check_keys, gather, item, listing, mapping, one_key, suggestion, whole, wrong
from opaq.spec.memory_part import check_memory, read_memory
from opaq.spec.names import Names

PLAIN = ("state", "time", "automaton", "start")
MAX_LAST_STATES = 1_000
_NEEDS = {
    "last_states": "say how many: {last_states: 2}",
    "memory": "give the machine: {memory: {nodes: [...], update: [...]}}",
}


def build_policy_class(
    conditions_on: Any, mdp: MDP, *, secret: Secret | None = None, faults: Faults | None = None, path: str = "policy"
) -> PolicyClass:
    """What a policy may look at, from a list such as ["state", "time", {"last_states": 2}].

    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    where, has_automaton = at(path, "conditions_on"), isinstance(secret, Language)
    return gather(
        lambda found: read_conditions(conditions_on, where, found, Names.of(mdp), has_automaton=has_automaton), faults
    )


def read_policy_class(
    value: Any, path: str, faults: Faults, names: Names, *, has_automaton: bool
) -> PolicyClass | None:
    """A policy class from {conditions_on: [...]}."""
    spec = mapping(value, path, faults)
    if spec is None:
        return None
    check_keys(spec, path, faults, allowed=("conditions_on",))
    where = at(path, "conditions_on")
    return read_conditions(spec.get("conditions_on", ["state"]), where, faults, names, has_automaton=has_automaton)


def read_conditions(value: Any, path: str, faults: Faults, names: Names, *, has_automaton: bool) -> PolicyClass | None:
    """A policy class from the list of its conditions."""
    entries = listing(value, path, faults)
    if entries is None:
        return None
    if not entries:
        faults.error(path, "is empty", "list at least one, e.g. [state]")
        return None
    conditions: list[str] = []
    steps: int | None = None
    memory: Memory | None = None
    for place, entry in enumerate(entries):
        where = item(path, place)
        condition = _read_condition(entry, where, faults, has_automaton=has_automaton)
        if condition is None:
            continue
        if condition in conditions:
            faults.error(where, f"'{condition}' is listed twice", "keep one of them")
        conditions.append(condition)
        if condition == "last_states":
            steps = whole(entry[condition], at(where, condition), faults, low=1, high=MAX_LAST_STATES)
        elif condition == "memory":
            memory = _read_machine(entry[condition], at(where, condition), faults, names)
    unread = ("last_states" in conditions and steps is None) or ("memory" in conditions and memory is None)
    return None if unread or len(conditions) < len(entries) else PolicyClass(tuple(conditions), steps or 0, memory)


def check_policy_class(
    policy_class: PolicyClass, path: str, faults: Faults, names: Names, *, has_automaton: bool
) -> None:
    """Note when a finished policy class does not fit the problem."""
    if "automaton" in policy_class.conditions_on and not has_automaton:
        _needs_language(path, faults)
    if policy_class.memory is not None:
        check_memory(policy_class.memory, path, faults, names)


def _read_condition(entry: Any, path: str, faults: Faults, *, has_automaton: bool) -> str | None:
    """The name of one condition; those that need a value are mappings with one key."""
    if isinstance(entry, Mapping):
        spec = mapping(entry, path, faults) or {}
        check_keys(spec, path, faults, allowed=tuple(_NEEDS))
        return one_key(spec, path, faults, options=tuple(_NEEDS)) if set(spec) <= set(_NEEDS) else None
    if not isinstance(entry, str):
        wrong(entry, path, faults, "a condition", advice=f"the conditions are {', '.join(CONDITIONS)}")
        return None
    if entry in _NEEDS:
        faults.error(path, f"'{entry}' needs a value", _NEEDS[entry])
        return None
    if entry not in PLAIN:
        faults.error(path, f"unknown condition '{entry}'", suggestion(entry, CONDITIONS, kind="condition"))
        return None
    if entry == "automaton" and not has_automaton:
        _needs_language(path, faults)
    return entry


def _needs_language(path: str, faults: Faults) -> None:
    faults.error(path, "'automaton' needs a secret with an automaton", "use another condition or another secret")


def _read_machine(value: Any, path: str, faults: Faults, names: Names) -> Memory | None:
    if not isinstance(value, Memory):
        return read_memory(value, path, faults, names)
    check_memory(value, path, faults, names)
    return value
