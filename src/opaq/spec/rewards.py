"""Rewards as users state them -> one number for every choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, floats
from opaq.model.mdp import MAX_REWARD, MDP
from opaq.spec.cursor import at, item, mapping
from opaq.spec.cursor import reward as read_reward
from opaq.spec.matrices import check_shape, dense, is_array
from opaq.spec.names import Known
from opaq.spec.transitions import Choices


@dataclass(frozen=True, slots=True)
class Reward:
    """One entry: a number for a state and an action, where None stands for all of them."""

    state: int | None
    action: int | None
    value: float
    path: str


Rewards = list[Reward] | FloatArray  # entries from the vaguest to the most exact, or an array [state(, action)]


def read_rewards(value: Any, path: str, faults: Faults, *, states: Known, actions: Known) -> Rewards | None:
    """Rewards as state -> number or state -> action -> number ("*" stands for the rest), or as an array."""
    if is_array(value):
        return _array(value, path, faults, states=states, actions=actions)
    table = mapping(value, path, faults)
    if table is None:
        return None
    found: list[Reward] = []
    for key, entry in table.items():
        state = None if key == "*" else states.find(key, at(path, key), faults)
        if key == "*" or state is not None or states.index is None:
            found.extend(_of_state(entry, at(path, key), faults, state=state, actions=actions))
    return sorted(found, key=lambda reward: (reward.state is not None, reward.action is not None))


def read_named_rewards(
    value: Any, path: str, faults: Faults, *, states: Known, actions: Known
) -> dict[str, Rewards | None]:
    """Further rewards by name, each written as rewards are."""
    table = mapping(value, path, faults) or {}
    return {
        key: read_rewards(entry, at(path, key), faults, states=states, actions=actions) for key, entry in table.items()
    }


def spread_rewards(rewards: Rewards | None, choices: Choices, faults: Faults, *, actions: Known) -> FloatArray:
    """The reward of every choice; exact entries win over "*"."""
    counts = np.diff(choices.choice_start)
    if isinstance(rewards, np.ndarray):
        states = np.repeat(np.arange(counts.size), counts)
        return floats(rewards[states] if rewards.ndim == 1 else rewards[states, choices.choice_action])
    found = np.zeros(choices.choice_action.size)
    names = tuple(actions.index or ())
    for reward in rewards or []:
        place = _place(reward, choices)
        chosen = choices.choice_action[place] == reward.action
        if reward.action is None:
            found[place] = reward.value
        elif chosen.any():
            found[place][chosen] = reward.value
        elif reward.state is not None:
            faults.warn(reward.path, f"action '{names[reward.action]}' is not enabled there", "it is never earned")
    return floats(found)


def _of_state(entry: Any, path: str, faults: Faults, *, state: int | None, actions: Known) -> list[Reward]:
    if not isinstance(entry, Mapping):
        value = read_reward(entry, path, faults)
        return [] if value is None else [Reward(state, None, value, path)]
    found = []
    for key, amount in (mapping(entry, path, faults) or {}).items():
        action = None if key == "*" else actions.find(key, at(path, key), faults)
        value = read_reward(amount, at(path, key), faults)
        if value is not None and (key == "*" or action is not None):
            found.append(Reward(state, action, value, at(path, key)))
    return found


def _place(reward: Reward, choices: Choices) -> slice:
    if reward.state is None:
        return slice(None)
    return slice(int(choices.choice_start[reward.state]), int(choices.choice_start[reward.state + 1]))


def _array(value: Any, path: str, faults: Faults, *, states: Known, actions: Known) -> FloatArray | None:
    flat = np.ndim(value) == 1 if isinstance(value, np.ndarray) else not any(is_array(row) for row in value)
    found = dense(value, path, faults, axes=("state",) if flat else ("state", "action"))
    if found is None or states.index is None or actions.index is None:
        return None
    for place in np.argwhere(np.abs(found) > MAX_REWARD):
        read_reward(float(found[tuple(place)]), item(path, *place.tolist()), faults)
    expected = (len(states),) if flat else (len(states), len(actions))
    return found if check_shape(found.shape, expected, path, faults) else None


def check_rewards(mdp: MDP, path: str, faults: Faults) -> None:
    """Note rewards of a finished model whose sums could overflow."""
    named = {at("named_rewards", key): amounts for key, amounts in mdp.named_rewards.items()}
    for key, amounts in {"rewards": mdp.rewards, **named}.items():
        wrong = np.flatnonzero(~(np.abs(amounts) <= MAX_REWARD))  # NaN too
        if wrong.size:
            state = mdp.states[mdp.choice_state()[wrong[0]]]
            more = f" ({wrong.size:,} such rewards)" if wrong.size > 1 else ""
            found = f"the reward of state '{state}' is {amounts[wrong[0]]:g}, beyond {MAX_REWARD:g}{more}"
            faults.error(at(path, key), found, "scale all rewards and thresholds down")
