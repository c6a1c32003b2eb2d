"""The machine a policy carries."""

from __future__ import annotations

from dataclasses import dataclass

from opaq.model.arrays import IntArray, SparseRows


@dataclass(frozen=True, slots=True)
class Memory:
    """A machine the policy carries: m_{t+1} ~ d(m_t, s_t, a_t) (paper, appendix A).

    With `free` the policy chooses the next node together with the action: its rows are over names "action>node", and
    the updates given here ("stay") are not used.
    """

    nodes: tuple[str, ...]
    start: SparseRows  # [state, node]: the node held when the run starts in a state
    update_of: IntArray  # [node, state, action] -> row of `updates`
    updates: SparseRows  # [update, node]
    free: bool = False
