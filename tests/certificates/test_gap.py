"""Solving to a proven gap: policy and bound close in, and never cross."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import opaq
from commands import opaq_command
from opaq.certificates import gap as gap_module
from opaq.certificates.certify import CertificateStatus
from opaq.certificates.gap import Gap, _GapSearch, larger_classes
from opaq.opacity.amount import Amount
from opaq.opacity.measure import with_opacity
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import contains
from opaq.solvers.strategy import Status
from opaq.stop import Deadline, Stop
from trials import part_of


def test_gaps_are_read_in_bits_and_percent() -> None:
    assert Gap.of("1%") == Gap(0.01, relative=True)
    assert Gap.of("0.02 bits") == Gap.of(0.02) == Gap(0.02, relative=False)
    assert Gap.of("1%").of_bound(2.0) == pytest.approx(0.02)
    for wrong in ("", "abc", "-1%", "1..2", "nan", "inf", True):
        with pytest.raises(opaq.InputError, match="is no gap"):
            Gap.of(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", part_of(["two-sink", "graph-published", "graph"], 2))
def test_small_scenarios_are_solved_to_their_optimum(name: str) -> None:
    steps: list[opaq.GapStep] = []
    answer = opaq.solve(name, gap="0.1%", time_limit=60, on_gap=steps.append)
    solution, certificate = answer.solution, answer.certificate
    assert solution.status is Status.PROVEN
    assert certificate.upper_bound is not None
    assert certificate.gap is not None
    assert certificate.gap <= 1e-3 * certificate.upper_bound
    assert certificate.upper_bound >= solution.measurement.opacity.lower - 1e-9
    measured = opaq.measure(name, solution.policy)
    assert measured.opacity.value == pytest.approx(solution.measurement.opacity.value, abs=1e-9)
    assert measured.feasible
    assert all(step.bound >= step.policy - 1e-9 for step in steps)
    assert solution.measurement.opacity.lower >= opaq.solve(name).measurement.opacity.lower - 1e-9


def test_without_time_there_is_a_policy_a_bound_and_the_gap_so_far() -> None:
    answer = opaq.solve("grid-last-state-4", gap=1e-9, time_limit=1.0)
    assert answer.solution.status is Status.TIME_LIMIT
    assert answer.certificate.gap is not None
    assert math.isfinite(answer.certificate.gap)
    assert answer.solution.measurement.feasible


def test_a_task_that_only_larger_classes_meet_is_solved() -> None:
    # From the hub to A and, later, to B, or the other way round: the state alone cannot tell what is left to do.
    home = {"a": {"hub": 1}, "b": {"hub": 1}}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "name": "errands",
            "model": {
                "states": ["hub", "A", "B"],
                "actions": ["a", "b"],
                "start": ["hub"],
                "transitions": {"hub": {"a": {"A": 1}, "b": {"B": 1}}, "A": home, "B": home},
                "labels": {"first": ["A"], "second": ["B"]},
            },
            "observer": {"emissions": {state: {"nothing": 1} for state in ("hub", "A", "B")}},
            "secret": {"last_state": "first"},
            "horizon": 3,
            "task": {
                "requirements": [{"reach": label, "probability_at_least": 0.9} for label in ("first", "second")],
            },
            "policy": {"conditions_on": ["state"]},
        }
    )
    assert not opaq.solve(problem).measurement.feasible
    answer = opaq.solve(problem, gap="0.1%", time_limit=30)
    assert answer.solution.status is Status.PROVEN
    assert answer.solution.measurement.feasible
    assert answer.solution.measurement.opacity.value == pytest.approx(1.0, abs=2e-3)


def test_an_interrupt_gives_policy_bound_and_gap_so_far() -> None:
    stop = opaq.Stop()

    def interrupt(step: opaq.GapStep) -> None:
        if step.bound < 1.99:
            stop.request()

    answer = opaq.solve("graph-published", gap=0, time_limit=120, starts=1, on_gap=interrupt, stop=stop)
    reached, certificate = answer.solution.measurement.uncertainty.lower, answer.certificate
    assert answer.solution.status is Status.INTERRUPTED
    assert answer.solution.measurement.feasible
    assert certificate.status is CertificateStatus.INTERRUPTED
    assert reached <= certificate.bound < 1.99
    assert certificate.gap == pytest.approx(certificate.bound - reached)


def test_larger_classes_contain_the_own_class_and_each_other() -> None:
    for name in ("graph", "grid-initial-state-4", "two-sink"):
        problem = opaq.load_problem(name)
        before = problem.policy_class
        for wider in list(larger_classes(problem, aware=False))[:3]:
            assert contains(wider, before)
            before = wider


def test_a_visit_secret_brings_its_flag_as_a_memory() -> None:
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["a", "b", "c"],
                "actions": ["go", "stay"],
                "start": "a",
                "transitions": {
                    "a": {"go": {"b": 0.5, "c": 0.5}, "stay": "a"},
                    "b": {"go": "a", "stay": "b"},
                    "c": {"go": "a", "stay": "c"},
                },
            },
            "observer": {"emissions": {"a": {"o": 1}, "b": {"o": 0.5, "p": 0.5}, "c": {"o": 0.6, "p": 0.4}}},
            "secret": {"visited": ["b"]},
            "horizon": 3,
        }
    )
    first = next(iter(larger_classes(problem, aware=False)))
    assert first.memory is not None
    answer = opaq.solve(problem, gap=1e-4, time_limit=20)
    assert answer.solution.status is Status.PROVEN


def test_minimise_tasks_have_a_gap_too() -> None:
    problem = opaq.load_problem("two-sink")
    from dataclasses import replace

    least = replace(problem, task=replace(problem.task, minimise=True))
    answer = opaq.solve(least, gap=1e-3, time_limit=10)
    assert answer.certificate.lower_bound == pytest.approx(0.0, abs=1e-9)
    assert answer.solution.status is Status.PROVEN


def test_arguments_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(opaq.InputError, match="has no effect without a gap"):
        opaq.solve("two-sink", observation_aware=True)
    with pytest.raises(opaq.InputError, match="keeps no run folder"):
        opaq.solve("two-sink", gap="1%", run_folder="x")


def test_the_command_prints_policy_bound_and_gap() -> None:
    done = opaq_command("solve", "graph", "--gap", "0.1%", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["status"] == "proven"
    assert 0 <= answer["gap"] <= 1e-3 * answer["upper_bound"]
    for wrong in (["--gap", "x"], ["--observation-aware"], ["--gap", "1%", "--certify"]):
        assert opaq_command("solve", "graph", *wrong).returncode == 2


def test_what_is_proven_of_a_policy_is_not_given_up_for_an_estimate() -> None:
    problem = opaq.load_problem("two-sink")
    best = opaq.solve(problem)
    uniform = opaq.measure(problem)  # worse than the best, but estimated to be better
    estimate = Amount.estimate(best.measurement.opacity.value + 0.1, 0.0, 1.0, standard_error=1e-3)
    promised = replace(best, pi=best.product.process.uniform(), measurement=with_opacity(uniform, estimate))
    assert promised.measurement.beats(best.measurement)
    search = _GapSearch(problem, Gap.of("1%"), SolveOptions(), Stop(), Deadline(10.0), None, None)
    search._best = best
    search._take_if_better(promised)
    assert search._best is best
    stopped = Stop()
    stopped.request()  # no time to measure it
    search.stop = stopped
    search._take_if_better(promised)
    assert search._best is best


def test_no_search_of_policies_begins_without_time_to_measure_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(opaq.load_problem("grid-last-state-4"), horizon=6)
    searched = list[object]()
    monkeypatch.setattr(gap_module, "_FINISHING", math.inf)
    monkeypatch.setattr(gap_module, "_FINISHING_SHARE", 1.0)
    monkeypatch.setattr(gap_module, "solve_class", lambda *given, **named: searched.append(given))
    answer = opaq.solve(problem, gap=0.0, time_limit=4.0, sequences=0)
    assert not searched
    assert answer.solution.measurement.feasible
    assert answer.certificate.bound >= answer.solution.measurement.uncertainty.lower
    proven = answer.certificate.status is CertificateStatus.OPTIMUM  # by the history program, on a fast machine
    assert proven or answer.solution.status is not Status.COMPLETED  # classes were left out
