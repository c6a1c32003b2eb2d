"""How much work a reproduction may do, and the figures and settings that the paper reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.solvers.loop import Progress
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.solve import Solution, solve
from opaq.solvers.strategy import Status


@dataclass(frozen=True, slots=True)
class Published:
    """The figures of one experiment; opacity and return are the authors' estimates from sampled runs."""

    opacity: float
    expected_return: float
    guess_error: float | None = None
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Constant step sizes, iterations and sampled runs an iteration of the primal-dual method."""

    eta: float
    kappa: float
    iterations: int
    samples: int = 2000


@dataclass(frozen=True, slots=True)
class Experiment:
    """One scenario the paper solves."""

    scenario: str
    title: str
    published: Published
    settings: Settings
    timed: bool = False  # whether timed policies are solved for as well


_AS_TEXT = "published code: 4 moves, 11 transitions; here the text: 5 actions, 12 transitions"
_GRAPH_AS_TEXT = "published code: the variant graph-published; here the text"
_LAST, _INITIAL = Settings(eta=0.8, kappa=0.05, iterations=5000), Settings(eta=0.5, kappa=0.05, iterations=5000)
_GRAPH = Settings(eta=1.0, kappa=0.2, iterations=1000)
_LOGGED = 14.4 * 3600  # seconds, by the log of the published initial-state run

EXPERIMENTS = (
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


_PAUSE = 10.0  # seconds between two lines about one solve


@dataclass(frozen=True, slots=True)
class ReproductionSettings:
    """The seed, whether to be quick about it, and who hears of progress."""

    seed: int = 0
    quick: bool = False
    tell: Callable[[str], None] = field(default=lambda line: None)

    def by_default(self, problem: Problem, *, policy_class: PolicyClass | None = None) -> Solution:
        """The default solver, natural gradient; it is quick in any case."""
        conditions = ", ".join((policy_class or problem.policy_class).conditions_on)
        printer = _StepPrinter(f"{problem.name}: default solver, policies on {conditions}", self.tell)
        return _whole(solve(problem, policy_class=policy_class, seed=self.seed, on_step=printer, sequences=0))

    def by_lagrangian(self, problem: Problem) -> Solution:
        """The augmented Lagrangian on exact gradients, from many starts; quick: two starts."""
        printer = _StepPrinter(f"{problem.name}: lagrangian", self.tell)
        starts = 2 if self.quick else None
        found = solve(problem, solver="lagrangian", num_starts=starts, seed=self.seed, on_step=printer, sequences=0)
        return _whole(found)

    def by_paper(self, problem: Problem, settings: Settings) -> Solution:
        """The paper's algorithm from one random start with sampled gradients; quick: a tenth of the iterations."""
        iterations = settings.iterations // 10 if self.quick else settings.iterations
        solver = PrimalDual(eta=settings.eta, kappa=settings.kappa, iterations=iterations)
        printer = _StepPrinter(f"{problem.name}: paper's algorithm, {iterations:,} iterations", self.tell)
        found = solve(
            problem,
            solver=solver,
            gradients="sampled",
            samples=settings.samples,
            num_starts=1,
            start="random",
            seed=self.seed,
            on_step=printer,
            sequences=0,
        )
        return _whole(found)


def _whole(solution: Solution) -> Solution:
    """A solve that was interrupted is no reproduction."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


class _StepPrinter:
    """A line now and then."""

    def __init__(self, what: str, tell: Callable[[str], None]) -> None:
        self._what, self._tell = what, tell
        self._last = perf_counter()
        tell(what)

    def __call__(self, progress: Progress) -> None:
        if perf_counter() - self._last < _PAUSE:
            return
        self._last = perf_counter()
        best = progress.best
        known = (
            "" if best is None else f", best of this start {best.score:.4f}{'' if best.feasible else ' (infeasible)'}"
        )
        self._tell(f"{self._what}: start {progress.index + 1}, step {progress.trace.iteration}{known}")
