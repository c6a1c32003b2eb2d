"""The machine a policy carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import IntArray, SparseRows
from opaq.model.checks import Checked, Checks

MAX_NODES = 10_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Memory(Checked):
    """A machine the policy carries: m_{t+1} ~ d(m_t, s_t, a_t) (paper, appendix A).

    With `free` the policy chooses the next node together with the action: its rows are over names "action>node", and
    the updates given here ("stay") are not used.
    """

    nodes: tuple[str, ...]
    start: SparseRows  # [state, node]: the node held when the run starts in a state
    update_of: IntArray  # [node, state, action] -> row of `updates`
    updates: SparseRows  # [update, node]
    free: bool = False

    def __post_init__(self) -> None:
        checks = Checks(self, "memory")
        nodes = checks.names("nodes", kind="node", most=MAX_NODES)
        checks.flag("free")
        if nodes is not None:
            checks.distributions("start", num_rows=None, num_columns=len(nodes), column="node")
            updates = checks.distributions("updates", num_rows=None, num_columns=len(nodes), column="node")
            if updates is not None:
                checks.ints("update_of", None, most=updates.num_rows, what="update", axes=3)
            joined = [node for node in nodes if ">" in node] if self.free else []
            if joined:
                checks.error("nodes", f"'{joined[0]}' cannot name a node", "'>' joins an action with the next node")
        checks.finish()


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


def check_memory(memory: Memory, faults: Faults, where: str, *, num_states: int, num_actions: int) -> None:
    """Note when a machine does not fit a model."""
    expected = (len(memory.nodes), num_states, num_actions)
    if memory.update_of.shape != expected:
        found, wanted = (" x ".join(map(str, shape)) for shape in (memory.update_of.shape, expected))
        faults.error(f"{where}.update", f"has shape {found}, not {wanted}")
    if memory.start.num_rows != num_states:
        faults.error(f"{where}.start", f"has {memory.start.num_rows:,} entries, not {num_states:,}")
