"""Runs in the user's names, the observer's beliefs beside them, and the slope of the opacity."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import opaq
import oracles
from random_problems import random_policy, random_problem


def test_runs_are_possible_and_have_the_right_frequencies() -> None:
    problem = opaq.load_problem("graph")
    runs = opaq.simulate(problem, runs=5_000, seed=2)
    exact: Counter = Counter()
    for (secret, seen), chance in oracles.joint(problem).items():
        exact[secret, tuple(name for (name,) in seen)] += chance
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-12)
    seen = Counter(run.observations for run in runs)
    by_observations: Counter = Counter()
    for (_, observations), chance in exact.items():
        by_observations[observations] += chance
    for observations, count in seen.items():
        chance = by_observations[observations]
        assert abs(count / 5_000 - chance) < 5 * np.sqrt(chance / 5_000) + 1e-3
    starts = {state for state, chance in zip(problem.mdp.states, problem.mdp.start, strict=True) if chance}
    for run in runs[:50]:
        assert len(run.states) == len(run.actions) == len(run.observations) == problem.horizon + 1
        assert run.states[0] in starts
        assert set(run.states) <= set(problem.mdp.states)
        assert set(run.actions) <= set(problem.mdp.actions)


def test_the_seed_decides() -> None:
    assert opaq.simulate("graph", runs=20, seed=1) == opaq.simulate("graph", runs=20, seed=1)
    assert opaq.simulate("graph", runs=20, seed=1) != opaq.simulate("graph", runs=20, seed=2)


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_are_bayes_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, horizon=3)
    policy = random_policy(rng, problem)
    product = opaq.compile_problem(problem, policy.policy_class)
    pi = product.policy_vector(policy)
    for replay in opaq.replay(problem, policy, runs=4, seed=seed):
        seen = [moment.observation for moment in replay.steps]
        for moment in replay.steps:
            wanted = opaq.secret_posterior(product, pi, seen[: moment.time + 1])
            assert moment.belief == pytest.approx(wanted, abs=1e-12)
        assert replay.steps[-1].belief[replay.secret] > 0


def test_given_runs_and_given_observations() -> None:
    runs = opaq.simulate("graph", runs=3, seed=4)
    sampled, given = opaq.replay("graph", runs=3, seed=4), opaq.replay("graph", runs=runs)
    assert sampled == given
    assert [moment.state for moment in given[0].steps] == list(runs[0].states)
    (seen,) = opaq.replay("graph", observations=runs[0].observations[:3])
    assert [moment.belief for moment in seen.steps] == [moment.belief for moment in given[0].steps[:3]]
    assert (seen.secret, seen.steps[0].state) == ("", "")


def test_what_cannot_be_seen_is_refused_with_its_place() -> None:
    possible = opaq.simulate("two-sink", runs=1)[0].observations
    with pytest.raises(opaq.InputError, match=r"observations\[1\]: the observer has no observation 'nothing'"):
        opaq.replay("two-sink", observations=[possible[0], "nothing"])
    with pytest.raises(opaq.InputError, match=r"observations\[2\]: 'B' has probability 0 after what was seen"):
        opaq.replay("two-sink", observations=["N", "R", "B"])


@pytest.mark.parametrize("seed", range(8))
def test_the_gradient_is_what_moving_probability_gains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    policy = random_policy(rng, problem, softmax=True)
    slopes = opaq.gradient(problem, policy)
    step = 1e-5
    compared = 0
    for row, actions in slopes.items():
        names = [name for name in actions if policy.rows[row].get(name, 0.0) > 2 * step]
        for one, other in pairwise(names):
            values = [
                opaq.measure(problem, moved(policy, row, one, other, sign * step), sequences=0).opacity.value
                for sign in (1, -1)
            ]
            measured = (values[0] - values[1]) / (2 * step)
            assert actions[one] - actions[other] == pytest.approx(measured, abs=1e-5 * max(1, abs(measured)))
            compared += 1
    assert compared or all(len(actions) == 1 for actions in slopes.values())


def moved(policy: opaq.Policy, row: tuple, one: str, other: str, amount: float) -> opaq.Policy:
    changed = dict(policy.rows[row])
    changed[one], changed[other] = changed[one] + amount, changed[other] - amount
    return replace(policy, rows={**policy.rows, row: changed})


def test_a_graph_that_does_not_fit_has_no_gradient() -> None:
    with pytest.raises(opaq.BudgetError, match="does not fit the budget"):
        opaq.gradient("grid-last-state-4", budget=opaq.Budget(nodes=3))


def test_a_sampled_gradient_is_near_the_exact_one_and_needs_no_budget() -> None:
    exact, sampled = opaq.gradient("two-sink"), opaq.gradient("two-sink", samples=50_000, seed=1)
    for row, actions in exact.items():
        names = list(actions)
        for one, other in pairwise(names):
            difference = sampled[row][one] - sampled[row][other]
            assert difference == pytest.approx(actions[one] - actions[other], abs=0.02)
    again = opaq.gradient("two-sink", samples=50_000, seed=1, budget=opaq.Budget(nodes=1))
    assert again == sampled
    stop = opaq.Stop()
    stop.request()
    with pytest.raises(opaq.StoppedError):
        opaq.gradient("two-sink", samples=10, stop=stop)
    with pytest.raises(opaq.InputError, match="samples"):
        opaq.gradient("two-sink", samples=0)
