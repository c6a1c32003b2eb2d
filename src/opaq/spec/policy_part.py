"""Read and write what a policy conditions on, and what a row of a policy says of each condition.

A list of conditions comes in, a `model.PolicyClass` goes out, and back. A condition is a word, or {word: value}:

    conditions_on: [state, time, {last_states: 2}, {memory: {nodes: 2, update: free}}]

CONDITIONS is the registry of the words; `policy_table` reads the rows with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from opaq.errors import Faults, suggestion
from opaq.model import conditions
from opaq.model.conditions import (
    MAX_LAST_STATES,
    MAX_OBSERVATIONS,
    AutomatonState,
    BeliefNode,
    Condition,
    LastStates,
    MemoryNode,
    Observations,
)
from opaq.model.mdp import MDP
from opaq.model.policy import NO_AUTOMATON, PolicyClass, check_policy_class
from opaq.model.secret import Secret
from opaq.spec.belief_part import GRAPH
from opaq.spec.cursor import Cursor, Scope, read_with_faults
from opaq.spec.grammar import (
    Key,
    Plain,
    Record,
    ValueType,
    accept_object,
    all_or_none,
    build_from_keys,
    choose_key,
    single_key_schema,
    whole,
)
from opaq.spec.memory_part import MACHINE
from opaq.spec.secret_part import may_have_automaton

_RowPart = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """How a condition is written in files: a word, or {word: value}.

    of: the class of the condition; its `key` is the word.
    help: what the reference page says of it.
    row: reads what a policy row says of it, given the cursor and the condition.
    value: the type of what follows the word; None: the word stands alone.
    needs: the advice when the value is missing.
    state: returns the current state from a row's part, where that says it.
    """

    of: type[Condition]
    help: str
    row: Callable[[Cursor, Any], _RowPart | None]  # what a policy row says of it, given the condition
    value: ValueType[Any] | None = None  # what follows the word; None: the word stands alone
    needs: str = ""  # what to do when the value is missing
    state: Callable[[Any], str] | None = None  # the current state, where a row's part says it

    def make(self, value: Any = None) -> Condition:
        """Return the condition.

        value: what follows the word; not used where the word stands alone.
        """
        return self.of() if self.value is None else self.of(value)  # type: ignore[call-arg]

    def write(self, condition: Condition, scope: Scope) -> Any:
        """Return the condition as it stands in a list of conditions: its word, or {word: value}.

        condition: of the class `of`; scope: the names that its value refers to.
        """
        if self.value is None:
            return condition.key
        (value,) = (getattr(condition, field.name) for field in fields(condition))  # type: ignore[arg-type]
        return {condition.key: self.value.write(value, scope)}


def build_policy_class(
    conditions_on: Any, mdp: MDP, *, secret: Secret | None = None, faults: Faults | None = None, path: str = "policy"
) -> PolicyClass:
    """Build the class of policies that may look at some conditions.

    conditions_on: a list such as ["state", "time", {"last_states": 2}].
    mdp: the model.
    secret: the secret, whose automaton the condition "automaton" follows.
    faults: collects every fault instead of raising InputError; the class is then None when it is unusable.
    path: what faults call the policy.
    """
    names = Scope.of(mdp, has_automaton=secret is not None and may_have_automaton(secret))
    start = names.cursor(conditions_on, path)
    return read_with_faults(_read_conditions, start.child("conditions_on", conditions_on), faults)


def read_policy_class(cursor: Cursor) -> PolicyClass | None:
    """Return a policy class from {conditions_on: [...]}, or a finished one after checking it; None after a fault."""
    return ANY_POLICY.read(cursor)


def _check(cursor: Cursor, policy_class: PolicyClass) -> None:
    """Note when a finished policy class does not fit the model or the secret."""
    sizes = {"num_states": cursor.scope.states.size, "num_actions": cursor.scope.actions.size}
    check_policy_class(policy_class, cursor.faults, cursor.path, **sizes, has_automaton=cursor.scope.has_automaton)


def _read_conditions(cursor: Cursor) -> PolicyClass | None:
    """Return a policy class from the list of its conditions; None after a fault.

    cursor: the list, which is not empty and has no condition twice; its order is that of the keys of rows.
    """
    entries = cursor.items()
    if entries is None:
        return None
    if not entries:
        return cursor.error("is empty", "list at least one, e.g. [state]")
    conditions: dict[str, Condition | None] = {}
    for entry in entries:
        key = _key(entry)
        if key is not None and key in conditions:
            entry.error(f"'{key}' is listed twice", "keep one of them")
        if key is not None:
            conditions[key] = _read_condition(entry, CONDITIONS[key])
    usable = [condition for condition in conditions.values() if condition is not None]
    return PolicyClass(usable) if len(usable) == len(entries) else None


def write_conditions(policy_class: PolicyClass, scope: Scope) -> list[Any]:
    """Return the conditions as a list, as `conditions_on` states it.

    policy_class: the class; scope: without names of a model, a memory machine is written in arrays.
    """
    return [CONDITIONS[condition.key].write(condition, scope) for condition in policy_class.conditions]


def add_condition(kind: ConditionKind) -> None:
    """Register one more condition that files may state. Raises ValueError when its word is taken."""
    if kind.of.key in CONDITIONS:
        raise ValueError(f"the condition '{kind.of.key}' is taken")
    CONDITIONS[kind.of.key] = kind


def _key(cursor: Cursor) -> str | None:
    """Return the word of a condition; those that need a value are mappings with one key. None after a fault.

    cursor: an entry of `conditions_on`, e.g. "state" or {"last_states": 2}.
    """
    valued = {key: kind for key, kind in CONDITIONS.items() if kind.value is not None}
    if isinstance(cursor.value, Mapping):
        opened = Record("condition", "", tuple(map(_valued_key, valued.values()))).open(cursor)
        given = cursor.value if opened is not None and set(opened.given) == set(map(str, cursor.value)) else {}
        return choose_key(cursor, given, valued) if given or not cursor.value else None
    if not isinstance(cursor.value, str):
        return cursor.wrong("a condition", f"the conditions are {', '.join(CONDITIONS)}")
    if cursor.value in valued:
        return cursor.error(f"'{cursor.value}' needs a value", valued[cursor.value].needs)
    if cursor.value not in CONDITIONS:
        advice = suggestion(cursor.value, CONDITIONS, kind="condition")
        return cursor.error(f"unknown condition '{cursor.value}'", advice)
    return cursor.value


def _valued_key(kind: ConditionKind) -> Key:
    """Return a condition that takes a value as the only key of a mapping."""
    assert kind.value is not None
    return Key(kind.of.key, kind.value, kind.help)


def _read_condition(cursor: Cursor, kind: ConditionKind) -> Condition | None:
    """Return a condition, read from its word or its mapping; None when its value is unusable.

    cursor: the entry of the list; kind: what its word stands for. A condition on an automaton that the secret does not
    have is noted.
    """
    if kind.value is None:
        condition = kind.make()
        if isinstance(condition, AutomatonState) and not cursor.scope.has_automaton:
            cursor.error(*NO_AUTOMATON)
        return condition
    value = kind.value.read(cursor.child(kind.of.key, cursor.value[kind.of.key]))
    return None if value is None else kind.make(value)


def _name_row(kind: str) -> Callable[[Cursor, Any], str | None]:
    """Return a reader of rows that name one of the names of a kind, a field of Scope."""
    return lambda cursor, _: getattr(cursor.scope, kind).spell(cursor)


def _read_time(cursor: Cursor, condition: Condition) -> int | None:
    """Return the time of a row, from 0 to the horizon (0 where that is not known); None after a fault."""
    return cursor.whole(low=0, high=cursor.scope.horizon or 0)


def _read_last_states(cursor: Cursor, condition: LastStates) -> tuple[str, ...] | None:
    """Return the last states of a row, oldest first; None after a fault.

    condition: how many are kept; a row lists 1 up to that many.
    """
    return _read_latest(cursor, cursor.scope.states.spell, kind="states", most=condition.count)


def _read_observations(cursor: Cursor, condition: Observations) -> tuple[str, ...] | None:
    """Return the last observations of a row, oldest first; None after a fault.

    condition: how many are kept; "all" allows one more than the horizon. Any name is accepted where the observations of
    the problem are not known.
    """
    known, most = cursor.scope.observations, condition.count
    spell = Cursor.name if known.index is None else known.spell
    return _read_latest(
        cursor, spell, kind="observations", most=(cursor.scope.horizon or 0) + 1 if most == "all" else most
    )


def _read_latest(
    cursor: Cursor, spell: Callable[[Cursor], str | None], *, kind: str, most: int
) -> tuple[str, ...] | None:
    """Return a list of 1 to `most` names, oldest first; None after a fault.

    spell: reads one name.
    kind: what messages call them, in the plural.
    """
    entries = cursor.items()
    if entries is None:
        return None
    if not 1 <= len(entries) <= most:
        finding = f"has {len(entries)} {kind}, not 1 to {most}"
        return cursor.error(finding, f"list the latest {kind}, oldest first")
    names = all_or_none([spell(entry) for entry in entries])
    return None if names is None else tuple(names)


def _read_count(cursor: Cursor) -> int | Literal["all"] | None:
    """Return a number of times from 1 to MAX_OBSERVATIONS, or "all"; None after a fault."""
    if isinstance(cursor.value, str):
        return "all" if cursor.value == "all" else cursor.wrong("a whole number or 'all'")
    return _COUNT.read(cursor)


def _schema(definitions: Plain) -> Plain:
    """Return the JSON schema of a list of the conditions that are registered now."""
    words = [key for key, kind in CONDITIONS.items() if kind.value is None]
    valued = [_valued_key(kind) for kind in CONDITIONS.values() if kind.value is not None]
    mappings = [single_key_schema(key.name, key.schema(definitions)) for key in valued]
    return {"type": "array", "items": {"anyOf": [{"enum": words}, *mappings]}, "minItems": 1}


_COUNT = whole(1, MAX_OBSERVATIONS)
_COUNT_OR_ALL: ValueType[Any] = ValueType(f"{_COUNT.description}, or `all`", _read_count, (_COUNT, {"const": "all"}))
CONDITIONS: dict[str, ConditionKind] = {
    kind.of.key: kind
    for kind in (
        ConditionKind(conditions.CurrentState, "The state.", _name_row("states"), state=str),
        ConditionKind(conditions.Time, "The time, from 0.", _read_time),
        ConditionKind(AutomatonState, "The state of the secret's automaton.", _name_row("automaton")),
        ConditionKind(conditions.StartState, "The state in which the run began.", _name_row("states")),
        ConditionKind(
            LastStates,
            "The last k states, the current one included.",
            _read_last_states,
            whole(1, MAX_LAST_STATES),
            "say how many: {last_states: 2}",
            lambda part: str(part[-1]),
        ),
        ConditionKind(
            MemoryNode,
            "The node of a machine that the policy carries.",
            _name_row("nodes"),
            MACHINE,
            "give the machine: {memory: {nodes: [...], update: [...]}}",
        ),
        ConditionKind(
            Observations,
            "What the observer saw at the last k times, the present one included, or at all of them.",
            _read_observations,
            _COUNT_OR_ALL,
            "say how many: {observations: 2}, or {observations: all}",
        ),
        ConditionKind(
            BeliefNode,
            "The node of a graph that reads what the observer sees, made by the program of a task that minimises.",
            _name_row("beliefs"),
            GRAPH,
            "a belief class comes from its program: give the graph, {belief: {nodes: [...], ...}}",
        ),
    )
}
_CONDITIONS: ValueType[PolicyClass] = ValueType(
    "a list of `state`, `time`, `automaton`, `start`, `{last_states: k}`, `{memory: {...}}`, `{observations: k}` and "
    "`{belief: {...}}`",
    _read_conditions,
    _schema,
    write_conditions,
    inside=(MACHINE, GRAPH),
)
POLICY: Record[PolicyClass] = Record(
    "policy",
    "What the policy may look at.",
    (Key("conditions_on", _CONDITIONS, "By default `[state]`.", default=PolicyClass()),),
    build_from_keys(lambda policy_class: policy_class, "conditions_on"),
    lambda policy_class, _: {"conditions_on": policy_class},
    example="policy: {conditions_on: [state, time]}",
)
ANY_POLICY: ValueType[PolicyClass] = accept_object(POLICY.shape, PolicyClass, _check)
