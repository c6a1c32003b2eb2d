"""`opaq solve`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from opaq.cli import main

FEW = ("--starts", "1", "--quiet")


def test_it_says_where_policy_and_run_are(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", *FEW, "--policy-out", "policy.json", "--run", "kept")
    assert done.returncode == 0
    assert done.stderr == "opaq: wrote the policy to policy.json\nopaq: the run is kept in kept\n"
    assert json.loads((tmp_path / "policy.json").read_text())["format"] == "opaq-policy"
    assert "opacity      0.408835 bits" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "idle"),
    [
        (["--iterations", "10"], ["--iterations"]),
        (["--eta", "0.8", "--kappa", "1", "--exponent", "0"], ["--eta", "--kappa", "--exponent"]),
        (["--solver", "lagrangian", "--eta", "1", "--samples", "9"], ["--eta", "--samples"]),
        (["--solver", "primal-dual", "--samples", "2000"], ["--samples"]),
        (["--gradients", "exact", "--samples", "2000"], ["--samples"]),
    ],
)
def test_options_that_the_solver_ignores_are_refused(opaq, arguments: list[str], idle: list[str]) -> None:
    done = opaq("solve", "two-sink", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    assert [line.split(": ")[1] for line in told] == idle
    for line in told:
        wanted = "--gradients sampled" if "--samples" in line else "--solver primal-dual"
        assert line.endswith(f"it belongs to {wanted}")


def test_sampled_gradients_are_not_for_lagrangian(opaq) -> None:
    """Five samples once gave an opacity of 0 as converged."""
    done = opaq("solve", "graph", "--solver", "lagrangian", "--gradients", "sampled")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "opaq: --gradients: sampled gradients do not suit --solver lagrangian, which needs exact ones; "
        "use --solver natural or primal-dual\n"
    )
    assert opaq("solve", "two-sink", "--gradients", "exact", *FEW).returncode == 0


def test_options_that_the_solver_uses_are_not(opaq) -> None:
    steps = ("--iterations", "3", "--eta", "0.1", "--gradients", "sampled", "--samples", "10")
    done = opaq("solve", "two-sink", "--solver", "primal-dual", *steps, *FEW, "--json")
    assert done.returncode == 0
    assert [step["iteration"] for step in json.loads(done.stdout)["trace"]] == [1, 2, 3]


def test_defaults_are_those_of_the_library(opaq) -> None:
    done = opaq("solve", "two-sink", "--solver", "primal-dual", *FEW, "--json")
    told = json.loads(done.stdout)
    assert (told["seed"], len(told["trace"])) == (0, 5000)


def test_an_output_that_cannot_be_written_is_told_before_the_work(opaq, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.json").write_text("old")
    cases = {
        "missing/policy.json": "does not exist; create it first",
        "folder": "is a folder, not a file",
        "there.json": "exists already; use --force to overwrite it",
        "/dev/null": "cannot be written: not a regular file",
        "/proc/policy.json": "takes no new files",
        "x" * 300: "File name too long",
    }
    for target, reason in cases.items():
        done = opaq("solve", "no-such-scenario", "--policy-out", target, "--run", "kept")
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr
        assert "no-such-scenario" not in done.stderr  # the problem is not even read
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "there.json"]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A disk that is full when the new file should take its name."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    return tmp_path / "policy.json"


def run(*arguments: str) -> int:
    return main.main(arguments)


def test_the_answer_survives_a_disk_that_fills_up(full_disk: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", "two-sink", *FEW, "--policy-out", str(full_disk)) == 2
    shown = capsys.readouterr()
    assert "opacity      0.408835 bits" in shown.out
    assert json.loads(shown.out.splitlines()[-1])["format"] == "opaq-policy"
    assert "No space left on device" in shown.err
    assert "the policy could not be written; it is printed with the answer" in shown.err
    assert list(full_disk.parent.iterdir()) == []


def test_so_does_the_answer_as_json(full_disk: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", "two-sink", *FEW, "--json", "--policy-out", str(full_disk)) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["opacity"]["value"] == pytest.approx(0.408835, abs=1e-6)
    assert told["policy"]["format"] == "opaq-policy"


def test_progress_appears_on_stderr(opaq) -> None:
    done = opaq("solve", "grid-last-state-4", "--starts", "1", "--json")
    lines = done.stderr.splitlines()
    assert lines
    assert all(re.fullmatch(r"opaq: (reading|preparing|solving) \d+ s( \| .*)?", line) for line in lines)
    assert json.loads(done.stdout)["status"]
