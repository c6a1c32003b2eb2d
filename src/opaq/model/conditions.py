"""What a policy may look at: one small class per condition.

Each is plain data. `opaq.spec` knows how a condition is written in files, `opaq.product` which machine follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opaq.model.memory import Memory


class Condition:
    """One thing a policy looks at; `key` names it in files, and in the rows of a policy."""

    __slots__ = ()
    key: ClassVar[str]


@dataclass(frozen=True, slots=True)
class CurrentState(Condition):
    """The state of the model, s_t."""

    key: ClassVar[str] = "state"


@dataclass(frozen=True, slots=True)
class Time(Condition):
    """The time t, 0 .. horizon."""

    key: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class AutomatonState(Condition):
    """The state of the secret's automaton."""

    key: ClassVar[str] = "automaton"


@dataclass(frozen=True, slots=True)
class StartState(Condition):
    """The state in which the run began, s_0."""

    key: ClassVar[str] = "start"


@dataclass(frozen=True, slots=True)
class LastStates(Condition):
    """The last `count` states, the current one included."""

    count: int
    key: ClassVar[str] = "last_states"


@dataclass(frozen=True, slots=True)
class MemoryNode(Condition):
    """The node of a machine that the policy carries."""

    memory: Memory
    key: ClassVar[str] = "memory"


PLAIN: dict[str, Condition] = {kind.key: kind() for kind in (CurrentState, Time, AutomatonState, StartState)}
CONDITIONS = (*PLAIN, LastStates.key, MemoryNode.key)
