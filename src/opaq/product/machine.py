"""Machines that run beside the model: secrets, clocks, memories and windows, all by one interface.

A machine starts in a node when the run starts in s_0, and moves when the run goes from s_t by a_t to s_{t+1}. Nodes are
whole numbers below `size`, so that a product state is one whole number (mixed radix over model state and nodes). All
methods work on arrays of cases at once; a random machine returns several branches per case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, FloatArray, IntArray, SparseRows, expand_rows
from opaq.model.conditions import Memory

# The parts of every product: the model's state, and the machines of the secret and of the observer.
STATE, SECRET, OBSERVER = "state", "secret", "observer"
WATCHER = "watcher"  # what an observer sees beside those whose observations the policy looks at
MAX_EDGES = 30_000_000  # transitions of a product: about 120 bytes each while it is put together


@dataclass(frozen=True, slots=True)
class Branches:
    """Where each case may go: one line per (case, possible node), cases in ascending order.

    case: [branch] position of the case among those given. node: [branch]. probability: [branch], summing to 1 per case.
    """

    case: IntArray
    node: IntArray
    probability: FloatArray


def deterministic(nodes: IntArray) -> Branches:
    """Return branches of a deterministic machine: node nodes[i] with probability 1 for case i."""
    return Branches(np.arange(nodes.size), nodes, np.ones(nodes.size))


class Machine(Protocol):
    """Protocol of a machine; `size` is exclusive and may be much larger than the number of nodes that occur."""

    @property
    def size(self) -> int:
        """Exclusive upper bound of the node numbers."""

    def begin(self, states: IntArray) -> Branches:
        """Return the nodes of runs that start in `states`, [case] -> model state."""

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return the nodes after moving from `source` by `action` to `target`; all arguments are arrays [case]."""


@dataclass(frozen=True, slots=True)
class StatelessMachine:
    """Remembers nothing: node 0 for ever."""

    size: int = 1

    def begin(self, states: IntArray) -> Branches:
        """Return node 0."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return node 0."""
        return deterministic(nodes)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several machines at once: the node is one number in mixed radix, the last machine's node changing first."""

    machines: tuple[Machine, ...]

    @property
    def size(self) -> int:
        """The product of their sizes."""
        return math.prod(machine.size for machine in self.machines)

    def begin(self, states: IntArray) -> Branches:
        """Begin all of them."""
        return self._run(states.size, lambda machine, cases, _: machine.begin(states[cases]), np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Step all of them."""

        def step(machine: Machine, cases: IntArray, held: IntArray) -> Branches:
            return machine.step(held, source[cases], action[cases], target[cases])

        return self._run(nodes.size, step, nodes)

    def split(self, nodes: IntArray) -> list[IntArray]:
        """Return the nodes [case] of every machine."""
        return split_digits(nodes, [machine.size for machine in self.machines])

    def _run(self, count: int, move: Callable[[Machine, IntArray, IntArray], Branches], nodes: IntArray) -> Branches:
        """Move one machine after the other, each in all branches of those before."""
        case, node, probability = np.arange(count), np.zeros(count, dtype=np.int64), np.ones(count)
        for machine, held in zip(self.machines, self.split(nodes), strict=True):
            moved = move(machine, case, held[case])
            node = node[moved.case] * machine.size + moved.node
            probability = probability[moved.case] * moved.probability
            case = case[moved.case]
        return Branches(case, node, probability)


def split_digits(numbers: IntArray, sizes: Sequence[int]) -> list[IntArray]:
    """Return the digits of numbers in mixed radix, [case] each; the last digit changes first."""
    digits = list[IntArray]()
    for size in reversed(sizes):
        numbers, digit = np.divmod(numbers, size)
        digits.append(digit)
    return digits[::-1]


@dataclass(frozen=True, slots=True)
class PresentState:
    """Node: the model's state s_t itself, for policies that condition on the state."""

    size: int

    def begin(self, states: IntArray) -> Branches:
        """Return s_0."""
        return deterministic(states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return s_{t+1}."""
        return deterministic(target)


@dataclass(frozen=True, slots=True)
class Clock:
    """Node: the time t, counted up to the horizon and staying there (for returns that are counted for ever)."""

    horizon: int

    @property
    def size(self) -> int:
        """One node per time 0 .. horizon."""
        return self.horizon + 1

    def begin(self, states: IntArray) -> Branches:
        """Return time 0."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return time t + 1, at most the horizon."""
        return deterministic(np.minimum(nodes + 1, self.horizon))


@dataclass(frozen=True, slots=True)
class StateAtTime:
    """Node: the class of s_time once that time has come, kept for ever (time 0: the class of the start).

    Nodes 0 .. time - 1 count the steps before; node time + c holds class c.
    """

    time: int
    class_of: IntArray  # [state]

    @property
    def size(self) -> int:
        """`time` waiting nodes, then one node per class."""
        return self.time + int(self.class_of.max(initial=0)) + 1

    def begin(self, states: IntArray) -> Branches:
        """Return the class of s_0 if the time is 0, else waiting node 0."""
        return deterministic(self.class_of[states] if self.time == 0 else np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Wait one step more, take the class of s_{t+1} when the time has come, or keep the class."""
        waiting = np.where(nodes == self.time - 1, self.time + self.class_of[target], nodes + 1)
        return deterministic(np.where(nodes < self.time, waiting, nodes))


@dataclass(frozen=True, slots=True)
class VisitFlag:
    """Node: 1 once any of the marked states was visited, 0 before."""

    mask: BoolArray  # [state]
    size: int = 2

    def begin(self, states: IntArray) -> Branches:
        """Return 1 where the run starts in a marked state."""
        return deterministic(self.mask[states].astype(np.int64))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return 1 from the first visit on: max(node, mark of s_{t+1})."""
        return deterministic(np.maximum(nodes, self.mask[target]))


@dataclass(frozen=True, slots=True)
class AutomatonMachine:
    """Node: the state of a deterministic automaton that reads labels as letters.

    It reads the letter of the state entered, starting with s_0, or (`reads_left`) of the state being left.
    """

    table: IntArray  # [automaton state, letter] -> automaton state
    letter_of: IntArray  # [state]
    initial: int
    reads_left: bool

    @property
    def size(self) -> int:
        """One node per automaton state."""
        return int(self.table.shape[0])

    def begin(self, states: IntArray) -> Branches:
        """Return the state after the letter of s_0, or the initial one where states that are left are read."""
        if self.reads_left:
            return deterministic(np.full(states.size, self.initial))
        return deterministic(self.table[self.initial, self.letter_of[states]])

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return the automaton's state after one more letter."""
        return deterministic(self.table[nodes, self.letter_of[source if self.reads_left else target]])


@dataclass(frozen=True, slots=True)
class Window:
    """The last k of some numbered things as the digits of one number in base num_things + 1.

    The newest thing is the last digit; thing i is written i + 1, and digit 0 stands for "none yet", so that windows
    that are not full yet have numbers of their own.
    """

    length: int
    num_things: int

    @property
    def size(self) -> int:
        """Number of digit sequences: (num_things + 1) ** length."""
        return int((self.num_things + 1) ** self.length)

    def append(self, windows: IntArray, things: IntArray) -> IntArray:
        """Return windows [case] with the oldest thing forgotten and things [case] appended."""
        base = self.num_things + 1
        return np.asarray(windows % base ** (self.length - 1) * base + things + 1)

    def newest(self, windows: IntArray) -> IntArray:
        """Return the newest thing of windows that are not empty, [case] -> thing."""
        return windows % (self.num_things + 1) - 1

    def things(self, window: int) -> tuple[int, ...]:
        """Return the things in one window, oldest first."""
        newest_first = []
        while window:
            window, digit = divmod(window, self.num_things + 1)
            newest_first.append(digit - 1)
        return tuple(reversed(newest_first))


@dataclass(frozen=True, slots=True)
class RecentStates:
    """Node: the window of the last k states, the present one included."""

    window: Window

    @property
    def size(self) -> int:
        """One node per window."""
        return self.window.size

    def begin(self, states: IntArray) -> Branches:
        """Return the window that holds s_0 alone."""
        return deterministic(self.window.append(np.zeros_like(states), states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Append s_{t+1}."""
        return deterministic(self.window.append(nodes, target))


@dataclass(frozen=True, slots=True)
class LastAction:
    """Node: 1 + the kind of the last action, for an observer who sees actions; 0 before the first.

    Actions that look the same to the observer are of one kind.
    """

    kind_of: IntArray  # [action]

    @property
    def size(self) -> int:
        """One node per kind, and one for "none yet"."""
        return int(self.kind_of.max(initial=0)) + 2

    def begin(self, states: IntArray) -> Branches:
        """Return node 0: there was no action yet."""
        return deterministic(np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return the node of the kind of a_t."""
        return deterministic(self.kind_of[action] + 1)


@dataclass(frozen=True, slots=True)
class MemoryMachine:
    """Node: the policy's memory m_t with a given update, m_{t+1} ~ d(m_t, s_t, a_t) (paper, appendix A)."""

    memory: Memory

    @property
    def size(self) -> int:
        """One node per memory node."""
        return len(self.memory.nodes)

    def begin(self, states: IntArray) -> Branches:
        """Draw m_0 given s_0."""
        return _memory_draw(self.memory.start, states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Draw m_{t+1} ~ d(m_t, s_t, a_t)."""
        return _memory_draw(self.memory.updates, self.memory.update_of[nodes, source, action])


@dataclass(frozen=True, slots=True)
class FreeMemoryMachine:
    """Node: a memory whose next node the policy chooses with its action.

    A choice of the policy is action * number of nodes + next node.
    """

    memory: Memory

    @property
    def size(self) -> int:
        """One node per memory node."""
        return len(self.memory.nodes)

    def begin(self, states: IntArray) -> Branches:
        """Draw m_0 given s_0."""
        return _memory_draw(self.memory.start, states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Return the node that was chosen."""
        return deterministic(action % self.size)


@dataclass(frozen=True, slots=True)
class ActionOnly:
    """Wraps a machine that reads actions for a model whose choices are (action, next memory node)."""

    machine: Machine
    num_nodes: int

    @property
    def size(self) -> int:
        """Size of the wrapped machine."""
        return self.machine.size

    def begin(self, states: IntArray) -> Branches:
        """Begin the wrapped machine."""
        return self.machine.begin(states)

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Step the wrapped machine by the action alone, without the chosen node."""
        return self.machine.step(nodes, source, action // self.num_nodes, target)


def draw(table: SparseRows, rows: IntArray, *, what: str, advice: str) -> Branches:
    """Return all outcomes of some rows of a stochastic table as branches.

    table: [row, node], rows sum to 1. rows: [case] -> row.
    what, advice: what branches, and what to do about it, in the words of the BudgetError that is raised when one step
        branches into more than MAX_EDGES transitions.
    """
    count = int((table.starts[rows + 1] - table.starts[rows]).sum())
    if count > MAX_EDGES:
        raise BudgetError(f"{what} branch into {count:,} transitions in one step; the limit is {MAX_EDGES:,}; {advice}")
    case, entry = expand_rows(table.starts, rows)
    return Branches(case, table.columns[entry], table.values[entry])


def _memory_draw(table: SparseRows, rows: IntArray) -> Branches:
    """Return the outcomes of some rows of a memory's table; BudgetError advises fewer nodes."""
    return draw(table, rows, what="the memory's random updates", advice="use fewer nodes")
