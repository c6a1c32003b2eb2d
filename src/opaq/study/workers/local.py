"""Tasks on this machine: our own worker processes, one thread each, that die with this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from opaq.solvers.options import available_cores
from opaq.study.workers.executor import Ended
from opaq.study.workers.process import Child


@dataclass(slots=True)
class _LocalSlot:
    """One worker, if it lives, and what it is at."""

    child: Child | None
    key: int | None = None
    limit: float | None = None
    deadline: float | None = None  # known once the worker has begun
    late: bool = False


class LocalExecutor:
    """As many workers as wanted, all started at once; one that dies is replaced when there is work for it."""

    def __init__(self, processes: int | None = None) -> None:
        """processes: how many workers; one per core unless given."""
        self._messages: SimpleQueue[tuple[Child, dict[str, Any] | None]] = SimpleQueue()
        self._seats = [_LocalSlot(self._child()) for _ in range(processes or available_cores())]

    def free(self) -> int:
        """How many more tasks it can begin now."""
        return sum(seat.key is None for seat in self._seats)

    def submit(self, key: int, task: Mapping[str, Any], *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker."""
        seat = next(seat for seat in self._seats if seat.key is None)
        seat.key, seat.limit, seat.deadline, seat.late = key, limit, None, False
        seat.child = seat.child or self._child()
        seat.child.send({"key": key, "task": task})

    def wait(self, seconds: float) -> list[Ended]:
        """What ended meanwhile; waits so long for the first."""
        until, ended = monotonic() + seconds, list[Ended]()
        while not ended and (left := until - monotonic()) > 0:
            self._end_late()
            try:
                child, message = self._messages.get(timeout=min(left, 0.1))
            except Empty:
                continue
            ended.extend(self._take(child, message))
        return ended

    def close(self) -> None:
        """End all workers, at once."""
        children = [seat.child for seat in self._seats if seat.child is not None]
        for child in children:
            child.kill()
        for child in children:
            child.join()

    def _child(self) -> Child:
        return Child("opaq.study.workers.worker", receive=lambda child, message: self._messages.put((child, message)))

    def _take(self, child: Child, message: dict[str, Any] | None) -> list[Ended]:
        seat = next((seat for seat in self._seats if seat.child is child), None)
        if seat is None:
            return []
        if message is None:
            return self._lost(seat, child)
        if "begun" in message:
            seat.deadline = None if seat.limit is None else monotonic() + seat.limit
        if "answer" not in message:
            return []
        seat.key = None
        return [Ended(message["key"], "answered", message["answer"])]

    def _lost(self, seat: _LocalSlot, child: Child) -> list[Ended]:
        """What a dead worker was at."""
        key, seat.child, seat.key = seat.key, None, None
        if key is None:
            return []
        if seat.late:
            return [Ended(key, "late", None, f"it took longer than {seat.limit:g} s")]
        return [Ended(key, "lost", None, child.ending)]

    def _end_late(self) -> None:
        now = monotonic()
        for seat in self._seats:
            due = seat.key is not None and seat.deadline is not None and now > seat.deadline
            if due and not seat.late and seat.child is not None:
                seat.late = True
                seat.child.kill()
