"""Rewards as users state them -> one number for every choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, floats
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MDP
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Plain, Shape
from opaq.spec.matrices import dense, is_array, right_shape
from opaq.spec.names import Known
from opaq.spec.shapes import ARRAY, REWARD, map_of, mapping_to
from opaq.spec.transitions import Choices


@dataclass(frozen=True, slots=True)
class Reward:
    """One entry: a number for a state and an action, where None stands for all of them."""

    state: int | None
    action: int | None
    value: float
    cursor: Cursor


Rewards = list[Reward] | FloatArray  # entries from the vaguest to the most exact, or an array [state(, action)]


def read_rewards(cursor: Cursor) -> Rewards | None:
    """Rewards as state -> number or state -> action -> number ("*" stands for the rest), or as an array."""
    if is_array(cursor.value):
        return _array(cursor)
    entries, states = cursor.entries(), cursor.names.states
    if entries is None:
        return None
    rewards: list[Reward] = []
    for key, entry in entries.items():
        state = None if key == "*" else states.find(cursor.child(key, key))
        if key == "*" or state is not None or states.index is None:
            rewards.extend(_of_state(entry, state))
    return sorted(rewards, key=lambda reward: (reward.state is not None, reward.action is not None))


def spread_rewards(rewards: Rewards | None, choices: Choices, actions: Known) -> FloatArray:
    """The reward of every choice; exact entries win over "*"."""
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


def written_rewards(mdp: MDP, amounts: FloatArray) -> Plain:
    """Rewards by state, where there are any: one number when every action earns the same, else one per action."""
    stated: Plain = {}
    for state, name in enumerate(mdp.states):
        choices = range(int(mdp.choice_start[state]), int(mdp.choice_start[state + 1]))
        earned = {mdp.actions[mdp.choice_action[choice]]: float(amounts[choice]) for choice in choices}
        if any(earned.values()):
            stated[name] = next(iter(earned.values())) if len(set(earned.values())) == 1 else earned
    return stated


def _of_state(cursor: Cursor, state: int | None) -> list[Reward]:
    if not isinstance(cursor.value, Mapping):
        value = cursor.reward()
        return [] if value is None else [Reward(state, None, value, cursor)]
    rewards = []
    for key, entry in (cursor.entries() or {}).items():
        action = None if key == "*" else cursor.names.actions.find(cursor.child(key, key))
        value = entry.reward()
        if value is not None and (key == "*" or action is not None):
            rewards.append(Reward(state, action, value, entry))
    return rewards


def _array(cursor: Cursor) -> FloatArray | None:
    value, states, actions = cursor.value, cursor.names.states, cursor.names.actions
    flat = np.ndim(value) == 1 if isinstance(value, np.ndarray) else not any(is_array(row) for row in value)
    table = dense(cursor, axes=("state",) if flat else ("state", "action"))
    if table is None or states.index is None or actions.index is None:
        return None
    for index in np.argwhere(np.abs(table) > MAX_REWARD):
        cursor.item(*index.tolist(), value=float(table[tuple(index)])).reward()
    expected = (len(states),) if flat else (len(states), len(actions))
    return table if right_shape(cursor, table.shape, expected) else None


REWARDS: Shape[Rewards] = Shape(
    'state -> number, or state -> action -> number; `"*"` stands for the rest; not listed: 0. Also an array `[state]` '
    "or `[state][action]`",
    read_rewards,
    (mapping_to((REWARD, mapping_to(REWARD))), ARRAY),
    ref="rewards",
)
NAMED_REWARDS: Shape[dict[str, Any]] = map_of(REWARDS, "name -> rewards, in the same form")
