"""Secrets as trackers: a machine that reads the run, and the value it ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opaq.automata.dfa import letters, table
from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.product.machine import Idle, Machine, Reader, Seen, Snapshot


@dataclass(frozen=True, slots=True)
class Tracker:
    """Z = value(q_T, s_T) (DESIGN: q_0 = d(init, s_0), q_{t+1} = d(q_t, s_{t+1}))."""

    machine: Machine
    values: tuple[str, ...]
    value: Callable[[IntArray, IntArray], IntArray]  # (nodes, states) -> secret values


def track(secret: Secret, mdp: MDP, horizon: int) -> Tracker:
    """The tracker of a secret."""
    match secret:
        case LastState(classes):
            return Tracker(Idle(), classes.names, lambda nodes, states: classes.of_state[states])
        case InitialState(classes):
            return _snapshot(0, classes)
        case StateAt(time, classes):
            return _snapshot(time, classes)
        case StepsAgo(steps, classes):
            return _snapshot(horizon - steps, classes)
        case Visited(states):
            return Tracker(Seen(mdp.mask(states)), ("no", "yes"), lambda nodes, states: nodes)
        case Language(automaton, "progress"):
            return Tracker(read(automaton, mdp), automaton.states, lambda nodes, states: nodes)
        case Language(automaton, _):
            accepts = np.isin(np.arange(len(automaton.states)), list(automaton.accepting)).astype(np.int64)
            return Tracker(read(automaton, mdp), ("no", "yes"), lambda nodes, states: accepts[nodes])


def read(automaton: Automaton, mdp: MDP) -> Reader:
    """The machine of an automaton over the labels of a model."""
    alphabet, letter_of = letters(mdp)
    return Reader(table(automaton, alphabet), letter_of, automaton.initial, automaton.reads == "left")


def _snapshot(time: int, classes: StateClasses) -> Tracker:
    def value(nodes: IntArray, states: IntArray) -> IntArray:
        return np.maximum(nodes - time, 0)  # nodes still waiting never reach the horizon

    return Tracker(Snapshot(time, classes.of_state), classes.names, value)
