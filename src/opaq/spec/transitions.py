"""Transitions as users state them -> the choices of every state."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray, SparseRows, ints
from opaq.spec.cursor import at, item, mapping
from opaq.spec.matrices import dense, is_array, matrix_entries, scaled_rows, too_large
from opaq.spec.names import Known, distribution

MAX_TRANSITIONS = 20_000_000


@dataclass(frozen=True, slots=True)
class Choices:
    """The enabled actions of every state and where they lead; the fields are those of MDP."""

    choice_start: IntArray  # [state + 1]
    choice_action: IntArray  # [choice]
    transitions: SparseRows  # [choice, state]


@dataclass(frozen=True, slots=True)
class Entries:
    """Transitions read from arrays: one (state, action, next, probability) for every non-zero entry."""

    states: IntArray
    actions: IntArray
    nexts: IntArray
    values: FloatArray
    num_states: int
    action_names: tuple[str, ...] | None  # None: the array numbers its actions
    num_actions: int


def is_array_form(value: Any) -> bool:
    """Whether transitions are given by arrays: one of all, or a matrix for every action."""
    if isinstance(value, Mapping):
        return any(is_array(matrix) for matrix in value.values())
    return is_array(value)


def choices_of(states: Any, actions: Any, nexts: Any, values: Any, *, num_states: int, num_actions: int) -> Choices:
    """The choices that have at least one transition; equal (state, action, next) are summed."""
    keys = np.asarray(states, dtype=np.int64) * num_actions + np.asarray(actions, dtype=np.int64)
    enabled, row = np.unique(keys, return_inverse=True)
    counts = np.bincount(enabled // num_actions, minlength=num_states)
    transitions = SparseRows.from_entries(row, nexts, values, shape=(enabled.size, num_states))
    return Choices(ints(np.concatenate(([0], np.cumsum(counts)))), ints(enabled % num_actions), transitions)


def read_transitions(value: Any, path: str, faults: Faults, *, states: Known, actions: Known) -> Choices | None:
    """Transitions as state -> action -> {next: probability}; the action "*" stands for those not listed."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    found: dict[int, dict[int, dict[int, float] | None]] = {}
    written = 0
    for key, row in table.items():
        state = states.find(key, at(path, key), faults)
        enabled = _read_state(row, at(path, key), faults, states=states, actions=actions)
        if state is not None:
            found[state] = enabled
            written += sum(len(shares or ()) for shares in enabled.values())
        if written > MAX_TRANSITIONS:
            stated = f"states {written:,} transitions up to here, '*' written out; the limit is {MAX_TRANSITIONS:,}"
            faults.error(at(path, key), stated, "enable fewer actions, or use arrays or another format")
            return None
    for name, state in (states.index or {}).items():
        if state not in found:
            faults.error(at(path, name), "is missing", "say what every enabled action does there")
    return _assemble(found, states=states, actions=actions)


def read_entries(value: Any, path: str, faults: Faults) -> Entries | None:
    """Transitions as an array [state, action, next], or as action -> matrix [state, next]."""
    if isinstance(value, Mapping):
        return _matrices(value, path, faults)
    tensor = dense(value, path, faults, axes=("state", "action", "next"))
    if tensor is None:
        return None
    if tensor.shape[0] != tensor.shape[2]:
        faults.error(path, f"has {tensor.shape[0]} states on its first axis and {tensor.shape[2]} on its last")
        return None
    if not tensor.size:
        faults.error(path, "is empty", "give at least one state and one action")
        return None
    states, actions, nexts = np.nonzero(tensor)
    values = tensor[states, actions, nexts]
    return Entries(states, actions, nexts, values, tensor.shape[0], None, tensor.shape[1])


def read_entry_choices(entries: Entries, path: str, faults: Faults, *, states: Known) -> Choices | None:
    """The choices of array entries; rows that are all zero are actions not enabled."""
    named = entries.action_names

    def row_path(row: int) -> str:
        state, action = divmod(row, entries.num_actions)
        return item(path, state, action) if named is None else item(at(path, named[action]), state)

    def entry_path(entry: int) -> str:
        state, action, follower = (int(axis[entry]) for axis in (entries.states, entries.actions, entries.nexts))
        return item(path, state, action, follower) if named is None else item(at(path, named[action]), state, follower)

    values = scaled_rows(
        entries.states * entries.num_actions + entries.actions,
        entries.values,
        num_rows=entries.num_states * entries.num_actions,
        entry_path=entry_path,
        row_path=row_path,
        path=path,
        faults=faults,
    )
    idle = np.flatnonzero(np.bincount(entries.states, minlength=entries.num_states) == 0)
    names = tuple(states.index or ())
    for state in idle.tolist():
        known = f"'{names[state]}'" if state < len(names) else str(state)
        where = item(path, state) if named is None else path
        faults.error(where, f"no action is enabled in state {known}", "give it a row that is not zero")
    if values is None or idle.size:
        return None
    sizes = {"num_states": entries.num_states, "num_actions": entries.num_actions}
    return choices_of(entries.states, entries.actions, entries.nexts, values, **sizes)


def _read_state(
    value: Any, path: str, faults: Faults, *, states: Known, actions: Known
) -> dict[int, dict[int, float] | None]:
    """The distribution of every enabled action of one state; None where it is unusable."""
    table = mapping(value, path, faults)
    if table is None:
        return {}
    if not table:
        faults.error(path, "no action is enabled", "list at least one")
    found: dict[int, dict[int, float] | None] = {}
    for key, row in table.items():
        action = actions.find(key, at(path, key), faults) if key != "*" else None
        shares = distribution(row, at(path, key), faults, states)
        if key == "*":
            for other in (actions.index or {}).values():
                found.setdefault(other, shares)
        elif action is not None:
            found[action] = shares
    return found


def _assemble(
    found: Mapping[int, Mapping[int, Mapping[int, float] | None]], *, states: Known, actions: Known
) -> Choices | None:
    """The choices, when every state and every distribution could be read."""
    if len(found) < len(states) or not len(states) or not len(actions):
        return None
    rows: list[tuple[int, int, int]] = []  # state, action, how many transitions
    nexts, values = array("q"), array("d")
    for state, enabled in found.items():
        for action, shares in enabled.items():
            if shares is None:
                return None
            rows.append((state, action, len(shares)))
            nexts.extend(shares.keys())
            values.extend(shares.values())
        if not enabled:
            return None
    state_of, action_of, counts = np.array(rows, dtype=np.int64).T
    entries = (np.repeat(state_of, counts), np.repeat(action_of, counts), np.array(nexts), np.array(values))
    return choices_of(*entries, num_states=len(states), num_actions=len(actions))


def _matrices(value: Mapping[Any, Any], path: str, faults: Faults) -> Entries | None:
    table = mapping(value, path, faults)
    if table is None or too_large(sum(_size(matrix) for matrix in table.values()), path, faults):
        return None
    found = [matrix_entries(matrix, at(path, key), faults, axes=("state", "next")) for key, matrix in table.items()]
    usable = [entries for entries in found if entries is not None]
    if len(usable) < len(found) or not usable:
        return None
    size = usable[0][3][0]
    if size == 0:
        faults.error(path, "is empty", "give at least one state")
        return None
    fits = [_is_square(size, shape, at(path, key), faults) for key, (*_, shape) in zip(table, usable, strict=True)]
    if not all(fits):
        return None
    actions = np.repeat(np.arange(len(usable)), [entries[0].size for entries in usable])
    rows, columns, values = (np.concatenate([entries[axis] for entries in usable]) for axis in range(3))
    return Entries(rows, actions, columns, values, size, tuple(table), len(usable))


def _is_square(size: int, shape: tuple[int, int], path: str, faults: Faults) -> bool:
    if shape == (size, size):
        return True
    faults.error(path, f"has shape {shape[0]} x {shape[1]}, not {size} x {size}", "the axes are [state, next]")
    return False


def _size(matrix: Any) -> int:
    return int(matrix.size) if isinstance(matrix, np.ndarray) else 0
