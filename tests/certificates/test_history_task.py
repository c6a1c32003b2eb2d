"""Requirements in the history program: with room, without any, and out of reach."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import opaq
import oracles
from opaq.certificates.history import program as module
from opaq.certificates.history.program import HistoryStatus, history_program
from opaq.certificates.history.weights import inner_point, meets, policy_of, repair_weights, weights_of
from opaq.model.arrays import ints
from opaq.model.problem import Problem, Reach, Task
from opaq.stop import Stop
from random_problems import random_policy, random_problem
from trials import part_of


def state_numbers(problem: Problem, *names: str) -> np.ndarray:
    return ints([problem.mdp.states.index(name) for name in names])


def test_more_return_costs_opacity_at_the_stated_price() -> None:
    problem = opaq.load_problem("graph-published")
    thresholds = [0.0, 0.2, 0.3, 0.5, 1.0]
    optima = [history_program(replace(problem, task=Task(one)), gap=1e-7) for one in thresholds]
    values = [optimum.value.value for optimum in optima]
    assert all(later <= earlier + 1e-7 for earlier, later in pairwise(values))
    nearby = history_program(replace(problem, task=Task(0.2001)), gap=1e-7).value.value
    assert (values[1] - nearby) / 1e-4 == pytest.approx(optima[1].prices["return"], rel=1e-2)


@pytest.mark.parametrize("threshold", [2.0, 2.0 - 1e-10, 1.99])
def test_a_threshold_at_the_edge(threshold: float) -> None:
    # In `graph` the largest return is 2, by going straight to state 2 twice: that hides nothing.
    optimum = history_program(replace(opaq.load_problem("graph"), task=Task(threshold)))
    assert optimum.status is HistoryStatus.OPTIMAL
    assert optimum.measurement.feasible
    assert optimum.value.lower == pytest.approx(0.671146 * (2.0 - threshold), abs=1e-6)


def test_weights_that_miss_the_task_are_moved_into_it() -> None:
    problem = replace(opaq.load_problem("graph-published"), task=Task(0.9))
    product = opaq.compile_problem(problem, opaq.PolicyClass(("state",)))
    search = module._HistorySearch(product, opaq.Shannon(), 1000, Stop())
    histories = search._problem
    uniform = weights_of(histories.tree, policy_of(histories.tree, np.zeros(histories.tree.num_choices)))
    assert histories.slack(uniform)[0] < -0.01
    moved = repair_weights(histories, uniform, inner_point(histories))
    assert meets(histories, moved)
    assert histories.slack(moved)[0] == pytest.approx(0.0, abs=1e-6)
    assert histories.value(moved) > 0.1


def test_two_requirements_that_leave_one_way() -> None:
    # Each sink is reached with probability 1/2 at most, and only by moving on: early or late stays free.
    problem = opaq.load_problem("two-sink")
    both = tuple(Reach(state_numbers(problem, name), 0.5, name) for name in ("q1", "q2"))
    optimum = history_program(replace(problem, task=Task(requirements=both)))
    assert optimum.status is HistoryStatus.OPTIMAL
    assert optimum.measurement.feasible
    assert optimum.value.upper == pytest.approx(0.5, abs=1e-4)
    assert len(optimum.returns) == 2


def at_edges(rng: np.random.Generator, problem: Problem) -> Problem:
    """The same with one to three requirements, whose thresholds are often the most that can be reached."""
    sets = [np.sort(rng.permutation(problem.mdp.num_states)[: rng.integers(1, 3)]) for _ in range(rng.integers(1, 4))]
    asked: list[Reach | None] = [Reach(ints(states), 0.0, f"r{index}") for index, states in enumerate(sets)]
    asked += [None] if rng.random() < 0.5 else []
    thresholds = {}
    for one in asked:
        least, most = oracles.smallest_value(problem, one), oracles.largest_value(problem, one)
        thresholds[one and one.name] = float(least + rng.choice([1.0, 0.5, 0.9]) * (most - least))
    reach = tuple(replace(one, threshold=thresholds[one.name]) for one in asked if one is not None)
    return replace(problem, task=Task(thresholds.get(None), requirements=reach))


@pytest.mark.parametrize("first", part_of(range(0, 60, 20), 1))
def test_thresholds_at_edges(first: int) -> None:
    feasible = 0
    for number in range(first, first + 20):
        rng = np.random.default_rng([number, 3])
        problem = at_edges(rng, random_problem(rng))
        optimum = history_program(problem)
        assert optimum.status in (HistoryStatus.OPTIMAL, HistoryStatus.INFEASIBLE), number
        measured = [opaq.measure(problem, random_policy(rng, problem), sequences=0) for _ in range(3)]
        reached = [one.opacity.value for one in measured if one.feasible]
        if optimum.value is None:
            assert not reached, number
            continue
        feasible += 1
        assert max([0.0, *reached]) <= optimum.value.upper + 1e-9, number
    assert feasible >= 10


def test_reaching_is_a_requirement() -> None:
    problem = opaq.load_problem("graph")
    goal = Reach(state_numbers(problem, "4"), 0.75, "goal")
    optimum = history_program(replace(problem, task=Task(0.05, requirements=(goal,))))
    assert optimum.status is HistoryStatus.OPTIMAL
    assert [met.value for met in optimum.measurement.requirements][1] >= 0.75 - 1e-12
    beyond = replace(problem, task=Task(0.05, requirements=(replace(goal, threshold=0.76),)))
    assert history_program(beyond).status is HistoryStatus.INFEASIBLE


def test_infeasible_tasks_have_no_value() -> None:
    optimum = history_program(replace(opaq.load_problem("graph"), task=Task(2.1)))
    assert optimum.status is HistoryStatus.INFEASIBLE
    assert optimum.value is None
    assert optimum.policy is None
    assert "none, infeasible" in repr(optimum)
