"""Maximise opacity under a task: the one call behind `opaq solve`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import current_thread, main_thread
from time import perf_counter

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.model.fingerprint import problem_parts
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem
from opaq.opacity.beliefs import Budget
from opaq.opacity.measure import Measurement, measure_product
from opaq.opacity.returns import expected_return
from opaq.product.compile import Product, compile_problem
from opaq.solve.attainable import Attainable, largest_return
from opaq.solve.feasible import feasible_policy, with_feasible_start
from opaq.solve.judge import Candidate, judge
from opaq.solve.lagrangian import AugmentedLagrangian
from opaq.solve.loop import Progress, Snapshot, StartResult
from opaq.solve.objective import Gradients, Objective
from opaq.solve.optimality import Optimality
from opaq.solve.pool import Job, run_jobs
from opaq.solve.run_record import option_parts, recorded_run
from opaq.solve.starts import START_KINDS, Start, beliefs_of, starts
from opaq.solve.status import Status
from opaq.solve.strategy import Solver, Trace
from opaq.solve.verdict import Verdict, reach_verdict, status_text

_ROUNDS = (6, 25, 100)  # steps every start is given, then the best third, then the best two
_ENDED = (Status.CONVERGED, Status.SETTLED)  # more steps would change nothing
_FEW_BELIEFS = 2_000  # below this a start takes about a second: not worth a process of its own


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
    solver: str
    seed: int
    seconds: float
    product: Product
    pi: FloatArray


def solve(
    problem: Problem,
    *,
    policy_class: PolicyClass | None = None,
    solver: Solver | None = None,
    gradients: Gradients = "exact",
    samples: int = 2000,
    num_starts: int | None = None,
    start: str = "mixed",
    warm: Policy | None = None,
    seed: int = 0,
    processes: int | None = None,
    budget: Budget | None = None,
    folder: Path | None = None,
    on_step: Callable[[Progress], None] | None = None,
    sequences: int = 3,
) -> Solution:
    """The most opaque policy found that meets the task (the least opaque one with task.minimise).

    Without a solver: the augmented Lagrangian. Several starts run in `processes` processes; the same seed gives the
    same answer whatever their number. `folder` keeps checkpoints, and a solve with the same arguments and folder goes
    on where it was stopped. Ctrl-C ends the search and returns the best policy so far. The answer is judged by exact
    evaluation. Raises InputError when an argument does not fit.
    """
    begun = perf_counter()
    _check(problem, start)
    product = compile_problem(problem, policy_class)
    objective = Objective(product, gradients=gradients, samples=samples, budget=budget or Budget(nodes=200_000))
    attainable = tuple(
        Attainable(payoff.name, largest_return(product.process, payoff), float(payoff.threshold or 0.0))
        for payoff in objective.requirements()
    )
    scales = _scales(objective, attainable)
    rounds = _rounds(solver, scales)
    search = _Search(objective, scales, on_step)
    warm_vector = product.policy_vector(warm) if warm is not None else None
    impossible = any(found.largest < found.threshold - 1e-9 * max(1.0, abs(found.threshold)) for found in attainable)
    parts = option_parts(
        objective, solver=solver, rounds=rounds, num_starts=num_starts, start=start, warm=warm_vector, seed=seed
    )
    folder = None if folder is None else Path(folder)
    with recorded_run(folder, problem=problem_parts(problem, policy_class), options=parts):
        if not impossible:
            begins = starts(objective, count=num_starts, kind=start, seed=seed, warm=warm_vector)
            if start == "mixed":
                begins = with_feasible_start(objective, begins, scales=scales, seed=seed)
            search.run(begins, rounds, seed=seed, folder=folder, processes=_processes(processes, product, len(begins)))
        return search.conclude(impossible, attainable, name=rounds[0].name, seed=seed, begun=begun, sequences=sequences)


def _rounds(solver: Solver | None, scales: FloatArray) -> tuple[Solver, ...]:
    """A given solver runs every start to its end; the default gives all a short run and only the best long ones."""
    if solver is not None:
        return (solver,)
    return tuple(AugmentedLagrangian(scales=scales, max_steps=steps) for steps in _ROUNDS)


def _check(problem: Problem, start: str) -> None:
    faults = []
    if start not in START_KINDS:
        faults.append(Fault("start", f"there is no start '{start}'", f"use one of {', '.join(START_KINDS)}"))
    if problem.task.over == "forever":
        found = "solving needs a return over the horizon"
        faults.append(Fault("task.over", found, "write 'over: horizon', or measure a given policy"))
    if faults:
        raise InputError(faults)


def _scales(objective: Objective, attainable: tuple[Attainable, ...]) -> FloatArray:
    """The size of each requirement: how far the largest return is from the uniform policy's, or from 0."""
    process = objective.process
    uniform = [expected_return(process, process.uniform(), payoff) for payoff in objective.requirements()]
    spans = [
        max(abs(found.largest - mean), abs(found.largest)) for found, mean in zip(attainable, uniform, strict=True)
    ]
    return np.array([span if span > 0 else 1.0 for span in spans])


def _processes(asked: int | None, product: Product, jobs: int) -> int:
    if asked is not None:
        return min(asked, jobs)
    return 1 if beliefs_of(product) <= _FEW_BELIEFS else min(len(os.sched_getaffinity(0)), jobs)


def _file(folder: Path | None, begin: Start, number: int) -> Path | None:
    return None if folder is None else folder / f"start-{begin.place}-{number}.npz"


def _end(results: dict[int, StartResult], begin: Start) -> Snapshot | None:
    return results[begin.place].end if begin.place in results else None


def _promise(result: StartResult) -> float:
    """What a start may come to: its best feasible score, or where it stands less the price of what it still lacks."""
    last = result.traces[-1]
    standing = last.score + 1.5 * float(last.multipliers @ np.minimum(last.slack, 0.0))
    return max(standing, result.best.score) if result.best.feasible else standing


def _kept(count: int, number: int) -> int:
    """How many starts take part in a round."""
    return count if number == 0 else max(2, (count + 2) // 3) if number == 1 else 2


def _planned(count: int, rounds: tuple[Solver, ...]) -> int:
    """The most steps all rounds together can take."""
    before = [0, *(solver.max_steps for solver in rounds)]
    return sum(
        min(_kept(count, number), count) * (solver.max_steps - before[number]) for number, solver in enumerate(rounds)
    )


def _promising(begins: list[Start], results: dict[int, StartResult], number: int) -> list[Start]:
    """The best third of the starts, later the best two, as far as they have not converged."""
    ranked = sorted(begins, key=lambda begin: -_promise(results[begin.place]))
    chosen = ranked[: _kept(len(begins), number)]
    return [begin for begin in chosen if results[begin.place].status not in _ENDED]


@contextmanager
def _between_steps() -> Iterator[list[bool]]:
    """Ctrl-C is noted, and acted on after the step under way: compiled code must not be left half-way.

    A second Ctrl-C is not waited for.
    """
    asked: list[bool] = []

    def note(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)

    if current_thread() is not main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


class _Search:
    """Collects what the starts find."""

    def __init__(self, objective: Objective, scales: FloatArray, on_step: Callable[[Progress], None] | None) -> None:
        self._objective, self._scales, self._on_step = objective, scales, on_step
        self._results: list[StartResult] = []
        self._best: Candidate | None = None
        self._hope: Candidate | None = None
        self._traces: tuple[Trace, ...] = ()
        self._interrupted = False
        self._heard, self._planned = 0, 0
        self._asked_to_stop: list[bool] = []

    def run(
        self, begins: list[Start], rounds: tuple[Solver, ...], *, seed: int, folder: Path | None, processes: int
    ) -> None:
        """Every start by the first solver; the best go on with the next."""
        results: dict[int, StartResult] = {}
        self._planned = _planned(len(begins), rounds)
        for number, solver in enumerate(rounds):
            every = 1 if isinstance(solver, AugmentedLagrangian) else 100
            jobs = [
                Job(
                    self._objective,
                    solver,
                    begin,
                    seed,
                    self._scales,
                    _file(folder, begin, number),
                    every,
                    _end(results, begin),
                )
                for begin in (begins if number == 0 else _promising(begins, results, number))
            ]
            try:
                with _between_steps() as self._asked_to_stop:
                    for result in run_jobs(jobs, processes=processes, on_step=self._hear):
                        results[result.place] = result
            except KeyboardInterrupt:
                self._interrupted = True
                break
        self._results = [results[place] for place in sorted(results)]
        for result in self._results:
            if result.best.beats(self._best):
                self._best, self._traces = result.best, result.traces

    def _hear(self, progress: Progress) -> None:
        if progress.best is not None and progress.best.beats(self._hope):
            self._hope = progress.best
        self._heard += 1
        if self._on_step is not None:
            self._on_step(replace(progress, share=min(1.0, self._heard / max(self._planned, 1))))
        if self._asked_to_stop:
            raise KeyboardInterrupt

    def conclude(
        self,
        impossible: bool,
        attainable: tuple[Attainable, ...],
        *,
        name: str,
        seed: int,
        begun: float,
        sequences: int,
    ) -> Solution:
        product, verdict = self._objective.product, self._verdict(impossible, seed)
        pi = product.process.softmax(verdict.candidate.theta)
        measurement = measure_product(product, pi, sequences=sequences)
        return Solution(
            status=verdict.status,
            status_text=status_text(verdict, measurement, attainable),
            policy=product.policy(pi),
            measurement=measurement,
            attainable=attainable,
            optimality=verdict.optimality,
            starts=tuple(self._results),
            trace=self._traces,
            solver=name,
            seed=seed,
            seconds=perf_counter() - begun,
            product=product,
            pi=pi,
        )

    def _verdict(self, impossible: bool, seed: int) -> Verdict:
        """The best policy and what may be said of it; after an interrupt nothing more is tried."""
        best = self._best
        if self._interrupted and self._hope is not None and self._hope.beats(best):
            best = self._hope  # from a start that did not end
        if best is None or not best.feasible:
            best = self._closest(best, seed)
        if impossible or self._interrupted or not best.feasible:
            ended = Status.INFEASIBLE if impossible else Status.INTERRUPTED if self._interrupted else Status.NOT_FOUND
            return Verdict(best, ended, None)
        claimed = next((result.status for result in self._results if result.best is best), Status.EDGE)
        spent = 3 * sum(result.iterations for result in self._results) // 2
        try:
            with _between_steps() as asked:
                return reach_verdict(
                    self._objective,
                    best,
                    claimed=claimed,
                    scales=self._scales,
                    evaluations=spent,
                    asked_to_stop=lambda: bool(asked),
                )
        except KeyboardInterrupt:
            self._interrupted = True
            return Verdict(best, Status.INTERRUPTED, None)

    def _closest(self, best: Candidate | None, seed: int) -> Candidate:
        """Where no start ended feasible: a policy made to meet the task, or the one that comes closest."""
        found = feasible_policy(self._objective, scales=self._scales, seed=seed, climb=not self._interrupted)
        made = judge(self._objective, self._objective.process.logits(found.pi), scales=self._scales)
        return best if best is not None and not made.beats(best) else made
