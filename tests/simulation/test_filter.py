"""What the observer believes along a sequence of observations, against the enumeration of all runs."""

from __future__ import annotations

import json
import math
from collections import defaultdict

import numpy as np
import pytest

import opaq
import oracles
from random_problems import random_policy, random_problem


@pytest.mark.parametrize("seed", range(6))
def test_beliefs_are_those_of_enumeration(seed: int) -> None:
    rng = np.random.default_rng([11, seed])
    problem = random_problem(rng, watches_actions=False)
    policy = random_policy(rng, problem)
    seen = opaq.simulate(problem, policy, runs=1, seed=seed)[0].observations
    filtering = opaq.filter(problem, seen, policy)
    assert [step.observation for step in filtering.steps] == list(seen)
    for step in filtering.steps:
        secret, states = defaultdict(float), defaultdict(float)
        for run in oracles.enumerate_runs(problem, policy):
            for sequence, chance in oracles.observation_sequences(problem, run):
                if [name for (name,) in sequence[: step.time + 1]] == list(seen[: step.time + 1]):
                    secret[oracles.secret_value(problem, run.states)] += run.probability * chance
                    states[problem.mdp.states[run.states[step.time]]] += run.probability * chance
        total = sum(secret.values())
        assert step.log2_probability == pytest.approx(math.log2(total), abs=1e-9)
        for value, share in step.secret.items():
            assert share == pytest.approx(secret[value] / total, abs=1e-9)
        assert {name: pytest.approx(mass / total, abs=1e-9) for name, mass in states.items()} == dict(step.states)


def test_as_a_table_and_as_json() -> None:
    filtering = opaq.filter("two-sink", ["N", "N"])
    assert json.loads(json.dumps(filtering.to_dict()))["steps"][1]["observation"] == "N"
    table = filtering.to_dataframe()
    assert table["P(yes)"].tolist() == [step.secret["yes"] for step in filtering.steps]
    assert "two-sink" in filtering._repr_html_()


def test_what_cannot_be_seen_is_refused() -> None:
    with pytest.raises(opaq.InputError, match=r"observations\[0\]: 'R' has probability 0"):
        opaq.filter("two-sink", ["R", "N"])
    with pytest.raises(opaq.InputError, match="is a text"):
        opaq.filter("two-sink", "NNN")
    with pytest.raises(opaq.InputError):
        opaq.filter("two-sink", ["?"])
