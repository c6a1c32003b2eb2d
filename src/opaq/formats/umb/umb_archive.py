"""The outer shell of a UMB file: a tar archive, plain or compressed, held in memory and never unpacked to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import IO, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Fault, InputError
from opaq.escapes import printable
from opaq.files import read_bytes

MAX_BYTES = 2 << 30  # once decompressed
MAX_GROWTH = 50  # times its own size an archive may become; models reach 5 to 20
_FREE_GROWTH = 64 << 20  # what any archive may become, however small it is
_MAX_MEMBERS = 100_000
_PIECE = 4 << 20
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of an archive by name, as views into its decompressed bytes."""

    source: str
    members: Mapping[str, memoryview]

    def fail(self, member: str, found: str, advice: str = "") -> NoReturn:
        """Refuse the file for what was found in one member."""
        raise InputError([Fault(member, found, advice)], self.source)

    def bytes(self, member: str) -> memoryview:
        """The content of a member that must be there."""
        if member not in self.members:
            self.fail(member, "is missing from the archive")
        return self.members[member]

    def array(self, member: str, dtype: str, count: int) -> NDArray[Any]:
        """`count` little-endian entries, without a copy; the declared count must be what is there."""
        content, size = self.bytes(member), np.dtype(dtype).itemsize
        if len(content) != count * size:
            self.fail(member, f"holds {len(content):,} bytes, but {count:,} entries of {size} bytes are declared")
        return np.frombuffer(content, dtype=dtype)

    def bits(self, member: str, count: int) -> NDArray[np.bool_]:
        """`count` bits, the lowest of a byte first, filled up to whole bytes or 8-byte words."""
        content = self.bytes(member)
        if not (count + 7) // 8 <= len(content) <= (count + 63) // 64 * 8:
            self.fail(member, f"holds {len(content):,} bytes, but {count:,} bits are declared")
        return np.unpackbits(np.frombuffer(content, np.uint8), count=count, bitorder="little").astype(bool)

    def offsets(self, member: str, rows: int, entries: int) -> NDArray[np.int64]:
        """Where every row starts, and the end: from 0 to `entries`, never falling."""
        starts = self.array(member, "<u8", rows + 1)
        if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
            self.fail(member, f"must rise from 0 to {entries:,}, the declared number of entries")
        return starts.astype(np.int64)

    def indices(self, member: str, dtype: str, count: int, *, below: int) -> NDArray[np.int64]:
        """`count` numbers, each below `below`."""
        numbers = self.array(member, dtype, count)
        if count and int(numbers.max()) >= below:
            first = int(np.argmax(numbers >= below))
            self.fail(member, f"entry {first:,} is {int(numbers[first]):,}, but there are only {below:,}")
        return numbers.astype(np.int64)

    def strings(self, folder: str, count: int) -> list[str]:
        """`count` texts, stored end to end beside their offsets."""
        text = bytes(self.members.get(f"{folder}/strings.bin", b""))
        ends = self.offsets(f"{folder}/string-mapping.bin", count, len(text)).tolist()
        try:
            return [text[begin:end].decode() for begin, end in pairwise(ends)]
        except UnicodeDecodeError:
            self.fail(f"{folder}/strings.bin", "is not UTF-8 text")


def read_archive(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Archive:
    """Read a tar archive, plain or compressed with gzip, xz or bzip2; what is not a plain file inside is refused."""
    source = os.fspath(path)
    stored = read_bytes(path, max_bytes=max_bytes, advice="raise the limit if the file is trusted")
    try:
        content = _decompressed(stored, source, max_bytes)
    except _BROKEN as error:
        raise _refused(source, f"is cut short or damaged: {error}") from None
    view = content.getbuffer() if content is not None else memoryview(stored)
    try:
        return Archive(source, _members(source, content or io.BytesIO(stored), view.toreadonly()))
    except (tarfile.TarError, EOFError, OverflowError, ValueError, IndexError, RecursionError) as error:
        raise _refused(source, f"is not a whole tar archive: {error}", "a UMB file is one") from None


def _refused(source: str, found: str, advice: str = "", *, member: str = "") -> InputError:
    return InputError([Fault(member, found, advice)], source)


def _decompressed(stored: bytes, source: str, max_bytes: int) -> io.BytesIO | None:
    """The tar archive inside; unpacked piece by piece, so that a small file cannot fill the memory. None: it is one."""
    opener = next((opener for magic, opener in _OPENERS.items() if stored.startswith(magic)), None)
    if opener is None:
        return None
    limit = min(max_bytes, max(_FREE_GROWTH, MAX_GROWTH * len(stored)))
    content = io.BytesIO()
    with cast(IO[bytes], opener(io.BytesIO(stored), "rb")) as stream:
        while piece := stream.read(min(_PIECE, limit + 1 - content.tell())):
            content.write(piece)
            if content.tell() > limit:
                found = f"has {len(stored):,} bytes and more than {limit:,} bytes once decompressed"
                advice = "raise the limit if it is trusted" if limit == max_bytes else "store it without compression"
                raise _refused(source, found, advice)
    content.seek(0)
    return content


def _members(source: str, content: io.BytesIO, view: memoryview) -> dict[str, memoryview]:
    """Name -> content of every plain file, as a part of `view`, without a copy."""
    members: dict[str, memoryview] = {}
    with tarfile.open(fileobj=content, mode="r:") as archive:
        for count, entry in enumerate(archive):
            if count >= _MAX_MEMBERS:
                raise _refused(source, f"has more than {_MAX_MEMBERS:,} members")
            fault = _suspicious(entry, members, len(view))
            if fault:
                raise _refused(source, fault, member=_shown(entry.name))
            if not entry.isdir():
                members[str(PurePosixPath(entry.name))] = view[entry.offset_data : entry.offset_data + entry.size]
    return members


def _suspicious(entry: tarfile.TarInfo, members: Mapping[str, memoryview], length: int) -> str:
    """Why an entry is refused, or nothing."""
    path = PurePosixPath(entry.name)
    if path.is_absolute() or ".." in path.parts or "\\" in entry.name or "\0" in entry.name:
        return "leads out of the archive"
    if entry.isdir():
        return ""
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.issparse():
        return "is not a plain file"
    if str(path) in members:
        return "is in the archive twice"
    if entry.size < 0 or entry.offset_data + entry.size > length:
        return f"is cut short: {entry.size:,} bytes are declared"
    return ""


def _shown(name: str) -> str:
    return printable(name[:200])


def archive_bytes(members: Mapping[str, bytes], *, compressed: bool) -> bytes:
    """The tar archive of some members; the same members give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0) if compressed else buffer.getvalue()
