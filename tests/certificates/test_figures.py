"""Bounds on tasks about several figures and on observers that assume, and what solvers reach below them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest

import observer_oracles
import oracles
from opaq.beliefs.returns import expected_return
from opaq.certificates.certify import certify
from opaq.certificates.figures import MarginalSum
from opaq.certificates.gap import solve
from opaq.certificates.history.program import history_program
from opaq.errors import InputError
from opaq.model.conditions import CurrentState, Observations
from opaq.model.figures import Assumption, CovertLimit, Pair, UncertaintyLimit
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Task
from opaq.opacity.assumed import believer
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem
from random_problems import random_policy, random_problem

ONE_OBSERVER = (Pair("first", "street"), Pair("second", "street"))
TWO_OBSERVERS = (Pair("first", "street"), Pair("first", "insider"))


def _problem(rng: np.random.Generator, task: Task, *, believes: bool = False) -> Problem:
    problem = random_problem(rng, conditions=("state", "time"), secret="last_state", horizon=2, budget=300)
    problem = observer_oracles.add_others(rng, replace(problem, task=Task()))
    return replace(problem, task=task, assumptions={"street": Assumption()} if believes else {})


TASKS = {
    "mean": Task(pairs=ONE_OBSERVER),
    "weighed mean": Task(pairs=(Pair("first", "street", 3.0), Pair("second", "street"))),
    "least": Task(pairs=ONE_OBSERVER, taken="least"),
    "two observers": Task(pairs=TWO_OBSERVERS, taken="least"),
    "at least": Task(pairs=(Pair("first", "street"),), limits=(UncertaintyLimit("second", "street", 0.3, "at_least"),)),
    "believer": Task(pairs=(Pair("first", "street"),)),
}


@pytest.mark.parametrize("name", TASKS)
def test_no_policy_exceeds_the_bound_and_searches_come_close(name: str) -> None:
    rng = np.random.default_rng([31, list(TASKS).index(name)])
    problem = _problem(rng, TASKS[name], believes=name == "believer")
    solution = solve(problem, seed=0, starts=2)
    certificate = certify(problem, solution, gap=0.02, time_limit=1.0)
    assert certificate.upper_bound >= solution.measurement.uncertainty.lower - 1e-9
    for _ in range(10):
        measured = measure(problem, random_policy(rng, problem), sequences=0)
        assert not measured.feasible or measured.uncertainty.value <= certificate.upper_bound + 1e-9
    assert certificate.left_out == () or name == "at least"  # which may not matter
    if solution.measurement.feasible and name in ("mean", "weighed mean"):
        assert certificate.gap <= 0.15


def test_one_bound_on_all_secrets_is_tighter_than_the_sum_of_their_bounds() -> None:
    """A coin that is shown either way: who hides one of two secrets shows the other."""
    problem = _exclusive()
    solution = solve(problem, seed=0)
    certificate = certify(problem, solution, gap=1e-4, time_limit=2.0)
    apart = [certify(replace(problem, task=Task()).about(of=of), gap=1e-4).upper_bound for of in ("left", "right")]
    assert np.mean(apart) >= 0.99
    assert certificate.upper_bound <= 0.51
    assert certificate.gap <= 0.01


def test_limits_from_below_tighten_the_bound() -> None:
    """Who must hide half of the right coin shows half of the left one."""
    asked = Task(pairs=(Pair("left", "observer"),), limits=(UncertaintyLimit("right", "observer", 0.5, "at_least"),))
    problem = replace(_exclusive(), task=asked)
    solution = solve(problem, seed=0, starts=2)
    certificate = certify(problem, solution, gap=1e-3, time_limit=3.0)
    assert solution.measurement.uncertainty.value == pytest.approx(0.5, abs=1e-3)
    assert certificate.upper_bound <= 0.52
    assert certificate.left_out == ()


def _exclusive() -> Problem:
    """Two hidden coins, of which the policy shows one."""
    from opaq.spec.problem_part import build_problem

    states = [f"{a}{b}" for a in "ht" for b in "ht"]
    shown = {f"{state}{which}": {state[which]: 1} for state in states for which in (0, 1)}
    return build_problem(
        {
            "opaq": 1,
            "model": {
                "states": [*states, *shown],
                "actions": ["one", "two"],
                "start": dict.fromkeys(states, 0.25),
                "transitions": {
                    **{state: {"one": {f"{state}0": 1}, "two": {f"{state}1": 1}} for state in states},
                    **{state: {"*": {state: 1}} for state in shown},
                },
            },
            "observer": {"emissions": {**{state: {"-": 1} for state in states}, **{
                state: {f"{state[2]}{seen}": 1} for state, (seen,) in ((s, tuple(shown[s])) for s in shown)}}},
            "secrets": {
                "left": {"last_state": [state for state in shown if state[0] == "h"]},
                "right": {"last_state": [state for state in shown if state[1] == "h"]},
            },
            "horizon": 1,
            "task": {"maximise": {"mean": [{"of": "left"}, {"of": "right"}]}},
        }
    )  # fmt: skip


def test_the_program_is_the_best_of_all_deterministic_policies_that_see_the_observations() -> None:
    rng = np.random.default_rng(33)
    compared = 0
    while compared < 2:
        problem = random_problem(rng, conditions=("state",), secret="last_state", horizon=1, watches_actions=False)
        assumed = replace(problem, assumptions={"observer": Assumption(random_policy(rng, problem, softmax=True))})
        problem = replace(assumed, task=Task())
        product = compile_problem(problem, PolicyClass((CurrentState(), Observations("all"))))
        choices = np.diff(product.process.row_start)
        if not 2 <= np.prod(choices.astype(float)) <= 600:
            continue
        assuming = believer(product, "secret", "observer")
        values = list[float]()
        for chosen in combinations(*(range(count) for count in choices)):
            pi = np.zeros(product.process.num_slots)
            pi[product.process.row_start[:-1] + np.array(chosen)] = 1.0
            values.append(expected_return(assuming.process, pi, assuming.cross_entropy))
        most = certify(problem, time_limit=5.0).upper_bound
        least = certify(replace(problem, task=Task(minimise=True)), time_limit=5.0).lower_bound
        assert most == pytest.approx(max(values), abs=1e-9)
        assert least == pytest.approx(min(values), abs=1e-9)
        compared += 1
        solution = solve(problem, policy_class=product.policy_class, seed=0)
        assert solution.measurement.uncertainty.value == pytest.approx(max(values), abs=1e-4)


def test_prices_bound_believers_under_requirements() -> None:
    rng = np.random.default_rng(34)
    problem = _problem(rng, TASKS["believer"], believes=True)
    free = certify(problem, time_limit=5.0).upper_bound
    most = oracles.largest_value(problem)
    asked = replace(problem, task=replace(problem.task, return_at_least=most))
    bound = certify(asked, time_limit=5.0).upper_bound
    assert bound <= free + 1e-9
    earning = measure(asked, "return-optimal", sequences=0)
    assert earning.uncertainty.value <= bound + 1e-9


def test_limits_from_above_are_left_out_and_said_to_be() -> None:
    rng = np.random.default_rng(35)
    limits = (UncertaintyLimit("second", "street", 0.1, "at_most"), CovertLimit("uniform", "insider", 0.1))
    problem = _problem(rng, Task(pairs=(Pair("first", "street"),), limits=limits))
    certificate = certify(problem, time_limit=3.0)
    plain = certify(replace(problem, task=Task(pairs=(Pair("first", "street"),))), time_limit=3.0)
    assert certificate.upper_bound == pytest.approx(plain.upper_bound, abs=1e-3)
    assert len(certificate.left_out) == 2
    assert "at most 0.1" in certificate.left_out[0]
    assert certify(problem, time_limit=1.0).from_dict(certificate.to_dict()).left_out == certificate.left_out
    with pytest.raises(InputError, match="several figures"):
        history_program(problem)


def test_a_search_to_a_gap_of_the_least_of_two() -> None:
    rng = np.random.default_rng(36)
    answer = solve(_problem(rng, TASKS["least"]), gap=0.2, time_limit=5.0, seed=0)
    reached = answer.solution.measurement.uncertainty
    assert answer.certificate.upper_bound >= reached.lower - 1e-9


def test_marginal_sums_are_concave_with_the_slopes_that_they_say() -> None:
    rng = np.random.default_rng(37)
    names = {f"{a}{b}": (a, b) for a in range(2) for b in range(3)}
    summed = MarginalSum((0.7, 0.4), names).over(tuple(names))
    values = np.arange(6)[None, :]
    for _ in range(20):
        masses, other = rng.random((2, 1, 6))
        amount, slope = summed.rows(masses, values)
        joint = masses.reshape(2, 3) / masses.sum()
        entropies = [-(part * np.log2(part)).sum() for part in (joint.sum(axis=1), joint.sum(axis=0))]
        assert amount[0] == pytest.approx(masses.sum() * (0.7 * entropies[0] + 0.4 * entropies[1]))
        assert summed.rows(other, values)[0][0] <= (slope * other).sum() + 1e-12
        assert amount[0] <= summed.highest * masses.sum() + 1e-12
