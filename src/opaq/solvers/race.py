"""Run the starts of a solve: all for a while, the better ones on, more only while the best disagree.

A plan has rounds (solvers that differ in how many steps they take) and waves (groups of starts). Every wave goes
through all rounds, in each of which only the most promising starts go on. Where the belief graph is large, each round
climbs a larger part of it, as far as time allows, or the first rounds sample it. A later wave runs only if the two best
starts so far ended at different scores: then the best optimum may not have been met yet.

An objective, a plan and initial policies come in; the result of every start and the best policy go out. Starts run in
threads: kernels release Python's lock. Each has random numbers of its own, drawn from the seed and its index, and which
starts go on is decided when a round is complete, so that the answer does not depend on how many run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.beliefs.graph import Budget
from opaq.product.compile import possible_secrets
from opaq.solvers.loop import Candidate, Progress, SolverCheckpoint, StartResult, has_no_secret, judge, run_start
from opaq.solvers.objective import Objective
from opaq.solvers.runs import Checkpoint
from opaq.solvers.starts import Start
from opaq.solvers.strategy import Plan, Solver, Status, Trace
from opaq.stop import Deadline, StoppedError

_ROUND_SHARE = 0.25  # of the time that is left, for a round that others follow
_LEAST_STEPS = 8  # that a larger graph must allow in the time left
_MOST_GROWTH = 8.0  # by how much longer a step takes on the last graph, which may be much smaller than its budget
_POLL_SECONDS = 0.1  # between two looks at the messages of threads
_FORESEEN = 90  # steps of a round that ends when it has settled, for the share that is done
_AGREEMENT = 1e-3  # of the best opacity (1 bit at least): starts this close together ended at the same optimum
_ENDED = (Status.CONVERGED, Status.SETTLED)  # more steps would change nothing


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The results of all starts that have a policy, in order of their index, and the best of them."""

    results: tuple[StartResult, ...]
    best: Candidate | None  # None: there was no time for any policy
    trace: tuple[Trace, ...]  # of the start that won
    claimed: Status  # how that start ended
    budget: Budget | None = None  # of the belief graph in the last round of that start; None: no start, or sampled
    made: Start | None = None  # the start that was made for the task, where none of the others met it


def run_race(
    objective: Objective,
    plan: Plan,
    begins: list[Start],
    *,
    seed: int,
    folder: Path | None,
    workers: int,
    deadline: Deadline,
    on_step: Callable[[Progress], None] | None,
) -> RaceResult:
    """Run the waves of a plan. Ends early, with what there is, when the objective's stop is requested.

    begins: the starts of all waves, in order.
    seed: of the solvers' random numbers; the result does not depend on `workers`.
    folder: where checkpoints are kept, one per start and round; None: nowhere.
    workers: the most threads.
    deadline: of the race. Every round but the last has a share of the time left.
    on_step: called in this thread after every step of any start.
    """
    race = _Race(objective, plan, seed, folder, workers, deadline, on_step)
    first = 0
    for size in plan.waves:
        race.run_wave(begins[first : first + size])
        first += size
        if objective.stop.requested or race.agree():
            break
    else:
        if race.lacks_secret():
            race.run_wave(begins[first : first + plan.rescue])
    return race.result()


class _Race:
    """Collects the results of the starts, round by round."""

    def __init__(
        self,
        objective: Objective,
        plan: Plan,
        seed: int,
        folder: Path | None,
        workers: int,
        deadline: Deadline,
        on_step: Callable[[Progress], None] | None,
    ) -> None:
        self._objective, self._plan, self._seed = objective, plan, seed
        self._folder, self._workers, self._deadline, self._on_step = folder, workers, deadline, on_step
        self._results: dict[int, StartResult] = {}  # by index of the start
        self._finalists: set[int] = set()  # starts that took part in a last round
        self._used: dict[int, Budget | None] = {}  # of the last round of every start
        self._budgets = list(plan.budgets[:1])  # of every round of this wave so far
        self._seconds_a_step = 0.0  # in the last round
        self._steps, self._planned = 0, 0

    def run_wave(self, begins: list[Start]) -> None:
        """Run one wave through all rounds.

        begins: the starts of the wave. Starts that converged or settled are not run again. Ends after the round in
            which the
        objective's stop is requested.
        """
        before = 0
        self._planned = self._steps
        del self._budgets[1:]
        for solver, kept in zip(self._plan.rounds, self._plan.kept, strict=True):
            steps = min(solver.max_steps, before + _FORESEEN) if len(self._plan.rounds) > 1 else solver.max_steps
            self._planned += min(len(begins), kept) * (steps - before)
            before = steps
        racing = begins
        for number, (solver, kept) in enumerate(zip(self._plan.rounds, self._plan.kept, strict=True)):
            last = number == len(self._plan.rounds) - 1
            if last and number > 1 and self._deadline.left is not None:
                kept = min(kept, self._workers)  # they would take the time of each other
            if number:  # only the most promising go on, in their own order
                ranked = sorted(racing, key=lambda begin: -_promise(self._results[begin.index]))
                leading = {begin.index for begin in ranked[:kept]}
                racing = [begin for begin in racing if begin.index in leading]
                self._grow(number)
            again = number > 0 and bool(self._plan.budgets)
            jobs = [self._job(begin, solver, number) for begin in racing if again or not self._has_ended(begin)]
            share = 1.0 if last else _ROUND_SHARE
            clock, made = Deadline(), self._steps
            with self._objective.stop.stage(seconds := self._deadline.share(share)):
                done = _run_jobs(jobs, self._workers, Deadline(seconds), self._note)
                self._results |= {result.index: result for result in done}
            self._used |= {job.start.index: self._budgets[number] if self._budgets else None for job in jobs}
            self._seconds_a_step = clock.elapsed * min(self._workers, len(jobs)) / max(self._steps - made, 1)
            racing = [begin for begin in racing if self._results[begin.index].traces] or racing[:1]
            if self._objective.stop.requested:
                return
        self._finalists.update(begin.index for begin in racing)

    def _grow(self, number: int) -> None:
        """Choose the belief graph of a round: as planned, or that of the round before where time is too short for it.

        A step takes about as much longer as its graph is larger; steps on samples tell nothing of it.
        """
        if not self._plan.budgets:
            return
        before, planned, left = self._budgets[number - 1], self._plan.budgets[number], self._deadline.left
        if before is not None and planned is not None and left is not None:
            growth = min(planned.nodes / before.nodes, _MOST_GROWTH)
            planned = planned if _LEAST_STEPS * growth * self._seconds_a_step <= left else before
        self._budgets.append(planned)

    def agree(self) -> bool:
        """Return whether the best start is not alone at its optimum, or more starts are no hope: none meets the task.

        Two scores agree where they differ by at most 1e-3 of the best one, or of 1 where it is smaller. Where a policy
        that meets the task is known at all, it is among the starts of the first wave. Policies that have nothing to
        hide agree on nothing, unless no policy has, or as little as possible is asked for.
        """
        ranked = sorted(self._finalists, key=self._score, reverse=True)[:2]
        scores = [self._score(index) for index in ranked]
        if scores and scores[0] == -np.inf:
            return True
        if len(scores) < 2 or scores[0] - scores[1] > _AGREEMENT * max(1.0, abs(scores[0])):
            return False
        return not any(self._lacks_secret(index) for index in ranked)

    def lacks_secret(self) -> bool:
        """Return whether all starts that took part in a last round ended with nothing to hide, though some could."""
        return all(self._lacks_secret(index) for index in self._finalists)

    def _lacks_secret(self, index: int) -> bool:
        """Return whether the best policy of a start has nothing to hide, though others may and are asked for."""
        best, objective = self._results[index].best, self._objective
        if objective.sign < 0 or best is None or not has_no_secret(objective, best.theta):
            return False
        return len(possible_secrets(objective.product)) > 1

    def result(self) -> RaceResult:
        """Return the best of all starts; on equal scores the first.

        Where some were judged by estimates alone, since they did not go on, they are no match for the others.
        """
        results = tuple(self._results[index] for index in sorted(self._results) if self._results[index].best)
        certain = [
            each for each in results if each.best is not None and each.best.feasible and not each.best.is_estimate
        ]
        winner: StartResult | None = None
        for result in certain or results:
            if result.best is not None and result.best.beats(winner.best if winner else None):
                winner = result
        if winner is None:
            return RaceResult(results, None, (), Status.INTERRUPTED)
        return RaceResult(results, winner.best, winner.traces, winner.status, self._used[winner.index])

    def _job(self, begin: Start, solver: Solver, number: int) -> _Job:
        """Return one start of a round, which goes on where the round before left it."""
        file = None if self._folder is None else self._folder / f"start-{begin.index}-{number}.npz"
        before = self._results[begin.index].end if begin.index in self._results else None
        objective, plan = self._objective, self._plan
        if plan.budgets:
            budget = self._budgets[number]
            objective = replace(objective, gradients="sampled") if budget is None else replace(objective, budget=budget)
        if begin.known and plan.warm is not None and number == 0:
            solver = plan.warm(solver)
        return _Job(objective, solver, begin, self._seed, file, before, plan.refine if number else None)

    def _has_ended(self, begin: Start) -> bool:
        """Return whether more steps would change nothing for a start."""
        return begin.index in self._results and self._results[begin.index].status in _ENDED

    def _score(self, index: int) -> float:
        """Return the best score of a start that meets the task, -inf where it has none."""
        best = self._results[index].best
        return best.score if best is not None and best.feasible else -np.inf

    def _note(self, progress: Progress) -> None:
        """Pass a step on, with the share of the steps planned at most that are done."""
        self._steps += 1
        if self._on_step is not None:
            self._on_step(replace(progress, share=min(1.0, self._steps / max(self._planned, 1))))


def _promise(result: StartResult) -> float:
    """Return what a start may come to: its best feasible score, or its last less the price of what it still lacks.

    score + 1.5 multipliers . min(slack, 0),   the last of the trace; the larger of both where a feasible one is
    known. An estimate of a feasible one stands alone: the scores of a noisy trace are of fewer runs, and biased.
    """
    if not result.traces:  # there was no time for a step
        return -np.inf
    last = result.traces[-1]
    standing = last.score + 1.5 * float(last.multipliers @ np.minimum(last.slack, 0.0))
    best = result.best
    if best is None or not best.feasible:
        return standing
    return best.score if best.is_estimate else max(standing, best.score)


@dataclass(frozen=True, slots=True)
class _Job:
    """One start of one round with all it needs."""

    objective: Objective
    solver: Solver
    start: Start
    seed: int
    file: Path | None  # where its checkpoint is kept
    begin: SolverCheckpoint | None  # where the round before left it
    refine: Callable[[Any], Any] | None  # makes a solver's state go on where the belief graph has grown since then

    def run(self, on_step: Callable[[Progress], None] | None) -> StartResult:
        """Run it in this thread.

        It goes on from its checkpoint file, else from where the round before left it, else from its initial policy.
        """
        template = self.solver.init(self.objective, self.start.theta)
        return run_start(
            self.objective,
            self.solver,
            self.start,
            seed=self.seed,
            on_step=on_step,
            file=None if self.file is None else Checkpoint(self.file, template),
            begin=self._refined(),
            judge_every=self.solver.judge_every,
        )

    def _refined(self) -> SolverCheckpoint | None:
        """Return where to begin; where the graph has grown, the best policy is judged again.

        Lower bounds of different cuts cannot be compared.
        """
        begin = self.begin
        if begin is None or self.refine is None:
            return begin
        best = begin.best
        with suppress(StoppedError):  # then there is no time for steps either
            best = None if best is None else judge(self.objective, best.theta)
        return SolverCheckpoint(self.refine(begin.state), begin.rng, best, begin.traces)


def _run_jobs(
    jobs: list[_Job], workers: int, deadline: Deadline, on_step: Callable[[Progress], None]
) -> Iterator[StartResult]:
    """Yield the results as they come; `on_step` is called in the caller's thread.

    jobs: the starts of one round. workers: the most threads. deadline: of the round, its time shared evenly among the
        starts that take turns.
    When the stop of the objective is requested it ends within moments, with the best that the starts have.
    """
    turns = count()

    def run(job: _Job, note: Callable[[Progress], None]) -> StartResult:
        more = -(-(len(jobs) - next(turns)) // workers)  # turns to come, this one included
        with job.objective.stop.part(deadline.share(1.0 / more) if more > 1 else None) as part:
            return replace(job, objective=replace(job.objective, stop=part)).run(note)

    with threadpool_limits(1):  # sums over several threads round differently
        if workers <= 1 or len(jobs) <= 1:
            for job in jobs:
                yield run(job, on_step)
            return
        messages: SimpleQueue[Progress] = SimpleQueue()
        with ThreadPoolExecutor(workers) as pool:
            waiting: set[Future[StartResult]] = {pool.submit(run, job, messages.put) for job in jobs}
            try:
                while waiting:
                    finished, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                    while not messages.empty():
                        on_step(messages.get())
                    for future in finished:
                        yield future.result()
            except BaseException:
                jobs[0].objective.stop.request()  # the consumer has gone
                raise
