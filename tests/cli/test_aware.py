"""Policies that look at observations, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_solve_measure_simulate_and_convert(opaq, tmp_path: Path) -> None:
    classes = ("--conditions", "state,time,observations:1", "--starts", "1", "--quiet", "--json")
    solved = opaq("solve", "graph-published", *classes, "--save-policy", "aware.json", "--run-folder", "kept")
    assert solved.returncode == 0
    answer = json.loads(solved.stdout)
    assert answer["opacity"]["value"] == pytest.approx(1.147494, abs=1e-4)  # without the observation: 1.136579
    measured = json.loads(opaq("measure", "graph-published", "--policy", "aware.json", "--json").stdout)
    assert measured["opacity"]["value"] == pytest.approx(answer["opacity"]["value"], abs=1e-9)
    assert opaq("simulate", "graph-published", "--policy", "aware.json").returncode == 0
    assert opaq("convert", "aware.json", "aware.csv", "--problem", "graph-published").returncode == 0
    assert (tmp_path / "aware.csv").read_text().startswith("state,time,observations,a1,a2\n0,0,0,")
    assert opaq("solve", "--resume", "kept", "--quiet").returncode == 0


def test_compare_takes_the_class_by_name(opaq) -> None:
    done = opaq("compare", "graph-published", "--classes", "state,time,observations:2; state,time", "--json", "-q")
    coarse, fine = json.loads(done.stdout)["classes"]
    assert (coarse["class"], fine["class"]) == ("state, time", "state, time, observations:2")
    assert fine["warm_from"] in ("state, time", "state, observations:2"), "the better of the classes just below"
    assert fine["opacity"]["value"] > coarse["opacity"]["value"] + 0.01


def test_other_words_are_refused(opaq) -> None:
    done = opaq("solve", "two-sink", "--conditions", "observations:9", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    advice = "'observations:9' needs a number; say how many observations, 1 to 3: observations:2"
    assert done.stderr == f"opaq: two-sink: policy class 'observations:9': {advice}\n"
