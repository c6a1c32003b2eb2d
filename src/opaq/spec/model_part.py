"""Read and write the plant from names and distributions or from arrays: transitions, rewards and labels.

The mapping of `model` comes in, a `Plant` goes out: the MDP, and the scope of the parts after it. By name, transitions
are {state: {action: {next: probability}}}; by arrays they are [state, action, next] or {action: [state, next]}. Both
become an `ActionTable`, the form that `MDP` keeps.

    states: [q0, q1]        start: q0        transitions: {q0: {a: {q0: 0.5, q1: 0.5}}, q1: {"*": q1}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from opaq.errors import Faults, list_names
from opaq.model.arrays import FloatArray, IntArray, SparseRows, distinct, expand_rows, floats, ints
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MAX_ACTIONS, MAX_STATES, MDP
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, read_with_faults
from opaq.spec.grammar import (
    ARRAY,
    REWARD,
    Fields,
    Key,
    Plain,
    Record,
    ValueType,
    all_or_none,
    list_schema,
    map_of,
    mapping_schema,
    unique_names,
)
from opaq.spec.rows import (
    TABLE,
    check_shape,
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
from opaq.spec.sets import START, START_ADVICE, STATES, read_states

_MAX_TRANSITIONS = 20_000_000
_MOST_LISTED = 1000  # states without an action that are named one by one


@dataclass(frozen=True, slots=True)
class ActionTable:
    """The enabled actions of every state and the distributions they lead to; the fields are those of MDP.

    A choice is an action that is enabled in a state; those of state s are choice_start[s] .. choice_start[s + 1] - 1.
    """

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
class _TransitionEntries:
    """Transitions read from arrays: one (state, action, next, probability) for every non-zero entry."""

    states: IntArray
    actions: IntArray
    nexts: IntArray
    values: FloatArray
    num_states: int
    action_names: tuple[str, ...] | None  # None: the array numbers its actions
    num_actions: int


def _is_array_form(value: Any) -> bool:
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
    Probabilities are taken as they are: that rows sum to 1 is for the caller to see to.
    """
    keys = np.asarray(states, dtype=np.int64) * num_actions + np.asarray(actions, dtype=np.int64)
    enabled, row = np.unique(keys, return_inverse=True)
    counts = np.bincount(enabled // num_actions, minlength=num_states)
    transitions = SparseRows.from_entries(row, nexts, values, shape=(enabled.size, num_states))
    return ActionTable(ints(np.concatenate(([0], np.cumsum(counts)))), ints(enabled % num_actions), transitions)


def _read_transitions(cursor: Cursor) -> ActionTable | None:
    """Return the choices from state -> action -> {next: probability}; None after a fault.

    cursor: the mapping, in a scope with states and actions.
    The action "*" stands for every action that is not listed; an action that is not there is not enabled. Every state
    needs at least one. More than _MAX_TRANSITIONS transitions are a fault.
    """
    entries, states = cursor.entries(), cursor.scope.states
    if entries is None:
        return None
    rows: dict[int, dict[int, dict[int, float] | None]] = {}
    written = 0
    for key, entry in entries.items():
        state = states.find(cursor.child(key, key))
        enabled = _read_state_actions(entry)
        if state is not None:
            rows[state] = enabled
            written += sum(len(shares or ()) for shares in enabled.values())
        if written > _MAX_TRANSITIONS:
            finding = f"states {written:,} transitions up to here, '*' written out; the limit is {_MAX_TRANSITIONS:,}"
            return entry.error(finding, "enable fewer actions, or use arrays or another format")
    for name, state in (states.index or {}).items():
        if state not in rows:
            cursor.child(name, None).error("is missing", "say what every enabled action does there")
    return _tabulate_rows(rows, cursor.scope)


def _read_entries(cursor: Cursor) -> _TransitionEntries | None:
    """Return the entries of transitions given as an array [state, action, next], or as action -> matrix [state, next].

    States and actions need not be known yet: the arrays say how many there are.
    Returns None after a fault: an array that is empty, holds no numbers, or has two numbers of states.
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
    return _TransitionEntries(states, actions, nexts, values, tensor.shape[0], None, tensor.shape[1])


def _check_entries(cursor: Cursor, entries: _TransitionEntries) -> ActionTable | None:
    """Return the choices of array entries; rows of zeros are actions that are not enabled.

    cursor: the arrays, in a scope with the listed states and actions, to which sizes and names must fit.
    Returns None after a fault: a row that does not sum to 1, or a state without an enabled action.
    """
    states, ordered = cursor.scope.states, _order_actions(cursor, entries)
    if states.index is not None and entries.num_states != len(states):
        return cursor.error(f"has {entries.num_states:,} states, but {len(states):,} are listed")
    return None if ordered is None else _tabulate_entries(cursor, ordered)


def _tabulate_entries(cursor: Cursor, entries: _TransitionEntries) -> ActionTable | None:
    """Return the choices of entries whose actions are numbered as they are listed, rows scaled to sum to 1.

    cursor: the arrays, for faults; entries: one per non-zero probability.
    Returns None after noting rows that do not sum to 1, and states without an enabled action (_MOST_LISTED by name).
    """
    action_names, count = entries.action_names, entries.num_actions

    def spell(row: int, entry: int | None) -> Cursor:
        """Return the cursor of a row, or of one of its entries, as its own form of array writes the index."""
        state, action = divmod(row, count)
        rest = () if entry is None else (int(entries.nexts[entry]),)
        if action_names is None:
            return cursor.item(state, action, *rest)
        return cursor.child(action_names[action], None).item(state, *rest)

    rows = entries.states * count + entries.actions
    values = scale_rows(cursor, rows, entries.values, num_rows=entries.num_states * count, spell=spell)
    idle = np.flatnonzero(np.bincount(entries.states, minlength=entries.num_states) == 0)
    names = cursor.scope.states.listed
    for state in idle[:_MOST_LISTED].tolist():
        state_text = f"'{names[state]}'" if state < len(names) else str(state)
        where = cursor.item(state) if action_names is None else cursor
        where.error(f"no action is enabled in state {state_text}", "give it a row that is not zero")
    if idle.size > _MOST_LISTED:
        cursor.error(
            f"no action is enabled in {idle.size - _MOST_LISTED:,} more states", "give each a row that is not zero"
        )
    if values is None or idle.size:
        return None
    sizes = {"num_states": entries.num_states, "num_actions": count}
    return tabulate_choices(entries.states, entries.actions, entries.nexts, values, **sizes)


def _order_actions(cursor: Cursor, entries: _TransitionEntries) -> _TransitionEntries | None:
    """Return the same entries with the actions numbered as they are listed; None when names or their number differ.

    cursor: the arrays, in a scope with the listed actions; where none are known the entries come back as they are.
    """
    actions, action_names = cursor.scope.actions, entries.action_names
    if actions.index is None:
        return entries
    if action_names is None:
        if entries.num_actions == len(actions):
            return entries
        return cursor.error(f"has {entries.num_actions:,} actions, but {len(actions):,} are listed")
    order = all_or_none([actions.find(cursor.child(action, action)) for action in action_names])
    missing = [action for action in actions.index if action not in action_names]
    for action in missing:
        cursor.child(action, None).error("is missing", "give its matrix [state, next]")
    if missing or order is None:
        return None
    action_index = np.array(order, dtype=np.int64)[entries.actions]
    return replace(entries, actions=action_index, action_names=actions.listed, num_actions=len(actions))


def _read_state_actions(cursor: Cursor) -> dict[int, dict[int, float] | None]:
    """Return action -> the distribution of every enabled action of one state; None where it is unusable.

    cursor: {action: {next: probability}} of the state; a state without an action is a fault.
    """
    if isinstance(cursor.value, Mapping) and not cursor.value:
        cursor.error("no action is enabled", "list at least one")
    names = cursor.scope
    return read_by_name(cursor, names.actions, lambda entry: read_distribution(entry, names.states)) or {}


def _tabulate_rows(rows_of: Mapping[int, Mapping[int, Mapping[int, float] | None]], scope: Scope) -> ActionTable | None:
    """Return the choices, when every state and every distribution could be read; else None.

    rows_of: state -> action -> {next: probability}; scope: has the sizes of the model.
    """
    num_states, num_actions = len(scope.states), len(scope.actions)
    owners = [(state, action) for state, enabled in rows_of.items() for action in enabled]
    rows = all_or_none([shares for enabled in rows_of.values() for shares in enabled.values()])
    if len(rows_of) < num_states or not num_states or not num_actions or not rows or not all(rows_of.values()):
        return None
    owner, nexts, values = flatten_rows(owners, rows)
    return tabulate_choices(owner[:, 0], owner[:, 1], nexts, values, num_states=num_states, num_actions=num_actions)


def _read_matrices(cursor: Cursor) -> _TransitionEntries | None:
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
    return _TransitionEntries(rows, actions, columns, values, size, tuple(children), len(tables))


def _size(matrix: Any) -> int:
    """Return the number of entries of an array; 0 for anything else, whose size is checked when it is read."""
    return int(matrix.size) if isinstance(matrix, np.ndarray) else 0


def _write_transitions(choices: ActionTable, scope: Scope) -> dict[str, dict[str, dict[str, float]]]:
    """Return the choices by name, state -> action -> {next: probability}, as `_read_transitions` reads them."""
    states, actions = scope.states.listed, scope.actions.listed
    return {
        name: {
            actions[choices.choice_action[choice]]: write_shares(*choices.transitions.row(choice), states)
            for choice in range(*choices.choice_start[state : state + 2].tolist())
        }
        for state, name in enumerate(states)
    }


_TRANSITIONS: ValueType[ActionTable] = ValueType(
    'state -> action -> `{next: probability}`, or one next state; `"*"` stands for every action not listed, and '
    "actions that are not there are not enabled. Also an array `[state][action][next]`, or action -> `[state][next]`, "
    "where rows of zeros are actions not enabled",
    _read_transitions,
    (mapping_schema(TABLE, least=1), ARRAY),
    _write_transitions,
)


@dataclass(frozen=True, slots=True)
class _Reward:
    """One entry: a number for a state and an action, where None stands for all of them."""

    state: int | None
    action: int | None
    value: float
    cursor: Cursor


Rewards = list[_Reward] | FloatArray  # entries from the vaguest to the most exact, or an array [state(, action)]


def _read_rewards(cursor: Cursor) -> Rewards | None:
    """Return rewards from state -> number or state -> action -> number ("*" stands for the rest), or from an array.

    Entries come sorted from the vaguest to the most exact, so that later ones win. Returns None when it is no mapping.
    """
    if is_array(cursor.value):
        return _read_array(cursor)
    entries, states = cursor.entries(), cursor.scope.states
    if entries is None:
        return None
    rewards: list[_Reward] = []
    for key, entry in entries.items():
        state = None if key == "*" else states.find(cursor.child(key, key))
        if key == "*" or state is not None or states.index is None:
            rewards.extend(_read_state_rewards(entry, state))
    return sorted(rewards, key=lambda reward: (reward.state is not None, reward.action is not None))


def expand_rewards(rewards: Rewards | None, choices: ActionTable, actions: NameTable) -> FloatArray:
    """Return the reward of every choice; exact entries win over "*".

    rewards: entries or an array [state] or [state, action]; None earns nothing.
    choices, actions: the choices of the model and the names of its actions.
    A reward of an action that is not enabled in its state is a warning.
    """
    counts = np.diff(choices.choice_start)
    if isinstance(rewards, np.ndarray):
        states = np.repeat(np.arange(counts.size), counts)
        return floats(rewards[states] if rewards.ndim == 1 else rewards[states, choices.choice_action])
    amounts = np.zeros(choices.choice_action.size)
    for reward in rewards or []:
        entries = slice(None) if reward.state is None else choices.of_state(reward.state)
        chosen = choices.choice_action[entries] == reward.action
        if reward.action is None:
            amounts[entries] = reward.value
        elif chosen.any():
            amounts[entries][chosen] = reward.value
        elif reward.state is not None:
            action = actions.listed[reward.action]
            reward.cursor.warn(f"action '{action}' is not enabled there", "it is never earned")
    return floats(amounts)


def _write_rewards(mdp: MDP, amounts: FloatArray) -> Plain:
    """Return rewards by state, where there are any: one number when every action earns the same, else one per action.

    mdp: has the names and choices; amounts: [choice], the model's own rewards or named ones.
    """
    rewards: Plain = {}
    for state, name in enumerate(mdp.states):
        choices = range(int(mdp.choice_start[state]), int(mdp.choice_start[state + 1]))
        of_action = {mdp.actions[mdp.choice_action[choice]]: float(amounts[choice]) for choice in choices}
        if any(of_action.values()):
            rewards[name] = next(iter(of_action.values())) if len(set(of_action.values())) == 1 else of_action
    return rewards


def _read_state_rewards(cursor: Cursor, state: int | None) -> list[_Reward]:
    """Return the entries of one state, from a number or action -> number; none after a fault.

    cursor: the number or the mapping; state: its position, None for all of them.
    """
    if not isinstance(cursor.value, Mapping):
        value = cursor.reward()
        return [] if value is None else [_Reward(state, None, value, cursor)]
    rewards = []
    for key, entry in (cursor.entries() or {}).items():
        action = None if key == "*" else cursor.scope.actions.find(cursor.child(key, key))
        value = entry.reward()
        if value is not None and (key == "*" or action is not None):
            rewards.append(_Reward(state, action, value, entry))
    return rewards


def _read_array(cursor: Cursor) -> FloatArray | None:
    """Return rewards from an array [state] or [state, action]; None after a fault.

    Its shape must be that of the listed states and actions, its entries up to MAX_REWARD in size.
    """
    value, states, actions = cursor.value, cursor.scope.states, cursor.scope.actions
    flat = np.ndim(value) == 1 if isinstance(value, np.ndarray) else not any(is_array(row) for row in value)
    table = read_array(cursor, axes=("state",) if flat else ("state", "action"))
    if table is None or states.index is None or actions.index is None:
        return None
    for index in np.argwhere(np.abs(table) > MAX_REWARD):
        cursor.item(*index.tolist(), value=float(table[tuple(index)])).reward()
    expected = (len(states),) if flat else (len(states), len(actions))
    return table if check_shape(cursor, table.shape, expected) else None


REWARDS: ValueType[Rewards] = ValueType(
    'state -> number, or state -> action -> number; `"*"` stands for the rest; not listed: 0. Also an array `[state]` '
    "or `[state][action]`",
    _read_rewards,
    (mapping_schema((REWARD, mapping_schema(REWARD))), ARRAY),
    ref="rewards",
)
NAMED_REWARDS: ValueType[dict[str, Any]] = map_of(REWARDS, "name -> rewards, in the same form")


_NOT_IN_LABELS = re.compile(r'["&|!~()]')


class Plant(NamedTuple):
    """A model being read: the scope of the parts after it, and the model unless it is unusable."""

    scope: Scope
    mdp: MDP | None


def build_mdp(
    *,
    transitions: Any,
    start: Any,
    states: Any = None,
    actions: Any = None,
    rewards: Any = None,
    named_rewards: Any = None,
    labels: Any = None,
    positions: Any = None,
    faults: Faults | None = None,
    path: str = "model",
) -> MDP:
    """Build a Markov decision process from names and distributions, or from arrays.

    transitions: {state: {action: {next: probability}}} ("*" stands for every action not listed), an array
        [state, action, next], or {action: matrix [state, next]}, where rows of zeros are actions not enabled.
    start: a state, a list of states (each as likely), {state: probability}, or an array [state].
    states, actions: lists of names; with arrays they may be left out and are numbered from 0.
    rewards: {state: number}, {state: {action: number}} or an array [state] or [state, action]; none by default.
    named_rewards: further rewards by name, each written as `rewards` are; requirements of the task refer to them.
    labels: {label: states}; secrets, sensors, guards and formulas refer to labels.
    positions: {state: [x, y]}, x to the right and y up: where pictures put every state.
    faults: collects every fault instead of raising InputError; the model is then None when it is unusable.
    path: what faults call the model.
    """
    spec = {"transitions": transitions, "start": start}
    spec |= drop_none(states=states, actions=actions, rewards=rewards, named_rewards=named_rewards, labels=labels)
    spec |= drop_none(positions=positions)
    return read_with_faults(lambda cursor: mdp_of(MODEL.read(cursor)), Scope().cursor(spec, path), faults)


def mdp_of(plant: Plant | None) -> MDP | None:
    """Return the model of a plant, unless it is unusable."""
    return None if plant is None else plant.mdp


def check_label(cursor: Cursor, label: str) -> None:
    """Note a label that guards could not mention: a word or a sign that has a meaning of its own there.

    cursor: where the fault is noted; label: e.g. "true", "*" and "a&b" are refused.
    """
    if label in ("true", "false", "*"):
        cursor.error(f"'{label}' cannot name a label", "it has a meaning of its own")
    elif _NOT_IN_LABELS.search(label):
        cursor.error(f"'{label}' cannot name a label", 'labels stand in guards: leave out " & | ! ~ ( )')


def _read_labels(cursor: Cursor) -> dict[str, IntArray | None] | None:
    """Return label -> states; the value is None for a label that is unusable, the whole is None when it is no mapping.

    In an imported model the file's own labels are kept, and later labels may use those before them.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    labels: dict[str, IntArray | None] = dict(cursor.scope.labels or {}) if cursor.scope.imported else {}
    known = dict(labels)
    for label, entry in entries.items():
        check_label(entry, label)
        labels[label] = read_states(entry.within(replace(cursor.scope, labels=known)))
        if cursor.scope.imported:
            known[label] = labels[label]
    return labels


def all_labels(labels: Mapping[str, IntArray | None] | None) -> dict[str, IntArray] | None:
    """Return the labels when all of them could be read, else None."""
    usable = {label: states for label, states in (labels or {}).items() if states is not None}
    return usable if labels is not None and len(usable) == len(labels) else None


def _warn_unreachable(cursor: Cursor, mdp: MDP) -> None:
    """Warn of states that no action reaches from the start (a breadth-first search over all choices)."""
    reached = mdp.start > 0
    frontier = np.flatnonzero(reached)
    while frontier.size:
        _, choices = expand_rows(mdp.choice_start, frontier)
        _, entries = expand_rows(mdp.transitions.starts, choices)
        followers = distinct(mdp.transitions.columns[entries])
        frontier = followers[~reached[followers]]
        reached[frontier] = True
    missed = [mdp.states[state] for state in np.flatnonzero(~reached)]
    if missed:
        count = "1 state is" if len(missed) == 1 else f"{len(missed):,} states are"
        cursor.warn(f"{count} never reached from the start: {list_names(missed)}")


def model_scope(fields: Fields, states: NameTable, actions: NameTable, variables: Plain | None) -> Scope:
    """Return what the other keys of a model may refer to: its states and actions, and its labels, which are read.

    fields: the `model` or `grid` mapping.
    states, actions: their names; without an index when they could not be read.
    variables: the coordinates of the states, by name; None when they could not be read.
    """
    scope = replace(fields.cursor.scope, states=states, actions=actions, labels={}, variables=variables)
    return replace(scope, labels=fields.read("labels", scope)) if "labels" in fields else scope


def assemble(
    fields: Fields,
    scope: Scope,
    *,
    choices: ActionTable | None,
    start: FloatArray | None,
    where: Cursor,
    positions: FloatArray | None = None,
) -> Plant:
    """Build the model of a `model` or a `grid` mapping; its rewards are read here.

    fields: the mapping.
    scope: what the rewards may refer to, its states, actions and labels among them.
    choices, start: the other parts; None when they are unusable.
    where: gets the warning about states that are never reached.
    positions: of the states, if they have any.
    """
    rewards, named_rewards = fields.read("rewards", scope), fields.read("named_rewards", scope)
    labels, states, actions = all_labels(scope.labels), scope.states, scope.actions
    if choices is None or start is None or labels is None or states.index is None or actions.index is None:
        return Plant(scope, None)
    of_choice = expand_rewards(rewards, choices, actions)
    named = {name: expand_rewards(amounts, choices, actions) for name, amounts in (named_rewards or {}).items()}
    arrays = (choices.choice_start, choices.choice_action, choices.transitions)
    mdp = MDP(states.listed, actions.listed, start, *arrays, of_choice, labels, named, positions)
    _warn_unreachable(where, mdp)
    unusable = named_rewards is None and "named_rewards" in fields
    return Plant(replace(scope, rewards=None if unusable else named), mdp)


def _make(fields: Fields) -> Plant:
    """Build the model from its keys; arrays are read first, because they may give states and actions.

    fields: the mapping of `model`. By name `states` and `actions` are required, by arrays they may be left out.
    """
    by_array = _is_array_form(fields.at("transitions").value)
    if not by_array:
        fields.require("states", "list the states")
        fields.require("actions", "list the actions")
    entries = _read_entries(fields.at("transitions")) if by_array else None
    states, actions = (_list_names(fields, key, entries) for key in ("states", "actions"))
    tables = NameTable.of("state", states), NameTable.of("action", actions)
    positions = fields.read("positions", replace(fields.cursor.scope, states=tables[0]))
    axes = {} if positions is None else {"x": positions[:, 0], "y": positions[:, 1]}
    scope = model_scope(fields, *tables, None if positions is None and "positions" in fields else axes)
    choices = None
    if entries is not None:
        choices = _check_entries(fields.at("transitions").within(scope), entries)
    elif not by_array:
        choices = fields.read("transitions", scope)
    start = fields.read("start", scope)
    return assemble(fields, scope, choices=choices, start=start, where=fields.at("states"), positions=positions)


def _list_names(fields: Fields, key: str, entries: _TransitionEntries | None) -> tuple[str, ...] | None:
    """Return the names under a key, "states" or "actions"; None after a fault.

    entries: the arrays of transitions, which number them from 0 where the key is not there; None without arrays.
    """
    if key in fields or entries is None:
        names: tuple[str, ...] | None = fields.read(key)
        return names
    if key == "actions" and entries.action_names is not None:
        return entries.action_names
    count = entries.num_states if key == "states" else entries.num_actions
    if count > MAX_STATES:
        return fields.at("transitions").error(f"has {count:,} {key}, more than {MAX_STATES:,}")
    return tuple(str(index) for index in range(count))


def _parts(mdp: MDP, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    return {
        "states": mdp.states,
        "actions": mdp.actions,
        "start": mdp.start,
        "transitions": ActionTable.of(mdp),
        "rewards": _write_rewards(mdp, mdp.rewards),
        "named_rewards": {name: _write_rewards(mdp, amounts) for name, amounts in mdp.named_rewards.items()},
        "labels": dict(mdp.labels),
        "positions": mdp.positions,
    }


def _read_positions(cursor: Cursor) -> FloatArray | None:
    """Return positions [state, 2] from {state: [x, y]}; None after a fault, such as a state without one."""
    entries, states = cursor.entries(), cursor.scope.states
    if entries is None or states.index is None:
        return None
    positions, before = np.full((len(states), 2), np.nan), len(cursor.faults.errors)
    for key, entry in entries.items():
        state, pair = states.find(cursor.child(key, key)), entry.items()
        if pair is not None and len(pair) != 2:
            entry.error(f"has {len(pair)} numbers, not 2", "write [x, y]")
        elif pair is not None:
            read = all_or_none([number.number() for number in pair])
            if state is not None and read is not None:
                positions[state] = read
    missing = [name for name, given in zip(states.listed, np.isfinite(positions[:, 0]), strict=True) if not given]
    if missing and len(cursor.faults.errors) == before:
        cursor.error(f"no position for {list_names(missing)}", "give every state one, or remove them all")
    return None if len(cursor.faults.errors) > before else positions


def _write_positions(positions: FloatArray, scope: Scope) -> Plain:
    """Return {state: [x, y]}; whole numbers are written as such."""
    plain = [[int(each) if each == int(each) else each for each in pair] for pair in positions.tolist()]
    return dict(zip(scope.states.listed, plain, strict=True))


_LABELS: ValueType[Any] = map_of(STATES, "label -> states", ref="labels")
LABELS: ValueType[Any] = replace(_LABELS, read=_read_labels)
_PAIR = list_schema({"type": "number"}) | {"minItems": 2, "maxItems": 2}
POSITIONS: ValueType[FloatArray] = ValueType(
    "state -> `[x, y]`, x to the right and y up", _read_positions, mapping_schema(_PAIR, least=1), _write_positions
)
_LEADS = "say where every action leads: {state: {action: {next: probability}}}"
MODEL: Record[Any] = Record(
    "model",
    "A Markov decision process, state by state.",
    (
        Key("states", unique_names("state", MAX_STATES), "The states; may be left out with arrays."),
        Key("actions", unique_names("action", MAX_ACTIONS), "The actions; may be left out with arrays."),
        Key("start", START, "Where the run starts.", required=START_ADVICE),
        Key("transitions", _TRANSITIONS, "Where every action leads.", required=_LEADS),
        Key("rewards", REWARDS, "What is earned at every time 0 .. horizon."),
        Key("named_rewards", NAMED_REWARDS, "Further rewards, to which requirements of the task refer."),
        Key("labels", LABELS, "Secrets, sensors, guards and formulas refer to labels."),
        Key("positions", POSITIONS, "Where pictures put every state; regions and `where` refer to `x` and `y`."),
    ),
    _make,
    _parts,
    example="""\
model:
  states: [q0, q1, q2]
  actions: [a, b]
  start: q0
  transitions:
    q0: {a: q0, b: {q1: 0.5, q2: 0.5}}
    q1: {"*": q1}
    q2: {"*": q2}
  rewards: {q1: 1, q2: 1}
  labels: {secret: [q1], goal: [q1, q2]}""",
)
