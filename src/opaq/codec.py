"""Write results as plain data and read them back: one codec for every frozen dataclass, by its type hints.

A field is one key. Its metadata may say otherwise: `key` renames it, `flat` merges the keys of a part into those of the
whole, `live` leaves out what only exists in memory, `as_text` writes an object as a name, `infinity` writes a number
that JSON does not have as null, `if_known` leaves out what is None, `unless` does where another key stands instead.
What a class lists in DERIVED is written, but not read. Imports: errors.

An object comes in and mappings, lists, texts and finite numbers go out (`encode`), and back (`decode`). Reading
believes
nothing: every key that is missing or of another type is a fault with its path, and all faults are reported at once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from opaq.errors import Fault, Faults, InputError, describe_value, is_flag, is_int, is_number

_Made = TypeVar("_Made")
_MOST_FAULTS = 20
_TEXTS_AND_NUMBERS = frozenset((str, int, float, bool, NoneType))
_KIND = "result"  # the key that says which result an object is


class Result:
    """Base of the results that `to_dict` writes as JSON has them, and `from_dict` reads."""

    __slots__ = ()
    RESULT: ClassVar[str]  # the value of the key "result"
    PRINTED_BY: ClassVar[str]  # the command that prints it
    DERIVED: ClassVar[tuple[str, ...]] = ()  # properties that are written, but not read

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON has it: the keys of docs/answers.md, in their order."""
        return {_KIND: self.RESULT, **encode(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: str = "") -> Self:
        """Return the result that `to_dict` wrote.

        What only existed in memory (policies, compiled problems) is not there: using it raises AttributeError.

        data: as JSON has it; keys that are not known are not looked at.
        source: the file it is from, to be named in messages.
        Raises InputError with every key that is missing or of another type.
        """
        faults = Faults()
        advice = f"give what opaq {cls.PRINTED_BY} prints as JSON"
        kind = kind_of(data)
        if kind != cls.RESULT:
            finding = f"is no {cls.RESULT}" if kind is None else f"is a {kind}, not a {cls.RESULT}"
            raise InputError([Fault("", finding, advice)], source)
        made = decode(cls, data, faults=faults, advice=advice)
        faults.errors = faults.errors[:_MOST_FAULTS]
        faults.raise_if_any(source)
        assert made is not None  # else there is a fault
        return made

    if not TYPE_CHECKING:  # a type checker would take every misspelt attribute for one of these

        def __getattr__(self, name: str) -> Any:
            if any(each.name == name for each in fields(self)):
                raise AttributeError(f"this {self.RESULT} was read from JSON, which holds no {name}")
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def kind_of(data: object) -> str | None:
    """Return which result an object of JSON says it is, None where it does not."""
    kind = data.get(_KIND) if isinstance(data, Mapping) else None
    return kind if isinstance(kind, str) else None


def key(name: str, **metadata: Any) -> dict[str, Any]:
    """Return the metadata of a field that JSON calls by another name.

    metadata: of other kinds, to be kept beside it.
    """
    return {"key": name, **metadata}


def flat() -> dict[str, Any]:
    """Return the metadata of a part whose keys stand among those of the whole.

    Where both have a key, it is the whole's.
    """
    return {"flat": True}


def live() -> dict[str, Any]:
    """Return the metadata of what only exists in memory: it is neither written nor read."""
    return {"live": True}


def as_text(write: Callable[[Any], str], read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the metadata of an object that is written as a name.

    write: object -> its name. read: the name -> the object.
    """
    return {"text": (write, read)}


def if_known() -> dict[str, Any]:
    """Return the metadata of a key that is left out where its value is None."""
    return {"omit": True}


def unless(other: str) -> dict[str, Any]:
    """Return the metadata of a key that is left out where its value is None: then the key `other` stands instead."""
    return {"omit": True, "other": other}


def infinity(value: float, name: str = "") -> dict[str, Any]:
    """Return the metadata of a number that may be infinite: null stands for `value`.

    `name` renames the key, if given. A number that may be None as well is left out then (`if_known`).
    """
    return {"null": value, **({"key": name} if name else {})}


def encode(thing: Any) -> Any:
    """Return a value as plain data: dataclasses and mappings as dicts, sequences and arrays as lists, enums by name.

    thing: anything; what is none of these is returned as it is. Numbers that are not finite become None, paths texts.
    """
    kind: Any = type(thing)
    if kind in _TEXTS_AND_NUMBERS:  # most of any result, so first
        return None if kind is float and not math.isfinite(thing) else thing
    if names := _plain_fields(kind):
        return {name: encode(getattr(thing, name)) for name in names}
    if is_dataclass(thing) and not isinstance(thing, type):
        written: dict[str, Any] = {}
        own = {key_of(field) for field in _fields(type(thing)).values()}
        for name, field in _fields(type(thing)).items():
            value = None if field.metadata.get("live") else getattr(thing, name)
            if value is None and any(field.metadata.get(kind) for kind in ("live", "flat", "omit")):
                continue
            if field.metadata.get("flat"):
                written |= {name: part for name, part in encode(value).items() if name not in own}
            elif "text" in field.metadata:
                written[key_of(field)] = None if value is None else field.metadata["text"][0](value)
            else:
                written[key_of(field)] = encode(value)
        for name in getattr(type(thing), "DERIVED", ()):
            written[name] = encode(getattr(thing, name))
        return written
    if isinstance(thing, Enum):
        return thing.name.lower()
    if isinstance(thing, Mapping):
        return {str(name): encode(value) for name, value in thing.items()}
    if isinstance(thing, tuple | list):
        return [encode(value) for value in thing]
    if isinstance(thing, Path):
        return str(thing)
    if hasattr(thing, "tolist"):  # of NumPy
        return encode(thing.tolist())
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing


def decode(
    cls: type[_Made],
    data: Any,
    *,
    faults: Faults,
    advice: str = "",
    path: str = "",
    known: frozenset[str] = frozenset(),
) -> _Made | None:
    """Return the object of a dataclass that `encode` wrote; None with a fault for every key that does not fit.

    cls: the dataclass. data: as JSON has it. faults: is added to. advice: of every fault.
    path: where the data stand, for messages. known: keys that belong to the whole of which this is a flat part.
    """
    if not isinstance(data, Mapping):
        faults.errors.append(Fault(path, f"is {describe_value(data)}, not a mapping", advice))
        return None
    kind: Any = cls
    before = len(faults.errors)
    values: dict[str, Any] = {}
    own = known | {key_of(field) for field in _fields(kind).values()}
    for name, field in _fields(kind).items():
        where, hint = f"{path}.{key_of(field)}".removeprefix("."), _hints(kind)[name]
        if field.metadata.get("live"):
            continue
        if field.metadata.get("flat"):
            part = _part_of(hint)
            missing = NoneType in get_args(hint) and not (keys_of(part) - own) & data.keys()
            values[name] = None
            if not missing:
                values[name] = decode(part, data, faults=faults, advice=advice, path=path, known=own)
        elif key_of(field) in data:
            values[name] = _read_field(field, hint, data[key_of(field)], where, faults, advice)
        elif field.metadata.get("other") in data:
            values[name] = None
        elif field.default is MISSING and field.default_factory is MISSING:
            faults.errors.append(Fault(where, "is missing", advice))
    return _make(cls, values) if len(faults.errors) == before else None


def key_of(field: Field[Any]) -> str:
    """Return what JSON calls a field."""
    return str(field.metadata.get("key", field.name))


@cache
def keys_of(cls: Any) -> frozenset[str]:
    """Return every key that `encode` writes for a dataclass, those of flat parts included."""
    names = {*getattr(cls, "DERIVED", ())}
    for name, field in _fields(cls).items():
        if field.metadata.get("flat"):
            names |= keys_of(_part_of(_hints(cls)[name]))
        elif not field.metadata.get("live"):
            names.add(key_of(field))
    return frozenset(names)


def _part_of(hint: Any) -> Any:
    """Return the dataclass in a hint, None left aside."""
    return next(each for each in (*get_args(hint), hint) if is_dataclass(each))


@cache
def _fields(cls: Any) -> Mapping[str, Field[Any]]:
    """Return name -> field of a dataclass, in order."""
    return {field.name: field for field in fields(cls)}


@cache
def _plain_fields(cls: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass that is written field by field; () for others, and for all other types."""
    plain = is_dataclass(cls) and not getattr(cls, "DERIVED", ()) and not any(each.metadata for each in fields(cls))
    return tuple(_fields(cls)) if plain else ()


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    """Return name -> type of the fields of a dataclass, with names resolved."""
    return get_type_hints(cls)


def _make(cls: type[_Made], values: Mapping[str, Any]) -> _Made:
    """Return an object with these fields and the defaults of the others; what is live stays unset.

    Neither `__init__` nor `__post_init__` runs: they would ask for what is live.
    """
    kind: Any = cls
    made = object.__new__(cls)
    for name, field in _fields(kind).items():
        if name in values:
            value = values[name]
        elif field.default is not MISSING:
            value = field.default
        elif field.default_factory is not MISSING:
            value = field.default_factory()
        else:
            continue
        object.__setattr__(made, name, value)
    return made


def _read_field(field: Field[Any], hint: Any, value: Any, where: str, faults: Faults, advice: str) -> Any:
    """Return the value of a field, by its metadata and else by its type; None with a fault where it does not fit."""
    if "text" in field.metadata and isinstance(value, str):
        return field.metadata["text"][1](value)
    nothing = NoneType in get_args(hint) and not field.metadata.get("omit")  # None is then written, too
    if "null" in field.metadata and value is None and not nothing:
        return field.metadata["null"]
    return _read(str if "text" in field.metadata else hint, value, where, faults, advice)


def _read(hint: Any, value: Any, where: str, faults: Faults, advice: str) -> Any:
    """Return a value of a type; None with a fault where it is of another one.

    hint: the type, as fields are annotated. where: the path of the value. faults: is added to. advice: of every fault.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        (inner,) = [part for part in parts if part is not NoneType] or [NoneType]
        return _read(inner, value, where, faults, advice)
    if is_dataclass(hint):
        return decode(_part_of(hint), value, faults=faults, advice=advice, path=where)
    if origin is Literal:
        return _expect(
            value in parts and isinstance(value, str), value, " or ".join(map(str, parts)), where, faults, advice
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        names = {each.name.lower(): each for each in hint}
        fits = isinstance(value, str) and value in names
        _expect(fits, value, f"one of {', '.join(names)}", where, faults, advice)
        return names[value] if fits else None
    if origin is tuple or (origin is not None and hasattr(origin, "dtype")):  # a tuple of any length, or an array
        if not isinstance(value, list | tuple):
            return _expect(False, value, "a list", where, faults, advice)
        inner = parts[0] if origin is tuple else float
        read = tuple(_read(inner, each, f"{where}[{index}]", faults, advice) for index, each in enumerate(value))
        return read if origin is tuple else _array(read)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return _expect(False, value, "a mapping", where, faults, advice)
        return {str(name): _read(parts[1], each, f"{where}.{name}", faults, advice) for name, each in value.items()}
    return _plain(hint, value, where, faults, advice)


def _plain(hint: Any, value: Any, where: str, faults: Faults, advice: str) -> Any:
    """Return a number, a flag, a text or a path. Infinite numbers, and those that no float can hold, do not fit."""
    if hint is float:
        fits = is_number(value) and abs(value) <= sys.float_info.max  # so that it is neither infinite nor no number
        _expect(fits, value, "a number", where, faults, advice)
        return float(value) if fits else None
    if hint is int:
        return _expect(is_int(value), value, "a whole number", where, faults, advice)
    if hint is bool:
        return _expect(is_flag(value), value, "true or false", where, faults, advice)
    _expect(isinstance(value, str), value, "a text", where, faults, advice)
    return Path(value) if hint is Path and isinstance(value, str) else value


def _expect(fits: bool, value: Any, expected: str, where: str, faults: Faults, advice: str) -> Any:
    """Return the value, after a fault where it does not fit. expected: what should stand there, in words."""
    if not fits:
        faults.errors.append(Fault(where, f"is {describe_value(value)}, not {expected}", advice))
    return value


def _array(values: tuple[Any, ...]) -> Any:
    """Return numbers as an array, NaN where they are None."""
    import numpy as np

    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
