"""Trackers: machines that follow the run for secrets, observers, conditions and requirements.

A new kind of secret is a data class derived from `Secret` and one function registered here:

    @track_secret.register
    def _(secret: MySecret, mdp: MDP, horizon: int) -> SecretTracker: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from opaq.automata.dfa import label_sets, tabulate
from opaq.errors import BudgetError, Fault, InputError
from opaq.model.arrays import FloatArray, IntArray, SparseRows, expand_rows, ints
from opaq.model.automaton import Automaton
from opaq.model.conditions import (
    AutomatonState,
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
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy
from opaq.model.secret import InitialState, Language, LastState, Secret, StateAt, StateClasses, StepsAgo, Visited
from opaq.product.machine import (
    MAX_EDGES,
    OBSERVER,
    SECRET,
    STATE,
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
    StateAtTime,
    StatelessMachine,
    VisitFlag,
    Window,
    draw,
)
from opaq.spec.memory_part import joint_actions


@dataclass(frozen=True, slots=True)
class SecretTracker:
    """Z = value(q_T, s_T), where q is the machine's node."""

    machine: Machine
    values: tuple[str, ...]
    value: Callable[[IntArray, IntArray], IntArray]  # (nodes, states) -> secret values
    nodes: tuple[str, ...] = ()  # names of the nodes, where the policy may look at them as the automaton's states


@singledispatch
def track_secret(secret: Secret, mdp: MDP, horizon: int) -> SecretTracker:
    """The tracker of a secret; every kind registers its own."""
    raise TypeError(f"no tracker is registered for secrets of type {type(secret).__name__}")


def automaton_machine(automaton: Automaton, mdp: MDP) -> AutomatonMachine:
    """The machine of an automaton over the labels of a model."""
    alphabet, letter_of = label_sets(mdp)
    return AutomatonMachine(tabulate(automaton, alphabet), letter_of, automaton.initial, automaton.reads == "left")


@track_secret.register
def _(secret: LastState, mdp: MDP, horizon: int) -> SecretTracker:
    classes = secret.classes
    return SecretTracker(StatelessMachine(), classes.names, lambda nodes, states: classes.of_state[states])


@track_secret.register
def _(secret: InitialState, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(0, secret.classes)


@track_secret.register
def _(secret: StateAt, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(secret.time, secret.classes)


@track_secret.register
def _(secret: StepsAgo, mdp: MDP, horizon: int) -> SecretTracker:
    return _snapshot(horizon - secret.steps, secret.classes)


def _snapshot(time: int, classes: StateClasses) -> SecretTracker:
    def value(nodes: IntArray, states: IntArray) -> IntArray:
        return np.maximum(nodes - time, 0)  # nodes still waiting never reach the horizon

    return SecretTracker(StateAtTime(time, classes.of_state), classes.names, value)


@track_secret.register
def _(secret: Visited, mdp: MDP, horizon: int) -> SecretTracker:
    return SecretTracker(VisitFlag(mdp.mask(secret.states)), ("no", "yes"), lambda nodes, states: nodes)


@track_secret.register
def _(secret: Language, mdp: MDP, horizon: int) -> SecretTracker:
    automaton = secret.automaton
    machine, names = automaton_machine(automaton, mdp), automaton.states
    if secret.reveal == "progress":
        return SecretTracker(machine, names, lambda nodes, states: nodes, names)
    accepts = np.isin(np.arange(len(names)), list(automaton.accepting)).astype(np.int64)
    return SecretTracker(machine, ("no", "yes"), lambda nodes, states: accepts[nodes], names)


@dataclass(frozen=True, slots=True)
class ObserverTracker:
    """o_t ~ E(o | n_t, s_t), where n is the machine's node."""

    machine: Machine
    observations: tuple[str, ...]
    emission: Callable[[IntArray, IntArray], SparseRows]  # (nodes, states) -> [position, observation]
    window: Window | None = None  # of the last observations, where nodes keep one: it is node % window.size
    memoryless: bool = False  # whether the machine's next node does not depend on the one before


@singledispatch
def track_observer(observer: object, mdp: MDP) -> ObserverTracker:
    """The tracker of an observer; every kind registers its own."""
    raise TypeError(f"no tracker is registered for observers of type {type(observer).__name__}")


@track_observer.register
def _(observer: Observer, mdp: MDP) -> ObserverTracker:
    """What the state shows and, when actions are seen, the sign of the last one beside it."""
    if observer.action_emission is None and observer.after_action is None:
        return _state_tracker(observer)
    kind_of = _action_kinds(observer, mdp)
    _, example = np.unique(kind_of, return_index=True)
    signs = _signs(observer.action_emission, example)
    names = observer.seen_names

    def emission(kinds: IntArray, states: IntArray) -> SparseRows:
        last_action = np.where(kinds > 0, example[kinds - 1], -1)
        owner, shown, chance = _joint_entries(observer, mdp.num_states, states, last_action)
        case, entry = expand_rows(signs.starts, kinds[owner])
        joint = shown[case] * signs.num_columns + signs.columns[entry]
        weights = chance[case] * signs.values[entry]
        return SparseRows.from_entries(owner[case], joint, weights, shape=(states.size, len(names)))

    return ObserverTracker(LastAction(kind_of), names, emission, memoryless=True)


def _state_tracker(observer: Observer) -> ObserverTracker:
    """Of an observer who sees the state alone."""

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        table = observer.emission
        owner, entry = expand_rows(table.starts, states)
        shape = (states.size, len(observer.observations))
        return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)

    return ObserverTracker(StatelessMachine(), observer.observations, emission)


def _action_kinds(observer: Observer, mdp: MDP) -> IntArray:
    """Actions the observer cannot tell apart are of one kind."""
    signatures = [_signature(observer, action, mdp.num_states) for action in range(len(mdp.actions))]
    kind = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    return np.array([kind[signature] for signature in signatures], dtype=np.int64)


def _signature(observer: Observer, action: int, num_states: int) -> tuple[bytes, ...]:
    """All that the observer can see of an action."""
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
    """What is seen of each state after an action (-1: at the start): (position, observation, probability)."""
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
    """[kind of last action, sign]: sign 0 is "nothing", shown before the first action or when signs are not seen."""
    if emission is None:
        kinds = example.size + 1
        return SparseRows.from_entries(range(kinds), [0] * kinds, [1.0] * kinds, shape=(kinds, 1))
    owner, entry = expand_rows(emission.starts, example)
    rows = np.concatenate(([0], owner + 1))
    columns = np.concatenate(([0], emission.columns[entry] + 1))
    values = np.concatenate(([1.0], emission.values[entry]))
    return SparseRows.from_entries(rows, columns, values, shape=(example.size + 1, emission.num_columns + 1))


def record_observations(observer: ObserverTracker, length: int) -> ObserverTracker:
    """The same observer, its last `length` observations kept in the product."""
    window = Window(length, len(observer.observations))

    def emission(nodes: IntArray, states: IntArray) -> SparseRows:
        shape = (nodes.size, window.num_things)
        return SparseRows.from_entries(np.arange(nodes.size), window.newest(nodes), np.ones(nodes.size), shape=shape)

    return ObserverTracker(ObservationRecorder(observer, window), observer.observations, emission, window)


@dataclass(frozen=True, slots=True)
class ObservationRecorder:
    """Node: that of the observer's own machine times the number of windows, plus the window of what was drawn."""

    observer: ObserverTracker
    window: Window

    @property
    def size(self) -> int:
        """Nodes of the machine times windows; a memoryless machine's node is not kept."""
        return self.window.size * (1 if self.observer.memoryless else self.observer.machine.size)

    def begin(self, states: IntArray) -> Branches:
        """The machine's start, and o_0."""
        moved = self.observer.machine.begin(states)
        return self._seen(moved, states, np.zeros_like(states))

    def step(self, nodes: IntArray, source: IntArray, action: IntArray, target: IntArray) -> Branches:
        """The machine's step, and o_{t+1}."""
        held, windows = np.divmod(nodes, self.window.size)
        moved = self.observer.machine.step(held, source, action, target)
        return self._seen(moved, target, windows)

    def _seen(self, moved: Branches, states: IntArray, windows: IntArray) -> Branches:
        """Every observation of the states entered, `windows` being what was kept before."""
        shown = self._drawn(moved.node, states[moved.case])
        case, held = moved.case[shown.case], moved.node[shown.case]
        after = self.window.append(windows[case], shown.node)
        kept = after if self.observer.memoryless else held * self.window.size + after
        return Branches(case, kept, moved.probability[shown.case] * shown.probability)

    def _drawn(self, nodes: IntArray, states: IntArray) -> Branches:
        """Every observation; each distinct (node, state) is asked about once."""
        num_states = int(states.max(initial=0)) + 1
        pairs, row = np.unique(nodes * num_states + states, return_inverse=True)
        table = self.observer.emission(*np.divmod(pairs, num_states))
        advice = "use a shorter horizon or let the policy look at fewer observations"
        return draw(table, row.reshape(-1), what="the observations that the policy looks at", advice=advice)


@dataclass(frozen=True, slots=True)
class TrackerContext:
    """What conditions are about: the problem as it is stated, its secret and its observer.

    Where a policy looks at observations, the observer's tracker keeps as many of them as it needs.
    """

    problem: Problem
    secret: SecretTracker
    observer: ObserverTracker

    @classmethod
    def of(cls, problem: Problem, policy_class: PolicyClass) -> TrackerContext:
        """With the trackers of the problem's secret and observer, for policies of a class."""
        secret = track_secret(problem.secret, problem.mdp, problem.horizon)
        observer = track_observer(problem.observer, problem.mdp)
        needed = [_length(one, problem) for one in policy_class.conditions if isinstance(one, Observations)]
        return cls(problem, secret, record_observations(observer, max(needed)) if needed else observer)


@dataclass(frozen=True, slots=True)
class ConditionTracker:
    """How one condition is followed through a run, and how policy rows name what it says."""

    machine: Machine
    word: Callable[[int], KeyPart]  # node -> its name in a row key
    part: str | None = None  # the part of every product (STATE, SECRET, OBSERVER) that follows it already
    free_memory: Memory | None = None  # whose next node the policy chooses with its action; the machine reads both
    window: Window | None = None  # of observations: who acts it out is given them, and keeps this instead of a node

    def nodes(self, nodes: IntArray) -> IntArray:
        """What the policy tells apart of the nodes of the part that follows the condition."""
        return nodes if self.window is None else nodes % self.window.size


@singledispatch
def track_condition(condition: Condition, setting: TrackerContext) -> ConditionTracker:
    """The tracker of a condition; every kind registers its own."""
    raise TypeError(f"no tracker is registered for conditions of type {type(condition).__name__}")


@track_condition.register
def _(condition: CurrentState, setting: TrackerContext) -> ConditionTracker:
    states = setting.problem.mdp.states
    return ConditionTracker(PresentState(len(states)), states.__getitem__, part=STATE)


@track_condition.register
def _(condition: Time, setting: TrackerContext) -> ConditionTracker:
    return ConditionTracker(Clock(setting.problem.horizon), int)


@track_condition.register
def _(condition: AutomatonState, setting: TrackerContext) -> ConditionTracker:
    names = setting.secret.nodes
    if not names:
        found = f"'{condition.key}' needs a secret with an automaton"
        raise InputError([Fault("policy.conditions_on", found, "use another condition or another secret")])
    return ConditionTracker(setting.secret.machine, names.__getitem__, part=SECRET)


@track_condition.register
def _(condition: StartState, setting: TrackerContext) -> ConditionTracker:
    states = setting.problem.mdp.states
    return ConditionTracker(StateAtTime(0, np.arange(len(states))), states.__getitem__)


@track_condition.register
def _(condition: LastStates, setting: TrackerContext) -> ConditionTracker:
    states = setting.problem.mdp.states
    window = Window(_at_most_a_run(condition.count, setting.problem), len(states))
    return ConditionTracker(RecentStates(window), lambda node: tuple(states[state] for state in window.things(node)))


@track_condition.register
def _(condition: MemoryNode, setting: TrackerContext) -> ConditionTracker:
    memory = condition.memory
    if memory.free:
        return ConditionTracker(FreeMemoryMachine(memory), memory.nodes.__getitem__, free_memory=memory)
    return ConditionTracker(MemoryMachine(memory), memory.nodes.__getitem__)


@track_condition.register
def _(condition: Observations, setting: TrackerContext) -> ConditionTracker:
    observer = setting.observer
    window = Window(_length(condition, setting.problem), len(observer.observations))

    def word(node: int) -> KeyPart:
        return tuple(observer.observations[observation] for observation in window.things(node))

    return ConditionTracker(observer.machine, word, part=OBSERVER, window=window)


def _length(condition: Observations, problem: Problem) -> int:
    """How many observations are kept."""
    return problem.horizon + 1 if condition.count == "all" else _at_most_a_run(condition.count, problem)


def _at_most_a_run(count: int, problem: Problem) -> int:
    """How many are kept: no more than a run has, where no time after the horizon counts."""
    return count if problem.task.over == "forever" else min(count, problem.horizon + 1)


def rank(condition: Condition) -> int:
    """Where machines of its kind stand in the product: states are numbered alike in whatever order conditions come."""
    return list(track_condition.registry.values()).index(track_condition.dispatch(type(condition)))


@dataclass(frozen=True, slots=True)
class RequirementTracker:
    """The sum of discount^t rewards(s_t, a_t) plus worth(n_T) at the end, where n is the machine's node."""

    name: str  # of the value, as it is reported
    rewards: FloatArray | None = None  # [choice]; None: nothing is paid on the way
    discount: float = 1.0
    machine: Machine | None = None  # None: nothing is paid at the end
    worth: Callable[[IntArray], FloatArray] | None = None  # nodes -> what they are worth at the end


@singledispatch
def track_requirement(requirement: Requirement, problem: Problem) -> RequirementTracker:
    """The tracker of a requirement; every kind registers its own."""
    raise TypeError(f"no tracker is registered for requirements of type {type(requirement).__name__}")


@track_requirement.register
def _(requirement: ReturnAtLeast, problem: Problem) -> RequirementTracker:
    rewards = problem.mdp.named_rewards[requirement.reward]
    return RequirementTracker(f"return of {requirement.reward}", rewards, problem.discount)


@track_requirement.register
def _(requirement: Reach, problem: Problem) -> RequirementTracker:
    machine = VisitFlag(problem.mdp.mask(requirement.states))
    name = f"probability of reaching {requirement.name}"
    return RequirementTracker(name, machine=machine, worth=lambda nodes: nodes.astype(np.float64))


@track_requirement.register
def _(requirement: Satisfy, problem: Problem) -> RequirementTracker:
    accepting = list(requirement.automaton.accepting)

    def worth(nodes: IntArray) -> FloatArray:
        return np.isin(nodes, accepting).astype(np.float64)

    machine = automaton_machine(requirement.automaton, problem.mdp)
    return RequirementTracker(f"probability of {requirement.name}", machine=machine, worth=worth)


def free_memory_of(conditions: Iterable[ConditionTracker]) -> Memory | None:
    """The memory whose next node the policy chooses, if it has one; InputError when it has several."""
    memories = [one.free_memory for one in conditions if one.free_memory is not None]
    if len(memories) > 1:
        raise InputError([Fault("policy.conditions_on", "has several free memories", "keep one of them")])
    return memories[0] if memories else None


def choice_model(mdp: MDP, memory: Memory | None) -> MDP:
    """The model whose actions are what the policy chooses from: with a free memory, pairs of action and next node."""
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
        transitions=_repeat_rows(mdp.transitions, choice),
        rewards=mdp.rewards[choice],
        named_rewards={name: rewards[choice] for name, rewards in mdp.named_rewards.items()},
    )


def reads_actions(machine: Machine, memory: Memory | None) -> Machine:
    """A machine that reads the model's actions, made to run in the model of choices."""
    return machine if memory is None else ActionOnly(machine, len(memory.nodes))


def condition_machine(condition: ConditionTracker, memory: Memory | None) -> Machine:
    """The machine of a condition in the model of choices; that of the free memory itself reads the next node too."""
    return reads_actions(condition.machine, memory) if condition.free_memory is None else condition.machine


def _check_size(mdp: MDP, num_nodes: int) -> None:
    """Refuse tables that grow too large with the nodes before they are built."""
    stated = mdp.transitions.columns.size
    size = stated * num_nodes
    if size > MAX_EDGES:
        growth = f"{num_nodes:,} nodes that the policy chooses make {size:,} transitions of the model's {stated:,}"
        raise BudgetError(f"{growth}; the limit is {MAX_EDGES:,}; use fewer nodes")


def _repeat_rows(table: SparseRows, rows: IntArray) -> SparseRows:
    owner, entry = expand_rows(table.starts, rows)
    shape = (rows.size, table.num_columns)
    return SparseRows.from_entries(owner, table.columns[entry], table.values[entry], shape=shape)
