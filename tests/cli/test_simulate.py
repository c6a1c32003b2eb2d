"""`opaq simulate`."""

from __future__ import annotations

import json
import re

import pytest

import opaq as library


def test_runs_as_a_table(opaq) -> None:
    done = opaq("simulate", "two-sink", "--runs", "2", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, "opaq: next: opaq measure two-sink\n")
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
