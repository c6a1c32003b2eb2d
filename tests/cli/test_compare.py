"""`opaq compare`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from opaq.cli import main
from opaq.cli.next_step import suggest_clock
from opaq.model.policy import PolicyClass
from opaq.opacity.amount import Amount
from opaq.reports.layout import render_text
from opaq.reports.text.comparison import comparison_page
from opaq.solvers.compare import Unreached, compare

TWO = ("--classes", "state; state,time")


def test_the_table(opaq) -> None:
    done = opaq("compare", "two-sink", *TWO, COLUMNS="120")
    assert done.returncode == 0
    sentence, _, head, *lines, bound, _, _ = done.stdout.splitlines()
    assert sentence == (
        "Policies by state, time reach opacity 0.5515 bits, the most of 2 classes (state: 0.4088); "
        "no policy exceeds 0.5515 bits."
    )
    assert bound.split()[:4] == ["any", "policy", "<=", "0.55147"]
    assert head.split() == ["class", "opacity", "return", "guess", "error", "rows", "seconds", "status"]
    assert [re.split(r"  +", line)[:2] for line in lines] == [["state", "0.40883"], ["state, time", "0.55146"]]
    assert all(line.endswith("converged") for line in lines)
    assert "opaq: state: 0.4088 bits" in done.stderr


def test_json(opaq, tmp_path: Path) -> None:
    done = opaq(
        "compare", "graph", "--classes", "state,automaton; memory:2;", "--json", "-q", "--save-policies", "out/p"
    )
    told = json.loads(done.stdout)
    assert set(told) == {
        "classes",
        "interrupted",
        "is_trivial",
        "objective",
        "problem",
        "problem_file",
        "result",
        "scope",
        "seconds",
        "seed",
        "unreached",
        "upper_bound",
    }  # fmt: skip
    assert (told["problem"], told["seed"], told["unreached"]) == ("graph", 0, [])
    assert (told["problem_file"], told["objective"]) == ("graph", {"direction": "maximise", "of": "opacity"})
    assert told["upper_bound"] == pytest.approx(1.18505, abs=1e-3)
    assert [rung["class"] for rung in told["classes"]] == ["state, automaton", "state, memory:2"]
    for rung in told["classes"]:
        assert rung["opacity"]["lower"] <= rung["opacity"]["value"] <= rung["opacity"]["upper"]
        assert rung["feasible"]
    assert done.returncode == (0 if all(rung["status"] == "converged" for rung in told["classes"]) else 3)
    assert done.stderr == "opaq: wrote 2 of 2 policies to out/p\n"
    files = {file.name: file for file in (tmp_path / "out/p").iterdir()}
    assert set(files) == {"state-automaton.json", "state-memory-2.json"}
    for rung, file in zip(told["classes"], ("state-automaton.json", "state-memory-2.json"), strict=True):
        again = json.loads(opaq("measure", "graph", "--policy", f"out/p/{file}", "--json").stdout)
        assert again["opacity"]["value"] == pytest.approx(rung["opacity"]["value"], abs=1e-9)


def test_faults_of_classes_are_all_told(opaq) -> None:
    done = opaq("compare", "two-sink", "--classes", "state,tme; memory:x; state; state")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "opaq: policy class 'state,tme': unknown condition 'tme'; did you mean 'time'?",
        "opaq: policy class 'memory:x': 'memory:x' needs a number; say how many nodes, 1 to 64: memory:2",
        "opaq: policy class 'state': is listed twice; keep one of them",
    ]


def test_outputs_are_tried_before_the_work(opaq, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "state-time.json").write_text("old")
    (tmp_path / "file").write_text("")
    for folder, reason in {
        "there": "there: state-time.json: exists already; use --overwrite to overwrite it",
        "file": "file: cannot be made a folder",
        "/proc/x": "/proc/x: cannot be made a folder",
    }.items():
        done = opaq("compare", "two-sink", *TWO, "--save-policies", folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr
    assert opaq("compare", "two-sink", *TWO, "--save-policies", "there", "--overwrite").returncode == 0
    assert json.loads((tmp_path / "there" / "state-time.json").read_text())["format"] == "opaq-policy"


@pytest.mark.parametrize("as_json", [True, False])
def test_policies_survive_a_disk_that_fills_up(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    given = ("compare", "two-sink", "--classes", "state", "-q", "--save-policies", str(tmp_path))
    assert main.main((*given, "--json") if as_json else given) == 2
    shown = capsys.readouterr()
    assert "No space left on device" in shown.err
    assert list(tmp_path.iterdir()) == []
    kept = json.loads(shown.out)["classes"][0]["policy"] if as_json else json.loads(shown.out.splitlines()[-1])
    assert kept["format"] == "opaq-policy"


def test_an_infeasible_task_is_exit_code_1(opaq, tmp_path: Path) -> None:
    text = opaq("examples", "two-sink").stdout.replace("return_at_least: 0", "return_at_least: 99")
    (tmp_path / "hard.yaml").write_text(text)
    done = opaq("compare", "hard.yaml", *TWO, "-q", COLUMNS="120")
    assert done.returncode == 1
    assert [line.split("  ")[-1] for line in done.stdout.splitlines()[3:]] == ["infeasible, MISSES the task"] * 2
    assert done.stdout.startswith("No class of policies was found to meet the task.\n")


def test_time_ends_the_ladder(opaq) -> None:
    done = opaq("compare", "grid-last-state-4", "--time-limit", "3", "--json", "-q")
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert not told["interrupted"]
    assert {rung["status"] for rung in told["classes"]} & {"time_limit"}
    assert len(told["classes"]) + len(told["unreached"]) == 6


def test_ctrl_c_tells_the_classes_that_are_done(tmp_path: Path) -> None:
    given = (
        sys.executable,
        "-m",
        "opaq",
        "compare",
        "grid-last-state-4",
        "--classes",
        "state,start,time;memory:3;state",
        "--starts",
        "2",
    )
    process = subprocess.Popen(
        given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ
    )
    assert process.stderr is not None
    for line in process.stderr:  # until the first class is done
        if re.match(r"opaq: state: 0\.\d+ bits", line):
            break
    sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping..." in err
    _, table = out.split("\n\n", 1)  # below the sentence
    head, *lines = table.splitlines()
    assert head.startswith("class")
    assert lines[0].startswith("state ")
    assert lines[-1].startswith("no answer for ")
    assert lines[-1].endswith(": interrupted")


def test_a_bound_is_the_last_line_of_the_table() -> None:
    from dataclasses import replace

    import opaq

    found = compare(opaq.load_problem("two-sink"), classes=["state"], starts=1)
    assert "certified" not in render_text(comparison_page(found))
    missed = (Unreached("state, time", "too large"),)
    shown = render_text(comparison_page(replace(found, upper_bound=0.6, scope="all", unreached=missed)))
    assert re.fullmatch(r"any policy  <= 0\.60000 +certified bound", shown.splitlines()[-4])
    assert shown.splitlines()[-2] == "the bound holds for all"
    assert shown.splitlines()[-1] == "no answer for state, time: too large"


def test_intervals_and_estimates_are_shown_as_such() -> None:
    from dataclasses import replace

    import opaq

    found = compare(opaq.load_problem("two-sink"), classes=["state"], starts=1)
    (rung,) = found.rungs
    for opacity, shown in (
        (Amount.between(0.25, 0.5), "[0.2500, 0.5000]"),
        (Amount(0.3, 0.0, 1.0, "sampled", 0.0123), "0.3000 ± 0.012"),
    ):
        changed = replace(rung, measurement=replace(rung.measurement, opacity=opacity))
        assert shown in render_text(comparison_page(replace(found, rungs=(changed,))))


def test_solve_names_the_commands_that_try_a_clock(opaq) -> None:
    hint = "opaq: a clock may help: opaq compare two-sink, or opaq solve two-sink --conditions state,time"
    *_, clock, following = opaq("solve", "two-sink", "--starts", "1").stderr.splitlines()
    assert clock == hint
    assert following == "opaq: next: opaq certify two-sink --policy two-sink.policy.json"
    for arguments in (("--json",), ("--quiet",), ("--conditions", "state,time")):
        assert "clock" not in opaq("solve", "two-sink", "--starts", "1", *arguments).stderr


def test_the_hint_can_be_run() -> None:
    assert suggest_clock("my file.yaml", 3, PolicyClass(("state", "automaton"))).endswith(
        "opaq compare 'my file.yaml', or opaq solve 'my file.yaml' --conditions state,automaton,time"
    )
    assert suggest_clock("x", 3, PolicyClass(("last_states",), last_states=2)) == "a clock may help: opaq compare x"
    assert suggest_clock("x", 0, PolicyClass()) == ""
