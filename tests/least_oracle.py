"""Brute force for tasks that minimise: tiny random problems, and every deterministic policy of them in plain Python.

Nothing here is shared with the engine: only the data types of `opaq.model` are read. Policies are enumerated by their
tables: an action for every observation sequence, or for every (state history, observation sequence), that can occur
under the actions before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Reach, Task
from opaq.model.secret import InitialState, LastState, StateAt, StateClasses, Visited
from opaq.model.uncertainty import UNCERTAINTIES

Rng = np.random.Generator
Masses = dict[tuple[tuple[int, ...], oracles.Sequence], float]  # (states, observations) so far -> probability
Outcome = tuple[float, tuple[float, ...]]  # uncertainty, and the value of every requirement


def tiny_problem(rng: Rng, *, requirements: int = 0, horizon: int | None = None, states: int | None = None) -> Problem:
    """A problem of 2 or 3 states, 2 actions and 2 observations that minimises; every state enables both actions."""
    num_states = int(rng.integers(2, 4)) if states is None else states
    horizon = int(rng.integers(1, 4)) if horizon is None else horizon
    mdp = MDP(
        states=tuple(f"s{index}" for index in range(num_states)),
        actions=("a", "b"),
        start=floats(_row(rng, num_states)),
        choice_start=ints(np.arange(0, 2 * num_states + 1, 2)),
        choice_action=ints(np.tile([0, 1], num_states)),
        transitions=SparseRows.from_dense([_row(rng, num_states) for _ in range(2 * num_states)]),
        rewards=floats(np.where(rng.random(2 * num_states) < 0.3, 0, rng.normal(size=2 * num_states))),
        labels={},
    )
    emission = np.array([_row(rng, 2) for _ in range(num_states)])
    classes = StateClasses(mdp.states, ints(np.arange(num_states)))
    if rng.random() < 0.5:
        classes = StateClasses(("no", "yes"), ints(rng.integers(2, size=num_states)))
    secret = [LastState(classes), InitialState(classes), StateAt(int(rng.integers(0, horizon + 1)), classes),
              Visited(ints([int(rng.integers(num_states))]))][rng.integers(4)]  # fmt: skip
    asked = () if requirements < 2 else (Reach(ints([int(rng.integers(num_states))]), float(rng.uniform(0, 1)), "it"),)
    task = Task(
        return_at_least=float(rng.normal()) if requirements else None,
        requirements=asked,
        minimise=True,
        of=UNCERTAINTIES["opacity" if rng.random() < 0.7 else "guess_error"],
    )
    return Problem(
        mdp,
        Observer(("x", "y"), SparseRows.from_dense(emission)),
        secret,
        horizon,
        discount=1.0 if rng.random() < 0.5 else float(rng.uniform(0.5, 1)),
        task=task,
        policy_class=PolicyClass(("state",)),
    )


def _row(rng: Rng, size: int) -> np.ndarray:
    """A distribution: certain, even, or drawn."""
    kind = rng.random()
    if kind < 0.3:
        return np.eye(size)[rng.integers(size)]
    weights = np.ones(size) if kind < 0.5 else rng.uniform(0.05, 1, size=size)
    return weights / weights.sum()


def outcomes(problem: Problem, *, sees_states: bool) -> Iterator[Outcome]:
    """What every deterministic policy has: those that see states and observations, or the observations alone."""
    start: Masses = defaultdict(float)
    for state, mass in enumerate(problem.mdp.start):
        for shown, chance in oracles._seen(problem, state, None):
            if mass * chance > 0:
                start[(state,), (shown,)] += float(mass) * chance
    yield from _continue(problem, start, (0.0,) * (1 + len(problem.task.requirements)), sees_states)


def _continue(problem: Problem, masses: Masses, paid: tuple[float, ...], sees_states: bool) -> Iterator[Outcome]:
    """Decide at the present time in every way, then go on. masses: of runs so far. paid: by then.

    The last decision changes the return alone, which is wanted to be large: the best is taken.
    """
    time = len(next(iter(masses))[0]) - 1
    worth = problem.discount**time * problem.mdp.rewards
    views = sorted({_view(run, sees_states) for run in masses})
    if time == problem.horizon:
        gains = {view: [0.0, 0.0] for view in views}
        for run, mass in masses.items():
            for action in (0, 1):
                gains[_view(run, sees_states)][action] += mass * float(worth[2 * run[0][-1] + action])
        yield _outcome(problem, masses, (paid[0] + sum(map(max, gains.values())), *paid[1:]))
        return
    for actions in product((0, 1), repeat=len(views)):
        chosen = dict(zip(views, actions, strict=True))
        after: Masses = defaultdict(float)
        earned = 0.0
        for run, mass in masses.items():
            action = chosen[_view(run, sees_states)]
            choice = 2 * run[0][-1] + action
            earned += mass * float(worth[choice])
            for state, chance in oracles._entries(problem.mdp.transitions, choice):
                for shown, seen in oracles._seen(problem, state, action):
                    if mass * chance * seen > 0:
                        after[(*run[0], state), (*run[1], shown)] += mass * chance * seen
        yield from _continue(problem, after, (paid[0] + earned, *paid[1:]), sees_states)


def _view(run: tuple[tuple[int, ...], oracles.Sequence], sees_states: bool) -> tuple[object, ...]:
    """What a policy tells apart; the state with the observations is as good as the history of states with them."""
    return (run[1], run[0]) if sees_states else (run[1],)


def _outcome(problem: Problem, masses: Masses, paid: tuple[float, ...]) -> Outcome:
    """The uncertainty of complete runs and what they pay."""
    joint: oracles.Joint = defaultdict(float)
    reached = [0.0] * len(problem.task.requirements)
    for (states, seen), mass in masses.items():
        joint[oracles.secret_value(problem, states), seen] += mass
        for index, requirement in enumerate(problem.task.requirements):
            reached[index] += mass * float(any(state in requirement.states for state in states))
    measure: Callable[[oracles.Joint], float] = (
        oracles.opacity if problem.task.of.name == "opacity" else oracles.guess_error
    )
    return measure(dict(joint)), (paid[0], *reached)


def is_feasible(problem: Problem, outcome: Outcome) -> bool:
    """Whether a policy meets every requirement."""
    asked = (problem.task.return_at_least, *(each.threshold for each in problem.task.requirements))
    return all(least is None or value >= least for least, value in zip(asked, outcome[1], strict=True))


def least(problem: Problem, *, sees_states: bool) -> float:
    """The least uncertainty of any deterministic policy that meets the task; infinite where none does."""
    found = (each[0] for each in outcomes(problem, sees_states=sees_states) if is_feasible(problem, each))
    return min(found, default=float("inf"))
