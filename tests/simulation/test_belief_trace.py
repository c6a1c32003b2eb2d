"""Beliefs along runs against a filter of its own, and runs given observations against enumeration."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest

import opaq
import oracles
from opaq.beliefs.returns import secret_distribution
from opaq.beliefs.secret_prediction import predict_secret
from opaq.opacity.sequences import rank_sequences
from opaq.simulation.replay import draw_conditional_runs, filter_beliefs, trace_beliefs
from opaq.simulation.runs import simulate_product
from random_problems import SECRETS, random_policy, random_problem


def names(sequence: oracles.Sequence) -> tuple[str, ...]:
    return tuple("/".join(parts) for parts in sequence)


def enumerated(problem: opaq.Problem, policy: opaq.Policy) -> dict[tuple[str, ...], list[tuple[oracles.Run, float]]]:
    """Observation sequence, of any length from 1 -> the runs that show it, with their joint probability."""
    joint: dict = defaultdict(list)
    for run in oracles.enumerate_runs(problem, policy):
        shorter: Counter = Counter()
        for sequence, chance in oracles.observation_sequences(problem, run):
            for length in range(1, len(sequence) + 1):
                shorter[names(sequence[:length])] += run.probability * chance
        for sequence, mass in shorter.items():
            joint[sequence].append((run, mass))
    return joint


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("seed", range(3))
def test_beliefs_are_those_of_enumeration(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, SECRETS.index(kind)])
    problem = random_problem(rng, secret=kind, horizon=3)
    policy = random_policy(rng, problem)
    product = opaq.compile_problem(problem, policy.policy_class)
    pi, truth = product.policy_vector(policy), enumerated(problem, policy)
    runs = simulate_product(product, pi, count=4, rng=rng)
    for trace in trace_beliefs(product, pi, runs):
        for time in range(problem.horizon + 1):
            seen = truth[trace.run.observations[: time + 1]]
            total = sum(mass for _, mass in seen)
            states, secrets = np.zeros(problem.mdp.num_states), dict.fromkeys(product.secret_values, 0.0)
            for run, mass in seen:
                states[run.states[time]] += mass / total
                secrets[oracles.secret_value(problem, run.states)] += mass / total
            assert trace.states[[time]].toarray().reshape(-1) == pytest.approx(states, abs=1e-12)
            assert trace.secrets[time] == pytest.approx(list(secrets.values()), abs=1e-12)


@pytest.mark.parametrize("name", ["graph", "grid-initial-state-4"])
def test_both_ways_to_the_horizon_agree(name: str) -> None:
    product = opaq.compile_problem(opaq.load_problem(name))
    pi = product.process.uniform()
    (run,) = simulate_product(product, pi, count=1, rng=np.random.default_rng(0))
    beliefs = filter_beliefs(product, pi, run.observations)
    blocks = [beliefs[[time]] for time in range(beliefs.shape[0])]
    back, forth = (
        {time: rows for time, _, rows in predict_secret(product.process, pi, blocks, backwards=way)}
        for way in (True, False)
    )
    assert back.keys() == forth.keys() == set(range(len(blocks)))
    for time, rows in back.items():
        assert rows == pytest.approx(forth[time], abs=1e-13)


def test_runs_given_observations_have_the_right_frequencies() -> None:
    rng, count = np.random.default_rng(5), 800
    problem = replace(opaq.load_problem("graph"), horizon=3)
    policy = random_policy(rng, problem)
    product = opaq.compile_problem(problem, policy.policy_class)
    pi = product.policy_vector(policy)
    seen = max(enumerated(problem, policy).items(), key=lambda item: len(item[1]) * (len(item[0]) == 4))
    assert len(seen[1]) > 5
    wanted: Counter = Counter()
    for run, mass in seen[1]:
        states = tuple(problem.mdp.states[state] for state in run.states)
        actions = tuple(problem.mdp.actions[action] for action in run.actions)
        wanted[states, actions] += mass
    total = sum(wanted.values())
    drawn = draw_conditional_runs(product, pi, seen[0], count=count, rng=rng)
    assert {run.observations for run in drawn} == {seen[0]}
    found = Counter((run.states, run.actions) for run in drawn)
    assert set(found) <= set(wanted)
    for run, mass in wanted.items():
        chance = mass / total
        assert abs(found[run] / count - chance) < 5 * np.sqrt(chance / count) + 2 / count


@pytest.mark.parametrize("seed", range(4))
def test_runs_of_shown_sequences_are_possible_and_have_their_secret(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, horizon=3)
    policy = random_policy(rng, problem)
    product = opaq.compile_problem(problem, policy.policy_class)
    pi, truth = product.policy_vector(policy), enumerated(problem, policy)
    prior = secret_distribution(product.process, pi)
    for group in rank_sequences(product, pi, prior, count=5, budget=opaq.Budget()):
        for sequence in group:
            (run,) = draw_conditional_runs(product, pi, sequence.observations, count=1, rng=rng)
            length = len(sequence.observations)
            possible = {
                (tuple(problem.mdp.states[state] for state in one.states[:length])): oracles.secret_value(
                    problem, one.states
                )
                for one, _ in truth[sequence.observations]
            }
            assert run.states in possible
            assert len(run.actions) == length
            if sequence.complete:
                assert sequence.posterior[run.secret] > 0
            else:
                assert sequence.posterior[run.secret] == 1.0


def test_policies_that_hear_the_observations() -> None:
    problem = opaq.load_problem("two-sink")
    product = opaq.compile_problem(problem, opaq.PolicyClass(("state", opaq.Observations(2))))
    pi = product.process.softmax(np.random.default_rng(1).normal(size=product.process.num_slots))
    (run,) = draw_conditional_runs(product, pi, ("N", "N", "R"), count=1, rng=np.random.default_rng(2))
    assert run.states[-1] == "q1"
    assert run.secret == "yes"
