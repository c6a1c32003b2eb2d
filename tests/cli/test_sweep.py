"""`opaq sweep`: answers, exit codes, and what is said."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opaq.cli.interrupts import interrupts
from opaq.study.sweep import run
from study.inline_executor import InlineExecutor

PLAN = """\
opaq-sweep: 1
problem: two-sink
over:
  horizon: [2, 3]
  task.return_at_least: [0.3, 9]
solve: {starts: 1}
"""
Run = Callable[..., Any]


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of their own are tested elsewhere."""
    monkeypatch.setattr(run, "open_executor", lambda on, processes: InlineExecutor())


@pytest.mark.usefixtures("in_this_process")
def test_the_answer_as_json_and_as_text(opaq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # wide enough for one column per parameter
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = opaq("sweep", "plan.yaml", "--output", "out", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["folder"] == "out"
    assert answer["problem"] == "two-sink"
    assert answer["parameters"] == ["horizon", "task.return_at_least"]
    assert answer["counts"] == {"points": 4, "done": 4, "infeasible": 2, "failed": 0, "unfinished": 0}
    first = answer["points"][0]
    assert first["parameters"] == {"horizon": 2, "task.return_at_least": 0.3}
    assert first["opacity"]["lower"] <= first["opacity"]["value"] <= first["opacity"]["upper"]
    assert (first["status"], first["seed"], first["policy_file"]) == ("converged", 0, "policies/0001.json")
    assert set(first["versions"]) == {"opaq", "python", "numpy", "scipy", "numba"}
    shown = opaq("sweep", "plan.yaml", "--output", "out")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:4] == ["point", "horizon", "task.return_at_least", "opacity"]
    assert lines[2].split()[:3] == ["0002", "2", "9"]
    assert lines[-1] == "4 of 4 points done, 2 infeasible; all results are in out/results.csv"


@pytest.mark.usefixtures("in_this_process")
def test_failed_points_are_the_exit_code(opaq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with monkeypatch.context() as patch:
        patch.setattr(run, "MOST_LOSSES", 1)
        patch.setattr(run, "open_executor", lambda on, processes: InlineExecutor(_second_is_lost))
        failed = opaq("sweep", "plan.yaml", "--output", "out")
    assert failed.returncode == 3
    assert "failed: its worker was lost 1 times, the last time: gone" in failed.stderr
    assert "1 failed" in failed.stdout
    assert opaq("sweep", "plan.yaml", "--output", "out").returncode == 3
    assert opaq("sweep", "plan.yaml", "--output", "out", "--retry").returncode == 0


def _second_is_lost(count: int) -> Any:
    from opaq.study.workers.executor import Ended

    return Ended(0, "lost", None, "gone") if count == 2 else None


def test_one_point_is_no_plural(opaq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace("[2, 3]", "[2]"))
    with monkeypatch.context() as patch:
        executor = InlineExecutor(lambda count: interrupts.act(signal.SIGINT))
        patch.setattr(run, "open_executor", lambda on, processes: executor)
        interrupted = opaq("sweep", "plan.yaml", "--output", "out")
    assert interrupted.returncode == 130
    assert "opaq: 1 point is left; the same command goes on with it\n" in interrupted.stderr
    assert "1 of 2 points done, 1 unfinished" in interrupted.stdout


def test_bad_input_is_said_before_anything_runs(opaq: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN.replace("[2, 3]", "[2, x]"))
    refused = opaq("sweep", "plan.yaml", "--output", "out")
    assert refused.returncode == 2
    where = "opaq: plan.yaml: point 0003 (horizon x, task.return_at_least 0.3): horizon: "
    assert refused.stderr.startswith(where)
    assert refused.stderr.endswith("(line 4)\n")
    assert not (tmp_path / "out").exists()
    assert opaq("sweep", "missing.yaml", "--output", "out").returncode == 2
    (tmp_path / "plan.yaml").write_text(PLAN)
    unknown = opaq("sweep", "plan.yaml", "--output", "out", "--executor", "cloud")
    assert unknown.stderr == "opaq: on: 'cloud' is not a choice; use local, ray or ray://HOST:PORT\n"


@pytest.mark.usefixtures("in_this_process")
def test_a_table_for_a_paper(opaq: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    done = opaq("sweep", "plan.yaml", "--output", "out", "--format", "latex", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert r"\begin{tabular}{lrrrrrlr}" in lines
    assert r"point & horizon & return\_at\_least & opacity & return & guess error & status & seconds \\" in lines
    assert sum(line.startswith("000") for line in lines) == 4
    both = opaq("sweep", "plan.yaml", "--output", "out", "--format", "latex", "--json", "-q")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--format: has no effect with --json" in both.stderr
    unknown = opaq("sweep", "plan.yaml", "--output", "out", "--format", "html", "-q")
    assert (unknown.returncode, unknown.stdout) == (2, "")
