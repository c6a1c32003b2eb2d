"""Open UMB files: the tar archive in memory, its index, and values of the declared types.

The name of a file comes in, a `Reading` goes out: the members as views of bytes, the JSON index, and the declared
counts. Numbers are little-endian, texts are stored end to end beside their offsets, valuations are packed bits.

Nothing in a file is trusted: sizes are held against the bytes that are there, archives may grow only so far when they
are decompressed, and members that are links or lead out of the archive are refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Fault, Faults, InputError, escape_invisible
from opaq.files import read_bytes
from opaq.formats.umb.tar import TarEntry, tar_entries
from opaq.model.arrays import FloatArray, frozen

MAX_BYTES = 2 << 30  # once decompressed
_MAX_GROWTH = 50  # times its own size an archive may become; models reach 5 to 20
_FREE_GROWTH = 64 << 20  # what any archive may become, however small it is
_MAX_MEMBERS = 100_000
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS),  # gzip
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
    b"BZh": bz2.BZ2Decompressor,
}


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of an archive by name, as views into its decompressed bytes."""

    source: str
    members: Mapping[str, memoryview]

    def fail(self, member: str, finding: str, advice: str = "") -> NoReturn:
        """Raise InputError for a fault in one member.

        member: its name; finding, advice: what is wrong, and what to do about it.
        """
        raise InputError([Fault(member, finding, advice)], self.source)

    def bytes(self, member: str) -> memoryview:
        """Return the content of a member that must be there."""
        if member not in self.members:
            self.fail(member, "is missing from the archive")
        return self.members[member]

    def array(self, member: str, dtype: str, count: int) -> NDArray[Any]:
        """Return `count` little-endian entries of a member, without a copy.

        dtype: as NumPy writes it, e.g. "<u8". Raises InputError unless the member has exactly that many bytes.
        """
        content, size = self.bytes(member), np.dtype(dtype).itemsize
        if len(content) != count * size:
            self.fail(member, f"holds {len(content):,} bytes, but {count:,} entries of {size} bytes are declared")
        return np.frombuffer(content, dtype=dtype)

    def bits(self, member: str, count: int) -> NDArray[np.bool_]:
        """Return `count` bits as truth values, the lowest of a byte first, filled up to whole bytes or 8-byte words.

        Raises InputError when the member has another number of bytes.
        """
        content = self.bytes(member)
        if not (count + 7) // 8 <= len(content) <= (count + 63) // 64 * 8:
            self.fail(member, f"holds {len(content):,} bytes, but {count:,} bits are declared")
        return np.unpackbits(np.frombuffer(content, np.uint8), count=count, bitorder="little").view(np.bool_)

    def offsets(self, member: str, rows: int, entries: int) -> NDArray[np.int64]:
        """Return the first entry of every row, and the end.

        rows, entries: the declared numbers. Raises InputError unless the offsets rise from 0 to `entries`.
        """
        starts = self.array(member, "<u8", rows + 1)
        if starts[0] != 0 or starts[-1] != entries or (starts[1:] < starts[:-1]).any():
            self.fail(member, f"must rise from 0 to {entries:,}, the declared number of entries")
        return starts.view("<i8")  # all are below 2^63

    def indices(self, member: str, dtype: str, count: int, *, below: int) -> NDArray[np.int64]:
        """Return `count` numbers, each below `below`. Raises InputError that names the first one that is not."""
        numbers = self.array(member, dtype, count)
        if count and int(numbers.max()) >= below:
            first = int(np.argmax(numbers >= below))
            self.fail(member, f"entry {first:,} is {int(numbers[first]):,}, but there are only {below:,}")
        return numbers.view("<i8") if numbers.itemsize == 8 else numbers.astype(np.int64)

    def strings(self, folder: str, count: int) -> list[str]:
        """Return `count` texts, stored end to end beside their offsets.

        folder: has strings.bin and string-mapping.bin. Raises InputError for wrong offsets, and for what is not UTF-8.
        """
        text = bytes(self.members.get(f"{folder}/strings.bin", b""))
        ends = self.offsets(f"{folder}/string-mapping.bin", count, len(text))
        try:
            if b"\0" in text:
                return [text[begin:end].decode() for begin, end in pairwise(ends.tolist())]
            written = np.ones(len(text) + count, np.bool_)
            written[ends[1:] + np.arange(count)] = False
            ended = np.zeros(written.size, np.uint8)  # a zero after every text: one call then takes them apart
            ended[written] = np.frombuffer(text, np.uint8)
            return ended.tobytes().decode().split("\0")[:-1]
        except UnicodeDecodeError:
            self.fail(f"{folder}/strings.bin", "is not UTF-8 text")


def read_archive(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Archive:
    """Read a tar archive, plain or compressed with gzip, xz or bzip2; what is not a plain file inside is refused.

    max_bytes: the most that the archive may have, stored and decompressed.
    Raises InputError for a file that is damaged, too large or no archive.
    """
    source = os.fspath(path)
    stored = read_bytes(path, max_bytes=max_bytes, advice="raise the limit if the file is trusted")
    try:
        content = _decompress(stored, source, max_bytes)
    except _BROKEN as error:
        raise _refuse(source, f"is cut short or damaged: {error}") from None
    try:
        return Archive(source, _members(source, memoryview(content)))
    except ValueError as error:
        raise _refuse(source, f"is not a whole tar archive: {error}", "a UMB file is one") from None


def _refuse(source: str, finding: str, advice: str = "", *, member: str = "") -> InputError:
    """Return the InputError for a file, or for one of its members."""
    return InputError([Fault(member, finding, advice)], source)


def _decompress(stored: bytes, source: str, max_bytes: int) -> bytes:
    """Return the tar archive inside a compressed file; the file itself when it is not compressed.

    stored: the file; source: its name, for errors; max_bytes: the most that it may become.
    No more is unpacked than may be kept, so that a small file cannot fill the memory.
    Raises InputError beyond `max_bytes`, and beyond the larger of _FREE_GROWTH and _MAX_GROWTH times the file's size.
    """
    begin_stream = next((begin for magic, begin in _DECOMPRESSORS.items() if stored.startswith(magic)), None)
    if begin_stream is None:
        return stored
    limit = min(max_bytes, max(_FREE_GROWTH, _MAX_GROWTH * len(stored)))
    parts, room, rest = list[bytes](), limit + 1, stored
    while rest and room:  # one stream after the other; zeros may fill up the end
        stream = begin_stream()
        parts.append(stream.decompress(rest, room))
        room -= len(parts[-1])
        if room and not stream.eof:
            raise EOFError("the compressed data have no end")
        rest = stream.unused_data.lstrip(b"\0")
    if not room:
        finding = f"has {len(stored):,} bytes and more than {limit:,} bytes once decompressed"
        advice = "raise the limit if it is trusted" if limit == max_bytes else "store it without compression"
        raise _refuse(source, finding, advice)
    return b"".join(parts)


def _members(source: str, view: memoryview) -> dict[str, memoryview]:
    """Return name -> content of every plain file of a tar archive, as a part of `view`, without a copy.

    Raises InputError for an entry that `_find_fault` refuses, and ValueError for what is no archive.
    """
    members: dict[str, memoryview] = {}
    for count, entry in enumerate(tar_entries(view)):
        if count >= _MAX_MEMBERS:
            raise _refuse(source, f"has more than {_MAX_MEMBERS:,} members")
        name = "/".join([part for part in entry.name.split("/") if part not in ("", ".")])
        fault = _find_fault(entry, name, members, len(view))
        if fault:
            raise _refuse(source, fault, member=_escape_name(entry.name))
        if not entry.is_folder:
            members[name] = view[entry.first : entry.first + entry.size]
    return members


def _find_fault(entry: TarEntry, name: str, members: Mapping[str, memoryview], length: int) -> str:
    """Return why an entry of a tar archive is refused, or nothing.

    name: its path without empty parts; members: those so far; length: the bytes of the archive.
    """
    if entry.name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        return "leads out of the archive"
    if entry.is_folder:
        return ""
    if not entry.is_file:
        return "is not a plain file"
    if name in members:
        return "is in the archive twice"
    if entry.first + entry.size > length:
        return f"is cut short: {entry.size:,} bytes are declared"
    return ""


def _escape_name(name: str) -> str:
    """Return the name of a member for a message."""
    return escape_invisible(name[:200])


def pack_archive(members: Mapping[str, bytes], *, compressed: bool) -> bytes:
    """Return the tar archive of some members; the same members give the same bytes.

    members: name -> content, in the order of the archive; compressed: whether it is compressed with gzip.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0) if compressed else buffer.getvalue()


INDEX = "index.json"
_DEFAULT_BITS = {"bool": 1, "string": 64, "int": 64, "uint": 64, "double": 64, "rational": 128}
_MAX_BITS = 1 << 16


@dataclass(frozen=True, slots=True)
class NumberType:
    """The declared type of a value and its size in bits."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class _Field:
    """One variable of a valuation: which bits of an entry hold it."""

    name: str
    kind: NumberType
    first_bit: int  # of the value itself, after the bit that tells whether it is there
    offset: int
    optional: bool


def kind_of(archive: Archive, declared: Any, where: str) -> NumberType:
    """Return the type that the index declares.

    declared: the JSON value; where: its path, for errors. Raises InputError for types that cannot be read.
    """
    if not isinstance(declared, dict) or declared.get("type") not in list(_DEFAULT_BITS):  # it may be of any type
        name = declared.get("type") if isinstance(declared, dict) else declared
        archive.fail(INDEX, f"{where}: the type {name!r} cannot be read", f"one of {', '.join(_DEFAULT_BITS)}")
    name = declared["type"]
    bits = declared.get("size", _DEFAULT_BITS[name])
    if type(bits) is not int or not 0 < bits <= _MAX_BITS:
        archive.fail(INDEX, f"{where}: a size of {bits!r} bits")
    return NumberType(name, bits)


def numbers(archive: Archive, member: str, kind: NumberType, count: int) -> FloatArray:
    """Return `count` numbers of the declared type, as float64.

    Doubles, whole numbers of 8 to 64 bits, and fractions of two whole numbers of one size are read.
    Raises InputError for other types, and when the member has another number of bytes.
    """
    if kind == NumberType("double", 64):
        return archive.array(member, "<f8", count)
    if kind.name in ("int", "uint") and kind.bits in (8, 16, 32, 64):
        return archive.array(member, f"<{kind.name[0]}{kind.bits // 8}", count).astype(np.float64)
    if kind.name != "rational" or kind.bits % 128:
        archive.fail(member, f"numbers of type {kind.name} with {kind.bits} bits cannot be read")
    return _divide_words(archive.array(member, "<u8", count * (kind.bits // 64)).reshape(count, kind.bits // 64))


def _divide_words(words: NDArray[np.uint64]) -> FloatArray:
    """Return fractions from a signed numerator and an unsigned denominator, lowest word first."""
    half = words.shape[1] // 2
    over, under = words[:, :half], words[:, half:]
    negative = over[:, -1] >> np.uint64(63) == 1
    # Two's complement by hand: as floating-point numbers the words of a small negative number would cancel.
    magnitude = _join_words(np.where(negative[:, None], ~over, over)) + negative
    with np.errstate(all="ignore"):
        return np.asarray(np.where(negative, -1.0, 1.0) * magnitude / _join_words(under), dtype=np.float64)


def _join_words(words: NDArray[np.uint64]) -> FloatArray:
    """Return unsigned numbers of several 64-bit words, lowest first, as floats."""
    with np.errstate(over="ignore"):
        return np.asarray(words.astype(np.float64) @ np.ldexp(1.0, 64 * np.arange(words.shape[1])), dtype=np.float64)


def _fields_of(archive: Archive, declared: Any, where: str) -> tuple[list[_Field], int]:
    """Return the variables of one valuation class, and how many bytes an entry takes.

    declared: the JSON list of variables and paddings, one after the other without gaps; where: its path, for errors.
    """
    if not isinstance(declared, list):
        archive.fail(INDEX, f"{where}: a list of variables is expected")
    fields: list[_Field] = []
    bit = 0
    for position, entry in enumerate(declared):
        if not isinstance(entry, dict):
            archive.fail(INDEX, f"{where}[{position}]: a variable or a padding is expected")
        if "padding" in entry:
            bit += _whole(archive, entry["padding"], f"{where}[{position}].padding")
            continue
        optional = entry.get("is-optional") is True
        name, kind = entry.get("name"), kind_of(archive, entry.get("type"), f"{where}[{position}].type")
        if not isinstance(name, str) or any(field.name == name for field in fields):
            archive.fail(INDEX, f"{where}[{position}].name: {name!r} is no name, or used twice")
        offset = entry.get("offset", 0)
        if type(offset) is not int or abs(offset) > 2**63:
            archive.fail(INDEX, f"{where}[{position}].offset: {offset!r} is not a 64-bit number")
        fields.append(_Field(name, kind, bit + optional, offset, optional))
        bit += kind.bits + optional
    if bit % 8 or bit > 8 * _MAX_BITS:
        archive.fail(INDEX, f"{where}: the variables take {bit} bits, not a whole number of bytes")
    return fields, bit // 8


def _whole(archive: Archive, value: Any, where: str) -> int:
    """Return a number of bits; anything else is refused."""
    if type(value) is not int or not 0 <= value <= _MAX_BITS:
        archive.fail(INDEX, f"{where}: {value!r} is not a number of bits")
    return value


def _is_readable(field: _Field) -> bool:
    """Return whether the variable is of a type that NumPy can hold."""
    return field.kind == NumberType("double", 64) or (
        field.kind.name in ("bool", "int", "uint") and field.kind.bits <= 64
    )


def variable(entries: NDArray[np.uint8], field: _Field) -> NDArray[Any]:
    """Return the value of one variable in every entry; one that is not there is NaN.

    entries: [entry, byte]; field: which bits hold the variable, and its type.
    """
    raw = _bits(entries, field.first_bit, field.kind.bits)
    value = _convert_type(raw, field)
    if not field.optional:
        return value
    there = _bits(entries, field.first_bit - 1, 1) == 1
    return value if there.all() else np.where(there, value.astype(np.float64), np.nan)


def _convert_type(raw: NDArray[np.uint64], field: _Field) -> NDArray[Any]:
    """Return raw bits as values of the declared type."""
    if field.kind.name == "double":
        return raw.view(np.float64)
    if field.kind.name == "bool":
        return np.asarray(raw != 0)
    if field.kind.name == "int" and field.kind.bits < 64:
        sign = np.uint64(1 << (field.kind.bits - 1))
        raw = (raw ^ sign) - sign  # extends the sign; the subtraction wraps round as it should
    return (raw + np.uint64(field.offset % 2**64)).view(np.int64)


def _bits(entries: NDArray[np.uint8], first: int, width: int) -> NDArray[np.uint64]:
    """Return bits first .. first + width - 1 of every entry, the lowest bit of the lowest byte first."""
    byte, shift = divmod(first, 8)
    value = np.zeros(len(entries), dtype=np.uint64)
    for position in range((shift + width + 7) // 8):
        part = entries[:, byte + position].astype(np.uint64)
        offset = 8 * position - shift
        value |= part << np.uint64(offset) if offset >= 0 else part >> np.uint64(-offset)
    return value if width == 64 else value & np.uint64((1 << width) - 1)


_MAX_STATES = 5_000_000
_MAX_INDEX = 8 << 20
_VERSIONS = (0, 1)
_MAX_COUNT = 1 << 40
_COUNTS = ("states", "choices", "branches", "initial-states", "choice-actions", "observations", "players")
_HELPERS = {"_OutOfBoundsBit"}  # not a variable of the model


@dataclass(frozen=True, slots=True)
class Reading:
    """An archive, its index, and the warnings so far.

    system: the description of the transition system; counts: the declared numbers of states, choices and so on.
    """

    archive: Archive
    index: Mapping[str, Any]
    system: Mapping[str, Any]
    counts: Mapping[str, int]
    faults: Faults = field(default_factory=Faults)


def open_index(archive: Archive) -> Reading:
    """Return the index of an archive. Raises InputError unless it declares a model that can be read."""
    content = archive.bytes(INDEX)
    if len(content) > _MAX_INDEX:
        archive.fail(INDEX, f"has {len(content):,} bytes; the limit is {_MAX_INDEX:,}")
    try:
        index = json.loads(bytes(content))
        json.dumps(index, ensure_ascii=False).encode()  # half a character could never be written again
    except (ValueError, RecursionError) as error:
        archive.fail(INDEX, f"is not JSON: {error}")
    if not isinstance(index, dict) or not isinstance(index.get("transition-system"), dict):
        archive.fail(INDEX, "has no transition-system")
    if index.get("format-version") not in _VERSIONS:
        archive.fail(INDEX, f"format-version {index.get('format-version')!r} is unknown", "version 1 is read here")
    system = index["transition-system"]
    counts = {name: _count(archive, system, name) for name in _COUNTS}
    if system.get("time") != "discrete":
        archive.fail(INDEX, f"time is {system.get('time')!r}", "only discrete-time models can be read")
    if counts["players"] > 1:
        archive.fail(INDEX, f"the model is a game of {counts['players']} players", "at most one player can be read")
    if not counts["states"]:
        archive.fail(INDEX, "the model has no states")
    if counts["states"] > _MAX_STATES:
        archive.fail(INDEX, f"the model has {counts['states']:,} states", f"at most {_MAX_STATES:,} can be read")
    return Reading(archive, index, system, counts)


def _count(archive: Archive, system: Mapping[str, Any], name: str) -> int:
    """Return a declared count, which must be a whole number that is not absurd."""
    value = system.get(f"#{name}", 0)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        archive.fail(INDEX, f"transition-system.#{name} is {value!r}, not a count")
    return value


def valuations(reading: Reading, entity: str, count: int) -> dict[str, NDArray[Any]]:
    """Return variable -> its value for every state (or observation).

    entity: "states" or "observations"; count: how many there are.
    Variables of types that NumPy does not hold are left out with a warning, and so are valuations of several classes.
    """
    declared = mapping(reading, mapping(reading, reading.index, "valuations"), entity)
    if not declared:
        return {}
    where, member = f"valuations.{entity}", f"valuations/{entity}/valuations.bin"
    classes = declared.get("classes")
    if not isinstance(classes, list) or len(classes) != 1 or not isinstance(classes[0], dict):
        reading.faults.warn(where, "valuations of several classes are not read", "the entries are named by number")
        return {}
    fields, size = _fields_of(reading.archive, classes[0].get("variables"), f"{where}.classes[0].variables")
    entries = reading.archive.array(member, "u1", count * size).reshape(count, size)
    for skipped in [entry.name for entry in fields if not _is_readable(entry)]:
        reading.faults.warn(f"{where}.{skipped}", "variables of this type are not read")
    kept = [entry for entry in fields if _is_readable(entry) and entry.name not in _HELPERS]
    return {entry.name: frozen(variable(entries, entry)) for entry in kept}


def mapping(reading: Reading, holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a JSON object inside another; nothing is as good as an empty one.

    holder: the outer object; key: where the inner one stands. Raises InputError when something else stands there.
    """
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        reading.archive.fail(INDEX, f"{key} is not an object")
    return value
