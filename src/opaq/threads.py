"""Share work among threads of one process: compiled kernels and most of NumPy release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux only
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_threads(
    function: Callable[[_Item], _Outcome], items: Sequence[_Item], *, workers: int
) -> Iterator[_Outcome]:
    """Yield what a function returns for every item, in their order.

    function: called for at most `workers` items at a time; with one worker, or one item, in the caller's thread.
    """
    if workers <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        yield from pool.map(function, items)
