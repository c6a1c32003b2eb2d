"""Policies by name: the uniform one, and the one that earns most, against every deterministic policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import opaq
from opaq import Policy, PolicyClass
from opaq.beliefs.dynamic_program import largest_return
from opaq.opacity.policies import as_policy
from random_problems import random_problem
from trials import part_of

PROBLEM = {
    "opaq": 1,
    "model": {
        "states": ["s", "t", "u"],
        "actions": ["a", "b"],
        "start": {"s": 0.7, "t": 0.3},
        "transitions": {
            "s": {"a": {"s": 0.5, "t": 0.5}, "b": {"u": 1}},
            "t": {"a": {"s": 1}, "b": {"t": 0.2, "u": 0.8}},
            "u": {"a": {"u": 1}, "b": {"s": 1}},
        },
        "rewards": {"s": {"a": 0, "b": 1}, "t": {"a": -1, "b": 0}, "u": {"a": 0.3, "b": -0.4}},
    },
    "observer": {"emissions": {"s": "x", "t": "x", "u": "y"}},
    "secret": {"last_state": ["u"]},
    "horizon": 3,
}


def deterministic(keys, actions):
    """Every policy that takes one action per row."""
    for choice in product(actions, repeat=len(keys)):
        yield {key: {action: 1.0} for key, action in zip(keys, choice, strict=True)}


@pytest.mark.parametrize("discount", part_of([0.6, 1.0], 1))
def test_no_policy_with_a_clock_earns_more(discount: float) -> None:
    problem = opaq.build_problem(PROBLEM | {"discount": discount, "horizon": 2})
    timed = PolicyClass(("state", "time"))
    keys = [(state, time) for state in "stu" for time in range(3)]
    most = max(
        opaq.measure(problem, Policy(timed, rows), sequences=0).expected_return for rows in deterministic(keys, "ab")
    )
    best = opaq.return_optimal_policy(problem)
    assert opaq.measure(problem, best).expected_return == pytest.approx(most, abs=1e-12)
    assert opaq.measure(problem, "return-optimal").expected_return == pytest.approx(most, abs=1e-12)


def test_the_best_for_ever() -> None:
    problem = opaq.build_problem(PROBLEM | {"discount": 0.9, "task": {"return_at_least": 0, "over": "forever"}})
    returns = [
        opaq.measure(problem, Policy(PolicyClass(("state",)), rows), sequences=0).expected_return
        for rows in deterministic([(state,) for state in "stu"], "ab")
    ]
    best = opaq.return_optimal_policy(problem)
    assert best.policy_class.conditions_on == ("state",)
    assert opaq.measure(problem, best).expected_return == pytest.approx(max(returns), abs=1e-10)


def test_of_the_problems_own_class_where_that_earns_as_much() -> None:
    sink = opaq.load_problem("two-sink")
    assert opaq.return_optimal_policy(sink).policy_class == sink.policy_class
    own = opaq.measure(sink, "return-optimal").expected_return
    assert own == pytest.approx(2.0)  # leave at once, and earn 1 at the times 1 and 2
    clocked = replace(sink, policy_class=PolicyClass(("state", "time")))
    assert opaq.measure(clocked, "return-optimal").expected_return == own


def test_random_problems_reach_the_largest_return() -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        problem = random_problem(rng)
        if not problem.mdp.rewards.any() or problem.task.over == "forever":
            continue
        most = largest_return(opaq.compile_problem(problem).process)
        assert opaq.measure(problem, "return-optimal", sequences=0).expected_return == pytest.approx(most, abs=1e-9)


def test_uniform_is_the_default() -> None:
    problem = opaq.load_problem("graph")
    assert opaq.measure(problem, "uniform").opacity == opaq.measure(problem).opacity
    assert all(len({*row.values()}) == 1 for row in opaq.uniform_policy(problem).rows.values())


def test_what_is_no_policy_is_refused() -> None:
    problem = opaq.load_problem("two-sink")
    with pytest.raises(opaq.InputError, match="is of the type int"):
        as_policy(3, problem)
    bare = opaq.build_problem({**PROBLEM, "model": {**PROBLEM["model"], "rewards": {}}})
    with pytest.raises(opaq.InputError, match="return-optimal: the model has no rewards"):
        opaq.measure(bare, "return-optimal")


def test_searches_of_a_class_begin_at_its_own_return_optimal_policy() -> None:
    """The most that any policy earns needs a clock here: stay at the goal, leave it in the end."""
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["home", "goal"],
                "actions": ["stay", "go"],
                "start": "home",
                "transitions": {
                    "home": {"stay": "home", "go": "goal"},
                    "goal": {"stay": "goal", "go": "home"},
                },
                "rewards": {"goal": {"go": 2, "stay": 1.2}},
                "labels": {"away": ["goal"]},
            },
            "observer": {"sensors": {"camera": {"covers": ["goal"], "detects": 0.5}}},
            "secret": {"last_state": "away"},
            "horizon": 3,
            "task": {"return_at_least": 1},
            "policy": {"conditions_on": ["state"]},
        }
    )
    own, few = PolicyClass(("state",)), opaq.SolveOptions(starts=1)
    assert opaq.return_optimal_policy(problem).policy_class != own
    assert opaq.measure(problem, "return-optimal").expected_return == pytest.approx(4.4)
    within = opaq.return_optimal_policy(problem, within=own)
    assert within.policy_class == own
    assert 3.0 < opaq.measure(problem, within).expected_return < 4.4
    for options in ({}, {"gap": "50%"}):
        answer = opaq.solve(problem, initial_policy="return-optimal", starts=1, **options)
        assert getattr(answer, "solution", answer).measurement.feasible
    front = opaq.frontier(problem, initial_policy="return-optimal", points=2, options=few)
    assert all(point.measurement.feasible for point in front.points)
    assert opaq.sensors(problem, initial_policy="return-optimal", options=few).trials
