"""The paper's experiments, as far as they are quick."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commands import opaq_command
from opaq.errors import InputError
from opaq.load import load_problem
from opaq.model.policy import PolicyClass
from opaq.opacity.measure import measure
from opaq.paper import experiments
from opaq.paper import reproduce as reproduction
from opaq.paper.experiments import SCENARIOS, AlgorithmSettings, ReproductionSettings, soft_policy
from opaq.paper.outcomes import ExperimentResult, Finding, outcomes_to_dict, render_outcomes
from opaq.paper.reproduce import NAMES, choose_experiments, reproduce, reproduce_into
from opaq.product.compile import compile_problem
from opaq.spec import build_problem
from trials import long

QUICK = ReproductionSettings(quick=True)


@pytest.fixture(scope="module")
def two_sinks() -> ExperimentResult:
    return reproduce("two-sink", QUICK)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5549, 0.9, 1.0])
def test_markov_policies_follow_the_closed_form(alpha: float) -> None:
    product = compile_problem(load_problem("two-sink"))
    assert experiments.markov_opacity(product, alpha) == pytest.approx(
        float(experiments.closed_form(np.array(alpha))), abs=1e-12
    )


def test_waiting_once_hides_half_a_bit() -> None:
    found = experiments.wait_once(compile_problem(load_problem("two-sink"), PolicyClass(("state", "time"))))
    assert found.opacity.value == pytest.approx(0.5, abs=1e-12)


def test_two_sinks_end_to_end(two_sinks: ExperimentResult) -> None:
    found = {finding.source: finding for finding in two_sinks.findings}
    largest = float(experiments.closed_form(np.linspace(0, 1, 100_001)).max())
    assert found["paper, Markov policies"].opacity == pytest.approx(largest, abs=1e-9)
    assert found["default solver, Markov policies"].opacity == pytest.approx(largest, abs=1e-6)
    assert found["a first, then b"].opacity == pytest.approx(0.5, abs=1e-12)


def test_the_best_timed_policy_randomises(two_sinks: ExperimentResult) -> None:
    """Wait, then b with probability beta: silence has mass 1 - beta/2, of which beta/4 is the secret."""
    beta = np.linspace(0.001, 1.0, 100_001)
    silence, secret = 1 - beta / 2, beta / 4
    share = secret / silence
    best = (silence * -(share * np.log2(share) + (1 - share) * np.log2(1 - share))).max()
    found = next(finding for finding in two_sinks.findings if finding.source == "default solver, timed policies")
    assert found.opacity >= best - 1e-6


def test_the_soft_policy_is_the_fixed_point() -> None:
    """Against plain dense iteration of Q = R + discount P V, V = temperature log sum exp(Q / temperature)."""
    model = {
        "states": ["s", "t"],
        "actions": ["stay", "go"],
        "start": {"s": 1},
        "transitions": {"s": {"stay": {"s": 1}, "go": {"t": 0.7, "s": 0.3}}, "t": {"stay": {"t": 1}, "go": {"s": 1}}},
        "rewards": {"t": 1},
    }
    problem = build_problem(
        {
            "opaq": 1,
            "model": model,
            "observer": {"emissions": {"s": {"x": 1}, "t": {"x": 1}}},
            "secret": {"last_state": ["t"]},
            "horizon": 3,
            "discount": 0.8,
            "task": {"over": "forever", "return_at_least": 0},
        }
    )
    product = compile_problem(problem)
    temperature, discount = 0.7, 0.8
    onward = np.array([[[1.0, 0.0], [0.3, 0.7]], [[0.0, 1.0], [1.0, 0.0]]])  # [state, action, next]
    reward, value = np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros(2)
    for _ in range(2000):
        quality = reward + discount * onward @ value
        value = temperature * np.log(np.exp(quality / temperature).sum(axis=1))
    expected = np.exp((quality - value[:, None]) / temperature)
    found = product.policy(soft_policy(product.process, temperature=temperature, discount=discount))
    for place, state in enumerate("st"):
        row = found.rows[(state,)]
        assert [row["stay"], row["go"]] == pytest.approx(expected[place].tolist(), abs=1e-9)


@pytest.mark.parametrize("name", ["graph", "graph-published"])
def test_the_baseline_stays_far_below_at_every_temperature(name: str) -> None:
    problem = load_problem(name)
    errors = [experiments.soft_finding(problem, temperature).guess_error for temperature in experiments.TEMPERATURES]
    assert len(errors) == 11
    assert max(error for error in errors if error is not None) < 0.2


def test_a_very_hot_baseline_is_the_uniform_policy() -> None:
    found = experiments.soft_finding(load_problem("graph"), 1e9)
    assert found.opacity == pytest.approx(0.36687189913094, abs=1e-7)


def test_every_scenario_of_the_paper_is_there() -> None:
    assert {*choose_experiments("all")} == {*NAMES}
    assert {experiment.scenario for experiment in SCENARIOS} < {*NAMES}
    with pytest.raises(InputError, match="no experiment is called 'nothing'"):
        choose_experiments("nothing")


def test_the_picture_of_the_two_sinks_shows_the_closed_form_and_what_was_found(two_sinks: ExperimentResult) -> None:
    (axes,) = two_sinks.figures["two-sink"].axes
    closed, evaluated, waiting, timed = axes.get_lines()
    assert closed.get_ydata() == pytest.approx(experiments.closed_form(closed.get_xdata()))
    assert evaluated.get_ydata() == pytest.approx(experiments.closed_form(evaluated.get_xdata()))
    found = {finding.source: finding.opacity for finding in two_sinks.findings}
    assert set(waiting.get_ydata()) == {found["paper, a first, then b"]}
    assert set(timed.get_ydata()) == {found["default solver, timed policies"]}


def test_the_picture_of_a_solved_scenario_is_its_trace() -> None:
    experiment = next(each for each in SCENARIOS if each.scenario == "graph-published")
    few = replace(experiment, settings=replace(experiment.settings, iterations=200, samples=50), timed=False)
    outcome = experiments.run_scenario(few, QUICK)
    opacity, earned = outcome.figures["graph-published"].axes
    by_paper, best, reported = opacity.get_lines()
    assert by_paper.get_xdata().tolist() == list(range(1, 21))  # quick: a tenth of the iterations
    found = next(finding for finding in outcome.findings if finding.source == "default solver")
    assert set(best.get_ydata()) == {found.opacity}
    assert set(reported.get_ydata()) == {few.published.opacity}
    assert set(earned.get_lines()[-1].get_ydata()) == {0.2}
    assert list(outcome.figures) == ["graph-published"]  # no grid, no picture of cells


def test_a_policy_made_for_the_task_is_not_credited_to_the_algorithm() -> None:
    problem = load_problem("graph")
    short = AlgorithmSettings(eta=1.0, kappa=0.2, iterations=600, samples=50)
    solution = QUICK.solve_by_paper(problem, short)
    own, fallback = experiments.paper_rows(solution)
    last = solution.product.policy(solution.product.process.softmax(solution.starts[0].result.end.state.theta))
    assert (own.source, own.status, own.feasible) == ("paper's algorithm", "completed", False)
    assert own.opacity == measure(problem, last).opacity.value
    assert own.expected_return == measure(problem, last).expected_return < 0.2
    assert (fallback.source, fallback.status, fallback.feasible) == ("paper's algorithm: fallback", "edge", True)
    assert fallback.opacity == solution.measurement.opacity.value
    assert "made for the task alone" in fallback.note
    shown = render_outcomes([ExperimentResult("graph", "Graph", (own, fallback))])
    assert "| NO       | completed |" in shown
    assert [row.feasible for row in experiments.rows_of("any", solution)] == [False, True]


def test_without_matplotlib_it_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(reproduction, "reproduce", lambda *_: pytest.fail("the work began"))
    with pytest.raises(InputError, match="matplotlib, which is not installed"):
        reproduce_into(tmp_path, ["two-sink"], QUICK)
    assert list(tmp_path.iterdir()) == []


def test_tables_keep_unknown_figures_empty() -> None:
    outcome = ExperimentResult("x", "X", (Finding("paper", 0.888, expected_return=0.313),))
    assert "| paper  | 0.888   | 0.313  |             |          |        |      |      |" in render_outcomes([outcome])
    (found,) = outcomes_to_dict([outcome], version="0", seed=0, quick=False)["experiments"][0]["findings"]
    assert found["opacity"] == {"value": 0.888, "lower": None, "upper": None, "method": "published"}
    assert found["feasible"] is None


@long
def test_times_do_not_include_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_sinks: ExperimentResult
) -> None:
    order: list[str] = []
    monkeypatch.setattr(reproduction, "compile_kernels", lambda derivatives: order.append("compile"))
    monkeypatch.setattr(reproduction, "reproduce", lambda name, settings: order.append(name) or two_sinks)
    reproduce_into(tmp_path, ["two-sink"], QUICK)
    assert order == ["compile", "two-sink"]


def test_nothing_is_overwritten_and_nothing_is_run_before_saying_so(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text("mine")
    heard: list[str] = []
    with pytest.raises(InputError, match=r"results.md: exists already; use --overwrite"):
        reproduce_into(tmp_path, ["two-sink"], replace(QUICK, on_progress=heard.append))
    assert heard == []
    assert (tmp_path / "results.md").read_text() == "mine"


def test_the_command_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["reproduce", "two-sink", "--quick", "--output", "made", "--json"]
    first = opaq_command(*given)
    told = json.loads(first.stdout)
    assert json.loads((tmp_path / "made" / "results.json").read_text()) == told
    table = (tmp_path / "made" / "results.tex").read_text()
    assert "source & opacity & return & guess error & task met & status & time & note \\\\\n" in table
    assert table.count("\\begin{table}") == len(told["experiments"])
    assert "default solver" in first.stderr
    heads = {ending: (tmp_path / "made" / f"two-sink{ending}").read_bytes()[:4] for ending in (".pdf", ".svg", ".png")}
    assert heads == {".pdf": b"%PDF", ".svg": b"<?xm", ".png": b"\x89PNG"}
    again = opaq_command(*given)
    assert again.returncode == 2
    assert "made: results.md: exists already" in again.stderr
    assert again.stdout == ""


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reproduction, "reproduce", lambda *_: pytest.fail("the work began"))
    (tmp_path / "file").write_text("")
    (tmp_path / "odd" / "results.md").mkdir(parents=True)
    for folder, reason in (("/proc/out", "cannot be made"), (tmp_path / "file", "cannot be made"), ("/proc", "no new")):
        with pytest.raises(InputError, match=reason):
            reproduce_into(Path(folder), ["two-sink"], QUICK)
    with pytest.raises(InputError, match="is a folder, not a file"):
        reproduce_into(tmp_path / "odd", ["two-sink"], QUICK, overwrite=True)


def test_a_disk_that_fills_up_does_not_end_the_work(tmp_path: Path, monkeypatch, two_sinks: ExperimentResult) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reproduction, "reproduce", lambda *_: two_sinks)
    monkeypatch.setattr(os, "replace", refuse)
    lost: list[InputError] = []
    outcomes = reproduce_into(tmp_path, ["two-sink", "graph"], QUICK, on_failure=lost.append)
    assert outcomes == [two_sinks, two_sinks]
    assert ["No space left" in str(error) for error in lost] == [True, True]
    with pytest.raises(InputError, match="No space left"):
        reproduce_into(tmp_path, ["two-sink"], QUICK)
