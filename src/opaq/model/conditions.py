"""Conditions: what a policy may look at, one small class each, and the memory that a policy carries.

Each is plain data. `opaq.spec` knows how a condition is written in files, `opaq.product` which machine follows it.
Conditions are ordered by refinement: a finer one gives a projection from its part of a row key to the coarser one's
part, which lets a policy of a coarse class be read as one of a finer class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import IntArray, SparseRows
from opaq.model.checks import Checked, Checks

MAX_NODES = 10_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Memory(Checked):
    """A machine the policy carries: m_0 ~ start(s_0), m_{t+1} ~ d(m_t, s_t, a_t) (paper, appendix A).

    nodes: names of the nodes.
    start: [state, node]; updates: [update, node]; rows sum to 1.
    update_of: which row of `updates` holds for (node, state, action), so that equal updates are stored once.
    free: the policy chooses the next node together with the action: its rows are over names "action>node", and the
        updates given here ("stay") are not used.
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


def _memory_refines(fine: Memory, coarse: Memory) -> bool:
    """Return whether a memory can do what another does: the same machine, or a free one of at least as many nodes.

    Node n of the larger free memory stands for node n modulo the size of the smaller one.
    """
    if fine.free != coarse.free:
        return False
    if coarse.free:
        start, size = fine.start, len(coarse.nodes)
        entries = (start.row_of_entry(), start.columns % size, start.values)
        folded = SparseRows.from_entries(*entries, shape=(start.num_rows, size))
        return len(fine.nodes) >= size and folded == coarse.start
    return fine == coarse


def check_memory(memory: Memory, faults: Faults, where: str, *, num_states: int, num_actions: int) -> None:
    """Note when the tables of a memory do not fit a model of these sizes. where: path for the faults."""
    expected = (len(memory.nodes), num_states, num_actions)
    if memory.update_of.shape != expected:
        actual, wanted = (" x ".join(map(str, shape)) for shape in (memory.update_of.shape, expected))
        faults.error(f"{where}.update", f"has shape {actual}, not {wanted}")
    if memory.start.num_rows != num_states:
        faults.error(f"{where}.start", f"has {memory.start.num_rows:,} entries, not {num_states:,}")


MAX_BELIEFS = 100_000
MAX_OBSERVATION_NAMES = 1_000_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BeliefGraph(Checked):
    """A machine that reads the observations: n_0 = first(o_0), n_{t+1} = following(n_t, o_{t+1}).

    Made by the program over beliefs that minimises what the observer is left with: a node stands for beliefs after
    which the policy acts alike.

    nodes: names of the nodes. observations: names of the observations that it reads.
    otherwise: the node after an observation that a policy of these nodes cannot cause; files leave such moves out.
    """

    nodes: tuple[str, ...]
    observations: tuple[str, ...]
    first: IntArray  # [observation] -> node
    following: IntArray  # [node, observation] -> node
    otherwise: IntArray  # [observation] -> node

    def __post_init__(self) -> None:
        checks = Checks(self, "belief")
        nodes = checks.names("nodes", kind="node", most=MAX_BELIEFS)
        observations = checks.names("observations", kind="observation", most=MAX_OBSERVATION_NAMES)
        if nodes is not None and observations is not None:
            row = (len(observations),)
            checks.ints("first", row, most=len(nodes), what="node")
            checks.ints("following", (len(nodes), *row), most=len(nodes), what="node")
            checks.ints("otherwise", row, most=len(nodes), what="node")
        checks.finish()

    def follow(self, observations: tuple[str, ...]) -> str:
        """Return the name of the node after some observations, at least one, oldest first, by their names."""
        index = {name: position for position, name in enumerate(self.observations)}
        node = int(self.first[index[observations[0]]])
        for name in observations[1:]:
            node = int(self.following[node, index[name]])
        return self.nodes[node]

    def reads(self, observations: tuple[str, ...]) -> BeliefGraph | None:
        """Return the graph with its columns in the order of some observations; None where it lacks one of them."""
        if observations == self.observations:
            return self
        index = {name: position for position, name in enumerate(self.observations)}
        if not index.keys() >= set(observations):
            return None
        column = np.array([index[name] for name in observations], dtype=np.int64)
        return BeliefGraph(
            self.nodes, observations, self.first[column], self.following[:, column], self.otherwise[column]
        )


MAX_LAST_STATES = 1_000
MAX_OBSERVATIONS = 1_000

# What a row key says about one condition: a name, a time, or a tuple of names (last_states, observations).
KeyPart = str | int | tuple[str, ...]
Projection = Callable[[KeyPart], KeyPart]


class Condition:
    """Base of conditions; `key` names one in files, and in the rows of a policy."""

    __slots__ = ()
    key: ClassVar[str]
    sees_observations: ClassVar[bool] = False  # whether it tells what the observer receives

    @property
    def label(self) -> str:
        """The condition with its size, as policy classes are named: "state", "last_states:2"."""
        return self.key

    def project_to(self, coarse: Condition) -> Projection | None:
        """Return the function from this condition's part of a row key to a coarser one's; None where there is none."""
        return _identity if self == coarse else None

    def project_from(self, fine: Condition) -> Projection | None:
        """Return the same function, known to the coarser condition.

        For a new condition that is coarser than one already there, which does not know it.
        """
        return None


def projection(fine: Condition, coarse: Condition) -> Projection | None:
    """Return the function from the fine condition's part of a row key to the coarse one's.

    None if who knows the fine condition does not know the coarse one. Either class may define it: `project_to` of the
    fine one, or `project_from` of the coarse one.
    """
    return fine.project_to(coarse) or coarse.project_from(fine)


def refines(fine: Condition, coarse: Condition) -> bool:
    """Return whether who knows the fine condition also knows the coarse one."""
    return projection(fine, coarse) is not None


@dataclass(frozen=True, slots=True)
class CurrentState(Condition):
    """The state of the model, s_t; its part of a row key is the state's name."""

    key: ClassVar[str] = "state"


@dataclass(frozen=True, slots=True)
class Time(Condition):
    """The time t = 0 .. horizon; its part of a row key is that number."""

    key: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class AutomatonState(Condition):
    """The state of the secret's automaton, by name (the paper's product policies for language secrets)."""

    key: ClassVar[str] = "automaton"


@dataclass(frozen=True, slots=True)
class StartState(Condition):
    """The state in which the run began, s_0, by name."""

    key: ClassVar[str] = "start"


@dataclass(frozen=True, slots=True)
class LastStates(Condition):
    """The last `count` states, the current one included.

    Its part of a row key is a tuple of names, oldest first, and shorter at the beginning of a run.
    """

    count: int
    key: ClassVar[str] = "last_states"

    def __post_init__(self) -> None:
        checks = Checks(self, "last_states")
        checks.whole("count", low=1, high=MAX_LAST_STATES)
        checks.finish()

    @property
    def label(self) -> str:
        """The condition with its number of states."""
        return f"{self.key}:{self.count}"

    def project_to(self, coarse: Condition) -> Projection | None:
        """Project to fewer of the last states, or to the current one alone."""
        if isinstance(coarse, LastStates) and coarse.count <= self.count:
            return _latest(coarse.count)
        return (lambda part: _sequence(part)[-1]) if isinstance(coarse, CurrentState) else None


@dataclass(frozen=True, slots=True)
class MemoryNode(Condition):
    """The node of a memory that the policy carries."""

    memory: Memory
    key: ClassVar[str] = "memory"

    def __post_init__(self) -> None:
        checks = Checks(self, "")
        checks.type("memory", Memory, "a Memory")
        checks.finish()

    @property
    def label(self) -> str:
        """The condition with its number of nodes, where the policy is free to use them."""
        return f"{self.key}:{len(self.memory.nodes)}" if self.memory.free else self.key

    def project_to(self, coarse: Condition) -> Projection | None:
        """Project node n of a larger memory to node n modulo the size of the smaller one."""
        if not isinstance(coarse, MemoryNode) or not _memory_refines(self.memory, coarse.memory):
            return None
        nodes = coarse.memory.nodes
        stands_for = {node: nodes[index % len(nodes)] for index, node in enumerate(self.memory.nodes)}
        return lambda part: stands_for[str(part)]


@dataclass(frozen=True, slots=True)
class Observations(Condition):
    """The last observations o_{t-count+1} .. o_t, the present one included, or "all" since the start.

    For policies that see what the observer sees. The part of a row key is a tuple of names, oldest first.
    """

    count: int | Literal["all"]
    key: ClassVar[str] = "observations"
    sees_observations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks = Checks(self, "observations")
        if isinstance(self.count, str):
            checks.word("count", ("all",))
        else:
            checks.whole("count", low=1, high=MAX_OBSERVATIONS)
        checks.finish()

    @property
    def label(self) -> str:
        """The condition with its number of observations."""
        return f"{self.key}:{self.count}"

    def project_to(self, coarse: Condition) -> Projection | None:
        """Project to fewer of the last observations; all of them also give the time, which is how many came before."""
        if isinstance(coarse, Time) and self.count == "all":
            return lambda part: len(_sequence(part)) - 1
        if not isinstance(coarse, Observations) or not self._at_least(coarse.count):
            return None
        return _identity if coarse.count == "all" else _latest(coarse.count)

    def _at_least(self, count: int | Literal["all"]) -> bool:
        """Return whether this condition holds at least so many observations."""
        return self.count == "all" or (count != "all" and count <= self.count)


@dataclass(frozen=True, slots=True)
class BeliefNode(Condition):
    """The node of a belief graph, which the observations so far give; its part of a row key is the node's name."""

    graph: BeliefGraph
    key: ClassVar[str] = "belief"
    sees_observations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks = Checks(self, "")
        checks.type("graph", BeliefGraph, "a BeliefGraph")
        checks.finish()

    def project_from(self, fine: Condition) -> Projection | None:
        """Project all observations so far to the node that they lead to."""
        if not isinstance(fine, Observations) or fine.count != "all":
            return None
        return lambda part: self.graph.follow(_sequence(part))


def _identity(part: KeyPart) -> KeyPart:
    """Return the part itself."""
    return part


def _sequence(part: KeyPart) -> tuple[str, ...]:
    """Return the part of a row key that lists states or observations."""
    assert isinstance(part, tuple)
    return part


def _latest(count: int) -> Projection:
    """Return the projection to the last `count` of a sequence."""
    return lambda part: _sequence(part)[-count:]


# Conditions that are a word alone; the others take a value.
PLAIN: dict[str, Condition] = {kind.key: kind() for kind in (CurrentState, Time, AutomatonState, StartState)}
