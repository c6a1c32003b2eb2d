"""Run a sweep: every point once, each result durable before it counts, whatever ends on the way.

A sweep is a plan and a journal. Whatever is killed, the journal says which points have a result, and the same call goes
on with the others: nothing is lost, nothing is solved twice, and the results are those of a run that was left alone,
bit for bit, because each point depends on the plan and its neighbour's policy alone.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

from opaq.errors import Faults, check_numbers, check_types, is_flag
from opaq.files import lock_folder
from opaq.stop import Stop, interruptible, on_exit
from opaq.study.sweep.files import make_folders, open_journal, remove_point, write_parquet, write_point, write_table
from opaq.study.sweep.journal import FAILED, Journal
from opaq.study.sweep.plan import SweepPlan, SweepPoint, read_plan
from opaq.study.sweep.points import check_points, options_with, spec_with
from opaq.study.sweep.study import Study, study_point
from opaq.study.workers.executor import Ended, Executor, executor_name, open_executor
from opaq.study.workers.task import PointAnswer, PointTask
from opaq.version import __version__

MOST_LOSSES = 5  # of the workers of one point, before it counts as failed
_LOOK = 0.2  # seconds between two looks at whether to stop
_TABLES_EVERY = 2.0  # seconds between two tables, while points come in,
_TABLES_SHARE = 20.0  # and at least so many times what writing them takes


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Where a sweep stands, as `on_progress` hears it when a point begins or ends."""

    total: int  # points of the plan
    done: int  # points with an answer, those of earlier runs included
    failed: int  # points without one, for good
    running: int  # points that a worker is at
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
    with interruptible(stop, keep_answer=False) as stop:
        checked_plan = read_plan(plan, faults=faults)
        points = check_points(checked_plan, stop=stop, faults=faults)
        name, folder = executor_name(executor), Path(output)
        make_folders(folder)
        with lock_folder(folder), open_journal(folder, checked_plan, points, plan) as journal:
            limit = checked_plan.time_limit if time_limit is None else time_limit
            run = _Run(folder, journal, checked_plan, time=limit, on_progress=on_progress)
            run.begin(name, retry=retry)
            if run.todo and not stop.requested:
                run.work(lambda: open_executor(executor, workers), stop)
            return replace(run.study, interrupted=stop.requested)


class _Run:
    """The one loop of a sweep: hands points out, records what comes back, and makes the tables.

    `study` is what the journal holds, kept up to date here so that nothing is read back.
    """

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        plan: SweepPlan,
        *,
        time: float | None,
        on_progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        """Read where a sweep stands from its journal.

        folder: of the sweep. journal: open for writing. plan: the one that the journal is of, checked.
        time: seconds per point, None for no limit. on_progress: called when a point begins or ends; None for nobody.
        """
        self._folder, self._journal, self._plan, self._points = folder, journal, plan, journal.points()
        self._time, self._on_progress = time, on_progress
        answers = journal.answers()
        self._results = [study_point(point, answers.get(point.index)) for point in self._points]
        self._following: dict[int, list[int]] = {}  # point -> those that begin from it
        for point in self._points:
            if point.warm_from is not None:
                self._following.setdefault(point.warm_from, []).append(point.index)
        self._session = 0
        self._losses: dict[int, int] = {}  # point -> workers that were lost with it
        self._attempts: dict[int, int] = {}  # running point -> attempt
        self._open: set[int] = set()  # points to do, those running included
        self._next_table, self._start, self._ended = 0.0, monotonic(), 0
        self.todo: list[int] = []

    @property
    def study(self) -> Study:
        """The sweep and what has come out of it so far."""
        return Study(self._folder, self._plan.problem_name, tuple(self._results))

    def begin(self, executor: str, *, retry: bool) -> None:
        """See what is left to do, and make the files that an end in the middle may have left out.

        executor: what the journal notes of where points are solved. retry: whether failed points are to do, too.
        """
        self._session = self._journal.begin_session(executor, __version__, platform.node(), os.getpid())
        self.todo = [
            index
            for index, result in enumerate(self._results)
            if not result.status or (retry and result.status == FAILED)
        ]
        self._open = set(self.todo)
        for point in self._points:
            write_point(self._folder, point, self._journal)
        self._write_tables()

    def work(self, start: Callable[[], Executor], stop: Stop) -> None:
        """Solve what is left, until all is done or the work is asked to stop. start: makes the executor."""
        with closing(start()) as executor, on_exit(executor.close):
            try:
                while (self.todo or self._attempts) and not stop.requested:
                    self._hand_out(executor)
                    for ended in executor.wait(_LOOK):
                        self._receive(ended)
                    if monotonic() > self._next_table:
                        self._write_tables()
            finally:
                executor.close()
                for attempt in self._attempts.values():
                    self._journal.end(attempt, "interrupted")
        self._write_tables()

    def _hand_out(self, executor: Executor) -> None:
        """Begin as many points as there are free workers, of those whose neighbour has come to its end."""
        free = executor.free()
        points = (self._points[index] for index in self.todo)
        ready = (point for point in points if point.warm_from is None or point.warm_from not in self._open)
        for point in list(islice(ready, free)) if free > 0 else ():
            task = self._task(point)
            self._attempts[point.index] = self._journal.begin(point.index, self._session)
            self.todo.remove(point.index)
            executor.submit(point.index, task, limit=task.limit)
            self._report_progress()

    def _task(self, point: SweepPoint) -> PointTask:
        """Return the task of a point, which begins from its neighbour's policy if that meets the neighbour's task."""
        options = options_with(self._plan.solve, point.parameters)
        limits = [limit for limit in (self._time, options.get("time_limit")) if limit is not None]
        before, warm = point.warm_from, None
        if before is not None and self._results[before].feasible:
            warm = self._journal.policy_text(before)
        return PointTask(
            problem=spec_with(self._plan.problem, point.parameters),
            fingerprint=point.fingerprint,
            folder=str(self._plan.folder.absolute()),
            options=options | {"workers": 1, "time_limit": min(limits, default=None)},
            certify=self._plan.certify,
            warm=None if warm is None else json.loads(warm),
            warm_from=None if warm is None or before is None else self._points[before].name,
        )

    def _receive(self, ended: Ended) -> None:
        """Record the end of a task; a point whose worker was lost is to do again, a few times."""
        index, attempt = ended.key, self._attempts.pop(ended.key)
        answer = ended.answer or PointAnswer(error=ended.explanation)
        if ended.ending == "lost":
            self._losses[index] = self._losses.get(index, 0) + 1
            self._journal.end(attempt, "lost")
            if self._losses[index] < MOST_LOSSES:
                self.todo.insert(0, index)
                self._report_progress()
                return
            reason = f"its worker was lost {MOST_LOSSES} times, the last time: {ended.explanation}"
            answer = PointAnswer(error=reason)
        result = study_point(self._points[index], answer)
        outdated = self._find_outdated(index) if result.feasible else []
        for each in (index, *outdated):
            remove_point(self._folder, self._points[each])
        self._journal.record(index, attempt, answer, outdated=outdated)
        for each in outdated:
            self._results[each] = study_point(self._points[each], None)
        self.todo += outdated
        self._open.update(outdated)
        self._results[index] = result
        self._open.discard(index)
        self._ended += 1
        point = self._points[index]
        write_point(self._folder, point, self._journal)
        failed = result.status == FAILED
        self._report_progress(f"point {point.name} ({point.words}) failed: {result.error}" if failed else "")

    def _find_outdated(self, index: int) -> list[int]:
        """Return the points with a result that would have begun from this one, had it not failed before, and so on."""
        following = self._following.get(index, ())
        done = [other for other in following if self._results[other].status and other not in self._open]
        return done + [further for other in done for further in self._find_outdated(other)]

    def _write_tables(self) -> None:
        """Write the table of results, and say when next: seldom enough that it takes a small share of the time.

        The parquet file is only written while no point runs: in the beginning and in the end.
        """
        start, study = monotonic(), self.study
        write_table(self._folder, study.parameters, study.rows())
        if not self._attempts:
            write_parquet(self._folder, study.parameters, study.rows())
        taken = monotonic() - start
        self._next_table = monotonic() + max(_TABLES_EVERY, _TABLES_SHARE * taken)

    def _report_progress(self, message: str = "") -> None:
        """Tell the caller where the sweep stands; the time that is left is estimated by the pace of this run."""
        if self._on_progress is None:
            return
        waiting = {*self.todo}
        failed = sum(result.status == FAILED and index not in waiting for index, result in enumerate(self._results))
        left = len(self.todo) + len(self._attempts)
        pace = (monotonic() - self._start) / self._ended if self._ended else None
        done = len(self._points) - left - failed
        seconds_left = None if pace is None else pace * left
        self._on_progress(SweepProgress(len(self._points), done, failed, len(self._attempts), seconds_left, message))
