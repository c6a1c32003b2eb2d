"""A lock on a folder that ends with the process that holds it, even by kill -9."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opaq.errors import Fault, InputError

LOCK_FILE = "lock"
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_LOCKED_BYTE = 1 << 30  # on Windows: far behind the process id, which others may read


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises InputError at once when another process holds it.

    The lock belongs to an open file and not to the file's existence: nothing has to be cleaned up after a crash. On
    a file system without locks nothing is locked.
    """
    descriptor = _open(folder / LOCK_FILE)
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in _HELD:
                raise _held(folder) from None
        else:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(
            path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666
        )
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        raise InputError([Fault("", found, "use a folder you may write to")], str(path)) from None


def _held(folder: Path) -> InputError:
    try:
        holder = (folder / LOCK_FILE).read_bytes()[:20].decode().strip()
    except (OSError, UnicodeDecodeError):
        holder = ""
    who = f"another process ({holder})" if holder.isdigit() else "another process"
    advice = "wait until it has ended, or use another folder"
    return InputError([Fault("", f"{who} is working on this run", advice)], str(folder))


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
