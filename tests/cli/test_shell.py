"""Exit codes, stdout and stderr, whatever happens."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import without_progress
from opaq.cli.shell import run_guarded
from opaq.errors import BudgetError, Fault, InputError
from opaq.version import __version__
from trials import part_of

PROGRAM = str(Path(sys.executable).parent / "opaq")


def test_version(opaq) -> None:
    done = opaq("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"opaq {__version__}\n", "")


def test_the_module_runs_too() -> None:
    done = subprocess.run([sys.executable, "-m", "opaq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"opaq {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["measure", "--help"], ["check", "-h"]])
def test_help_is_an_answer_without_colour(opaq, arguments: list[str]) -> None:
    done = opaq(*arguments, FORCE_COLOR="1", GITHUB_ACTIONS="true")
    assert done.returncode == 0
    assert "Usage: opaq" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["measure"],
        ["measure", "two-sink", "--mode", "guess"],
        ["measure", "two-sink", "--samples", "0"],
        ["check"],
        ["examples", "--output", "x.yaml"],
        ["--nothing"],
    ],
)
def test_usage_errors_are_bad_input(opaq, arguments: list[str]) -> None:
    done = opaq(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"opaq: .+; .+\n", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_user_error_has_no_traceback_unless_asked(opaq) -> None:
    for place in (["--debug", "check", "no.yaml"], ["measure", "no.yaml", "--debug"], ["measure", "no.yaml"]):
        done = opaq(*place)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "opaq: no.yaml: no such file" in done.stderr
    assert "Traceback" in opaq("--debug", "measure", "no.yaml").stderr
    assert "Traceback" not in opaq("measure", "no.yaml").stderr


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_quietly(tmp_path: Path, number: signal.Signals, code: int) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text("- [1, 2, 3]\n" * 1_000_000)
    given = [PROGRAM, "measure", str(slow)]
    process = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("opaq: reading ")  # it has begun, and goes on for long
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, without_progress(stderr)) == (code, "", "opaq: stopped; nothing yet\n")


@pytest.mark.parametrize("command", ["examples", "examples two-sink", "schema", "check two-sink"])
def test_a_reader_that_leaves_is_no_error(command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PROGRAM, *command.split()], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, without_progress(done.stderr)) == (0, "")


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            InputError([Fault("a.b", "is wrong", "fix it", 3)], "f.yaml"),
            2,
            "opaq: f.yaml: a.b: is wrong; fix it (line 3)",
        ),
        (BudgetError("too large"), 2, "opaq: too large"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 70, "opaq: out of memory"),
        (RuntimeError("boom"), 70, "--debug"),
        (SystemExit(3), 3, ""),
    ],
)
def test_every_end_has_a_code(capsys, error: BaseException, code: int, words: str) -> None:
    assert run_guarded(lambda _: _raise(error), []) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert "Traceback" not in shown.err


def test_debug_is_taken_out_wherever_it_stands() -> None:
    seen: list[list[str]] = []
    run_guarded(lambda kept: seen.append(list(kept)), ["measure", "--debug", "x", "--", "--debug"])
    assert seen == [["measure", "x", "--", "--debug"]]


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout, without_progress(done.stderr))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["measure two-sink -q", "schema", "--help", "simulate two-sink", "check two-sink"])
def test_a_full_stdout_is_told(command: str) -> None:
    done = in_shell(f"{PROGRAM} {command} > /dev/full")
    assert (done.returncode, done.stdout) == (74, "")
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "fault of opaq" not in done.stderr


@pytest.mark.parametrize("command", ["measure two-sink", "solve two-sink", "simulate two-sink", "reproduce two-sink"])
def test_a_closed_stdout_is_told_before_the_work(command: str) -> None:
    done = in_shell(f"cd /nowhere 2>&-; {PROGRAM} {command} >&-")
    assert done.returncode == 74
    assert done.stderr == (
        "opaq: stdout is closed, so that the answer would be lost; send it to /dev/null if that is meant\n"
    )


def test_a_closed_stdout_is_fine_where_there_is_no_answer(tmp_path: Path) -> None:
    done = in_shell(f"{PROGRAM} examples two-sink --output {tmp_path} >&-")
    assert (done.returncode, done.stderr) == (0, f"opaq: wrote {tmp_path / 'two-sink.yaml'}\n")


@pytest.mark.parametrize("redirection", part_of(["<&- 2>&-", "2>/dev/full", "2>&-"], 2))
def test_without_stderr_notes_do_not_get_into_the_answer(tmp_path: Path, redirection: str) -> None:
    problem = tmp_path / "problem.yaml"
    in_shell(f"{PROGRAM} examples two-sink --output {problem}")
    problem.write_text(problem.read_text().replace("b: {q1: 0.5,", "b: {q1: 0.500001,"))  # a warning
    done = in_shell(f"{PROGRAM} check {problem} {redirection}")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{problem}: fine\n")
    assert in_shell(f"{PROGRAM} check no.yaml {redirection}").returncode == 2


def test_nothing_left_to_talk_to() -> None:
    assert in_shell(f"{PROGRAM} check two-sink <&- >&- 2>&-").returncode == 74


def test_a_refusal_of_the_system_is_no_fault_of_ours(capsys) -> None:
    assert run_guarded(lambda _: _raise(PermissionError(13, "Permission denied", "x.npz")), []) == 74
    assert capsys.readouterr().err.startswith("opaq: x.npz: Permission denied (")
