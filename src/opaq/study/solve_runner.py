"""The starts of a solve on an executor: slice by slice, lost ones again, and what is there when it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import count
from typing import Any

from opaq.errors import Fault, InputError
from opaq.solvers.loop import Progress, SolverCheckpoint, StartResult
from opaq.solvers.race import Job
from opaq.solvers.runs import Checkpoint
from opaq.solvers.strategy import Status
from opaq.stop import on_exit
from opaq.study.start_task import OWN_KINDS, SentProblem, end_of, slice_task
from opaq.study.workers.executor import Ended, Executor, open_executor

MOST_LOSSES = 5  # of the workers of one slice, before the solve fails
_LOOK = 0.2  # seconds between two looks at whether to stop


def runner_on(on: str, processes: int | None) -> ExecutorRunner:
    """What runs starts at "local", "ray" or "ray://HOST:PORT". Raises InputError when nothing can run there."""
    return ExecutorRunner(open_executor(on, processes))


class ExecutorRunner:
    """Runs starts in the processes of an executor, which is closed with it."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._open = executor, ExitStack()
        self._open.enter_context(closing(executor))
        self._open.enter_context(on_exit(executor.close))
        self._keys = count()  # of slices: one that nobody waits for any more may still end

    def run(self, jobs: list[Job], *, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
        """The results as they come; steps are told when the slice they are in has ended.

        When the stop of the objective is requested the workers are ended; every start then stands where its last slice
        ended. Raises InputError when a start cannot run, or its workers are lost again and again.
        """
        if not jobs:
            return
        stop, problem = jobs[0].objective.stop, _sent(jobs[0])
        waiting, running = [_Course(job) for job in jobs], dict[int, _Course]()
        while (waiting or running) and not stop.requested:
            for ended in [course for course in waiting if course.status is not None]:
                waiting.remove(ended)
                yield ended.result()
            self._hand_out(waiting, running, problem)
            for come in self._executor.wait(_LOOK) if waiting or running else ():  # a cluster tells there of its cores
                course = running.pop(come.key, None)
                if course is not None:
                    course.take(come, on_step)
                    waiting.insert(0, course)
        if waiting or running:
            self.close()
            yield from (course.result() for course in [*running.values(), *waiting] if course.now is not None)

    def close(self) -> None:
        """End all workers."""
        self._open.close()

    def _hand_out(self, waiting: list[_Course], running: dict[int, _Course], problem: SentProblem) -> None:
        while waiting and self._executor.free() > 0:
            course, key = waiting.pop(0), next(self._keys)
            running[key] = course
            self._executor.submit(key, course.task(problem), limit=None)


class _Course:
    """One start on its way from slice to slice."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._template = job.solver.init(job.objective, job.start.theta)
        self._keeper = None if job.file is None else Checkpoint(job.file, self._template)
        self.now: SolverCheckpoint | None = (self._keeper.load() if self._keeper else None) or job.begin
        self._seconds, self._losses, self._whole = 0.0, 0, False

    @property
    def status(self) -> Status | None:
        """How it ended, or None."""
        return None if self.now is None else self.job.solver.done(self.now.state)

    def task(self, problem: SentProblem) -> dict[str, Any]:
        """Its next slice."""
        return slice_task(self.job, problem, self.now, whole=self._whole)

    def result(self) -> StartResult:
        """How it ended, or where it stands."""
        now, start = self.now, self.job.start
        assert now is not None
        traces, status = tuple(now.traces), self.status or Status.INTERRUPTED
        return StartResult(start.place, start.kind, status, now.best, len(traces), traces, self._seconds, now)

    def take(self, ended: Ended, on_step: Callable[[Progress], None]) -> None:
        """Go on from where a slice ended; from where it began, if its worker was lost."""
        if ended.ending == "answered":
            return self._go_on(ended.answer or {}, on_step)
        self._losses += 1
        if self._losses >= MOST_LOSSES:
            found = f"the workers of start {self._number} were lost {MOST_LOSSES} times, last: {ended.explanation}"
            raise InputError([Fault("on", found, "is there enough memory for so many processes?")])
        return None

    def _go_on(self, answer: Mapping[str, Any], on_step: Callable[[Progress], None]) -> None:
        if "error" in answer:
            found = f"start {self._number} cannot run on a worker: {answer['error']}"
            raise InputError([Fault("on", found, OWN_KINDS)])
        self._whole = "missing" in answer  # the worker has not compiled the problem: now it gets it, or another one
        if self._whole:
            return
        before = 0 if self.now is None else len(self.now.traces)
        self.now, self._losses = end_of(answer, self._template), 0
        self._seconds += answer["seconds"]
        unstored = "" if self._keeper is None else self._keeper.store(self.now, final=True)
        for trace in self.now.traces[before:]:
            on_step(Progress(self.job.start.place, trace, self.now.best, self._seconds, unstored=unstored))

    @property
    def _number(self) -> int:
        return self.job.start.place + 1


def _sent(job: Job) -> SentProblem:
    return SentProblem.of(job.objective.product)
