"""An executor for tests: tasks run in this process, one when it is waited for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from opaq.study.workers.executor import Ended
from opaq.study.workers.task import PointAnswer, PointTask, run_task


class InlineExecutor:
    """Runs the same function on the same plain data as every other executor."""

    def __init__(self, before: Callable[[int], Ended | None] = lambda count: None) -> None:
        """before: called with the number of tasks so far; may say how the next one ends in place of its answer."""
        self._before, self._waiting, self.begun = before, list[tuple[int, str]](), list[int]()
        self.solved: list[int] = []  # of those begun, the first passes
        self.closed = False

    def free(self) -> int:
        return 1 - len(self._waiting)

    def submit(self, key: int, task: PointTask, *, limit: float | None) -> None:
        self._waiting.append((key, json.dumps(asdict(task))))

    def wait(self, seconds: float) -> list[Ended]:
        if not self._waiting:
            return []
        key, task = self._waiting.pop()
        self.begun.append(key)
        self.solved += [key] if json.loads(task)["own"] is None else []
        instead = self._before(len(self.begun))
        if instead is not None:
            return [Ended(key, instead.ending, instead.answer, instead.explanation)]
        answer = json.dumps(asdict(run_task(PointTask(**json.loads(task)))))
        return [Ended(key, "answered", PointAnswer(**json.loads(answer)))]

    def close(self) -> None:
        self.closed = True
