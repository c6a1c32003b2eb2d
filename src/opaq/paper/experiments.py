"""The experiments of the paper, each run again: the two sinks, the scenarios that it solves, and its baseline.

Every experiment is one function that solves, measures and draws: `run_two_sink` (section III.A) shows that memory pays,
`run_scenario` sets the published figures of one scenario beside the paper's algorithm and our two solvers, and
`run_baseline` (section VI.B) compares with entropy-regularised MDPs. Where the paper's text and its published code
differ, both variants are scenarios of their own. Opacity is in bits; all policies of ours are evaluated exactly, while
the paper's own figures are estimates from sampled runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.beliefs.dynamic_program import StateActions
from opaq.errors import BudgetError
from opaq.load import load_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.model.uncertainty import plogp
from opaq.opacity.measure import Measurement, measure, measure_product
from opaq.paper.outcomes import ExperimentResult, Finding
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.reports.figures.axes import Chart, LevelLine, Line, plot_charts
from opaq.reports.figures.policy import plot_policy
from opaq.reports.grid import GridView
from opaq.solvers.loop import Progress
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.solve import Solution, solve
from opaq.solvers.strategy import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAUSE = 10.0  # seconds between two lines about one solve


@dataclass(frozen=True, slots=True)
class ReproductionSettings:
    """The settings of a whole reproduction, and the three ways in which it solves a problem.

    Every solve takes the same seed and tells `on_progress` what it is at. Raises KeyboardInterrupt when a solve is
    interrupted: half a search is no reproduction.
    """

    seed: int = 0
    quick: bool = False  # a tenth of the paper's iterations, and two starts of the augmented Lagrangian
    on_progress: Callable[[str], None] = field(default=lambda line: None)

    def solve_by_default(self, problem: Problem, *, policy_class: PolicyClass | None = None) -> Solution:
        """Solve with the default solver, natural gradient, which is quick in any case.

        policy_class: of the policies that are searched; None: the problem's own.
        """
        conditions = ", ".join((policy_class or problem.policy_class).conditions_on)
        return self._solve(
            problem, f"{problem.name}: default solver, policies on {conditions}", policy_class=policy_class
        )

    def solve_by_lagrangian(self, problem: Problem) -> Solution:
        """Solve with the augmented Lagrangian on exact gradients, from many starts; quick: from two.

        It is a second opinion on what the default solver ends with.
        """
        starts = 2 if self.quick else None
        return self._solve(problem, f"{problem.name}: lagrangian", solver="lagrangian", starts=starts)

    def solve_by_paper(self, problem: Problem, settings: AlgorithmSettings) -> Solution:
        """Solve with the paper's algorithm, primal-dual ascent-descent: one random start, gradients of sampled runs.

        settings: as the paper reports them for the scenario; quick: a tenth of the iterations.
        """
        iterations = settings.iterations // 10 if self.quick else settings.iterations
        return self._solve(
            problem,
            f"{problem.name}: paper's algorithm, {iterations:,} iterations",
            solver=PrimalDual(eta=settings.eta, kappa=settings.kappa, iterations=iterations),
            gradients="sampled",
            samples=settings.samples,
            starts=1,
            start="random",
        )

    def _solve(self, problem: Problem, title: str, **options: Any) -> Solution:
        """Solve with a line about it in the beginning and every ten seconds.

        title: the line. options: further arguments of `solve`.
        """
        last = perf_counter()

        def report_step(progress: Progress) -> None:
            """Tell where the search is, at most once in ten seconds."""
            nonlocal last
            if perf_counter() - last < _PAUSE:
                return
            last, best = perf_counter(), progress.best
            known = ""
            if best is not None:
                known = f", best of this start {best.score:.4f}{'' if best.feasible else ' (infeasible)'}"
            self.on_progress(f"{title}: start {progress.index + 1}, step {progress.trace.iteration}{known}")

        self.on_progress(title)
        solution = solve(problem, seed=self.seed, on_step=report_step, sequences=0, **options)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return solution


# The two sinks (paper, section III.A): memory pays.

_TWO_SINK_TITLE = "Two sinks, last-state secret (horizon 2)"
_TIMED = PolicyClass(("state", "time"))


def run_two_sink(settings: ReproductionSettings) -> ExperimentResult:
    """Compare Markov policies with their closed form, and with policies that have memory (paper, section III.A).

    The best Markov policy is found from the closed form and by the solver. "a first, then b" is the paper's policy with
    memory; the best policy that knows the time hides still more. The picture is the closed form over alpha = P(a | q0).
    """
    from scipy.optimize import minimize_scalar

    problem = load_problem("two-sink")
    largest = minimize_scalar(
        lambda alpha: -float(closed_form(np.array(alpha))), bounds=(0, 1), method="bounded", options={"xatol": 1e-9}
    )
    markov = settings.solve_by_default(problem)
    waiting = wait_once(compile_problem(problem, _TIMED))
    timed = settings.solve_by_default(problem, policy_class=_TIMED)
    findings = (
        Finding(
            "paper, Markov policies",
            -float(largest.fun),
            note=f"the largest value of the closed form, at alpha = {float(largest.x):.4f}",
        ),
        Finding("paper, a first, then b", 0.5, note="finite memory"),
        Finding.of_solution("default solver, Markov policies", markov),
        Finding.of_measurement("a first, then b", waiting),
        Finding.of_solution(
            "default solver, timed policies", timed, note="b at time 1 with less than certainty hides more"
        ),
    )
    figure = _plot_two_sink(compile_problem(problem), timed.measurement.opacity.value)
    return ExperimentResult("two-sink", _TWO_SINK_TITLE, findings, {"two-sink": figure})


def closed_form(alpha: FloatArray) -> FloatArray:
    """Return H(Z | Y) in bits of the Markov policy with P(a | q0) = alpha (paper, section III.A).

    alpha: any shape. Only silence at all times leaves the secret open. Silence has the probability
    p1 = -alpha^2/4 + alpha/8 + 1/8 together with the secret sink and p2 = 3 alpha^2/4 + alpha/8 + 1/8 without it, and

        H(Z | Y) = (p1 + p2) log2 (p1 + p2) - p1 log2 p1 - p2 log2 p2.
    """
    silent_secret = -(alpha**2) / 4 + alpha / 8 + 1 / 8
    silent_other = 3 * alpha**2 / 4 + alpha / 8 + 1 / 8
    return plogp(silent_secret + silent_other) - plogp(silent_secret) - plogp(silent_other)


def markov_opacity(product: Product, alpha: float) -> float:
    """Return the same by evaluation of the belief graph; product: of the two-sink problem with its own policies."""
    share = {("q0", "a"): alpha, ("q0", "b"): 1.0 - alpha}
    return measure_product(product, _vector(product, share)).opacity.value


def wait_once(product: Product) -> Measurement:
    """Measure the policy "a first, then b"; product: of the two-sink problem with policies that know the time."""
    share = {("q0", 0, "a"): 1.0, ("q0", 0, "b"): 0.0, ("q0", 1, "a"): 0.0, ("q0", 1, "b"): 1.0}
    return measure_product(product, _vector(product, share))


def _vector(product: Product, share: Mapping[Any, float]) -> FloatArray:
    """Return the uniform policy vector, [slot], with other probabilities for some rows.

    share: (*row, action) -> probability, where a row is named by what the policies look at, ("q0", 1).
    """
    process, actions = product.process, product.problem.mdp.actions
    keys = [(*product.rows[row], actions[product.slot_action[slot]]) for slot, row in enumerate(process.row_of_slot())]
    return np.array([share.get(key, value) for key, value in zip(keys, process.uniform(), strict=True)])


def _plot_two_sink(product: Product, timed: float) -> Figure:
    """Plot opacity over alpha: the closed form, evaluations that lie on it, and two policies with memory above it.

    product: of the two-sink problem with its own policies. timed: the opacity of the best policy that knows the time.
    """
    alphas = np.linspace(0.0, 1.0, 201)
    curve = list(zip(alphas.tolist(), closed_form(alphas).tolist(), strict=True))
    marks = [(alpha, markov_opacity(product, alpha)) for alpha in np.linspace(0.0, 1.0, 21).tolist()]
    chart = Chart(
        "alpha = P(a | q0)",
        "opacity (bits)",
        [
            Line("Markov policies, closed form", curve),
            Line("Markov policies, evaluated", marks, style="marks", colour=1),
        ],
        [
            LevelLine("a first, then b (finite memory): 0.5", 0.5),
            LevelLine(f"best timed policy: {timed:.4f}", timed, colour=2),
        ],
    )
    title = "Two sinks: no Markov policy hides as much as waiting once"
    return plot_charts([chart], column="double", title=title, plot_height=2.1)


# The scenarios that the paper solves: published figures, the paper's algorithm, our two solvers.


@dataclass(frozen=True, slots=True)
class Published:
    """The figures that the paper reports of one experiment; opacity and return are estimates from sampled runs."""

    opacity: float  # bits
    expected_return: float
    guess_error: float | None = None
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class AlgorithmSettings:
    """The settings of the paper's primal-dual algorithm."""

    eta: float  # the constant step size of the policy's parameters
    kappa: float  # and of the multiplier
    iterations: int
    samples: int = 2000  # sampled runs per iteration


@dataclass(frozen=True, slots=True)
class Experiment:
    """One scenario that the paper solves, with the figures and the settings that it reports."""

    scenario: str
    title: str
    published: Published
    settings: AlgorithmSettings
    timed: bool = False  # whether policies that know the time are solved for as well


_AS_TEXT = "published code: 4 moves, 11 transitions; here the text: 5 actions, 12 transitions"
_GRAPH_AS_TEXT = "published code: the variant graph-published; here the text"
_LAST, _INITIAL = (
    AlgorithmSettings(eta=0.8, kappa=0.05, iterations=5000),
    AlgorithmSettings(eta=0.5, kappa=0.05, iterations=5000),
)
_GRAPH = AlgorithmSettings(eta=1.0, kappa=0.2, iterations=1000)
_LOGGED = 14.4 * 3600  # seconds, by the log of the published initial-state run

SCENARIOS = (
    Experiment(
        "grid-last-state-4",
        "Grid, last-state secret, as published (4 moves, horizon 11)",
        Published(0.888, 0.313),
        _LAST,
    ),
    Experiment(
        "grid-last-state",
        "Grid, last-state secret, as in the text (5 actions, horizon 12)",
        Published(0.888, 0.313, note=_AS_TEXT),
        _LAST,
    ),
    Experiment(
        "grid-initial-state-4",
        "Grid, initial-state secret, as published (4 moves, horizon 11)",
        Published(1.01, 0.311, seconds=_LOGGED),
        _INITIAL,
    ),
    Experiment(
        "grid-initial-state",
        "Grid, initial-state secret, as in the text (5 actions, horizon 12)",
        Published(1.01, 0.311, seconds=_LOGGED, note=_AS_TEXT),
        _INITIAL,
    ),
    Experiment(
        "graph-published",
        "Graph, language secret, as published (horizon 4)",
        Published(1.115, 0.207, 0.384, note="exact return of the published policy: 0.191, below 0.2"),
        _GRAPH,
        timed=True,
    ),
    Experiment(
        "graph",
        "Graph, language secret, as in the text (horizon 5)",
        Published(1.115, 0.207, 0.384, note=_GRAPH_AS_TEXT),
        _GRAPH,
        timed=True,
    ),
)


def run_scenario(experiment: Experiment, settings: ReproductionSettings) -> ExperimentResult:
    """Solve one scenario of the paper in every way, and set the results beside the published ones.

    The pictures are the course of the paper's algorithm and, of a grid, the policy of the default solver.
    """
    problem, published = load_problem(experiment.scenario), experiment.published
    by_paper = settings.solve_by_paper(problem, experiment.settings)
    by_lagrangian = settings.solve_by_lagrangian(problem)
    by_default = settings.solve_by_default(problem)
    findings = [
        Finding(
            source="paper",
            opacity=published.opacity,
            expected_return=published.expected_return,
            guess_error=published.guess_error,
            seconds=published.seconds,
            note=published.note,
        ),
        *paper_rows(by_paper),
        *rows_of("lagrangian", by_lagrangian),
        *rows_of("default solver", by_default),
    ]
    if experiment.timed:
        timed = PolicyClass((*problem.policy_class.conditions_on, "time"))
        findings += rows_of("default solver, timed policies", settings.solve_by_default(problem, policy_class=timed))
    charts = _convergence(experiment, problem, by_paper, by_default)
    figures = {experiment.scenario: plot_charts(charts, column="double", title=experiment.scenario, plot_height=1.6)}
    if GridView.of(problem) is not None:
        title = f"{experiment.scenario}: policy of the default solver"
        figures[f"{experiment.scenario}-policy"] = plot_policy(problem, by_default.policy, title=title)
    return ExperimentResult(experiment.scenario, experiment.title, tuple(findings), figures)


def rows_of(source: str, solution: Solution) -> list[Finding]:
    """Return the row of what a solver ended with, and one of the policy made for the task where that misses it.

    source: the solver, in words.
    """
    starts, effort = solution.starts, _effort(solution)
    if not starts or any(start.feasible for start in starts):
        return [Finding.of_solution(source, solution, note=effort)]
    closest = starts[0].result
    for start in starts[1:]:
        if start.result.best is not None and start.result.best.beats(closest.best):
            closest = start.result
    assert closest.best is not None  # a start without a policy is not among the results
    own, status = _measure(solution, closest.best.theta), closest.status.name.lower()
    return [
        Finding.of_measurement(source, own, seconds=solution.seconds, note=effort, status=status),
        _fallback(source, solution),
    ]


def paper_rows(solution: Solution) -> list[Finding]:
    """Return the row of the last policy of the paper's algorithm, and one of what opaq keeps in its place.

    The paper's algorithm ends with its last iterate, which may miss the task by the noise of its estimates. opaq keeps
    the best policy on the way that meets it or, where none does, one made for the task alone.
    """
    source, (start,) = "paper's algorithm", solution.starts
    last = start.result.end.state.theta
    note, status = f"the last policy of {_effort(solution)}", start.status.name.lower()
    own = _measure(solution, last)
    rows = [Finding.of_measurement(source, own, seconds=solution.seconds, note=note, status=status)]
    if start.result.best is None or not start.feasible:
        return [*rows, _fallback(source, solution)]
    if np.array_equal(start.result.best.theta, last):
        return rows
    note = "of the policies judged on the way, moved a little if need be, the best by estimates that meets the task"
    return [*rows, Finding.of_measurement(f"{source}: kept on the way", solution.measurement, note=note)]


def _fallback(source: str, solution: Solution) -> Finding:
    """Return the row of the policy that opaq makes for the task alone, which is not credited to the algorithm."""
    note = "made for the task alone: no judged policy of the search meets it"
    status = solution.status.name.lower()
    return Finding.of_measurement(f"{source}: fallback", solution.measurement, note=note, status=status)


def _measure(solution: Solution, theta: FloatArray) -> Measurement:
    """Measure the policy of some parameters, [slot]: the softmax of each row."""
    return measure_product(solution.product, solution.product.process.softmax(theta), sequences=0)


def _effort(solution: Solution) -> str:
    """Return the work that a search took, for the note of its row: its starts or its iterations."""
    steps = sum(start.iterations for start in solution.starts)
    return f"best of {len(solution.starts)} starts" if len(solution.starts) > 1 else f"{steps:,} iterations"


def _convergence(experiment: Experiment, problem: Problem, by_paper: Solution, by_default: Solution) -> list[Chart]:
    """Chart what the paper's algorithm estimates on its way, beside where the default solver ends.

    Two charts over the iterations: opacity with the published value, and the return with the threshold of the task.
    """
    threshold = float(problem.task.return_at_least or 0.0)
    reported, best = experiment.published, by_default.measurement
    opacity = [(float(trace.iteration), trace.value) for trace in by_paper.trace]
    earned = [(float(trace.iteration), float(trace.slack[0]) + threshold) for trace in by_paper.trace]
    estimate = f"paper's algorithm, from {experiment.settings.samples:,} runs"
    return [
        Chart(
            "iteration",
            "opacity (bits)",
            [Line(estimate, opacity)],
            [
                LevelLine(f"default solver, exact: {best.opacity.value:.4f}", best.opacity.value, colour=1),
                LevelLine(f"published: {reported.opacity:g}", reported.opacity),
            ],
        ),
        Chart(
            "iteration",
            "return",
            [Line(estimate, earned)],
            [
                LevelLine(f"default solver, exact: {best.expected_return:.4f}", best.expected_return, colour=1),
                LevelLine(f"threshold: {threshold:g}", threshold),
            ],
        ),
    ]


# The comparison with entropy-regularised MDPs (paper, section VI.B).

_BASELINE_TITLE = "Graph, guess error against entropy-regularised MDPs"
TEMPERATURES = tuple(np.linspace(1.0, 20.0, 11).round(6).tolist())
_DISCOUNT = 0.8
_PUBLISHED_ERROR = 0.384


def soft_policy(
    process: HiddenProcess, *, temperature: float, discount: float = 0.8, tolerance: float = 1e-12
) -> FloatArray:
    """Return the policy vector that maximises discounted return + temperature x discounted policy entropy.

    It is the fixed point of soft value iteration,

        Q = R + discount P V,    V = temperature log sum exp(Q / temperature),    pi = exp((Q - V) / temperature).

    process: closed, that is, compiled for an endless run, with a policy row for every product state (BudgetError
    otherwise). tolerance: how little the values still change in the end, relative to their size.
    """
    if process.num_rows != process.num_states:
        raise BudgetError("soft value iteration needs one policy row a product state; condition on more")
    choices = StateActions.of(process)
    moves = choices.moves.multiplier()
    paid, value = choices.paid(process.payoffs[0]), np.zeros(process.num_states)
    for _ in range(100_000):
        quality = paid + discount * (moves @ value)
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


def run_baseline(settings: ReproductionSettings) -> ExperimentResult:
    """Compare entropy-regularised policies with the most opaque policy that meets the task (paper, section VI.B).

    On both variants of the graph, 11 temperatures of the baseline are measured: randomising more does not hide what
    the observer wants to know, and the guess error stays far below that of a policy searched for it.
    """
    findings: list[Finding] = []
    charts = []
    for name, published in (("graph-published", _PUBLISHED_ERROR), ("graph", None)):
        problem = load_problem(name)
        soft = [soft_finding(problem, temperature) for temperature in TEMPERATURES]
        ours = Finding.of_solution(f"{name}: default solver", settings.solve_by_default(problem))
        findings += [*soft, ours]
        charts.append(_chart_baseline(name, soft, ours, published))
    figure = plot_charts(charts, column="double", plot_height=1.6)
    return ExperimentResult("baseline", _BASELINE_TITLE, tuple(findings), {"baseline": figure})


def soft_finding(problem: Problem, temperature: float) -> Finding:
    """Return the row of one temperature of the baseline.

    The baseline plans for an endless discounted run, as it does in the paper; its policy is then measured over the
    horizon of the problem, as every other one is.
    """
    start = perf_counter()
    endless = compile_problem(replace(problem, discount=_DISCOUNT, task=replace(problem.task, over="forever")))
    pi = soft_policy(endless.process, temperature=temperature, discount=_DISCOUNT)
    measurement = measure(problem, endless.policy(pi), sequences=0)
    source = f"{problem.name}: entropy-regularised, temperature {temperature:g}"
    return Finding.of_measurement(source, measurement, seconds=perf_counter() - start)


def _chart_baseline(name: str, soft: list[Finding], ours: Finding, published: float | None) -> Chart:
    """Chart the guess error of the baseline over its temperature, below that of the most opaque policy.

    soft: the rows of all temperatures. ours: that of the solver. published: the paper's guess error, where it has one.
    """
    points = [(at, float(each.guess_error or 0.0)) for at, each in zip(TEMPERATURES, soft, strict=True)]
    error = float(ours.guess_error or 0.0)
    reported = [] if published is None else [LevelLine(f"published: {published:g}", published)]
    return Chart(
        "temperature of the entropy-regularised MDP",
        "guess error",
        [Line("entropy-regularised MDP", points, style="both", colour=2)],
        [LevelLine(f"most opaque policy found: {error:.3f}", error, colour=0), *reported],
        title=name,
    )
