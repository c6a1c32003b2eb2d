"""Try many numbered cases in a child process, so that a crash or a hang costs one case and is told with its number."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any


@dataclass(frozen=True, slots=True)
class Crash:
    """What became of a case that ended its process, or did not end."""

    reason: str


def run_each(
    work: Callable[[int], Any], numbers: Iterable[int], *, seconds: float = 120.0
) -> Iterator[tuple[int, Any | Crash]]:
    """work(number) for every number, in order; a Crash where the child died or took longer than `seconds`.

    The child is forked: what is loaded and compiled before stays so.
    """
    child: _Child | None = None
    for number in numbers:
        child = child or _Child(work)
        result = child.ask(number, seconds)
        yield number, result
        if isinstance(result, Crash):
            child = None
    if child is not None:
        child.close()


class _Child:
    """One forked process that answers numbers with results."""

    def __init__(self, work: Callable[[int], Any]) -> None:
        context = multiprocessing.get_context("fork")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, number: int, seconds: float) -> Any | Crash:
        """The result for one number."""
        try:
            self._line.send(number)
            if self._line.poll(seconds):
                return self._line.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            return Crash(f"crashed: {_cause(self._process.exitcode)}")
        self._process.kill()
        self._process.join()
        return Crash(f"no answer within {seconds:g} s")

    def close(self) -> None:
        """Let it end."""
        self._line.send(None)
        self._process.join()


def _serve(work: Callable[[int], Any], line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while (number := line.recv()) is not None:
        line.send(work(number))


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
