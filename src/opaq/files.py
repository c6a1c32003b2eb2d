"""Writing files that are either whole or not there."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from opaq.errors import Fault, InputError


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = False) -> None:
    """Write a UTF-8 file in one step: readers see the old content or the new, even after a crash."""
    write_bytes(path, text.encode(), overwrite=overwrite)


def write_bytes(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = False) -> None:
    """The same for bytes. Raises InputError when the file is there and may not be overwritten, or cannot be written."""
    target = Path(os.path.realpath(path))  # through a link: replace what it points to, not the link
    try:
        mode = _existing_mode(target)
        if mode is not None and not overwrite:
            raise InputError([Fault("", "exists already", "use --force to overwrite it")], os.fspath(path))
        temporary = target.with_name(f".opaq-{secrets.token_hex(8)}.tmp")
        try:
            _write_through(temporary, data, mode)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise InputError([_unwritable(error, target)], os.fspath(path)) from None


def _existing_mode(target: Path) -> int | None:
    """The permissions of a file that is there already; only regular files may be replaced."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError
    if not stat.S_ISREG(found):
        raise OSError(0, "not a regular file")
    return stat.S_IMODE(found)


def _write_through(path: Path, data: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with open(descriptor, "wb") as file:
        if mode is not None:
            os.chmod(path, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(error: OSError, target: Path) -> Fault:
    if isinstance(error, IsADirectoryError):
        return Fault("", "is a folder, not a file")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Fault("", f"the folder {target.parent} does not exist", "create it first")
    if isinstance(error, PermissionError):
        return Fault("", "may not be written", f"check the permissions of {target.parent}")
    return Fault("", f"cannot be written: {error.strerror or error}")
