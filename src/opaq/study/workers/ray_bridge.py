"""Run tasks on Ray in a process of its own: `python -m opaq.study.workers.ray_bridge PARENT ADDRESS PROCESSES`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from threading import Timer
from time import monotonic
from typing import Any

from opaq.study.workers.process import ParentLink, end_process

_LOOK = 0.05  # seconds between two looks at what has come
_PULSE = 2.0  # seconds between two questions to the head
_LAST_SECONDS = 8.0  # for Ray to end what it has started


class Worker:
    """What runs on the cluster: an actor, one task at a time. Only text goes in and out."""

    def ready(self) -> bool:
        """Load what every task needs."""
        from opaq.study.workers.tasks import prepare

        prepare()
        return True

    def run(self, task: str) -> str:
        """Run one task."""
        import json

        from opaq.study.workers.tasks import run_task

        return json.dumps(run_task(json.loads(task)))


@dataclass(slots=True)
class _RaySlot:
    """An actor, and what it is at."""

    actor: Any
    waits_for: Any  # the reference to come: of its readiness, or of its answer
    ready: bool = False
    key: int | None = None
    deadline: float | None = None
    late: bool = False


class Bridge:
    """Keeps as many actors as the cluster has cores, hands tasks out, and tells how they ended."""

    def __init__(self, ray: Any, send: Callable[[Mapping[str, Any]], None], most: int) -> None:
        self._ray, self._send, self._most = ray, send, most
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._seats: list[_RaySlot] = []
        self._waiting: list[Mapping[str, Any]] = []
        self._pulse_at = 0.0

    def pulse(self) -> None:
        """Ask the head how many cores there are, make actors for them, and tell the parent; now and then."""
        if monotonic() - self._pulse_at < _PULSE:
            return
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        slots = min(cores, self._most or cores)
        while len(self._seats) < slots:
            actor = self._actor.remote()
            self._seats.append(_RaySlot(actor, actor.ready.remote()))
        self._send({"slots": slots})
        self._pulse_at = monotonic()

    def take(self, message: Mapping[str, Any]) -> None:
        """One more task."""
        self._waiting.append(message)

    def look(self) -> None:
        """Hand out what waits, and see what has ended."""
        for seat in [seat for seat in self._seats if seat.ready and seat.key is None][: len(self._waiting)]:
            self._hand_out(seat, self._waiting.pop(0))
        self._end_late()
        busy = {seat.waits_for: seat for seat in self._seats if seat.waits_for is not None}
        if not busy:
            return
        come, _ = self._ray.wait(list(busy), num_returns=len(busy), timeout=_LOOK)
        for reference in come:
            self._come(busy[reference])

    def _hand_out(self, seat: _RaySlot, message: Mapping[str, Any]) -> None:
        import json

        limit = message["limit"]
        seat.key, seat.late = message["key"], False
        seat.deadline = None if limit is None else monotonic() + limit
        seat.waits_for = seat.actor.run.remote(json.dumps(message["task"]))

    def _come(self, seat: _RaySlot) -> None:
        import json

        try:
            value = self._ray.get(seat.waits_for)
        except Exception as error:
            self._seats.remove(seat)
            self._pulse_at = 0.0  # another actor is made at once
            return self._tell_lost(seat, error)
        seat.waits_for = None
        if not seat.ready:
            seat.ready = True
            return None
        key, seat.key = seat.key, None
        return self._send({"key": key, "ending": "answered", "answer": json.loads(value), "explanation": ""})

    def _tell_lost(self, seat: _RaySlot, error: Exception) -> None:
        wrong = isinstance(error, self._ray.exceptions.RayTaskError)
        if wrong and not seat.ready:  # it could not even load opaq: the others cannot either
            return self._send({"refused": f"its workers cannot run opaq: {_last_line(error)}"})
        if seat.key is None:
            return None
        ending = "late" if seat.late else "lost"
        explanation = "it took longer than its limit" if seat.late else _last_line(error)
        return self._send({"key": seat.key, "ending": ending, "answer": None, "explanation": explanation})

    def _end_late(self) -> None:
        now = monotonic()
        for seat in self._seats:
            if seat.key is not None and seat.deadline is not None and now > seat.deadline and not seat.late:
                seat.late = True
                self._ray.kill(seat.actor, no_restart=True)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]


def main() -> None:
    """Connect to the cluster and serve the parent until it ends."""
    import ray

    def leave() -> None:
        last = Timer(_LAST_SECONDS, end_process)
        last.daemon = True
        last.start()
        with suppress(Exception):
            ray.shutdown()

    link, address = ParentLink(int(sys.argv[1]), on_end=leave), sys.argv[2]
    try:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        ray.init(address=address or None, **quiet)
        bridge = Bridge(ray, link.send, int(sys.argv[3]))
    except Exception as error:
        link.send({"refused": _last_line(error)})
        return
    while True:
        bridge.pulse()
        with suppress(Empty):
            while True:
                bridge.take(link.messages.get(timeout=_LOOK))
        bridge.look()


if __name__ == "__main__":
    main()
