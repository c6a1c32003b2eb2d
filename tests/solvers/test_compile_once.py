"""What a solve has computed is not computed again: the product of a policy class and the measurement."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import pytest

import opaq
from opaq.certificates import certify as certifying
from opaq.cli.main import main
from opaq.errors import BudgetError
from opaq.model.problem import Task
from opaq.opacity import measure as measuring
from opaq.product import compile as compiling
from opaq.solvers import solve as solving


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count compiled policy classes and measurements, wherever they are made."""
    counts: Counter[str] = Counter()
    compile_problem, measure_product = compiling.compile_problem, measuring.measure_product

    def compiled(problem, policy_class=None, **options):
        counts[f"compiled for {(policy_class or problem.policy_class).conditions}"] += 1
        return compile_problem(problem, policy_class, **options)

    def measured(*arguments, **options):
        counts["measured"] += 1
        return measure_product(*arguments, **options)

    for name, module in list(sys.modules.items()):
        if name.startswith("opaq"):
            for attribute, old, new in (
                ("compile_problem", compile_problem, compiled),
                ("measure_product", measure_product, measured),
            ):
                if module.__dict__.get(attribute) is old:
                    monkeypatch.setattr(module, attribute, new)
    return counts


@pytest.mark.parametrize("conditions", ["state,time", "state"])
def test_solve_certify_and_report_compile_each_class_once_and_measure_once(counted, conditions: str) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    solution = opaq.solve(problem, conditions=conditions, starts=1, time_limit=3.0)
    certificate = opaq.certify(problem, solution, time_limit=0.5)
    opaq.report(problem, solution=solution, certificate=certificate)
    assert certificate.measurement is solution.measurement
    assert counted.pop("measured") == (1 if conditions == "state" else 2)  # the coarser class is measured too
    assert counted.pop(f"compiled for {solution.policy.policy_class.conditions}") == 1
    assert list(counted.values()) == ([] if conditions == "state" else [2])  # that of the search and the certificate's


def test_a_solution_is_certified_as_its_policy_is() -> None:
    problem = opaq.load_problem("two-sink")
    solution = opaq.solve(problem, starts=2)
    one, other = (opaq.certify(problem, policy) for policy in (solution, solution.policy))
    assert one.upper_bound == pytest.approx(other.upper_bound, abs=1e-12)
    assert one.given
    assert one.measurement.opacity == other.measurement.opacity


def test_a_solution_of_another_problem_is_refused() -> None:
    problem = opaq.load_problem("two-sink")
    solution = opaq.solve(problem, starts=1)
    with pytest.raises(opaq.InputError, match="give the problem that was solved"):
        opaq.certify(replace(problem, task=Task()), solution)


def test_a_measurement_that_is_not_exact_is_made_again(counted) -> None:
    problem = opaq.load_problem("two-sink")
    solution = opaq.solve(problem, starts=1)
    wide = opaq.Amount.between(0.1, 0.6)
    solution = replace(solution, measurement=measuring.with_opacity(solution.measurement, wide))
    counted.clear()
    assert opaq.certify(problem, solution, time_limit=2.0).measurement.opacity.method == "exact"
    assert counted["measured"] >= 1


def test_nothing_is_hashed_without_a_run_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    hashed = []
    monkeypatch.setattr(solving, "problem_parts", lambda *_: hashed.append("problem") or {})
    opaq.solve("two-sink", starts=1)
    assert not hashed
    opaq.solve("two-sink", starts=1, run_folder=tmp_path / "run")
    assert hashed == ["problem"]


@pytest.mark.parametrize("error", [BudgetError("the product has too many states"), opaq.StoppedError()])
def test_a_solved_policy_is_told_where_its_certificate_fails(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The answer was lost: the command ended with the error alone."""

    def fail(*arguments, **options):
        raise error

    arguments = ("solve", "two-sink", "--starts", "2")
    without = main(arguments)
    expected = capsys.readouterr().out
    monkeypatch.setattr(certifying, "certify", fail)
    assert main((*arguments, "--certify")) == without
    captured = capsys.readouterr()
    assert "opacity      0.40" in captured.out
    assert captured.out.splitlines()[:3] == expected.splitlines()[:3]
    assert f"the certificate is left out: {error}" in captured.err
