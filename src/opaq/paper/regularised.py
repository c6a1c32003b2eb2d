"""The paper's comparison with entropy-regularised MDPs (section VI.B)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from opaq.beliefs.dynamic_program import StateActions
from opaq.errors import BudgetError
from opaq.load import load_problem
from opaq.model.arrays import FloatArray
from opaq.model.problem import Problem
from opaq.opacity.measure import measure
from opaq.paper.outcomes import ExperimentResult, Finding, row_of_measurement
from opaq.paper.settings import ReproductionSettings
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts


def soft_policy(
    process: HiddenProcess, *, temperature: float, discount: float = 0.8, tolerance: float = 1e-12
) -> FloatArray:
    """The policy vector that maximises discounted return + temperature x discounted policy entropy.

    Q = R + discount P V, V = temperature log sum exp(Q / temperature). The process must be closed (compiled for an
    endless run) and every product state must have a policy row of its own.
    """
    if process.num_rows != process.num_states:
        raise BudgetError("soft value iteration needs one policy row a product state; condition on more")
    choices = StateActions.of(process)
    paid, value = choices.paid(process.payoffs[0]), np.zeros(process.num_states)
    for _ in range(100_000):
        quality = paid + discount * (choices.ahead @ value)
        top = choices.best(quality)
        counts = np.diff(np.append(choices.first, quality.size))
        weights = np.exp((quality - np.repeat(top, counts)) / temperature)
        totals = np.add.reduceat(weights, choices.first)
        after = top + temperature * np.log(totals)
        settled = np.abs(after - value).max() <= tolerance * max(1.0, np.abs(after).max())
        value = after
        if settled:
            break
    pi = np.zeros(process.num_slots)
    pi[choices.slot] = weights / np.repeat(totals, counts)
    return pi


TITLE = "Graph, guess error against entropy-regularised MDPs"
TEMPERATURES = tuple(np.linspace(1.0, 20.0, 11).round(6).tolist())
DISCOUNT = 0.8
PUBLISHED_ERROR = 0.384


def run(effort: ReproductionSettings) -> ExperimentResult:
    """Both graphs: 11 temperatures of the baseline, and the most opaque policy that meets the task."""
    findings: list[Finding] = []
    charts = []
    for name, published in (("graph-published", PUBLISHED_ERROR), ("graph", None)):
        problem = load_problem(name)
        soft = [soft_finding(problem, temperature) for temperature in TEMPERATURES]
        found = effort.by_default(problem)
        ours = row_of_measurement(
            f"{name}: default solver", found.measurement, seconds=found.seconds, status=found.status.name.lower()
        )
        findings += [*soft, ours]
        charts.append(_chart(name, soft, ours, published))
    figure = plot_charts(charts, column="double", plot_height=1.6)
    return ExperimentResult("baseline", TITLE, tuple(findings), {"baseline": figure})


def soft_finding(problem: Problem, temperature: float) -> Finding:
    """One temperature: soft value iteration on the product, measured over the problem's own horizon."""
    begun = perf_counter()
    endless = compile_problem(replace(problem, discount=DISCOUNT, task=replace(problem.task, over="forever")))
    pi = soft_policy(endless.process, temperature=temperature, discount=DISCOUNT)
    found = measure(problem, endless.policy(pi), sequences=0)
    source = f"{problem.name}: entropy-regularised, temperature {temperature:g}"
    return row_of_measurement(source, found, seconds=perf_counter() - begun)


def _chart(name: str, soft: list[Finding], ours: Finding, published: float | None) -> Chart:
    points = [(at, float(found.guess_error or 0.0)) for at, found in zip(TEMPERATURES, soft, strict=True)]
    error = float(ours.guess_error or 0.0)
    reported = [] if published is None else [LevelLine(f"published: {published:g}", published)]
    return Chart(
        "temperature of the entropy-regularised MDP",
        "guess error",
        [Line("entropy-regularised MDP", points, style="both", colour=2)],
        [LevelLine(f"most opaque policy found: {error:.3f}", error, colour=0), *reported],
        title=name,
    )
