"""Conditions as trackers: a machine that follows what the policy looks at, and what a policy row calls its node.

A new condition is a data class derived from `Condition` and one function registered here:

    @track_condition.register
    def _(condition: MyCondition, setting: Setting) -> ConditionTracker: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.conditions import (
    AutomatonState,
    Condition,
    CurrentState,
    KeyPart,
    LastStates,
    MemoryNode,
    StartState,
    Time,
)
from opaq.model.memory import Memory
from opaq.model.problem import Problem
from opaq.product.machine import (
    SECRET,
    STATE,
    Clock,
    FreeMemoryMachine,
    Machine,
    MemoryMachine,
    PresentState,
    RecentStates,
    Snapshot,
)
from opaq.product.observer_tracker import ObserverTracker, track_observer
from opaq.product.secret_tracker import SecretTracker, track_secret


@dataclass(frozen=True, slots=True)
class Setting:
    """What conditions are about: the problem as it is stated, its secret and its observer."""

    problem: Problem
    secret: SecretTracker
    observer: ObserverTracker

    @classmethod
    def of(cls, problem: Problem) -> Setting:
        """With the trackers of the problem's secret and observer."""
        secret = track_secret(problem.secret, problem.mdp, problem.horizon)
        return cls(problem, secret, track_observer(problem.observer, problem.mdp))


@dataclass(frozen=True, slots=True)
class ConditionTracker:
    """How one condition is followed through a run, and how policy rows name what it says."""

    machine: Machine
    word: Callable[[int], KeyPart]  # node -> its name in a row key
    part: str | None = None  # the part of every product (STATE, SECRET, OBSERVER) that follows it already
    free_memory: Memory | None = None  # whose next node the policy chooses with its action; the machine reads both


@singledispatch
def track_condition(condition: Condition, setting: Setting) -> ConditionTracker:
    """The tracker of a condition; every kind registers its own."""
    raise TypeError(f"no tracker is registered for conditions of type {type(condition).__name__}")


@track_condition.register
def _(condition: CurrentState, setting: Setting) -> ConditionTracker:
    states = setting.problem.mdp.states
    return ConditionTracker(PresentState(len(states)), states.__getitem__, part=STATE)


@track_condition.register
def _(condition: Time, setting: Setting) -> ConditionTracker:
    return ConditionTracker(Clock(setting.problem.horizon), int)


@track_condition.register
def _(condition: AutomatonState, setting: Setting) -> ConditionTracker:
    names = setting.secret.nodes
    if not names:
        found = f"'{condition.key}' needs a secret with an automaton"
        raise InputError([Fault("policy.conditions_on", found, "use another condition or another secret")])
    return ConditionTracker(setting.secret.machine, names.__getitem__, part=SECRET)


@track_condition.register
def _(condition: StartState, setting: Setting) -> ConditionTracker:
    states = setting.problem.mdp.states
    return ConditionTracker(Snapshot(0, np.arange(len(states))), states.__getitem__)


@track_condition.register
def _(condition: LastStates, setting: Setting) -> ConditionTracker:
    states = setting.problem.mdp.states
    machine = RecentStates(condition.count, len(states))
    return ConditionTracker(machine, lambda node: tuple(states[state] for state in machine.states(node)))


@track_condition.register
def _(condition: MemoryNode, setting: Setting) -> ConditionTracker:
    memory = condition.memory
    if memory.free:
        return ConditionTracker(FreeMemoryMachine(memory), memory.nodes.__getitem__, free_memory=memory)
    return ConditionTracker(MemoryMachine(memory), memory.nodes.__getitem__)


def rank(condition: Condition) -> int:
    """Where machines of its kind stand in the product: states are numbered alike in whatever order conditions come."""
    return list(track_condition.registry.values()).index(track_condition.dispatch(type(condition)))
