"""Trajectories and every moment against the enumeration of every run: values, laws, intervals and bounds."""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

import oracles
from opaq.certificates.certify import certify
from opaq.model.arrays import SparseRows, ints
from opaq.model.observer import Observer
from opaq.model.policy import Policy
from opaq.model.problem import Problem, Task
from opaq.model.secret import InitialState, LastState, Secret, StateClasses, Trajectory, Visited
from opaq.opacity.measure import measure
from random_problems import Rng, random_policy, random_problem
from stress.runner import Outcome

TOLERANCE = 1e-12  # relative to the bits of a run, and to 1
_BOUND_EVERY = 10  # certificates cost more


def run_model(number: int) -> tuple[Problem, Policy]:
    """Return a random problem whose secret is a trajectory, and a policy."""
    rng = np.random.default_rng([71, number])
    drawn = random_problem(rng, secret="last_state", budget=2_000)
    states = drawn.mdp.num_states
    classes = StateClasses(drawn.mdp.states, ints(np.arange(states)))
    if number % 2:
        size = int(rng.integers(1, 4))
        classes = StateClasses(tuple(f"class{i}" for i in range(size)), ints(rng.integers(size, size=states)))
    problem = replace(drawn, secret=Trajectory(classes), task=Task())
    return problem, random_policy(rng, problem)


def try_run(number: int) -> Outcome:
    """Measure one trajectory and compare with enumeration; now and then a bound as well."""
    problem, policy = run_model(number)
    kinds = {
        "words": "classes" if number % 2 else "states",
        "policy class": "-".join(problem.policy_class.conditions_on),
    }
    tallies = dict.fromkeys(kinds.items(), 1.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gaps = trajectory_differences(problem, policy)
            gaps |= law_violations(problem, policy, np.random.default_rng([72, number]))
            gaps |= moment_differences(problem, policy)
            if number % _BOUND_EVERY == 0:
                gaps["bound"] = bound_violation(problem, policy)
    except Exception as error:
        return Outcome((f"{', '.join(kinds.values())}: {type(error).__name__}: {error}",), tallies)
    bits = 1.0 + (problem.horizon + 1) * np.log2(problem.mdp.num_states)
    broken = [f"{name} off by {gap:.3g}" for name, gap in gaps.items() if gap > TOLERANCE * bits]
    return Outcome(tuple(f"{', '.join(kinds.values())}: {words}" for words in broken), tallies, gaps)


def words_joint(problem: Problem, policy: Policy) -> dict[Any, float]:
    """P(W_0 .. W_T, Y)."""
    class_of = problem.secret.classes.of_state
    return oracles.run_joint(problem, policy, lambda states: tuple(class_of[list(states)].tolist()))


def trajectory_differences(problem: Problem, policy: Policy) -> dict[str, float]:
    """Exact and interval measurement against the truth."""
    joint = words_joint(problem, policy)
    opacity = oracles.entropy_of(joint) - oracles.entropy_of(oracles.sequence_probabilities(joint))
    found = measure(problem, policy, mode="exact")
    interval = measure(problem, policy, mode="interval", max_beliefs=2)
    gaps = {
        "opacity": abs(found.opacity.value - opacity),
        "entropy": abs(found.secret_entropy - oracles.entropy_of(oracles.secret_distribution(joint))),
        "interval": max(0.0, interval.opacity.lower - opacity, opacity - interval.opacity.upper),
    }
    if found.guess_error.method == "exact":
        gaps["guess error"] = abs(found.guess_error.value - oracles.guess_error(joint))
    if found.steps_guessed.method == "exact":
        best: dict[Any, float] = defaultdict(float)
        masses: dict[Any, float] = defaultdict(float)
        for (words, seen), chance in joint.items():
            for time, word in enumerate(words):
                masses[word, (seen, time)] += chance
        for (_, key), chance in masses.items():
            best[key] = max(best[key], chance)
        gaps["steps"] = abs(found.steps_guessed.value - sum(best.values()) / (problem.horizon + 1))
    return gaps


def law_violations(problem: Problem, policy: Policy, rng: Rng) -> dict[str, float]:
    """By how much laws are broken: functions of the run hide no more, and who sees less learns no more."""
    whole, classes = measure(problem, policy, mode="exact").opacity.value, problem.secret.classes
    functions: list[Secret] = [LastState(classes), InitialState(classes)]
    if np.unique(classes.of_state).size == problem.mdp.num_states:
        functions.append(Visited(ints([0])))
    parts = [oracles.opacity(oracles.joint(replace(problem, secret=secret), policy)) for secret in functions]
    observer = problem.observer
    size = len(observer.observations)
    merged = rng.integers(max(1, size - 1), size=size)
    emission = observer.emission
    coarse = SparseRows.from_entries(
        emission.row_of_entry(), merged[emission.columns], emission.values, shape=(emission.num_rows, size)
    )
    seen = replace(observer, emission=coarse) if isinstance(observer, Observer) else observer
    blurred = measure(replace(problem, observer=seen), policy, mode="exact").opacity.value
    return {"functions of the run": max(0.0, max(parts) - whole), "data processing": max(0.0, whole - blurred)}


def moment_differences(problem: Problem, policy: Policy) -> dict[str, float]:
    """Every moment and the least one against the truth."""
    now = replace(problem, secret=LastState(problem.secret.classes))
    truth = oracles.moment_opacities(now, policy, problem.secret.classes.of_state)
    every = measure(replace(now, task=Task(when="every")), policy, mode="exact")
    least = measure(replace(now, task=Task(when="least")), policy, mode="exact")
    total = sum(problem.discount**time * moment for time, moment in enumerate(truth))
    return {
        "every": abs(every.opacity.value - total),
        "least": abs(least.opacity.value - min(truth)),
        "moments": max(abs(one.value - other) for one, other in zip(every.moments, truth, strict=True)),
    }


def bound_violation(problem: Problem, policy: Policy) -> float:
    """By how much the policy exceeds a certified bound."""
    joint = words_joint(problem, policy)
    opacity = oracles.entropy_of(joint) - oracles.entropy_of(oracles.sequence_probabilities(joint))
    return max(0.0, opacity - certify(problem, gap=1e-3, time_limit=0.3).upper_bound)
