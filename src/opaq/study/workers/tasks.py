"""What workers can be asked to do: one registry of tasks, and the one function that runs any of them."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from time import perf_counter
from typing import Any

from opaq.errors import OpaqError
from opaq.version import __version__

LIBRARIES = ("numpy", "scipy", "numba")

# kind -> "module:function", imported when it is first asked for: plain data in, plain data out
TASKS = {"point": "opaq.study.sweep.points:solve_point"}


def run_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Run one task of any kind. What goes wrong is the answer's `error`."""
    from threadpoolctl import threadpool_limits

    begun = perf_counter()
    try:
        module, _, function = TASKS[task["kind"]].partition(":")
        with threadpool_limits(1):  # sums over several threads round differently
            answer: dict[str, Any] = getattr(importlib.import_module(module), function)(task)
    except OpaqError as error:
        answer = {"error": " | ".join(str(error).splitlines())}
    except MemoryError:
        answer = {"error": "out of memory"}
    except Exception as error:  # one task never stops the others
        answer = {"error": f"{type(error).__name__}: {error} (a fault of opaq itself)"}
    return answer | {"seconds": perf_counter() - begun, "versions": versions()}


@cache
def versions() -> dict[str, str]:
    """What an answer was computed with."""
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return {"opaq": __version__, "python": platform.python_version(), **libraries}


def prepare() -> None:
    """Load what every task needs, once per worker."""
    from opaq.opacity.kernel_warmup import compile_kernels

    compile_kernels(derivatives=True)
