"""Transitions as users state them -> the choices of every state.

By name, {state: {action: {next: probability}}}, or by arrays, [state, action, next] or {action: [state, next]}; both
become an `ActionTable`, the form that `MDP` keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, SparseRows, ints
from opaq.model.mdp import MDP
from opaq.spec.cursor import Cursor, Scope
from opaq.spec.grammar import ARRAY, ValueType, all_or_none, mapping_schema
from opaq.spec.rows import (
    TABLE,
    exceeds_array_limit,
    flatten_rows,
    is_array,
    read_array,
    read_by_name,
    read_distribution,
    read_matrix,
    scale_rows,
    write_shares,
)

_MAX_TRANSITIONS = 20_000_000
_MOST_LISTED = 1000  # states without an action that are named one by one


@dataclass(frozen=True, slots=True)
class ActionTable:
    """The enabled actions of every state and the distributions they lead to; the fields are those of MDP."""

    choice_start: IntArray  # [state + 1]
    choice_action: IntArray  # [choice]
    transitions: SparseRows  # [choice, state]

    @classmethod
    def of(cls, mdp: MDP) -> ActionTable:
        """Return the choices of a finished model."""
        return cls(mdp.choice_start, mdp.choice_action, mdp.transitions)

    def of_state(self, state: int) -> slice:
        """Return the choices of one state, as a slice."""
        return slice(int(self.choice_start[state]), int(self.choice_start[state + 1]))


@dataclass(frozen=True, slots=True)
class TransitionEntries:
    """Transitions read from arrays: one (state, action, next, probability) for every non-zero entry."""

    states: IntArray
    actions: IntArray
    nexts: IntArray
    values: FloatArray
    num_states: int
    action_names: tuple[str, ...] | None  # None: the array numbers its actions
    num_actions: int


def is_array_form(value: Any) -> bool:
    """Return whether transitions are given by arrays: one of all, or a matrix for every action."""
    if isinstance(value, Mapping):
        return any(is_array(matrix) for matrix in value.values())
    return is_array(value)


def tabulate_choices(
    states: Any, actions: Any, nexts: Any, values: Any, *, num_states: int, num_actions: int
) -> ActionTable:
    """Return the table of every (state, action) that has a transition, sorted by state and then action.

    states, actions, nexts, values: one transition each, in any order; equal (state, action, next) are summed.
    num_states, num_actions: the sizes of the model.
    """
    keys = np.asarray(states, dtype=np.int64) * num_actions + np.asarray(actions, dtype=np.int64)
    enabled, row = np.unique(keys, return_inverse=True)
    counts = np.bincount(enabled // num_actions, minlength=num_states)
    transitions = SparseRows.from_entries(row, nexts, values, shape=(enabled.size, num_states))
    return ActionTable(ints(np.concatenate(([0], np.cumsum(counts)))), ints(enabled % num_actions), transitions)


def read_transitions(cursor: Cursor) -> ActionTable | None:
    """Return the choices from state -> action -> {next: probability}; None after a fault.

    The action "*" stands for every action that is not listed; an action that is not there is not enabled. Every state
    needs at least one.
    """
    entries, states = cursor.entries(), cursor.scope.states
    if entries is None:
        return None
    rows: dict[int, dict[int, dict[int, float] | None]] = {}
    written = 0
    for key, entry in entries.items():
        state = states.find(cursor.child(key, key))
        enabled = _read_state(entry)
        if state is not None:
            rows[state] = enabled
            written += sum(len(shares or ()) for shares in enabled.values())
        if written > _MAX_TRANSITIONS:
            finding = f"states {written:,} transitions up to here, '*' written out; the limit is {_MAX_TRANSITIONS:,}"
            return entry.error(finding, "enable fewer actions, or use arrays or another format")
    for name, state in (states.index or {}).items():
        if state not in rows:
            cursor.child(name, None).error("is missing", "say what every enabled action does there")
    return _assemble(rows, cursor.scope)


def read_entries(cursor: Cursor) -> TransitionEntries | None:
    """Return the entries of transitions given as an array [state, action, next], or as action -> matrix [state, next].

    States and actions need not be known yet: the arrays say how many there are.
    """
    if isinstance(cursor.value, Mapping):
        return _read_matrices(cursor)
    tensor = read_array(cursor, axes=("state", "action", "next"))
    if tensor is None:
        return None
    if tensor.shape[0] != tensor.shape[2]:
        return cursor.error(f"has {tensor.shape[0]} states on its first axis and {tensor.shape[2]} on its last")
    if not tensor.size:
        return cursor.error("is empty", "give at least one state and one action")
    states, actions, nexts = np.nonzero(tensor)
    values = tensor[states, actions, nexts]
    return TransitionEntries(states, actions, nexts, values, tensor.shape[0], None, tensor.shape[1])


def check_entries(cursor: Cursor, entries: TransitionEntries) -> ActionTable | None:
    """Return the choices of array entries; rows of zeros are actions that are not enabled.

    cursor: the arrays, in a scope with the listed states and actions, to which sizes and names must fit.
    Returns None after a fault: a row that does not sum to 1, or a state without an enabled action.
    """
    states, ordered = cursor.scope.states, _order_actions(cursor, entries)
    if states.index is not None and entries.num_states != len(states):
        return cursor.error(f"has {entries.num_states:,} states, but {len(states):,} are listed")
    return None if ordered is None else _tabulate_entries(cursor, ordered)


def _tabulate_entries(cursor: Cursor, entries: TransitionEntries) -> ActionTable | None:
    """Return the choices of entries whose actions are numbered as they are listed, rows scaled to sum to 1."""
    named, count = entries.action_names, entries.num_actions

    def spell(row: int, entry: int | None) -> Cursor:
        state, action = divmod(row, count)
        rest = () if entry is None else (int(entries.nexts[entry]),)
        if named is None:
            return cursor.item(state, action, *rest)
        return cursor.child(named[action], None).item(state, *rest)

    rows = entries.states * count + entries.actions
    values = scale_rows(cursor, rows, entries.values, num_rows=entries.num_states * count, spell=spell)
    idle = np.flatnonzero(np.bincount(entries.states, minlength=entries.num_states) == 0)
    names = cursor.scope.states.listed
    for state in idle[:_MOST_LISTED].tolist():
        spelled = f"'{names[state]}'" if state < len(names) else str(state)
        where = cursor.item(state) if named is None else cursor
        where.error(f"no action is enabled in state {spelled}", "give it a row that is not zero")
    if idle.size > _MOST_LISTED:
        cursor.error(
            f"no action is enabled in {idle.size - _MOST_LISTED:,} more states", "give each a row that is not zero"
        )
    if values is None or idle.size:
        return None
    sizes = {"num_states": entries.num_states, "num_actions": count}
    return tabulate_choices(entries.states, entries.actions, entries.nexts, values, **sizes)


def _order_actions(cursor: Cursor, entries: TransitionEntries) -> TransitionEntries | None:
    """Return the same entries with the actions numbered as they are listed; None when names or their number differ."""
    actions, named = cursor.scope.actions, entries.action_names
    if actions.index is None:
        return entries
    if named is None:
        if entries.num_actions == len(actions):
            return entries
        return cursor.error(f"has {entries.num_actions:,} actions, but {len(actions):,} are listed")
    order = all_or_none([actions.find(cursor.child(action, action)) for action in named])
    missing = [action for action in actions.index if action not in named]
    for action in missing:
        cursor.child(action, None).error("is missing", "give its matrix [state, next]")
    if missing or order is None:
        return None
    moved = np.array(order, dtype=np.int64)[entries.actions]
    return replace(entries, actions=moved, action_names=actions.listed, num_actions=len(actions))


def _read_state(cursor: Cursor) -> dict[int, dict[int, float] | None]:
    """Return action -> the distribution of every enabled action of one state; None where it is unusable."""
    if isinstance(cursor.value, Mapping) and not cursor.value:
        cursor.error("no action is enabled", "list at least one")
    names = cursor.scope
    return read_by_name(cursor, names.actions, lambda entry: read_distribution(entry, names.states)) or {}


def _assemble(rows_of: Mapping[int, Mapping[int, Mapping[int, float] | None]], scope: Scope) -> ActionTable | None:
    """Return the choices, when every state and every distribution could be read."""
    num_states, num_actions = len(scope.states), len(scope.actions)
    owners = [(state, action) for state, enabled in rows_of.items() for action in enabled]
    rows = all_or_none([shares for enabled in rows_of.values() for shares in enabled.values()])
    if len(rows_of) < num_states or not num_states or not num_actions or not rows or not all(rows_of.values()):
        return None
    owner, nexts, values = flatten_rows(owners, rows)
    return tabulate_choices(owner[:, 0], owner[:, 1], nexts, values, num_states=num_states, num_actions=num_actions)


def _read_matrices(cursor: Cursor) -> TransitionEntries | None:
    """Return the entries of action -> matrix [state, next]; all matrices must be square and of one size."""
    children = cursor.entries()
    if children is None or exceeds_array_limit(cursor, sum(_size(child.value) for child in children.values())):
        return None
    tables = all_or_none([read_matrix(child, axes=("state", "next")) for child in children.values()])
    if not tables:
        return None
    size = tables[0].shape[0]
    if size == 0:
        return cursor.error("is empty", "give at least one state")
    square = [table.shape == (size, size) for table in tables]
    for child, table, fits in zip(children.values(), tables, square, strict=True):
        if not fits:
            shape = f"{table.shape[0]} x {table.shape[1]}"
            child.error(f"has shape {shape}, not {size} x {size}", "the axes are [state, next]")
    if not all(square):
        return None
    actions = np.repeat(np.arange(len(tables)), [table.rows.size for table in tables])
    rows, columns, values = (np.concatenate([table[axis] for table in tables]) for axis in range(3))
    return TransitionEntries(rows, actions, columns, values, size, tuple(children), len(tables))


def _size(matrix: Any) -> int:
    """Return the number of entries of an array; 0 for anything else, whose size is checked when it is read."""
    return int(matrix.size) if isinstance(matrix, np.ndarray) else 0


def _write(choices: ActionTable, scope: Scope) -> dict[str, dict[str, dict[str, float]]]:
    """Return the choices by name, as `read_transitions` reads them."""
    states, actions = scope.states.listed, scope.actions.listed
    return {
        name: {
            actions[choices.choice_action[choice]]: write_shares(*choices.transitions.row(choice), states)
            for choice in range(*choices.choice_start[state : state + 2].tolist())
        }
        for state, name in enumerate(states)
    }


TRANSITIONS: ValueType[ActionTable] = ValueType(
    'state -> action -> `{next: probability}`, or one next state; `"*"` stands for every action not listed, and '
    "actions that are not there are not enabled. Also an array `[state][action][next]`, or action -> `[state][next]`, "
    "where rows of zeros are actions not enabled",
    read_transitions,
    (mapping_schema(TABLE, least=1), ARRAY),
    _write,
)
