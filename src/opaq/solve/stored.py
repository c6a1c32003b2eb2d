"""Reading back what a run stored: regular files of bounded size only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from opaq.errors import Fault, InputError


def read_stored(path: Path, *, limit: int) -> bytes:
    """The content of a file of at most `limit` bytes. Raises InputError when it cannot be had."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise InputError([Fault("", "is not a regular file", "remove it")], str(path))
            content = file.read(limit + 1) if status.st_size <= limit else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError([Fault("", f"cannot be read: {reason or error}")], str(path)) from None
    if content is None or len(content) > limit:
        raise InputError([Fault("", f"is larger than {limit:,} bytes, which no run writes", "remove it")], str(path))
    return content
