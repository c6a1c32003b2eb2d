"""Values inside UMB members: numbers of the declared types, and state variables packed bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.formats.umb.umb_archive import Archive
from opaq.model.arrays import FloatArray

INDEX = "index.json"
_DEFAULT_BITS = {"bool": 1, "string": 64, "int": 64, "uint": 64, "double": 64, "rational": 128}
_MAX_BITS = 1 << 16


@dataclass(frozen=True, slots=True)
class Kind:
    """The declared type of a value and its size in bits."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Field:
    """One variable of a valuation: which bits of an entry hold it."""

    name: str
    kind: Kind
    first_bit: int  # of the value itself, after the bit that tells whether it is there
    offset: int
    optional: bool


def kind_of(archive: Archive, declared: Any, where: str) -> Kind:
    """The type that the index declares."""
    if not isinstance(declared, dict) or declared.get("type") not in list(_DEFAULT_BITS):  # it may be of any type
        shown = declared.get("type") if isinstance(declared, dict) else declared
        archive.fail(INDEX, f"{where}: the type {shown!r} cannot be read", f"one of {', '.join(_DEFAULT_BITS)}")
    name = declared["type"]
    bits = declared.get("size", _DEFAULT_BITS[name])
    if type(bits) is not int or not 0 < bits <= _MAX_BITS:
        archive.fail(INDEX, f"{where}: a size of {bits!r} bits")
    return Kind(name, bits)


def numbers(archive: Archive, member: str, kind: Kind, count: int) -> FloatArray:
    """`count` numbers of the declared type, as float64."""
    if kind == Kind("double", 64):
        return archive.array(member, "<f8", count).astype(np.float64)
    if kind.name in ("int", "uint") and kind.bits in (8, 16, 32, 64):
        return archive.array(member, f"<{kind.name[0]}{kind.bits // 8}", count).astype(np.float64)
    if kind.name != "rational" or kind.bits % 128:
        archive.fail(member, f"numbers of type {kind.name} with {kind.bits} bits cannot be read")
    return _fractions(archive.array(member, "<u8", count * (kind.bits // 64)).reshape(count, kind.bits // 64))


def _fractions(words: NDArray[np.uint64]) -> FloatArray:
    """Signed numerator and unsigned denominator, lowest word first."""
    half = words.shape[1] // 2
    over, under = words[:, :half], words[:, half:]
    negative = over[:, -1] >> np.uint64(63) == 1
    # Two's complement by hand: as floating-point numbers the words of a small negative number would cancel.
    magnitude = _joined(np.where(negative[:, None], ~over, over)) + negative
    with np.errstate(all="ignore"):
        return np.asarray(np.where(negative, -1.0, 1.0) * magnitude / _joined(under), dtype=np.float64)


def _joined(words: NDArray[np.uint64]) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(words.astype(np.float64) @ np.ldexp(1.0, 64 * np.arange(words.shape[1])), dtype=np.float64)


def fields_of(archive: Archive, declared: Any, where: str) -> tuple[list[Field], int]:
    """The variables of one valuation class, and how many bytes an entry takes."""
    if not isinstance(declared, list):
        archive.fail(INDEX, f"{where}: a list of variables is expected")
    fields: list[Field] = []
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
        fields.append(Field(name, kind, bit + optional, offset, optional))
        bit += kind.bits + optional
    if bit % 8 or bit > 8 * _MAX_BITS:
        archive.fail(INDEX, f"{where}: the variables take {bit} bits, not a whole number of bytes")
    return fields, bit // 8


def _whole(archive: Archive, value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_BITS:
        archive.fail(INDEX, f"{where}: {value!r} is not a number of bits")
    return value


def readable(field: Field) -> bool:
    """Whether the variable is of a type that NumPy can hold."""
    return field.kind == Kind("double", 64) or (field.kind.name in ("bool", "int", "uint") and field.kind.bits <= 64)


def variable(entries: NDArray[np.uint8], field: Field) -> NDArray[Any]:
    """The value of one variable in every entry; one that is not there is NaN."""
    raw = _bits(entries, field.first_bit, field.kind.bits)
    value = _typed(raw, field)
    if not field.optional:
        return value
    there = _bits(entries, field.first_bit - 1, 1) == 1
    return value if there.all() else np.where(there, value.astype(np.float64), np.nan)


def _typed(raw: NDArray[np.uint64], field: Field) -> NDArray[Any]:
    if field.kind.name == "double":
        return raw.view(np.float64)
    if field.kind.name == "bool":
        return np.asarray(raw != 0)
    if field.kind.name == "int" and field.kind.bits < 64:
        sign = np.uint64(1 << (field.kind.bits - 1))
        raw = (raw ^ sign) - sign  # extends the sign; the subtraction wraps round as it should
    return (raw + np.uint64(field.offset % 2**64)).view(np.int64)


def _bits(entries: NDArray[np.uint8], first: int, width: int) -> NDArray[np.uint64]:
    """Bits first .. first + width - 1 of every entry, the lowest bit of the lowest byte first."""
    byte, shift = divmod(first, 8)
    value = np.zeros(len(entries), dtype=np.uint64)
    for position in range((shift + width + 7) // 8):
        part = entries[:, byte + position].astype(np.uint64)
        place = 8 * position - shift
        value |= part << np.uint64(place) if place >= 0 else part >> np.uint64(-place)
    return value if width == 64 else value & np.uint64((1 << width) - 1)
