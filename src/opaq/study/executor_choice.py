"""From the word for a place to the executor that works there."""

from __future__ import annotations

from opaq.errors import Fault, InputError
from opaq.study.executor import Executor


def executor_name(on: str | Executor) -> str:
    """What is recorded of an executor. Raises InputError for a word that stands for none."""
    if not isinstance(on, str):
        return type(on).__name__
    if on in ("local", "ray") or (on.startswith("ray://") and len(on) > len("ray://")):
        return on
    raise InputError([Fault("on", f"'{on}' is not a choice", "use local, ray or ray://HOST:PORT")])


def open_executor(on: str | Executor, processes: int | None) -> Executor:
    """The executor of a word, with at most so many workers; one that is given is taken as it is."""
    if not isinstance(on, str):
        return on
    if executor_name(on) == "local":
        from opaq.study.local_executor import LocalExecutor

        return LocalExecutor(processes)
    from opaq.study.ray_executor import RayExecutor

    return RayExecutor("" if on == "ray" else on, processes)
