"""Run a sweep: every point once, each result durable before it counts, whatever ends on the way."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

from opaq.errors import Faults, check_numbers, check_types, is_flag
from opaq.files import lock_folder
from opaq.stop import Stop, interruptible, on_exit
from opaq.study.sweep.files import make_folders, open_folder, remove_point, write_parquet, write_point, write_tables
from opaq.study.sweep.journal import FAILED, Journal
from opaq.study.sweep.plan import SweepPlan, read_plan
from opaq.study.sweep.points import SweepPoint, limit_of, sweep_points, task_of
from opaq.study.sweep.study import Study, record_of, study_of
from opaq.study.workers.executor import Ended, Executor, executor_name, open_executor
from opaq.version import __version__

MOST_LOSSES = 5  # of the workers of one point, before it counts as failed
_LOOK = 0.2  # seconds between two looks at whether to stop
_TABLES_EVERY = 2.0  # seconds between two tables, while points come in,
_TABLES_SHARE = 20.0  # and at least so many times what writing them takes


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Where a sweep stands."""

    total: int
    done: int  # points with an answer, those of earlier runs included
    failed: int
    running: int
    seconds_left: float | None  # an estimate; None while nothing is known
    message: str = ""  # what has just happened, where that is worth a line


def sweep(
    plan: str | os.PathLike[str] | Mapping[str, Any],
    *,
    output: str | os.PathLike[str],
    executor: str | Executor = "local",
    workers: int | None = None,
    retry: bool = False,
    time_limit: float | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
    stop: Stop | None = None,
    faults: Faults | None = None,
) -> Study:
    """Solve every point of a plan, on this machine or on a Ray cluster, and record each result in a folder.

    plan: the name of a plan file, or a mapping with its keys, whose problem may also be a Problem.
    output: the folder, made if need be; a sweep that was begun there goes on. One of another plan is refused.
    executor: "local" (processes on this machine), "ray" (the Ray cluster of this machine, or a new one for this sweep),
    "ray://HOST:PORT" (that cluster), or an executor of one's own. The results are the same, bit for bit.
    workers: at most so many points side by side (every core by default).
    retry: whether points that failed before are solved again, and with them those that would have begun from them;
    otherwise they are left as they are.
    time_limit: seconds per point, in place of the plan's; a point much longer at it is ended and counts as failed.
    on_progress: called when something has happened.
    stop: ends the sweep when it is requested; without one, Ctrl-C does, and raises KeyboardInterrupt. A sweep that was
    ended or killed goes on when it is run again: what is done is never done again.
    faults: collects the warnings about the plan and its problems.

    A point that fails is recorded with its reason and never stops the others. Raises InputError with every fault of
    the plan and of the problem of any point before anything runs, and when the folder cannot be written.
    """
    limits = {"workers": (workers, 1, 10**6), "time_limit": (time_limit, 0.001, 1e8)}
    check_numbers(limits, whole=("workers",), optional=limits)
    check_types(
        {
            "output": (output, str | os.PathLike, "the name of a folder"),
            "retry": (retry, is_flag, "True or False"),
            "on_progress": (on_progress, callable, "a function"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "faults": (faults, Faults, "an opaq.errors.Faults"),
        },
        optional=("on_progress", "stop", "faults"),
    )
    with interruptible(stop, keep_answer=False) as asked:
        return _swept(plan, Path(output), executor, workers, retry, time_limit, on_progress, asked, faults)


def _swept(
    plan: object,
    folder: Path,
    executor: str | Executor,
    workers: int | None,
    retry: bool,
    time_limit: float | None,
    on_progress: Callable[[SweepProgress], None] | None,
    stop: Stop,
    faults: Faults | None,
) -> Study:
    """Check everything, hold the folder, and work."""
    stated = read_plan(plan, faults=faults)
    points = sweep_points(stated, stop=stop, faults=faults)
    name = executor_name(executor)
    make_folders(folder)
    with lock_folder(folder):
        open_folder(folder, stated, points, plan)
        with Journal.open(folder) as journal:
            run = _Run(folder, journal, stated, points, time=time_limit, on_progress=on_progress)
            run.begin(name, retry=retry)
            if run.todo and not stop.requested:
                run.work(lambda: open_executor(executor, workers), stop)
            return study_of(folder, journal, interrupted=stop.requested)


class _Run:
    """The one loop: hands points out, records what comes back, and makes the tables."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        plan: SweepPlan,
        points: list[SweepPoint],
        *,
        time: float | None,
        on_progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        self._folder, self._journal, self._plan, self._points = folder, journal, plan, points
        self._time = plan.time_limit if time is None else time
        self._on_progress = on_progress
        self._session = 0
        self._statuses = {point: result.status for point, result in journal.results().items()}
        self._feasible = {point: result.record.get("feasible") for point, result in journal.results().items()}
        self._following: dict[int, list[int]] = {}  # point -> those that begin from it
        for point in points:
            if point.warm_from is not None:
                self._following.setdefault(point.warm_from, []).append(point.index)
        self._losses: dict[int, int] = {}
        self._attempts: dict[int, int] = {}  # running point -> attempt
        self._open: set[int] = set()  # points to do, those running included
        self._tables_at, self._begun, self._ended = 0.0, monotonic(), 0
        self.todo: list[int] = []

    def begin(self, executor: str, *, retry: bool) -> None:
        """See what is left to do, and make the files that an end in the middle may have left out."""
        self._session = self._journal.begin_session(executor, __version__, platform.node(), os.getpid())
        self.todo = [
            point.index
            for point in self._points
            if point.index not in self._statuses or (retry and self._statuses[point.index] == FAILED)
        ]
        self._open = set(self.todo)
        for point, status in self._statuses.items():
            if status != FAILED:
                write_point(self._folder, self._points[point].name, self._journal, point)
        self._write_tables()

    def work(self, start: Callable[[], Executor], stop: Stop) -> None:
        """Solve what is left, until all is done or the work is asked to stop."""
        with closing(start()) as executor, on_exit(executor.close):
            try:
                while (self.todo or self._attempts) and not stop.requested:
                    self._hand_out(executor)
                    for ended in executor.wait(_LOOK):
                        self._take(ended)
                    if monotonic() > self._tables_at:
                        self._write_tables()
            finally:
                executor.close()
                for attempt in self._attempts.values():
                    self._journal.end(attempt, "interrupted")
        self._write_tables()

    def _hand_out(self, executor: Executor) -> None:
        free = executor.free()
        ready = (index for index in self.todo if self._is_ready(index))
        for index in list(islice(ready, free)) if free > 0 else ():
            point = self._points[index]
            before = self._warm_point(point)
            warm = None if before is None else self._journal.policy(before)
            task = task_of(self._plan, point, time=self._time, warm=warm)
            self._attempts[index] = self._journal.begin(index, self._session)
            self.todo.remove(index)
            executor.submit(index, task, limit=limit_of(task))
            self._tell()

    def _is_ready(self, index: int) -> bool:
        """Whether the point that this one begins from has come to its end."""
        before = self._points[index].warm_from
        return before is None or before not in self._open

    def _warm_point(self, point: SweepPoint) -> int | None:
        """The point to begin from: the one before, if its policy meets its task."""
        before = point.warm_from
        return before if before is not None and self._feasible.get(before) else None

    def _take(self, ended: Ended) -> None:
        attempt = self._attempts.pop(ended.key)
        if ended.ending == "lost":
            self._losses[ended.key] = self._losses.get(ended.key, 0) + 1
            self._journal.end(attempt, "lost")
            if self._losses[ended.key] < MOST_LOSSES:
                self.todo.insert(0, ended.key)
                return self._tell()
            reason = f"its worker was lost {MOST_LOSSES} times, the last time: {ended.explanation}"
            return self._record(ended.key, attempt, {"error": reason})
        return self._record(ended.key, attempt, ended.answer or {"error": ended.explanation})

    def _record(self, index: int, attempt: int, answer: Mapping[str, Any]) -> None:
        point = self._points[index]
        record = record_of(answer, warm_from=self._warm_point(point))
        outdated = self._outdated(index) if record.get("feasible") else []
        for each in (index, *outdated):
            remove_point(self._folder, self._points[each].name)
        self._journal.record(
            index, attempt, record, answer=answer.get("answer"), policy=answer.get("policy"), outdated=outdated
        )
        for each in outdated:
            del self._statuses[each], self._feasible[each]
        self.todo += outdated
        self._open.update(outdated)
        self._statuses[index], self._feasible[index] = record["status"], record.get("feasible")
        self._open.discard(index)
        self._ended += 1
        write_point(self._folder, point.name, self._journal, index)
        failed = record["status"] == FAILED
        self._tell(f"point {point.name} ({point.words}) failed: {record['error']}" if failed else "")

    def _outdated(self, index: int) -> list[int]:
        """The points with a result that would have begun from this one, had it not failed before, and so on."""
        following = self._following.get(index, ())
        done = [other for other in following if other in self._statuses and other not in self._open]
        return done + [further for other in done for further in self._outdated(other)]

    def _write_tables(self) -> None:
        begun = monotonic()
        study = study_of(self._folder, self._journal)
        write_tables(self._folder, study.parameters, study.rows())
        if not self._attempts:
            write_parquet(self._folder, study.parameters, study.rows())
        taken = monotonic() - begun
        self._tables_at = monotonic() + max(_TABLES_EVERY, _TABLES_SHARE * taken)

    def _tell(self, message: str = "") -> None:
        if self._on_progress is None:
            return
        failed = sum(status == FAILED for index, status in self._statuses.items() if index not in self.todo)
        left = len(self.todo) + len(self._attempts)
        pace = (monotonic() - self._begun) / self._ended if self._ended else None
        done = len(self._points) - left - failed
        seconds_left = None if pace is None else pace * left
        self._on_progress(SweepProgress(len(self._points), done, failed, len(self._attempts), seconds_left, message))
