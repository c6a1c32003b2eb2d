"""Tasks on this machine: our own worker processes, one thread each, that die with this one.

Processes of our own rather than a pool: a pool breaks as a whole when one worker is killed, and its workers outlive a
parent that is.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from opaq.study.workers.executor import Ended, Slot, kill_late
from opaq.study.workers.process import Child
from opaq.study.workers.task import PointAnswer, PointTask
from opaq.threads import available_cores

_LOOK = 0.1  # seconds between two looks at whether a task is late


class LocalExecutor:
    """As many workers as wanted, all started at once; one that dies is replaced when there is work for it."""

    def __init__(self, processes: int | None = None) -> None:
        """processes: how many workers; one per core unless given."""
        self._count = processes or available_cores()
        self._messages: SimpleQueue[tuple[Child, dict[str, Any] | None]] = SimpleQueue()
        self._slots = [self._start_worker() for _ in range(self._count)]

    def free(self) -> int:
        """Return how many more tasks it can begin now."""
        return self._count - sum(slot.key is not None for slot in self._slots)

    def submit(self, key: int, task: PointTask, *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker.

        The limit counts from when the worker begins: before its first task it loads and compiles.
        """
        slot = next((slot for slot in self._slots if slot.key is None), None)
        if slot is None:
            slot = self._start_worker()
            self._slots.append(slot)
        slot.take(key, limit)
        slot.worker.send({"key": key, "task": task})

    def wait(self, seconds: float) -> list[Ended]:
        """Return what has ended, after so many seconds at most; late workers are killed meanwhile."""
        until, ended = monotonic() + seconds, list[Ended]()
        while not ended and (left := until - monotonic()) > 0:
            kill_late(self._slots, Child.kill)
            try:
                child, message = self._messages.get(timeout=min(left, _LOOK))
            except Empty:
                continue
            slot = next(slot for slot in self._slots if slot.worker is child)
            if message is None:  # it has died
                self._slots.remove(slot)
                ended += slot.lose(child.ending)
            elif "begins" in message:
                slot.start_clock()
            else:
                ended += slot.finish(PointAnswer(**message["answer"]))
        return ended

    def close(self) -> None:
        """Kill all workers, and wait until they have gone; what they were at is not reported."""
        for slot in self._slots:
            slot.worker.kill()
        for slot in self._slots:
            slot.worker.join()

    def _start_worker(self) -> Slot[Child]:
        """Start a process, whose messages come to `wait` by one queue."""
        messages = self._messages
        return Slot(Child("opaq.study.workers.worker", receive=lambda child, message: messages.put((child, message))))
