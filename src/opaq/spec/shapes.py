"""The library of shapes: numbers, names, lists, mappings; their schemas; and what records are most often made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from opaq.errors import is_flag
from opaq.spec.cursor import Cursor, number_range
from opaq.spec.grammar import Fields, Plain, ValueType
from opaq.spec.names import Names

T = TypeVar("T")


def build_from_keys(make: Callable[..., T], *names: str) -> Callable[[Fields], T | None]:
    """Make a value of the keys named, in order, when all of them are usable."""

    def made(fields: Fields) -> T | None:
        values = [fields.read(name) for name in names]
        return None if any(value is None for value in values) else make(*values)

    return made


def attributes(*names: str) -> Callable[[Any, Names], Plain]:
    """The keys are the attributes of the value."""
    return lambda value, _: {name: getattr(value, name) for name in names}


def number(low: float = float("-inf"), high: float = float("inf")) -> ValueType[float]:
    """A finite number from `low` to `high`."""
    bounds = {"minimum": low, "maximum": high}
    schema = {"type": "number"} | {key: bound for key, bound in bounds.items() if abs(bound) != float("inf")}
    return ValueType(number_range(low, high), lambda cursor: cursor.number(low=low, high=high), schema)


def whole(low: int, high: int) -> ValueType[int]:
    """A whole number from `low` to `high`."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return ValueType(f"a whole number from {low}", lambda cursor: cursor.whole(low=low, high=high), schema)


def one_of(*options: str) -> ValueType[str]:
    """One of a few words."""
    words = " or ".join(f"'{word}'" for word in options)

    def read(cursor: Cursor) -> str | None:
        known = isinstance(cursor.value, str) and cursor.value in options
        return str(cursor.value) if known else cursor.wrong(words)

    return ValueType(" or ".join(f"`{word}`" for word in options), read, {"enum": list(options)})


def unique_names(kind: str, most: int) -> ValueType[tuple[str, ...]]:
    """A list of distinct names."""
    return ValueType(
        "a list of names",
        lambda cursor: cursor.unique_names(kind=kind, most=most),
        NAMES,
        lambda names, _: list(names),
    )


def list_of(shape: ValueType[T], words: str) -> ValueType[list[T]]:
    """A list of values of one shape; None when some are unusable."""

    def read(cursor: Cursor) -> list[T] | None:
        entries = cursor.items()
        return None if entries is None else complete([shape.read(entry) for entry in entries])

    def write(values: list[T], names: Names) -> Any:
        return [shape.write(value, names) for value in values]

    return ValueType(words, read, several(shape), write, inside=(shape,))


def map_of(shape: ValueType[T], words: str, *, ref: str = "") -> ValueType[dict[str, T]]:
    """A mapping from any name to values of one shape; None when some are unusable."""

    def read(cursor: Cursor) -> dict[str, T] | None:
        entries = cursor.entries()
        if entries is None:
            return None
        values = complete([shape.read(entry) for entry in entries.values()])
        return None if values is None else dict(zip(entries, values, strict=True))

    def write(values: Mapping[str, T], names: Names) -> Any:
        return {name: shape.write(value, names) for name, value in values.items()}

    return ValueType(words, read, mapping_to(shape), write, ref, (shape,))


def complete(values: list[T | None]) -> list[T] | None:
    """The values when all of them are usable."""
    usable = [value for value in values if value is not None]
    return usable if len(usable) == len(values) else None


def name_of(kind: str, words: str) -> ValueType[int]:
    """One of the names of a kind that are known there, by its position; `kind` is a field of Names."""
    return ValueType(words, lambda cursor: getattr(cursor.names, kind).find(cursor), NAME)


def names_of(kind: str, words: str) -> ValueType[list[int]]:
    """One name or a list of names of a kind, by their positions."""
    return ValueType(words, lambda cursor: getattr(cursor.names, kind).find_all(cursor), (NAME, several(NAME)))


def unread(words: str, schema: Any, **others: Any) -> ValueType[Any]:
    """A value that the mapping around it reads, because it depends on what else is there."""
    return ValueType(words, lambda cursor: None, schema, **others)


def or_made(
    shape: ValueType[T], is_made: type | Callable[[Any], bool], check: Callable[[Cursor, Any], object]
) -> ValueType[T]:
    """The same shape where a finished value (of a class, or told by a function) may stand too, which is checked."""

    def read(cursor: Cursor) -> T | None:
        if not (isinstance(cursor.value, is_made) if isinstance(is_made, type) else is_made(cursor.value)):
            return shape.read(cursor)
        check(cursor, cursor.value)
        made: T = cursor.value
        return made

    return replace(shape, read=read)


def several(form: Any) -> Plain:
    """The schema of a list."""
    return {"type": "array", "items": form}


def mapping_to(form: Any, *, least: int = 0) -> Plain:
    """The schema of a mapping from any name."""
    return {"type": "object", "additionalProperties": form} | ({"minProperties": least} if least else {})


def only_key(name: str, form: Any) -> Plain:
    """The schema of a mapping with one key."""
    return {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}


WRITTEN: Plain = {"type": "string", "minLength": 1}  # the schema of text that is not empty
NAME: ValueType[str] = ValueType(
    "a name",
    Cursor.name,
    {"description": "A name; whole numbers count as names.", "type": ["string", "integer"], "minLength": 1},
    ref="name",
)
NAMES: ValueType[tuple[str, ...]] = ValueType(
    "a list of names",
    lambda cursor: cursor.unique_names(kind="name", most=1_000_000),
    several(NAME) | {"description": "Distinct names.", "minItems": 1, "uniqueItems": True},
    ref="names",
)
TEXT: ValueType[str] = ValueType(
    "text",
    lambda cursor: cursor.value if isinstance(cursor.value, str) else cursor.wrong("text"),
    {"type": "string"},
)
FLAG: ValueType[bool] = ValueType(
    "`true` or `false`",
    lambda cursor: bool(cursor.value) if is_flag(cursor.value) else cursor.wrong("true or false"),
    {"type": "boolean"},
)
REWARD: ValueType[float] = ValueType("a number", Cursor.reward, {"type": "number"})
PROBABILITY: ValueType[float] = ValueType(
    "a number from 0 to 1",
    Cursor.probability,
    {"description": "A number from 0 to 1.", "type": "number", "minimum": 0, "maximum": 1},
    ref="probability",
)
ARRAY: ValueType[Any] = unread(
    "an array",
    several(({"type": "number"}, lambda known: ARRAY.described(known)))
    | {"description": "An array of numbers, as nested lists."},
    ref="numbers",
)
