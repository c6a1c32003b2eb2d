"""How much work a reproduction may do, and how it tells what it is doing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem
from opaq.solvers.loop import Progress
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.solution import Solution, solve
from opaq.solvers.status import Status
from opaq.study.published import Settings

_PAUSE = 10.0  # seconds between two lines about one solve


@dataclass(frozen=True, slots=True)
class Effort:
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
        self._tell(f"{self._what}: start {progress.place + 1}, step {progress.trace.iteration}{known}")
