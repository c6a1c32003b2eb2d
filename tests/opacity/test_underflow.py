"""Products of probabilities below the smallest float: they add nothing, and must not be counted as anything."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses
from opaq.opacity.exact import gradient
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem

STATES = ("start", "rare", "often", "rarest", "left", "right")


def rare_path_problem() -> Problem:
    """A blind observer; two rare actions in a row lead to a state of probability 1e-400, which is 0.

    Otherwise the run ends left or right with equal chances, and which of them is the secret.
    """
    moves = {"start": ("rare", "often"), "rare": ("rarest", None), "often": (None, None)}
    rows = []
    for state in STATES:
        for target in moves.get(state, (state, state)):
            row = np.eye(6)[STATES.index(target)] if target else np.array([0, 0, 0, 0, 0.5, 0.5])
            rows.append(row)
    mdp = MDP(
        STATES, ("a", "b"), floats(np.eye(6)[0]), ints(range(0, 14, 2)), ints([0, 1] * 6), SparseRows.from_dense(rows),
        floats(np.zeros(12)), {},
    )  # fmt: skip
    blind = Observer(("o",), SparseRows.from_dense(np.ones((6, 1))))
    return Problem(mdp, blind, LastState(StateClasses(("left", "right"), ints([0, 0, 0, 0, 0, 1]))), 2)


def rare_policy(chance: float) -> Policy:
    seldom, even = {"a": chance, "b": 1 - chance}, {"a": 0.5, "b": 0.5}
    rows = {(state,): seldom if state in ("start", "rare") else even for state in STATES}
    return Policy(PolicyClass(), rows)


@pytest.mark.parametrize("chance", [0.1, 1e-16, 1e-160, 1e-162, 1e-200, 1e-300, 5e-324, 0.0])
def test_a_path_that_underflows_adds_nothing(chance: float) -> None:
    # With 1e-200 opacity was 1.5 log2 3 = 2.37744 bits "of at most 1, exact": one cell was counted twice.
    problem, policy = rare_path_problem(), rare_policy(chance)
    joint = oracles.joint(problem, policy)
    measurement = measure(problem, policy, mode="exact")
    assert measurement.opacity.value == pytest.approx(oracles.opacity(joint), abs=1e-12)
    assert measurement.guess_error.value == pytest.approx(oracles.guess_error(joint), abs=1e-12)
    assert measurement.opacity.value <= measurement.secret_entropy + 1e-12
    if chance < 1e-9:
        assert measurement.opacity.value == pytest.approx(1, abs=1e-12)
        assert measurement.guess_error.value == pytest.approx(0.5, abs=1e-12)


def test_the_same_by_logits() -> None:
    process = compile_problem(rare_path_problem()).process
    theta = np.zeros(process.num_slots)
    theta[[0, 2]] = -460.5  # softmax: 1e-200
    value, slope = gradient(process, theta)
    assert value == pytest.approx(1, abs=1e-12)
    assert np.isfinite(slope).all()
    assert np.abs(slope).max() < 1e-9


@pytest.mark.parametrize("samples", [1, 100])
def test_the_same_from_samples(samples: int) -> None:
    measurement = measure(rare_path_problem(), rare_policy(1e-200), mode="sampled", samples=samples)
    assert measurement.opacity.value == pytest.approx(1, abs=1e-12)
    assert measurement.guess_error.value == pytest.approx(0.5, abs=1e-12)
