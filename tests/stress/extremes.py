"""Random small problems and policies whose probabilities are at the ends of the floating-point range.

Model number N is always the same model: its secret, policy class and observer follow from N alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.conditions import Memory
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy, Task
from opaq.model.secret import LastState, StateClasses
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
BOUNDED = ("shares", "bell", "cancelling", "all")  # what is extreme about a model whose best policy is bounded
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


def bounded_model(number: int) -> tuple[Problem, Policy]:
    """A problem for certificates, and a policy of its class: number N is always the same one.

    Its kind follows from N: probabilities from 5e-324 to 1, a sensor with a bell curve that is far narrower than its
    range, payments of 1e8 to 1e12 that cancel, or all of it. Most thresholds are what the policy earns exactly, or the
    most that any policy earns.
    """
    rng, kind = np.random.default_rng([0xB0D, number]), BOUNDED[number % len(BOUNDED)]
    while True:
        conditions = ("state",) if rng.random() < 0.5 else ("state", "time")
        drawn = random_problem(rng, conditions=conditions, watches_actions=False, budget=400)
        problem = replace(drawn, task=Task())
        if kind in ("cancelling", "all"):
            problem = _cancelling(rng, problem)
        mdp, seen = problem.mdp, problem.observer
        if kind in ("shares", "all"):
            mdp = replace(mdp, transitions=extreme_rows(rng, mdp.transitions, widen=0.0 if kind == "all" else 0.25))
            seen = replace(seen, emission=extreme_rows(rng, seen.emission))
        if kind in ("bell", "cancelling"):
            seen = bell_curves(rng, mdp)
        problem = replace(problem, mdp=mdp, observer=seen)
        if num_pairs(problem) <= 20_000:
            break
    policy = extreme_policy(rng, problem)
    choice = rng.random()
    if choice < 0.7:
        exact = exact_return(problem, policy) if choice < 0.4 else largest_exact_return(problem)
        problem = replace(problem, task=Task(_at_most(exact)))
    return problem, policy


def bell_curves(rng: Rng, mdp: MDP) -> Observer:
    """A sensor that shows where a state is, with an error far smaller than what it covers."""
    size, width = int(rng.integers(3, 7)), float(rng.choice([1.0, 1.7, 3.5]))
    sigma = rng.uniform(0.03, 0.1)
    distance = width * (rng.random(mdp.num_states)[:, None] - np.linspace(0.0, 1.0, size))
    shown = np.exp(-0.5 * (distance / sigma) ** 2)
    shown[shown.sum(axis=1) == 0.0] = 1.0
    emission = SparseRows.from_dense(shown / shown.sum(axis=1, keepdims=True))
    return Observer(tuple(f"o{index}" for index in range(size)), emission)


def _cancelling(rng: Rng, problem: Problem) -> Problem:
    """States of even times pay much, those of odd times take it back, and little is left."""
    mdp = problem.mdp
    even = np.arange(mdp.num_states) < max(mdp.num_states // 2, 1)
    table, owner = mdp.transitions.dense(), mdp.choice_state()
    for choice, row in enumerate(table):
        row[even == even[owner[choice]]] = 0.0
        row[:] = row / row.sum() if row.any() else (even != even[owner[choice]]) / (even != even[owner[choice]]).sum()
    start = np.where(even, mdp.start + 0.1, 0.0)
    discount = 1.0 if rng.random() < 0.5 else float(rng.uniform(0.3, 1))
    much = 10.0 ** rng.uniform(8, 12)
    left = rng.choice([0.0, 1.0, 0.5, 0.3], size=mdp.num_choices) * rng.choice([1.0, 0.0, 1e-3])
    return replace(
        problem,
        mdp=replace(
            mdp,
            start=floats(start / start.sum()),
            transitions=SparseRows.from_dense(table),
            rewards=floats(np.where(even[owner], much, -much / discount) + left),
        ),
        horizon=2 * int(rng.integers(2)) + 1,
        discount=discount,
        secret=LastState(StateClasses(mdp.states, ints(np.arange(mdp.num_states)))),
    )


def _at_most(exact: Fraction) -> float:
    """The largest float that is not above."""
    near = float(exact)
    return near if near <= exact else float(np.nextafter(near, -np.inf))


def exact_return(problem: Problem, policy: Policy) -> Fraction:
    """The return of a policy by state (and time), without rounding."""
    mdp, total = problem.mdp, Fraction(0)
    now = {state: Fraction(float(mass)) for state, mass in enumerate(mdp.start) if mass > 0}
    for time in range(problem.horizon + 1):
        ahead: dict[int, Fraction] = {}
        for state, mass in now.items():
            row = policy.rows[(mdp.states[state], time)[: len(problem.policy_class.conditions)]]
            for choice in range(mdp.choice_start[state], mdp.choice_start[state + 1]):
                share = mass * Fraction(row.get(mdp.actions[mdp.choice_action[choice]], 0.0))
                total += Fraction(problem.discount) ** time * share * Fraction(float(mdp.rewards[choice]))
                for after, move in zip(*mdp.transitions.row(choice), strict=True):
                    ahead[int(after)] = ahead.get(int(after), Fraction(0)) + share * Fraction(float(move))
        now = ahead
    return total


def largest_exact_return(problem: Problem) -> Fraction:
    """The most that any policy earns, without rounding."""
    mdp = problem.mdp
    worth = [Fraction(0)] * mdp.num_states
    for time in range(problem.horizon, -1, -1):
        values = [
            Fraction(problem.discount) ** time * Fraction(float(mdp.rewards[choice]))
            + sum(
                Fraction(float(move)) * worth[after] for after, move in zip(*mdp.transitions.row(choice), strict=True)
            )
            for choice in range(mdp.num_choices)
        ]
        worth = [max(values[mdp.choice_start[state] : mdp.choice_start[state + 1]]) for state in range(mdp.num_states)]
    return sum((Fraction(float(mass)) * value for mass, value in zip(mdp.start, worth, strict=True)), Fraction(0))
