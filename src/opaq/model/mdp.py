"""The plant: a Markov decision process with named states and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from opaq.model.arrays import BoolArray, FloatArray, IntArray, SparseRows
from opaq.model.content import ByContent

# Rewards and thresholds stay below: sums over any horizon and squares of them are still finite numbers.
MAX_REWARD = 1e100


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MDP(ByContent):
    """States, actions and what they do. A choice is one action enabled in one state."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    start: FloatArray  # [state]
    choice_start: IntArray  # [state + 1]: the choices of state s are choice_start[s] .. choice_start[s + 1] - 1
    choice_action: IntArray  # [choice]
    transitions: SparseRows  # [choice, state]
    rewards: FloatArray  # [choice]
    labels: Mapping[str, IntArray]  # label -> the states that carry it, ascending
    named_rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # further rewards -> [choice]

    def __repr__(self) -> str:
        return f"<MDP: {self.num_states} states, {len(self.actions)} actions, {self.num_choices} choices>"

    @property
    def num_states(self) -> int:
        """How many states there are."""
        return len(self.states)

    @property
    def num_choices(self) -> int:
        """How many (state, enabled action) pairs there are."""
        return int(self.choice_action.size)

    def choice_state(self) -> IntArray:
        """The state of every choice."""
        return np.repeat(np.arange(self.num_states), np.diff(self.choice_start))

    def state_index(self) -> dict[str, int]:
        """State name -> position."""
        return positions(self.states)

    def action_index(self) -> dict[str, int]:
        """Action name -> position."""
        return positions(self.actions)

    def mask(self, states: IntArray) -> BoolArray:
        """Which states are among the given ones."""
        chosen = np.zeros(self.num_states, dtype=bool)
        chosen[states] = True
        return chosen

    def labels_of(self) -> tuple[frozenset[str], ...]:
        """The labels of every state."""
        found: list[set[str]] = [set() for _ in self.states]
        for label, states in self.labels.items():
            for state in states:
                found[state].add(label)
        return tuple(frozenset(labels) for labels in found)


def positions(names: tuple[str, ...]) -> dict[str, int]:
    """Name -> position."""
    return {name: position for position, name in enumerate(names)}
