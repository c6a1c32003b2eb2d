"""Shown sequences against the enumeration of all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np
import pytest

import opaq
import oracles
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import secret_distribution
from opaq.opacity.filtering import filter_states, sequence_probability
from opaq.opacity.sequences import ObservedSequence, rank_sequences
from opaq.product.compile import Product, compile_problem
from random_problems import SECRETS, random_policy, random_problem

MANY = 10_000


def shown(product: Product, pi: np.ndarray, *, budget: Budget | None = None) -> list[ObservedSequence]:
    prior = secret_distribution(product.process, pi)
    revealing, confusing = rank_sequences(product, pi, prior, count=MANY, budget=budget or Budget())
    return [*revealing, *confusing]


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("seed", range(3))
def test_probability_and_posterior_of_the_sequence_shown(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, SECRETS.index(kind)])
    problem = random_problem(rng, secret=kind, watches_actions=False)
    policy = random_policy(rng, problem)
    product = compile_problem(problem)
    mass: dict[tuple[str, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (value, sequence), chance in oracles.joint(problem, policy).items():
        names = tuple(name for (name,) in sequence)
        for length in range(1, len(names) + 1):
            mass[names[:length]][value] += chance
    for found in shown(product, product.policy_vector(policy)):
        truth = mass[found.observations]
        total = sum(truth.values())
        assert found.likeliest == pytest.approx(total, rel=1e-9)
        assert found.likeliest <= found.probability * (1 + 1e-12)
        for value, share in found.posterior.items():
            assert share == pytest.approx(truth[value] / total, abs=1e-9)


def prefixes(product: Product, pi: np.ndarray, length: int) -> Iterator[tuple[str, ...]]:
    """Every sequence of this length that can occur."""
    if length == 0:
        yield ()
        return
    for before in prefixes(product, pi, length - 1):
        for name in product.observations:
            if sequence_probability(product, pi, (*before, name)) > 0:
                yield (*before, name)


def group(product: Product, pi: np.ndarray, sequence: tuple[str, ...]) -> Hashable:
    if not sequence:
        return ()
    belief, _ = filter_states(product, pi, sequence)[-1]
    return sequence[-1], tuple(belief.round(9) + 0.0)


@pytest.mark.parametrize("name", ["two-sink", "graph"])
def test_groups_are_counted_and_weighed(name: str) -> None:
    product = compile_problem(opaq.load_problem(name))
    pi = product.policy_vector(None)
    together: dict[Hashable, list[float]] = defaultdict(list)
    for length in range(1, product.process.horizon + 2):
        for sequence in prefixes(product, pi, length):
            mass = sequence_probability(product, pi, sequence)
            together[length, group(product, pi, sequence)].append(mass)
            together[length, group(product, pi, sequence[:-1]), sequence[-1]].append(mass)
    merged = 0
    for found in shown(product, pi):
        sequence = found.observations
        settled = max(found.posterior.values()) == 1.0
        before = (len(sequence), group(product, pi, sequence[:-1]), sequence[-1])
        members = together[before if settled else (len(sequence), group(product, pi, sequence))]
        assert found.num_sequences == len(members)
        assert found.probability == pytest.approx(sum(members), rel=1e-12)
        assert found.likeliest == pytest.approx(max(members), rel=1e-12)
        merged += len(members) > 1
    assert merged or name == "two-sink"


def test_a_graph_with_gaps_is_not_counted() -> None:
    product = compile_problem(opaq.load_problem("graph"))
    found = shown(product, product.policy_vector(None), budget=Budget(nodes=2))
    assert found
    assert {sequence.num_sequences for sequence in found} == {None}
    assert {sequence.probability for sequence in found} == {None}


@pytest.mark.parametrize("kind", SECRETS)
def test_probabilities_of_sampled_sequences_are_exact(kind: str) -> None:
    """Also of those that settle the secret before the end; a share of the runs is no probability."""
    rng = np.random.default_rng([71, SECRETS.index(kind)])
    for _ in range(4):
        problem = random_problem(rng, secret=kind)
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        pi = product.policy_vector(policy)
        measured = opaq.measure(problem, policy, mode="sampled", samples=7)
        for found in (*measured.revealing, *measured.confusing):
            true = sequence_probability(product, pi, found.observations)
            assert found.likeliest == pytest.approx(true, rel=1e-9)
            assert found.probability is None
            assert found.bits <= true * max(-np.log2(p) for p in measured.secret_distribution.values() if p) + 1e-12


def test_the_settled_continuation_of_a_cut_graph_has_its_own_probability() -> None:
    product = compile_problem(opaq.load_problem("graph"))
    pi = product.policy_vector(None)
    for found in shown(product, pi, budget=Budget(nodes=2)):
        assert found.likeliest == pytest.approx(sequence_probability(product, pi, found.observations), rel=1e-9)


def test_a_prior_that_underflowed_gives_finite_numbers() -> None:
    """A secret value of probability 0 as far as doubles can tell, and a belief that is certain of it."""
    product = compile_problem(opaq.load_problem("two-sink"))
    pi = product.policy_vector(None)
    prior = np.zeros(product.process.num_secrets)
    with np.errstate(all="raise", under="ignore"):
        for sequences in rank_sequences(product, pi, prior, count=MANY, budget=Budget()):
            assert sequences
            assert all(np.isfinite(sequence.bits) for sequence in sequences)


def test_rounding_errors_are_not_listed() -> None:
    rare = 1e-13
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["a", "b"],
                "actions": ["go"],
                "start": "a",
                "transitions": {"a": {"go": {"a": 1 - rare, "b": rare}}, "b": {"go": "b"}},
            },
            "observer": {"emissions": {"a": "o", "b": "p"}},
            "secret": {"last_state": "b"},
            "horizon": 1,
        }
    )
    measured = opaq.measure(problem)
    assert (measured.revealing, measured.confusing) == ((), ())
