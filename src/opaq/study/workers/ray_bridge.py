"""Run tasks on Ray in a process of its own: `python -m opaq.study.workers.ray_bridge PARENT ADDRESS PROCESSES`.

Ray may hang when its head dies, print, or end its process. Here it may: the parent reads one line at a time, and takes
the cluster for lost when none comes. A dead actor is replaced by a new one rather than restarted by Ray, so that what
becomes of a task is decided in one place, the sweep.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from threading import Timer
from time import monotonic
from typing import Any

from opaq.study.workers.executor import Ended, Slot, kill_late
from opaq.study.workers.process import ParentLink, end_process
from opaq.study.workers.task import PointAnswer, PointTask

_LOOK = 0.05  # seconds between two looks at what has come
_PULSE = 2.0  # seconds between two questions to the head
_LAST_SECONDS = 8.0  # for Ray to end what it has started


class _Worker:
    """What runs on the cluster: an actor, one task at a time.

    Ray carries this class there as it is, so that it imports what it needs where it runs.
    """

    def ready(self) -> bool:
        """Load what every task needs; where opaq cannot be loaded, Ray reports the error."""
        from opaq.study.workers.task import prepare

        prepare()
        return True

    def run(self, task: PointTask) -> PointAnswer:
        """Run one task."""
        from opaq.study.workers.task import run_task

        return run_task(task)


@dataclass(slots=True)
class _Actor:
    """An actor, and the reference that is to come from it: of its readiness, or of its answer."""

    handle: Any
    awaited: Any
    ready: bool = False


class Bridge:
    """Keeps as many actors as the cluster has cores, hands tasks out, and tells the parent how they ended."""

    def __init__(self, ray: Any, send: Callable[[Mapping[str, Any]], None], most: int) -> None:
        """Serve a parent.

        ray: the module, connected. send: takes the messages to the parent: {"workers": number of tasks that fit},
        {"ended": an Ended} or {"refused": reason}. most: how many actors at most; 0: one per core.
        """
        self._ray, self._send, self._most = ray, send, most
        self._remote_worker = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Worker)
        self._slots: list[Slot[_Actor]] = []
        self._waiting: list[Mapping[str, Any]] = []
        self._next_pulse = 0.0

    def pulse(self) -> None:
        """Ask the head how many cores there are, make actors for them, and tell the parent: every two seconds.

        Cores that join the cluster are used, and the parent hears that the head is alive.
        """
        if monotonic() < self._next_pulse:
            return
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        count = min(cores, self._most or cores)
        while len(self._slots) < count:
            handle = self._remote_worker.remote()
            self._slots.append(Slot(_Actor(handle, handle.ready.remote())))
        self._send({"workers": count})
        self._next_pulse = monotonic() + _PULSE

    def take(self, message: Mapping[str, Any]) -> None:
        """Queue one more task: {"key": number, "task": the fields of a PointTask, "limit": seconds or None}."""
        self._waiting.append(message)

    def look(self) -> None:
        """Hand out what waits to actors that are ready and idle, end those that are late, and tell what has ended.

        Waits a twentieth of a second at most.
        """
        idle = [slot for slot in self._slots if slot.worker.ready and slot.key is None]
        for slot, message in zip(idle, self._waiting[: len(idle)], strict=False):
            slot.take(message["key"], message["limit"])
            slot.start_clock()
            slot.worker.awaited = slot.worker.handle.run.remote(PointTask(**message["task"]))
        del self._waiting[: len(idle)]
        kill_late(self._slots, lambda actor: self._ray.kill(actor.handle, no_restart=True))
        busy = {slot.worker.awaited: slot for slot in self._slots if slot.worker.awaited is not None}
        if not busy:
            return
        come, _ = self._ray.wait(list(busy), num_returns=len(busy), timeout=_LOOK)
        for reference in come:
            for ended in self._receive(busy[reference]):
                self._send({"ended": ended})

    def _receive(self, slot: Slot[_Actor]) -> Iterable[Ended]:
        """Return the end of a task, if what has come from its actor is one."""
        actor = slot.worker
        try:
            value = self._ray.get(actor.awaited)
        except Exception as error:  # whatever the actor or Ray has ended with
            self._slots.remove(slot)
            self._next_pulse = 0.0  # another actor is made at once
            if isinstance(error, self._ray.exceptions.RayTaskError) and not actor.ready:
                # It could not even load opaq: the others cannot either.
                self._send({"refused": f"its workers cannot run opaq: {_last_line(error)}"})
            return slot.lose(_last_line(error))
        actor.awaited = None
        if actor.ready:
            return slot.finish(value)
        actor.ready = True
        return []


def _last_line(error: Exception) -> str:
    """Return what an error of Ray says, without the traceback that stands before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]


def main() -> None:
    """Connect to the cluster and serve the parent until it ends.

    The command line gives the process id of the parent, the address (empty: as Ray chooses) and the most actors.
    """
    import ray

    def leave() -> None:
        """Leave the cluster, and end the process some seconds later if that has not ended it."""
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
