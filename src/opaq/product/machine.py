"""Machines that run beside the model: secrets, clocks and memories, all by one interface.

A machine starts in a node when the run starts in s_0 and moves when the run goes from s_t by a_t to s_{t+1}.
Nodes are whole numbers below `size`; a random machine branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, FloatArray, IntArray, SparseRows, expand_rows
from opaq.model.conditions import Memory

# The parts of every product: the model's state, and the machines of the secret and of the observer.
STATE, SECRET, OBSERVER = "state", "secret", "observer"
MAX_EDGES = 30_000_000  # transitions of a product: about 120 bytes each while it is put together


@dataclass(frozen=True, slots=True)
class Branches:
    """Where each of the asked cases may go: (position of the case, node, probability), cases in order."""

    case: IntArray
    node: IntArray
    probability: FloatArray


def deterministic(nodes: IntArray) -> Branches:
    """One branch per case."""
    return Branches(np.arange(nodes.size), nodes, np.ones(nodes.size))


class Machine(Protocol):
    """What the product needs to know of a machine."""

    @property
    def size(self) -> int:
        """An upper bound of the node numbers."""

    def begin(self, states: IntArray) -> Branches:
        """The nodes for runs that start in these states."""

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The nodes after moving from `source` by `action` to `target`."""


@dataclass(frozen=True, slots=True)
class StatelessMachine:
    """Remembers nothing."""

    size: int = 1

    def begin(self, states: IntArray) -> Branches:
        """Always node 0."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Always node 0."""
        return deterministic(nodes)


@dataclass(frozen=True, slots=True)
class PresentState:
    """The state the run is in."""

    size: int

    def begin(self, states: IntArray) -> Branches:
        """s_0."""
        return deterministic(states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """s_{t+1}."""
        return deterministic(target)


@dataclass(frozen=True, slots=True)
class Clock:
    """Counts steps up to the horizon, and stays there."""

    horizon: int

    @property
    def size(self) -> int:
        """One node a time."""
        return self.horizon + 1

    def begin(self, states: IntArray) -> Branches:
        """Time 0."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """One later."""
        return deterministic(np.minimum(nodes + 1, self.horizon))


@dataclass(frozen=True, slots=True)
class StateAtTime:
    """Waits until a time, then keeps the class of the present state for ever (time 0: the start)."""

    time: int
    class_of: IntArray  # [state]

    @property
    def size(self) -> int:
        """Nodes 0 .. time - 1 wait; time + c holds class c."""
        return self.time + int(self.class_of.max(initial=0)) + 1

    def begin(self, states: IntArray) -> Branches:
        """Waiting, unless the time is now."""
        return deterministic(self.class_of[states] if self.time == 0 else np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Count, take the picture, keep it."""
        waiting = np.where(nodes == self.time - 1, self.time + self.class_of[target], nodes + 1)
        return deterministic(np.where(nodes < self.time, waiting, nodes))


@dataclass(frozen=True, slots=True)
class VisitFlag:
    """Whether any of some states was ever visited."""

    mask: BoolArray  # [state]
    size: int = 2

    def begin(self, states: IntArray) -> Branches:
        """1 if the run starts there."""
        return deterministic(self.mask[states].astype(np.int64))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """1 from the first visit on."""
        return deterministic(np.maximum(nodes, self.mask[target]))


@dataclass(frozen=True, slots=True)
class AutomatonMachine:
    """An automaton that reads the labels of the states entered, or of those left."""

    table: IntArray  # [automaton state, letter] -> automaton state
    letter_of: IntArray  # [state]
    initial: int
    reads_left: bool

    @property
    def size(self) -> int:
        """One node per automaton state."""
        return int(self.table.shape[0])

    def begin(self, states: IntArray) -> Branches:
        """After the label of s_0, or before any."""
        if self.reads_left:
            return deterministic(np.full(states.size, self.initial))
        return deterministic(self.table[self.initial, self.letter_of[states]])

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Read one label."""
        return deterministic(self.table[nodes, self.letter_of[source if self.reads_left else target]])


@dataclass(frozen=True, slots=True)
class Window:
    """The last k of some numbered things as the digits of one number, newest last; digit 0: there was none yet."""

    length: int
    num_things: int

    @property
    def size(self) -> int:
        """All sequences of k digits."""
        return int((self.num_things + 1) ** self.length)

    def append(self, windows: IntArray, things: IntArray) -> IntArray:
        """Forget the oldest, append the newest."""
        base = self.num_things + 1
        return np.asarray(windows % base ** (self.length - 1) * base + things + 1)

    def newest(self, windows: IntArray) -> IntArray:
        """The newest thing of windows that are not empty."""
        return windows % (self.num_things + 1) - 1

    def things(self, window: int) -> tuple[int, ...]:
        """What a window holds, oldest first."""
        newest_first = []
        while window:
            window, digit = divmod(window, self.num_things + 1)
            newest_first.append(digit - 1)
        return tuple(reversed(newest_first))


@dataclass(frozen=True, slots=True)
class RecentStates:
    """The last k states."""

    window: Window

    @property
    def size(self) -> int:
        """As many as there are windows."""
        return self.window.size

    def begin(self, states: IntArray) -> Branches:
        """Just the start."""
        return deterministic(self.window.append(np.zeros_like(states), states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """One state later."""
        return deterministic(self.window.append(nodes, target))


@dataclass(frozen=True, slots=True)
class LastAction:
    """The kind of the last action, for an observer who sees actions; node 0 before the first."""

    kind_of: IntArray  # [action]

    @property
    def size(self) -> int:
        """One node per kind, and one for none."""
        return int(self.kind_of.max(initial=0)) + 2

    def begin(self, states: IntArray) -> Branches:
        """No action yet."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The kind of the action just taken."""
        return deterministic(self.kind_of[action] + 1)


@dataclass(frozen=True, slots=True)
class MemoryMachine:
    """The policy's memory (paper, appendix A)."""

    memory: Memory

    @property
    def size(self) -> int:
        """One node per memory node."""
        return len(self.memory.nodes)

    def begin(self, states: IntArray) -> Branches:
        """The memory's start."""
        return _memory_draw(self.memory.start, states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """m' ~ d(m, s, a)."""
        return _memory_draw(self.memory.updates, self.memory.update_of[nodes, source, action])


@dataclass(frozen=True, slots=True)
class FreeMemoryMachine:
    """A memory whose next node the policy chooses with its action: choice = action * number of nodes + next node."""

    memory: Memory

    @property
    def size(self) -> int:
        """One node per memory node."""
        return len(self.memory.nodes)

    def begin(self, states: IntArray) -> Branches:
        """The memory's start."""
        return _memory_draw(self.memory.start, states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The node that was chosen."""
        return deterministic(action % self.size)


@dataclass(frozen=True, slots=True)
class ActionOnly:
    """A machine that reads actions, where the policy chooses an action and a memory node: the node is not for it."""

    machine: Machine
    num_nodes: int

    @property
    def size(self) -> int:
        """As the machine's own."""
        return self.machine.size

    def begin(self, states: IntArray) -> Branches:
        """As the machine's own."""
        return self.machine.begin(states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The machine's own step for the action alone."""
        return self.machine.step(nodes, source, action // self.num_nodes, target)


def draw(table: SparseRows, rows: IntArray, *, what: str, advice: str) -> Branches:
    """All outcomes of the given rows of a stochastic table.

    what, advice: what branches, and what to do about it, in the words of the BudgetError when it is too much.
    """
    count = int((table.starts[rows + 1] - table.starts[rows]).sum())
    if count > MAX_EDGES:
        raise BudgetError(f"{what} branch into {count:,} transitions in one step; the limit is {MAX_EDGES:,}; {advice}")
    case, entry = expand_rows(table.starts, rows)
    return Branches(case, table.columns[entry], table.values[entry])


def _memory_draw(table: SparseRows, rows: IntArray) -> Branches:
    return draw(table, rows, what="the memory's random updates", advice="use fewer nodes")
