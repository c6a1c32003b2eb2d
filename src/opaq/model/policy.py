"""Policy classes (what a policy conditions on) and policies (the tables of their rows).

A row key has one part per condition, in the order of the class: ("q0", 3) for conditions state and time. The rows that
a policy needs are those that can occur; `opaq.product` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opaq.display import NotebookView, data_frame
from opaq.errors import Fault, Faults, InputError, describe_value, is_int, is_number
from opaq.model.arrays import ContentEq, divisor, probability_fault, sum_fault
from opaq.model.checks import Checked, Checks, ReadOnlyDict
from opaq.model.conditions import (
    PLAIN,
    AutomatonState,
    BeliefNode,
    Condition,
    CurrentState,
    KeyPart,
    LastStates,
    Memory,
    MemoryNode,
    Observations,
    check_memory,
)

if TYPE_CHECKING:
    from pandas import DataFrame

NO_AUTOMATON = ("'automaton' needs a secret with an automaton", "use another condition or another secret")
RowKey = tuple[KeyPart, ...]  # one key per row: a part per condition, in the order of PolicyClass.conditions


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class PolicyClass(ContentEq):
    """The conditions that a policy looks at, in the order in which its rows are keyed."""

    conditions: tuple[Condition, ...]

    def __init__(
        self,
        conditions_on: Iterable[str | Condition] | None = None,
        last_states: int = 0,
        memory: Memory | None = None,
        *,
        conditions: tuple[Condition, ...] = (CurrentState(),),
    ) -> None:
        """Build a class from conditions, or from words for them.

        conditions_on: words such as "state" and "time", or conditions such as LastStates(2); the state alone unless
            given.
        last_states: how many states the word "last_states" remembers, the current one included.
        memory: the machine that the word "memory" stands for.
        conditions: those of another class that this one is made from (by `dataclasses.replace`): its conditions hold
            where `conditions_on` is not given, and its words mean the same.
        Raises InputError for an unknown word, or a condition that is listed twice.
        """
        for name, given in {"conditions_on": conditions_on, "conditions": conditions}.items():
            optional = given is None and name == "conditions_on"
            if not optional and (isinstance(given, str | Mapping) or not isinstance(given, Iterable)):
                raise InputError([Fault(name, f"is {describe_value(given)}", "give a tuple of words: ('state',)")])
        sized: dict[str, Condition] = {}
        if not is_int(last_states) or last_states != 0:
            sized[LastStates.key] = LastStates(last_states)
        if memory is not None:
            sized[MemoryNode.key] = MemoryNode(memory)
        known = PLAIN | {one.key: one for one in conditions} | sized
        requested = (sized.get(one.key, one) for one in conditions) if conditions_on is None else conditions_on
        chosen = tuple(_condition(one, known) for one in requested)
        for index, one in enumerate(chosen):
            if one.key in [other.key for other in chosen[:index]]:
                raise InputError([Fault("conditions_on", f"'{one.key}' is listed twice", "keep one of them")])
        object.__setattr__(self, "conditions", chosen)

    def __reduce__(self) -> tuple[Any, ...]:
        return PolicyClass, (self.conditions,)

    @property
    def conditions_on(self) -> tuple[str, ...]:
        """Keys of the conditions."""
        return tuple(condition.key for condition in self.conditions)

    @property
    def last_states(self) -> int:
        """How many states are remembered, the current one included; 0 without that condition."""
        return next((one.count for one in self.conditions if isinstance(one, LastStates)), 0)

    @property
    def memory(self) -> Memory | None:
        """The memory the policy carries, None without one."""
        return next((one.memory for one in self.conditions if isinstance(one, MemoryNode)), None)


def _condition(condition: str | Condition, known: Mapping[str, Condition]) -> Condition:
    """Return a condition, or the one that a word stands for."""
    if isinstance(condition, Condition):
        return condition
    if isinstance(condition, str) and condition in known:
        return known[condition]
    needs = {
        LastStates.key: "give last_states, how many",
        MemoryNode.key: "give memory, the machine",
        Observations.key: "give the condition itself, such as Observations(2)",
        BeliefNode.key: "give the condition itself, with its graph",
    }
    advice = needs.get(str(condition), f"the words are {', '.join([*PLAIN, *needs])}")
    raise InputError([Fault("conditions_on", f"unknown condition {describe_value(condition)}", advice)])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy(NotebookView, Checked):
    """A table pi(a | row key): for every row the probability of each action; actions left out have probability 0.

    rows: {row key: {action: probability}}, a row key being a tuple with one part per condition. InputError lists every
        fault when one is made; sums that miss 1 by rounding are scaled, and rows are read-only.
    """

    policy_class: PolicyClass
    rows: Mapping[RowKey, Mapping[str, float]]

    def __post_init__(self) -> None:
        checks = Checks(self, "policy")
        checks.type("policy_class", PolicyClass, "a PolicyClass")
        checks.type("rows", Mapping, "a mapping {row key: {action: probability}}")
        checks.finish()
        faults = Faults()
        rows = {key: _check_row(self.policy_class, key, row, faults) for key, row in self.rows.items()}
        faults.raise_if_any()
        object.__setattr__(self, "rows", ReadOnlyDict(rows))

    def __repr__(self) -> str:
        return f"<Policy on {', '.join(self.policy_class.conditions_on)}: {len(self.rows)} rows>"

    def to_dataframe(self) -> DataFrame:
        """Return the table with one line per row and action: a column per condition, the action, its probability."""
        keys = self.policy_class.conditions_on
        lines = [
            {**dict(zip(keys, key, strict=True)), "action": action, "probability": probability}
            for key, row in self.rows.items()
            for action, probability in row.items()
        ]
        return data_frame(lines, (*keys, "action", "probability"))


def row_name(policy_class: PolicyClass, key: RowKey) -> str:
    """Return a row key with its conditions, as messages name it: "state=q0, time=1"."""
    return ", ".join(f"{name}={part}" for name, part in zip(policy_class.conditions_on, key, strict=True))


def _check_row(policy_class: PolicyClass, key: Any, row: Any, faults: Faults) -> ReadOnlyDict | None:
    """Return a row as a read-only distribution, scaled to sum to 1; None with a fault where it is none."""
    keys = policy_class.conditions_on
    if not isinstance(key, tuple) or len(key) != len(keys) or not all(map(_is_part, key)):
        wanted = f"use a tuple ({', '.join(keys)}{',' if len(keys) == 1 else ''})"
        return faults.error("policy.rows", f"the key {key!r:.60} is not that of a row", wanted)
    fault = _row_fault(row)
    if fault is not None:
        action, finding, advice = fault
        return faults.error(f"policy row {row_name(policy_class, key)}{action}", finding, advice)
    scale = divisor(math.fsum(row.values()))
    if isinstance(row, ReadOnlyDict) and scale == 1.0:
        return row
    return ReadOnlyDict(row if scale in (None, 1.0) else {action: share / scale for action, share in row.items()})


def _row_fault(row: Any) -> tuple[str, str, str] | None:
    """Return what is wrong with a row: (at which action, message, advice); None if it is a distribution."""
    if not isinstance(row, Mapping):
        return "", f"is {describe_value(row)}, not a mapping {{action: probability}}", ""
    for action, share in row.items():
        if not isinstance(action, str):
            return "", f"the key {describe_value(action)} is not the name of an action", ""
        if type(share) is not float and not is_number(share):
            return f": {action}", f"is {describe_value(share)}, not a number", ""
        if share < 0:
            return f": {action}", *probability_fault(share)
    total = math.fsum(row.values())
    return None if divisor(total) is not None else ("", *sum_fault(total))


def _is_part(part: object) -> bool:
    """Return whether a part of a row key is a name, a time, or a tuple of names."""
    return isinstance(part, str) or is_int(part) or (isinstance(part, tuple) and all(isinstance(n, str) for n in part))


def check_policy_class(
    policy_class: PolicyClass,
    faults: Faults,
    where: str,
    *,
    num_states: int | None,
    num_actions: int | None,
    has_automaton: bool,
) -> None:
    """Note when a policy class does not fit a model or a secret.

    faults: where errors are noted. where: path of the class, for messages.
    num_states, num_actions: of the model; None where not known. has_automaton: whether the secret may have one.
    """
    for condition in policy_class.conditions:
        if isinstance(condition, AutomatonState) and not has_automaton:
            faults.error(where, *NO_AUTOMATON)
        if isinstance(condition, MemoryNode) and num_states is not None and num_actions is not None:
            check_memory(condition.memory, faults, where, num_states=num_states, num_actions=num_actions)
