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
from opaq.model.arrays import IntArray
from opaq.model.conditions import (
    AutomatonState,
    Condition,
    CurrentState,
    KeyPart,
    LastStates,
    MemoryNode,
    Observations,
    StartState,
    Time,
)
from opaq.model.memory import Memory
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.product.machine import (
    OBSERVER,
    SECRET,
    STATE,
    Clock,
    FreeMemoryMachine,
    Machine,
    MemoryMachine,
    PresentState,
    RecentStates,
    Snapshot,
    Window,
)
from opaq.product.observation_recorder import recorded
from opaq.product.observer_tracker import ObserverTracker, track_observer
from opaq.product.secret_tracker import SecretTracker, track_secret


@dataclass(frozen=True, slots=True)
class Setting:
    """What conditions are about: the problem as it is stated, its secret and its observer.

    Where a policy looks at observations, the observer's tracker keeps as many of them as it needs.
    """

    problem: Problem
    secret: SecretTracker
    observer: ObserverTracker

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass) -> Setting:
        """With the trackers of the problem's secret and observer, for policies of a class."""
        secret = track_secret(problem.secret, problem.mdp, problem.horizon)
        observer = track_observer(problem.observer, problem.mdp)
        needed = [_length(one, problem) for one in policy_class.conditions if isinstance(one, Observations)]
        return cls(problem, secret, recorded(observer, max(needed)) if needed else observer)


@dataclass(frozen=True, slots=True)
class ConditionTracker:
    """How one condition is followed through a run, and how policy rows name what it says."""

    machine: Machine
    word: Callable[[int], KeyPart]  # node -> its name in a row key
    part: str | None = None  # the part of every product (STATE, SECRET, OBSERVER) that follows it already
    free_memory: Memory | None = None  # whose next node the policy chooses with its action; the machine reads both
    window: Window | None = None  # of observations: who acts it out is given them, and keeps this instead of a node

    def nodes(self, nodes: IntArray) -> IntArray:
        """What the policy tells apart of the nodes of the part that follows the condition."""
        return nodes if self.window is None else nodes % self.window.size


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
    window = Window(_at_most_a_run(condition.count, setting.problem), len(states))
    return ConditionTracker(RecentStates(window), lambda node: tuple(states[state] for state in window.things(node)))


@track_condition.register
def _(condition: MemoryNode, setting: Setting) -> ConditionTracker:
    memory = condition.memory
    if memory.free:
        return ConditionTracker(FreeMemoryMachine(memory), memory.nodes.__getitem__, free_memory=memory)
    return ConditionTracker(MemoryMachine(memory), memory.nodes.__getitem__)


@track_condition.register
def _(condition: Observations, setting: Setting) -> ConditionTracker:
    observer = setting.observer
    window = Window(_length(condition, setting.problem), len(observer.observations))

    def word(node: int) -> KeyPart:
        return tuple(observer.observations[observation] for observation in window.things(node))

    return ConditionTracker(observer.machine, word, part=OBSERVER, window=window)


def _length(condition: Observations, problem: Problem) -> int:
    """How many observations are kept."""
    return problem.horizon + 1 if condition.count == "all" else _at_most_a_run(condition.count, problem)


def _at_most_a_run(count: int, problem: Problem) -> int:
    """How many are kept: no more than a run has, where no time after the horizon counts."""
    return count if problem.task.over == "forever" else min(count, problem.horizon + 1)


def rank(condition: Condition) -> int:
    """Where machines of its kind stand in the product: states are numbered alike in whatever order conditions come."""
    return list(track_condition.registry.values()).index(track_condition.dispatch(type(condition)))
