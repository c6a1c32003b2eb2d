"""Brute force for policies that look at what the observer sees: states, observations, nodes and actions in turn.

Nothing here is shared with the engine. Rows are drawn when a run first needs them, so that the policy has a row for
exactly the cases that occur, found without the engine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

import oracles
from opaq.model.conditions import Observations
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem

Row = dict[str, float]


@dataclass(frozen=True)
class AwareRun:
    """One run with its observations so far: s_0..s_t, m_0..m_t, o_0..o_t, a_0..a_{t-1}."""

    states: tuple[int, ...]
    nodes: tuple[int | None, ...]
    seen: oracles.Sequence
    actions: tuple[int, ...]
    probability: float


@dataclass
class LazyPolicy:
    """Draws the row of every case that it is asked about, and keeps it."""

    problem: Problem
    policy_class: PolicyClass
    draw: Callable[[int], np.ndarray]  # number of choices -> probabilities
    rows: dict[RowKey, Row] = field(default_factory=dict)

    def row(self, run: AwareRun) -> Row:
        """The row for a run so far."""
        key = tuple(self._part(condition, run) for condition in self.policy_class.conditions)
        if key not in self.rows:
            names = self.choices(run.states[-1])
            self.rows[key] = dict(zip(names, self.draw(len(names)).tolist(), strict=True))
        return self.rows[key]

    def choices(self, state: int) -> list[str]:
        """What a row of a state chooses from."""
        names = [self.problem.mdp.actions[action] for action in oracles.enabled_actions(self.problem, state)]
        memory = self.policy_class.memory
        if memory is None or not memory.free:
            return names
        return [f"{name}>{node}" for name in names for node in memory.nodes]

    def policy(self) -> Policy:
        """All rows drawn so far."""
        return Policy(self.policy_class, dict(self.rows))

    def _part(self, condition: object, run: AwareRun) -> object:
        if isinstance(condition, Observations):
            names = tuple("/".join(shown) for shown in run.seen)
            return names if condition.count == "all" else names[-condition.count :]
        one = PolicyClass((condition,))
        return oracles.row_key(self.problem, one, run.states, run.nodes[-1])[0]


def enumerate_aware(problem: Problem, policy: LazyPolicy) -> Iterator[AwareRun]:
    """Every run of positive probability, to the last action."""
    for state, mass in enumerate(problem.mdp.start):
        if mass > 0:
            for node, weight in oracles._first_nodes(policy, state):
                yield from _enter(problem, policy, AwareRun((), (), (), (), float(mass) * weight), state, node)


def _enter(problem: Problem, policy: LazyPolicy, run: AwareRun, state: int, node: int | None) -> Iterator[AwareRun]:
    """The run goes on to a state and a node: the observation is drawn, then the action."""
    last_action = run.actions[-1] if run.actions else None
    for shown, chance in oracles._seen(problem, state, last_action):
        now = AwareRun(
            (*run.states, state), (*run.nodes, node), (*run.seen, shown), run.actions, run.probability * chance
        )
        if now.probability > 0:
            yield from _act(problem, policy, now)


def _act(problem: Problem, policy: LazyPolicy, run: AwareRun) -> Iterator[AwareRun]:
    state, memory = run.states[-1], policy.policy_class.memory
    for name, chance in policy.row(run).items():
        if chance == 0:
            continue
        word, _, chosen = name.partition(">")
        action = problem.mdp.actions.index(word)
        acted = AwareRun(run.states, run.nodes, run.seen, (*run.actions, action), run.probability * chance)
        if len(run.states) == problem.horizon + 1:
            yield acted
            continue
        held = (
            [(memory.nodes.index(chosen), 1.0)] if chosen else oracles._next_nodes(policy, run.nodes[-1], state, action)
        )
        for after, move in oracles._entries(problem.mdp.transitions, oracles._choice(problem, state, action)):
            for node, update in held:
                gone = AwareRun(run.states, run.nodes, run.seen, acted.actions, acted.probability * move * update)
                yield from _enter(problem, policy, gone, after, node)


def aware_truth(problem: Problem, policy: LazyPolicy) -> oracles.Truth:
    """P(Z, Y), the return and the value of every requirement."""
    mass: oracles.Joint = defaultdict(float)
    earned, asked = 0.0, problem.task.requirements
    values = [0.0] * len(asked)
    for run in enumerate_aware(problem, policy):
        mass[oracles.secret_value(problem, run.states), run.seen] += run.probability
        earned += run.probability * oracles.run_return(problem, run)
        for index, requirement in enumerate(asked):
            values[index] += run.probability * oracles.run_worth(problem, requirement, run)
    return oracles.Truth(dict(mass), earned, tuple(values))
