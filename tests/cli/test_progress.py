"""Progress: a sign of life from the second second on, within the width of the terminal."""

from __future__ import annotations

import os
import pty
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

from commands import NO_PROGRESS, without_progress
from opaq.cli import progress
from opaq.cli.progress import ProgressPrinter, progress_line, solver_progress
from opaq.model.problem import Task
from opaq.solvers.loop import Progress
from opaq.solvers.strategy import Trace

termios = pytest.importorskip("termios")
fcntl = pytest.importorskip("fcntl")


@contextmanager
def terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> Iterator[tuple[Callable[[], str], Callable[[int], None]]]:
    """A stderr that is a terminal: (what it has got, a way to resize it)."""
    master, slave = pty.openpty()

    def resize(width: int) -> None:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    os.set_blocking(master, False)
    received = bytearray()

    def shown() -> str:
        with suppress(BlockingIOError):
            while part := os.read(master, 65536):
                received.extend(part)
        return received.decode()

    resize(columns)
    monkeypatch.setenv("TERM", "xterm")
    with open(slave, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        yield shown, resize
    monkeypatch.undo()
    os.close(master)
    os.close(slave)


def until(happened: Callable[[], bool]) -> None:
    """Wait for something, however busy the machine is; after a minute it will not happen any more."""
    for _ in range(6_000):
        if happened():
            return
        sleep(0.01)
    pytest.fail("it did not happen within a minute")


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the clock that lines show, that is."""
    monkeypatch.setattr(progress, "monotonic", lambda: 0.0)


def test_lines_are_cut_to_the_terminal_also_when_it_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH", 0.02)
    with terminal(monkeypatch, 40) as (shown, resize):
        with ProgressPrinter("measuring") as printer:
            printer.show("level 3 of 12: 4,211 beliefs " + "x" * 500 + "\x1b[31m\n")
            until(lambda: "measuring 0 s | level 3 of 12: 4,211 be\r" in shown())  # 39 columns
            resize(20)
            until(lambda: "measuring 0 s | lev\r" in shown())
        text = shown()
    lines = text.split("\r\x1b[2K")
    assert lines[-2] == "measuring 0 s | lev"
    assert lines[-1] == ""  # erased in the end
    assert "\n" not in text
    assert "\x1b[31m" not in text


def test_a_terminal_that_does_not_know_its_width_shows_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH", 0.02)
    with terminal(monkeypatch, 0) as (shown, _), ProgressPrinter("solving") as printer:
        printer.show("start 1, step 1")
        until(lambda: "solving 0 s | start 1, step 1\r" in shown())


def test_the_live_line_moves_without_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, 80) as (shown, _), ProgressPrinter("reading"):
        until(lambda: shown().count("reading") >= 2)


def test_a_note_does_not_tear_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH", 0.02)
    with terminal(monkeypatch, 80) as (shown, _):
        with ProgressPrinter("solving") as printer:
            until(lambda: "solving" in shown())
            printer.note("stopping...")
        assert "\r\x1b[2Kopaq: stopping...\r\n" in shown()


def test_elsewhere_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (progress._FIRST, progress._PAUSE) == (1.5, 10.0)
    monkeypatch.setattr(progress, "_FIRST", 0.05)
    monkeypatch.setattr(progress, "_PAUSE", 0.05)
    monkeypatch.setattr(sys, "stderr", stream := StringIO())
    with ProgressPrinter("measuring") as printer:
        until(lambda: bool(stream.getvalue()))
        printer.show("level 1 of 2")
        until(lambda: "level 1 of 2\n" in stream.getvalue())
    plain, told = "opaq: measuring 0 s\n", "opaq: measuring 0 s | level 1 of 2\n"
    assert re.fullmatch(f"({re.escape(plain)})+({re.escape(told)})+", stream.getvalue())


def test_elsewhere_lines_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST", 0.01)
    monkeypatch.setattr(progress, "_PAUSE", NO_PROGRESS)
    monkeypatch.setattr(sys, "stderr", stream := StringIO())
    with ProgressPrinter("measuring") as printer:
        until(lambda: bool(stream.getvalue()))
        printer.show("level 1 of 2")
        sleep(0.05)
    assert stream.getvalue() == "opaq: measuring 0 s\n"


@pytest.mark.parametrize("how", ["quiet", "no stderr"])
def test_silence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, how: str) -> None:
    monkeypatch.setattr(progress, "_FIRST", 0.01)
    if how == "no stderr":
        monkeypatch.setattr(sys, "stderr", None)
    with ProgressPrinter("measuring", quiet=how == "quiet") as printer:
        printer.show("x")
        sleep(0.05)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def step(iteration: int, score: float, best: object = None) -> Progress:
    trace = Trace(iteration=iteration, score=score, slack=np.array([-0.05]), multipliers=np.array([1.25]))
    return Progress(index=2, trace=trace, best=best, seconds=1.0, share=0.5)


def test_a_step_in_words() -> None:
    line = progress_line(step(7, 0.91234), threshold=0.3, best=0.9, seconds=4.0)
    assert line == (
        "start 3, step 7 | opacity 0.9123 | best so far 0.9000 | return 0.2500 | at most 4 s left | multiplier 1.25"
    )


def test_the_best_is_the_least_opaque_where_that_is_asked() -> None:
    """With task.minimise the score is minus the opacity."""

    class Best(SimpleNamespace):
        def beats(self, other: SimpleNamespace | None) -> bool:
            return other is None or self.score > other.score

    printer = ProgressPrinter("solving", quiet=True)
    show = solver_progress(printer, SimpleNamespace(task=Task()))
    for score in (-0.5, -0.2, -0.4):
        show(step(1, score, Best(score=score, feasible=True)))
    assert "best so far 0.2000" in printer._text


def test_tests_can_leave_it_out() -> None:
    said = "opaq: reading 0 s\nopaq: solving 13 s | start 1, step 2\nopaq: wrote 3 s.yaml\n"
    assert without_progress(said) == "opaq: wrote 3 s.yaml\n"


def test_a_bar_where_the_share_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty columns wide; the whole line keeps to the terminal, and looks are not counted."""
    monkeypatch.setattr(progress, "_REFRESH", 0.02)
    monkeypatch.setattr(progress, "_BAR_AFTER", 0.0)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal(monkeypatch, 80) as (shown, _), ProgressPrinter("solving") as printer:
        printer.show("start 1, step 3 " + "x" * 200, share=0.5)
        until(lambda: shown().count("50%") >= 2)
        lines = [line for line in shown().split("\r\x1b[2K")[:-1] if "50%" in line]
    (drawn,) = {re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines}
    assert drawn.startswith("solving 0 s ━━━━━━━━━━╺━━━━━━━━━  50% | start 1, step 3 xxx")
    assert len(drawn) == 79
    assert "\x1b[1m━━━━━━━━━━\x1b[0m\x1b[2m╺" in lines[0]


def test_no_bar_for_short_work_and_narrow_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH", 0.02)
    with terminal(monkeypatch, 80) as (shown, resize), ProgressPrinter("solving") as printer:
        printer.show("step 3", share=0.5)
        until(lambda: "solving 0 s | 50% | step 3\r" in shown())
        monkeypatch.setattr(progress, "_BAR_AFTER", 0.0)
        until(lambda: "━" in shown())
        before = len(shown())
        resize(40)
        until(lambda: "solving 0 s | 50% | step 3\r" in shown()[before:])


@pytest.mark.parametrize(("encoding", "colours", "text"), [("utf-8", False, "━━━━━"), ("latin-1", True, "-----")])
def test_a_bar_without_colours_or_beyond_the_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str, colours: bool, text: str
) -> None:
    from io import BytesIO, TextIOWrapper

    from opaq.cli.progress import BAR_WIDTH, draw_bar

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    stream = TextIOWrapper(BytesIO(), encoding=encoding)
    drawn = draw_bar(0.25, stream)
    assert re.sub(r"\x1b\[[0-9;]*m", "", drawn).startswith(text)
    assert len(re.sub(r"\x1b\[[0-9;]*m", "", drawn)) == BAR_WIDTH
    assert ("\x1b" in drawn) == colours
    drawn.encode(encoding)
    assert stream.tell() == 0  # nothing was written


def test_in_a_log_the_share_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_FIRST", 0.01)
    monkeypatch.setattr(sys, "stderr", stream := StringIO())
    with ProgressPrinter("solving") as printer:
        printer.show("step 3", share=0.25)
        until(lambda: "25%" in stream.getvalue())
    assert stream.getvalue().splitlines()[-1] == "opaq: solving 0 s | 25% | step 3"


def test_a_time_limit_counts_as_work_done(monkeypatch: pytest.MonkeyPatch) -> None:
    printer = ProgressPrinter("solving", quiet=True, limit=8.0)
    show = solver_progress(printer, SimpleNamespace(task=Task()))
    monkeypatch.setattr(progress, "monotonic", lambda: 6.0)
    show(step(1, 0.5))
    assert printer.share_done() == printer._share == 0.75
    assert "at most 2 s left" in printer._text


def test_nothing_of_rich_is_loaded_for_short_work() -> None:
    import subprocess

    code = (
        "import sys; from opaq.cli.progress import ProgressPrinter\n"
        "with ProgressPrinter('measuring') as printer: printer.show('x', share=0.5)\n"
        "print([name for name in sys.modules if name.startswith('rich')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
