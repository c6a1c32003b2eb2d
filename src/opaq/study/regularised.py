"""The paper's comparison with entropy-regularised MDPs (section VI.B)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from opaq.loading.scenarios import load_problem
from opaq.model.problem import Problem
from opaq.opacity.measurement import measure
from opaq.product.compile import compile_problem
from opaq.reports.charts import Chart, Level, Line, plot_charts
from opaq.solvers.soft_values import soft_policy
from opaq.study.effort import Effort
from opaq.study.findings import Finding, Outcome, measured

TITLE = "Graph, guess error against entropy-regularised MDPs"
TEMPERATURES = tuple(np.linspace(1.0, 20.0, 11).round(6).tolist())
DISCOUNT = 0.8
PUBLISHED_ERROR = 0.384


def run(effort: Effort) -> Outcome:
    """Both graphs: 11 temperatures of the baseline, and the most opaque policy that meets the task."""
    findings: list[Finding] = []
    charts = []
    for name, published in (("graph-published", PUBLISHED_ERROR), ("graph", None)):
        problem = load_problem(name)
        soft = [soft_finding(problem, temperature) for temperature in TEMPERATURES]
        found = effort.by_default(problem)
        ours = measured(
            f"{name}: default solver", found.measurement, seconds=found.seconds, status=found.status.name.lower()
        )
        findings += [*soft, ours]
        charts.append(_chart(name, soft, ours, published))
    figure = plot_charts(charts, column="double", plot_height=1.6)
    return Outcome("baseline", TITLE, tuple(findings), {"baseline": figure})


def soft_finding(problem: Problem, temperature: float) -> Finding:
    """One temperature: soft value iteration on the product, measured over the problem's own horizon."""
    begun = perf_counter()
    endless = compile_problem(replace(problem, discount=DISCOUNT, task=replace(problem.task, over="forever")))
    pi = soft_policy(endless.process, temperature=temperature, discount=DISCOUNT)
    found = measure(problem, endless.policy(pi), sequences=0)
    source = f"{problem.name}: entropy-regularised, temperature {temperature:g}"
    return measured(source, found, seconds=perf_counter() - begun)


def _chart(name: str, soft: list[Finding], ours: Finding, published: float | None) -> Chart:
    points = [(at, float(found.guess_error or 0.0)) for at, found in zip(TEMPERATURES, soft, strict=True)]
    error = float(ours.guess_error or 0.0)
    reported = [] if published is None else [Level(f"published: {published:g}", published)]
    return Chart(
        "temperature of the entropy-regularised MDP",
        "guess error",
        [Line("entropy-regularised MDP", points, style="both", colour=2)],
        [Level(f"most opaque policy found: {error:.3f}", error, colour=0), *reported],
        title=name,
    )
