"""Trajectories as users meet them: closed forms, every way to state one, modes, solving, runs and reports."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.errors import InputError
from opaq.load import load_problem
from opaq.opacity.guessing import _moment_shares
from opaq.solvers.loop import judge
from opaq.solvers.race import RaceResult
from opaq.solvers.registry import factory_of
from opaq.solvers.solve import Search, finish_search
from opaq.solvers.strategy import Status
from opaq.spec import build_problem
from opaq.stop import StoppedError

HALF = {"zero": 0.5, "one": 0.5}
CLEAR = {"zero": {"0": 1}, "one": {"1": 1}}
NOISE = -(0.1 * np.log2(0.1) + 0.9 * np.log2(0.9))


def bits(emissions: Any = None, **more: Any) -> dict[str, Any]:
    """Independent fair bits, seen through a channel that flips one in ten."""
    noisy = {"zero": {"0": 0.9, "1": 0.1}, "one": {"0": 0.1, "1": 0.9}}
    return {
        "opaq": 1,
        "name": "bits",
        "model": {
            "states": ["zero", "one"],
            "actions": ["flip", "keep"],
            "start": HALF,
            "transitions": {"zero": {"flip": HALF, "keep": {"zero": 1}}, "one": {"flip": HALF, "keep": {"one": 1}}},
            "rewards": {"zero": 1},
            "labels": {"p": ["zero"], "q": ["zero", "one"]},
        },
        "observer": {"emissions": emissions or noisy},
        "secret": {"trajectory": True},
        "horizon": 4,
        **more,
    }


FLIP = {"zero": {"flip": 1.0}, "one": {"flip": 1.0}}


def flipping(problem: opaq.Problem) -> opaq.Policy:
    return opaq.Policy(problem.policy_class, {(state,): row for state, row in FLIP.items()})


def test_independent_bits_through_a_binary_symmetric_channel() -> None:
    problem = build_problem(bits())
    measured = opaq.measure(problem, flipping(problem))
    assert measured.opacity.method == "exact"
    assert measured.opacity.value == pytest.approx(5 * NOISE, abs=1e-12)
    assert measured.opacity_per_step.value == pytest.approx(NOISE, abs=1e-12)
    assert measured.secret_entropy == pytest.approx(5.0, abs=1e-12)
    assert measured.leakage.value == pytest.approx(5 * (1 - NOISE), abs=1e-12)
    assert measured.guess_error.value == pytest.approx(1 - 0.9**5, abs=1e-12)
    assert measured.steps_guessed.value == pytest.approx(0.9, abs=1e-12)
    assert measured.vulnerability.prior == pytest.approx(2.0**-5, abs=1e-12)


@pytest.mark.parametrize("emissions", [{"*": "nothing"}, CLEAR], ids=["blind", "all-seeing"])
def test_who_sees_nothing_and_who_sees_all(emissions: Any) -> None:
    measured = opaq.measure(build_problem(bits(emissions)))
    blind = emissions is not CLEAR
    assert measured.opacity.value == pytest.approx(measured.secret_entropy if blind else 0.0, abs=1e-12)
    assert measured.guess_error.value == pytest.approx(measured.secret_guess_error if blind else 0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("secret", "entropy"),
    [(True, 5.0), ("p", 5.0), ({"here": ["zero"]}, 5.0), ({"labels": ["p", "q"]}, 5.0), ({"labels": ["q"]}, 0.0)],
    ids=str,
)
def test_every_way_to_state_one(secret: Any, entropy: float) -> None:
    problem = build_problem(bits(secret={"trajectory": secret}))
    assert opaq.measure(problem, flipping(problem)).secret_entropy == pytest.approx(entropy, abs=1e-12)
    assert build_problem(opaq.problem_to_dict(problem)) == problem


def test_a_variable_of_a_grid() -> None:
    grid = {"size": [3, 2], "slip": 0.1, "start": [[0, 0]]}
    spec = {"opaq": 1, "grid": grid, "observer": {"sensors": {"a": {"covers": [[1, 0]], "detects": 0.5}}}, "horizon": 3}
    row = build_problem({**spec, "secret": {"trajectory": {"variable": "row"}}})
    assert row.secret.classes.names == ("row=0", "row=1")
    whole = build_problem({**spec, "secret": {"trajectory": True}})
    assert opaq.measure(row).opacity.value <= opaq.measure(whole).opacity.value + 1e-12


def test_modes_agree() -> None:
    problem = build_problem(bits(horizon=5))
    exact, interval = opaq.measure(problem), opaq.measure(problem, mode="interval", max_beliefs=6)
    sampled = opaq.measure(problem, mode="sampled", samples=4000, seed=3)
    assert interval.opacity.lower - 1e-12 <= exact.opacity.value <= interval.opacity.upper + 1e-12
    assert abs(sampled.opacity.value - exact.opacity.value) <= 5 * sampled.opacity.standard_error
    assert sampled.exactness_limit is not None
    with pytest.raises(opaq.BudgetError):
        opaq.measure(problem, mode="exact", max_beliefs=2)


def test_solving_meets_the_task() -> None:
    solution = opaq.solve(build_problem(bits(task={"return_at_least": 2.6})), starts=1, time_limit=60)
    assert solution.measurement.feasible
    assert 2.33 <= solution.measurement.opacity.value <= 2.3385


def test_solving_from_sampled_runs_keeps_the_task() -> None:
    solution = opaq.solve(build_problem(bits(task={"return_at_least": 2.6})), gradients="sampled", time_limit=2)
    assert solution.measurement.feasible
    assert solution.gradients == "sampled"


@pytest.mark.parametrize(("when", "least", "most"), [("every", 2.340, 2.341), ("least", 0.4679, 0.468)])
def test_solving_for_every_moment(when: str, least: float, most: float) -> None:
    spec = bits(secret={"last_state": True}, task={"return_at_least": 2.6, "when": when})
    solution = opaq.solve(build_problem(spec), starts=1, time_limit=60)
    measured = solution.measurement
    assert measured.feasible
    assert least <= measured.opacity.value <= most
    values = [moment.value for moment in measured.moments]
    assert measured.opacity.value == pytest.approx(sum(values) if when == "every" else min(values), abs=1e-12)
    assert measured.uncertainty == measured.opacity


def test_answers_go_to_json_and_back() -> None:
    measured = opaq.measure(build_problem(bits()), rate=True)
    assert opaq.Measurement.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured
    assert measured.to_dict()["guesswork"] is None


def test_runs_have_the_most_likely_trajectory() -> None:
    problem = build_problem(bits(CLEAR))
    for run in opaq.replay(problem, runs=4):
        assert [step.guess for step in run.steps] == [step.state for step in run.steps]
        assert run.secret == " -> ".join(step.state for step in run.steps)
    (seen,) = opaq.replay(problem, observations=["0", "1"])
    assert [step.guess for step in seen.steps] == ["zero", "one"]
    assert seen.steps[1].belief == pytest.approx({"zero": 0.0, "one": 1.0})


def test_curves_are_those_of_the_present() -> None:
    problem = build_problem(bits())
    over = opaq.opacity_over_time(problem, flipping(problem))
    assert over.method == "exact"
    assert over.opacity == pytest.approx([NOISE] * 5, abs=1e-12)
    assert over.guess_error == pytest.approx([0.1] * 5, abs=1e-12)


def test_reports_show_the_reconstruction() -> None:
    page = opaq.report(build_problem(bits())).html
    data = json.loads(re.search(r'id="opaq-report">(.*?)</script>', page, re.DOTALL).group(1))
    steps = data["runs"][0]
    assert {step["word"] for step in steps} <= {"zero", "one"}
    assert all(step["word"] == step["state"] for step in steps)
    assert all(step["guess"] in ("zero", "one") for step in steps)
    (ends,) = (row["text"] for row in data["how"] if row["number"] == "final beliefs")
    assert "all moments" in ends


def test_what_has_no_meaning_is_refused() -> None:
    problem = build_problem(bits())
    with pytest.raises(InputError, match="capacity"):
        opaq.measure(problem, capacity=True)
    with pytest.raises(InputError, match="too many to be listed"):
        opaq.enumerate_channel(problem)
    with pytest.raises(InputError, match="too many to be listed"):
        opaq.history_program(problem)


def test_the_battery_hides_half_a_bit_per_step() -> None:
    rate = opaq.measure("battery", samples=100, rate=True).rate
    assert rate.opacity.lower <= 0.5 + 1e-12
    assert rate.opacity.upper == pytest.approx(0.5, abs=2e-5)
    assert rate.secret.value == pytest.approx(1.0, abs=1e-12)


def test_the_grid_is_exact() -> None:
    measured = opaq.measure(load_problem("grid-trajectory"), sequences=0)
    assert measured.opacity.method == "exact"
    assert measured.opacity.value == pytest.approx(12.063912154094, abs=1e-9)
    assert measured.secret_entropy == pytest.approx(15.004030996154, abs=1e-9)


def test_the_gradient_is_that_of_the_whole_run() -> None:
    """A little probability moved from one action to another changes the opacity as the slopes say."""
    problem, step = build_problem(bits()), 1e-6
    slopes = opaq.gradient(problem)[("zero",)]
    values = []
    for moved in (-step, step):
        rows = {("zero",): {"flip": 0.5 + moved, "keep": 0.5 - moved}, ("one",): {"flip": 0.5, "keep": 0.5}}
        values.append(opaq.measure(problem, opaq.Policy(problem.policy_class, rows)).opacity.value)
    assert (values[1] - values[0]) / (2 * step) == pytest.approx(slopes["flip"] - slopes["keep"], abs=1e-6)
    with pytest.raises(opaq.BudgetError):
        opaq.gradient(problem, budget=opaq.Budget(nodes=1))


def test_a_least_moment_that_is_known_is_not_a_secret_of_one_value() -> None:
    spec = bits(secret={"last_state": "p"}, task={"when": "least"})
    spec["model"]["start"] = {"zero": 1}
    solution = opaq.solve(build_problem(spec), starts=1, time_limit=20)
    measured = solution.measurement
    assert measured.opacity.value == measured.secret_entropy == 0.0
    assert max(moment.value for moment in measured.moments) > 0.4
    assert measured.constant_secret is None
    assert not solution.starts[0].hides_nothing
    assert "nothing to hide" not in solution.status_text + str(measured)
    assert "its curvature is not tested" in solution.status_text


def test_what_is_cheap_is_not_sampled() -> None:
    """The entropy of the trajectory, and that beside the observations, need one belief per state."""
    problem = build_problem(bits(horizon=6))
    exact, sampled = opaq.measure(problem), opaq.measure(problem, mode="sampled", samples=200)
    assert sampled.secret_entropy == pytest.approx(exact.secret_entropy, abs=1e-12)
    assert sampled.opacity.method == "sampled"
    assert sampled.opacity.upper <= exact.secret_entropy + 1e-9
    assert "as asked" in sampled.explanation


def test_guesses_without_observing_are_known_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = build_problem(bits())
    known = opaq.measure(problem, flipping(problem))
    monkeypatch.setattr("opaq.opacity.guessing._moment_shares", _shares_without_observing)
    measured = opaq.measure(problem, flipping(problem))
    assert known.secret_guess_error == pytest.approx(1 - 0.5**5, abs=1e-12)
    assert measured.secret_guess_error == known.secret_guess_error
    assert (measured.guess_error.lower, measured.guess_error.upper) == (0.0, known.secret_guess_error)
    assert (measured.steps_guessed.lower, measured.steps_guessed.upper) == (0.5, 1.0)


def _shares_without_observing(chain: Any, sequences: Any) -> Any:
    """As if time were up whenever there is something to observe."""
    if sequences.weight.size > 1:
        raise StoppedError
    return _moment_shares(chain, sequences)


def test_a_sampled_search_that_runs_out_of_time_speaks_of_no_cut() -> None:
    """The policy that is made when time is up is judged by drawn beliefs as all others are, not on a cut graph."""
    problem, stop = build_problem(bits(horizon=20, task={"return_at_least": 11.5})), opaq.Stop()
    options = opaq.SolveOptions(gradients="sampled", max_beliefs=5)
    search = Search.prepare(problem, problem.policy_class, factory_of("natural"), options, warm=None, stop=stop)
    even = judge(search.objective, np.zeros(search.product.process.num_slots))
    stop.request()
    verdict = finish_search(search, RaceResult((), even, (), Status.TIME_LIMIT))
    assert not even.feasible
    assert verdict.candidate.feasible
    assert verdict.candidate.is_estimate
    assert verdict.untested == ""


@pytest.mark.parametrize("condition", ["time", {"observations": "all"}])
def test_policies_with_a_growing_history_have_no_rate(condition: Any) -> None:
    problem = build_problem(bits(policy={"conditions_on": ["state", condition]}))
    with pytest.raises(InputError, match="has no long run"):
        opaq.measure(problem, rate=True)


@pytest.mark.parametrize("condition", [{"last_states": 2}, {"observations": 1}])
def test_policies_with_a_short_history_have_a_rate(condition: Any) -> None:
    alone, longer = (build_problem(bits(policy={"conditions_on": ["state", *more]})) for more in ([], [condition]))
    rates = [opaq.measure(each, rate=True).rate.opacity for each in (alone, longer)]  # of uniform policies
    assert rates[1].lower <= rates[0].upper
    assert rates[0].lower <= rates[1].upper
    assert rates[1].upper - rates[1].lower <= 1e-2
