"""Live progress on stderr: one line that renews itself on a terminal, a quiet line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from opaq.model.problem import Problem
from opaq.solve.loop import Progress

_SECONDS_BETWEEN = {True: 0.2, False: 10.0}


class Teller:
    """Hears every step and tells some."""

    def __init__(self, problem: Problem, note: Callable[[str], None]) -> None:
        self._live = sys.stderr.isatty()
        self._note = note
        self._threshold = problem.task.return_at_least
        self._begun = self._told = monotonic()
        self._steps = 0
        self._best: tuple[bool, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def hear(self, progress: Progress) -> None:
        """Note a step; tell it if the last telling is long enough ago."""
        self._steps += 1
        if progress.best is not None:
            candidate = (progress.best.feasible, abs(progress.best.score))
            self._best = candidate if self._best is None else max(self._best, candidate)
        now = monotonic()
        if now - self._told < _SECONDS_BETWEEN[self._live]:
            return
        self._told = now
        line = self._line(progress, now - self._begun)
        if self._live:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        else:
            self._note(line)

    def _line(self, progress: Progress, seconds: float) -> str:
        trace = progress.trace
        words = [
            f"{seconds:5.0f} s",
            f"start {progress.place}, step {trace.iteration}",
            f"opacity {abs(trace.score):.4f}",
        ]
        if self._threshold is not None and trace.slack.size:
            words.append(f"return {trace.slack[0] + self._threshold:.4f}")
        if trace.multipliers.size:
            words.append(f"multiplier {trace.multipliers[0]:.3g}")
        if progress.share > 0.02:
            words.append(f"at most {seconds * (1 / progress.share - 1):.0f} s left")
        if self._best is not None and self._best[0]:
            words.append(f"best so far {self._best[1]:.4f}")
        return " | ".join(words)
