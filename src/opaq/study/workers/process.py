"""A child process that speaks lines of JSON, and dies with its parent: both ends.

Lines rather than pickles: a line that a library prints before the child takes hold of its output, or one torn by the
end of the child, is skipped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM")
}
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def _encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line of JSON; dataclasses in it become mappings of their fields."""
    text = json.dumps(
        message, default=lambda record: {part.name: getattr(record, part.name) for part in fields(record)}
    )
    return text.encode() + b"\n"


class Child:
    """The parent's end: a child that runs a module, the messages it sends, and its end.

    It runs on one thread, in a session of its own: Ctrl-C in a terminal reaches the parent alone. It may be killed at
    any time; `receive` hears of every message that was whole, and then of the end, once.
    """

    def __init__(self, module: str, *arguments: str, receive: Callable[[Child, dict[str, Any] | None], None]) -> None:
        """Start it.

        module: run by `python -m` with the process id of this process and the other arguments.
        receive: called from a thread of its own with this child and every message, and with None in the end.
        """
        # -P: a file of the user's that happens to be called like a module is not imported.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the parent, which says what is to be done
        )
        self._receive = receive
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of plain data and dataclasses; if the child has died, `receive` hears of its end."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(_encode(message))
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it at once; `join` waits until it has gone."""
        with suppress(OSError):
            self._process.kill()

    def join(self, seconds: float = 5.0) -> None:
        """Wait until it has gone and its last message was received."""
        self._listener.join(timeout=seconds)

    def leave(self, seconds: float) -> None:
        """Tell it to end, by the end of its input; after some seconds it is ended."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.close()
        self.join(seconds)
        self.kill()
        self.join()

    def _listen(self) -> None:
        """Pass on every line the child sends and, when it has gone, that it has."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # a line torn by the end of the child
                self._receive(self, json.loads(line))
        self._process.wait()
        self._process.stdout.close()
        with suppress(OSError):  # what was not sent will not be
            self._process.stdin.close()
        self._receive(self, None)

    @property
    def ending(self) -> str:
        """The way it ended, in words: the code or the signal."""
        code = self._process.poll()
        if code is None:
            return "it is still there"
        if code >= 0:
            return f"its process ended with code {code}"
        name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
        return f"its process was ended by {name}"


class ParentLink:
    """The child's end: messages from the parent in a queue, answers back; when the parent dies, so does the child.

    What libraries print goes to stderr from here on, so that it does not mix with the answers.
    """

    def __init__(self, parent: int, *, on_end: Callable[[], None] | None = None) -> None:
        """Listen to the parent.

        parent: its process id; if it has gone already, so does this process.
        on_end: what is still done when the parent has closed the pipe. Without it this process ends with the parent at
        once, even in the middle of compiled code.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._on_end, self._lock = on_end, Lock()
        # What libraries print must not mix with the answers: they get stderr.
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        if on_end is None:
            _die_with_parent()
        if sys.platform != "win32" and os.getppid() != parent:
            os._exit(1)
        Thread(target=self._listen, daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message of plain data and dataclasses to the parent; one that has gone needs none."""
        with self._lock, suppress(BrokenPipeError):
            self._out.write(_encode(message))
            self._out.flush()

    def _listen(self) -> None:
        """Queue every message of the parent and, when it has gone, end this process."""
        for line in sys.stdin.buffer:
            self.messages.put(json.loads(line))
        if self._on_end is not None:
            self._on_end()
        end_process()


def end_process() -> None:
    """End this process at once, whatever its other threads are at."""
    os._exit(0)


def _die_with_parent() -> None:
    """On Linux the system itself ends the child, even while it computes; elsewhere the end of its input does."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
