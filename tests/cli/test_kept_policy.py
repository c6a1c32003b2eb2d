"""`solve` always keeps its policy, and every command takes it, or a policy by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opaq as library

FEW = ("--starts", "1")


def test_kept_in_a_file_that_replaces_none(opaq, tmp_path: Path) -> None:
    (tmp_path / "two-sink.policy.json").write_text("mine")
    done = opaq("solve", "two-sink", *FEW)
    assert "opaq: the policy is kept in two-sink.policy-2.json\n" in done.stderr
    assert (tmp_path / "two-sink.policy.json").read_text() == "mine"
    assert opaq("measure", "two-sink", "--policy", "two-sink.policy-2.json", "--json").returncode == 0
    opaq("solve", "two-sink", *FEW, "--conditions", "state,time")
    assert (tmp_path / "two-sink.policy-3.json").exists()


def test_the_same_policy_is_kept_once(opaq, tmp_path: Path) -> None:
    for _ in range(2):
        assert "the policy is kept in two-sink.policy.json" in opaq("solve", "two-sink", *FEW, "-q").stderr
    assert [path.name for path in tmp_path.iterdir()] == ["two-sink.policy.json"]


def test_only_where_the_user_says(opaq, tmp_path: Path) -> None:
    opaq("solve", "two-sink", *FEW, "--save-policy", "mine.csv")
    opaq("solve", "two-sink", *FEW, "--json")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_a_folder_that_cannot_be_written_loses_no_answer(opaq, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path, text, *, overwrite=False):
        raise library.InputError([library.Fault("", "read-only")], str(path))

    monkeypatch.setattr("opaq.files.write_text", refuse)
    done = opaq("solve", "two-sink", *FEW)
    assert done.returncode == 0
    assert "could not be kept in this folder: name a file with --save-policy" in done.stderr


def test_the_answer_is_a_policy_file(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", *FEW, "--json")
    answer = json.loads(done.stdout)
    assert answer["policy"]["format"] == "opaq-policy"
    (tmp_path / "answer.json").write_text(done.stdout)
    measured = json.loads(opaq("measure", "two-sink", "--policy", "answer.json", "--json").stdout)
    assert measured["opacity"]["value"] == pytest.approx(answer["opacity"]["value"], abs=1e-12)
    report = opaq("report", "two-sink", "--answers", "answer.json", "-o", "report.html", "--json")
    assert json.loads(report.stdout)["opacity"]["value"] == pytest.approx(answer["opacity"]["value"], abs=1e-12)
    assert opaq("convert", "answer.json", "answer.csv", "--problem", "two-sink").returncode == 0


@pytest.mark.parametrize("ending", ["csv", "storm.json", "yaml"])
def test_saved_in_any_format(opaq, ending: str) -> None:
    answer = json.loads(opaq("solve", "two-sink", *FEW, "--save-policy", f"p.{ending}", "--json").stdout)
    measured = json.loads(opaq("measure", "two-sink", "--policy", f"p.{ending}", "--json").stdout)
    assert measured["opacity"]["value"] == pytest.approx(answer["opacity"]["value"], abs=1e-12)


def test_an_ending_that_holds_no_policy_is_told_before_the_work(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", "--save-policy", "p.umb")
    assert (done.returncode, done.stdout) == (2, "")
    assert "opaq: p.umb: a policy cannot become '.umb'; it can become" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_names_in_every_command(opaq, tmp_path: Path) -> None:
    best = library.measure("two-sink", "return-optimal")
    for name, opacity in (("uniform", library.measure("two-sink").opacity), ("return-optimal", best.opacity)):
        for command in (("measure",), ("certify", "--time-limit", "5")):
            done = opaq(command[0], "two-sink", *command[1:], "--policy", name, "--json")
            assert json.loads(done.stdout)["opacity"]["value"] == pytest.approx(opacity.value, abs=1e-12)
        assert opaq("simulate", "two-sink", "--policy", name, "--runs", "1").returncode == 0
        assert opaq("plot", "policy", "two-sink", "--policy", name, "-o", f"{name}.svg").returncode == 0
        assert opaq("sensors", "two-sink", "--fixed", "--policy", name, "--json").returncode == 0
        assert opaq("report", "two-sink", "--policy", name, "-o", f"{name}.html", "-q").returncode == 0
    done = opaq("solve", "two-sink", *FEW, "--initial-policy", "return-optimal", "--json")
    assert json.loads(done.stdout)["starts"][0]["kind"] == "warm"
    done = opaq("measure", "two-sink", "--policy", "none.json")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_run_records_the_name_of_its_first_policy(opaq) -> None:
    given = ("--initial-policy", "return-optimal", *FEW)
    assert opaq("solve", "two-sink", *given, "--run-folder", "run", "-q").returncode == 0
    assert opaq("solve", "--resume", "run", *given, "-q").returncode == 0
    assert "--initial-policy" in opaq("solve", "--resume", "run", "--initial-policy", "uniform").stderr
