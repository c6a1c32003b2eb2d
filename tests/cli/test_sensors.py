"""`opaq sensors`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opaq as library
from commands import opaq_command

COVERS = {"A": 1, "B": 4, "C": 2, "D": 4, "E": 1}
FIXED = ("sensors", "grid-last-state-4", "--fixed")


def test_the_table() -> None:
    done = opaq_command(*FIXED, "--change", "x0.5")
    assert done.returncode == 0
    head, base, first, *_, last = done.stdout.splitlines()
    assert head.split() == ["sensor", "covers", "rate", "change", "opacity", "gain", "return", "status"]
    assert base.split()[:4] == ["as", "they", "are", "0.09591"]
    assert first.split()[:6] == ["E", "1", "0.7", "removed", "0.11492", "+0.01901"]
    assert last == "the policy stays the same; a sensor that is removed shows 'null'"
    assert len(done.stdout.splitlines()) == 2 + 10 + 1


def test_json() -> None:
    done = opaq_command(*FIXED, "--json")
    told = json.loads(done.stdout)
    assert set(told) == {
        "result", "problem", "policy_class", "fixed", "null", "stated", "base", "status", "sensors", "trials",
        "seconds", "interrupted", "complete", "broken_laws",
    }  # fmt: skip
    assert told["fixed"] is True
    assert {sensor["sensor"]: len(sensor["covers"]) for sensor in told["sensors"]} == COVERS
    assert {trial["change"] for trial in told["trials"]} == {"removed", "x0.5", "1"}
    figures = {"opacity", "objective", "guess_error", "return", "feasible"}
    assert set(told["base"]) >= figures
    assert all(set(trial) >= figures | {"sensor", "change", "seconds", "gain", "status"} for trial in told["trials"])


def test_a_policy_file_may_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    solution = library.solve("two-sink")
    library.save_policy(solution.policy, file, problem=library.load_problem("two-sink"))
    told = json.loads(opaq_command("sensors", "two-sink", "--fixed", "--policy", file, "--json").stdout)
    assert told["base"]["opacity"]["value"] == pytest.approx(solution.measurement.opacity.value, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--change", "more"), "'more' is no change of a rate"),
        (("--null", "dark"), "'dark' is no observation"),
        (("--fixed", "--conditions", "state"), "has no effect with --fixed"),
    ],
)
def test_bad_input(options: tuple[str, ...], words: str) -> None:
    done = opaq_command("sensors", "two-sink", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_a_task_that_nobody_meets(tmp_path: Path) -> None:
    stated = library.problem_to_dict(library.load_problem("two-sink"))
    (tmp_path / "p.json").write_text(json.dumps(stated | {"task": {"return_at_least": 9}}))
    done = opaq_command("sensors", tmp_path / "p.json")
    assert done.returncode == 1
