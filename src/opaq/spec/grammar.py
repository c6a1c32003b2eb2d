"""The grammar of files: each mapping is described once, and is read, written, checked and documented from that.

A `Shape` is one kind of value, a `Record` a mapping with fixed keys, a `Union` a mapping with exactly one of several
kinds. All of them read a cursor, write a value back, and tell their JSON schema and their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from opaq.errors import nearest
from opaq.spec.cursor import Cursor, noting_faults
from opaq.spec.names import Names

T = TypeVar("T")
Plain = dict[str, Any]
_MOST_COMPARED = 20  # unknown keys: with more of them the mapping is not merely misspelt


def plainly(value: Any, names: Names) -> Any:
    """Written as it is."""
    return value


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """One kind of value: in words, how it is read and written, and its JSON schema."""

    words: str
    read: Callable[[Cursor], T | None]
    schema: Any  # a JSON schema in which shapes may stand for theirs, and tuples for any of several; see `resolved`
    write: Callable[[T, Names], Any] = plainly
    ref: str = ""  # its name among the definitions of the schema
    inside: tuple[ValueType[Any], ...] = ()  # what it is made of
    record: Callable[[], Record[Any]] | None = None  # the mapping with fixed keys that it is

    def described(self, definitions: Plain) -> Plain:
        """The JSON schema, by reference where the shape has a name."""
        if self.ref and self.ref in definitions:
            return {"$ref": f"#/$defs/{self.ref}"}
        if self.ref:
            definitions[self.ref] = {}  # it may refer to itself
        schema: Plain = resolve_schema(self.schema, definitions)
        if not self.ref:
            return schema
        definitions[self.ref] = schema
        return {"$ref": f"#/$defs/{self.ref}"}


def resolve_schema(form: Any, definitions: Plain) -> Any:
    """A JSON schema with its shapes, functions of the definitions and alternatives (tuples) written out."""
    if isinstance(form, ValueType):
        return form.described(definitions)
    if callable(form):
        return form(definitions)
    if isinstance(form, tuple):
        return {"anyOf": resolve_schema(list(form), definitions)}
    if isinstance(form, list):
        return [resolve_schema(part, definitions) for part in form]
    return {key: resolve_schema(part, definitions) for key, part in form.items()} if isinstance(form, dict) else form


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping."""

    name: str
    shape: ValueType[Any]
    help: str
    required: str = ""  # what to do when it is missing; empty: it may be left out
    default: Any = None  # the value when it is left out
    goes_with: tuple[str, ...] = ()  # it needs one of these keys beside it
    otherwise: str = "remove it"  # what to do without them
    otherwise_with: Mapping[str, str] = field(default_factory=dict)  # the same beside a certain key

    def schema(self, definitions: Plain) -> Plain:
        """The JSON schema of its value."""
        stated = self.shape.described(definitions) | {"description": self.help}
        plain = isinstance(self.default, bool | int | float | str)
        return stated | ({"default": self.default} if plain else {})


@dataclass(frozen=True, slots=True)
class Fields:
    """The keys of one mapping that are there."""

    cursor: Cursor
    keys: Mapping[str, Key]
    given: Mapping[str, Cursor]
    kind: str | None = None  # the only key of those of which there must be one
    meant: frozenset[str] = frozenset()  # keys that are not there, but misspelt

    def __contains__(self, name: object) -> bool:
        return name in self.given

    def at(self, name: str) -> Cursor:
        """Where a key stands, or would stand."""
        return self.given[name] if name in self.given else self.cursor.child(name, None)

    def require(self, name: str, advice: str) -> None:
        """Note that a key is missing, unless it is there or misspelt."""
        if name not in self.given and name not in self.meant:
            self.at(name).error("is missing", advice)

    def read(self, name: str, **names: Any) -> Any:
        """The value of a key, or its default; None when it is unusable. `names` are known there beside the others."""
        if name not in self.given:
            return self.keys[name].default
        cursor = self.given[name]
        return self.keys[name].shape.read(cursor.naming(**names) if names else cursor)


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A mapping with fixed keys."""

    title: str
    help: str
    keys: tuple[Key, ...]
    make: Callable[[Fields], T | None] = lambda fields: None  # not needed where the fields are opened by hand
    parts: Callable[[Any, Names], Plain] | None = None  # the values of the keys, to be written
    one_of: tuple[str, ...] = ()  # exactly one of these keys is there
    example: str = ""
    constraints: Mapping[str, Any] = field(default_factory=dict)  # of the JSON schema, beside what the keys say
    offered: Callable[[str, Names], bool] = lambda name, names: True  # of `one_of`, named among what could be given

    @property
    def shape(self) -> ValueType[T]:
        """This mapping as the value of a key."""
        return lazily(self.title, lambda: self)

    def read(self, cursor: Cursor) -> T | None:
        """What the mapping states."""

        def make() -> T | None:
            fields = self.open(cursor)
            return None if fields is None else self.make(fields)

        return noting_faults(make, cursor.faults)

    def open(self, cursor: Cursor) -> Fields | None:
        """The keys that are there; those that do not belong, and those that are missing, are noted."""
        given = cursor.entries()
        if given is None:
            return None
        keys = {key.name: key for key in self.keys}
        meant = _unknown_keys(cursor, given, tuple(keys))
        known = {name: entry for name, entry in given.items() if name in keys}
        fields = Fields(cursor, keys, known, meant=frozenset(meant))
        for key in self.keys:
            if key.required:
                fields.require(key.name, key.required)
        return self.choose(fields) if self.one_of else fields

    def choose(self, fields: Fields) -> Fields:
        """The fields with their kind, the only one of the keys of which there must be one."""
        offered = [name for name in self.one_of if name in fields or self.offered(name, fields.cursor.names)]
        kind = one_key(fields.cursor, fields.given, offered, fields.meant)
        for key in self.keys if kind is not None else ():
            if key.goes_with and key.name in fields and kind not in key.goes_with:
                advice = key.otherwise_with.get(str(kind), key.otherwise)
                fields.at(key.name).error(f"does not go with '{kind}'", advice)
        return replace(fields, kind=kind)

    def write(self, value: T, names: Names) -> Plain:
        """The mapping that states a value; keys at their default are left out."""
        if self.parts is None:
            raise TypeError(f"a {self.title} is not written")
        keys = {key.name: key for key in self.keys}
        parts = self.parts(value, names)
        return {
            name: keys[name].shape.write(part, names)
            for name, part in parts.items()
            if keys[name].required or name in self.one_of or not _is_default(part, keys[name].default)
        }

    def schema(self, definitions: Plain) -> Plain:
        """The JSON schema."""
        stated: Plain = {
            "type": "object",
            "description": self.help,
            "properties": {key.name: key.schema(definitions) for key in self.keys},
            "required": [key.name for key in self.keys if key.required],
            "additionalProperties": False,
        }
        if self.one_of:
            stated["oneOf"] = [{"required": [name]} for name in self.one_of]
        needs = {key.name: require_any(key.goes_with) for key in self.keys if key.goes_with}
        return stated | ({"dependentSchemas": needs} if needs else {}) | dict(self.constraints)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One of several things a mapping may state, told by a key."""

    key: Key
    make: Callable[[Fields], T | None]
    of: type | None = None  # the class of the values that are written as this kind
    parts: Callable[[Any, Names], Plain] | None = None
    offered: Callable[[Names], bool] = lambda names: True  # whether it is named among what could be given


@dataclass(frozen=True, slots=True)
class Union(Generic[T]):
    """A mapping with exactly one of several kinds, and keys beside it; `kinds` is the registry to add to."""

    title: str
    help: str
    kinds: dict[str, Kind[T]]
    keys: tuple[Key, ...] = ()
    example: str = ""

    @classmethod
    def of(cls, title: str, help: str, kinds: Iterable[Kind[T]], *others: Any, **more: Any) -> Union[T]:
        """A union of kinds, each under its key; the other arguments are those of Union."""
        return cls(title, help, {kind.key.name: kind for kind in kinds}, *others, **more)

    def add(self, kind: Kind[T]) -> None:
        """One more kind; its key must be new."""
        if kind.key.name in self.kinds or kind.key.name in {key.name for key in self.keys}:
            raise ValueError(f"the key '{kind.key.name}' of '{self.title}' is taken")
        self.kinds[kind.key.name] = kind

    @property
    def record(self) -> Record[T]:
        """The mapping with the kinds there are now."""
        keys, kinds = (*(kind.key for kind in self.kinds.values()), *self.keys), tuple(self.kinds)
        record = Record(self.title, self.help, keys, self._make, self._parts, kinds, self.example)
        return replace(record, offered=lambda name, names: self.kinds[name].offered(names))

    @property
    def shape(self) -> ValueType[T]:
        """This mapping as the value of a key."""
        return lazily(self.title, lambda: self.record)

    def is_made(self, value: Any) -> bool:
        """Whether a value is a finished one of some kind."""
        return isinstance(value, tuple(kind.of for kind in self.kinds.values() if kind.of is not None))

    def _make(self, fields: Fields) -> T | None:
        return None if fields.kind is None else self.kinds[fields.kind].make(fields)

    def _parts(self, value: T, names: Names) -> Plain:
        for kind in self.kinds.values():
            if kind.of is not None and kind.parts is not None and isinstance(value, kind.of):
                return kind.parts(value, names)
        raise TypeError(f"no kind of '{self.title}' writes {type(value).__name__}")


def lazily(title: str, record: Callable[[], Record[T]]) -> ValueType[T]:
    """A mapping as the value of a key, as its record is when it is used."""
    return ValueType(
        f"a mapping: [{title}](#{title})",
        lambda cursor: record().read(cursor),
        lambda definitions: record().schema(definitions),
        lambda value, names: record().write(value, names),
        title,
        record=record,
    )


def require_any(names: Iterable[str]) -> Plain:
    """The schema that one of these keys is there."""
    return {"anyOf": [{"required": [name]} for name in names]}


def one_key(cursor: Cursor, given: Mapping[str, Any], options: Iterable[str], meant: Iterable[str] = ()) -> str | None:
    """The only one of the options that is a key of the mapping; `meant` are misspelt ones noted before."""
    listed = list(options)
    present = [option for option in listed if option in given]
    if len(present) == 1:
        return present[0]
    if present:
        both = " and ".join(f"'{option}'" for option in present)
        cursor.error(f"has {both}", "keep one of them")
    elif not set(meant) & set(listed):
        cursor.error(f"has none of {', '.join(listed)}", "give exactly one")
    return None


def _unknown_keys(cursor: Cursor, given: Mapping[str, Cursor], allowed: tuple[str, ...]) -> set[str]:
    """Note the keys that do not belong; returns the absent keys that they were probably meant to be."""
    meant: set[str] = set()
    absent = [option for option in allowed if option not in given]
    for count, key in enumerate(name for name in given if name not in allowed):
        near = nearest(key, absent) if count <= _MOST_COMPARED else []
        meant.update(near)
        advice = f"did you mean '{near[0]}'?" if near else f"the keys here are {', '.join(allowed)}"
        given[key].error("unknown key", advice)
    return meant


def _is_default(value: Any, default: Any) -> bool:
    """Whether a part need not be written."""
    if value is None or default is None:
        return value is None or (isinstance(value, dict | list | tuple | str) and not value)
    return isinstance(value, bool | int | float | str) and value == default
