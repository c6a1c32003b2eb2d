"""Asking long work to stop: by Ctrl-C, by a signal of a scheduler, by a time limit, or by the caller.

A `Stop` is one byte that compiled kernels read while they run. Whoever wants the work to end sets it; the work then
returns the best answer it has, or raises `StoppedError` where there is none. A `Deadline` is the time limit of one
public call, counted from its entry: what the parts of the call may use are shares of what is left of it.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock, Thread, Timer, current_thread, main_thread
from time import perf_counter
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
    """The work was asked to stop before there was an answer; the message says by what."""

    def __init__(self, reason: str = "") -> None:
        """Make the error. reason: what ended the work; where nothing else is known, its time."""
        super().__init__(reason or TIME_IS_UP)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time limit of one call: so many seconds from its entry, of which its parts get shares of what is left."""

    seconds: float | None = None  # None: no limit
    entered: float = field(default_factory=perf_counter)  # when the call was entered, a reading of perf_counter

    def limited_to(self, seconds: float | None) -> Deadline:
        """Return the deadline with another limit (None: none), counted from the same entry."""
        return Deadline(seconds, self.entered)

    @property
    def elapsed(self) -> float:
        """Return the seconds since the entry."""
        return perf_counter() - self.entered

    @property
    def left(self) -> float | None:
        """Return the seconds until the limit, never below 0; None where there is no limit."""
        return None if self.seconds is None else max(self.seconds - self.elapsed, 0.0)

    @property
    def passed(self) -> bool:
        """Return whether the limit is reached."""
        return self.left == 0.0

    def share(self, share: float) -> float | None:
        """Return a share of the seconds that are left, at most all of them; None where there is no limit.

        share: from 0 to 1; more counts as 1.
        """
        left = self.left
        return None if left is None else min(share, 1.0) * left

    def part(self, share: float) -> Deadline:
        """Return the deadline of a part of the call that begins now and may use a share of what is left."""
        return Deadline(self.share(share))


class Stop:
    """A request to stop that any thread may make and any kernel can see.

    The request is one byte, never taken back but by leaving a `stage`. Stops form a tree: requesting one requests its
    parts, and not the other way round.
    """

    __slots__ = ("_cell", "_children", "_ended_stages", "_lock", "_reason")

    def __init__(self) -> None:
        self._cell = bytearray(1)
        self._lock = Lock()
        self._reason = ""
        self._children: list[Stop] = []
        self._ended_stages = 0  # whose time is used up and which have not been left yet

    @property
    def requested(self) -> bool:
        """Return whether the work should end; cheap enough to be asked in a loop."""
        return self._cell[0] != 0

    @property
    def reason(self) -> str:
        """Return why the work should end: one of the sentences of this module, or nothing."""
        return self._reason

    @property
    def interrupted(self) -> bool:
        """Return whether a person or a scheduler asked for it, not a time limit."""
        return self._reason == INTERRUPTED

    def request(self, reason: str = INTERRUPTED) -> None:
        """Ask the work, and all its parts, to end.

        reason: an interrupt outranks a time limit, and that the end of a stage.
        """
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
        """Yield a stop for one part of the work: requested when this one is, or alone after some seconds.

        seconds: for the part (None: no limit). When the part is left, the whole goes on.
        """
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
        """Return the byte that kernels read, as an array of one entry that shares its memory."""
        import numpy as np

        return np.frombuffer(self._cell, dtype=np.uint8)

    @contextmanager
    def limit(self, seconds: float | None) -> Iterator[None]:
        """Ask for the end of the work after some seconds (None: never), unless this has been left before.

        Once made, the request stays when this is left.
        """
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
def _on_signals(act: Callable[[int], None], signals: tuple[int, ...] = (signal.SIGINT,)) -> Iterator[None]:
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

    stop: the caller's, or None. keep_answer: whether an answer that is incomplete after Ctrl-C is still returned.
    """
    if stop is not None:
        yield stop
        return
    own = Stop()
    with _on_signals(lambda number: own.request()):
        try:
            yield own
        except StoppedError:
            if not own.interrupted:
                raise
            keep_answer = False  # there is none
    if own.interrupted and not keep_answer:
        raise KeyboardInterrupt from None


def listen(act: Callable[[int], None], signals: tuple[int, ...]) -> Callable[[], None]:
    """Call `act` when one of the signals comes, until the function that is returned is called, or for ever.

    act: called with the signal's number, in a thread of its own. signals: their numbers. Only in the main thread.
    """
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
    """Do nothing: a Python handler must exist for the signal to be written to the wake-up socket."""


def _listen(receiver: socket.socket, act: Callable[[int], None], signals: tuple[int, ...]) -> None:
    """Wait at the wake-up socket and call `act` with every signal that is listened for; ends when it is closed."""
    while received := receiver.recv(64):
        for number in received:
            if number in signals:
                act(number)


_open: list[socket.socket] = []
_exit_actions: list[Callable[[], None]] = []  # what a process that is ended at once still has to do


@contextmanager
def on_exit(farewell: Callable[[], None]) -> Iterator[None]:
    """Call `farewell`, while this lasts, if the process is ended at once (to end a child, to remove a folder)."""
    _exit_actions.append(farewell)
    try:
        yield
    finally:
        _exit_actions.remove(farewell)


def exit_now(exit_code: int) -> None:
    """End the process at once, from any thread and wherever the main thread is.

    exit_code: of the process. Farewells of `on_exit` are called first; what they raise is dropped.
    """
    for farewell in _exit_actions:
        with suppress(Exception):
            farewell()
    os._exit(exit_code)
