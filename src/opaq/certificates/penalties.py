"""Penalties on an agent that acts on the observations: what narrows the bound to agents that do not see them.

Such an agent's action is independent of the observation given the state, P(x_t, a_t, o_t) = E(o_t | x_t) P(x_t, a_t).
So any function nu_t(x, a, o) - sum over o' of E(o' | x) nu_t(x, a, o') has mean 0 under its policies, and may be added
to what the dynamic program pays: its value still bounds them, not those that see the observations (an information
relaxation). The penalty is paid at every time of every run, where the secret is settled as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.certificates.decisions import Decisions
from opaq.certificates.sweeps import Flow
from opaq.model.arrays import FloatArray, IntArray, spread

_LEAST_USE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Penalties:
    """How penalties are centred, and how far a flow is from independence."""

    menu_choice: IntArray  # [(pair, action)] -> choice
    chance: FloatArray  # [(pair, action)]: E(o | x)
    num_choices: int

    @classmethod
    def of(cls, decisions: Decisions) -> Penalties:
        """For all pairs of a problem."""
        moves = decisions.moves
        owner, choice = spread(moves.choice_start, moves.pair_state.astype(np.int64))
        return cls(choice, moves.pair_chance[owner], int(moves.branch_start.size - 1))

    def centred(self, table: FloatArray) -> FloatArray:
        """nu - its mean over observations: [time, (pair, action)]."""
        mean = self._summed(self.chance * table) / self._summed(self.chance[None, :])
        return table - mean

    def slope(self, flow: Flow, average: Flow) -> FloatArray:
        """P(x, a, o) / (E(o | x) P(x, a)) - 1 of a flow, relative to how often the average acts so.

        Divided by E(o | x) first: its products with small numbers may be 0 where it is not.
        """
        return (flow.used / self.chance - self._summed(flow.used)) / (self._summed(average.used) + _LEAST_USE)

    def violation(self, flow: Flow) -> float:
        """How far actions depend on observations: the sum of |P(x, a, o) - E(o | x) P(x, a)|."""
        return float(np.abs(flow.used - self.chance * self._summed(flow.used)).sum())

    @property
    def matter(self) -> bool:
        """Whether any state shows several observations; otherwise all penalties are 0."""
        return bool((self.chance < 1.0).any())

    def _summed(self, table: FloatArray) -> FloatArray:
        """Over the observations of every choice, written back to each."""
        sums = [np.bincount(self.menu_choice, weights=row, minlength=self.num_choices) for row in table]
        return np.array(sums, dtype=np.float64)[:, self.menu_choice]
