"""What runs the points of a sweep and the starts of a solve: one protocol, whether on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Ending = Literal["answered", "lost", "late"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended: with an answer, lost with its worker, or ended because it was late."""

    key: int
    ending: Ending
    answer: Mapping[str, Any] | None = None
    explanation: str = ""


class Executor(Protocol):
    """Runs tasks of `opaq.study.task_kinds` in processes of their own; every task ends exactly once."""

    def free(self) -> int:
        """How many more tasks it can begin now."""

    def submit(self, key: int, task: Mapping[str, Any], *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker."""

    def wait(self, seconds: float) -> list[Ended]:
        """What ended meanwhile; waits so long for the first. Raises InputError when no task can run any more."""

    def close(self) -> None:
        """End all workers, at once."""
