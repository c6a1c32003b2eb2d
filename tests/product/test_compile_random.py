"""Compiled problems mean what the problem says: rows, states and policies, for random problems of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.errors import InputError
from opaq.model.policy import PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.product import compile as compiling
from opaq.product.compile import compile_problem
from opaq.product.process import FOR_EVER
from random_problems import CONDITIONS, SECRETS, random_policy, random_problem

every_class = pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)


def consulted(problem: Problem, policy: oracles.Policy) -> set[RowKey]:
    """Every row some run looks up."""
    return {
        oracles.row_key(problem, policy.policy_class, run.states[: time + 1], run.nodes[time])
        for run in oracles.enumerate_runs(problem, policy)
        for time in range(problem.horizon + 1)
    }


@every_class
def test_the_rows_are_those_that_runs_consult(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng([50, CONDITIONS.index(conditions)])
    for _ in range(4):
        problem = random_problem(rng, conditions=conditions, budget=1000)
        product = compile_problem(problem)
        assert len(set(product.rows)) == len(product.rows)
        assert set(product.rows) == consulted(problem, random_policy(rng, problem, softmax=True))


@every_class
def test_a_policy_survives_the_way_there_and_back(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng([51, CONDITIONS.index(conditions)])
    problem = random_problem(rng, conditions=conditions)
    policy = random_policy(rng, problem)
    product = compile_problem(problem)
    vector = product.policy_vector(policy)
    back = product.policy(vector)
    assert np.array_equal(product.policy_vector(back), vector)
    assert oracles.joint(problem, back) == pytest.approx(oracles.joint(problem, policy), abs=1e-15)


@every_class
def test_no_policy_is_the_uniform_one(conditions: tuple[str, ...]) -> None:
    problem = random_problem(np.random.default_rng([52, CONDITIONS.index(conditions)]), conditions=conditions)
    product = compile_problem(problem)
    uniform = product.policy(product.policy_vector(None))
    expected = oracles.joint(problem)
    found = oracles.joint(problem, uniform)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("kind", SECRETS)
def test_the_process_is_a_process(kind: str) -> None:
    rng = np.random.default_rng([53, SECRETS.index(kind)])
    for _ in range(5):
        problem = random_problem(rng, secret=kind)
        product = compile_problem(problem)
        process = product.process
        flow = process.flow(product.policy_vector(random_policy(rng, problem)))
        sums = np.add.reduceat(np.append(flow, 0.0), process.edge_start[:-1])
        leaving = np.diff(process.edge_start) > 0
        assert sums[leaving] == pytest.approx(1, abs=1e-12)
        assert leaving[-1]
        assert process.emission.row_sums() == pytest.approx(1, abs=1e-12)
        assert process.num_slots == product.slot_action.size


@pytest.mark.parametrize("kind", SECRETS)
def test_only_reachable_states_are_kept(kind: str) -> None:
    rng = np.random.default_rng([54, SECRETS.index(kind)])
    for _ in range(5):
        problem = random_problem(rng, secret=kind, budget=1000)
        product = compile_problem(problem)
        visited = {state for run in oracles.enumerate_runs(problem) for state in run.states}
        values = {oracles.secret_value(problem, run.states) for run in oracles.enumerate_runs(problem)}
        assert set(product.state_of.tolist()) == visited
        assert values <= set(product.secret_values)


def test_a_missing_row_is_named() -> None:
    rng = np.random.default_rng(55)
    problem = random_problem(rng, conditions=("state", "time"), horizon=2)
    while len(set(np.diff(problem.mdp.choice_start))) < 2:
        problem = random_problem(rng, conditions=("state", "time"), horizon=2)
    with pytest.raises(InputError, match="row"):
        compile_problem(problem).policy_vector(replace(random_policy(rng, problem), rows={}))


def test_a_policy_of_another_class_is_refused() -> None:
    rng = np.random.default_rng(56)
    problem = random_problem(rng, conditions=("state", "time"))
    with pytest.raises(InputError, match="conditions on"):
        compile_problem(problem, PolicyClass(("state",))).policy_vector(random_policy(rng, problem))


def test_states_of_one_row_must_enable_the_same_actions() -> None:
    rng = np.random.default_rng(57)
    problem = random_problem(rng, conditions=("state",), horizon=4)
    while (np.diff(problem.mdp.choice_start) == len(problem.mdp.actions)).all() or (problem.mdp.start == 0).any():
        problem = random_problem(rng, conditions=("state",), horizon=4)
    actions = {tuple(oracles.enabled_actions(problem, state)) for state in range(problem.mdp.num_states)}
    assert len(actions) > 1
    with pytest.raises(InputError, match="different actions"):
        compile_problem(problem, PolicyClass(("time",)))


def test_how_long_secrets_last() -> None:
    rng, size = np.random.default_rng(3), 30
    for _ in range(20):
        counts = rng.integers(1, 3, size=size)
        edge_start, target = np.concatenate(([0], np.cumsum(counts))), rng.integers(size, size=counts.sum())
        secret = (rng.random(size) < 0.1).astype(np.int64)
        lasting = compiling._find_lasting_secrets(secret, edge_start, target)
        for state in range(size):
            reached, steps = {state}, 0
            while steps <= size and {int(secret[one]) for one in reached} == {int(secret[state])}:
                reached |= {int(after) for one in reached for after in target[edge_start[one] : edge_start[one + 1]]}
                steps += 1
            assert lasting[state] == (FOR_EVER if steps > size else steps - 1)
