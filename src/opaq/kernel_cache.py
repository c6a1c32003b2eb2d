"""Compile kernels by numba, and keep their machine code between processes.

numba keeps it beside the source, or in the user's cache folder. Where neither can be written, as in a read-only
container, it refuses to compile at all; here a temporary folder stands in, or every process compiles for itself.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import Any

import numba

_COSTS = "compiling takes up to a minute; set NUMBA_CACHE_DIR to a folder that lasts and can be written"


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `numba.njit`, with the machine code kept wherever a folder can be written.

    cache: keep it between processes. options: of numba.njit, e.g. nogil=True.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return _skip_unreadable(numba.njit(cache=cache, **options)(function))
        except RuntimeError:  # no folder for the cache
            folder = _substitute_folder()
        if folder is None:
            return numba.njit(**options)(function)
        configured, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder  # read where a function is decorated
        try:
            return _skip_unreadable(numba.njit(cache=cache, **options)(function))
        finally:
            numba.config.CACHE_DIR = configured

    return decorate


def _skip_unreadable(kernel: Any) -> Any:
    """Let a compiled function take an index of its machine code that cannot be read as an empty one.

    The index names argument types by module and class. After an update of opaq that moved or renamed such a class,
    numba fails to unpickle an older index instead of compiling again.
    """
    file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    load_index = getattr(file, "_load_index", None)
    if load_index is None:  # no cache, or another numba that keeps it otherwise
        return kernel

    def load_readable_index() -> Any:
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    file._load_index = load_readable_index  # type: ignore[union-attr]
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
