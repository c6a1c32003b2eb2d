"""Executors of a sweep: their protocol, what they share, and the one that a name stands for.

An executor keeps a `Slot` for every worker. It hands one task at a time to each, kills the workers of tasks that take
too long, and says how every task has ended. What then happens to a point is decided by the sweep alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Literal, Protocol, TypeVar

from opaq.errors import Fault, InputError
from opaq.study.workers.task import PointAnswer, PointTask

_W = TypeVar("_W")  # what runs one task at a time: a process, or an actor of Ray


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a task: answered, lost with its worker, or ended because it was late."""

    key: int  # as it was submitted
    ending: Literal["answered", "lost", "late"]
    answer: PointAnswer | None = None  # where it was answered
    explanation: str = ""  # where it was not


class Executor(Protocol):
    """Runs tasks by `opaq.study.workers.task.run_task`, each in a process of its own; every task ends exactly once.

    A sweep calls it from one thread. Workers may be anywhere, if they have the files that a problem names under the
    same paths; the answers do not depend on where they are.
    """

    def free(self) -> int:
        """Return how many more tasks it can begin now."""

    def submit(self, key: int, task: PointTask, *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker (None: never)."""

    def wait(self, seconds: float) -> list[Ended]:
        """Return what has ended, after so many seconds at most. Raises InputError when no task can run any more."""

    def close(self) -> None:
        """End all workers, at once."""


@dataclass(slots=True)
class Slot(Generic[_W]):
    """A worker and the task it is at: every executor keeps one for each worker, and drops it with a dead one."""

    worker: _W
    key: int | None = None  # of its task; None: it is idle
    limit: float | None = None  # seconds for the task
    deadline: float | None = None  # by `monotonic`; None: there is no limit, or the worker has not begun yet
    late: bool = False  # whether it was killed for its deadline

    def take(self, key: int, limit: float | None) -> None:
        """Note the next task; its time runs from `start_clock` on."""
        self.key, self.limit, self.deadline, self.late = key, limit, None, False

    def start_clock(self) -> None:
        """Let the limit count from now."""
        self.deadline = None if self.limit is None else monotonic() + self.limit

    def finish(self, answer: PointAnswer) -> list[Ended]:
        """Return the end of its task with an answer, after which it is idle."""
        key, self.key = self.key, None
        return [] if key is None else [Ended(key, "answered", answer)]

    def lose(self, reason: str) -> list[Ended]:
        """Return the end of its task with its worker, if it was at one; `reason` says how the worker ended."""
        key, self.key = self.key, None
        if key is None:
            return []
        if self.late:
            return [Ended(key, "late", explanation=f"it took longer than {self.limit:g} s")]
        return [Ended(key, "lost", explanation=reason)]


def kill_late(slots: Iterable[Slot[_W]], kill: Callable[[_W], None]) -> None:
    """Kill every worker whose task is past its deadline; the executor then hears of its end as of any other.

    slots: of all workers. kill: ends a worker at once, whatever it is at.
    """
    now = monotonic()
    for slot in slots:
        if slot.key is not None and slot.deadline is not None and now > slot.deadline and not slot.late:
            slot.late = True
            kill(slot.worker)


def executor_name(on: str | Executor) -> str:
    """Return what the journal records of an executor: the word for it, or the name of its type.

    on: "local", "ray", "ray://HOST:PORT" or an executor. Raises InputError for any other word.
    """
    if not isinstance(on, str):
        return type(on).__name__
    if on in ("local", "ray") or (on.startswith("ray://") and len(on) > len("ray://")):
        return on
    raise InputError([Fault("on", f"'{on}' is not a choice", "use local, ray or ray://HOST:PORT")])


def open_executor(on: str | Executor, processes: int | None) -> Executor:
    """Return the executor that a word stands for; one that is given is returned as it is.

    on: as for `executor_name`. processes: how many workers at most; None: one per core.
    """
    if not isinstance(on, str):
        return on
    if executor_name(on) == "local":
        from opaq.study.workers.local import LocalExecutor

        return LocalExecutor(processes)
    from opaq.study.workers.ray import RayExecutor

    return RayExecutor("" if on == "ray" else on, processes)
