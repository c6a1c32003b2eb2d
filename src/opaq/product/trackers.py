"""Trackers: which machine follows a secret, observer, condition or requirement, and what its nodes mean.

Each of the four kinds has a tracker class (a machine and functions of its nodes) and a `singledispatch` function from
the data class of `opaq.model` to its tracker. A new kind of secret is a data class derived from `Secret` and one
function registered here (or by `opaq.extensions.add_secret`):

    @track_secret.register
    def _(secret: MySecret, mdp: MDP, horizon: int) -> SecretTracker: ...

Functions of nodes take and return arrays, [case] -> value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from opaq.automata.dfa import label_sets, tabulate
from opaq.errors import BudgetError, Fault, InputError
from opaq.model.arrays import FloatArray, IntArray, SparseRows, expand_rows, ints
from opaq.model.automaton import Automaton
from opaq.model.conditions import (
    AutomatonState,
    BeliefGraph,
    BeliefNode,
    Condition,
    CurrentState,
    KeyPart,
    LastStates,
    Memory,
    MemoryNode,
    Observations,
    StartState,
    Time,
)
from opaq.model.mdp import MDP
from opaq.model.observer import Observer, Together
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy
from opaq.model.secret import (
    InitialState,
    Jointly,
    Language,
    LastState,
    Secret,
    StateAt,
    StateClasses,
    StepsAgo,
    Trajectory,
    Visited,
)
from opaq.product.machine import (
    MAX_EDGES,
    OBSERVER,
    SECRET,
    STATE,
    WATCHER,
    ActionOnly,
    AutomatonMachine,
    Branches,
    Clock,
    FreeMemoryMachine,
    LastAction,
    Machine,
    MemoryMachine,
    PresentState,
    RecentStates,
    SideBySide,
    StateAtTime,
    StatelessMachine,
    VisitFlag,
    Window,
    draw,
    split_digits,
)
from opaq.spec.memory_part import joint_actions


@dataclass(frozen=True, slots=True)
class SecretTracker:
    """Follows a secret: Z = value(q_T, s_T), where q is the machine's node."""

    machine: Machine
    values: tuple[str, ...]
    value: Callable[[IntArray, IntArray], IntArray]  # (nodes, states) -> secret values
    nodes: tuple[str, ...] = ()  # names of the nodes, where the policy may look at them as the automaton's states


@singledispatch
def track_secret(secret: Secret, mdp: MDP, horizon: int) -> SecretTracker:
    """Return the tracker of a secret.

    mdp: the model whose run it reads; horizon: T, for secrets that count from the end.
    Raises TypeError for a kind that has not registered one.
    """
    raise TypeError(f"no tracker is registered for secrets of type {type(secret).__name__}")


def _automaton_machine(automaton: Automaton, mdp: MDP) -> AutomatonMachine:
    """Return the machine of an automaton, its table over the label sets that occur in the model."""
    alphabet, letter_of = label_sets(mdp)
    return AutomatonMachine(tabulate(automaton, alphabet), letter_of, automaton.initial, automaton.reads == "left")


@track_secret.register
def _(secret: LastState, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = class of s_T: no memory is needed."""
    classes = secret.classes
    return SecretTracker(StatelessMachine(), classes.names, lambda nodes, states: classes.of_state[states])


@track_secret.register
def _(secret: Trajectory, mdp: MDP, horizon: int) -> SecretTracker:
    """W_t = class of s_t at every time: no memory is needed."""
    classes = secret.classes
    return SecretTracker(StatelessMachine(), classes.names, lambda nodes, states: classes.of_state[states])


@track_secret.register
def _(secret: InitialState, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = class of s_0, remembered from the start."""
    return _snapshot(0, secret.classes)


@track_secret.register
def _(secret: StateAt, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = class of s_t at a fixed time t."""
    return _snapshot(secret.time, secret.classes)


@track_secret.register
def _(secret: StepsAgo, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = class of s_{T-k}: the state at the fixed time T - k."""
    return _snapshot(horizon - secret.steps, secret.classes)


def _snapshot(time: int, classes: StateClasses) -> SecretTracker:
    """Return the tracker of the class of s_time; node time + c holds class c."""

    def value(nodes: IntArray, states: IntArray) -> IntArray:
        return np.maximum(nodes - time, 0)  # nodes still waiting never reach the horizon

    return SecretTracker(StateAtTime(time, classes.of_state), classes.names, value)


@track_secret.register
def _(secret: Visited, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = "yes" if any of the states was visited."""
    return SecretTracker(VisitFlag(mdp.mask(secret.states)), ("no", "yes"), lambda nodes, states: nodes)


@track_secret.register
def _(secret: Language, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = the automaton's state after the run ("progress"), or whether it accepts ("acceptance")."""
    automaton = secret.automaton
    machine, names = _automaton_machine(automaton, mdp), automaton.states
    if secret.reveal == "progress":
        return SecretTracker(machine, names, lambda nodes, states: nodes, names)
    accepts = np.isin(np.arange(len(names)), list(automaton.accepting)).astype(np.int64)
    return SecretTracker(machine, ("no", "yes"), lambda nodes, states: accepts[nodes], names)


@track_secret.register
def _(secret: Jointly, mdp: MDP, horizon: int) -> SecretTracker:
    """Z = the values of several secrets at once: their machines side by side."""
    parts = [track_secret(one, mdp, horizon) for one in secret.secrets]
    machine, sizes = SideBySide(tuple(part.machine for part in parts)), [len(part.values) for part in parts]

    def value(nodes: IntArray, states: IntArray) -> IntArray:
        held = zip(parts, machine.split(nodes), strict=True)
        return np.ravel_multi_index([part.value(own, states) for part, own in held], sizes)

    return SecretTracker(machine, secret.join([part.values for part in parts]), value)


@dataclass(frozen=True, slots=True)
class ObserverTracker:
    """Follows an observer: o_t ~ E(o | n_t, s_t), where n is the machine's node."""

    machine: Machine
    observations: tuple[str, ...]
    emission: Callable[[IntArray, IntArray], SparseRows]  # (nodes, states) -> [position, observation]
    window: Window | None = None  # of the last observations, where nodes keep one: it is node % window.size
    memoryless: bool = False  # whether the machine's next node does not depend on the one before
    parts: tuple[ObserverTracker, ...] = ()  # of observers that are together, in the order of their machine's nodes
    belief: Callable[[IntArray], IntArray] | None = None  # nodes -> nodes of the belief graph that reads along, if any


@singledispatch
def track_observer(observer: object, mdp: MDP) -> ObserverTracker:
    """Return the tracker of an observer; TypeError for a kind that has not registered one."""
    raise TypeError(f"no tracker is registered for observers of type {type(observer).__name__}")


@track_observer.register
def _(observer: Observer, mdp: MDP) -> ObserverTracker:
    """Track an observer of tables: it sees the state and, where actions are seen, a sign of the last one beside it.

    The machine remembers the kind of the last action; the joint observation (o, sign) has number o * (signs + 1) +
    sign, where sign 0 means "none".
    """
    if observer.action_emission is None and observer.after_action is None:
        return _state_tracker(observer)
    kind_of = _action_kinds(observer, mdp)
    _, example = np.unique(kind_of, return_index=True)
    signs = _signs(observer.action_emission, example)
    names = observer.seen_names

    def emission(kinds: IntArray, states: IntArray) -> SparseRows:
        last_action = np.where(kinds > 0, example[kinds - 1], -1)
        owner, observation, chance = _joint_entries(observer, mdp.num_states, states, last_action)
        case, entry = expand_rows(signs.starts, kinds[owner])
        joint = observation[case] * signs.num_columns + signs.columns[entry]
        weights = chance[case] * signs.values[entry]
        return SparseRows.from_entries(owner[case], joint, weights, shape=(states.size, len(names)))

    return ObserverTracker(LastAction(kind_of), names, emission, memoryless=True)


@track_observer.register
def _(observer: Together, mdp: MDP) -> ObserverTracker:
    """Track observers that are together: their machines side by side, and the product of their channels."""
    return _join([track_observer(part, mdp) for part in observer.parts.values()], observer.observations)


def _join(parts: Sequence[ObserverTracker], observations: tuple[str, ...]) -> ObserverTracker:
    """Return the tracker of several observers at once; observation number in mixed radix, the last changing first."""
    machine = SideBySide(tuple(part.machine for part in parts))

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        held = machine.split(nodes)
        return join_channels([part.emission(own, states) for part, own in zip(parts, held, strict=True)])

    return ObserverTracker(machine, observations, emission, parts=tuple(parts))


def join_channels(tables: Sequence[SparseRows]) -> SparseRows:
    """Return the product channel of several [case, observation] tables, the observation of the last changing first."""
    joint = tables[0]
    for table in tables[1:]:
        entry, other = expand_rows(table.starts, joint.row_of_entry())
        columns = joint.columns[entry].astype(np.int64) * table.num_columns + table.columns[other]
        shape = (table.num_rows, joint.num_columns * table.num_columns)
        values = joint.values[entry] * table.values[other]
        joint = SparseRows.from_entries(joint.row_of_entry()[entry], columns, values, shape=shape)
    return joint


def _state_tracker(observer: Observer) -> ObserverTracker:
    """Return the tracker of an observer who sees the state alone: E(o | s), no machine."""

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        return _take_rows(observer.emission, states)

    return ObserverTracker(StatelessMachine(), observer.observations, emission)


def _action_kinds(observer: Observer, mdp: MDP) -> IntArray:
    """Return [action] -> kind.

    Actions that the observer cannot tell apart are of one kind, which keeps the product small.
    """
    signatures = [_signature(observer, action, mdp.num_states) for action in range(len(mdp.actions))]
    kind = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    return np.array([kind[signature] for signature in signatures], dtype=np.int64)


def _signature(observer: Observer, action: int, num_states: int) -> tuple[bytes, ...]:
    """Return bytes that are equal for two actions exactly if the observer sees the same of them in every state."""
    signs, after = observer.action_emission, observer.after_action
    parts = [] if signs is None else [part.tobytes() for part in signs.row(action)]
    if after is not None:
        starts = after.starts[action * num_states : (action + 1) * num_states + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        parts += [part.tobytes() for part in (np.diff(starts), after.columns[entries], after.values[entries])]
    return tuple(parts)


def _joint_entries(
    observer: Observer, num_states: int, state: IntArray, action: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the emissions of states after actions as (case, observation, probability) entries.

    state, action: [case]; action -1 stands for the start, where no action led to the state.
    """
    emission, after = observer.emission, observer.after_action
    if after is None:
        owner, entry = expand_rows(emission.starts, state)
        return owner, emission.columns[entry], emission.values[entry]
    starts = np.concatenate((emission.starts, emission.starts[-1] + after.starts[1:]))
    owner, entry = expand_rows(starts, (action + 1) * num_states + state)
    columns, values = (
        np.concatenate(both) for both in ((emission.columns, after.columns), (emission.values, after.values))
    )
    return owner, columns[entry].astype(np.int64), values[entry].astype(np.float64)


def _signs(emission: SparseRows | None, example: IntArray) -> SparseRows:
    """Return [kind of last action, sign] probabilities; row 0 is "no action yet", sign 0 is "nothing shown".

    emission: [action, sign], None where no signs are seen. example: [kind] -> one action of that kind.
    """
    if emission is None:
        kinds = example.size + 1
        return SparseRows.from_entries(range(kinds), [0] * kinds, [1.0] * kinds, shape=(kinds, 1))
    owner, entry = expand_rows(emission.starts, example)
    rows = np.concatenate(([0], owner + 1))
    columns = np.concatenate(([0], emission.columns[entry] + 1))
    values = np.concatenate(([1.0], emission.values[entry]))
    return SparseRows.from_entries(rows, columns, values, shape=(example.size + 1, emission.num_columns + 1))


@dataclass(frozen=True, slots=True)
class BeliefSteps:
    """What `append` makes of the observations where a belief graph reads them: node n is n + 1, 0 is none yet."""

    steps: IntArray  # [node + 1, observation] -> node + 1

    @classmethod
    def of(cls, read: BeliefGraph, observations: tuple[str, ...]) -> BeliefSteps:
        """Return the steps of a graph for the observations of a problem; InputError where it does not read them all."""
        graph = read.reads(observations)
        if graph is None:
            known = set(read.observations)
            missing = next(name for name in observations if name not in known)
            message = f"the belief graph does not know the observation '{missing}'"
            raise InputError([Fault("policy.conditions_on", message, "use the problem that the policy was made for")])
        return cls(np.concatenate((graph.first[None, :], graph.following)) + 1)

    @property
    def size(self) -> int:
        """Number of nodes, and none yet."""
        return int(self.steps.shape[0])

    def append(self, nodes: IntArray, things: IntArray) -> IntArray:
        """Return the nodes [case] after one more observation each, things [case]."""
        return np.asarray(self.steps[nodes, things])


@dataclass(frozen=True, slots=True)
class _Record:
    """What is kept of the observations: the last of them and, in front of these, the nodes of belief graphs."""

    window: Window
    beliefs: tuple[BeliefSteps, ...] = ()  # that of the policy before that of the observer

    @property
    def size(self) -> int:
        """Windows times nodes."""
        return self.window.size * math.prod(steps.size for steps in self.beliefs)

    def append(self, records: IntArray, things: IntArray) -> IntArray:
        """Return records [case] after one more observation each, things [case]."""
        nodes, windows = np.divmod(records, self.window.size)
        after, unit = self.window.append(windows, things), self.window.size
        for steps in self.beliefs:
            nodes, node = np.divmod(nodes, steps.size)
            after, unit = after + unit * steps.append(node, things), unit * steps.size
        return after

    def last_belief(self, records: IntArray) -> IntArray:
        """Return the nodes [case] of the last belief graph."""
        return np.asarray(records % self.size // (self.size // self.beliefs[-1].size)) - 1


def _record_observations(
    observer: ObserverTracker, length: int, beliefs: Sequence[BeliefSteps] = ()
) -> ObserverTracker:
    """Return a tracker of the same observer that keeps its last `length` observations in the product.

    Policies that look at observations need them in the state; emission is then deterministic: the newest one kept.
    beliefs: belief graphs whose nodes are kept beside them.
    """
    window = Window(length, len(observer.observations))
    record = _Record(window, tuple(beliefs))

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        shape = (nodes.size, window.num_things)
        return SparseRows.from_entries(np.arange(nodes.size), window.newest(nodes), np.ones(nodes.size), shape=shape)

    machine = _ObservationRecorder(observer, record)
    belief = record.last_belief if beliefs else None
    return ObserverTracker(machine, observer.observations, emission, window, parts=observer.parts, belief=belief)


@dataclass(frozen=True, slots=True)
class _ObservationRecorder:
    """Machine: node = node of the observer's machine * number of records + record of drawn observations."""

    observer: ObserverTracker
    record: _Record

    @property
    def size(self) -> int:
        """Nodes of the observer's machine times records; a memoryless machine's node is not kept."""
        return self.record.size * (1 if self.observer.memoryless else self.observer.machine.size)

    def begin(self, states: IntArray) -> Branches:
        """Begin the observer's machine and draw o_0."""
        moved = self.observer.machine.begin(states)
        return self._append_observation(moved, states, np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """Step the observer's machine and draw o_{t+1}."""
        held, records = np.divmod(nodes, self.record.size)
        moved = self.observer.machine.step(held, source, action, target)
        return self._append_observation(moved, target, records)

    def _append_observation(self, moved: Branches, states: IntArray, records: IntArray) -> Branches:
        """Branch into every observation of the states entered and append it to the records kept before."""
        drawn = self._draw_observations(moved.node, states[moved.case])
        case, held = moved.case[drawn.case], moved.node[drawn.case]
        after = self.record.append(records[case], drawn.node)
        kept = after if self.observer.memoryless else held * self.record.size + after
        return Branches(case, kept, moved.probability[drawn.case] * drawn.probability)

    def _draw_observations(self, nodes: IntArray, states: IntArray) -> Branches:
        """Return every possible observation of (node, state) cases; each distinct pair is looked up once."""
        num_states = int(states.max(initial=0)) + 1
        pairs, row = np.unique(nodes * num_states + states, return_inverse=True)
        table = self.observer.emission(*np.divmod(pairs, num_states))
        advice = "use a shorter horizon or let the policy look at fewer observations"
        return draw(table, row.reshape(-1), what="the observations that the policy looks at", advice=advice)


@dataclass(frozen=True, slots=True)
class TrackerContext:
    """The problem and the trackers of its secrets and its observers, which conditions refer to.

    Where a policy looks at observations, the tracker of the observer whose they are keeps as many of them as the
    longest condition needs. It is the first observer, which need not be the one that answers are about: that one then
    shares what it sees of the same observers, and has a part of the product for the rest.
    """

    problem: Problem
    secret: SecretTracker  # that answers are about
    automaton: SecretTracker  # whose automaton a policy may look at
    observer: ObserverTracker  # of the part OBSERVER
    watcher: ObserverTracker | None  # of the part WATCHER: what the observer that answers are about sees beside
    shared: tuple[int, ...] | None  # which parts of `observer`, then of `watcher`, it sees; None: all of `observer`
    observations: tuple[str, ...]  # of the observer that answers are about

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass, assumed: BeliefGraph | None = None) -> TrackerContext:
        """Track the problem's secrets and observers for policies of a class.

        assumed: reads the observations of the observer that answers are about, and is followed in the product.
        """
        secret = track_secret(problem.secret, problem.mdp, problem.horizon)
        own, automaton = track_observer(problem.observer, problem.mdp), secret
        if problem.policy_secret is not problem.secret:
            automaton = track_secret(problem.policy_secret, problem.mdp, problem.horizon)
        needed = [_window_length(one, problem) for one in policy_class.conditions if isinstance(one, Observations)]
        belief = next((one for one in policy_class.conditions if isinstance(one, BeliefNode)), None)
        reads = () if assumed is None else (BeliefSteps.of(assumed, own.observations),)
        if not needed and belief is None:
            observer = _record_observations(own, 1, reads) if reads else own
            return cls(problem, secret, automaton, observer, None, None, own.observations)
        first = problem.policy_observer
        seen = own if first == problem.for_ else track_observer(problem.observers[first], problem.mdp)
        mine, theirs = (_bases(problem, name) for name in (problem.for_, first))
        steps = [] if belief is None else [BeliefSteps.of(belief.graph, seen.observations)]
        if mine == theirs:
            observer = _record_observations(seen, max(needed, default=1), (*steps, *reads))
            return cls(problem, secret, automaton, observer, None, None, own.observations)
        rest, watcher = [name for name in mine if name not in theirs], None
        if reads and rest and len(rest) < len(mine):
            message = "an observer that assumes sees what the policy looks at, and more"
            raise InputError([Fault("policy.conditions_on", message, "let policies look at none of its observations")])
        if reads and not rest:  # what it reads is part of what is recorded
            sizes = [len(part.observations) for part in seen.parts]
            digits = split_digits(np.arange(len(seen.observations)), sizes)
            read = np.ravel_multi_index(
                [digits[theirs.index(name)] for name in mine], [sizes[theirs.index(name)] for name in mine]
            )
            steps.append(BeliefSteps(reads[0].steps[:, read]))
        observer = _record_observations(seen, max(needed, default=1), steps)
        if rest:
            trackers = [track_observer(problem.observers[name], problem.mdp) for name in rest]
            watcher = _join(trackers, own.observations if len(rest) == len(mine) else ())
            watcher = _record_observations(watcher, 1, reads) if reads else watcher
        both = [*theirs, *rest]
        return cls(
            problem, secret, automaton, observer, watcher, tuple(both.index(name) for name in mine), own.observations
        )

    def emission(self, nodes: Mapping[str, IntArray], states: IntArray) -> SparseRows:
        """Return [product state, observation]: what the observer that answers are about sees.

        nodes: part -> [product state]. states: [product state] -> model state.
        """
        recorded = self.observer.emission(nodes[OBSERVER], states)
        if self.shared is None:
            return recorded
        tables = _split_channel(recorded, [len(part.observations) for part in self.observer.parts or (self.observer,)])
        if self.watcher is not None:
            more = self.watcher.emission(nodes[WATCHER], states)
            if set(self.shared).isdisjoint(range(len(tables))):
                return more
            held = self.watcher.machine
            assert isinstance(held, SideBySide)
            parts = zip(self.watcher.parts, held.split(nodes[WATCHER]), strict=True)
            tables += [part.emission(own, states) for part, own in parts]
        return join_channels([tables[index] for index in self.shared])

    def beliefs(self, nodes: Mapping[str, IntArray]) -> IntArray | None:
        """Return [product state] -> node of the graph that the observer reads by; None where it assumes nothing."""
        for tracker, part in ((self.watcher, WATCHER), (self.observer, OBSERVER)):
            if tracker is not None and tracker.belief is not None:
                return tracker.belief(nodes[part])
        return None


def _bases(problem: Problem, name: str) -> list[str]:
    """Return the names of the observers that an observer is made of: its own, unless it is several together."""
    observer = problem.observers[name]
    return list(observer.parts) if isinstance(observer, Together) else [name]


def _split_channel(table: SparseRows, sizes: Sequence[int]) -> list[SparseRows]:
    """Return the parts of a joint channel whose rows are all certain, one table [case, observation] each."""
    cases, digits = np.arange(table.num_rows), split_digits(table.columns.astype(np.int64), sizes)
    ones = np.ones(cases.size)
    return [
        SparseRows.from_entries(cases, digit, ones, shape=(cases.size, size))
        for digit, size in zip(digits, sizes, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ConditionTracker:
    """Follows one condition of a policy, and names what it says in the keys of policy rows."""

    machine: Machine
    word: Callable[[int], KeyPart]  # node -> its name in a row key
    part: str | None = None  # the part of every product (STATE, SECRET, OBSERVER) that follows it already
    free_memory: Memory | None = None  # whose next node the policy chooses with its action; the machine reads both
    window: Window | BeliefSteps | None = None  # of observations: who acts it out is given them, and keeps this instead
    stride: int = 1  # where the window stands in the nodes of its part: node // stride % window.size

    def nodes(self, nodes: IntArray) -> IntArray:
        """Return what the policy can tell apart: the nodes, or the shorter window that this condition keeps."""
        return nodes if self.window is None else nodes // self.stride % self.window.size


@singledispatch
def track_condition(condition: Condition, context: TrackerContext) -> ConditionTracker:
    """Return the tracker of a condition; TypeError for a kind that has not registered one."""
    raise TypeError(f"no tracker is registered for conditions of type {type(condition).__name__}")


@track_condition.register
def _(condition: CurrentState, context: TrackerContext) -> ConditionTracker:
    """Follow s_t, which every product has already."""
    states = context.problem.mdp.states
    return ConditionTracker(PresentState(len(states)), states.__getitem__, part=STATE)


@track_condition.register
def _(condition: Time, context: TrackerContext) -> ConditionTracker:
    """Follow the time by a clock."""
    return ConditionTracker(Clock(context.problem.horizon), int)


@track_condition.register
def _(condition: AutomatonState, context: TrackerContext) -> ConditionTracker:
    """Follow the state of the secret's automaton, which the product has already; InputError for secrets without one."""
    names = context.automaton.nodes
    if not names:
        message = f"'{condition.key}' needs a secret with an automaton"
        raise InputError([Fault("policy.conditions_on", message, "use another condition or another secret")])
    part = SECRET if context.automaton is context.secret else None
    return ConditionTracker(context.automaton.machine, names.__getitem__, part=part)


@track_condition.register
def _(condition: StartState, context: TrackerContext) -> ConditionTracker:
    """Follow s_0."""
    states = context.problem.mdp.states
    return ConditionTracker(StateAtTime(0, np.arange(len(states))), states.__getitem__)


@track_condition.register
def _(condition: LastStates, context: TrackerContext) -> ConditionTracker:
    """Follow the last k states by a window."""
    states = context.problem.mdp.states
    window = Window(_limit_to_run(condition.count, context.problem), len(states))
    return ConditionTracker(RecentStates(window), lambda node: tuple(states[state] for state in window.things(node)))


@track_condition.register
def _(condition: MemoryNode, context: TrackerContext) -> ConditionTracker:
    """Follow the node of a memory, with a given update or chosen by the policy."""
    memory = condition.memory
    if memory.free:
        return ConditionTracker(FreeMemoryMachine(memory), memory.nodes.__getitem__, free_memory=memory)
    return ConditionTracker(MemoryMachine(memory), memory.nodes.__getitem__)


@track_condition.register
def _(condition: Observations, context: TrackerContext) -> ConditionTracker:
    """Follow the last k observations, which the observer's recorder keeps."""
    observer = context.observer
    window = Window(_window_length(condition, context.problem), len(observer.observations))

    def word(node: int) -> KeyPart:
        return tuple(observer.observations[observation] for observation in window.things(node))

    return ConditionTracker(observer.machine, word, part=OBSERVER, window=window)


@track_condition.register
def _(condition: BeliefNode, context: TrackerContext) -> ConditionTracker:
    """Follow the node of a belief graph, which the observer's recorder keeps before the last observations."""
    observer, nodes = context.observer, condition.graph.nodes
    assert observer.window is not None
    steps = BeliefSteps.of(condition.graph, observer.observations)
    return ConditionTracker(
        observer.machine, lambda node: nodes[node - 1], part=OBSERVER, window=steps, stride=observer.window.size
    )


def _window_length(condition: Observations, problem: Problem) -> int:
    """Return how many observations a condition keeps; all of them are horizon + 1."""
    return problem.horizon + 1 if condition.count == "all" else _limit_to_run(condition.count, problem)


def _limit_to_run(count: int, problem: Problem) -> int:
    """Return how many are kept: at most a run's horizon + 1, unless runs go on for ever."""
    return count if problem.task.over == "forever" else min(count, problem.horizon + 1)


def rank(condition: Condition) -> int:
    """Return where machines of this kind of condition stand in the product.

    Product states are numbered alike in whatever order the conditions of a policy class come.
    """
    return list(track_condition.registry.values()).index(track_condition.dispatch(type(condition)))


@dataclass(frozen=True, slots=True)
class RequirementTracker:
    """Follows a requirement: V = sum over t of discount^t rewards(s_t, a_t) + worth(n_T), n the machine's node."""

    name: str  # of the value, as it is reported
    rewards: FloatArray | None = None  # [choice]; None: nothing is paid on the way
    discount: float = 1.0
    machine: Machine | None = None  # None: nothing is paid at the end
    worth: Callable[[IntArray], FloatArray] | None = None  # nodes -> what they are worth at the end


@singledispatch
def track_requirement(requirement: Requirement, problem: Problem) -> RequirementTracker:
    """Return the tracker of a requirement; TypeError for a kind that has not registered one."""
    raise TypeError(f"no tracker is registered for requirements of type {type(requirement).__name__}")


@track_requirement.register
def _(requirement: ReturnAtLeast, problem: Problem) -> RequirementTracker:
    """V = discounted return of a named reward."""
    rewards = problem.mdp.named_rewards[requirement.reward]
    return RequirementTracker(f"return of {requirement.reward}", rewards, problem.discount)


@track_requirement.register
def _(requirement: Reach, problem: Problem) -> RequirementTracker:
    """V = probability that some of the states are visited."""
    machine = VisitFlag(problem.mdp.mask(requirement.states))
    name = f"probability of reaching {requirement.name}"
    return RequirementTracker(name, machine=machine, worth=lambda nodes: nodes.astype(np.float64))


@track_requirement.register
def _(requirement: Satisfy, problem: Problem) -> RequirementTracker:
    """V = probability that the automaton accepts the run."""
    accepting = list(requirement.automaton.accepting)

    def worth(nodes: IntArray) -> FloatArray:
        return np.isin(nodes, accepting).astype(np.float64)

    machine = _automaton_machine(requirement.automaton, problem.mdp)
    return RequirementTracker(f"probability of {requirement.name}", machine=machine, worth=worth)


def free_memory_of(conditions: Iterable[ConditionTracker]) -> Memory | None:
    """Return the memory whose next node the policy chooses, None if there is none; InputError if there are several."""
    memories = [one.free_memory for one in conditions if one.free_memory is not None]
    if len(memories) > 1:
        raise InputError([Fault("policy.conditions_on", "has several free memories", "keep one of them")])
    return memories[0] if memories else None


def choice_model(mdp: MDP, memory: Memory | None) -> MDP:
    """Return the model of what the policy chooses from: with a free memory, pairs (action, next node).

    Choice c of the model becomes choices c * k .. c * k + k - 1 for k nodes, with the same transitions and rewards.
    Without a free memory the model itself is returned. Raises BudgetError when the tables grow too large.
    """
    if memory is None:
        return mdp
    count = len(memory.nodes)
    _check_size(mdp, count)
    choice = np.repeat(np.arange(mdp.num_choices), count)
    node = np.tile(np.arange(count), mdp.num_choices)
    return replace(
        mdp,
        actions=joint_actions(mdp.actions, memory),
        choice_start=ints(mdp.choice_start * count),
        choice_action=ints(mdp.choice_action[choice] * count + node),
        transitions=_take_rows(mdp.transitions, choice),
        rewards=mdp.rewards[choice],
        named_rewards={name: rewards[choice] for name, rewards in mdp.named_rewards.items()},
    )


def lift_to_choices(machine: Machine, memory: Memory | None) -> Machine:
    """Return a machine that reads the model's actions, wrapped to run in the model of choices of a free memory."""
    return machine if memory is None else ActionOnly(machine, len(memory.nodes))


def condition_machine(condition: ConditionTracker, memory: Memory | None) -> Machine:
    """Return the machine of a condition in the model of choices.

    That of the free memory itself reads the next node too.
    """
    return lift_to_choices(condition.machine, memory) if condition.free_memory is None else condition.machine


def _check_size(mdp: MDP, num_nodes: int) -> None:
    """Raise BudgetError before tables are built that grow too large with the nodes."""
    entries = mdp.transitions.columns.size
    size = entries * num_nodes
    if size > MAX_EDGES:
        growth = f"{num_nodes:,} nodes that the policy chooses make {size:,} transitions of the model's {entries:,}"
        raise BudgetError(f"{growth}; the limit is {MAX_EDGES:,}; use fewer nodes")


def _take_rows(table: SparseRows, rows: IntArray) -> SparseRows:
    """Return the given rows of a table, in this order and as often as they are named."""
    owner, entry = expand_rows(table.starts, rows)
    shape = (rows.size, table.num_columns)
    return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)
