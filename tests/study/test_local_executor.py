"""The workers of this machine: killed, late, orphaned, and the same results bit for bit."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pytest

import opaq
from opaq.study.sweep.plan import read_plan
from opaq.study.sweep.points import check_points
from opaq.study.workers.local import LocalExecutor
from opaq.study.workers.task import PointTask
from stress.ray_cluster import kill
from stress.sweep_audit import audit, counts
from stress.sweeping import killed_sweep, local_workers, write_plan
from study.inline_executor import InlineExecutor
from trials import part_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
PATIENCE = 120.0  # seconds; a busy machine starts a worker slowly


def task(problem: str = "two-sink", **options: Any) -> PointTask:
    plan = read_plan({"opaq-sweep": 1, "problem": problem, "over": {"seed": [0]}, "solve": options})
    (point,) = check_points(plan)
    return PointTask(plan.problem, point.fingerprint, str(plan.folder), {"seed": 0, "workers": 1, **options}, 0.0)


def ended(executor: LocalExecutor) -> Any:
    until = monotonic() + PATIENCE
    while monotonic() < until:
        for one in executor.wait(1.0):
            return one
    raise TimeoutError


def test_a_late_task_is_ended_and_a_dead_worker_is_replaced() -> None:
    executor = LocalExecutor(1)
    try:
        assert executor.free() == 1
        executor.submit(7, task("grid-last-state", starts=500), limit=0.5)
        assert executor.free() == 0
        late = ended(executor)
        assert (late.key, late.ending, late.explanation) == (7, "late", "it took longer than 0.5 s")
        executor.submit(8, task("grid-last-state", starts=500), limit=None)
        while not (workers := local_workers(os.getpid())):
            sleep(0.01)  # it has no name before its program is loaded
        kill(workers[0])
        lost = ended(executor)
        assert (lost.key, lost.ending, lost.explanation) == (8, "lost", "its process was ended by SIGKILL")
        executor.submit(9, task(starts=1), limit=60.0)
        done = ended(executor)
        assert (done.key, done.ending) == (9, "answered")
        assert done.answer.answer["status"] == "converged"
    finally:
        executor.close()


def test_killed_drivers_and_workers_change_nothing(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, 3, 2)
    alone = opaq.sweep(plan, output=tmp_path / "alone", executor=InlineExecutor())
    assert len(alone.points) == 12
    killed, complaints = killed_sweep(
        plan, tmp_path / "killed", "--workers", "2", kills=2, every=(0.0, 0.2), rng=Random(1)
    )
    assert complaints == []
    assert (len(killed.drivers), len(killed.workers)) == (1, 1)
    assert audit(tmp_path / "killed", tmp_path / "alone") == []
    assert counts(tmp_path / "killed")["sessions"] <= 2


@pytest.mark.parametrize("number", part_of([signal.SIGINT, signal.SIGTERM], 1))
def test_a_signal_leaves_a_folder_that_resumes(number: signal.Signals, tmp_path: Path) -> None:
    plan, out = write_plan(tmp_path, 3, 2, starts=4), tmp_path / "out"
    command = [sys.executable, "-m", "opaq", "sweep", str(plan), "--output", str(out), "--json", "--workers", "2"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = monotonic() + PATIENCE
    while counts_or_none(out).get("done", 0) == 0 and monotonic() < until:
        sleep(0.05)
    driver.send_signal(number)
    said, noted = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 128 + number, noted
    answer = json.loads(said)
    assert answer["interrupted"]
    assert answer["counts"]["done"] + answer["counts"]["unfinished"] == 12
    assert answer["counts"]["done"] > 0
    assert "the same command goes on with them" in noted
    assert "Traceback" not in noted
    with closing(sqlite3.connect(out / "journal.sqlite")) as journal:
        assert journal.execute("SELECT count(*) FROM attempts WHERE ending = 'running'").fetchone() == (0,)
    done = {point.name for point in opaq.load_study(out).points if point.status}
    executor = InlineExecutor()
    opaq.sweep(plan, output=out, executor=executor)
    assert len(executor.solved) == 12 - len(done)
    assert audit(out) == []


def counts_or_none(folder: Path) -> dict[str, int]:
    try:
        return counts(folder)
    except sqlite3.Error:
        return {}


def test_two_points_on_two_processes_begin_together(tmp_path: Path) -> None:
    plan = {"opaq-sweep": 1, "problem": "two-sink", "over": {"task.return_at_least": [0.1, 0.2]}}
    opaq.sweep(plan, output=tmp_path, workers=2)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        begun = journal.execute("SELECT begun FROM attempts WHERE pass = 1 ORDER BY attempt").fetchall()
        ended_first = journal.execute("SELECT min(ended) FROM attempts WHERE pass = 1").fetchone()[0]
    assert len(begun) == 2
    assert max(at for (at,) in begun) < ended_first  # neither waits for the other
