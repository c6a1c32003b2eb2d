"""Clocks and memory of this process. Contestants take turns, so that a slow moment of the machine hits them all."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
CALLS_A_TURN = 3


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turns(
    calls: Mapping[str, Callable[[], object]], *, repeats: int, calls_a_turn: int = CALLS_A_TURN
) -> dict[str, tuple[float, ...]]:
    """The seconds of every call in every repeat, taking turns; every other repeat in the opposite order."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats):
        for name in list(calls)[:: 1 if repeat % 2 == 0 else -1]:
            times[name].append(_turn(calls[name], calls_a_turn))
    return {name: tuple(each) for name, each in times.items()}


def _turn(call: Callable[[], object], calls: int) -> float:
    """The median of some calls after one that is not timed: it compiles, and refills the caches others emptied."""
    call()
    return statistics.median(seconds(call) for _ in range(calls))


def machine() -> str:
    """How many cores there are and how busy they have been in the last minute."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}"


def peak_growth(call: Callable[[], object]) -> int:
    """By how many bytes the peak resident memory of one call exceeds what was resident before it."""
    before = _restart_peak()
    call()
    return _peak() - before


def _restart_peak() -> int:
    """Forget the peak so far, where the system can, and say what is resident now."""
    if CLEAR.exists():
        CLEAR.write_text("5")
    return _peak()


def _peak() -> int:
    # ru_maxrss outlives exec on Linux: a child of a large parent would inherit the parent's peak.
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
