"""Observers as trackers: a machine that reads the run, and what its node and the state emit.

A new kind of observer is a data class with `observations` and one function registered here:

    @track_observer.register
    def _(observer: MyObserver, mdp: MDP) -> ObserverTracker: ...

Its machine may remember anything about the run, and may branch at random. A policy that looks at what the observer
sees needs a tracker that draws the observation and keeps it: `opaq.product.observation_recorder` makes one of any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, SparseRows, spread
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.product.machine import Idle, LastAction, Machine, Window


@dataclass(frozen=True, slots=True)
class ObserverTracker:
    """o_t ~ E(o | n_t, s_t), where n is the machine's node."""

    machine: Machine
    observations: tuple[str, ...]
    emission: Callable[[IntArray, IntArray], SparseRows]  # (nodes, states) -> [position, observation]
    window: Window | None = None  # of the last observations, where nodes keep one: it is node % window.size
    memoryless: bool = False  # whether the machine's next node does not depend on the one before


@singledispatch
def track_observer(observer: object, mdp: MDP) -> ObserverTracker:
    """The tracker of an observer; every kind registers its own."""
    raise TypeError(f"no tracker is registered for observers of type {type(observer).__name__}")


@track_observer.register
def _(observer: Observer, mdp: MDP) -> ObserverTracker:
    """What the state shows and, when actions are seen, the sign of the last one beside it."""
    if observer.action_emission is None and observer.after_action is None:
        return _state_tracker(observer)
    kind_of = _action_kinds(observer, mdp)
    _, example = np.unique(kind_of, return_index=True)
    signs = _signs(observer.action_emission, example)
    names = observer.seen_names

    def emission(kinds: IntArray, states: IntArray) -> SparseRows:
        last_action = np.where(kinds > 0, example[kinds - 1], -1)
        owner, shown, chance = _shown(observer, mdp.num_states, states, last_action)
        case, entry = spread(signs.starts, kinds[owner])
        joint = shown[case] * signs.num_columns + signs.columns[entry]
        weights = chance[case] * signs.values[entry]
        return SparseRows.from_entries(owner[case], joint, weights, shape=(states.size, len(names)))

    return ObserverTracker(LastAction(kind_of), names, emission, memoryless=True)


def _state_tracker(observer: Observer) -> ObserverTracker:
    """Of an observer who sees the state alone."""

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        table = observer.emission
        owner, entry = spread(table.starts, states)
        shape = (states.size, len(observer.observations))
        return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)

    return ObserverTracker(Idle(), observer.observations, emission)


def _action_kinds(observer: Observer, mdp: MDP) -> IntArray:
    """Actions the observer cannot tell apart are of one kind."""
    signatures = [_signature(observer, action, mdp.num_states) for action in range(len(mdp.actions))]
    kind = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    return np.array([kind[signature] for signature in signatures], dtype=np.int64)


def _signature(observer: Observer, action: int, num_states: int) -> tuple[bytes, ...]:
    """All that the observer can see of an action."""
    signs, after = observer.action_emission, observer.after_action
    parts = [] if signs is None else [part.tobytes() for part in signs.row(action)]
    if after is not None:
        starts = after.starts[action * num_states : (action + 1) * num_states + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        parts += [part.tobytes() for part in (np.diff(starts), after.columns[entries], after.values[entries])]
    return tuple(parts)


def _shown(
    observer: Observer, num_states: int, state: IntArray, action: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """What is seen of each state after an action (-1: at the start): (position, observation, probability)."""
    emission, after = observer.emission, observer.after_action
    if after is None:
        owner, entry = spread(emission.starts, state)
        return owner, emission.columns[entry], emission.values[entry]
    starts = np.concatenate((emission.starts, emission.starts[-1] + after.starts[1:]))
    owner, entry = spread(starts, (action + 1) * num_states + state)
    columns, values = (
        np.concatenate(both) for both in ((emission.columns, after.columns), (emission.values, after.values))
    )
    return owner, columns[entry].astype(np.int64), values[entry].astype(np.float64)


def _signs(emission: SparseRows | None, example: IntArray) -> SparseRows:
    """[kind of last action, sign]: sign 0 is "nothing", shown before the first action or when signs are not seen."""
    if emission is None:
        kinds = example.size + 1
        return SparseRows.from_entries(range(kinds), [0] * kinds, [1.0] * kinds, shape=(kinds, 1))
    owner, entry = spread(emission.starts, example)
    rows = np.concatenate(([0], owner + 1))
    columns = np.concatenate(([0], emission.columns[entry] + 1))
    values = np.concatenate(([1.0], emission.values[entry]))
    return SparseRows.from_entries(rows, columns, values, shape=(example.size + 1, emission.num_columns + 1))
