"""Observable operators: sequence probabilities and posteriors, against enumeration and an HMM package."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product as tuples

import numpy as np
import pytest

import oracles
from opaq.beliefs.returns import start_distribution
from opaq.errors import InputError, OpaqError
from opaq.load import load_problem
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.filtering import (
    filter_states,
    log_probabilities,
    observable_operator,
    secret_posterior,
    sequence_probability,
    start_posterior,
)
from opaq.product.compile import Product, compile_problem
from random_problems import SECRETS, random_policy, random_problem


def names(sequence: oracles.Sequence) -> list[str]:
    """An enumerated sequence in the names of a compiled problem."""
    return ["/".join(seen) for seen in sequence]


def compiled(problem: Problem, policy: Policy) -> tuple[Product, np.ndarray]:
    product = compile_problem(problem)
    return product, product.policy_vector(policy)


@pytest.mark.parametrize("kind", SECRETS)
def test_probabilities_and_posteriors_agree_with_enumeration(kind: str) -> None:
    rng = np.random.default_rng([60, SECRETS.index(kind)])
    for _ in range(4):
        problem = random_problem(rng, secret=kind, budget=500)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        seen = oracles.sequence_probabilities(joint)
        product, pi = compiled(problem, policy)
        for sequence in list(seen)[:10]:
            check_sequence(product, pi, joint, sequence)
            expected = oracles.start_distribution(problem, policy, sequence)
            check_posterior(start_posterior(product, pi, names(sequence)), expected)


def check_sequence(product: Product, pi: np.ndarray, joint: oracles.Joint, sequence: oracles.Sequence) -> None:
    mass = {value: chance for (value, seen), chance in joint.items() if seen == sequence}
    total = sum(mass.values())
    assert sequence_probability(product, pi, names(sequence)) == pytest.approx(total, abs=1e-12)
    expected = {value: chance / total for value, chance in mass.items()}
    check_posterior(secret_posterior(product, pi, names(sequence)), expected)


def check_posterior(found: dict[str, float], expected: dict[str, float]) -> None:
    for name in found.keys() | expected.keys():
        assert found.get(name, 0.0) == pytest.approx(expected.get(name, 0.0), abs=1e-10)


def test_sequence_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(61)
    for horizon in (0, 1, 2, 3):
        for _ in range(4):
            problem = random_problem(rng, horizon=horizon, watches_actions=False, budget=500)
            product, pi = compiled(problem, random_policy(rng, problem))
            every = tuples(product.observations, repeat=horizon + 1)
            total = sum(sequence_probability(product, pi, list(sequence)) for sequence in every)
            assert total == pytest.approx(1, abs=1e-12)


def test_operators_compose_to_sequence_probabilities() -> None:
    # P(o_0..o_{T-1}) is the sum of A(o_{T-1}) .. A(o_0) start: every operator emits, then moves.
    rng = np.random.default_rng(62)
    for _ in range(15):
        problem = random_problem(rng, horizon=int(rng.integers(1, 4)), budget=500)
        policy = random_policy(rng, problem)
        product, pi = compiled(problem, policy)
        for sequence, chance in list(prefixes(oracles.joint(problem, policy), problem.horizon).items())[:5]:
            now = start_distribution(product.process)
            for name in names(sequence):
                now = observable_operator(product, pi, name) @ now
            assert now.sum() == pytest.approx(sum(chance.values()), abs=1e-12)


def prefixes(joint: oracles.Joint, length: int) -> dict[oracles.Sequence, dict[str, float]]:
    """The first observations -> secret value -> probability."""
    found: dict[oracles.Sequence, dict[str, float]] = {}
    for (value, sequence), chance in joint.items():
        masses = found.setdefault(sequence[:length], {})
        masses[value] = masses.get(value, 0.0) + chance
    return found


def test_posteriors_of_the_first_observations() -> None:
    rng = np.random.default_rng(65)
    for _ in range(15):
        problem = random_problem(rng, horizon=int(rng.integers(1, 4)), budget=500)
        policy = random_policy(rng, problem)
        product, pi = compiled(problem, policy)
        joint = oracles.joint(problem, policy)
        for length in range(1, problem.horizon + 1):
            for sequence, masses in list(prefixes(joint, length).items())[:5]:
                total = sum(masses.values())
                assert sequence_probability(product, pi, names(sequence)) == pytest.approx(total, abs=1e-12)
                expected = {value: chance / total for value, chance in masses.items()}
                check_posterior(secret_posterior(product, pi, names(sequence)), expected)


def test_an_impossible_sequence_has_no_posterior() -> None:
    rng = np.random.default_rng(63)
    problem = random_problem(rng, secret="last_state", horizon=1, watches_actions=False)
    names, emission = (*problem.observer.observations, "never"), problem.observer.emission
    wider = replace(problem.observer, observations=names, emission=replace(emission, num_columns=len(names)))
    product, pi = compiled(replace(problem, observer=wider), random_policy(rng, problem))
    assert sequence_probability(product, pi, ["never", "never"]) == 0
    with pytest.raises(OpaqError):
        secret_posterior(product, pi, ["never", "never"])


@pytest.mark.parametrize("seed", range(10))
def test_likelihoods_agree_with_hmmlearn(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from hmmlearn.hmm import CategoricalHMM

    rng = np.random.default_rng([64, seed])
    problem = random_problem(rng, conditions=("state",), horizon=3, watches_actions=False)
    policy = random_policy(rng, problem)
    chain = CategoricalHMM(n_components=problem.mdp.num_states, implementation="scaling")
    chain.startprob_ = problem.mdp.start
    chain.transmat_ = oracles.markov_chain(problem, policy)[0]
    chain.emissionprob_ = problem.observer.emission.dense()
    chain.n_features = len(problem.observer.observations)
    product, pi = compiled(problem, policy)
    for sequence in list(oracles.sequence_probabilities(oracles.joint(problem, policy)))[:8]:
        numbers = [[product.observations.index(name)] for name in names(sequence)]
        likelihood = np.exp(chain.score(np.array(numbers)))
        assert sequence_probability(product, pi, names(sequence)) == pytest.approx(likelihood, rel=1e-10)


def test_a_batch_of_sequences_of_any_length_is_filtered_like_each_alone() -> None:
    product = compile_problem(load_problem("two-sink"))
    pi, operators = product.policy_vector(None), {}
    for name in product.observations:
        operators[name] = observable_operator(product, pi, name)
    every = [list(names) for length in (1, 2, 3) for names in tuples(product.observations, repeat=length)]
    logs = log_probabilities(product, pi, every)
    assert np.isneginf(logs).any()
    for sequence, log in zip(every, logs, strict=True):
        weights = start_distribution(product.process)
        for name in sequence:  # the sum of A_o .. A_o mu, paper, proposition 1
            weights = operators[name] @ weights
        assert np.exp2(log) == pytest.approx(weights.sum(), abs=1e-12)
        assert log == filter_states(product, pi, sequence)[-1][1]
    with pytest.raises(InputError, match=r"observations\[1\]"):
        log_probabilities(product, pi, [every[0], every[-1][:2], ["N", "none such"]])
