"""Sums over all moments: the entropy of the outputs and secrets of the present, against enumeration and differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracles
from opaq.beliefs.graph import STEP, Budget
from opaq.model.arrays import SparseRows, ints
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import StateClasses
from opaq.model.uncertainty import GuessError, Guesswork, Shannon
from opaq.opacity.amount import Amount
from opaq.opacity.functionals import Functional, may_cut
from opaq.opacity.levels import Levels, trajectory_figure
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Stop
from random_problems import CONDITIONS, random_policy, random_problem

BUDGET = Budget()


def value(figure: Functional, pi: np.ndarray, budget: Budget = BUDGET) -> Amount:
    return figure.evaluate(pi, budget=budget, stop=Stop()).amount


def differences(levels: Levels, pi: np.ndarray) -> np.ndarray:
    """Central differences of the value by every probability: the derivative as a function without constraints."""
    steps = 1e-6 * np.eye(pi.size)
    return np.array([(levels.slope(pi + step)[0] - levels.slope(pi - step)[0]) / 2e-6 for step in steps])


def some_levels(seed: int, count: int) -> list[tuple[Levels, np.ndarray]]:
    """Functionals of every kind on random processes, with a policy vector each."""
    rng, cases = np.random.default_rng(seed), []
    for number in range(count):
        product = compile_problem(random_problem(rng, secret="last_state", budget=1500))
        process, leaf = product.process, (Shannon(), GuessError(), Guesswork())[number % 3]
        pi = process.softmax(rng.normal(size=process.num_slots))
        weights = rng.random(process.horizon + 1) * (rng.random(process.horizon + 1) < 0.8)
        cases.append((Levels.outputs(process), pi))
        cases.append((Levels.present(process, leaf.over(product.secret_values), weights), pi))
        ones = np.ones(process.horizon + 1)
        cases.append((Levels.present(process, Shannon().over(product.secret_values), ones, least=0.05), pi))
    return cases


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_entropy_of_outputs_is_that_of_all_sequences(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng([31, CONDITIONS.index(conditions)])
    for _ in range(6):
        problem = random_problem(rng, conditions=conditions)
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        amount = value(Levels.outputs(product.process), product.policy_vector(policy))
        assert amount.method == "exact"
        assert amount.value == pytest.approx(oracles.output_entropy(problem, policy), abs=1e-12)


def test_merged_observations_count_by_their_own_names() -> None:
    """Observations whose columns are proportional are one in the graph, and several in what is seen."""
    rng = np.random.default_rng(32)
    for _ in range(8):
        problem = random_problem(rng, watches_actions=False)
        dense = np.zeros((problem.mdp.num_states, len(problem.observer.observations)))
        for state in range(problem.mdp.num_states):
            columns, values = problem.observer.emission.row(state)
            dense[state, columns] = values
        split = np.concatenate([0.25 * dense, 0.75 * dense], axis=1)
        names = tuple(f"o{index}" for index in range(split.shape[1]))
        observer = type(problem.observer)(names, SparseRows.from_dense(split))
        twice = type(problem)(problem.mdp, observer, problem.secret, problem.horizon, policy_class=problem.policy_class)
        policy = random_policy(rng, twice)
        product = compile_problem(twice)
        pi = product.policy_vector(policy)
        seen = value(Levels.outputs(product.process), pi).value
        assert seen == pytest.approx(oracles.output_entropy(twice, policy), abs=1e-12)
        once = value(Levels.outputs(compile_problem(problem).process), pi).value
        coin = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
        assert seen == pytest.approx(once + (problem.horizon + 1) * coin, abs=1e-11)


def test_every_moment_against_enumeration() -> None:
    rng = np.random.default_rng(33)
    for _ in range(30):
        problem = random_problem(rng, secret="last_state")
        policy = random_policy(rng, problem)
        product = compile_problem(problem)
        leaf, weights = Shannon().over(product.secret_values), rng.random(problem.horizon + 1)
        levels = Levels.present(product.process, leaf, weights)
        at = levels.moments(product.policy_vector(policy))
        truth = oracles.moment_opacities(problem, policy, problem.secret.classes.of_state)
        assert [moment.value for moment in at.amounts] == pytest.approx(truth, abs=1e-12)
        assert levels.amount(at).value == pytest.approx(weights @ truth, abs=1e-12)
        least = replace(levels, weights=np.ones_like(weights), least=0.0)
        assert least.amount(at).value == pytest.approx(min(truth), abs=1e-12)


def test_slopes_against_differences() -> None:
    for levels, pi in some_levels(34, 9):
        found, slope = levels.slope(pi)
        assert found == pytest.approx(value(levels, pi).value, abs=1e-12)
        if levels.leaf.smooth:  # a soft minimum is
            assert slope == pytest.approx(differences(levels, pi), rel=1e-6, abs=1e-6)


def test_frozen_sweeps_equal_the_hashed_graph_at_changed_policies() -> None:
    rng = np.random.default_rng(35)
    for levels, pi in some_levels(36, 9):
        process = levels.process
        sweep = levels.freeze(pi, budget=BUDGET, stop=Stop())
        for spread in (0.0, 0.2, 2.0):
            there = process.softmax(process.logits(pi) + spread * rng.normal(size=pi.size))
            (found, by_pi), (expected, slope) = sweep(there), levels.slope(there)
            assert found == pytest.approx(expected, abs=1e-12)
            assert by_pi == pytest.approx(slope, rel=1e-10, abs=1e-11)


def test_complex_sweeps_carry_second_derivatives() -> None:
    rng = np.random.default_rng(37)
    for levels, pi in some_levels(38, 6):
        if levels.leaf.compiled != "opacity" or not levels.smooth:
            continue
        direction = rng.normal(size=pi.size)
        swept = levels.freeze(pi, budget=BUDGET, stop=Stop())(pi + 1j * STEP * direction)
        ahead, behind = (levels.slope(pi + sign * 1e-6 * direction)[1] for sign in (1.0, -1.0))
        assert np.imag(swept[1]) / STEP == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-5)


def test_intervals_hold_what_a_small_budget_drops() -> None:
    narrowed = 0
    for levels, pi in some_levels(39, 20):
        truth = value(levels, pi).value
        amount = value(levels, pi, Budget(nodes=2))
        assert amount.lower - 1e-12 <= truth <= amount.upper + 1e-12
        narrowed += amount.method == "interval"
    assert narrowed > 5


def test_sampled_values_and_slopes_agree_within_their_errors() -> None:
    off = []
    for number, (levels, pi) in enumerate(some_levels(40, 6)):
        truth, slope = levels.slope(pi)
        found, error, estimated = levels.sample(pi, samples=4000, rng=np.random.default_rng(number))
        off.append((found - truth) / max(error, 1e-9))
        thinned = levels.estimate(pi, nodes=3, rng=np.random.default_rng(number), stop=Stop())
        assert abs(thinned.value - truth) <= 6.0 * thinned.standard_error + 1e-9
        assert np.abs(estimated - slope).max() <= 0.1 * max(1.0, np.abs(slope).max())
    assert np.abs(off).max() < 4.5


def test_a_stop_counts_as_missing() -> None:
    levels, pi = some_levels(41, 1)[0]
    stop = Stop()
    stop.request()
    amount = levels.evaluate(pi, budget=BUDGET, stop=stop).amount
    assert amount.lower <= value(levels, pi).value <= amount.upper


def _binary_symmetric(horizon: int, flip: float) -> HiddenProcess:
    from opaq.spec import build_problem

    bits = {"zero": 0.5, "one": 0.5}
    return compile_problem(
        build_problem(
            {
                "opaq": 1,
                "model": {
                    "states": ["zero", "one"],
                    "actions": ["a"],
                    "start": bits,
                    "transitions": {"zero": {"a": bits}, "one": {"a": bits}},
                },
                "observer": {"emissions": {"zero": {"0": 1 - flip, "1": flip}, "one": {"0": flip, "1": 1 - flip}}},
                "secret": {"last_state": True},
                "horizon": horizon,
            }
        )
    ).process


def test_independent_bits_through_a_binary_symmetric_channel() -> None:
    process = _binary_symmetric(6, 0.1)
    assert value(Levels.outputs(process), process.uniform()).value == pytest.approx(7.0, abs=1e-12)
    noise = -(0.1 * np.log2(0.1) + 0.9 * np.log2(0.9))
    present = Levels.present(process, Shannon().over(("zero", "one")), np.ones(7))
    assert value(present, process.uniform()).value == pytest.approx(7 * noise, abs=1e-12)


def trajectory_oracles(problem: Problem, policy: Policy, class_of: np.ndarray) -> tuple[float, float]:
    """H(W_0 .. W_T | Y) and H(W_0 .. W_T) by enumeration."""
    joint = oracles.run_joint(problem, policy, lambda states: tuple(class_of[list(states)].tolist()))
    words = oracles.entropy_of(oracles.secret_distribution(joint))
    return oracles.entropy_of(joint) - oracles.entropy_of(oracles.sequence_probabilities(joint)), words


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_trajectories_against_enumeration(conditions: tuple[str, ...]) -> None:
    """Machines with memory, observers of actions and languages are part of the random problems."""
    rng = np.random.default_rng([42, CONDITIONS.index(conditions)])
    for _ in range(3):
        drawn = random_problem(rng, conditions=conditions)
        classes = StateClasses(drawn.mdp.states, ints(np.arange(drawn.mdp.num_states)))
        if rng.random() < 0.6:
            classes = StateClasses(("u", "v"), ints(rng.integers(2, size=drawn.mdp.num_states)))
        policy = random_policy(rng, drawn)
        product = compile_problem(drawn)
        process = replace(product.process, secret=ints(classes.of_state[product.state_of]))
        figure, pi = trajectory_figure(process), product.policy_vector(policy)
        opacity, words = trajectory_oracles(drawn, policy, classes.of_state)
        assert value(figure, pi).value == pytest.approx(opacity, abs=1e-12)
        assert figure.prior(pi, stop=Stop())[0] == pytest.approx(words, abs=1e-12)
        theta = rng.normal(size=process.num_slots)
        there = process.softmax(theta)
        _, slope = figure.slope(there, budget=BUDGET, stop=Stop())
        steps = 1e-6 * np.eye(there.size)
        ends = [
            [figure.slope(there + sign * step, budget=BUDGET, stop=Stop())[0] for sign in (1, -1)] for step in steps
        ]
        assert slope == pytest.approx(np.array([(up - down) / 2e-6 for up, down in ends]), rel=1e-6, abs=1e-6)


def test_differences_of_entropies_are_not_searched_on_cut_graphs() -> None:
    levels, _ = some_levels(43, 1)[0]
    assert may_cut(levels)
    assert not may_cut(trajectory_figure(levels.process))
