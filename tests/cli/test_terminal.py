"""What a terminal gets of names that would steer it: every character spelt out, in a pipe as on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import struct
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest

from opaq.cli import progress
from opaq.cli.main import main

termios = pytest.importorskip("termios")
fcntl = pytest.importorskip("fcntl")

# Clears the screen, rings, writes over its line, turns the line round, and would be markup of rich.
EVIL = r'"[red]\e[2J\a\r\u202e"'
PROBLEM = f"""
opaq: 1
name: {EVIL}
model:
  states: ["0{EVIL[1:]}, b]
  actions: ["a{EVIL[1:]}, b]
  start: "0{EVIL[1:]}
  transitions:
    "0{EVIL[1:]}: {{"a{EVIL[1:]}: {{"0{EVIL[1:]}: 0.5, b: 0.5}}, b: b}}
    b: {{"*": b}}
  labels: {{"l{EVIL[1:]}: [b]}}
observer: {{emissions: {{"0{EVIL[1:]}: {{"s{EVIL[1:]}: 0.6, t: 0.4}}, b: {{"s{EVIL[1:]}: 0.4, t: 0.6}}}}}}
secret: {{last_state: true}}
horizon: 1
task: {{reach: "l{EVIL[1:]}, probability_at_least: 0.3}}
"""
FILE, NOWHERE = "p\x1b[2J\u202e\x9b.yaml", "no\x1b[2J\u202e.yaml"
COMMANDS = [
    ["measure", FILE],
    ["solve", FILE, "--starts", "1", "--certify"],
    ["certify", FILE, "--time-limit", "3"],
    ["compare", FILE, "--starts", "1", "--classes", "state; state,time"],
    ["simulate", FILE],
    ["check", FILE],
    ["measure", NOWHERE],
]
_LOOKS = re.compile(r"\x1b\[[012]*m|\r\x1b\[2K")  # bold, dim, and the erased line of progress
_SPELT = "\\x1b[2J"


@pytest.fixture(autouse=True)
def _problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(PROBLEM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def on_pseudo_terminal(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code, and all that a command writes to a terminal that is both its stdout and its stderr."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    received = bytearray()

    def listen() -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(master, 65536):
                received.extend(part)

    listener = Thread(target=listen)
    listener.start()
    with (
        monkeypatch.context() as patch,
        open(slave, "w", encoding="utf-8", closefd=False) as out,
        open(slave, "w", encoding="utf-8", closefd=False) as err,
    ):
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main(arguments)
    os.close(slave)
    listener.join()
    os.close(master)
    return code, received.decode()


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_on_a_terminal(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = on_pseudo_terminal(arguments, monkeypatch)
    assert code == (2 if NOWHERE in arguments else 0)
    left = _LOOKS.sub("", shown).replace("\r\n", "\n")
    assert [char for char in left if not char.isprintable() and char != "\n"] == []
    assert _SPELT in left.replace("\n", "")


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_in_a_pipe(arguments: list[str], capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST", 1e6)
    assert main(arguments) == (2 if NOWHERE in arguments else 0)
    shown = capsys.readouterr()
    left = shown.out + shown.err
    assert [char for char in left if not char.isprintable() and char != "\n"] == []
    assert _SPELT in left.replace("\n", "")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_terminals_that_want_no_looks(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opaq.cli import output
    from opaq.reports.layout import Facts, Lines, Page

    page = Page("A sentence.", (Facts((("opacity", "1 bits"),)), Lines(("  line",), "title")))
    monkeypatch.setattr(sys, "stdout", stream := StringIO())
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in output.render_page(page)
    monkeypatch.setenv(name, value)
    assert output.render_page(page) == "A sentence.\n\nopacity      1 bits\n\ntitle\n  line"


def test_a_page_has_the_same_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert main(["measure", "graph", "-q"]) == 0
    piped = capsys.readouterr().out
    shown = _LOOKS.sub("", on_pseudo_terminal(["measure", "graph", "-q"], monkeypatch)[1])
    assert shown.split() == piped.split()
    assert max(map(len, shown.splitlines())) <= 100
