"""The scenarios the paper solves: published figures, the paper's algorithm, our two solvers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opaq.loading.scenarios import load_problem
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.reports.charts import Chart, Level, Line, plot_charts
from opaq.reports.grid_view import GridView
from opaq.reports.policy_figure import plot_policy
from opaq.solvers.solution import Solution
from opaq.study.effort import Effort
from opaq.study.findings import Finding, Outcome, measured, published
from opaq.study.published import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(experiment: Experiment, effort: Effort) -> Outcome:
    """One scenario, every way; all of ours judged by exact evaluation."""
    problem = load_problem(experiment.scenario)
    by_paper = effort.by_paper(problem, experiment.settings)
    by_lagrangian = effort.by_lagrangian(problem)
    by_default = effort.by_default(problem)
    findings = [
        published(experiment.published),
        _judged("paper's algorithm", by_paper),
        _judged("lagrangian", by_lagrangian),
        _judged("default solver", by_default),
    ]
    if experiment.timed:
        timed = PolicyClass((*problem.policy_class.conditions_on, "time"))
        findings.append(_judged("default solver, timed policies", effort.by_default(problem, policy_class=timed)))
    figures = _figures(experiment, problem, by_paper, by_default)
    return Outcome(experiment.scenario, experiment.title, tuple(findings), figures)


def _judged(source: str, solution: Solution) -> Finding:
    steps = sum(start.iterations for start in solution.starts)
    starts = f"best of {len(solution.starts)} starts" if len(solution.starts) > 1 else f"{steps:,} iterations"
    return measured(source, solution.measurement, seconds=solution.seconds, note=starts)


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
    opacity = [(float(trace.iteration), trace.score) for trace in by_paper.trace]
    earned = [(float(trace.iteration), float(trace.slack[0]) + threshold) for trace in by_paper.trace]
    estimate = f"paper's algorithm, from {experiment.settings.samples:,} runs"
    return [
        Chart(
            "iteration",
            "opacity (bits)",
            [Line(estimate, opacity)],
            [
                Level(f"default solver, exact: {found.opacity.value:.4f}", found.opacity.value, colour=1),
                Level(f"published: {reported.opacity:g}", reported.opacity),
            ],
        ),
        Chart(
            "iteration",
            "return",
            [Line(estimate, earned)],
            [
                Level(f"default solver, exact: {found.expected_return:.4f}", found.expected_return, colour=1),
                Level(f"threshold: {threshold:g}", threshold),
            ],
        ),
    ]
