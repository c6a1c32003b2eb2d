"""Maximise opacity under a task: the one call behind `opaq solve`."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import get_args

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return
from opaq.choices import check_numbers, choose
from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.model.fingerprint import problem_parts
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.measurement import Measurement, Mode, measure_product, with_opacity
from opaq.product.compile import Product, compile_problem
from opaq.solvers.attainable import Attainable, largest_return
from opaq.solvers.feasible import feasible_policy, with_feasible_start
from opaq.solvers.judge import Candidate, judge, judge_at_once
from opaq.solvers.lagrangian import AugmentedLagrangian
from opaq.solvers.loop import Progress, StartResult
from opaq.solvers.natural import NaturalGradient
from opaq.solvers.objective import GradientChoice, Gradients, Objective
from opaq.solvers.optimality import Optimality
from opaq.solvers.pool import available_cores
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.race import Outcome, Plan, run_race
from opaq.solvers.run_record import option_parts, recorded_run
from opaq.solvers.starts import START_KINDS, graph_size, starts
from opaq.solvers.status import Status
from opaq.solvers.strategy import Solver, Trace
from opaq.solvers.verdict import Verdict, reach_verdict, status_text
from opaq.stop import Stop, StoppedError, on_signals

DEFAULT_SOLVER = "natural"
SOLVERS = (DEFAULT_SOLVER, "lagrangian", "primal-dual")
MOST_STARTS = 10_000
SOLVE_BUDGET = Budget(nodes=200_000, memory=512 << 20)
_FEW_BELIEFS = 2_000  # below this an evaluation takes about a millisecond, too little for threads to gain
_MANY_BELIEFS = 100_000  # above this one wave of starts is all
_SAMPLES = {"natural": 400, "primal-dual": 2000}  # runs of a sampled gradient: at most, and always
_LAST_SECONDS = 3.0  # for judging the best policy after an interrupt or when time is up


@dataclass(frozen=True, slots=True)
class Solution:
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


def solve(
    problem: Problem,
    *,
    policy_class: PolicyClass | None = None,
    solver: Solver | str | None = None,
    gradients: GradientChoice = "auto",
    samples: int | None = None,
    num_starts: int | None = None,
    start: str = "mixed",
    warm: Policy | None = None,
    seed: int = 0,
    processes: int | None = None,
    budget: Budget = SOLVE_BUDGET,
    time: float | None = None,
    folder: Path | None = None,
    sequences: int = 3,
    on_step: Callable[[Progress], None] | None = None,
    stop: Stop | None = None,
) -> Solution:
    """The most opaque policy found that meets the task (the least opaque one with task.minimise).

    policy_class: what the policy may look at (the problem's own class by default).
    solver: "natural" (the default), "lagrangian", "primal-dual" (the paper's), or a solver with its settings.
    gradients: "exact" on the belief graph, "sampled" from `samples` runs (natural: at most 400, growing from 100;
    primal-dual: 2,000, as in the paper), or "auto": exact where the whole graph fits the budget.
    num_starts: how many starts (by default a few, and more while the best of them disagree); `start` says where they
    begin: "mixed", "random", "uniform" or "return-optimal"; a `warm` policy is the first of them.
    seed: the same seed gives the same answer; `processes`: at most so many starts run at a time (every core by
    default), which changes nothing else.
    budget: how much of the belief graph may be kept; what does not fit makes scores lower bounds.
    time: seconds after which the best policy so far is the answer; so it is when `stop` is requested or, without a
    stop, after Ctrl-C. Only when there is no policy yet, StoppedError (KeyboardInterrupt after Ctrl-C) is raised.
    folder: keeps checkpoints; a solve with the same arguments and folder goes on where it was stopped.
    sequences: how many telling observation sequences the measurement shows. on_step is told of every step.

    The answer is judged by exact evaluation. Raises InputError when an argument does not fit.
    """
    begun = perf_counter()
    solver = DEFAULT_SOLVER if solver is None else solver
    _check(problem, start, gradients, solver)
    check_numbers(
        {
            "samples": (samples, 1, 10**9),
            "num_starts": (num_starts, 1, MOST_STARTS),
            "seed": (seed, 0, 2**64),
            "processes": (processes, 1, 10**6),
            "time": (time, 0, math.inf),
            "sequences": (sequences, 0, 10**6),
        },
        whole=("samples", "num_starts", "seed", "processes", "sequences"),
    )
    own = Stop()
    with on_signals(lambda number: own.request()) if stop is None else nullcontext():
        stop = stop or own
        with stop.limit(time):
            try:
                search = _Search(problem, policy_class, solver, gradients, samples, budget, stop)
                return search.run(
                    num_starts=num_starts,
                    start=start,
                    warm=warm,
                    seed=seed,
                    processes=processes,
                    folder=None if folder is None else Path(folder),
                    sequences=sequences,
                    on_step=on_step,
                    begun=begun,
                )
            except StoppedError:
                if not own.interrupted:
                    raise
    raise KeyboardInterrupt


def _check(problem: Problem, start: str, gradients: str, solver: Solver | str) -> None:
    choose("start", start, START_KINDS)
    choose("gradients", gradients, get_args(GradientChoice))
    if isinstance(solver, str):
        choose("solver", solver, SOLVERS)
    if problem.task.over == "forever":
        found = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", found, "write 'over: horizon', or measure a given policy")])


def _sampled_plan(scales: FloatArray, num_starts: int | None) -> Plan:
    """For gradients that are slow and noisy: two starts, short steps, the better one goes on."""
    rounds = tuple(NaturalGradient(scales=scales, max_steps=steps, iterations=10) for steps in (6, 40))
    first = num_starts or 2
    return Plan(rounds, (first, 1), (first,))


def _plan(solver: Solver | str, scales: FloatArray, *, beliefs: int, num_starts: int | None) -> Plan:
    """The rounds of a solver by name; a solver with settings of its own runs every start to its end."""
    many = num_starts or (32 if beliefs <= 1_000 else 24 if beliefs <= 30_000 else 12)
    if solver == "natural":
        rounds = tuple(NaturalGradient(scales=scales, max_steps=steps) for steps in (8, 30, 120))
        first = num_starts or (4 if beliefs <= _MANY_BELIEFS else 2)
        waves = (first,) if num_starts is not None or beliefs > _MANY_BELIEFS else (first, 4, 8)
        return Plan(rounds, (first, max(2, (first + 1) // 2), 2), waves)
    if solver == "lagrangian":
        climbs = tuple(AugmentedLagrangian(scales=scales, max_steps=steps) for steps in (6, 25, 100))
        return Plan(climbs, (many, max(2, (many + 2) // 3), 2), (many,))
    chosen = PrimalDual() if isinstance(solver, str) else solver
    return Plan((chosen,), (many,), (many,))


def _scales(objective: Objective, attainable: tuple[Attainable, ...]) -> FloatArray:
    """The size of each requirement: how far the largest return is from the uniform policy's, or from 0."""
    process = objective.process
    uniform = [expected_return(process, process.uniform(), payoff) for payoff in objective.requirements()]
    spans = [
        max(abs(found.largest - mean), abs(found.largest)) for found, mean in zip(attainable, uniform, strict=True)
    ]
    return np.array([span if span > 0 else 1.0 for span in spans])


class _Search:
    """One solve: the compiled problem, what is attainable, and the way from starts to a verdict."""

    def __init__(
        self,
        problem: Problem,
        policy_class: PolicyClass | None,
        solver: Solver | str,
        gradients: GradientChoice,
        samples: int | None,
        budget: Budget,
        stop: Stop,
    ) -> None:
        self._problem, self._policy_class, self._solver, self._stop = problem, policy_class, solver, stop
        self._product = compile_problem(problem, policy_class, stop=stop)
        self._beliefs, whole = graph_size(self._product.process, budget=budget, stop=stop)
        chosen: Gradients = gradients if gradients != "auto" else "exact" if whole or solver != "natural" else "sampled"
        name = solver if isinstance(solver, str) else solver.name
        self._objective = Objective(
            self._product,
            gradients=chosen,
            samples=samples or _SAMPLES.get(name, 2000),
            budget=budget,
            stop=stop,
        )
        self._attainable = tuple(
            Attainable(
                payoff.name, largest_return(self._product.process, payoff, stop=stop), float(payoff.threshold or 0.0)
            )
            for payoff in self._objective.requirements()
        )
        self._scales = _scales(self._objective, self._attainable)

    def run(
        self,
        *,
        num_starts: int | None,
        start: str,
        warm: Policy | None,
        seed: int,
        processes: int | None,
        folder: Path | None,
        sequences: int,
        on_step: Callable[[Progress], None] | None,
        begun: float,
    ) -> Solution:
        """Race the starts, reach a verdict, measure the winner."""
        objective, scales = self._objective, self._scales
        if self._solver == "natural" and objective.gradients == "sampled":
            plan = _sampled_plan(scales, num_starts)
        else:
            plan = _plan(self._solver, scales, beliefs=self._beliefs, num_starts=num_starts)
        first = self._product.policy_vector(warm) if warm is not None else None
        options = option_parts(
            objective,
            solver=self._solver,
            rounds=plan.rounds,
            num_starts=num_starts,
            start=start,
            warm=first,
            seed=seed,
        )
        outcome = Outcome((), None, (), Status.INTERRUPTED)
        with recorded_run(folder, problem=problem_parts(self._problem, self._policy_class), options=options):
            with suppress(StoppedError):  # then there is no outcome, and the verdict makes do without
                if not self._impossible():
                    begins = starts(objective, count=sum(plan.waves), kind=start, seed=seed, warm=first)
                    if start == "mixed":
                        wave = plan.waves[0]
                        begins[:wave] = with_feasible_start(objective, begins[:wave], scales=scales, seed=seed)
                    workers = available_cores() if processes is None else processes
                    workers = 1 if self._beliefs <= _FEW_BELIEFS else workers
                    outcome = run_race(
                        objective,
                        plan,
                        begins,
                        seed=seed,
                        scales=scales,
                        folder=folder,
                        workers=workers,
                        on_step=on_step,
                    )
            verdict = self._verdict(outcome, seed)
            return self._solution(verdict, outcome, plan.rounds[0].name, seed, sequences, begun)

    def _impossible(self) -> bool:
        return any(most.largest < most.threshold - 1e-9 * max(1.0, abs(most.threshold)) for most in self._attainable)

    def _verdict(self, outcome: Outcome, seed: int) -> Verdict:
        """The best policy and what may be said of it; when asked to stop nothing more is tried."""
        best, ended = outcome.best, outcome.claimed
        if best is None or not best.feasible:
            best, ended = self._closest(best, seed), Status.EDGE
        if self._impossible():
            return Verdict(best, Status.INFEASIBLE, None)
        if self._stop.requested:
            return Verdict(best, self._stopped(), None)
        if not best.feasible:
            return Verdict(best, Status.NOT_FOUND, None)
        spent = 3 * sum(result.iterations for result in outcome.results) // 2
        try:
            return reach_verdict(self._objective, best, claimed=ended, scales=self._scales, evaluations=spent)
        except StoppedError:
            return Verdict(best, self._stopped(), None)

    def _stopped(self) -> Status:
        return Status.INTERRUPTED if self._stop.interrupted else Status.TIME_LIMIT

    def _closest(self, best: Candidate | None, seed: int) -> Candidate:
        """Where no start ended feasible: a policy made to meet the task, or the one that comes closest."""
        theta = self._objective.process.logits(self._closest_policy(seed))
        if self._stop.requested:
            last = Stop()
            with last.limit(_LAST_SECONDS):
                made = judge_at_once(self._objective, theta, scales=self._scales, stop=last)
        else:
            made = judge(self._objective, theta, scales=self._scales)
        return best if best is not None and not made.beats(best) else made

    def _with_what_is_known(self, measurement: Measurement, candidate: Candidate) -> Measurement:
        """An interval tightened by what the search has certified of the same policy."""
        opacity, objective = measurement.opacity, self._objective
        other = measurement.of.name != "opacity"  # then the search has certified something else
        if other or opacity.method == "exact" or objective.gradients == "sampled":
            return measurement
        bound = abs(candidate.score)
        lower, upper = (max(opacity.lower, bound), opacity.upper) if objective.sign > 0 else (opacity.lower, bound)
        if lower <= opacity.lower and upper >= opacity.upper:
            return measurement
        tighter = Amount.between(min(lower, opacity.upper), min(upper, opacity.upper))
        if opacity.method == "sampled":
            value = min(max(opacity.value, tighter.lower), tighter.upper)
            tighter = Amount(value, tighter.lower, tighter.upper, "sampled", opacity.standard_error)
        return with_opacity(measurement, tighter)

    def _closest_policy(self, seed: int) -> FloatArray:
        """A policy made for the task; after a stop there is one second for it, and then the uniform one."""
        if not self._stop.requested:
            with suppress(StoppedError):
                return feasible_policy(self._objective, scales=self._scales, seed=seed).pi
        last = Stop()
        with suppress(StoppedError), last.limit(1.0):
            objective = replace(self._objective, stop=last)
            return feasible_policy(objective, scales=self._scales, seed=seed, climb=False).pi
        return self._product.process.uniform()

    def _solution(
        self, verdict: Verdict, outcome: Outcome, solver: str, seed: int, sequences: int, begun: float
    ) -> Solution:
        product = self._product
        pi = product.process.softmax(verdict.candidate.theta)
        last = Stop() if self._stop.requested else self._stop
        seconds = _LAST_SECONDS if self._stop.requested else None
        with last.limit(seconds):
            shown = 0 if self._stop.requested else sequences
            mode: Mode = "sampled" if self._stop.requested and self._objective.gradients == "sampled" else "auto"
            measurement = measure_product(product, pi, mode=mode, time=seconds, sequences=shown, stop=last)
        measurement = self._with_what_is_known(measurement, verdict.candidate)
        return Solution(
            status=verdict.status,
            status_text=status_text(verdict, measurement, self._attainable),
            policy=product.policy(pi),
            measurement=measurement,
            attainable=self._attainable,
            optimality=verdict.optimality,
            starts=outcome.results,
            trace=outcome.trace,
            gradients=self._objective.gradients,
            solver=solver,
            seed=seed,
            seconds=perf_counter() - begun,
            product=product,
            pi=pi,
        )
