"""Which starts run, and how long: all for a while, the better ones on, more only while the best disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.product.compile import possible_secrets
from opaq.solvers.loop import Candidate, Progress, SolverCheckpoint, StartResult, has_no_secret, run_start
from opaq.solvers.objective import Objective
from opaq.solvers.runs import Checkpoint
from opaq.solvers.starts import Start
from opaq.solvers.strategy import Plan, Solver, Status, Trace

_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """One start with all it needs."""

    objective: Objective
    solver: Solver
    start: Start
    seed: int
    file: Path | None  # where its checkpoint is kept
    judge_every: int
    begin: SolverCheckpoint | None = None

    def run(self, on_step: Callable[[Progress], None] | None) -> StartResult:
        """Run it in this thread."""
        template = self.solver.init(self.objective, self.start.theta)
        return run_start(
            self.objective,
            self.solver,
            self.start,
            seed=self.seed,
            on_step=on_step,
            keeper=None if self.file is None else Checkpoint(self.file, template),
            begin=self.begin,
            judge_every=self.judge_every,
        )


def _run_jobs(jobs: list[Job], workers: int, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
    """The results as they come; `on_step` is called in the caller's thread.

    When the stop of the objective is requested it ends within moments, with the best that the starts have.
    """
    with threadpool_limits(1):  # sums over several threads round differently
        if workers <= 1 or len(jobs) <= 1:
            for job in jobs:
                yield job.run(on_step)
            return
        yield from _in_threads(jobs, workers, on_step)


def _in_threads(jobs: list[Job], workers: int, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
    messages: SimpleQueue[Progress] = SimpleQueue()
    with ThreadPoolExecutor(workers) as pool:
        waiting: set[Future[StartResult]] = {pool.submit(job.run, messages.put) for job in jobs}
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=_SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    on_step(messages.get())
                for future in finished:
                    yield future.result()
        except BaseException:
            jobs[0].objective.stop.request()  # nobody listens any more
            raise


AGREEMENT = 1e-3  # of the best opacity (1 bit at least): starts this close together ended at the same optimum
_ENDED = (Status.CONVERGED, Status.SETTLED)  # more steps would change nothing


@dataclass(frozen=True, slots=True)
class RaceResult:
    """What all starts came to."""

    results: tuple[StartResult, ...]
    best: Candidate | None
    trace: tuple[Trace, ...]  # of the start that won
    claimed: Status  # how that start ended


def run_race(
    objective: Objective,
    plan: Plan,
    begins: list[Start],
    *,
    seed: int,
    folder: Path | None,
    workers: int,
    on_step: Callable[[Progress], None] | None,
) -> RaceResult:
    """Run the waves of a plan in at most so many threads. Ends early when the stop is requested.

    begins: the starts of all waves.
    """
    race = _Race(objective, plan, seed, folder, workers, on_step)
    first = 0
    for count in plan.waves:
        race.wave(begins[first : first + count])
        first += count
        if objective.stop.requested or race.agree():
            break
    return race.outcome()


class _Race:
    """Collects the results of the starts, round by round."""

    def __init__(
        self,
        objective: Objective,
        plan: Plan,
        seed: int,
        folder: Path | None,
        workers: int,
        on_step: Callable[[Progress], None] | None,
    ) -> None:
        self._objective, self._plan, self._seed = objective, plan, seed
        self._folder, self._workers, self._on_step = folder, workers, on_step
        self._results: dict[int, StartResult] = {}
        self._finalists: set[int] = set()  # starts that took part in a last round
        self._steps, self._planned = 0, 0

    def wave(self, begins: list[Start]) -> None:
        """One wave through all rounds."""
        self._planned = self._steps + self._most_steps(len(begins))
        racing = begins
        for number, (solver, kept) in enumerate(zip(self._plan.rounds, self._plan.kept, strict=True)):
            racing = self._chosen(racing, kept) if number else racing
            jobs = [self._job(begin, solver, number) for begin in racing if not self._ended(begin)]
            for result in _run_jobs(jobs, self._workers, self._note):
                self._results[result.index] = result
            if self._objective.stop.requested:
                return
        self._finalists.update(begin.index for begin in racing)

    def agree(self) -> bool:
        """Whether the best start is not alone at its optimum, or more starts are no hope: none meets the task.

        (Where a policy that meets the task is known at all, it is among the starts of the first wave.) Policies that
        have nothing to hide agree on nothing, unless no policy has.
        """
        ranked = sorted(self._finalists, key=self._score, reverse=True)[:2]
        scores = [self._score(index) for index in ranked]
        if scores and scores[0] == -np.inf:
            return True
        if len(scores) < 2 or scores[0] - scores[1] > AGREEMENT * max(1.0, abs(scores[0])):
            return False
        return not all(self._has_no_secret(index) for index in ranked) or not self._can_have_secrets()

    def outcome(self) -> RaceResult:
        """The best of all starts; on equal scores the first."""
        results = tuple(self._results[index] for index in sorted(self._results) if self._results[index].best)
        winner: StartResult | None = None
        for result in results:
            if result.best is not None and result.best.beats(winner.best if winner else None):
                winner = result
        if winner is None:
            return RaceResult(results, None, (), Status.INTERRUPTED)
        return RaceResult(results, winner.best, winner.traces, winner.status)

    def _job(self, begin: Start, solver: Solver, number: int) -> Job:
        file = None if self._folder is None else self._folder / f"start-{begin.index}-{number}.npz"
        before = self._results[begin.index].end if begin.index in self._results else None
        return Job(self._objective, solver, begin, self._seed, file, solver.judge_every, before)

    def _ended(self, begin: Start) -> bool:
        return begin.index in self._results and self._results[begin.index].status in _ENDED

    def _chosen(self, begins: list[Start], count: int) -> list[Start]:
        """The most promising starts, in their own order."""
        ranked = sorted(begins, key=lambda begin: -_promise(self._results[begin.index]))[:count]
        return sorted(ranked, key=lambda begin: begin.index)

    def _score(self, index: int) -> float:
        best = self._results[index].best
        return best.score if best is not None and best.feasible else -np.inf

    def _has_no_secret(self, index: int) -> bool:
        best = self._results[index].best
        return best is not None and has_no_secret(self._objective.process, best.theta)

    def _can_have_secrets(self) -> bool:
        """Whether some policy may have something to hide, and should."""
        return self._objective.sign > 0 and len(possible_secrets(self._objective.product)) > 1

    def _most_steps(self, count: int) -> int:
        before = 0
        total = 0
        for solver, kept in zip(self._plan.rounds, self._plan.kept, strict=True):
            total += min(count, kept) * (solver.max_steps - before)
            before = solver.max_steps
        return total

    def _note(self, progress: Progress) -> None:
        self._steps += 1
        if self._on_step is not None:
            self._on_step(replace(progress, share=min(1.0, self._steps / max(self._planned, 1))))


def _promise(result: StartResult) -> float:
    """What a start may come to: its best feasible score, or where it stands less the price of what it still lacks."""
    last = result.traces[-1]
    standing = last.score + 1.5 * float(last.multipliers @ np.minimum(last.slack, 0.0))
    feasible = result.best is not None and result.best.feasible
    return max(standing, result.best.score) if feasible and result.best is not None else standing
