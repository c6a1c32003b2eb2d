"""Secrets as trackers: a machine that reads the run, and the value it ends with.

A new kind of secret is a data class derived from `Secret` and one function registered here:

    @track_secret.register
    def _(secret: MySecret, mdp: MDP, horizon: int) -> SecretTracker: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from opaq.automata.dfa import letters, table
from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.product.machine import AutomatonMachine, Idle, Machine, Snapshot, VisitFlag


@dataclass(frozen=True, slots=True)
class SecretTracker:
    """Z = value(q_T, s_T), where q is the machine's node."""

    machine: Machine
    values: tuple[str, ...]
    value: Callable[[IntArray, IntArray], IntArray]  # (nodes, states) -> secret values
    nodes: tuple[str, ...] = ()  # names of the nodes, where the policy may look at them as the automaton's states


@singledispatch
def track_secret(secret: Secret, mdp: MDP, horizon: int) -> SecretTracker:
    """The tracker of a secret; every kind registers its own."""
    raise TypeError(f"no tracker is registered for secrets of type {type(secret).__name__}")


def automaton_machine(automaton: Automaton, mdp: MDP) -> AutomatonMachine:
    """The machine of an automaton over the labels of a model."""
    alphabet, letter_of = letters(mdp)
    return AutomatonMachine(table(automaton, alphabet), letter_of, automaton.initial, automaton.reads == "left")


@track_secret.register
def _(secret: LastState, mdp: MDP, horizon: int) -> SecretTracker:
    classes = secret.classes
    return SecretTracker(Idle(), classes.names, lambda nodes, states: classes.of_state[states])


@track_secret.register
def _(secret: InitialState, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(0, secret.classes)


@track_secret.register
def _(secret: StateAt, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(secret.time, secret.classes)


@track_secret.register
def _(secret: StepsAgo, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(horizon - secret.steps, secret.classes)


def _snapshot(time: int, classes: StateClasses) -> SecretTracker:
    def value(nodes: IntArray, states: IntArray) -> IntArray:
        return np.maximum(nodes - time, 0)  # nodes still waiting never reach the horizon

    return SecretTracker(Snapshot(time, classes.of_state), classes.names, value)


@track_secret.register
def _(secret: Visited, mdp: MDP, horizon: int) -> SecretTracker:
    return SecretTracker(VisitFlag(mdp.mask(secret.states)), ("no", "yes"), lambda nodes, states: nodes)


@track_secret.register
def _(secret: Language, mdp: MDP, horizon: int) -> SecretTracker:
    automaton = secret.automaton
    machine, names = automaton_machine(automaton, mdp), automaton.states
    if secret.reveal == "progress":
        return SecretTracker(machine, names, lambda nodes, states: nodes, names)
    accepts = np.isin(np.arange(len(names)), list(automaton.accepting)).astype(np.int64)
    return SecretTracker(machine, ("no", "yes"), lambda nodes, states: accepts[nodes], names)
