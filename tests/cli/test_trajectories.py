"""Trajectories and rates through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROBLEM = """\
opaq: 1
model:
  states: [a, b]
  actions: [x]
  start: {a: 0.5, b: 0.5}
  transitions: {a: {x: {a: 0.5, b: 0.5}}, b: {x: {a: 0.5, b: 0.5}}}
observer: {emissions: {a: {"0": 0.9, "1": 0.1}, b: {"0": 0.1, "1": 0.9}}}
secret: {trajectory: true}
horizon: 2
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    file = tmp_path / "bits.yaml"
    file.write_text(PROBLEM, encoding="utf-8")
    return file


def test_measure_tells_bits_per_step_and_rates(opaq, problem: Path) -> None:
    answer = json.loads(opaq("measure", str(problem), "--rate", "--json").stdout)
    assert answer["opacity"]["value"] == pytest.approx(3 * 0.4689955935892812, abs=1e-12)
    assert answer["opacity_per_step"]["value"] == pytest.approx(0.4689955935892812, abs=1e-12)
    assert answer["rate"]["opacity"]["value"] == pytest.approx(0.4689955935892812, abs=1e-9)
    assert answer["steps_guessed"]["value"] == pytest.approx(0.9, abs=1e-12)
    page = opaq("measure", str(problem), "--rate").stdout
    assert "per step" in page
    assert "of an endless run" in page
    lines = [line for line in page.splitlines() if line.startswith(("per step", "steps right"))]
    assert len(lines) == 2
    assert all(line[12] == " " != line[13] for line in lines)  # the column of labels


def test_rates_of_other_secrets_are_refused(opaq, problem: Path) -> None:
    problem.write_text(PROBLEM.replace("trajectory: true", "last_state: true"), encoding="utf-8")
    refused = opaq("measure", str(problem), "--rate")
    assert refused.returncode == 2
    assert "secret: is no trajectory" in refused.stderr


def test_simulate_shows_the_most_likely_run(opaq, problem: Path) -> None:
    page = opaq("simulate", str(problem), "--runs", "2", "--seed", "1").stdout
    assert page.count("most likely run") == 2
    assert "steps are guessed right" in page
    (run,) = json.loads(opaq("simulate", str(problem), "--runs", "1", "--json").stdout)
    assert {step["guess"] for step in run["steps"]} <= {"a", "b"}
