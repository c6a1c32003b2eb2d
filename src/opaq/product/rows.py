"""Which product states share a row of the policy, and what the rows are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import IntArray, spread
from opaq.model.conditions import KeyPart
from opaq.model.mdp import MDP
from opaq.model.policy import RowKey


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """The rows of a policy over product states; a slot is one action of one row."""

    keys: tuple[RowKey, ...]
    of_state: IntArray  # [product state] -> row
    row_start: IntArray  # [row + 1]: the slots of each row
    slot_action: IntArray  # [slot]
    choice_rank: IntArray  # [choice] -> position of the choice among those of its state

    @property
    def num_slots(self) -> int:
        """The length of a policy vector."""
        return int(self.row_start[-1])

    def slot(self, states: IntArray, choices: IntArray) -> IntArray:
        """The slots of choices made in product states."""
        return self.row_start[self.of_state[states]] + self.choice_rank[choices]


def policy_rows(
    mdp: MDP, state: IntArray, nodes: Sequence[IntArray], *, words: Sequence[Callable[[int], KeyPart]]
) -> PolicyRows:
    """The rows of a policy that looks at some columns of the product.

    state: [product state] -> model state.
    nodes: per condition [product state] -> node, in the order of the row keys.
    words: per condition what a node is called.
    Raises InputError when states that enable different actions would share a row.
    """
    stacked = np.stack(nodes, axis=1) if nodes else np.zeros((state.size, 1), dtype=np.int64)
    distinct, example, of_state = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    of_state = of_state.reshape(-1)
    representative = state[example]
    _check_same_actions(mdp, state, representative[of_state])
    _, choice = spread(mdp.choice_start, representative)
    counts = np.diff(mdp.choice_start)
    rank = np.arange(mdp.num_choices) - np.repeat(mdp.choice_start[:-1], counts)
    keys = tuple(_key(row, words) for row in distinct.tolist()) if nodes else ((),)
    row_start = np.concatenate(([0], np.cumsum(counts[representative])))
    return PolicyRows(keys, of_state, row_start, mdp.choice_action[choice], rank)


def _key(nodes: list[int], words: Sequence[Callable[[int], KeyPart]]) -> RowKey:
    return tuple(word(node) for word, node in zip(words, nodes, strict=True))


def _check_same_actions(mdp: MDP, states: IntArray, representatives: IntArray) -> None:
    """States that share a policy row must enable the same actions."""
    pairs = np.unique(np.stack([states, representatives], axis=1), axis=0)
    faults = Faults()
    for state, other in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
        if not np.array_equal(_enabled(mdp, state), _enabled(mdp, other)):
            names = f"'{mdp.states[state]}' and '{mdp.states[other]}'"
            faults.error(
                "policy.conditions_on",
                f"states {names} share a policy row but enable different actions",
                "add 'state' to conditions_on",
            )
    faults.raise_if_any()


def _enabled(mdp: MDP, state: int) -> IntArray:
    return mdp.choice_action[mdp.choice_start[state] : mdp.choice_start[state + 1]]
