"""Read regular files of a limited size, write files that are either whole or not there, and lock folders.

Every read and write of opaq goes through here. What the system says against it becomes an InputError with the name of
the file and advice.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from opaq.errors import Fault, InputError

_PROBE = 4096  # bytes written to find out whether a disk is full
_PIECE = 16 << 20


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int, advice: str = "") -> bytes:
    """Return the content of a regular file of at most `max_bytes` bytes.

    Devices, pipes and sockets are refused without waiting for them and without reading from them; what was opened is
    what is checked, so a file that is exchanged in between does not slip through.
    advice: for a file that is too large. Raises InputError when it cannot be read.
    """
    source = os.fspath(path)
    try:
        with _open_file(path) as file:
            size = _regular_size(os.fstat(file.fileno()))
            content = _read_limited(file, size, max_bytes) if size <= max_bytes else None
    except (OSError, ValueError) as error:
        raise InputError([_read_fault(error)], source) from None
    if content is None:
        size_text = f"has {size:,} bytes" if size > max_bytes else f"has more than {max_bytes:,} bytes"
        raise InputError([Fault("", f"{size_text}; the limit is {max_bytes:,}", advice)], source)
    return content


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a path names a regular file that may be read."""
    try:
        with _open_file(path) as file:
            _regular_size(os.fstat(file.fileno()))
    except (OSError, ValueError) as error:
        raise InputError([_read_fault(error)], os.fspath(path)) from None


def _open_file(path: str | os.PathLike[str]) -> FileIO:
    """Open a file for reading without waiting for a writer and without buffering."""
    return open(os.open(path, os.O_RDONLY | _NEVER_WAIT), "rb", buffering=0)


# Opening a pipe without O_NONBLOCK waits for a writer; without O_NOCTTY a terminal could take over the process.
_NEVER_WAIT = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


def _regular_size(status: os.stat_result) -> int:
    """Return the size of a regular file; OSError for anything else."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is a device, a pipe or a socket, not a regular file")
    return status.st_size


def _read_limited(file: FileIO, size: int, max_bytes: int) -> bytes | None:
    """Return everything in a file; None when it grows beyond the limit while it is read (or lies about its size)."""
    content = file.read(size + 1) or b""  # in one piece, when the size is right
    while piece := file.read(_PIECE):
        content += piece
        if len(content) > max_bytes:
            return None
    return content if len(content) <= max_bytes else None


def _read_fault(error: OSError | ValueError) -> Fault:
    """Return the fault for an error of the system while reading."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Fault("", "no such file", "check the name and the current folder")
    if isinstance(error, IsADirectoryError):
        return Fault("", "is a folder, not a file")
    if isinstance(error, PermissionError):
        return Fault("", "may not be read", "check its permissions")
    if isinstance(error, ValueError):  # a NUL character, or characters no file system can store
        return Fault("", f"cannot be the name of a file ({error})", "check the name")
    return Fault("", f"cannot be read: {error.strerror or error}")


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = False) -> None:
    """Write a UTF-8 file in one step: readers see the old content or the new, even after a crash.

    overwrite: replace a file that exists; InputError otherwise, or when it cannot be written.
    """
    write_bytes(path, text.encode(), overwrite=overwrite)


def write_bytes(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = False) -> None:
    """Write a file in one step, by renaming a temporary file beside it.

    overwrite: replace a file that exists; InputError otherwise, or when it cannot be written.
    """
    with _system_errors(path) as target:
        temporary, mode = _plan_replacement(target, path, overwrite)
        try:
            _write_through(temporary, data, mode)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise InputError now if `write_text` would later, by writing a file beside the target and removing it.

    A disk that fills up meanwhile is not foreseen.
    """
    with _system_errors(path) as target:
        temporary, mode = _plan_replacement(target, path, overwrite)
        try:
            _write_through(temporary, bytes(_PROBE), mode)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _system_errors(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the file to replace, links followed; what the system says against it becomes an InputError."""
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))  # through a link: replace what it points to, not the link
        yield target
    except OSError as error:
        raise InputError([_write_fault(error, target)], os.fspath(path)) from None
    except ValueError:  # a NUL, or characters that no file name can hold
        raise InputError([Fault("", "is not a file name")], os.fspath(path)) from None


def _plan_replacement(target: Path, path: str | os.PathLike[str], overwrite: bool) -> tuple[Path, int | None]:
    """Return the temporary file to write, and the permissions of the file it replaces if there is one.

    Raises InputError if that may not be replaced.
    """
    mode = _existing_mode(target)
    if mode is not None and not overwrite:
        advice = "give overwrite=True to overwrite it"
        raise InputError([Fault("", "exists already", advice, option="overwrite")], os.fspath(path))
    return target.with_name(f".opaq-{secrets.token_hex(8)}.tmp"), mode


def _existing_mode(target: Path) -> int | None:
    """Return the permissions of a file that is there already; only regular files may be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise OSError(0, "not a regular file")
    return stat.S_IMODE(mode)


def _write_through(path: Path, data: bytes, mode: int | None) -> None:
    """Create a file, write it and make it durable. mode: permissions, None for the usual ones."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    with open(descriptor, "wb") as file:
        if mode is not None:
            with suppress(OSError):  # some file systems keep no permissions
                os.chmod(path, mode)
        file.write(data)
        file.flush()
        _sync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):  # the file is written; network file systems may not sync folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Make the content of an open file durable, where the file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # nothing to sync on this file system
            raise


def _write_fault(error: OSError, target: Path) -> Fault:
    """Return the fault for an error of the system while writing."""
    if isinstance(error, IsADirectoryError):
        return Fault("", "is a folder, not a file")
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not target.parent.is_dir():
        return Fault("", f"the folder {target.parent} does not exist", "create it first")
    if isinstance(error, FileNotFoundError):
        return Fault("", f"cannot be written: {target.parent} takes no new files", "write to another folder")
    if isinstance(error, PermissionError):
        return Fault("", "may not be written", f"check the permissions of {target.parent}")
    return Fault("", f"cannot be written: {error.strerror or error}")


_LOCK_FILE = "lock"
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_LOCKED_BYTE = 1 << 30  # on Windows: far behind the process id, which others may read


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder while the block runs. Raises InputError at once when another process holds it.

    The lock belongs to an open file and not to the file's existence: nothing has to be cleaned up after a crash. On a
    file system without locks nothing is locked.
    """
    descriptor = _open_lock(folder / _LOCK_FILE)
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in _HELD:
                raise _lock_fault(folder) from None
        else:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Open the lock file, not through a link; InputError where the folder cannot be written."""
    try:
        return os.open(
            path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666
        )
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise InputError([Fault("", message, "use a folder you may write to")], str(path)) from None


def _lock_fault(folder: Path) -> InputError:
    """Return the error that says which process holds a folder."""
    try:
        holder = (folder / _LOCK_FILE).read_bytes()[:20].decode().strip()
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
