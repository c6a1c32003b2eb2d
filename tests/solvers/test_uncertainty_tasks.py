"""Solving for uncertainties other than opacity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import opaq
from opaq.errors import InputError
from opaq.model.problem import Problem
from opaq.model.uncertainty import UNCERTAINTIES, ExpectedLoss, GuessError, Guesswork, Shannon, Uncertainty
from opaq.reports.layout import render_text
from opaq.reports.text.solution import solution_page
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.registry import SOLVERS
from opaq.solvers.solve import solve
from opaq.solvers.strategy import Status
from opaq.spec import problem_to_dict
from opaq.spec.problem_part import build_problem
from trials import part_of


def about(problem: Problem, of: Uncertainty, *, minimise: bool = False) -> Problem:
    return replace(problem, task=replace(problem.task, of=of, minimise=minimise))


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_does_better_than_the_uniform_policy(name: str) -> None:
    problem = about(opaq.load_problem("graph-published"), GuessError())
    solver = PrimalDual(eta=1.0, kappa=0.2, iterations=300) if name == "primal-dual" else name
    found = solve(problem, solver=solver, starts=2, workers=1)
    again = opaq.measure(problem, found.policy, sequences=0)
    assert again.guess_error.value == pytest.approx(found.measurement.uncertainty.value, abs=1e-12)
    assert again.feasible
    assert again.guess_error.value > opaq.measure(problem, sequences=0).guess_error.value + 0.05


@pytest.mark.parametrize("scenario", part_of(["two-sink", "graph-published"], 1))
@pytest.mark.parametrize("of", [GuessError(), Guesswork()], ids=lambda of: of.name)
def test_at_least_as_good_as_what_opacity_gives(scenario: str, of: Uncertainty) -> None:
    problem = opaq.load_problem(scenario)
    most_opaque = solve(problem, starts=4, workers=1).policy
    by_opacity = opaq.measure(about(problem, of), most_opaque, sequences=0).uncertainty.value
    found = solve(about(problem, of), starts=4, workers=1).measurement
    assert found.feasible
    assert found.uncertainty.value >= by_opacity - 1e-6


def test_convergence_at_a_kink_is_not_claimed_without_proof() -> None:
    """What is called converged passes the test of a supergradient, which bounds every direction's gain."""
    for scenario in ("two-sink", "graph-published"):
        found = solve(about(opaq.load_problem(scenario), GuessError()), starts=2, workers=1)
        assert found.status in (Status.CONVERGED, Status.COMPLETED, Status.STOPPED)
        if found.status is Status.CONVERGED:
            assert found.optimality is not None
            assert found.optimality.stationary
            assert found.optimality.curvature is None
            assert "local optimum" not in found.status_text
        elif found.status is Status.COMPLETED:
            assert "has kinks" in found.status_text


def test_minimising_one_with_kinks_claims_nothing() -> None:
    found = solve(about(opaq.load_problem("graph-published"), GuessError(), minimise=True), starts=2, workers=1)
    assert found.status is Status.COMPLETED
    assert found.optimality is None
    assert found.measurement.guess_error.value < 0.2


def losing(scale: float = 1.0) -> Problem:
    problem = opaq.load_problem("grid-last-state-4")
    names = opaq.compile_problem(problem).secret_values
    first, second = names[0], names[1]
    table = {"alarm": {first: 5.0 * scale}, "rest": {second: 20.0 * scale, first: -1.0 * scale}}
    return replace(about(problem, ExpectedLoss.of(table)), horizon=4)


def test_losses_of_any_size_give_the_same_policy() -> None:
    one, other = (solve(losing(scale), starts=1, workers=1) for scale in (1.0, 2.0**20))
    assert other.measurement.uncertainty.value == pytest.approx(2.0**20 * one.measurement.uncertainty.value, rel=1e-9)
    assert np.array_equal(one.pi, other.pi)


def test_the_answer_says_what_was_maximised() -> None:
    found = solve(losing(), starts=1, workers=1)
    plain = found.to_dict()
    assert plain["objective"]["direction"] == "maximise"
    assert plain["objective"]["of"] == "expected_loss"
    assert plain["objective"]["value"] == found.measurement.uncertainty.value
    assert plain["objective"]["method"] == "exact"
    reached = plain["starts"][0]["value"]  # before the polish, which only adds to it
    assert 0.9 * plain["objective"]["value"] <= reached <= plain["objective"]["value"] + 1e-9
    assert "maximised" in render_text(solution_page(found))
    plain = solve(opaq.load_problem("two-sink"), starts=1, workers=1).to_dict()
    assert plain["objective"]["of"] == "opacity"
    assert plain["starts"][0]["value"] == pytest.approx(plain["opacity"]["value"], abs=1e-6)


SPEC = {
    "opaq": 1,
    "model": {
        "states": ["left", "right"],
        "actions": ["go"],
        "start": ["left", "right"],
        "transitions": {"left": {"go": "right"}, "right": {"go": "left"}},
    },
    "observer": {"emissions": {"left": "dark", "right": "bright"}},
    "secret": {"last_state": {"west": ["left"], "east": ["right"]}},
    "horizon": 1,
}


def spec(of: object) -> dict[str, object]:
    return {**SPEC, "task": {"of": of}}


@pytest.mark.parametrize("of", [*UNCERTAINTIES, {"loss": {"flee": {"west": 1.5}, "stay": {"east": -2}}}])
def test_written_as_read(of: object) -> None:
    problem = build_problem(spec(of))
    assert build_problem(problem_to_dict(problem)).task == problem.task
    assert build_problem(SPEC).task.of == Shannon()


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("guess_eror", "task.of: unknown uncertainty 'guess_eror'"),
        ("loss", "give the losses"),
        (3, "task.of"),
        ({"los": {}}, "task.of"),
        ({"loss": {}}, "task.of.loss: is empty"),
        ({"loss": {"flee": {"wset": 1}}}, "the secret has no value 'wset'"),
        ({"loss": {"flee": {"west": "much"}}}, "task.of.loss.flee.west"),
        ({"loss": {"flee": {"west": float("inf")}}}, "task.of.loss.flee.west"),
    ],
)
def test_faults_are_named(of: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_problem(spec(of))
    assert any(message in line for line in caught.value.lines())
