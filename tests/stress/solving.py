"""Random default solves, and every claim of theirs against enumeration.

Solve number N is always the same problem with the same options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf, prod

import numpy as np

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.policy import Policy, RowKey
from opaq.model.problem import Problem, Reach, Requirement, ReturnAtLeast, Satisfy, Task
from opaq.solvers.solve import Solution, solve
from opaq.solvers.strategy import Status
from random_problems import (
    Rng,
    enabled_at,
    num_pairs,
    random_automaton,
    random_policy,
    random_problem,
    some_states,
)
from stress.extremes import Case
from stress.measuring import TOLERANCE, Differences, exact_differences, thresholds_and_values, too_large
from stress.runner import Outcome

MAX_PAIRS = 600
SHARES = (0.3, 0.7, 0.9, 0.99, 0.99999, 1.0, 1.02, 1.3)  # of the way from the least to the most attainable
EVIDENCE = 1e-3  # "converged" allows no larger gradient or curvature
_MOST_TRIED = 2000  # deterministic policies enumerated in search of one that meets the task


def try_solve(number: int) -> Outcome:
    """Solve one random problem and confirm what is said of the answer."""
    problem, num_starts = random_task(number)
    kinds = kinds_of(problem, Case.of(number))
    try:
        solution = solve(problem, starts=num_starts, workers=1, seed=number)
    except Exception as error:
        return Outcome((f"{kinds}: {type(error).__name__}: {error}",), {("status", "error"): 1.0})
    truth = oracles.enumerate_truth(problem, solution.policy)
    gaps = exact_differences(problem, truth, solution.measurement) | _attainable_differences(problem, solution)
    status = solution.status.name.lower()
    wrong = [*_false_claims(problem, truth, solution), *too_large(gaps)]
    return Outcome(tuple(f"{kinds} ({status}): {words}" for words in wrong), {("status", status): 1.0}, gaps)


def random_task(number: int, *, horizon: int | None = None, max_pairs: int = MAX_PAIRS) -> tuple[Problem, int]:
    """The problem of a number, and how many starts it gets; the horizon is drawn if not given."""
    rng, case = np.random.default_rng([0x501, number]), Case.of(number)
    while True:
        drawn = random_problem(
            rng,
            secret=case.secret,
            conditions=case.conditions,
            horizon=horizon,
            watches_actions=case.observer.startswith("actions"),
            budget=max_pairs,
        )
        problem = _with_free_memory(rng, drawn) if rng.random() < 0.3 else drawn
        if case.observer.endswith("after_action"):
            problem = _watched_after_actions(rng, problem)
        if num_pairs(problem) <= max_pairs:
            return replace(problem, **_mdp_and_task(rng, problem)), int(rng.integers(2, 5))


def _with_free_memory(rng: Rng, problem: Problem) -> Problem:
    memory = problem.policy_class.memory
    if memory is None:
        return problem
    return replace(problem, policy_class=replace(problem.policy_class, memory=replace(memory, free=True)))


def _watched_after_actions(rng: Rng, problem: Problem) -> Problem:
    """After every action the sensors' names are exchanged in another way."""
    emission = problem.observer.emission.dense()
    tables = [emission[:, rng.permutation(emission.shape[1])] for _ in problem.mdp.actions]
    after = SparseRows.from_dense(np.concatenate(tables))
    return replace(problem, observer=replace(problem.observer, after_action=after))


def _mdp_and_task(rng: Rng, problem: Problem) -> dict[str, object]:
    """A task of none, one or several requirements, from easy to impossible."""
    mdp = replace(problem.mdp, named_rewards={"fuel": floats(rng.normal(size=problem.mdp.num_choices))})
    stated = replace(problem, mdp=mdp)
    count = rng.choice(4, p=[0.15, 0.45, 0.25, 0.15])
    wanted = [_requirement(rng, stated) for _ in range(count)]
    returned = [requirement for requirement in wanted if requirement is None]
    task = Task(
        _threshold(rng, stated, None) if returned else None,
        requirements=tuple(
            replace(requirement, threshold=_threshold(rng, stated, requirement))
            for requirement in wanted
            if requirement is not None
        ),
        minimise=bool(rng.random() < 0.2),
    )
    return {"mdp": mdp, "task": task}


def _requirement(rng: Rng, problem: Problem) -> Requirement | None:
    """None stands for the return."""
    match rng.choice(4, p=[0.4, 0.2, 0.2, 0.2]):
        case 0:
            return None
        case 1:
            return ReturnAtLeast("fuel", 0.0)
        case 2:
            return Reach(ints(some_states(rng, problem.mdp.num_states)), 0.0, "there")
    return Satisfy(random_automaton(rng), 0.0, "what is asked")


def _threshold(rng: Rng, problem: Problem, requirement: Requirement | None) -> float:
    low, high = oracles.smallest_value(problem, requirement), oracles.largest_value(problem, requirement)
    return float(low + rng.choice(SHARES) * (high - low))


def kinds_of(problem: Problem, case: Case) -> str:
    """Secret, policy class, observer and task in a line."""
    task = problem.task
    asked = ["return"] * (task.return_at_least is not None) + [type(r).__name__ for r in task.requirements]
    words = [case.secret, "-".join(case.conditions), case.observer, "+".join(asked) or "no task"]
    return ", ".join([*words, *(["minimise"] if task.minimise else [])])


def asked_for(problem: Problem) -> Iterator[tuple[Requirement | None, float]]:
    """(requirement, threshold) of everything the task asks for; None is the return."""
    if problem.task.return_at_least is not None:
        yield None, problem.task.return_at_least
    for requirement in problem.task.requirements:
        yield requirement, requirement.threshold


def _attainable_differences(problem: Problem, solution: Solution) -> Differences:
    largest = [oracles.largest_value(problem, requirement) for requirement, _ in asked_for(problem)]
    found = [attainable.largest for attainable in solution.attainable]
    gaps = [abs(mine - true) for mine, true in zip(found, largest, strict=True)]
    return {"attainable": max(gaps, default=0.0)}


def _false_claims(problem: Problem, truth: oracles.Truth, solution: Solution) -> Iterator[str]:
    """Every sentence of the answer that is not so."""
    status, feasible = solution.status, solution.measurement.feasible
    spare = [
        (oracles.largest_value(problem, requirement) - threshold) / max(1.0, abs(threshold))
        for requirement, threshold in asked_for(problem)
    ]
    if status is Status.INFEASIBLE and min(spare, default=inf) >= 0.0:
        yield "said to be infeasible, but every requirement by itself is attainable"
    if status is not Status.INFEASIBLE and min(spare, default=inf) < -1e-6:
        yield "a requirement is beyond reach, but the task is not said to be infeasible"
    if (status in (Status.INFEASIBLE, Status.NOT_FOUND)) == feasible:
        yield f"said to be {status.name.lower()} with feasible={feasible}"
    if status is Status.CONVERGED:
        yield from _unconverged(solution)
    if status is Status.NOT_FOUND and (known := known_policy(problem)) is not None:
        yield f"no policy found, but there is one: {dict(known.rows)}"
    if status is Status.INFEASIBLE and len(spare) == 1 and {"state", "time"} <= set(_conditions(problem)):
        [(threshold, value)] = thresholds_and_values(problem, truth)
        if abs(value - threshold - spare[0] * max(1.0, abs(threshold))) > TOLERANCE and _plain(problem):
            yield f"infeasible, and the policy returned reaches {value:.9g}, not the most attainable"


def _conditions(problem: Problem) -> tuple[str, ...]:
    return problem.policy_class.conditions_on


def _plain(problem: Problem) -> bool:
    """Whether state and time are all that the best policy for the requirement needs."""
    return all(isinstance(requirement, ReturnAtLeast) for requirement in problem.task.requirements)


def _unconverged(solution: Solution) -> Iterator[str]:
    evidence = solution.optimality
    if evidence is None:
        yield "converged without evidence"
        return
    if not evidence.gradient_norm <= EVIDENCE:
        yield f"converged with a gradient of {evidence.gradient_norm:.2g}"
    if evidence.curvature is not None and not evidence.curvature <= EVIDENCE:
        yield f"converged with a curvature of {evidence.curvature:.2g}"


def known_policy(problem: Problem) -> Policy | None:
    """A policy of the class that meets the task, if a search without any optimiser finds one."""
    rows = {key: enabled_at(problem, key) for key in _reachable_keys(problem)}
    rng = np.random.default_rng(0)
    others = random_policy(rng, problem, softmax=True).rows  # rows that are never consulted need a value too
    if prod(len(actions) for actions in rows.values()) <= _MOST_TRIED:
        tried = (dict(zip(rows, actions, strict=True)) for actions in product(*rows.values()))
    else:
        tried = _climbs(problem, rows, others, rng)
    for chosen in tried:
        policy = _deterministic(problem, chosen, others)
        if _slack(problem, policy) >= 0.0:
            return policy
    return None


def _climbs(problem: Problem, rows: dict[RowKey, list[str]], others: object, rng: Rng) -> Iterator[dict[RowKey, str]]:
    """The ends of coordinate ascents over deterministic policies."""
    for _ in range(4):
        chosen = {key: str(rng.choice(actions)) for key, actions in rows.items()}
        best, improved = _slack(problem, _deterministic(problem, chosen, others)), True
        while improved:
            improved = False
            for key, action in ((key, action) for key, actions in rows.items() for action in actions):
                other = chosen | {key: action}
                slack = _slack(problem, _deterministic(problem, other, others))
                if slack > best + 1e-12:
                    chosen, best, improved = other, slack, True
        yield chosen


def _deterministic(problem: Problem, chosen: dict[RowKey, str], others: object) -> Policy:
    return Policy(problem.policy_class, others | {key: {action: 1.0} for key, action in chosen.items()})


def _reachable_keys(problem: Problem) -> list[RowKey]:
    """The rows that some run consults."""
    uniform = Policy(problem.policy_class, random_policy(np.random.default_rng(1), problem, softmax=True).rows)
    found: dict[RowKey, None] = {}
    for run in oracles.enumerate_runs(problem, uniform):
        for time, node in enumerate(run.nodes):
            found[oracles.row_key(problem, problem.policy_class, run.states[: time + 1], node)] = None
    return list(found)


def _slack(problem: Problem, policy: Policy) -> float:
    """The smallest slack of all requirements, by enumeration of runs."""
    asked = list(asked_for(problem))
    values = [0.0] * len(asked)
    for run in oracles.enumerate_runs(problem, policy):
        for place, (requirement, _) in enumerate(asked):
            worth = oracles.run_return(problem, run)
            values[place] += run.probability * (
                worth if requirement is None else oracles.run_worth(problem, requirement, run)
            )
    return min((value - threshold for value, (_, threshold) in zip(values, asked, strict=True)), default=0.0)
