"""Starts side by side: a few spawned processes, one thread each, the same answer whatever their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import sleep
from typing import Any

from threadpoolctl import threadpool_limits

from opaq.model.arrays import FloatArray
from opaq.solve.loop import Progress, Snapshot, StartResult, run_start
from opaq.solve.objective import Objective
from opaq.solve.runs import Checkpoint
from opaq.solve.starts import Start
from opaq.solve.strategy import Solver

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """One start with all it needs, as it is sent to a process."""

    objective: Objective
    solver: Solver
    start: Start
    seed: int
    scales: FloatArray
    file: Path | None  # where its checkpoint is kept
    judge_every: int
    begin: Snapshot | None = None

    def run(self, on_step: Callable[[Progress], None] | None) -> StartResult:
        """Run it here."""
        template = self.solver.init(self.objective, self.start.theta)
        return run_start(
            self.objective,
            self.solver,
            self.start,
            seed=self.seed,
            scales=self.scales,
            on_step=on_step,
            keeper=None if self.file is None else Checkpoint(self.file, template),
            begin=self.begin,
            judge_every=self.judge_every,
        )


def run_jobs(jobs: list[Job], *, processes: int, on_step: Callable[[Progress], None]) -> Iterator[StartResult]:
    """The results as they come; stops all work when the caller stops listening."""
    if processes <= 1 or len(jobs) <= 1:
        with threadpool_limits(1):  # sums over several threads round differently
            for job in jobs:
                yield job.run(on_step)
        return
    context = get_context("spawn")
    messages = context.Queue()
    with _one_thread_each():
        given = (messages, os.getpid())
        pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_listen, initargs=given)
        try:
            waiting: set[Future[StartResult]] = {pool.submit(_work, job) for job in jobs}
            while waiting:
                finished, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    on_step(messages.get())
                for future in finished:
                    yield future.result()
        finally:
            _stop(pool)
            messages.cancel_join_thread()


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the pool now; a start that was under way has its checkpoint."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Numerical libraries of spawned processes use one thread: two unpinned workers slow each other down."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_messages: Any = None  # one queue a worker process


def _listen(messages: Any, parent: int) -> None:
    """In a worker: where progress goes; Ctrl-C is the parent's to handle, and a worker does not outlive it."""
    import signal
    from threading import Thread

    global _messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _messages = messages
    Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    """End this process when its parent has gone, even by kill -9."""
    while os.getppid() == parent:
        sleep(1.0)
    os._exit(1)


def _work(job: Job) -> StartResult:
    return job.run(_messages.put)
