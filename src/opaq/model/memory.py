"""The machine a policy carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import IntArray, SparseRows
from opaq.model.content import ByContent


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


def holds(fine: Memory, coarse: Memory) -> bool:
    """Whether a memory can do what another does: the same machine, or a free one of at least as many nodes.

    Node n of the larger free memory stands for node n modulo the size of the smaller one.
    """
    if fine.free != coarse.free:
        return False
    if coarse.free:
        size = len(coarse.nodes)
        return len(fine.nodes) >= size and _same(_folded(fine.start, size), coarse.start)
    return (
        fine.nodes == coarse.nodes
        and _same(fine.start, coarse.start)
        and np.array_equal(fine.update_of, coarse.update_of)
        and _same(fine.updates, coarse.updates)
    )


def _folded(rows: SparseRows, size: int) -> SparseRows:
    """The same rows with every column counted modulo a size."""
    columns = rows.columns % size
    return SparseRows.from_entries(rows.row_of_entry(), columns, rows.values, shape=(rows.num_rows, size))


def _same(one: SparseRows, other: SparseRows) -> bool:
    pairs = ((one.starts, other.starts), (one.columns, other.columns), (one.values, other.values))
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)
