"""Starts of a solve in processes of their own: the same bits, whatever is lost on the way."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import opaq
from commands import opaq_command
from opaq.solvers.race import Job
from opaq.study import start_task
from opaq.study.solve_runner import MOST_LOSSES, ExecutorRunner
from opaq.study.workers.executor import Ended
from opaq.study.workers.tasks import run_task
from stress.ray_cluster import children, kill, ray_cluster
from stress.sweeping import local_workers
from study.inline_executor import InlineExecutor

PATIENCE = 120.0  # seconds; a busy machine starts a worker slowly
LOST = Ended(0, "lost", None, "it was killed")
TIMED_GRID: dict[str, Any] = {
    "problem": "grid-last-state-4",
    "conditions": "state,time",
    "num_starts": 2,
    "solver": opaq.NaturalGradient(max_steps=2),
}
GRAPH: dict[str, Any] = {"problem": "graph", "num_starts": 3}
TWO_SINK: dict[str, Any] = {"problem": "two-sink"}
with_proc = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def solved(question: dict[str, Any], **more: Any) -> opaq.Solution:
    return opaq.solve(**question, **more)


@cache
def of_graph() -> object:
    """What is found without workers."""
    return content(solved(GRAPH))


def content(solution: opaq.Solution) -> object:
    """Everything of an answer but times, bit for bit."""
    starts = [
        (each.place, each.kind, each.status, each.best.theta.tobytes(), each.best.score, traces(each.traces))
        for each in solution.starts
        if each.best is not None
    ]
    figures = (solution.status_text, solution.measurement.opacity, solution.policy.rows, solution.pi.tobytes())
    return solution.status, figures, starts, traces(solution.trace)


def traces(lines: tuple[opaq.Trace, ...]) -> list[object]:
    return [(line.iteration, line.score, line.slack.tobytes(), line.multipliers.tobytes()) for line in lines]


@pytest.fixture
def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is one step."""
    monkeypatch.setattr(start_task, "SLICE", 0.0)


@pytest.mark.parametrize(("question", "processes"), [(TWO_SINK, 1), (GRAPH, 2)], ids=["two-sink", "graph"])
def test_processes_of_this_machine_give_the_same_bits(question: dict[str, Any], processes: int) -> None:
    assert content(solved(question, on="local", processes=processes)) == content(solved(question))


@with_proc
def test_a_killed_worker_changes_nothing(step_by_step: None) -> None:
    killed: list[int] = []

    def on_step(progress: opaq.Progress) -> None:
        if not killed:
            killed.extend(local_workers(os.getpid())[:1])
            kill(killed[0])

    disturbed = solved(TIMED_GRID, on="local", processes=2, on_step=on_step)
    assert killed
    assert content(disturbed) == content(solved(TIMED_GRID))
    assert local_workers(os.getpid()) == []


@pytest.mark.parametrize(
    "question",
    [
        {"problem": "two-sink", "solver": "primal-dual", "iterations": 102, "gradients": "sampled", "num_starts": 1},
        {"problem": "two-sink", "solver": "lagrangian", "num_starts": 3, "start": "random", "seed": 5},
        {"problem": "two-sink", "memory_nodes": 2, "num_starts": 2},
        GRAPH,
    ],
    ids=["sampled", "lagrangian", "memory", "graph"],
)
def test_slices_of_one_step_and_lost_ones_come_to_the_same_end(question: dict[str, Any], step_by_step: None) -> None:
    executor = InlineExecutor(lambda count: LOST if count % 3 == 0 else None)
    steps: list[tuple[int, int]] = []
    answer = solved(
        question,
        on=ExecutorRunner(executor),
        on_step=lambda progress: steps.append((progress.place, progress.trace.iteration)),
    )
    assert content(answer) == content(solved(question))
    assert len(steps) == len(set(steps)) == sum(each.iterations for each in answer.starts)
    assert len(executor.begun) > len(steps)
    assert executor.closed


def test_a_large_problem_is_sent_to_workers_that_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_task, "LARGE", 0)
    monkeypatch.setattr(start_task, "_compiled", {})
    executor = InlineExecutor()
    answer = solved(TWO_SINK, on=ExecutorRunner(executor), num_starts=2, solver=opaq.NaturalGradient())
    assert len(executor.begun) == 3  # two starts, and the first one twice
    assert content(answer) == content(solved(TWO_SINK, num_starts=2, solver=opaq.NaturalGradient()))


def test_workers_that_come_late_are_waited_for() -> None:
    class Late(InlineExecutor):
        waited = 0

        def free(self) -> int:
            return super().free() if self.waited > 2 else 0

        def wait(self, seconds: float) -> list[Ended]:
            self.waited += 1
            return super().wait(seconds)

    stop = opaq.Stop()
    with stop.limit(PATIENCE):
        answer = solved(TWO_SINK, on=ExecutorRunner(Late()), stop=stop)
    assert content(answer) == content(solved(TWO_SINK))


def test_workers_that_are_always_lost_are_said() -> None:
    executor = InlineExecutor(lambda count: LOST)
    with pytest.raises(opaq.InputError, match=f"start 1 were lost {MOST_LOSSES} times, last: it was killed"):
        solved(TWO_SINK, on=ExecutorRunner(executor))
    assert executor.closed


def test_a_stop_keeps_the_best_so_far_and_the_folder_goes_on(step_by_step: None, tmp_path: Path) -> None:
    stop, executor, steps = opaq.Stop(), InlineExecutor(), list[int]()

    def on_step(progress: opaq.Progress) -> None:
        steps.append(progress.trace.iteration)
        if len(steps) == 3:
            stop.request()

    stopped = solved(GRAPH, on=ExecutorRunner(executor), folder=tmp_path, stop=stop, on_step=on_step)
    assert stopped.status is opaq.Status.INTERRUPTED
    assert [each.status for each in stopped.starts] == [opaq.Status.INTERRUPTED]
    assert [each.iterations for each in stopped.starts] == [3]
    assert executor.closed
    assert content(solved(GRAPH, folder=tmp_path)) == of_graph()


def test_a_run_of_threads_goes_on_in_workers(tmp_path: Path) -> None:
    stop = opaq.Stop()
    solved(GRAPH, folder=tmp_path, stop=stop, on_step=lambda progress: stop.request())
    assert content(solved(GRAPH, folder=tmp_path, on=ExecutorRunner(InlineExecutor()))) == of_graph()
    nothing_left = InlineExecutor()
    assert content(solved(GRAPH, folder=tmp_path, on=ExecutorRunner(nothing_left))) == of_graph()
    assert nothing_left.begun == []


@with_proc
def test_ctrl_c_ends_the_workers_and_tells_the_best_so_far(tmp_path: Path) -> None:
    question = ["solve", "grid-last-state-4", "--conditions", "state,time", "--starts", "40"]
    command = [*question, "--on", "local", "--processes", "2", "--run", str(tmp_path / "run"), "--json"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "opaq", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = monotonic() + PATIENCE
    while not list((tmp_path / "run").glob("start-*.npz")) and monotonic() < until:
        sleep(0.05)
    workers = children(driver.pid)
    driver.send_signal(signal.SIGINT)
    said, noted = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, noted
    assert "Traceback" not in noted
    assert json.loads(said)["status"] == "interrupted"
    assert len(workers) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@dataclass(frozen=True)
class OwnSolver(opaq.PrimalDual):
    """Known to this process alone."""


@dataclass(frozen=True)
class OwnUncertainty:
    """Opacity, as far as its name goes."""

    name = "opacity"
    title = "opacity"
    unit = "bits"

    def over(self, secret_values: Any) -> Any:
        return opaq.load_problem("two-sink").task.of.over(secret_values)


def test_what_workers_do_not_know_is_refused() -> None:
    problem = opaq.load_problem("two-sink")
    own_task = replace(problem, task=replace(problem.task, of=OwnUncertainty()))
    with pytest.raises(opaq.InputError, match=r"primal-dual \(OwnSolver\) is not known to workers"):
        opaq.solve(problem, solver=OwnSolver(), on=ExecutorRunner(InlineExecutor()))
    with pytest.raises(opaq.InputError, match=r"task.of: OwnUncertainty is not known to workers"):
        opaq.solve(own_task, on=ExecutorRunner(InlineExecutor()))
    with pytest.raises(opaq.InputError, match=r"on: is of the type int"):
        opaq.solve(problem, on=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("on", ["rey", "ray://", "local://here"])
def test_a_place_that_is_none_is_refused(on: str) -> None:
    said = opaq_command("solve", "two-sink", "--on", on)
    assert said.returncode == 2
    assert f"on: '{on}' is not a choice; use local, ray or ray://HOST:PORT" in said.stderr


def test_a_worker_of_another_version_or_other_bits_is_refused() -> None:
    tasks: list[dict[str, Any]] = []

    class Eavesdropper(InlineExecutor):
        def submit(self, key: int, task: Any, *, limit: float | None) -> None:
            tasks.append(dict(task))
            super().submit(key, task, limit=limit)

    solved(TWO_SINK, on=ExecutorRunner(Eavesdropper()), num_starts=1)
    assert "end" in run_task(tasks[0])
    changed = tasks[0] | {"digest": "sha256:0"}
    assert "not the same bit for bit on this worker" in run_task(changed)["error"]
    assert "this worker has opaq" in run_task(changed | {"version": "0.0"})["error"]


def test_an_empty_round_runs_nothing() -> None:
    executor, jobs = InlineExecutor(), list[Job]()
    assert list(ExecutorRunner(executor).run(jobs, on_step=lambda progress: None)) == []
    assert executor.begun == []


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (opaq[ray])")
def test_a_cluster_that_is_not_there_is_said_before_anything_runs() -> None:
    with pytest.raises(opaq.InputError, match=r"nobody answers: Connection refused"):
        opaq.solve("two-sink", on="ray://127.0.0.1:1")


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed (opaq[ray])")
@pytest.mark.skipif(not os.environ.get("OPAQ_RAY_CLUSTER"), reason="a cluster takes a minute: set OPAQ_RAY_CLUSTER=1")
def test_a_solve_on_ray_loses_workers_and_its_head(monkeypatch: pytest.MonkeyPatch, step_by_step: None) -> None:
    with ray_cluster(2) as cluster:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            monkeypatch.setenv(name, cluster.environment[name])
        killed: list[int] = []

        def on_step(progress: opaq.Progress) -> None:
            if len(killed) < 2:
                killed.append(cluster.workers()[0])
                kill(killed[-1])

        assert content(solved(TIMED_GRID, on=cluster.address, on_step=on_step)) == content(solved(TIMED_GRID))
        assert len(killed) == 2
        question = ["solve", "grid-last-state-4", "--conditions", "state,time", "--starts", "100"]
        command = [sys.executable, "-m", "opaq", *question, "--on", cluster.address]
        driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=cluster.environment)
        with pytest.raises(subprocess.TimeoutExpired):
            driver.wait(timeout=25)
        os.killpg(cluster.head.pid, signal.SIGKILL)
        _, said = driver.communicate(timeout=30)
    assert driver.returncode == 2
    assert "is lost" in said
