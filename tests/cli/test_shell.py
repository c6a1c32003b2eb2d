"""Exit codes, stdout and stderr, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opaq.cli.shell import run_guarded
from opaq.errors import BudgetError, Fault, InputError
from opaq.escapes import printable
from opaq.version import __version__

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
        ["examples", "--to", "x.yaml"],
        ["--nothing"],
    ],
)
def test_usage_errors_are_bad_input(opaq, arguments: list[str]) -> None:
    done = opaq(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: opaq" in done.stderr
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
def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text("- [1, 2, 3]\n" * 1_000_000)
    process = subprocess.Popen([PROGRAM, "check", str(slow)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)  # it starts in less and reads for longer
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "")


@pytest.mark.parametrize("command", ["examples", "examples two-sink", "schema", "check two-sink"])
def test_a_reader_that_leaves_is_no_error(command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PROGRAM, *command.split()], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


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


def test_names_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc é") == "a\\x1b[31mb\\nc é"
