"""Try numbered cases in a child process, so that a crash or a hang costs one case, and add up what came of them."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case."""

    failures: tuple[str, ...] = ()  # what is wrong, a line each
    tallies: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (table, row) -> added up by a survey
    differences: Mapping[str, float] = field(default_factory=dict)  # what was compared -> how far off it is


@dataclass(frozen=True, slots=True)
class Crash:
    """Why there is no result of a case that ended its process, or did not end."""

    reason: str


def survey(work: Callable[[int], Outcome], numbers: range, *, seconds: float = 120.0) -> int:
    """Try every number, print what failed and what adds up, and return the exit code: 1 if anything failed.

    seconds: for a single case.
    """
    begun, failures = time.monotonic(), 0
    tables: defaultdict[str, Counter[str]] = defaultdict(Counter)
    largest: dict[str, float] = {}
    for done, (number, outcome) in enumerate(run_each(work, numbers, seconds=seconds), start=1):
        lines = (outcome.reason,) if isinstance(outcome, Crash) else outcome.failures
        failures += bool(lines)
        print("".join(f"{number}: {line}\n" for line in lines), end="", flush=True)
        if not isinstance(outcome, Crash):
            for (table, row), amount in outcome.tallies.items():
                tables[table][row] += amount
            for name, gap in outcome.differences.items() if not lines else ():
                largest[name] = max(largest.get(name, 0.0), gap)
        if done % 500 == 0:
            print(f"{done:,} of {len(numbers):,}, {failures} failures", file=sys.stderr, flush=True)
    for table, rows in tables.items():
        print(f"\n{table}\n" + "\n".join(f"  {row[:100]:40} {amount:10,.6g}" for row, amount in sorted(rows.items())))
    if largest:
        rows = "\n".join(f"  {name:40} {gap:10.2e}" for name, gap in sorted(largest.items()))
        print(f"\nlargest difference among the cases without failure\n{rows}")
    print(f"\n{len(numbers):,} cases, {failures} failures, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


def run_each(
    work: Callable[[int], Any], numbers: Iterable[int], *, seconds: float = 120.0
) -> Iterator[tuple[int, Any | Crash]]:
    """Yield work(number) for every number, in order; a Crash where the child died or took longer than `seconds`.

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
        """Return the result for one number."""
        try:
            self._line.send(number)
            if self._line.poll(seconds):
                return self._line.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            cause = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            return Crash(f"crashed: {cause}")
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
