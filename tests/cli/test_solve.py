"""`opaq solve`."""

from __future__ import annotations

import inspect
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from opaq.cli import main, progress
from opaq.cli.output import code_of_status
from opaq.errors import Fault, InputError
from opaq.solvers.options import SolveOptions, default_of
from opaq.solvers.registry import SOLVERS
from opaq.solvers.runs import RECORD_FILE, RunRecord
from opaq.solvers.solve import solve
from opaq.solvers.strategy import Status

FEW = ("--starts", "1", "--quiet")


def test_it_says_where_policy_and_run_are(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", *FEW, "--save-policy", "policy.json", "--run-folder", "kept")
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


def test_starts_run_in_threads_and_nowhere_else(opaq) -> None:
    done = opaq("solve", "two-sink", *FEW, "--executor", "local")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--executor: is not an option of opaq solve" in done.stderr
    assert "on" not in inspect.signature(solve).parameters


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


def test_defaults_are_those_of_the_library(opaq, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SolveOptions] = []

    def refuse(*_: object, options: SolveOptions, **others: object) -> None:
        asked.append(options)
        assert {name for name, value in others.items() if value is not None} <= {"on_step", "stop"}
        raise InputError([Fault("", "is not solved here")])

    monkeypatch.setattr("opaq.solvers.solve.solve", refuse)
    assert opaq("solve", "two-sink", "--solver", "primal-dual", *FEW).returncode == 2
    assert asked == [SolveOptions(solver="primal-dual", starts=1)]
    assert (asked[0].seed, asked[0].iterations) == (0, 5000)


def test_an_output_that_cannot_be_written_is_told_before_the_work(opaq, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.json").write_text("old")
    cases = {
        "missing/policy.json": "does not exist; create it first",
        "folder": "is a folder, not a file",
        "there.json": "exists already; use --overwrite to overwrite it",
        "/dev/null": "cannot be written: not a regular file",
        "/proc/policy.json": "takes no new files",
        "x" * 300: "File name too long",
    }
    for target, reason in cases.items():
        done = opaq("solve", "no-such-scenario", "--save-policy", target, "--run-folder", "kept")
        assert (done.returncode, done.stdout) == (2, "")
        output, problem = done.stderr.splitlines()
        assert reason in output
        assert "no scenario is called 'no-such-scenario'" in problem  # all that is wrong, at once
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
    assert run("solve", "two-sink", *FEW, "--save-policy", str(full_disk)) == 2
    shown = capsys.readouterr()
    assert "opacity      0.408835 bits" in shown.out
    assert json.loads(shown.out.splitlines()[-1])["format"] == "opaq-policy"
    assert "No space left on device" in shown.err
    assert "the policy could not be written; it is printed with the answer" in shown.err
    assert list(full_disk.parent.iterdir()) == []


def test_so_does_the_answer_as_json(full_disk: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("solve", "two-sink", *FEW, "--json", "--save-policy", str(full_disk)) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["opacity"]["value"] == pytest.approx(0.408835, abs=1e-6)
    assert told["policy"]["format"] == "opaq-policy"


def test_progress_appears_on_stderr(opaq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST", 0.05)
    done = opaq("solve", "grid-last-state-4", "--starts", "1", "--json")
    lines = done.stderr.splitlines()
    assert lines
    assert all(re.fullmatch(r"opaq: (reading|preparing|solving) \d+ s( \| .*)?", line) for line in lines)
    assert json.loads(done.stdout)["status"]


def test_every_registered_solver_is_in_the_help(opaq) -> None:
    text = " ".join(opaq("solve", "--help").stdout.split())
    assert [name for name in SOLVERS if name not in text] == []
    for option in ("iterations", "eta", "kappa", "exponent", "seed", "start", "gradients", "solver"):
        assert f"(default: {default_of(option)})" in text


def test_an_unknown_solver_is_refused_with_the_choices(opaq) -> None:
    done = opaq("solve", "two-sink", "--solver", "natrual")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opaq: solver: 'natrual' is not a choice; did you mean 'natural'? use one of ")


def test_conditions(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", *FEW, "--conditions", "state,time", "--json", "--save-policy", "timed.json")
    assert json.loads(done.stdout)["opacity"]["value"] == pytest.approx(0.551463, abs=1e-5)
    assert json.loads((tmp_path / "timed.json").read_text())["conditions_on"] == ["state", "time"]
    wrong = opaq("solve", "two-sink", *FEW, "--conditions", "state,tme")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown condition 'tme'; did you mean 'time'?" in wrong.stderr


def test_memory_nodes(opaq, tmp_path: Path) -> None:
    done = opaq("solve", "two-sink", "--quiet", "--memory-nodes", "2", "--json", "--save-policy", "memory.json")
    assert json.loads(done.stdout)["opacity"]["value"] == pytest.approx(0.551463, abs=1e-5)
    policy = json.loads((tmp_path / "memory.json").read_text())
    assert {row["memory"] for row in policy["rows"]} == {"0", "1"}
    again = json.loads(opaq("measure", "two-sink", "--policy", "memory.json", "--json").stdout)
    assert again["opacity"]["value"] == pytest.approx(0.551463, abs=1e-5)
    assert opaq("solve", "two-sink", "--memory-nodes", "65").returncode == 2


def test_warm(opaq) -> None:
    opaq("solve", "graph", "--starts", "2", "--quiet", "--save-policy", "first.json")
    done = opaq("solve", "graph", *FEW, "--initial-policy", "first.json", "--json")
    told = json.loads(done.stdout)
    assert [start["kind"] for start in told["starts"]] == ["warm", "lifted", "perturbed"]  # on [state, automaton]
    assert told["opacity"]["value"] == pytest.approx(1.14307, abs=1e-4)
    wrong = opaq("solve", "two-sink", *FEW, "--initial-policy", "first.json")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "first.json: " in wrong.stderr


def test_a_run_is_resumed_with_its_warm_policy(opaq, tmp_path: Path) -> None:
    few = ("--solver", "primal-dual", "--iterations", "3", "--quiet")
    opaq("solve", "graph", *few, "--starts", "1", "--save-policy", "first.json")
    done = opaq(
        "solve", "graph", *few, "--starts", "1", "--initial-policy", "first.json", "--run-folder", "kept", "--json"
    )
    again = opaq("solve", "--resume", "kept", "--initial-policy", "first.json", "--json", "--quiet")
    assert again.returncode == done.returncode == 0
    assert json.loads(again.stdout)["trace"] == json.loads(done.stdout)["trace"]
    other = opaq("solve", "--resume", "kept", "--initial-policy", "other.json")
    assert (other.returncode, other.stdout) == (2, "")
    assert f"--initial-policy: {tmp_path / 'first.json'} in the run, {tmp_path / 'other.json'} now" in other.stderr


@pytest.mark.parametrize(
    "changed", [{"eta": "fast"}, {"starts": 2.5}, {"initial_policy": 7}, {"more": 1}, {"seed": True}]
)
def test_a_record_of_other_options_is_refused(opaq, tmp_path: Path, changed: dict[str, object]) -> None:
    opaq("solve", "graph", "--solver", "primal-dual", "--iterations", "3", *FEW, "--run-folder", "kept")
    record = RunRecord.read(tmp_path / "kept")
    asked = {**record.asked, "options": record.asked["options"] | changed}
    (tmp_path / "kept" / RECORD_FILE).write_text(replace(record, asked=asked).text())
    done = opaq("solve", "--resume", "kept")
    assert (done.returncode, done.stdout) == (2, "")
    (name,) = changed
    assert done.stderr == (
        f"opaq: kept: its record does not hold the options of this version ({name}); "
        "begin the run again in another folder\n"
    )


def test_budgets_make_lower_bounds(opaq) -> None:
    done = opaq("solve", "graph", *FEW, "--max-beliefs", "3", "--gradients", "exact", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (0, "completed")
    assert told["gradients"] == "cut"
    assert "the belief graph is larger than the budget: gradients on the heaviest " in told["status_text"]
    assert " of the probability" in told["status_text"]
    small = opaq("solve", "graph", *FEW, "--max-memory", "0.001", "--json")
    assert json.loads(small.stdout)["gradients"] in ("exact", "cut", "sampled")


def test_a_time_limit_is_exit_code_3(opaq) -> None:
    done = opaq("solve", "grid-last-state-4", "--time-limit", "0.5", "--json", "--quiet")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "time_limit")


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_its_exit_code(status: Status) -> None:
    answers = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| `{status.name.lower()}` \|.*\| (\d+) \|$", answers, flags=re.MULTILINE)
    assert code_of_status(status) == int(line)


def test_the_text_of_an_answer(opaq) -> None:
    done = opaq("solve", "two-sink", *FEW, COLUMNS="100")
    sentence, _, below = done.stdout.partition("\n\n")
    assert " ".join(sentence.split()) == (
        "This policy hides 0.4088 of 0.9305 bits of the secret; the observer's best guess is wrong in 11.7% of the runs"
        "; return 1.137 meets the threshold 0."
    )
    labels = [line.split("  ")[0] for line in below.splitlines() if line and not line.startswith(" ")]
    assert labels == [
        "status", "opacity", "of at most", "leakage", "guess error", "best guess", "min-entropy", "guesswork",
        "return", "how", "most revealing observations", "most confusing observations", "starts", "optimality", "time",
    ]  # fmt: skip
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_result_that_cannot_be_kept_is_told_once(opaq, tmp_path: Path) -> None:
    (tmp_path / "run" / "result.json").mkdir(parents=True)
    done = opaq("solve", "two-sink", *FEW, "--run-folder", "run", "-q", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["opacity"]["value"] > 0.4
    assert done.stderr == "opaq: run/result.json: is a folder, not a file\n"
