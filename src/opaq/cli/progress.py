"""Show progress on stderr: one line that renews itself on a terminal, a quiet line now and then elsewhere.

Comes in: words from the work, at any rate. Goes out: as few lines as tell that it goes on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from opaq.cli.shell import print_note
from opaq.errors import escape_invisible

if TYPE_CHECKING:
    from rich.console import Console

    from opaq.certificates.decoder.search import BoundStep
    from opaq.certificates.gap import GapStep
    from opaq.model.problem import Problem
    from opaq.solvers.loop import Candidate, Progress

_REFRESH = 0.3  # seconds between two renewals of a live line
_FIRST, _PAUSE = 1.5, 10.0  # seconds to the first line, and between lines, where there is no terminal
_ERASE = "\r\x1b[2K"
_LEAST_SHARE = 0.02  # of the work done, before it is used to foretell the rest
_BAR_AFTER = 1.0  # seconds: shorter work does not wait for what draws the bar
_BAR_FROM = 60  # columns: on a narrower terminal words are worth more
BAR_WIDTH = 20  # columns
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")


class ProgressPrinter:
    """Shows from a thread of its own that work goes on: the phase, the time it has taken, the latest message.

    Numerical work only calls `show`, which stores a text. Nothing is printed when `quiet`, or without a stderr.
    """

    def __init__(
        self, label: str, *, quiet: bool = False, since: float | None = None, limit: float | None = None
    ) -> None:
        """Take what is shown; nothing is printed before the block of `with` begins.

        label: what is done, such as "reading". quiet: True shows nothing.
        since: when the user began to wait, if that was before now (a reading of the monotonic clock); None is now.
        limit: seconds after which the work ends in any case; None for no limit.
        """
        self._label = label
        self._text = ""
        self._share = 0.0
        self._limit = limit
        self._quiet = quiet or sys.stderr is None
        self._live = not self._quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._start = monotonic()
        self._since = self._start if since is None else since
        self._ended = Event()
        self._printing = Lock()
        self._thread = Thread(target=self._run, name="opaq-progress", daemon=True)

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return monotonic() - self._start

    def share_done(self, share: float = 0.0) -> float:
        """Return the share of the work that is done, from 0 to 1.

        share: as far as the work itself knows; that of the time limit counts where it is larger.
        """
        return min(share if self._limit is None else max(share, self.seconds / self._limit), 1.0)

    def show(self, text: str, *, label: str | None = None, share: float = 0.0) -> None:
        """Store what is shown next. Any thread may call it, as often as it likes.

        text: the latest message. label: begins a new phase; None goes on with the present one.
        share: how much of the work is done, from 0 to 1, if that is known; it is drawn as a bar.
        """
        self._label = self._label if label is None else label
        self._text, self._share = text, share

    def note(self, text: str) -> None:
        """Print a line that stays, without tearing the live one."""
        with self._printing:
            self._erase()
            print_note(text)

    def __enter__(self) -> Self:
        """Begin to print, unless it is quiet."""
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End printing and wipe the live line, whatever the block raised."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        with self._printing:
            self._erase()

    def _run(self) -> None:
        """Print now and then until the work ends; in a thread of its own."""
        pause = _REFRESH if self._live else max(_FIRST - (self._start - self._since), 0.05)
        while not self._ended.wait(pause):
            with self._printing:
                if not self._ended.is_set():
                    self._print()
            pause = _REFRESH if self._live else _PAUSE

    def _print(self) -> None:
        """Print the phase, the time, the share that is done and the latest message, as far as there is room."""
        head, text = escape_invisible(f"{self._label} {self.seconds:.0f} s"), self._text
        share = self.share_done(self._share)
        if not self._live:
            print_note(_join_parts(head, _percent(share), text))
            return
        columns = _columns() - 1  # the last column would begin a new line
        if share < _LEAST_SHARE or columns < _BAR_FROM or self.seconds < _BAR_AFTER:
            _write(f"{_ERASE}{_join_parts(head, _percent(share), text)[:columns]}")
            return
        words = _join_parts(_percent(share).rjust(4), text)[: max(columns - len(head) - BAR_WIDTH - 2, 0)]
        _write(f"{_ERASE}{head} {draw_bar(share, sys.stderr)} {words}")

    def _erase(self) -> None:
        """Wipe the live line, where there is one."""
        if self._live:
            _write(_ERASE)


def draw_bar(share: float, stream: TextIO) -> str:
    """Return a bar of BAR_WIDTH columns as the stream's terminal shows it: in ASCII or without looks where it must be.

    share: how much of it is full, from 0 to 1. stream: the terminal, whose encoding decides.
    Rich is imported here, for it takes longer than short work.
    """
    from rich.progress_bar import ProgressBar

    style = "" if os.environ.get("NO_COLOR") else "bold"
    bar = ProgressBar(
        total=1.0, completed=share, width=BAR_WIDTH, style="dim", complete_style=style, finished_style=style
    )
    console = _console(stream)
    with console.capture() as captured:
        console.print(bar, end="")
    text: str = captured.get()
    return text + " " * (BAR_WIDTH - len(_LOOKS.sub("", text)))


@lru_cache(maxsize=1)
def _console(stream: TextIO) -> Console:
    """Return rich's picture of the terminal; it writes nothing, for everything is captured."""
    from rich.console import Console

    return Console(file=stream, force_terminal=True, highlight=False, width=BAR_WIDTH)


def _join_parts(*words: str) -> str:
    """Return the words that are not empty, with bars between them and no character that steers a terminal."""
    return escape_invisible(" | ".join(word for word in words if word))


def _percent(share: float) -> str:
    """Return a share as a percentage; empty below 2%, where it says nothing."""
    return "" if share < _LEAST_SHARE else f"{share:.0%}"


def _columns() -> int:
    """Return the width of the terminal in columns as it is now, for users resize it.

    One that does not know its width says 0; that, and no terminal at all, count as 80.
    """
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns or 80, 2)
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    """Write text to stderr at once, without an end of line; a terminal that has gone is no error."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # the terminal has gone; the work goes on


def solver_progress(
    printer: ProgressPrinter, problem: Problem, *, part: str = "", parts: Sequence[str] = ()
) -> Callable[[Progress], None]:
    """Return a function that a solver calls after every step: the printer shows the step and the best policy so far.

    printer: shows the lines. problem: gives the threshold, and the name of the scores.
    part, parts: the name of this search and those of all, where there are several one after the other; the time and
        the best policy are then those of this one.
    """
    of = problem.task.of
    title = of.title if of.name in ("opacity", "guess_error", "guesswork") else "score"  # losses: divided by their span
    index = parts.index(part) if parts else 0
    label = f"{part} ({index + 1} of {len(parts)})" if parts else None
    start = printer.seconds if parts else 0.0
    best: Candidate | None = None
    unstored = ""

    def show(progress: Progress) -> None:
        """Show one step, and note once that checkpoints can no longer be stored."""
        nonlocal best, unstored
        if progress.unstored and not unstored:
            unstored = progress.unstored
            printer.note(f"{unstored}; the search goes on, but could not be resumed from here")
        if progress.best is not None and progress.best.beats(best):
            best = progress.best
        share = printer.share_done(progress.share)
        line = progress_line(
            replace(progress, share=share),
            threshold=problem.task.return_at_least,
            best=abs(best.score) if best is not None and best.feasible else None,
            title=title,
            seconds=printer.seconds - start,
        )
        printer.show(line, label=label, share=(index + share) / max(len(parts), 1))

    return show


def bound_progress(printer: ProgressPrinter) -> Callable[[BoundStep], None]:
    """Return a function that the search for a bound calls after every step: the printer shows the bound so far."""
    return lambda step: printer.show(f"bound {step.bound:.5f}, {step.machine}, round {step.rounds:,}")


def gap_progress(printer: ProgressPrinter) -> Callable[[GapStep], None]:
    """Return a function that a search to a gap calls after every turn: the printer shows policy, bound and gap."""

    def show(step: GapStep) -> None:
        """Show both numbers, how far apart they are, and what is being done."""
        gap = max(step.bound - step.policy, 0.0)
        share = f" ({gap / step.bound:.2%})" if step.bound > 0 else ""
        printer.show(f"policy {step.policy:.5f} | bound {step.bound:.5f} | gap {gap:.5f}{share} | {step.work}")

    return show


def progress_line(
    progress: Progress, *, threshold: float | None, best: float | None, seconds: float, title: str = "opacity"
) -> str:
    """Return one line on a step of a solver.

    progress: the step. threshold: of the return, None if there is none.
    best: the score of the best feasible policy so far, None if there is none.
    seconds: the time so far, from which the rest is foretold. title: the name of the scores.
    """
    trace = progress.trace
    words = [f"start {progress.index + 1}, step {trace.iteration}", f"{title} {abs(trace.score):.4f}"]
    if best is not None:
        words.append(f"best so far {best:.4f}")
    if threshold is not None and trace.slack.size:
        words.append(f"return {trace.slack[0] + threshold:.4f}")
    if progress.share >= _LEAST_SHARE:
        words.append(f"at most {seconds * (1 / progress.share - 1):.0f} s left")
    if trace.multipliers.size:
        words.append(f"multiplier {trace.multipliers[0]:.3g}")
    return " | ".join(words)
