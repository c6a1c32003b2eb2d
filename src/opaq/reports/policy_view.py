"""A policy as pictures show it: how likely each action is in each state, at a time or over the whole run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from opaq.beliefs.returns import moves, start_distribution
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.compile import Product

Shares = Mapping[int, Mapping[int, float]]  # model state -> action of the model -> probability


@dataclass(frozen=True, slots=True, eq=False)
class PolicyView:
    """P(action | state) and P(action | state, time): what else the policy looks at is averaged out, as it occurs.

    States that cannot occur have no entry.
    """

    product: Product
    pi: FloatArray

    @property
    def changes_with_time(self) -> bool:
        """Whether arrows can differ from one time to the next: the policy looks at more than the state."""
        return self.product.policy_class.conditions_on != ("state",)

    def average(self) -> Shares:
        """Over the whole run, every state weighted by when it is visited."""
        visits = np.zeros(self.product.process.num_states)
        for occupied in self._occupied():
            visits += occupied
        return self._shares(visits)

    def by_time(self) -> Iterator[Shares]:
        """One after the other for time 0 .. horizon."""
        return (self._shares(occupied) for occupied in self._occupied())

    def _occupied(self) -> Iterator[FloatArray]:
        """P(x_t = x) over product states for t = 0 .. horizon."""
        process = self.product.process
        onward = moves(process, process.flow(self.pi)).T.tocsr()
        now = start_distribution(process)
        for _ in range(process.horizon):
            yield now
            now = onward @ now
        yield now

    def _shares(self, occupied: FloatArray) -> Shares:
        product, process = self.product, self.product.process
        states = np.flatnonzero(occupied > 0)
        rows = process.row[states]
        first, counts = process.row_start[rows], np.diff(process.row_start)[rows]
        owner = np.repeat(np.arange(states.size), counts)
        slots = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(counts.sum())
        num_actions = len(product.problem.mdp.actions)
        pair = product.state_of[states][owner] * num_actions + self._action_of()[product.slot_action[slots]]
        pairs, place = np.unique(pair, return_inverse=True)
        mass = np.bincount(place.reshape(-1), weights=occupied[states][owner] * self.pi[slots])
        total = np.bincount(pairs // num_actions, weights=mass).tolist()
        shares: dict[int, dict[int, float]] = {}
        for key, weight in zip(pairs.tolist(), mass.tolist(), strict=True):
            state, action = divmod(key, num_actions)
            if weight > 0:
                shares.setdefault(state, {})[action] = min(1.0, weight / total[state])
        return shares

    def _action_of(self) -> IntArray:
        """The model's action of every action of a row; with a free memory, rows choose pairs (action, next node)."""
        nodes = len(self.product.actions) // len(self.product.problem.mdp.actions)
        return np.arange(len(self.product.actions)) // nodes
