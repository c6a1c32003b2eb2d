"""Handle Ctrl-C and SIGTERM: at once while there is nothing to lose, in order while there is.

Signals are handled in a thread of their own, so that neither imports nor compiled code are torn in the middle. This
module is imported first of all and imports nothing heavy.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from opaq.stop import Stop, exit_now, listen

PROCESS_START = monotonic()  # when the process began to run opaq
INTERRUPTED = 128 + signal.SIGINT  # what commands end with after any signal
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Decides what a signal does now: end the process, or ask the work to end and tell what it has.

    Before any work a signal ends the process. While something is computed the first asks the work to end, the second
    says that this is under way, the third ends the process. While an answer is written signals wait.
    """

    def __init__(self) -> None:
        """Begin as a process does: nothing is computed, and no signal has come."""
        self._stop: Stop | None = None
        self._answering = False
        self._count = 0
        self._waiting = False  # whether a signal came while an answer was written
        self._number = int(signal.SIGINT)

    @property
    def exit_code(self) -> int:
        """128 plus the number of the last signal, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self._number

    def act(self, number: int) -> None:
        """Do what a signal asks for now; called in the listening thread, never in the one that computes.

        number: of the signal, which decides the exit code. While an answer is written the signal is kept for later.
        """
        self._number = number
        if self._answering:
            self._waiting = True
            return
        self._count += 1
        if self._stop is None:
            self._end("stopped; nothing yet")
        elif self._count == 1:
            print_line("stopping...")
            self._stop.request()
        elif self._count == 2:
            print_line("still stopping; once more ends it at once, without an answer")
        else:
            self._end("stopped without an answer")

    @contextmanager
    def computing(self) -> Iterator[Stop]:
        """Yield the `Stop` by which a signal asks the work of the block to end.

        After the block a signal waits for the answer to be written, or for more work: work that begins after a signal
        has come is asked to end at once. A command may have several parts, a block each.
        """
        stop = Stop()
        if self._waiting:
            stop.request()
        self._stop, self._answering, self._count, self._waiting = stop, False, 0, False
        try:
            yield stop
        finally:
            self.answering()

    def answering(self) -> None:
        """Let signals wait from now on until the answer is written, or until more work begins."""
        self._answering = True

    def _end(self, text: str) -> None:
        """Print a last line and end the process at once, with the code of the signal."""
        print_line(text)
        exit_now(self.exit_code)


interrupts = Interrupts()  # signals belong to the process, and so does this


def print_line(text: str) -> None:
    """Print a line on stderr at once, whatever the main thread does; a live progress line is wiped first.

    text: without the program's name, which is put before it. Where stderr is closed nothing happens.
    """
    wipe = "\r\x1b[2K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{wipe}opaq: {text}\n".encode())


def run() -> None:
    """Run the command line and exit with its code: the entry point of the program.

    Signals are handled before anything else is imported. Where a signal ended the command, the exit code is 128 plus
    its number, otherwise what `main` returned.
    """
    listen(interrupts.act, SIGNALS)
    gc.set_threshold(200_000, 20, 20)  # importing makes many objects that stay: looking for others took a tenth of it
    from opaq.cli.main import main

    code = main(sys.argv[1:])
    for number in SIGNALS:  # Python would restore the default action while it shuts down
        signal.signal(number, signal.SIG_IGN)
    sys.exit(interrupts.exit_code if code == INTERRUPTED else code)
