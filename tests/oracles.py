"""Brute force that cannot be wrong: every run and every observation sequence, one at a time, in plain Python.

Nothing here is shared with the engine: only the data types of `opaq.model` are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import log2

import numpy as np

from opaq.model.arrays import SparseRows
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.model.secret import InitialState, Language, LastState, StateAt, StepsAgo, Visited

Sequence = tuple[tuple[str, ...], ...]  # one (o_t,) or (o_t, sign of a_{t-1}) a time
Joint = dict[tuple[str, Sequence], float]  # (secret value, observation sequence) -> probability


@dataclass(frozen=True, slots=True)
class Run:
    """One run: s_0..s_T, m_0..m_T (None without memory), a_0..a_T, and how likely it is."""

    states: tuple[int, ...]
    nodes: tuple[int | None, ...]
    actions: tuple[int, ...]
    probability: float


def enumerate_runs(problem: Problem, policy: Policy | None = None) -> Iterator[Run]:
    """Every run of positive probability (policy None: uniform over the enabled actions)."""
    for state, mass in enumerate(problem.mdp.start):
        if mass > 0:
            for node, weight in _first_nodes(policy, state):
                yield from _extend(problem, policy, Run((state,), (node,), (), float(mass) * weight))


def _extend(problem: Problem, policy: Policy | None, run: Run) -> Iterator[Run]:
    state, node = run.states[-1], run.nodes[-1]
    for action, chance in action_probabilities(problem, policy, run.states, node).items():
        acted = (*run.actions, action)
        if len(run.states) == problem.horizon + 1:
            yield Run(run.states, run.nodes, acted, run.probability * chance)
            continue
        for after, move in _entries(problem.mdp.transitions, _choice(problem, state, action)):
            for held, update in _next_nodes(policy, node, state, action):
                longer = Run((*run.states, after), (*run.nodes, held), acted, run.probability * chance * move * update)
                yield from _extend(problem, policy, longer)


def action_probabilities(
    problem: Problem, policy: Policy | None, states: tuple[int, ...], node: int | None
) -> dict[int, float]:
    """Action -> positive probability after the state history s_0..s_t."""
    enabled = enabled_actions(problem, states[-1])
    if policy is None:
        return {action: 1 / len(enabled) for action in enabled}
    row = policy.rows[row_key(problem, policy.policy_class, states, node)]
    chances = {action: row.get(problem.mdp.actions[action], 0.0) for action in enabled}
    return {action: chance for action, chance in chances.items() if chance > 0}


def enabled_actions(problem: Problem, state: int) -> list[int]:
    """The actions that can be taken in a state."""
    mdp = problem.mdp
    return [int(action) for action in mdp.choice_action[mdp.choice_start[state] : mdp.choice_start[state + 1]]]


def row_key(problem: Problem, policy_class: PolicyClass, states: tuple[int, ...], node: int | None) -> RowKey:
    """The row a policy consults after the state history s_0..s_t."""
    return tuple(_condition(problem, policy_class, states, node, name) for name in policy_class.conditions_on)


def _condition(
    problem: Problem, policy_class: PolicyClass, states: tuple[int, ...], node: int | None, name: str
) -> str | int | tuple[str, ...]:
    names = problem.mdp.states
    match name:
        case "state":
            return names[states[-1]]
        case "time":
            return len(states) - 1
        case "start":
            return names[states[0]]
        case "last_states":
            return tuple(names[state] for state in states[-policy_class.last_states :])
        case "memory":
            return policy_class.memory.nodes[node]
        case "automaton":
            return problem.secret.automaton.states[automaton_state(problem, states)]
    raise AssertionError(name)


def automaton_state(problem: Problem, states: tuple[int, ...]) -> int:
    """The secret's automaton after a state history: the last label is not read yet if it reads states left."""
    automaton = problem.secret.automaton
    read = states if automaton.reads == "entered" else states[:-1]
    state = automaton.initial
    for visited in read:
        state = automaton.step(state, labels_of(problem, visited))
    return state


def labels_of(problem: Problem, state: int) -> frozenset[str]:
    """The labels a state carries."""
    return frozenset(label for label, carriers in problem.mdp.labels.items() if state in carriers)


def secret_value(problem: Problem, states: tuple[int, ...]) -> str:
    """Z, read off the run s_0..s_T."""
    match problem.secret:
        case LastState(classes):
            return classes.names[classes.of_state[states[-1]]]
        case InitialState(classes):
            return classes.names[classes.of_state[states[0]]]
        case StateAt(time, classes):
            return classes.names[classes.of_state[states[time]]]
        case StepsAgo(steps, classes):
            return classes.names[classes.of_state[states[problem.horizon - steps]]]
        case Visited(targets):
            return "yes" if any(state in targets for state in states) else "no"
        case Language(automaton, "progress"):
            return automaton.states[automaton_state(problem, states)]
        case Language(automaton, "acceptance"):
            return "yes" if automaton_state(problem, states) in automaton.accepting else "no"
    raise AssertionError(problem.secret)


def observation_sequences(problem: Problem, run: Run) -> Iterator[tuple[Sequence, float]]:
    """Every observation sequence of a run with P(sequence | run)."""
    seen = [_seen(problem, state, action) for state, action in zip(run.states, (None, *run.actions), strict=False)]
    for draws in product(*seen):
        chance = 1.0
        for _, weight in draws:
            chance *= weight
        yield tuple(shown for shown, _ in draws), chance


def _seen(problem: Problem, state: int, action: int | None) -> list[tuple[tuple[str, ...], float]]:
    """What can be seen on entering a state by an action (None: at the start of the run)."""
    observer = problem.observer
    shown = [(observer.observations[o], chance) for o, chance in _entries(observer.emission, state)]
    if observer.action_emission is None or action is None:
        return [((name,), chance) for name, chance in shown]
    signs = [(observer.action_signs[sign], chance) for sign, chance in _entries(observer.action_emission, action)]
    return [((name, sign), first * second) for (name, first), (sign, second) in product(shown, signs)]


def joint(problem: Problem, policy: Policy | None = None) -> Joint:
    """P(Z = z, Y = y) for every pair of positive probability."""
    mass: Joint = defaultdict(float)
    for run in enumerate_runs(problem, policy):
        value = secret_value(problem, run.states)
        for sequence, chance in observation_sequences(problem, run):
            mass[value, sequence] += run.probability * chance
    return dict(mass)


def sequence_probabilities(distribution: Joint) -> dict[Sequence, float]:
    """P(Y = y)."""
    mass: dict[Sequence, float] = defaultdict(float)
    for (_, sequence), chance in distribution.items():
        mass[sequence] += chance
    return dict(mass)


def secret_distribution(distribution: Joint) -> dict[str, float]:
    """P(Z = z)."""
    mass: dict[str, float] = defaultdict(float)
    for (value, _), chance in distribution.items():
        mass[value] += chance
    return dict(mass)


def opacity(distribution: Joint) -> float:
    """H(Z | Y) in bits."""
    seen = sequence_probabilities(distribution)
    return -sum(chance * log2(chance / seen[y]) for (_, y), chance in distribution.items() if chance > 0)


def secret_entropy(distribution: Joint) -> float:
    """H(Z) in bits."""
    return -sum(chance * log2(chance) for chance in secret_distribution(distribution).values() if chance > 0)


def guess_error(distribution: Joint) -> float:
    """How often the best guess of Z from Y is wrong."""
    best: dict[Sequence, float] = defaultdict(float)
    for (_, sequence), chance in distribution.items():
        best[sequence] = max(best[sequence], chance)
    return 1 - sum(best.values())


def expected_return(problem: Problem, policy: Policy | None = None) -> float:
    """The mean of sum_{t=0..T} gamma^t R(s_t, a_t)."""
    return sum(run.probability * run_return(problem, run) for run in enumerate_runs(problem, policy))


def run_return(problem: Problem, run: Run) -> float:
    """The discounted sum of rewards of one run."""
    steps = enumerate(zip(run.states, run.actions, strict=True))
    return sum(problem.discount**t * float(problem.mdp.rewards[_choice(problem, s, a)]) for t, (s, a) in steps)


def markov_chain(problem: Problem, policy: Policy | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The state-to-state matrix and the mean reward of every state under a policy of the state alone."""
    assert policy is None or policy.policy_class.conditions_on == ("state",)
    size = problem.mdp.num_states
    matrix, reward = np.zeros((size, size)), np.zeros(size)
    for state in range(size):
        for action, chance in action_probabilities(problem, policy, (state,), None).items():
            reward[state] += chance * problem.mdp.rewards[_choice(problem, state, action)]
            for after, move in _entries(problem.mdp.transitions, _choice(problem, state, action)):
                matrix[state, after] += chance * move
    return matrix, reward


def infinite_return(problem: Problem, policy: Policy | None = None) -> float:
    """The mean of sum_{t>=0} gamma^t R(s_t, a_t) under a policy of the state alone, gamma < 1."""
    matrix, reward = markov_chain(problem, policy)
    values = np.linalg.solve(np.eye(problem.mdp.num_states) - problem.discount * matrix, reward)
    return float(problem.mdp.start @ values)


def start_distribution(problem: Problem, policy: Policy | None, sequence: Sequence) -> dict[str, float]:
    """P(s_0 = s | Y = y) for the states of positive probability."""
    mass: dict[str, float] = defaultdict(float)
    for run in enumerate_runs(problem, policy):
        mass[problem.mdp.states[run.states[0]]] += run.probability * dict(observation_sequences(problem, run)).get(
            sequence, 0.0
        )
    total = sum(mass.values())
    return {name: chance / total for name, chance in mass.items() if chance > 0}


def _first_nodes(policy: Policy | None, state: int) -> list[tuple[int | None, float]]:
    if policy is None or policy.policy_class.memory is None:
        return [(None, 1.0)]
    return list(_entries(policy.policy_class.memory.start, state))


def _next_nodes(policy: Policy | None, node: int | None, state: int, action: int) -> list[tuple[int | None, float]]:
    if policy is None or policy.policy_class.memory is None:
        return [(None, 1.0)]
    memory = policy.policy_class.memory
    return list(_entries(memory.updates, int(memory.update_of[node, state, action])))


def _choice(problem: Problem, state: int, action: int) -> int:
    """The position of an enabled (state, action) pair."""
    mdp = problem.mdp
    for choice in range(mdp.choice_start[state], mdp.choice_start[state + 1]):
        if mdp.choice_action[choice] == action:
            return choice
    raise AssertionError(f"{mdp.actions[action]} is not enabled in {mdp.states[state]}")


def _entries(matrix: SparseRows, row: int) -> Iterator[tuple[int, float]]:
    """The (column, value) pairs of one row."""
    for place in range(matrix.starts[row], matrix.starts[row + 1]):
        yield int(matrix.columns[place]), float(matrix.values[place])
