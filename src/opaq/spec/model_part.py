"""The plant from names and distributions or from arrays, with its labels and rewards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from opaq.errors import Faults, some
from opaq.model.arrays import FloatArray, IntArray, expand_rows, floats
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MAX_ACTIONS, MAX_STATES, MDP
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, read_with_faults
from opaq.spec.grammar import ARRAY, REWARD, Fields, Key, Plain, Record, ValueType, map_of, mapping_schema, unique_names
from opaq.spec.rows import check_shape, is_array, read_array
from opaq.spec.sets import START, START_ADVICE, STATES, read_states
from opaq.spec.transitions import (
    TRANSITIONS,
    ActionTable,
    TransitionEntries,
    check_entries,
    is_array_form,
    read_entries,
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
    """Return rewards by state, where there are any.

    One number when every action earns the same, else one per action.
    """
    rewards: Plain = {}
    for state, name in enumerate(mdp.states):
        choices = range(int(mdp.choice_start[state]), int(mdp.choice_start[state + 1]))
        of_action = {mdp.actions[mdp.choice_action[choice]]: float(amounts[choice]) for choice in choices}
        if any(of_action.values()):
            rewards[name] = next(iter(of_action.values())) if len(set(of_action.values())) == 1 else of_action
    return rewards


def _read_state_rewards(cursor: Cursor, state: int | None) -> list[_Reward]:
    """Return the entries of one state (None: all of them), a number or action -> number."""
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
    """Return rewards from an array [state] or [state, action]; None after a fault."""
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
    faults: collects every fault instead of raising InputError; the model is then None when it is unusable.
    path: what faults call the model.
    """
    spec = {"transitions": transitions, "start": start}
    spec |= drop_none(states=states, actions=actions, rewards=rewards, named_rewards=named_rewards, labels=labels)
    return read_with_faults(lambda cursor: mdp_of(MODEL.read(cursor)), Scope().cursor(spec, path), faults)


def mdp_of(plant: Plant | None) -> MDP | None:
    """Return the model of a plant, unless it is unusable."""
    return None if plant is None else plant.mdp


def _check_label(cursor: Cursor, label: str) -> None:
    """Note a label that guards could not mention: a word or a sign that has a meaning of its own there."""
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
        _check_label(entry, label)
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
        followers = np.unique(mdp.transitions.columns[entries])
        frontier = followers[~reached[followers]]
        reached[frontier] = True
    missed = [mdp.states[state] for state in np.flatnonzero(~reached)]
    if missed:
        count = "1 state is" if len(missed) == 1 else f"{len(missed):,} states are"
        cursor.warn(f"{count} never reached from the start: {some(missed)}")


def model_scope(fields: Fields, states: NameTable, actions: NameTable) -> Scope:
    """Return what the other keys of a model may refer to: its states and actions, and its labels, which are read.

    fields: the `model` or `grid` mapping.
    states, actions: their names; without an index when they could not be read.
    """
    scope = replace(fields.cursor.scope, states=states, actions=actions, labels={}, variables={})
    return replace(scope, labels=fields.read("labels", scope)) if "labels" in fields else scope


def assemble(
    fields: Fields, scope: Scope, *, choices: ActionTable | None, start: FloatArray | None, where: Cursor
) -> Plant:
    """Build the model of a `model` or a `grid` mapping; its rewards are read here.

    fields: the mapping.
    scope: what the rewards may refer to, its states, actions and labels among them.
    choices, start: the other parts; None when they are unusable.
    where: gets the warning about states that are never reached.
    """
    rewards, named_rewards = fields.read("rewards", scope), fields.read("named_rewards", scope)
    labels, states, actions = all_labels(scope.labels), scope.states, scope.actions
    if choices is None or start is None or labels is None or states.index is None or actions.index is None:
        return Plant(scope, None)
    of_choice = expand_rewards(rewards, choices, actions)
    named = {name: expand_rewards(amounts, choices, actions) for name, amounts in (named_rewards or {}).items()}
    arrays = (choices.choice_start, choices.choice_action, choices.transitions)
    mdp = MDP(states.listed, actions.listed, start, *arrays, of_choice, labels, named)
    _warn_unreachable(where, mdp)
    unusable = named_rewards is None and "named_rewards" in fields
    return Plant(replace(scope, rewards=None if unusable else named), mdp)


def _make(fields: Fields) -> Plant:
    """Build the model from its keys; arrays are read first, because they may give states and actions."""
    by_array = is_array_form(fields.at("transitions").value)
    if not by_array:
        fields.require("states", "list the states")
        fields.require("actions", "list the actions")
    entries = read_entries(fields.at("transitions")) if by_array else None
    states, actions = (_list_names(fields, key, entries) for key in ("states", "actions"))
    scope = model_scope(fields, NameTable.of("state", states), NameTable.of("action", actions))
    choices = None
    if entries is not None:
        choices = check_entries(fields.at("transitions").within(scope), entries)
    elif not by_array:
        choices = fields.read("transitions", scope)
    start = fields.read("start", scope)
    return assemble(fields, scope, choices=choices, start=start, where=fields.at("states"))


def _list_names(fields: Fields, key: str, entries: TransitionEntries | None) -> tuple[str, ...] | None:
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
    }


_LABELS: ValueType[Any] = map_of(STATES, "label -> states", ref="labels")
LABELS: ValueType[Any] = replace(_LABELS, read=_read_labels)
_LEADS = "say where every action leads: {state: {action: {next: probability}}}"
MODEL: Record[Any] = Record(
    "model",
    "A Markov decision process, state by state.",
    (
        Key("states", unique_names("state", MAX_STATES), "The states; may be left out with arrays."),
        Key("actions", unique_names("action", MAX_ACTIONS), "The actions; may be left out with arrays."),
        Key("start", START, "Where the run starts.", required=START_ADVICE),
        Key("transitions", TRANSITIONS, "Where every action leads.", required=_LEADS),
        Key("rewards", REWARDS, "What is earned at every time 0 .. horizon."),
        Key("named_rewards", NAMED_REWARDS, "Further rewards, to which requirements of the task refer."),
        Key("labels", LABELS, "Secrets, sensors, guards and formulas refer to labels."),
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
