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


def medians(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The median seconds of every call, taking turns."""
    return {name: statistics.median(times) for name, times in _turns(calls, rounds).items()}


def fastest(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The least seconds of every call, taking turns: what the work itself costs, without what the machine adds."""
    return {name: min(times) for name, times in _turns(calls, rounds).items()}


def _turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    turns = [{name: _turn(call) for name, call in calls.items()} for _ in range(rounds)]
    return {name: [time for turn in turns for time in turn[name]] for name in calls}


def _turn(call: Callable[[], object]) -> list[float]:
    """Some timed calls after one that is not timed: it compiles, and it refills the caches the others emptied."""
    call()
    return [seconds(call) for _ in range(CALLS_A_TURN)]


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
