"""Starts side by side: a few threads, the same answer whatever their number.

Threads, not processes: nearly all time is spent in kernels that release the interpreter, nothing has to be sent or
started, scripts need no `__main__` guard, and a request to stop reaches every start at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from threadpoolctl import threadpool_limits

from opaq.solvers.loop import Progress, Snapshot, StartResult, run_start
from opaq.solvers.objective import Objective
from opaq.solvers.run_files import Checkpoint
from opaq.solvers.starts import Start
from opaq.solvers.strategy import Solver

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
    begin: Snapshot | None = None

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


class StartRunner(Protocol):
    """What runs the starts of a solve; the results are the same bit for bit, whatever does."""

    def run(self, jobs: list[Job], *, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
        """The results as they come; `on_step` is called in the caller's thread.

        When the stop of the objective is requested it ends within moments, with the best that the starts have.
        """

    def close(self) -> None:
        """End what it has started."""


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """Threads of this process, which share the compiled problem."""

    workers: int

    def run(self, jobs: list[Job], *, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
        """The results as they come."""
        with threadpool_limits(1):  # sums over several threads round differently
            if self.workers <= 1 or len(jobs) <= 1:
                for job in jobs:
                    yield job.run(on_step)
                return
            yield from _in_threads(jobs, self.workers, on_step)

    def close(self) -> None:
        """Nothing outlives a run."""


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
