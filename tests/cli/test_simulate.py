"""`opaq simulate`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import opaq as library

PROGRAM = str(Path(sys.executable).parent / "opaq")


def test_runs_as_a_table(opaq) -> None:
    done = opaq("simulate", "two-sink", "--runs", "2", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, "opaq: next: opaq measure two-sink --seed 1\n")
    assert done.stdout.startswith("At the end the observer's best guess is right in ")
    heads = re.findall(r"^run (\d): the secret is (\w+)$", done.stdout, flags=re.MULTILINE)
    assert [number for number, _ in heads] == ["1", "2"]
    assert done.stdout.count("the observer believes of the secret") == 2
    assert opaq("simulate", "two-sink", "--runs", "2", "--seed", "1").stdout == done.stdout
    assert opaq("simulate", "two-sink", "--runs", "2", "--seed", "2").stdout != done.stdout


def test_runs_as_json_are_those_of_the_library(opaq) -> None:
    told = json.loads(opaq("simulate", "graph", "--runs", "3", "--seed", "5", "--json").stdout)
    runs = library.replay("graph", runs=3, seed=5)
    for shown, run in zip(told, runs, strict=True):
        assert shown["secret"] == run.secret
        assert [moment["state"] for moment in shown["steps"]] == [moment.state for moment in run.steps]
        assert shown["steps"][-1]["belief"] == pytest.approx(run.steps[-1].belief)


def test_a_policy_file(opaq) -> None:
    opaq("solve", "two-sink", "--conditions", "state,time", "--starts", "1", "-q", "--save-policy", "policy.json")
    told = json.loads(opaq("simulate", "two-sink", "--policy", "policy.json", "--runs", "20", "--json").stdout)
    assert {run["steps"][0]["action"] for run in told} == {"a"}
    missing = opaq("simulate", "two-sink", "--policy", "nowhere.json")
    assert (missing.returncode, missing.stdout) == (2, "")


def test_many_runs_come_as_they_are_made(opaq) -> None:
    """More than fit one batch: the first are those of a shorter list, and the sentence counts all of them."""
    few = opaq("simulate", "two-sink", "--runs", "40", "--seed", "3", "-q").stdout.split("\n\n", 1)[1]
    done = opaq("simulate", "two-sink", "--runs", "1200", "--seed", "3", "-q").stdout
    assert done.startswith(few.rstrip("\n"))
    assert re.findall(r"^run (\d+):", done, flags=re.MULTILINE) == [str(number) for number in range(1, 1201)]
    replays = library.replay("two-sink", runs=1200, seed=3)
    right = sum(max(run.steps[-1].belief, key=run.steps[-1].belief.get) == run.secret for run in replays)
    assert f"best guess is right in {right:,} of 1,200 runs" in " ".join(done.split())[-120:]


def test_many_runs_are_one_json_list_with_a_line_for_each(opaq) -> None:
    text = opaq("simulate", "two-sink", "--runs", "1200", "--seed", "3", "--json").stdout
    assert len(text.splitlines()) == 1200
    assert json.loads(text) == [run.to_dict() for run in library.replay("two-sink", runs=1200, seed=3)]


def test_a_reader_that_has_gone_ends_it() -> None:
    """A million runs would take minutes."""
    command = [PROGRAM, "simulate", "two-sink", "--runs", "1000000", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 0


def test_an_interrupted_list_is_whole() -> None:
    command = [PROGRAM, "simulate", "two-sink", "--runs", "1000000", "-q", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        runs = json.loads(first + process.stdout.read())
        assert process.wait(timeout=60) == 130
    assert 0 < len(runs) < 1_000_000
    assert len(runs[-1]["steps"]) == 3
