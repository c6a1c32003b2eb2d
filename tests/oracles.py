"""Brute force that cannot be wrong: every run and every observation sequence, one at a time, in plain Python.

Nothing here is shared with the engine: only the data types of `opaq.model` are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import log2
from typing import Any

import numpy as np

from opaq.model.arrays import SparseRows
from opaq.model.automaton import Automaton
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy
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
    if len(run.states) == problem.horizon + 1:
        for action, chance in action_probabilities(problem, policy, run.states, node).items():
            yield Run(run.states, run.nodes, (*run.actions, action), run.probability * chance)
        return
    for action, held, chance in _decisions(problem, policy, run.states, node):
        acted = (*run.actions, action)
        for after, move in _entries(problem.mdp.transitions, _choice(problem, state, action)):
            mass = run.probability * chance * move
            if mass > 0:  # a product below the smallest number: a run that adds nothing to any sum
                yield from _extend(problem, policy, Run((*run.states, after), (*run.nodes, held), acted, mass))


def action_probabilities(
    problem: Problem, policy: Policy | None, states: tuple[int, ...], node: int | None
) -> dict[int, float]:
    """Action -> positive probability after the state history s_0..s_t."""
    enabled = enabled_actions(problem, states[-1])
    if policy is None:
        return {action: 1 / len(enabled) for action in enabled}
    row = policy.rows[row_key(problem, policy.policy_class, states, node)]
    memory = policy.policy_class.memory
    chances = dict.fromkeys(enabled, 0.0)
    for action in enabled:
        name = problem.mdp.actions[action]
        names = [f"{name}>{held}" for held in memory.nodes] if memory is not None and memory.free else [name]
        chances[action] = sum(row.get(name, 0.0) for name in names)
    return {action: chance for action, chance in chances.items() if chance > 0}


def _decisions(
    problem: Problem, policy: Policy | None, states: tuple[int, ...], node: int | None
) -> Iterator[tuple[int, int | None, float]]:
    """(action, next node, probability) after the state history s_0..s_t with a node held."""
    memory = None if policy is None else policy.policy_class.memory
    if memory is not None and memory.free:
        row = policy.rows[row_key(problem, policy.policy_class, states, node)]
        for action, held in product(enabled_actions(problem, states[-1]), range(len(memory.nodes))):
            chance = row.get(f"{problem.mdp.actions[action]}>{memory.nodes[held]}", 0.0)
            if chance > 0:
                yield action, held, chance
        return
    for action, chance in action_probabilities(problem, policy, states, node).items():
        for held, update in _next_nodes(policy, node, states[-1], action):
            yield action, held, chance * update


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
            return problem.secret.automaton.states[automaton_state(problem, problem.secret.automaton, states)]
    raise AssertionError(name)


def automaton_state(problem: Problem, automaton: Automaton, states: tuple[int, ...]) -> int:
    """An automaton after a state history: the last label is not read yet if it reads states left."""
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
            return automaton.states[automaton_state(problem, automaton, states)]
        case Language(automaton, "acceptance"):
            return "yes" if automaton_state(problem, automaton, states) in automaton.accepting else "no"
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
    table, row = observer.emission, state
    if observer.after_action is not None and action is not None:
        table, row = observer.after_action, action * problem.mdp.num_states + state
    shown = [(observer.observations[o], chance) for o, chance in _entries(table, row)]
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


def posterior_masses(distribution: Joint) -> dict[Sequence, dict[str, float]]:
    """P(Z = z, Y = y) by sequence."""
    masses: dict[Sequence, dict[str, float]] = defaultdict(dict)
    for (value, sequence), chance in distribution.items():
        masses[sequence][value] = chance
    return dict(masses)


def guesswork(distribution: Joint) -> float:
    """How many guesses of Z it takes in the mean, when they are tried by their probability after each Y."""
    seen = posterior_masses(distribution).values()
    return sum(rank * mass for row in seen for rank, mass in enumerate(sorted(row.values(), reverse=True), start=1))


def expected_loss(distribution: Joint, losses: dict[str, dict[str, float]]) -> float:
    """The expected loss of the best guess after each Y; losses that are not named are 0."""
    total = 0.0
    for row in posterior_masses(distribution).values():
        total += min(sum(mass * loss.get(value, 0.0) for value, mass in row.items()) for loss in losses.values())
    return total


def without_observing(distribution: Joint) -> Joint:
    """The joint distribution before an observer who sees nothing."""
    return {(value, ()): chance for value, chance in secret_distribution(distribution).items()}


def expected_return(problem: Problem, policy: Policy | None = None) -> float:
    """The mean of sum_{t=0..T} gamma^t R(s_t, a_t)."""
    return sum(run.probability * run_return(problem, run) for run in enumerate_runs(problem, policy))


def run_return(problem: Problem, run: Run, rewards: np.ndarray | None = None) -> float:
    """The discounted sum of the rewards of one run, or of other rewards [choice]."""
    paid = problem.mdp.rewards if rewards is None else rewards
    steps = enumerate(zip(run.states, run.actions, strict=True))
    return sum(problem.discount**t * float(paid[_choice(problem, s, a)]) for t, (s, a) in steps)


def run_worth(problem: Problem, requirement: Requirement, run: Run) -> float:
    """What one run adds to a requirement: a named return, or 1 if it reaches or satisfies what it must."""
    match requirement:
        case ReturnAtLeast(reward):
            return run_return(problem, run, problem.mdp.named_rewards[reward])
        case Reach(states):
            return float(any(state in states for state in run.states))
        case Satisfy(automaton):
            return float(automaton_state(problem, automaton, run.states) in automaton.accepting)
    raise AssertionError(requirement)


@dataclass(frozen=True, slots=True)
class Truth:
    """All that a measurement of a policy must say, from one enumeration."""

    joint: Joint
    expected_return: float
    requirements: tuple[float, ...]  # the value of every requirement of the task, the return not among them


def enumerate_truth(problem: Problem, policy: Policy | None = None) -> Truth:
    """P(Z, Y), the return and the value of every requirement, run by run."""
    mass: Joint = defaultdict(float)
    earned, asked = 0.0, problem.task.requirements
    values = [0.0] * len(asked)
    for run in enumerate_runs(problem, policy):
        value = secret_value(problem, run.states)
        earned += run.probability * run_return(problem, run)
        for place, requirement in enumerate(asked):
            values[place] += run.probability * run_worth(problem, requirement, run)
        for sequence, chance in observation_sequences(problem, run):
            mass[value, sequence] += run.probability * chance
    return Truth(dict(mass), earned, tuple(values))


def largest_value(problem: Problem, requirement: Requirement | None = None) -> float:
    """The most that any policy, of whatever class, can reach of one requirement (None: of the return).

    Backward induction over histories, told apart no further than the requirement needs: by time, state and whether
    the states were reached, or the automaton's state before the current label.
    """
    return _extreme(problem, requirement, max)


def smallest_value(problem: Problem, requirement: Requirement | None = None) -> float:
    """The least that any policy reaches of one requirement."""
    return _extreme(problem, requirement, min)


def _extreme(problem: Problem, requirement: Requirement | None, pick: Callable[..., float]) -> float:
    mdp, horizon = problem.mdp, problem.horizon
    rewards = mdp.rewards if requirement is None else np.zeros(mdp.num_choices)
    if isinstance(requirement, ReturnAtLeast):
        rewards = mdp.named_rewards[requirement.reward]
    entered, left, final = _watch(problem, requirement)

    @cache
    def worth(time: int, state: int, seen: int) -> float:
        options = []
        for choice in range(mdp.choice_start[state], mdp.choice_start[state + 1]):
            total = problem.discount**time * float(rewards[choice])
            if time == horizon:
                total += final(seen)
            else:
                held = left(seen, state)
                for after, move in _entries(mdp.transitions, choice):
                    total += move * worth(time + 1, after, entered(held, after))
            options.append(total)
        return pick(options)

    first = requirement.automaton.initial if isinstance(requirement, Satisfy) else 0
    return sum(float(mass) * worth(0, state, entered(first, state)) for state, mass in enumerate(mdp.start) if mass > 0)


def _watch(
    problem: Problem, requirement: Requirement | None
) -> tuple[Callable[[int, int], int], Callable[[int, int], int], Callable[[int], float]]:
    """What a requirement remembers on entering a state, on leaving one, and what that is worth in the end."""
    same = lambda seen, state: seen  # noqa: E731
    if isinstance(requirement, Reach):
        return lambda seen, state: int(seen or state in requirement.states), same, float
    if isinstance(requirement, Satisfy):
        automaton = requirement.automaton
        read = lambda seen, state: automaton.step(seen, labels_of(problem, state))  # noqa: E731
        accepts = lambda seen: float(seen in automaton.accepting)  # noqa: E731
        return (read, same, accepts) if automaton.reads == "entered" else (same, read, accepts)
    return same, same, lambda seen: 0.0


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


def entropy_of(masses: dict[Any, float]) -> float:
    """H in bits of whatever the keys are."""
    return -sum(chance * log2(chance) for chance in masses.values() if chance > 0)


def run_joint(problem: Problem, policy: Policy | None, word: Callable[[tuple[int, ...]], Any]) -> dict[Any, float]:
    """P(word(s_0..s_T), Y = y) for any function of the run."""
    mass: dict[Any, float] = defaultdict(float)
    for run in enumerate_runs(problem, policy):
        value = word(run.states)
        for sequence, chance in observation_sequences(problem, run):
            mass[value, sequence] += run.probability * chance
    return dict(mass)


def output_entropy(problem: Problem, policy: Policy | None = None) -> float:
    """H(Y) in bits."""
    return entropy_of(sequence_probabilities(run_joint(problem, policy, lambda states: ())))


def moment_opacities(problem: Problem, policy: Policy | None, class_of: Any) -> list[float]:
    """[time] H(class of s_t | o_0..o_t) in bits; class_of: [state]."""
    masses: list[dict[Any, float]] = [defaultdict(float) for _ in range(problem.horizon + 1)]
    for run in enumerate_runs(problem, policy):
        for sequence, chance in observation_sequences(problem, run):
            for time, mass in enumerate(masses):
                mass[int(class_of[run.states[time]]), sequence[: time + 1]] += run.probability * chance
    return [opacity(mass) for mass in masses]
