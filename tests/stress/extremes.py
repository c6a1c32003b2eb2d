"""Random small problems and policies whose probabilities are at the ends of the floating-point range.

Model number N is always the same model: its secret, policy class and observer follow from N alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.memory import Memory
from opaq.model.observer import Observer
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy, Task
from random_problems import (
    CONDITIONS,
    LANGUAGES,
    SECRETS,
    Rng,
    enabled_at,
    num_pairs,
    possible_keys,
    random_automaton,
    random_problem,
    some_states,
)

OBSERVERS = ("state", "actions", "after_action", "actions and after_action")
TINY = (5e-324, 1e-300, 1e-200, 1e-160, 1e-16)
MAX_PAIRS = 2000  # (run, observation sequence) pairs: what the oracle enumerates

COMBINATIONS = tuple(
    (secret, conditions, observer)
    for secret in SECRETS
    for conditions in CONDITIONS
    for observer in OBSERVERS
    if secret in LANGUAGES or "automaton" not in conditions
)
# A whole number of steps that has no divisor in common with the number of combinations visits all of them, mixed.
_STRIDE = 89


@dataclass(frozen=True, slots=True)
class Case:
    """One model number and the kinds it stands for."""

    number: int
    secret: str
    conditions: tuple[str, ...]
    observer: str

    @classmethod
    def of(cls, number: int) -> Case:
        """The kinds of a number: any run of len(COMBINATIONS) numbers has every combination once."""
        return cls(number, *COMBINATIONS[number * _STRIDE % len(COMBINATIONS)])


def extreme_model(case: Case) -> tuple[Problem, Policy]:
    """The problem and the policy of a case."""
    rng = np.random.default_rng([0xE57, case.number])
    problem = extreme_problem(rng, secret=case.secret, conditions=case.conditions, observer=case.observer)
    return problem, extreme_policy(rng, problem)


def extreme_problem(
    rng: Rng, *, secret: str, conditions: tuple[str, ...], observer: str, max_pairs: int = MAX_PAIRS
) -> Problem:
    """A problem of the given kinds in which every distribution may hold extreme probabilities."""
    while True:
        drawn = random_problem(
            rng, secret=secret, conditions=conditions, watches_actions=observer.startswith("actions"), budget=400
        )
        mdp = _extreme_mdp(rng, drawn.mdp)
        problem = replace(
            drawn,
            mdp=mdp,
            observer=_extreme_observer(rng, drawn.observer, mdp, after_action=observer.endswith("after_action")),
            policy_class=replace(drawn.policy_class, memory=_extreme_memory(rng, drawn.policy_class.memory)),
            task=_task(rng, mdp),
        )
        if num_pairs(problem) <= max_pairs:
            return problem


def extreme_policy(rng: Rng, problem: Problem) -> Policy:
    """A policy with zeros, tiny and nearly certain actions."""
    rows = {}
    for key in possible_keys(problem):
        actions = enabled_at(problem, key)
        rows[key] = dict(zip(actions, extreme_shares(rng, len(actions)).tolist(), strict=True))
    return Policy(problem.policy_class, rows)


def extreme_shares(rng: Rng, size: int, *, zeros: bool = True) -> np.ndarray:
    """A distribution: ordinary, equal, or with some shares tiny (or 0) and the others making up the rest."""
    kind = rng.random()
    if kind < 0.15:
        return np.full(size, 1 / size)
    shares = rng.random(size) + 0.05
    if kind < 0.35:
        return shares / shares.sum()
    tiny = rng.random(size) < 0.6
    tiny[rng.integers(size)] = False
    values = rng.choice((*TINY, 0.0) if zeros else TINY, size=size)
    shares = np.where(tiny, 0.0, shares)
    return np.where(tiny, values, shares * ((1 - 1e-16 if tiny.any() else 1.0) / shares.sum()))


def extreme_rows(rng: Rng, rows: SparseRows, *, widen: float = 0.25) -> SparseRows:
    """Other shares on the same support, which is widened now and then."""
    table = rows.dense()
    for row in table:
        support = np.flatnonzero((row > 0) | (rng.random(row.size) < widen))
        row[:] = 0.0
        row[support] = extreme_shares(rng, support.size, zeros=False)
    return SparseRows.from_dense(table)


def _extreme_mdp(rng: Rng, mdp: MDP) -> MDP:
    support = np.flatnonzero((mdp.start > 0) | (rng.random(mdp.num_states) < 0.3))
    start = np.zeros(mdp.num_states)
    start[support] = extreme_shares(rng, support.size)
    return replace(
        mdp,
        start=floats(start),
        transitions=extreme_rows(rng, mdp.transitions),
        named_rewards={"fuel": floats(rng.normal(size=mdp.num_choices) * (rng.random(mdp.num_choices) < 0.7))},
    )


def _extreme_observer(rng: Rng, observer: Observer, mdp: MDP, *, after_action: bool) -> Observer:
    size = 1 if rng.random() < 0.25 else len(observer.observations)
    rows = SparseRows.from_dense(np.ones((mdp.num_states, 1))) if size == 1 else extreme_rows(rng, observer.emission)
    seen = replace(observer, observations=observer.observations[:size], emission=rows)
    if observer.action_emission is not None:
        seen = replace(seen, action_emission=extreme_rows(rng, observer.action_emission))
    if after_action:
        table = np.zeros((len(mdp.actions) * mdp.num_states, size))
        for row in table:
            support = rng.permutation(size)[: rng.integers(1, 3)]
            row[support] = extreme_shares(rng, support.size, zeros=False)
        seen = replace(seen, after_action=SparseRows.from_dense(table))
    return seen


def _extreme_memory(rng: Rng, memory: Memory | None) -> Memory | None:
    if memory is None:
        return None
    start, updates = (extreme_rows(rng, rows, widen=0.1) for rows in (memory.start, memory.updates))
    return replace(memory, start=start, updates=updates, free=bool(rng.random() < 0.4))


def _task(rng: Rng, mdp: MDP) -> Task:
    threshold = float(rng.normal()) if rng.random() < 0.5 else None
    return Task(
        threshold, requirements=tuple(_requirement(rng, mdp) for _ in range(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])))
    )


def _requirement(rng: Rng, mdp: MDP) -> Requirement:
    match rng.integers(3):
        case 0:
            return ReturnAtLeast("fuel", float(rng.normal()))
        case 1:
            return Reach(ints(some_states(rng, mdp.num_states)), float(rng.random()), "there")
    return Satisfy(random_automaton(rng), float(rng.random()), "what is asked")
