"""Tasks on a Ray cluster, through a child process: Ray may hang, crash or print, and this process goes on.

Everything about a cluster that is not there, does not answer or dies ends in one InputError that says so within
seconds; the journal of the sweep keeps what was done, and the same call goes on when the cluster is back.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from opaq.errors import Fault, InputError
from opaq.study.workers.executor import Ended
from opaq.study.workers.process import Child
from opaq.study.workers.task import PointAnswer, PointTask
from opaq.version import pip_install

_REACH = 5.0  # seconds for a first connection to the head
_CONNECT = 12.5  # seconds for Ray to connect to a cluster that is there
_START = 90.0  # seconds for Ray to start a cluster of its own
_SILENT = 12.0  # seconds without a sign of life, after which the cluster is lost
_LEAVE = 10.0  # seconds for Ray to end what it has started
_WORDS = ("", "auto", "local")  # in place of an address; nothing and "local" start a cluster
_LOOK = 0.1  # seconds between two looks at whether the cluster is lost


class RayExecutor:
    """One Ray actor per core of the cluster, each of which is replaced when it dies.

    A child process, `ray_bridge`, holds the connection and the actors. It says how many tasks fit every two seconds,
    which is its sign of life, and how every task has ended.
    """

    def __init__(self, address: str = "", processes: int | None = None) -> None:
        """Connect.

        address: "ray://HOST:PORT", or nothing: that of RAY_ADDRESS, the cluster of this machine, or one of its own.
        processes: how many actors at most; None: one per core of the cluster.
        Raises InputError when there is no such cluster, within 15 seconds; a cluster of its own has 90 to start.
        """
        if importlib.util.find_spec("ray") is None:
            raise InputError([Fault("on", "clusters need Ray", pip_install("ray"))])
        address = address or os.environ.get("RAY_ADDRESS", "") or _running_here()
        if address.startswith("ray://") and importlib.util.find_spec("grpc") is None:
            raise InputError([Fault("on", f"'{address}' needs Ray's client", pip_install("ray"))])
        self._address = address if address not in _WORDS else "the Ray cluster of this machine"
        if address not in _WORDS:
            _refuse_dead(address)
        self._messages: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._workers, self._running, self._closed = 0, set[int](), False
        self._child = Child(
            "opaq.study.workers.ray_bridge",
            address,
            str(processes or 0),
            receive=lambda child, message: self._messages.put(message),
        )
        self._heard, self._patience = monotonic(), _START if address in ("", "local") else _CONNECT

    def free(self) -> int:
        """Return how many more tasks it can begin now."""
        return self._workers - len(self._running)

    def submit(self, key: int, task: PointTask, *, limit: float | None) -> None:
        """Begin a task; one that takes longer than `limit` seconds is ended together with its worker."""
        self._running.add(key)
        self._child.send({"key": key, "task": task, "limit": limit})

    def wait(self, seconds: float) -> list[Ended]:
        """Return what has ended, after so many seconds at most. Raises InputError when the cluster is lost."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            try:
                message = self._messages.get(timeout=min(left, _LOOK))
            except Empty:  # only then: what came while nobody waited is a sign of life, too
                if monotonic() - self._heard > self._patience:
                    raise self._lost("it does not answer") from None
                continue
            if message is None:
                raise self._lost("the connection has ended")
            self._heard = monotonic()
            if "refused" in message:
                raise self._lost(message["refused"])
            if "workers" in message:
                self._workers, self._patience = message["workers"], _SILENT
                continue
            ended, answer = message["ended"], message["ended"]["answer"]
            self._running.discard(ended["key"])
            return [Ended(**ended | {"answer": None if answer is None else PointAnswer(**answer)})]
        return []

    def close(self) -> None:
        """End all workers, and a cluster of its own: within ten seconds, however Ray takes it. Twice does no harm."""
        if not self._closed:
            self._closed = True
            self._child.leave(_LEAVE)

    def _lost(self, reason: str) -> InputError:
        """End the child and return the error that says why the cluster is lost, and what to do."""
        advice = (
            "see that it runs (ray status), and that RAY_AUTH_MODE=token and RAY_AUTH_TOKEN are set if it asks for a "
            "token; what a folder holds of the work is kept, and the same call goes on with it"
        )
        self._child.kill()
        return InputError([Fault("", f"is lost: {reason}", advice)], self._address)


def _running_here() -> str:
    """Return the address of the cluster of this machine as Ray has noted it; "local" if nobody listens there."""
    temporary = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        address = Path(temporary, "ray", "ray_current_cluster").read_text(encoding="utf-8").strip()
        _refuse_dead(address)
    except (OSError, UnicodeDecodeError):
        return ""
    except InputError:  # it was killed, and the note has stayed
        return "local"
    return address


def _refuse_dead(address: str) -> None:
    """Raise InputError at once when nobody listens at an address, or it is none: Ray would try for minutes.

    address: "ray://HOST:PORT" or "HOST:PORT".
    """
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise InputError(
            [Fault("on", f"'{address}' is no address", "write ray://HOST:PORT, such as ray://10.0.0.1:10001")]
        )
    try:
        with closing(socket.create_connection((host, port), timeout=_REACH)):
            return
    except OSError as error:
        advice = "is the head node up (ray start --head), and is this its port for clients (10001 by default)?"
        raise InputError([Fault("", f"nobody answers: {error.strerror or error}", advice)], address) from None
