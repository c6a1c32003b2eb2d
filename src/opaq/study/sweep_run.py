"""Run a sweep: every point once, each result durable before it counts, whatever ends on the way."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from opaq.choices import check_numbers
from opaq.errors import Fault, Faults, InputError
from opaq.files import read_bytes, write_text
from opaq.lock import locked
from opaq.stop import Stop, before_leaving, on_signals
from opaq.study.executor import Ended, Executor
from opaq.study.sweep_files import (
    PLAN_COPY,
    PROBLEM_COPY,
    TABLE,
    make_folders,
    remove_point,
    write_parquet,
    write_point,
    write_tables,
)
from opaq.study.sweep_journal import BASE, FAILED, FILE, Journal
from opaq.study.sweep_plan import SweepPlan, read_plan
from opaq.study.sweep_points import SweepPoint, sweep_points
from opaq.study.sweep_study import Study, study_of
from opaq.study.sweep_task import limit_of, task_of
from opaq.version import __version__

MOST_LOSSES = 5  # of the workers of one point, before it counts as failed
_LOOK = 0.2  # seconds between two looks at whether to stop
_TABLES_EVERY = 2.0  # seconds between two tables, while points come in
_MAX_PLAN = 64 << 20


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
    to: str | os.PathLike[str],
    on: str | Executor = "local",
    processes: int | None = None,
    retry: bool = False,
    time: float | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
    stop: Stop | None = None,
    faults: Faults | None = None,
) -> Study:
    """Solve every point of a plan, on this machine or on a Ray cluster, and record each result in a folder.

    plan: the name of a plan file, or a mapping with its keys, whose problem may also be a Problem.
    to: the folder, made if need be; a sweep that was begun there goes on. One of another plan is refused.
    on: "local" (processes on this machine), "ray" (the Ray cluster of this machine, or a new one for this sweep),
    "ray://HOST:PORT" (that cluster), or an executor of one's own. The results are the same, bit for bit.
    processes: at most so many points side by side (every core by default).
    retry: whether points that failed before are solved again; otherwise they are left as they are.
    time: seconds per point, in place of the plan's; a point much longer at it is ended and counts as failed.
    on_progress: called when something has happened.
    stop: ends the sweep when it is requested; without one, Ctrl-C does, and raises KeyboardInterrupt. A sweep that was
    ended or killed goes on when it is run again: what is done is never done again.
    faults: collects the warnings about the plan and its problems.

    A point that fails is recorded with its reason and never stops the others. Raises InputError with every fault of
    the plan and of the problem of any point before anything runs, and when the folder cannot be written.
    """
    check_numbers({"processes": (processes, 1, 10**6), "time": (time, 0.001, 1e8)}, whole=("processes",))
    own, folder = Stop(), Path(to)
    with on_signals(lambda number: own.request()) if stop is None else nullcontext():
        asked = stop or own
        stated = read_plan(plan, faults=faults)
        points = sweep_points(stated, stop=asked, faults=faults)
        executor = _executor_name(on)
        make_folders(folder)
        with locked(folder):
            _open_folder(folder, stated, points, plan)
            with Journal.open(folder) as journal:
                run = _Run(folder, journal, stated, points, time=time, on_progress=on_progress)
                run.begin(executor, retry=retry)
                if run.todo and not asked.requested:
                    run.work(lambda: _executor(on, processes), asked)
                study = study_of(folder, journal, interrupted=asked.requested)
    if own.interrupted:
        raise KeyboardInterrupt
    return study


def _executor_name(on: str | Executor) -> str:
    if not isinstance(on, str):
        return type(on).__name__
    if on in ("local", "ray") or (on.startswith("ray://") and len(on) > len("ray://")):
        return on
    raise InputError([Fault("on", f"'{on}' is not a choice", "use local, ray or ray://HOST:PORT")])


def _executor(on: str | Executor, processes: int | None) -> Executor:
    if not isinstance(on, str):
        return on
    if on == "local":
        from opaq.study.local_executor import LocalExecutor

        return LocalExecutor(processes)
    from opaq.study.ray_executor import RayExecutor

    return RayExecutor("" if on == "ray" else on, processes)


def _open_folder(folder: Path, plan: SweepPlan, points: list[SweepPoint], source: Any) -> None:
    """Begin the journal, or see that the one there is of this plan."""
    stated = plan.stated()
    if (folder / FILE).exists():
        with Journal.open(folder) as journal:
            _refuse_other_plan(folder, journal, stated, points)
        return
    if (folder / TABLE).exists():
        found = f"holds {TABLE} but no {FILE}: the results of a sweep that lost its journal"
        raise InputError([Fault("", found, "use another folder")], str(folder))
    text = json.dumps({"opaq-sweep": 1, **stated}, indent=1) if isinstance(source, Mapping) else _text(source)
    write_text(folder / PLAN_COPY, text, overwrite=True)
    write_text(folder / PROBLEM_COPY, plan.text or json.dumps(plan.problem, indent=1), overwrite=True)
    rows = [
        (point.index, point.name, json.dumps(dict(point.parameters)), point.fingerprint, point.warm_from)
        for point in points
    ]
    Journal.create(folder, stated | {BASE: str(plan.folder.absolute())}, rows)


def _text(source: Any) -> str:
    return read_bytes(source, max_bytes=_MAX_PLAN).decode("utf-8-sig")


def _refuse_other_plan(folder: Path, journal: Journal, stated: Mapping[str, Any], points: list[SweepPoint]) -> None:
    """Raise InputError with what differs, when the folder holds a sweep of another plan."""
    before, advice = journal.plan(), "use another folder for another plan"
    now = json.loads(json.dumps(stated))
    differing = [part for part in now if part != "problem" and before.get(part) != now[part]]
    faults = [
        Fault(part, f"{_short(before.get(part))} in the folder, {_short(now[part])} now", advice) for part in differing
    ]
    recorded = [fingerprint for *_, fingerprint, _ in journal.points()]
    if not faults and recorded != [point.fingerprint for point in points]:
        found = (
            f"is not as it was when the sweep was begun, or a file that it names is not (a copy is in {PROBLEM_COPY})"
        )
        faults.append(Fault("problem", found, advice))
    if faults:
        raise InputError(faults, str(folder))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


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
        self._time = plan.time if time is None else time
        self._on_progress = on_progress
        self._session = 0
        self._statuses = {point: result.status for point, result in journal.results().items()}
        self._feasible = {point: result.record.get("feasible") for point, result in journal.results().items()}
        self._losses: dict[int, int] = {}
        self._attempts: dict[int, int] = {}  # running point -> attempt
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
        for point, status in self._statuses.items():
            if status != FAILED:
                write_point(self._folder, self._points[point].name, self._journal, point)
        self._write_tables()

    def work(self, start: Callable[[], Executor], stop: Stop) -> None:
        """Solve what is left, until all is done or the work is asked to stop."""
        with closing(start()) as executor, before_leaving(executor.close):
            try:
                while (self.todo or self._attempts) and not stop.requested:
                    self._hand_out(executor)
                    for ended in executor.wait(_LOOK):
                        self._take(ended)
                    if monotonic() - self._tables_at > _TABLES_EVERY:
                        self._write_tables()
            finally:
                executor.close()
                for attempt in self._attempts.values():
                    self._journal.end(attempt, "interrupted")
        self._write_tables()

    def _hand_out(self, executor: Executor) -> None:
        free = executor.free()
        for index in [index for index in self.todo if self._is_ready(index)][:free]:
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
        return before is None or (before not in self._attempts and before not in self.todo)

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
        remove_point(self._folder, point.name)
        self._journal.record(index, attempt, record, answer=answer.get("answer"), policy=answer.get("policy"))
        self._statuses[index], self._feasible[index] = record["status"], record.get("feasible")
        self._ended += 1
        write_point(self._folder, point.name, self._journal, index)
        failed = record["status"] == FAILED
        self._tell(f"point {point.name} ({point.words}) failed: {record['error']}" if failed else "")

    def _write_tables(self) -> None:
        study = study_of(self._folder, self._journal)
        write_tables(self._folder, study.parameters, study.rows())
        if not self._attempts:
            write_parquet(self._folder, study.parameters, study.rows())
        self._tables_at = monotonic()

    def _tell(self, message: str = "") -> None:
        if self._on_progress is None:
            return
        failed = sum(status == FAILED for index, status in self._statuses.items() if index not in self.todo)
        left = len(self.todo) + len(self._attempts)
        pace = (monotonic() - self._begun) / self._ended if self._ended else None
        done = len(self._points) - left - failed
        seconds_left = None if pace is None else pace * left
        self._on_progress(SweepProgress(len(self._points), done, failed, len(self._attempts), seconds_left, message))


def record_of(answer: Mapping[str, Any], *, warm_from: int | None) -> dict[str, Any]:
    """What is recorded of the answer of a worker."""
    stated = {name: answer[name] for name in ("seconds", "versions") if name in answer}
    if "error" in answer:
        return {"status": FAILED, "error": str(answer["error"]), **stated}
    full = answer["answer"]
    return {
        "status": full["status"],
        "opacity": full["opacity"],
        "expected_return": full["return"],
        "guess_error": full["guess_error"],
        "upper_bound": full.get("upper_bound"),
        "gap": full.get("gap"),
        "feasible": full["feasible"],
        "seed": full["seed"],
        "warm_from": warm_from,
        **stated,
    }
