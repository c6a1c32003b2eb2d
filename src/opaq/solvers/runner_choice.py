"""Where the starts of a solve run: in threads, or where a word says; what runs them is imported when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from opaq.errors import Fault, InputError
from opaq.solvers.race import StartRunner

# word, or what comes before "://" -> "module:function", called with what was said and the number of processes
RUNNERS = {"local": "opaq.study.solve_runner:runner_on", "ray": "opaq.study.solve_runner:runner_on"}


def open_runner(on: str | StartRunner | None, processes: int | None) -> StartRunner | None:
    """What runs the starts; None: threads. Raises InputError for what is no choice."""
    if on is None or (not isinstance(on, str) and callable(getattr(on, "run", None))):
        return on
    if not isinstance(on, str):
        found = f"is of the type {type(on).__name__}"
        raise InputError([Fault("on", found, "use local, ray or ray://HOST:PORT, or an object that runs starts")])
    word = on.partition("://")[0]
    if word not in RUNNERS:
        raise InputError([Fault("on", f"'{on}' is not a choice", "use local, ray or ray://HOST:PORT")])
    module, _, function = RUNNERS[word].partition(":")
    opened: Callable[[str, int | None], StartRunner] = getattr(importlib.import_module(module), function)
    return opened(on, processes)
