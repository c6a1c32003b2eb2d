"""Run a sweep: every point once, each result durable before it counts, whatever ends on the way.

A sweep is a plan and a journal. Whatever is killed, the journal says which points have a result, and the same call goes
on with the others: nothing is lost, nothing is solved twice, and the results are those of a run that was left alone,
bit for bit, because each point depends on the plan and its neighbours' policies alone.

Points hand their policies to their neighbours in three passes. In the first every point is solved, from a neighbour's
policy where there is one. In the second, from the last point of every line back to the first, it is tried where the
policy of a point further on is better, and the search begins once more from there. In the third, forwards again, a
better policy of a point before is taken as it is. A pass of a point begins when those of all neighbours that it asks
have ended, so that it does not matter who is first; the second begins when all points are solved.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path
from time import monotonic
from typing import Any

from opaq.errors import Faults, check_numbers, check_types, is_flag
from opaq.files import lock_folder
from opaq.opacity.policies import locate_policy
from opaq.stop import Stop, interruptible, on_exit
from opaq.study.sweep.files import make_folders, open_journal, remove_point, write_parquet, write_point, write_table
from opaq.study.sweep.journal import FAILED, Journal
from opaq.study.sweep.plan import SweepPlan, SweepPoint
from opaq.study.sweep.points import check_plan, options_with, read_initial_policy, spec_with
from opaq.study.sweep.study import Study, StudyPoint, study_point, with_laws
from opaq.study.workers.executor import Ended, Executor, executor_name, open_executor
from opaq.study.workers.task import PointAnswer, PointTask
from opaq.version import __version__

MOST_LOSSES = 5  # of the workers of one point, before it counts as failed
_LAST_PASS = 3  # of every point: solved, asked of those further on, asked of those before
_INFEASIBLE = "infeasible"  # the status of a point whose task no policy meets
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
    initial_policy: str | os.PathLike[str] | None = None,
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
    initial_policy: a file, "uniform" or "return-optimal", in place of the plan's: points that no neighbour's policy
    fits begin there, where it fits them and meets their task.
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
            "initial_policy": (initial_policy, str | os.PathLike, "a file, 'uniform' or 'return-optimal'"),
            "retry": (retry, is_flag, "True or False"),
            "on_progress": (on_progress, callable, "a function"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "faults": (faults, Faults, "an opaq.errors.Faults"),
        },
        optional=("initial_policy", "on_progress", "stop", "faults"),
    )
    with interruptible(stop, keep_answer=False) as stop:
        checked_plan, points = check_plan(plan, stop=stop, faults=faults)
        if initial_policy is not None:
            checked_plan = replace(checked_plan, initial_policy=locate_policy(initial_policy))
        first = read_initial_policy(checked_plan, points)
        name, folder = executor_name(executor), Path(output)
        make_folders(folder)
        with lock_folder(folder), open_journal(folder, checked_plan, points, plan) as journal:
            limit = checked_plan.time_limit if time_limit is None else time_limit
            run = _Run(folder, journal, checked_plan, points, first=first, time=limit, on_progress=on_progress)
            run.begin(name, retry=retry)
            if run.ready and not stop.requested:
                run.work(lambda: open_executor(executor, workers), stop)
            return replace(with_laws(run.study, journal.plan()), interrupted=stop.requested)


class _Run:
    """The one loop of a sweep: hands points out, records what comes back, and makes the tables.

    `study` is what the journal holds, kept up to date here so that nothing is read back.
    """

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        plan: SweepPlan,
        points: Sequence[SweepPoint],
        *,
        first: dict[str, Any],
        time: float | None,
        on_progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        """Read where a sweep stands from its journal.

        folder: of the sweep. journal: open for writing. plan: the one that the journal is of, checked; points: its own.
        first: the policy to begin from, by a name like those of neighbours; empty where there is none.
        time: seconds per point, None for no limit. on_progress: called when a point begins or ends; None for nobody.
        """
        self._folder, self._journal, self._plan, self._points = folder, journal, plan, points
        self._first, self._time, self._on_progress = first, time, on_progress
        self._results: list[StudyPoint] = []
        self._after: list[list[int]] = [[] for _ in points]  # point -> its neighbours one step on
        for point in points:
            for other in point.before:
                self._after[other].append(point.index)
        self._session = 0
        self._losses: dict[int, int] = {}  # point -> workers that were lost with it
        self._attempts: dict[int, int] = {}  # running point -> attempt
        self._passes: list[int] = []  # point -> the last pass that it has been through; 0: it is not solved yet
        self._unsolved = 0  # how many points have not been through the first pass
        self._next_table, self._start, self._ended = 0.0, monotonic(), 0
        self.ready: list[int] = []  # a heap of the points whose next pass can begin
        self._queued: set[int] = set()  # those that are in it or running

    @property
    def study(self) -> Study:
        """The sweep and what has come out of it so far."""
        return Study(self._folder, self._plan.problem_name, tuple(self._results))

    def begin(self, executor: str, *, retry: bool) -> None:
        """See what is left to do, and make the files that an end in the middle may have left out.

        executor: what the journal notes of where points are solved. retry: whether failed points are to do, too.
        """
        self._session = self._journal.begin_session(executor, __version__, platform.node(), os.getpid())
        if retry:  # what the later passes made of all that may hear from a failed point is made again
            outdated = self._find_connected(self._journal.failed_passes())
            for index in outdated:
                remove_point(self._folder, self._points[index])
            self._journal.drop_later_passes(outdated)
        answers, passes = self._journal.answers(), self._journal.passes()
        self._results = [study_point(point, answers.get(point.index)) for point in self._points]
        self._passes = [passes.get(index, 0) for index in range(len(self._points))]
        for index, result in enumerate(self._results):
            if result.status == FAILED:
                self._passes[index] = 0 if retry else _LAST_PASS
        self._unsolved = self._passes.count(0)
        self._find_ready(range(len(self._points)))
        for point in self._points:
            write_point(self._folder, point, self._journal)
        self._write_tables()

    def _find_connected(self, points: Iterable[int]) -> set[int]:
        """Return these points and all that they are joined to by neighbours."""
        connected, rest = set[int](), list(points)
        while rest:
            index = rest.pop()
            if index not in connected:
                connected.add(index)
                rest += [*self._points[index].before, *self._after[index]]
        return connected

    def work(self, start: Callable[[], Executor], stop: Stop) -> None:
        """Solve what is left, until all is done or the work is asked to stop. start: makes the executor."""
        with closing(start()) as executor, on_exit(executor.close):
            try:
                while (self.ready or self._attempts) and not stop.requested:
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
        """Begin as many points as there are free workers, of those whose neighbours have come to their end."""
        for _ in range(min(executor.free(), len(self.ready))):
            index = heappop(self.ready)
            task = self._task(self._points[index])
            self._attempts[index] = self._journal.begin(index, self._session, number=self._passes[index] + 1)
            executor.submit(index, task, limit=task.limit)
            self._report_progress()

    def _neighbours(self, index: int) -> Sequence[int]:
        """Return the points whose policies the next pass of a point asks for."""
        point = self._points[index]
        first = () if point.warm_from is None else (point.warm_from,)
        return (first, self._after[index], point.before)[self._passes[index]]

    def _find_ready(self, points: Iterable[int]) -> None:
        """Note which of some points can begin their next pass: all that it asks for is there.

        A later pass that has nobody to ask, no neighbour that meets its task, or of a point whose task no policy meets,
        is over at once.
        """
        rest = list(points)
        while rest:
            index = rest.pop()
            number = self._passes[index]
            if number == _LAST_PASS or (number and self._unsolved) or index in self._queued:
                continue
            asked = self._neighbours(index)
            if any(self._passes[other] <= number for other in asked):
                continue
            hopeful = self._results[index].status != _INFEASIBLE
            if number == 0 or (hopeful and any(self._results[other].feasible for other in asked)):
                self._queued.add(index)
                heappush(self.ready, index)
            else:
                self._passes[index] += 1
                rest += [index, *self._points[index].before, *self._after[index]]

    def _task(self, point: SweepPoint) -> PointTask:
        """Return the task of the next pass of a point, with the policies of neighbours that meet their own tasks."""
        options = options_with(self._plan.solve, point.parameters)
        limits = [limit for limit in (self._time, options.get("time_limit")) if limit is not None]
        asked = [other for other in self._neighbours(point.index) if self._results[other].feasible]
        policies = {self._points[other].name: self._journal.policy_text(other) for other in asked}
        own = self._journal.answer_text(point.index) if self._passes[point.index] else None
        return PointTask(
            problem=spec_with(self._plan.problem, point.parameters),
            fingerprint=point.fingerprint,
            folder=str(self._plan.folder.absolute()),
            options=options | {"workers": 1, "time_limit": min(limits, default=None)},
            certify=self._plan.certify,
            neighbours={name: json.loads(text) for name, text in policies.items() if text is not None}
            | ({} if self._passes[point.index] else self._first),
            own=None if own is None else json.loads(own),
            search=self._passes[point.index] < 2,
        )

    def _receive(self, ended: Ended) -> None:
        """Record the end of a task; a point whose worker was lost is to do again, a few times."""
        index, attempt = ended.key, self._attempts.pop(ended.key)
        answer = ended.answer or PointAnswer(error=ended.explanation)
        if ended.ending == "lost":
            self._losses[index] = self._losses.get(index, 0) + 1
            self._journal.end(attempt, "lost")
            if self._losses[index] < MOST_LOSSES:
                heappush(self.ready, index)
                self._report_progress()
                return
            reason = f"its worker was lost {MOST_LOSSES} times, the last time: {ended.explanation}"
            answer = PointAnswer(error=reason)
        self._record(index, attempt, answer)

    def _record(self, index: int, attempt: int, answer: PointAnswer) -> None:
        """Record the answer to the next pass of a point, or that it failed, and make its files.

        A point that fails in a later pass keeps the answer it has.
        """
        number, point, before = self._passes[index] + 1, self._points[index], self._results[index]
        self._queued.discard(index)
        if number > 1 and before.seconds is not None and answer.seconds is not None:
            answer = replace(answer, seconds=before.seconds + answer.seconds)
        result = before if number > 1 and answer.answer is None else study_point(point, answer)
        outdated = self._find_outdated(index) if number == 1 and result.feasible else []
        for each in (index, *outdated) if result is not before else ():
            remove_point(self._folder, self._points[each])
        self._journal.record(index, attempt, answer, number=number, outdated=outdated)
        for each in outdated:
            self._results[each], self._passes[each] = study_point(self._points[each], None), 0
        self._results[index] = result
        self._passes[index] = _LAST_PASS if result.status == FAILED else number
        self._unsolved += len(outdated) - (number == 1)
        all_solved = number == 1 and self._unsolved == 0
        near = (index, *point.before, *self._after[index], *outdated)
        self._find_ready(range(len(self._points)) if all_solved else near)
        self._ended += 1
        write_point(self._folder, point, self._journal)
        kept = "" if result.status == FAILED else " to try its neighbours' policies, and keeps its own"
        self._report_progress(
            f"point {point.name} ({point.words}) failed{kept}: {answer.error}" if answer.error else ""
        )

    def _find_outdated(self, index: int) -> list[int]:
        """Return the points with a result that would have begun from this one, had it not failed before, and so on."""
        following = [other for other in self._after[index] if self._points[other].warm_from == index]
        done = [other for other in following if self._results[other].status and self._passes[other]]
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
        failed = sum(
            result.status == FAILED and number > 0 for result, number in zip(self._results, self._passes, strict=True)
        )
        left = self._unsolved or sum(number < _LAST_PASS for number in self._passes)
        pace = (monotonic() - self._start) / self._ended if self._ended else None
        done = sum(number > 0 for number in self._passes) - failed
        seconds_left = None if pace is None else pace * left
        self._on_progress(SweepProgress(len(self._points), done, failed, len(self._attempts), seconds_left, message))
