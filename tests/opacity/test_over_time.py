"""Opacity after every observation and final confidences, against enumeration."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import opaq
import oracles
from opaq.opacity import over_time
from opaq.opacity.over_time import Confidences, OpacityOverTime, knowledge_over_time
from random_problems import SECRETS, random_policy, random_problem


def knowledge(
    problem: opaq.Problem, policy: opaq.Policy | None = None
) -> tuple[opaq.Measurement, OpacityOverTime, Confidences]:
    measurement = opaq.measure(problem, policy)
    product = opaq.compile_problem(problem, None if policy is None else policy.policy_class)
    rng = np.random.default_rng(0)
    over, confidences = knowledge_over_time(
        product.process, product.policy_vector(policy), measurement, rng=rng, stop=opaq.Stop()
    )
    assert over is not None
    assert confidences is not None
    return measurement, over, confidences


def cut(joint: oracles.Joint, length: int) -> oracles.Joint:
    """P(Z, o_0 .. o_t) from P(Z, o_0 .. o_T)."""
    shorter: oracles.Joint = defaultdict(float)
    for (value, sequence), chance in joint.items():
        shorter[value, sequence[:length]] += chance
    return shorter


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("seed", range(4))
def test_every_time_is_that_of_enumeration(kind: str, seed: int) -> None:
    rng = np.random.default_rng([7, seed, SECRETS.index(kind)])
    problem = random_problem(rng, secret=kind)
    policy = random_policy(rng, problem)
    joint = oracles.joint(problem, policy)
    measurement, over, confidences = knowledge(problem, policy)
    assert over.method == confidences.method == "exact"
    for time in range(problem.horizon + 1):
        shorter = cut(joint, time + 1)
        assert over.opacity[time] == pytest.approx(oracles.opacity(shorter), abs=1e-9)
        assert over.guess_error[time] == pytest.approx(oracles.guess_error(shorter), abs=1e-9)
    assert over.opacity[-1] == measurement.opacity.value
    assert over.guess_error[-1] == measurement.guess_error.value
    assert (np.diff(over.opacity) <= 0).all()
    right, wrong = np.zeros(20), np.zeros(20)
    sure = 0.0
    for row in oracles.posterior_masses(joint).values():
        total, best = sum(row.values()), max(row.values())
        bin_number = min(int(best / total * 20 + 1e-9), 19)
        right[bin_number] += best
        wrong[bin_number] += total - best
        sure += total * (best / total >= 0.99)
    assert confidences.right == pytest.approx(right, abs=1e-9)
    assert confidences.wrong == pytest.approx(wrong, abs=1e-9)
    assert confidences.sure == pytest.approx(sure, abs=1e-9)
    assert confidences.wrong.sum() == pytest.approx(measurement.guess_error.value, abs=1e-9)
    assert (confidences.right + confidences.wrong).sum() == pytest.approx(1.0, abs=1e-9)


def test_many_secret_values_change_nothing() -> None:
    """Where a prediction from every state is too large, beliefs are moved on one by one."""
    problem = opaq.load_problem("grid-initial-state-4")
    _, exact, _ = knowledge(problem)
    assert exact.opacity[0] == pytest.approx(np.log2(3), abs=1e-9)  # the first observation is null in every start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_time, "backward_cost", lambda process: np.inf)
        _, estimated, confidences = knowledge(problem)
    assert estimated.method == confidences.method == "estimate"
    inside = (estimated.lower - 1e-9 <= exact.opacity) & (exact.opacity <= estimated.upper + 1e-9)
    assert inside.mean() > 0.7
    assert (np.diff(estimated.opacity) <= 0).all()


@pytest.mark.parametrize("nodes", [1, 5, 20, 200])
def test_intervals_hold_the_truth(nodes: int) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    measurement, exact, _ = knowledge(problem)
    product = opaq.compile_problem(problem)
    pi = product.process.uniform()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_time, "_SOME_NODES", nodes)
        part = over_time._build_partial_graph(product.process, pi, opaq.Stop())
    assert part is not None
    assert not part.graph.whole
    over = over_time._over_time(measurement, part, over_time._uncertainties(product.process, pi, part, opaq.Stop()))
    assert over.method == "interval"
    assert (over.lower - 1e-12 <= exact.opacity).all()
    assert (exact.opacity <= over.upper + 1e-12).all()
    assert (over.lower <= over.upper).all()


def test_sampled_runs_are_within_their_error() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    _, exact, sure = knowledge(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_time, "_MOST_NODES", 0)
        patch.setattr(over_time, "_SOME_NODES", 1)
        _, sampled, histogram = knowledge(problem)
    assert sampled.method == histogram.method == "estimate"
    assert np.abs(sampled.opacity - exact.opacity).max() < 0.03
    assert np.abs(histogram.right - sure.right).max() < 0.06
    assert (histogram.right + histogram.wrong).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_request_to_stop_gives_nothing() -> None:
    product = opaq.compile_problem(opaq.load_problem("two-sink"))
    stop = opaq.Stop()
    stop.request()
    pi = product.process.uniform()
    measurement = opaq.measure("two-sink")
    rng = np.random.default_rng(0)
    assert knowledge_over_time(product.process, pi, measurement, rng=rng, stop=stop) == (None, None)


def test_the_public_call_is_the_same() -> None:
    problem = opaq.load_problem("graph")
    measurement, over, _ = knowledge(problem, opaq.return_optimal_policy(problem))
    asked = opaq.opacity_over_time(problem, "return-optimal")
    assert asked == over
    assert asked.opacity[-1] == measurement.opacity
    table = asked.to_dataframe()
    assert table["opacity"].tolist() == asked.opacity.tolist() == asked.to_dict()["opacity"]
    assert table["time"].tolist() == list(range(problem.horizon + 1))


def test_a_call_that_has_no_time_says_so() -> None:
    with pytest.raises(opaq.StoppedError):
        opaq.opacity_over_time("grid-last-state", time_limit=1e-9)


def test_the_most_revealing_sequences_by_enumeration() -> None:
    problem = opaq.load_problem("two-sink")
    joint = oracles.joint(problem)
    prior = oracles.secret_distribution(joint)
    likely = oracles.sequence_probabilities(joint)
    shares = defaultdict(float)
    for (value, sequence), mass in joint.items():
        shares[sequence] += mass * np.log2(mass / likely[sequence] / prior[value])
    told = opaq.most_revealing(problem, count=2)
    assert [each.bits for each in told] == sorted((each.bits for each in told), reverse=True)
    assert len(told) == 2
    for each in told:  # a beginning after which the secret is out stands for all that follows
        begun = tuple((name,) for name in each.observations)
        meant = sum(bits for sequence, bits in shares.items() if sequence[: len(begun)] == begun)
        assert each.bits == pytest.approx(meant, abs=1e-9)
    assert float(told.leakage) == pytest.approx(sum(shares.values()), abs=1e-9)
    assert told.to_dataframe()["bits"].tolist() == [each.bits for each in told]
    assert told.to_dict()["sequences"][0]["observations"] == list(told[0].observations)
    assert "most revealing" in told._repr_html_()
