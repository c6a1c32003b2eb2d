"""Asking long work to stop: by Ctrl-C, by a signal of a scheduler, by a time limit, or by the caller.

A `Stop` is one byte that compiled kernels read while they run. Whoever wants the work to end sets it; the work then
returns the best answer it has, or raises `StoppedError` where there is none.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread, Timer, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

from opaq.errors import OpaqError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INTERRUPTED = "interrupted"
_FOR_EVER = 1e8  # seconds; timers overflow beyond some 1e9
TIME_IS_UP = "the time limit was reached"
_STAGE = "the time for this stage is used up"


class StoppedError(OpaqError):
    """The work was asked to stop before there was an answer."""


class Stop:
    """A request to stop that any thread may make and any kernel can see."""

    __slots__ = ("_cell", "_children", "_ended_stages", "_lock", "_reason")

    def __init__(self) -> None:
        self._cell = bytearray(1)
        self._lock = Lock()
        self._reason = ""
        self._children: list[Stop] = []
        self._ended_stages = 0  # whose time is used up and which have not been left yet

    @property
    def requested(self) -> bool:
        """Whether the work should end."""
        return self._cell[0] != 0

    @property
    def reason(self) -> str:
        """Why, or nothing."""
        return self._reason

    @property
    def interrupted(self) -> bool:
        """Whether a person or a scheduler asked for it, not a time limit."""
        return self._reason == INTERRUPTED

    def request(self, reason: str = INTERRUPTED) -> None:
        """Ask the work to end; an interrupt outranks a time limit, and that the end of a stage."""
        ranks = (INTERRUPTED, TIME_IS_UP, _STAGE, "")
        with self._lock:
            if ranks.index(reason) <= ranks.index(self._reason):
                self._reason = reason
            self._cell[0] = 1
            children = tuple(self._children)
        for child in children:
            child.request(reason)

    @contextmanager
    def part(self, seconds: float | None = None) -> Iterator[Stop]:
        """A stop for one part of the work: requested when this one is, or alone after some seconds (None: never)."""
        child = Stop()
        with self._lock:
            self._children.append(child)
        if self.requested:
            child.request(self._reason)
        try:
            with child.limit(seconds):
                yield child
        finally:
            with self._lock:
                self._children.remove(child)

    def check(self) -> None:
        """Raise StoppedError if the work should end."""
        if self.requested:
            raise StoppedError(self._reason)

    def cell(self) -> NDArray[np.uint8]:
        """The byte that kernels read."""
        import numpy as np

        return np.frombuffer(self._cell, dtype=np.uint8)

    @contextmanager
    def limit(self, seconds: float | None) -> Iterator[None]:
        """Ask for the end after some seconds (None: never)."""
        with _timer(seconds, lambda: self.request(TIME_IS_UP)):
            yield

    @contextmanager
    def stage(self, seconds: float | None) -> Iterator[None]:
        """Ask for the end of one stage of the work after some seconds; when the stage is left, work goes on.

        Stages may lie within each other: leaving an inner one takes nothing back that an outer one has asked for.
        """
        ended = False

        def end() -> None:
            nonlocal ended
            with self._lock:
                ended = True
                self._ended_stages += 1
            self.request(_STAGE)

        try:
            with _timer(seconds, end):
                yield
        finally:
            with self._lock:
                self._ended_stages -= ended
                if ended and not self._ended_stages and self._reason == _STAGE:
                    self._reason, self._cell[0] = "", 0


@contextmanager
def _timer(seconds: float | None, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` from another thread after some seconds (None: never), unless this has been left before."""
    if seconds is None or seconds > _FOR_EVER:
        yield
        return
    timer = Timer(max(seconds, 0.0), act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def on_signals(act: Callable[[int], None], signals: tuple[int, ...] = (signal.SIGINT,)) -> Iterator[None]:
    """Call `act` from a thread of its own when a signal comes, even while the main thread runs compiled code.

    Nothing is raised in the main thread: an exception in the middle of a compiled call's return would corrupt it.
    Outside the main thread Python allows no handlers; then nothing is installed.
    """
    if current_thread() is not main_thread():
        yield
        return
    restore = listen(act, signals)
    try:
        yield
    finally:
        restore()


@contextmanager
def interruptible(stop: Stop | None, *, keep_answer: bool = True) -> Iterator[Stop]:
    """Yield the stop for the work of one public call: the caller's or, without one, a new one that Ctrl-C requests.

    A stop of the caller's is used as it is, and its signals are the caller's. Without one KeyboardInterrupt is raised
    where the work ends with StoppedError after Ctrl-C and, unless `keep_answer`, where it ends with an answer after it.
    """
    if stop is not None:
        yield stop
        return
    own = Stop()
    with on_signals(lambda number: own.request()):
        try:
            yield own
        except StoppedError:
            if not own.interrupted:
                raise
            keep_answer = False  # there is none
    if own.interrupted and not keep_answer:
        raise KeyboardInterrupt from None


def listen(act: Callable[[int], None], signals: tuple[int, ...]) -> Callable[[], None]:
    """The same until the function that is returned is called, or for ever."""
    receiver, sender = socket.socketpair()
    _open.append(sender)  # it must outlive this call even if nobody keeps the function
    sender.setblocking(False)
    before = {number: signal.signal(number, _ignore) for number in signals}
    descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    listener = Thread(target=_listen, args=(receiver, act, signals), daemon=True)
    listener.start()

    def restore() -> None:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        _open.remove(sender)
        sender.close()
        listener.join(timeout=1.0)
        receiver.close()

    return restore


def _ignore(number: int, frame: FrameType | None) -> None:
    """A Python handler must exist for the signal to be written to the wake-up socket; it has nothing to do."""


def _listen(receiver: socket.socket, act: Callable[[int], None], signals: tuple[int, ...]) -> None:
    while received := receiver.recv(64):
        for number in received:
            if number in signals:
                act(number)


_open: list[socket.socket] = []
_exit_actions: list[Callable[[], None]] = []  # what a process that is ended at once still has to do


@contextmanager
def on_exit(farewell: Callable[[], None]) -> Iterator[None]:
    """While this lasts, call `farewell` if the process is ended at once (to end a child, to remove a folder)."""
    _exit_actions.append(farewell)
    try:
        yield
    finally:
        _exit_actions.remove(farewell)


def exit_now(exit_code: int) -> None:
    """End the process at once, from any thread and wherever the main thread is."""
    for farewell in _exit_actions:
        with suppress(Exception):
            farewell()
    os._exit(exit_code)
