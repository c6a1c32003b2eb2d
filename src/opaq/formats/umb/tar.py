"""Read the headers of tar archives: where the content of every entry is, in an archive that is in memory.

Formats: POSIX.1-1988 (ustar), POSIX.1-2001 (pax) and what GNU tar makes of them. Python's tarfile, made for archives of
any size on any medium, takes many times as long, and most of the time of reading a small model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = 512  # bytes: a header takes one, contents are filled up to whole ones
_END = bytes(_BLOCK)
_HEADER = struct.Struct("100s24x12s12x8sc100x6s82x155s12x")  # name, size, checksum, kind, magic, first part of the name
_CHECKSUM = slice(148, 156)  # its own bytes count as spaces
_FILE, _OLD_FILE, _FOLDER = b"0", b"\0", b"5"
_PAX, _GNU_NAME = b"x", b"L"  # these hold what a header has no room for, about the next entry
_DAMAGED_PAX = "a pax header is damaged"
_REMARKS = (b"g", b"K")  # on the archive as a whole, and on the target of a link


class TarEntry(NamedTuple):
    """One entry of an archive; its content is bytes first .. first + size - 1, if the archive has so many."""

    name: str
    is_file: bool  # a plain one: no link, no device, none with holes
    is_folder: bool
    first: int
    size: int


def tar_entries(archive: memoryview) -> Iterator[TarEntry]:
    """Yield the entries of a tar archive in their order. Raises ValueError where it is damaged, or no archive."""
    if not archive:
        raise ValueError("it is empty")
    offset, stated = 0, dict[bytes, bytes]()  # stated: by the extensions before an entry
    while offset < len(archive):
        header = bytes(archive[offset : offset + _BLOCK]).ljust(_BLOCK, b"\0")
        if header == _END:
            return
        name, kind, size = _parse_header(header, offset)
        first = offset + _BLOCK
        if kind in (_PAX, _GNU_NAME):
            content = bytes(archive[first : first + size])
            stated |= _pax_records(content) if kind == _PAX else {b"path": content.rstrip(b"\0")}
        elif kind not in _REMARKS:
            name = stated.get(b"path", name)
            size = _parse_count(stated[b"size"]) if b"size" in stated else size
            is_folder = kind == _FOLDER or (kind == _OLD_FILE and name.endswith(b"/"))
            has_holes = bool(stated) and any(key.startswith(b"GNU.sparse") for key in stated)
            is_file = kind in (_FILE, _OLD_FILE) and not is_folder and not has_holes
            yield TarEntry(name.decode("utf-8", "surrogateescape"), is_file, is_folder, first, size)
            stated = {}
        offset = first + (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _parse_header(header: bytes, offset: int) -> tuple[bytes, bytes, int]:
    """Return the name, the kind and the size that a header states. Raises ValueError when it is damaged.

    offset: where it stands, for the error.
    """
    name, size, checksum, kind, magic, prefix = _HEADER.unpack(header)
    try:
        length, total = _parse_octal(size), _parse_octal(checksum)
    except ValueError:
        length, total = -1, -1
    written = header.translate(None, b"\0")  # most of a header is zeros, which add nothing to the sum
    if length < 0 or total != sum(written) - sum(header[_CHECKSUM]) + 8 * ord(" "):
        raise ValueError(f"the header at byte {offset:,} is damaged")
    name, prefix = name.partition(b"\0")[0], prefix.partition(b"\0")[0]
    return prefix + b"/" + name if prefix and magic == b"ustar\0" else name, kind, length


def _parse_octal(field: bytes) -> int:
    """Return the number of a header's field, 0 for an empty one. Raises ValueError for anything else."""
    return int(field.partition(b"\0")[0].strip() or b"0", 8)


def _pax_records(content: bytes) -> dict[bytes, bytes]:
    """Return key -> value of a pax header, a sequence of "length key=value". Raises ValueError where it is damaged."""
    records: dict[bytes, bytes] = {}
    while content:
        length = _parse_count(content.split(b" ", 1)[0])
        if not 0 < length <= len(content):
            raise ValueError(_DAMAGED_PAX)
        key, _, value = content[:length].partition(b" ")[2].partition(b"=")
        records[key], content = value.removesuffix(b"\n"), content[length:]
    return records


def _parse_count(digits: bytes) -> int:
    """Return a number of bytes in a pax header. Raises ValueError for anything else."""
    if not digits.isdigit() or len(digits) > 20:
        raise ValueError(_DAMAGED_PAX)
    return int(digits)
