"""What the eavesdropper sees."""

from __future__ import annotations

from dataclasses import dataclass

from opaq.model.arrays import SparseRows


@dataclass(frozen=True, slots=True)
class Observer:
    """Sees o_t ~ E(o | s_t) at every time, and, if it watches actions, a noisy sign of a_{t-1} beside it."""

    observations: tuple[str, ...]
    emission: SparseRows  # [state, observation]
    action_signs: tuple[str, ...] = ()
    action_emission: SparseRows | None = None  # [action, action sign]; None: actions are not seen
