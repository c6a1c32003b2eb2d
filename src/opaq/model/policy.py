"""What a policy conditions on, and the table of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opaq.model.arrays import IntArray, SparseRows
from opaq.model.content import ByContent

CONDITIONS = ("state", "time", "automaton", "start", "last_states", "memory")

# One key a row, aligned with PolicyClass.conditions_on: a name, a time, or a tuple of names (last_states).
RowKey = tuple[str | int | tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Memory(ByContent):
    """A machine the policy carries: m_{t+1} ~ d(m_t, s_t, a_t) (paper, appendix A).

    With `free` the policy chooses the next node together with the action: its rows are over names "action>node", and
    the updates given here ("stay") are not used.
    """

    nodes: tuple[str, ...]
    start: SparseRows  # [state, node]: the node held when the run starts in a state
    update_of: IntArray  # [node, state, action] -> row of `updates`
    updates: SparseRows  # [update, node]
    free: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PolicyClass(ByContent):
    """What the policy may look at: any of CONDITIONS, in the order rows are keyed by."""

    conditions_on: tuple[str, ...] = ("state",)
    last_states: int = 0  # how many states the condition "last_states" remembers, the current one included
    memory: Memory | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy(ByContent):
    """A table: for every row key the probability of each action (actions left out have probability 0)."""

    policy_class: PolicyClass
    rows: Mapping[RowKey, Mapping[str, float]]

    def __repr__(self) -> str:
        return f"<Policy on {', '.join(self.policy_class.conditions_on)}: {len(self.rows)} rows>"
