"""What a measurement may cost: exact where the graph fits, an interval or an estimate where it does not."""

from __future__ import annotations

from dataclasses import replace
from threading import Timer
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return, secret_distribution
from opaq.beliefs.secret_prediction import SecretPredictions
from opaq.errors import BudgetError, InputError
from opaq.model.problem import Problem
from opaq.opacity.exact import evaluate
from opaq.product.compile import compile_problem
from opaq.reports.text.measurement import measurement_rows
from opaq.stop import INTERRUPTED, TIME_IS_UP, Stop, StoppedError

GRID = opaq.load_problem("grid-last-state")
LONG = replace(GRID, horizon=24)


def test_auto_is_exact_whenever_the_whole_graph_fits() -> None:
    measured = opaq.measure(GRID, sequences=0)
    assert measured.opacity.method == "exact"
    assert measured.opacity.value == opaq.measure(GRID, mode="exact", sequences=0).opacity.value


def test_auto_gives_what_is_certain_where_it_does_not_fit() -> None:
    truth = opaq.measure(GRID, mode="exact", sequences=0)
    for nodes in (50, 500, 3000):
        measured = opaq.measure(GRID, max_beliefs=nodes, sequences=0, samples=2000)
        assert measured.opacity.method in ("interval", "sampled")
        assert measured.opacity.lower - 1e-12 <= truth.opacity.value <= measured.opacity.upper + 1e-12
        assert measured.guess_error.lower - 1e-12 <= truth.guess_error.value <= measured.guess_error.upper + 1e-12


def ever_new_beliefs(horizon: int) -> Problem:
    """Level t of its belief graph has 3^t beliefs."""
    move = {"x": {"a": {"x": 0.83, "y": 0.17}}, "y": {"a": {"x": 0.29, "y": 0.71}}}
    emissions = {"x": {"u": 0.61, "v": 0.3, "w": 0.09}, "y": {"u": 0.13, "v": 0.33, "w": 0.54}}
    stated = {"states": ["x", "y"], "actions": ["a"], "start": {"x": 0.7, "y": 0.3}, "transitions": move}
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": stated,
            "observer": {"emissions": emissions},
            "secret": {"last_state": ["x"]},
            "horizon": horizon,
        }
    )


def test_auto_uses_the_memory_and_the_time_that_are_allowed() -> None:
    measured = opaq.measure(ever_new_beliefs(12), sequences=0)  # more than half a million beliefs at once
    assert measured.opacity.method == "exact"
    assert measured.num_nodes == (3**13 - 1) // 2
    assert measured.exactness_limit is None


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_beliefs": 1000}, "beliefs"),
        ({"max_memory": 2**-10}, "memory"),
        ({"mode": "sampled"}, "mode"),
        ({"mode": "interval", "max_beliefs": 10}, "mode"),
    ],
)
def test_what_kept_an_answer_from_being_exact_is_said(limits: dict[str, Any], limit: str) -> None:
    measured = opaq.measure(ever_new_beliefs(12), samples=50, sequences=0, **limits)
    assert measured.opacity.method != "exact"
    assert measured.exactness_limit is not None
    assert measured.exactness_limit.limit == limit
    if limit != "mode":  # the levels grow by 3, also those to come
        assert measured.exactness_limit.expected_nodes == pytest.approx((3**13 - 1) // 2, rel=1e-6)
    told = measured.to_dict()["exactness_limit"]
    assert told["limit"] == limit
    assert told["advice"] in dict(measurement_rows(measured))["to be exact"]


def test_the_work_for_a_whole_graph_is_limited_where_no_limit_is_given() -> None:
    process = compile_problem(ever_new_beliefs(12)).process
    budget = Budget(whole_nodes=10**9, whole_work=1e5)
    cut = evaluate(process, process.uniform(), budget=budget, whole=True)
    assert cut.limit == "work"
    assert evaluate(process, process.uniform(), budget=Budget(whole_nodes=10**9), whole=True).limit is None


def test_no_estimate_of_the_whole_graph_without_a_basis() -> None:
    measured = opaq.measure(ever_new_beliefs(200), max_beliefs=1000, samples=50, sequences=0)
    assert measured.exactness_limit is not None
    assert measured.exactness_limit.limit == "beliefs"
    assert measured.exactness_limit.expected_nodes is None


def test_exact_says_when_it_cannot_be_had() -> None:
    with pytest.raises(BudgetError, match="too many for the budget"):
        opaq.measure(GRID, mode="exact", max_beliefs=100)


@pytest.mark.parametrize("mode", ["auto", "interval", "sampled", "exact"])
def test_a_time_limit_ends_with_an_answer(mode: str) -> None:
    told: list[str] = []
    measured = opaq.measure(LONG, mode=mode, time_limit=1.0, samples=10**7, sequences=0, on_progress=told.append)
    assert measured.opacity.method != "exact"
    assert measured.opacity.lower <= measured.opacity.value <= measured.opacity.upper
    assert TIME_IS_UP in measured.explanation
    assert told


def test_a_stop_that_comes_first_leaves_no_answer() -> None:
    stop = Stop()
    stop.request()
    with pytest.raises(StoppedError, match=INTERRUPTED):
        opaq.measure(GRID, stop=stop)


def test_an_evaluation_that_is_stopped_gives_an_interval_that_holds_the_truth() -> None:
    process = compile_problem(GRID).process
    pi = process.uniform()
    truth = evaluate(process, pi).opacity.value
    for seconds in (0.0, 0.002, 0.005, 0.01, 0.02):
        stop = Stop()
        timer = Timer(seconds, stop.request)
        timer.start()
        found = evaluate(process, pi, stop=stop)
        timer.cancel()
        assert found.opacity.lower - 1e-12 <= truth <= found.opacity.upper + 1e-12
        assert 0.0 <= found.dropped_mass <= 1.0 + 1e-12


def test_a_stop_between_levels_that_are_made_at_once_drops_what_is_left() -> None:
    """One belief of many states on every level: nearly all the time is spent where many levels are made in one call."""
    states = [f"s{index}" for index in range(80)]
    anywhere = dict.fromkeys(states, 1 / 80)
    moves = {state: {"a": anywhere} for state in states}
    stated = {"states": states, "actions": ["a"], "start": anywhere, "transitions": moves}
    secret = {"last_state": states[:40]}
    observer = {"emissions": {"*": "nothing"}}
    problem = {"opaq": 1, "model": stated, "observer": observer, "secret": secret, "horizon": 10**5}
    process = compile_problem(opaq.build_problem(problem)).process
    pi = process.uniform()
    for seconds in (0.02, 0.03, 0.05):
        stop = Stop()
        timer = Timer(seconds, stop.request)
        timer.start()
        found = evaluate(process, pi, stop=stop)
        timer.cancel()
        assert found.opacity.upper > 0.9


def test_a_stage_ends_without_ending_the_work() -> None:
    stop = Stop()
    with stop.stage(0.0):
        while not stop.requested:
            pass
    assert not stop.requested
    with stop.limit(0.0):
        while not stop.requested:
            pass
    with stop.stage(10.0):
        pass
    assert stop.requested
    assert stop.reason == TIME_IS_UP


def test_sequences_shown_are_sought_among_few_beliefs() -> None:
    measured = opaq.measure(LONG, mode="sampled", samples=300)
    assert len(measured.revealing) == len(measured.confusing) == 3
    assert all(sequence.num_sequences is None for sequence in measured.confusing)
    assert all(0 < sequence.likeliest <= 1 for sequence in measured.confusing)


def test_wrong_words_are_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match="did you mean 'exact'"):
        opaq.measure(GRID, mode="exakt")
    with pytest.raises(InputError, match="use one of natural, lagrangian, primal-dual"):
        opaq.solve(GRID, solver="newton")


def two_states(horizon: int) -> Problem:
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["x", "y"],
                "actions": ["a"],
                "start": {"x": 1},
                "transitions": {"x": {"a": {"x": 0.5, "y": 0.5}}, "y": {"a": {"x": 0.5, "y": 0.5}}},
            },
            "observer": {"emissions": {"x": {"u": 0.7, "v": 0.3}, "y": {"u": 0.1, "v": 0.9}}},
            "secret": {"last_state": ["x"]},
            "horizon": horizon,
        }
    )


def test_loops_over_a_long_horizon_hear_the_stop() -> None:
    process = compile_problem(two_states(10**6)).process
    pi, stop = process.uniform(), Stop()
    stop.request()
    predicted = SecretPredictions.of(process, process.flow(pi), stop=stop)
    assert 1 < len(predicted.predictions) < 10**6
    for loop in (secret_distribution, expected_return):
        with pytest.raises(StoppedError):
            loop(process, pi, stop=stop)


def test_a_time_limit_that_is_too_short_to_sample_gives_the_interval() -> None:
    """Beliefs of this one do not repeat, and not one of its runs can be followed to its end."""
    problem = two_states(10**6)
    sticky = {"x": {"a": {"x": 0.9, "y": 0.1}}, "y": {"a": {"x": 0.2, "y": 0.8}}}
    stated = opaq.problem_to_dict(problem)
    stated["model"]["transitions"] = sticky
    measured = opaq.measure(opaq.build_problem(stated), time_limit=0.3)
    assert measured.opacity.method == "interval"
    assert TIME_IS_UP in measured.explanation


@pytest.mark.parametrize("horizon", [20_000])
def test_long_horizons_take_many_levels_at_a_time(horizon: int) -> None:
    problem = two_states(horizon)
    measured = opaq.measure(problem)
    u, v = np.array([0.35, 0.05]), np.array([0.15, 0.45])
    expected = -sum(float(part @ np.log2(part / part.sum())) for part in (u, v))
    assert measured.opacity.method == "exact"
    assert measured.opacity.value == pytest.approx(expected, abs=1e-9)
