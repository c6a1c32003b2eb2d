"""The channel from a secret to the observations, and its capacity: enumeration, closed forms, bounds that hold."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import opaq
import oracles
from opaq.errors import BudgetError, InputError
from opaq.model.arrays import floats
from opaq.model.uncertainty import Shannon
from opaq.opacity.channel import enumerate_channel
from opaq.opacity.measure import Measurement, measure
from random_problems import channel_problem, random_policy, random_problem


def binary_entropy(p: float) -> float:
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def test_every_column_agrees_with_enumeration() -> None:
    rng = np.random.default_rng(90)
    for _ in range(40):
        problem = random_problem(rng)
        policy = random_policy(rng, problem)
        joint = oracles.joint(problem, policy)
        prior = oracles.secret_distribution(joint)
        channel = enumerate_channel(problem, policy)
        assert dict(zip(channel.secret_values, channel.prior, strict=True)) == pytest.approx(
            {value: mass for value, mass in prior.items() if mass > 0}, abs=1e-12
        )
        expected = {" ".join(map(str, seen)) for _, seen in joint}
        assert channel.matrix.shape[1] == len(expected)
        masses = sorted(float(mass) for mass in (channel.prior[:, None] * channel.matrix).ravel() if mass > 0)
        assert masses == pytest.approx(sorted(mass for mass in joint.values() if mass > 0), abs=1e-12)
        assert channel.matrix.sum(axis=1) == pytest.approx(np.ones(len(channel.prior)))


def test_its_names_are_those_of_the_problem(tmp_path: Path) -> None:
    channel = enumerate_channel("two-sink")
    joint = oracles.joint(opaq.load_problem("two-sink"))
    for row, value in enumerate(channel.secret_values):
        for column, sequence in enumerate(channel.sequences):
            seen = tuple((channel.observations[each],) for each in sequence)
            mass = joint.get((value, seen), 0.0)
            assert channel.prior[row] * channel.matrix[row, column] == pytest.approx(mass, abs=1e-12)
    channel.save(tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as saved:
        assert np.array_equal(saved["channel"], channel.matrix)
        assert saved["secret_values"].tolist() == list(channel.secret_values)
        assert [saved["observations"][each] for each in saved["sequences"][0]] == [
            channel.observations[each] for each in channel.sequences[0]
        ]
    channel.save(tmp_path / "c.csv")
    frame = channel.to_dataframe()
    head, first, *_ = (tmp_path / "c.csv").read_text().splitlines()
    assert head.split(",") == [*frame.columns] == ["o_0", "o_1", "o_2", "P(y)", "P(y | no)", "P(y | yes)"]
    assert first.split(",") == [str(each) for each in frame.iloc[0]]
    with pytest.raises(InputError, match="exists already"):
        channel.save(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"use \.csv or \.npz"):
        channel.save(tmp_path / "c.txt")


def test_a_channel_that_is_too_large_is_refused() -> None:
    with pytest.raises(BudgetError, match="observation sequences after"):
        enumerate_channel("grid-initial-state-4", max_entries=10_000)


@pytest.mark.parametrize("flip", [0.01, 0.11, 0.3, 0.5])
def test_the_binary_symmetric_channel_has_its_closed_form(flip: float) -> None:
    channel = np.array([[1 - flip, flip], [flip, 1 - flip]])
    found = measure(channel_problem(np.array([0.9, 0.1]), channel, Shannon()), capacity=True).capacity
    assert found is not None
    assert found.bits.lower <= 1 - binary_entropy(flip) + 1e-12
    assert found.bits.upper >= 1 - binary_entropy(flip) - 1e-12
    assert found.bits.width < 1e-8
    assert found.min_entropy.value == pytest.approx(math.log2(2 * (1 - flip)))
    if flip < 0.5:
        assert list(found.prior.values()) == pytest.approx([0.5, 0.5], abs=1e-4)


@pytest.mark.parametrize("flip", [0.1, 0.5, 0.9])
def test_the_z_channel_has_its_closed_form(flip: float) -> None:
    channel = np.array([[1.0, 0.0], [flip, 1 - flip]])
    found = measure(channel_problem(np.array([0.5, 0.5]), channel, Shannon()), capacity=True).capacity
    truth = math.log2(1 + (1 - flip) * flip ** (flip / (1 - flip)))
    assert found is not None
    assert found.bits.lower - 1e-11 <= truth <= found.bits.upper + 1e-11
    assert found.bits.width < 1e-8


def test_a_value_that_the_best_prior_leaves_out_does_not_slow_the_bounds_down() -> None:
    """The third row is the mean of the others: the best distribution gives it nothing (an edge of the simplex)."""
    channel = np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]])
    found = measure(channel_problem(np.ones(3) / 3, channel, Shannon()), capacity=True).capacity
    assert found is not None
    assert found.bits.width < 1e-8
    assert found.bits.value == pytest.approx(1 - binary_entropy(0.1), abs=1e-8)
    assert min(found.prior.values()) < 1e-6


def leakage_at(problem: opaq.Problem, policy: opaq.Policy, prior: dict[str, float]) -> float:
    """The leakage of the problem at another prior of its initial secret, by enumeration."""
    joint = oracles.joint(problem, policy)
    before = oracles.secret_distribution(joint)
    moved = {(value, seen): mass / before[value] * prior[value] for (value, seen), mass in joint.items() if mass > 0}
    return oracles.secret_entropy(moved) - oracles.opacity(moved)


def test_capacity_is_the_largest_leakage_over_all_priors() -> None:
    rng = np.random.default_rng(91)
    for _ in range(25):
        problem = random_problem(rng, secret="initial_state")
        policy = random_policy(rng, problem)
        found = measure(problem, policy, capacity=True, sequences=0)
        assert found.capacity is not None
        names = list(found.capacity.prior)
        assert leakage_at(problem, policy, found.capacity.prior) >= found.capacity.bits.lower - 1e-9
        assert found.leakage.value <= found.capacity.bits.upper + 1e-9
        steps = [np.array(each) / 12 for each in product(range(13), repeat=len(names)) if sum(each) == 12]
        best = max(leakage_at(problem, policy, dict(zip(names, each, strict=True))) for each in steps)
        assert best <= found.capacity.bits.upper + 1e-9
        assert found.capacity.bits.upper <= best + 0.02
        joint, prior = oracles.joint(problem, policy), oracles.secret_distribution(oracles.joint(problem, policy))
        columns = oracles.posterior_masses(joint).values()
        total = sum(max(mass / prior[value] for value, mass in column.items() if mass > 0) for column in columns)
        assert found.capacity.min_entropy.value == pytest.approx(math.log2(total), abs=1e-9)
        assert Measurement.from_dict(found.to_dict()).capacity == found.capacity


def test_the_capacity_does_not_depend_on_the_prior() -> None:
    rng = np.random.default_rng(92)
    channel = rng.dirichlet(np.ones(4), size=3)
    one = measure(channel_problem(floats([0.2, 0.3, 0.5]), channel, Shannon()), capacity=True).capacity
    other = measure(channel_problem(floats([1e-9, 0.5, 0.5 - 1e-9]), channel, Shannon()), capacity=True).capacity
    assert one is not None
    assert other is not None
    assert one.bits.value == pytest.approx(other.bits.value, abs=1e-8)


def test_a_part_of_the_graph_gives_bounds_that_hold() -> None:
    rng, wide = np.random.default_rng(93), 0
    for _ in range(25):
        problem = random_problem(rng, secret="initial_state", horizon=3)
        policy = random_policy(rng, problem)
        whole = measure(problem, policy, capacity=True, sequences=0).capacity
        part = measure(problem, policy, capacity=True, sequences=0, max_beliefs=1, mode="interval").capacity
        assert whole is not None
        assert part is not None
        wide += part.bits.width > 1e-6
        assert part.bits.lower <= whole.bits.upper + 1e-9
        assert part.bits.upper >= whole.bits.lower - 1e-9
        assert part.min_entropy.lower <= whole.min_entropy.value + 1e-9 <= part.min_entropy.upper + 2e-9
    assert wide > 5


def test_only_initial_secrets_have_a_capacity() -> None:
    with pytest.raises(InputError, match="is no initial state"):
        measure("two-sink", capacity=True)


def test_a_channel_is_plain_data() -> None:
    channel = enumerate_channel("two-sink")
    data = json.loads(json.dumps(channel.to_dict()))
    assert data["secret_values"] == list(channel.secret_values)
    assert np.array_equal(data["channel"], channel.matrix)
    names = [[channel.observations[each] for each in seen] for seen in channel.sequences]
    assert data["sequences"] == names
