"""Trajectories and every moment against the enumeration of every run: values, laws, intervals and bounds."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

import oracles
from least_oracle import tiny_problem
from opaq.certificates.certify import certify
from opaq.model.arrays import SparseRows, ints
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.secret import InitialState, LastState, Secret, StateClasses, Trajectory, Visited
from opaq.opacity.measure import measure
from random_problems import Rng, possible_keys, random_policy, random_problem
from stress.runner import Outcome

TOLERANCE = 1e-12  # relative to the bits of a run, and to 1
_BOUND_SECONDS = 0.1  # for every certificate


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
    """Measure one trajectory and compare with enumeration; certify a tiny one against all deterministic policies."""
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
            gaps |= bound_violations(number)
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


def bound_violations(number: int) -> dict[str, float]:
    """By how much policies of a tiny problem exceed certified bounds: of its trajectory, or of its moments.

    Of policies by state and time, all deterministic ones are enumerated, and five random ones beside them: opacity is
    concave in the law of runs, so that the best policy is rarely deterministic.
    """
    rng = np.random.default_rng([73, number])
    drawn = tiny_problem(rng, requirements=int(rng.integers(2)), horizon=int(rng.integers(3)))
    classes = StateClasses(drawn.mdp.states, ints(np.arange(drawn.mdp.num_states)))
    if rng.random() < 0.5:
        classes = StateClasses(("no", "yes"), ints(rng.integers(2, size=drawn.mdp.num_states)))
    when = ("trajectory", "every", "least")[number % 3]
    problem = replace(
        drawn,
        secret=Trajectory(classes) if when == "trajectory" else LastState(classes),
        task=Task(drawn.task.return_at_least, when="end" if when == "trajectory" else when),
        policy_class=PolicyClass(("state", "time")),
    )
    bound = certify(problem, gap=1e-3, time_limit=_BOUND_SECONDS).upper_bound
    reached = [
        run_figure(problem, policy)
        for policy in (*table_policies(problem), *(random_policy(rng, problem) for _ in range(5)))
        if problem.task.return_at_least is None
        or oracles.expected_return(problem, policy) >= problem.task.return_at_least
    ]
    return {f"bound of {when}": max(0.0, max(reached, default=-np.inf) - bound)}


def table_policies(problem: Problem) -> Iterator[Policy]:
    """Yield every deterministic policy of a problem whose states enable all actions."""
    keys = possible_keys(problem)
    for table in product(problem.mdp.actions, repeat=len(keys)):
        yield Policy(problem.policy_class, {key: {action: 1.0} for key, action in zip(keys, table, strict=True)})


def run_figure(problem: Problem, policy: Policy) -> float:
    """What the task is about, by enumeration: the opacity of the trajectory, of every moment or of the least one."""
    if isinstance(problem.secret, Trajectory):
        joint = words_joint(problem, policy)
        return oracles.entropy_of(joint) - oracles.entropy_of(oracles.sequence_probabilities(joint))
    moments = oracles.moment_opacities(problem, policy, problem.secret.classes.of_state)
    if problem.task.when == "least":
        return min(moments)
    return sum(problem.discount**time * moment for time, moment in enumerate(moments))
