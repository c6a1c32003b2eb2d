"""Maximise opacity under a task: the one call behind `opaq solve`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from opaq.beliefs.graph import Budget
from opaq.choices import check_types
from opaq.dataframes import data_frame
from opaq.display import Displayed
from opaq.errors import Fault, InputError
from opaq.loading.policy_files import as_policy
from opaq.loading.scenarios import as_problem
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.measurement import Measurement
from opaq.product.compile import Product
from opaq.solvers.attainable import Attainable
from opaq.solvers.ending import measured, verdict_on
from opaq.solvers.factory import SolverFactory
from opaq.solvers.judge import Candidate, has_no_secret
from opaq.solvers.loop import Progress, StartResult
from opaq.solvers.optimality import Optimality
from opaq.solvers.options import GradientChoice, Gradients, SolveOptions, StartChoice, sampled_gradients_refused
from opaq.solvers.policy_classes import checked_class, chosen_class
from opaq.solvers.pool import StartRunner
from opaq.solvers.race import Outcome
from opaq.solvers.runner_choice import open_runner
from opaq.solvers.search import Search
from opaq.solvers.solver_registry import factory_of
from opaq.solvers.status import Status
from opaq.solvers.strategy import Solver, Trace
from opaq.solvers.verdict import status_text
from opaq.stop import Stop, StoppedError, on_signals

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Solution(Displayed):
    """The policy found and every reason to trust it, or not."""

    status: Status
    status_text: str  # the status as a sentence, with the figures it rests on
    policy: Policy
    measurement: Measurement
    attainable: tuple[Attainable, ...]
    optimality: Optimality | None
    starts: tuple[StartResult, ...]
    trace: tuple[Trace, ...]  # of the start that won
    gradients: Gradients  # where they came from
    solver: str
    seed: int
    seconds: float
    product: Product
    pi: FloatArray

    def __repr__(self) -> str:
        task = "feasible" if self.measurement.feasible else "infeasible"
        rows = f"{len(self.policy.rows)} policy rows"
        return f"<Solution {self.status.name}: opacity {self.measurement.opacity}, {task}, {rows}, by {self.solver}>"

    def value_of(self, score: float) -> float:
        """A solver's score as the uncertainty it stands for.

        score: of a start or of a line of the trace.
        """
        task = self.product.problem.task
        scale = task.of.over(self.product.secret_values).scale
        return float((-scale if task.minimise else scale) * score) + 0.0

    def hides_nothing(self, candidate: Candidate) -> bool:
        """Whether a policy has nothing to hide: all its runs have one value of the secret.

        candidate: the best policy of a start.
        """
        return has_no_secret(self.product.process, candidate.theta)

    def to_dataframe(self) -> DataFrame:
        """The trace of the start that won, one line per step: the uncertainty, and slack and multiplier by requirement.

        `starts_to_dataframe` has one line per start.
        """
        of = self.measurement.of.name
        asked = [payoff.name for payoff in self.product.process.payoffs if payoff.threshold is not None]
        slacks, multipliers = ([f"{kind} of {name}" for name in asked] for kind in ("slack", "multiplier"))
        lines = [
            {
                "iteration": trace.iteration,
                of: self.value_of(trace.score),
                **dict(zip(slacks, trace.slack.tolist(), strict=True)),
                **dict(zip(multipliers, trace.multipliers.tolist(), strict=True)),
            }
            for trace in self.trace
        ]
        return data_frame(lines, ("iteration", of, *slacks, *multipliers))

    def starts_to_dataframe(self) -> DataFrame:
        """One line per start: where it began, how it ended, and what its best policy reaches (NaN: there is none).

        `standard_error` is that of a value that is an estimate (sampled gradients), NaN of others.
        """
        of = self.measurement.of.name
        lines = [
            {
                "start": each.place,
                "kind": each.kind,
                "status": each.status.name.lower(),
                of: math.nan if each.best is None else self.value_of(each.best.score),
                "standard_error": math.nan if each.best is None else abs(self.value_of(each.best.error)) or math.nan,
                "feasible": each.best is not None and each.best.feasible,
                "iterations": each.iterations,
                "seconds": each.seconds,
            }
            for each in self.starts
        ]
        return data_frame(lines, ("start", "kind", "status", of, "standard_error", "feasible", "iterations", "seconds"))


def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    options: SolveOptions | None = None,
    policy_class: PolicyClass | None = None,
    solver: Solver | str | None = None,
    gradients: GradientChoice | None = None,
    samples: int | None = None,
    conditions: str | None = None,
    memory_nodes: int | None = None,
    num_starts: int | None = None,
    start: StartChoice | None = None,
    warm: Policy | str | os.PathLike[str] | None = None,
    seed: int | None = None,
    processes: int | None = None,
    on: str | StartRunner | None = None,
    budget: Budget | None = None,
    time: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    sequences: int | None = None,
    iterations: int | None = None,
    eta: float | None = None,
    kappa: float | None = None,
    exponent: float | None = None,
    on_step: Callable[[Progress], None] | None = None,
    stop: Stop | None = None,
) -> Solution:
    """The most opaque policy found that meets the task (the least opaque one with task.minimise).

    problem: an object, the name of a file, or the name of a scenario.
    options: a `SolveOptions`, which has the defaults; every other keyword that is given takes precedence over it.
    policy_class: what the policy may look at (the problem's own class by default); in words by `conditions`
    ("state,time") and `memory_nodes` (a memory of so many nodes, free to use).
    solver: "natural", "lagrangian", "primal-dual" (the paper's), another registered name, or a strategy with its
    settings, such as `opaq.PrimalDual(eta=0.5)`. iterations, eta, kappa and exponent are settings of "primal-dual".
    gradients: "exact" on the belief graph, "sampled" from `samples` runs (natural: at most 400, growing from 100;
    primal-dual: 2,000, as in the paper), or "auto": exact where the whole graph fits the budget.
    num_starts: how many starts (by default a few, and more while the best of them disagree); `start` says where they
    begin: "mixed", "random", "uniform" or "return-optimal"; a `warm` policy (or its file) is the first of them.
    seed: the same seed gives the same answer; `processes`: at most so many starts run at a time (every core by
    default), which changes nothing else.
    on: where starts run: None (threads of this process), "local" (processes of this machine), "ray" (the Ray cluster
    of this machine, or a new one for this solve), "ray://HOST:PORT" (that cluster), or an object with the methods of
    `opaq.solvers.pool.StartRunner`. The answer is the same, bit for bit; on_step is called for some seconds of steps
    at once. Workers know the solvers and kinds of opaq itself, not those of `opaq.extensions`.
    budget: how much of the belief graph may be kept; what does not fit makes scores lower bounds.
    time: seconds after which the best policy so far is the answer; so it is when `stop` is requested or, without a
    stop, after Ctrl-C. Only when there is no policy yet, StoppedError (KeyboardInterrupt after Ctrl-C) is raised.
    folder: keeps checkpoints; a solve with the same arguments and folder goes on where it was stopped.
    sequences: how many telling observation sequences the measurement shows. on_step is called after every step.

    The answer is judged by exact evaluation. Raises InputError when an argument does not fit.
    """
    begun = perf_counter()
    objects = {
        "options": (options, SolveOptions, "an opaq.SolveOptions"),
        "budget": (budget, Budget, "an opaq.Budget"),
        "folder": (folder, str | os.PathLike, "the name of a folder"),
        "on_step": (on_step, callable, "a function"),
        "stop": (stop, Stop, "an opaq.Stop"),
    }
    check_types(objects, optional=objects)
    named = {"solver": solver} if isinstance(solver, str) else {}
    limits = {} if budget is None else {"nodes": budget.nodes, "memory": budget.memory, "mass": budget.mass}
    chosen = (options or SolveOptions()).changed(
        **named,
        **limits,
        gradients=gradients,
        samples=samples,
        conditions=conditions,
        memory_nodes=memory_nodes,
        num_starts=num_starts,
        start=start,
        seed=seed,
        processes=processes,
        time=time,
        sequences=sequences,
        iterations=iterations,
        eta=eta,
        kappa=kappa,
        exponent=exponent,
    )
    stated = as_problem(problem)
    factory = factory_of(chosen.solver if solver is None or named else solver)
    _check(stated, factory, chosen)
    wanted = chosen_class(stated, conditions=chosen.conditions, memory_nodes=chosen.memory_nodes)
    wanted = wanted if policy_class is None else checked_class(policy_class, stated)
    first = None if warm is None else as_policy(warm, stated)
    path = None if folder is None else Path(folder)

    def answer(stop: Stop) -> Solution:
        runner = open_runner(on, chosen.processes)
        with nullcontext() if runner is None else closing(runner):
            search = Search.prepare(stated, wanted, factory, chosen, warm=first, stop=stop)
            return _run(search, path, runner=runner, on_step=on_step, begun=begun)

    return _interruptible(answer, stop, time=chosen.time)


def _interruptible(answer: Callable[[Stop], Solution], stop: Stop | None, *, time: float | None) -> Solution:
    """An answer within some time; without a stop of the caller's, Ctrl-C asks for the best policy so far."""
    own = Stop()
    with on_signals(lambda number: own.request()) if stop is None else nullcontext():
        asked = stop or own
        with asked.limit(time):
            try:
                return answer(asked)
            except StoppedError:
                if not own.interrupted:
                    raise
    raise KeyboardInterrupt


def _check(problem: Problem, factory: SolverFactory, options: SolveOptions) -> None:
    if options.gradients == "sampled" and factory.needs_exact:
        raise InputError([sampled_gradients_refused(factory.name)])
    if problem.task.over == "forever":
        found = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", found, "write 'over: horizon', or measure a given policy")])


def _run(
    search: Search,
    folder: Path | None,
    *,
    runner: StartRunner | None,
    on_step: Callable[[Progress], None] | None,
    begun: float,
) -> Solution:
    """Race the starts, reach a verdict, measure the winner."""
    outcome = Outcome((), None, (), Status.INTERRUPTED)
    with search.recorded(folder):
        with suppress(StoppedError):  # then there is no outcome, and the verdict makes do without
            if not search.impossible:
                outcome = search.race(folder=folder, runner=runner, on_step=on_step)
        verdict = verdict_on(search, outcome)
        pi, measurement = measured(search, verdict.candidate)
        minimise = search.product.problem.task.minimise
        return Solution(
            status=verdict.status,
            status_text=status_text(verdict, measurement, search.attainable, minimise=minimise),
            policy=search.product.policy(pi),
            measurement=measurement,
            attainable=search.attainable,
            optimality=verdict.optimality,
            starts=outcome.results,
            trace=outcome.trace,
            gradients=search.objective.gradients,
            solver=search.plan.rounds[0].name,
            seed=search.options.seed,
            seconds=perf_counter() - begun,
            product=search.product,
            pi=pi,
        )
