"""Compile kernels by numba, and keep their machine code between processes.

Compiling is what users wait for at the first call, so kernels are written to compile fast: they take tuples of arrays
and give every array they use a name of its own at their top, for numba counts references wherever one is taken out of a
tuple; they allocate nothing, cut no slices and return numbers only; and each is used with one set of types, or two
where complex numbers carry derivatives (docs/decisions/0013-compile-time.md).

numba keeps it beside the source, or in the user's cache folder. Where neither can be written, as in a read-only
container, it refuses to compile at all; here a temporary folder stands in, or every process compiles for itself.
"""

from __future__ import annotations

import gc
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache as once
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.cpu import CPUTargetOptions
from numba.core.runtime import rtsys

# What allocates nothing needs no reference counts, nor the part of numba that counts them: a tenth of a short command.
_NO_RUNTIME: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}

_COSTS = "compiling takes half a minute; set NUMBA_CACHE_DIR to a folder that lasts and can be written"


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, without the interpreter's lock, and keep its machine code.

    It is kept between processes wherever a folder can be written.
    """
    compiled = numba.njit(nogil=True, no_cfunc_wrapper=True, **_NO_RUNTIME)
    kept = numba.njit(nogil=True, no_cfunc_wrapper=True, cache=True, **_NO_RUNTIME)
    try:
        return _skip_unreadable(kept(function))
    except RuntimeError:  # no folder for the cache
        folder = _substitute_folder()
    if folder is None:
        return compiled(function)
    configured, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder  # read where a function is decorated
    try:
        return _skip_unreadable(kept(function))
    finally:
        numba.config.CACHE_DIR = configured


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call: it becomes a part of theirs, with no way in from Python."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_NO_RUNTIME)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call, its statements put in the place of every call."""
    return numba.njit(inline="always", no_cpython_wrapper=True, no_cfunc_wrapper=True, **_NO_RUNTIME)(function)


class _CollectorPause(event.Listener):  # type: ignore[misc]
    """Turns the garbage collector off while numba compiles: it takes a fifth of that time and finds next to nothing."""

    def __init__(self) -> None:
        self._depth = 0  # compiling a kernel compiles its helpers; numba's lock lets in one thread only
        self._was_on = True

    def on_start(self, _: Any) -> None:
        """Turn it off where the first of nested functions begins."""
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _: Any) -> None:
        """Turn it on again after the last, if it was."""
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


event.register("numba:compile", _CollectorPause())


@contextmanager
def announce_compiling(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` once, before the first kernel that the block has to compile; not where all are kept already."""
    pending = [announce]

    class Announcer(event.Listener):  # type: ignore[misc]
        """Hears of every function that is compiled."""

        def on_start(self, _: Any) -> None:
            if pending:
                pending.pop()()

        def on_end(self, _: Any) -> None:
            """Do nothing."""

    with event.install_listener("numba:compile", Announcer()):
        yield


def _skip_unreadable(kernel: Any) -> Any:
    """Let a compiled function take an index of its machine code that cannot be read as an empty one, and read it fast.

    The index names argument types by module and class. After an update of opaq that moved or renamed such a class,
    numba fails to unpickle an older index instead of compiling again. And before it reads machine code, numba loads all
    that compiling may need, which takes half as long as the rest of a short command, and looks for extensions of its
    own in every installed package; the code needs none of it. Code that was kept while kernels still counted references
    does not count as kept.
    """
    cache = getattr(kernel, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    load_index = getattr(file, "_load_index", None)
    if load_index is None or not hasattr(cache, "_load_overload"):  # no cache, or another numba that keeps it otherwise
        return kernel

    def load_readable_index() -> Any:
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    def load_overload(signature: Any, context: Any) -> Any:
        if not _NO_RUNTIME:
            rtsys.initialize(context)  # the part of it that machine code calls
        with cache._guard_against_spurious_io_errors():  # type: ignore[union-attr]
            return cache._load_overload(signature, context)  # type: ignore[union-attr]

    if _NO_RUNTIME:
        file._source_stamp = (file._source_stamp, "counts no references")  # type: ignore[union-attr]
    file._load_index = load_readable_index  # type: ignore[union-attr]
    cache.load_overload = load_overload  # type: ignore[union-attr]
    kernel._compilation_chain_init_hook = lambda: None  # would look for extensions
    return kernel


@once
def _substitute_folder() -> str | None:
    """Return the temporary folder for machine code, None where there is none either; warns once what that costs."""
    folder = _private_folder()
    kept = "every process compiles them" if folder is None else f"they are kept in {folder} while that exists"
    # Without a handler of the application's, this is one line on stderr.
    logging.getLogger("opaq").warning(
        "opaq: neither opaq's own folder nor the user's cache can be written to keep compiled kernels: %s; %s",
        kept,
        _COSTS,
    )
    return folder


def _private_folder() -> str | None:
    """Return a temporary folder of this user alone, None where there is none.

    What it holds is run as code, so nobody else may be able to write there.
    """
    try:
        user = os.geteuid()
        folder = Path(tempfile.gettempdir()) / f"opaq-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, AttributeError):  # AttributeError: a system without user numbers
        return None
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == user and not status.st_mode & 0o077
    return str(folder) if private else None
