"""What runs the points of a sweep: one protocol, whether on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from opaq.errors import Fault, InputError

Ending = Literal["answered", "lost", "late"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended: with an answer, lost with its worker, or ended because it was late."""

    key: int
    ending: Ending
    answer: Mapping[str, Any] | None = None
    explanation: str = ""


class Executor(Protocol):
    """Runs tasks of `opaq.study.workers.tasks` in processes of their own; every task ends exactly once."""

    def free(self) -> int:
        """How many more tasks it can begin now."""

    def submit(self, key: int, task: Mapping[str, Any], *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker."""

    def wait(self, seconds: float) -> list[Ended]:
        """What ended meanwhile; waits so long for the first. Raises InputError when no task can run any more."""

    def close(self) -> None:
        """End all workers, at once."""


def executor_name(on: str | Executor) -> str:
    """What is recorded of an executor. Raises InputError for a word that stands for none."""
    if not isinstance(on, str):
        return type(on).__name__
    if on in ("local", "ray") or (on.startswith("ray://") and len(on) > len("ray://")):
        return on
    raise InputError([Fault("on", f"'{on}' is not a choice", "use local, ray or ray://HOST:PORT")])


def open_executor(on: str | Executor, processes: int | None) -> Executor:
    """The executor of a word, with at most so many workers; one that is given is taken as it is."""
    if not isinstance(on, str):
        return on
    if executor_name(on) == "local":
        from opaq.study.workers.local import LocalExecutor

        return LocalExecutor(processes)
    from opaq.study.workers.ray import RayExecutor

    return RayExecutor("" if on == "ray" else on, processes)
