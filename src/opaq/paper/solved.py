"""The scenarios the paper solves: published figures, the paper's algorithm, our two solvers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from opaq.load import load_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.measure import Measurement, measure_product
from opaq.paper.outcomes import ExperimentResult, Finding, row_of_measurement, row_of_paper
from opaq.paper.settings import Experiment, ReproductionSettings
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts
from opaq.reports.figures.policy import plot_policy
from opaq.reports.grid import GridView
from opaq.solvers.solve import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(experiment: Experiment, effort: ReproductionSettings) -> ExperimentResult:
    """One scenario, every way; all of ours judged by exact evaluation."""
    problem = load_problem(experiment.scenario)
    by_paper = effort.by_paper(problem, experiment.settings)
    by_lagrangian = effort.by_lagrangian(problem)
    by_default = effort.by_default(problem)
    findings = [
        row_of_paper(experiment.published),
        *paper_rows(by_paper),
        *rows_of("lagrangian", by_lagrangian),
        *rows_of("default solver", by_default),
    ]
    if experiment.timed:
        timed = PolicyClass((*problem.policy_class.conditions_on, "time"))
        findings += rows_of("default solver, timed policies", effort.by_default(problem, policy_class=timed))
    figures = _figures(experiment, problem, by_paper, by_default)
    return ExperimentResult(experiment.scenario, experiment.title, tuple(findings), figures)


def rows_of(source: str, solution: Solution) -> list[Finding]:
    """Return the row of what a solver ended with, and one of the policy made for the task where that misses it."""
    starts, effort = solution.starts, _effort(solution)
    if not starts or any(start.feasible for start in starts):
        status = solution.status.name.lower()
        return [row_of_measurement(source, solution.measurement, seconds=solution.seconds, note=effort, status=status)]
    closest = starts[0].result
    for start in starts[1:]:
        if start.result.best is not None and start.result.best.beats(closest.best):
            closest = start.result
    assert closest.best is not None  # a start without a policy is not among the results
    own, status = _measure(solution, closest.best.theta), closest.status.name.lower()
    return [
        row_of_measurement(source, own, seconds=solution.seconds, note=effort, status=status),
        _fallback(source, solution),
    ]


def paper_rows(solution: Solution) -> list[Finding]:
    """Return the row of the last policy of the paper's algorithm, and one of what opaq keeps in its place."""
    source, (start,) = "paper's algorithm", solution.starts
    last = start.result.end.state.theta
    note, status = f"the last policy of {_effort(solution)}", start.status.name.lower()
    rows = [row_of_measurement(source, _measure(solution, last), seconds=solution.seconds, note=note, status=status)]
    if start.result.best is None or not start.feasible:
        return [*rows, _fallback(source, solution)]
    if np.array_equal(start.result.best.theta, last):
        return rows
    note = "of the policies judged on the way, moved a little if need be, the best by estimates that meets the task"
    return [*rows, row_of_measurement(f"{source}: kept on the way", solution.measurement, note=note)]


def _fallback(source: str, solution: Solution) -> Finding:
    note = "made for the task alone: no judged policy of the search meets it"
    return row_of_measurement(
        f"{source}: fallback", solution.measurement, note=note, status=solution.status.name.lower()
    )


def _measure(solution: Solution, theta: FloatArray) -> Measurement:
    return measure_product(solution.product, solution.product.process.softmax(theta), sequences=0)


def _effort(solution: Solution) -> str:
    steps = sum(start.iterations for start in solution.starts)
    return f"best of {len(solution.starts)} starts" if len(solution.starts) > 1 else f"{steps:,} iterations"


def _figures(
    experiment: Experiment, problem: Problem, by_paper: Solution, by_default: Solution
) -> Mapping[str, Figure]:
    charts = _convergence(experiment, problem, by_paper, by_default)
    figures = {experiment.scenario: plot_charts(charts, column="double", title=experiment.scenario, plot_height=1.6)}
    if GridView.of(problem) is not None:
        title = f"{experiment.scenario}: policy of the default solver"
        figures[f"{experiment.scenario}-policy"] = plot_policy(problem, by_default.policy, title=title)
    return figures


def _convergence(experiment: Experiment, problem: Problem, by_paper: Solution, by_default: Solution) -> list[Chart]:
    """What the paper's algorithm estimates on its way, beside where the default solver ends."""
    threshold = float(problem.task.return_at_least or 0.0)
    reported, found = experiment.published, by_default.measurement
    opacity = [(float(trace.iteration), trace.value) for trace in by_paper.trace]
    earned = [(float(trace.iteration), float(trace.slack[0]) + threshold) for trace in by_paper.trace]
    estimate = f"paper's algorithm, from {experiment.settings.samples:,} runs"
    return [
        Chart(
            "iteration",
            "opacity (bits)",
            [Line(estimate, opacity)],
            [
                LevelLine(f"default solver, exact: {found.opacity.value:.4f}", found.opacity.value, colour=1),
                LevelLine(f"published: {reported.opacity:g}", reported.opacity),
            ],
        ),
        Chart(
            "iteration",
            "return",
            [Line(estimate, earned)],
            [
                LevelLine(f"default solver, exact: {found.expected_return:.4f}", found.expected_return, colour=1),
                LevelLine(f"threshold: {threshold:g}", threshold),
            ],
        ),
    ]
