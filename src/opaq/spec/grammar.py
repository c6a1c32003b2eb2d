"""The grammar of files: each mapping is described once, and is read, written, checked and documented from that.

A `ValueType` is one kind of value, a `Record` a mapping with fixed keys, a `Union` a mapping with exactly one of
several kinds. Each of them reads a cursor, writes a value back, and gives its JSON schema and its description in the
reference page. The second half of the file is the library of value types: numbers, names, lists, mappings.

    value    ::= ValueType                      read, write, schema, description
    mapping  ::= Record(keys)                   all keys fixed; `one_of`: exactly one of some keys
               | Union(kinds, keys)             exactly one kind, told by its key, and further keys beside it
    key      ::= Key(name, value, help)         required, or with a default; `goes_with` other keys
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from opaq.errors import is_flag, nearest
from opaq.spec.cursor import Cursor, Scope, catch_faults, number_range

T = TypeVar("T")
Plain = dict[str, Any]
_MOST_COMPARED = 20  # unknown keys: with more of them the mapping is not merely misspelt


def write_unchanged(value: Any, scope: Scope) -> Any:
    """Return the value as it is: the `write` of types whose values are plain already.

    scope: not used; every `write` has it.
    """
    return value


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """One kind of value: how it is described, read and written, and its JSON schema.

    description: what the reference page says of it, e.g. "a list of names".
    read: takes the cursor of the value and returns what it means, or None after noting a fault.
    schema: its JSON schema, in which value types stand for their own schemas, tuples for any of several, and functions
        take the definitions so far and return a schema; `resolve_schema` writes it out.
    write: turns a value back into what a file says, given the scope.
    ref: its name among the definitions of the schema; empty: it is written out where it stands.
    inside: the value types it is made of, whose mappings the reference page lists too.
    record: makes the mapping with fixed keys that it is; None for anything else.
    """

    description: str
    read: Callable[[Cursor], T | None]
    schema: Any
    write: Callable[[T, Scope], Any] = write_unchanged
    ref: str = ""
    inside: tuple[ValueType[Any], ...] = ()
    record: Callable[[], Record[Any]] | None = None

    def to_schema(self, definitions: Plain) -> Plain:
        """Return the JSON schema; a type with a `ref` is added to `definitions` once and referred to.

        definitions: the `$defs` of the schema so far, by `ref`; they grow here.
        """
        if self.ref and self.ref in definitions:
            return {"$ref": f"#/$defs/{self.ref}"}
        if self.ref:
            definitions[self.ref] = {}  # it may refer to itself
        schema: Plain = _resolve_schema(self.schema, definitions)
        if not self.ref:
            return schema
        definitions[self.ref] = schema
        return {"$ref": f"#/$defs/{self.ref}"}


def _resolve_schema(form: Any, definitions: Plain) -> Any:
    """Return a JSON schema with its value types, functions of the definitions and tuples (`anyOf`) written out.

    form: a ValueType, a function of the definitions, a tuple, or plain JSON that has these inside.
    definitions: the `$defs` so far, to which value types with a `ref` are added.
    """
    if isinstance(form, ValueType):
        return form.to_schema(definitions)
    if callable(form):
        return form(definitions)
    if isinstance(form, tuple):
        return {"anyOf": _resolve_schema(list(form), definitions)}
    if isinstance(form, list):
        return [_resolve_schema(part, definitions) for part in form]
    return {key: _resolve_schema(part, definitions) for key, part in form.items()} if isinstance(form, dict) else form


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping.

    name: the key itself.
    shape: the type of its value.
    help: what the reference page and the schema say of it, a whole sentence.
    required: the advice when it is missing; empty: it may be left out.
    default: the value when it is left out; a part equal to it is not written.
    goes_with: it needs one of these keys beside it; `otherwise` is the advice without them, which `otherwise_with`
        replaces beside a certain key.
    """

    name: str
    shape: ValueType[Any]
    help: str
    required: str = ""
    default: Any = None
    goes_with: tuple[str, ...] = ()
    otherwise: str = "remove it"
    otherwise_with: Mapping[str, str] = field(default_factory=dict)

    def schema(self, definitions: Plain) -> Plain:
        """Return the JSON schema of its value, with its help and its default."""
        schema = self.shape.to_schema(definitions) | {"description": self.help}
        plain = isinstance(self.default, bool | int | float | str)
        return schema | ({"default": self.default} if plain else {})


@dataclass(frozen=True, slots=True)
class Fields:
    """The keys of one mapping that are there, opened and ready to be read.

    cursor: the mapping itself.
    keys: every key it may have, by name.
    given: the values that are there.
    kind: the key that is there of those of which exactly one must be; None when there is none or more than one.
    misspelled: keys that are missing but were probably meant by an unknown one, which is noted already.
    """

    cursor: Cursor
    keys: Mapping[str, Key]
    given: Mapping[str, Cursor]
    kind: str | None = None
    misspelled: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        """Return whether a key is there, whatever its value."""
        return name in self.given

    def at(self, name: str) -> Cursor:
        """Return the cursor of a key; where the key is not there, one whose value is None."""
        return self.given[name] if name in self.given else self.cursor.child(name, None)

    def require(self, name: str, advice: str) -> None:
        """Note that a key is missing, unless it is there or misspelled.

        name: the key; advice: what to write, e.g. "list the states".
        """
        if name not in self.given and name not in self.misspelled:
            self.at(name).error("is missing", advice)

    def read(self, name: str, scope: Scope | None = None) -> Any:
        """Return the value of a key: its default when it is not there, None when it is unusable.

        name: one of `keys`.
        scope: what the value may refer to; by default what the mapping itself may.
        A key without a default that is not there gives None too: `in` tells the two apart.
        """
        if name not in self.given:
            return self.keys[name].default
        cursor = self.given[name]
        return self.keys[name].shape.read(cursor if scope is None else cursor.within(scope))


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A mapping with fixed keys.

    title: its name in the reference page and in the schema.
    help: what the reference page says of it, a whole sentence.
    keys: every key it may have, in the order of the reference page.
    make: builds a value from the fields; not needed where the fields are opened by hand.
    parts: returns the values of the keys, to be written; None: it is never written.
    one_of: exactly one of these keys must be there.
    example: a piece of a file, for the reference page.
    constraints: parts of the JSON schema beside what the keys say.
    offered: given one of `one_of` and the scope, whether messages list it among what could be given.
    """

    title: str
    help: str
    keys: tuple[Key, ...]
    make: Callable[[Fields], T | None] = lambda fields: None
    parts: Callable[[Any, Scope], Plain] | None = None
    one_of: tuple[str, ...] = ()
    example: str = ""
    constraints: Mapping[str, Any] = field(default_factory=dict)
    offered: Callable[[str, Scope], bool] = lambda name, scope: True

    @property
    def shape(self) -> ValueType[T]:
        """This mapping as the value of a key."""
        return record_type(self.title, lambda: self)

    def read(self, cursor: Cursor) -> T | None:
        """Return what the mapping at a cursor means; None after a fault, also one that the model's checks raise."""

        def make() -> T | None:
            fields = self.open(cursor)
            return None if fields is None else self.make(fields)

        return catch_faults(make, cursor.faults)

    def open(self, cursor: Cursor) -> Fields | None:
        """Return the keys that are there, and note unknown and missing ones.

        cursor: the mapping. Returns None when the value is no mapping. With `one_of` the fields have their `kind`.
        """
        given = cursor.entries()
        if given is None:
            return None
        keys = {key.name: key for key in self.keys}
        misspelled = _note_unknown_keys(cursor, given, tuple(keys))
        known = {name: entry for name, entry in given.items() if name in keys}
        fields = Fields(cursor, keys, known, misspelled=frozenset(misspelled))
        for key in self.keys:
            if key.required:
                fields.require(key.name, key.required)
        return self.choose(fields) if self.one_of else fields

    def choose(self, fields: Fields) -> Fields:
        """Return the fields with their kind, the one key of `one_of`, and note keys that do not go with it.

        The kind stays None, and that is noted, when none or several of `one_of` are there.
        """
        offered = [name for name in self.one_of if name in fields or self.offered(name, fields.cursor.scope)]
        kind = choose_key(fields.cursor, fields.given, offered, fields.misspelled)
        for key in self.keys if kind is not None else ():
            if key.goes_with and key.name in fields and kind not in key.goes_with:
                advice = key.otherwise_with.get(str(kind), key.otherwise)
                fields.at(key.name).error(f"does not go with '{kind}'", advice)
        return replace(fields, kind=kind)

    def write(self, value: T, scope: Scope) -> Plain:
        """Return the mapping of a value, as a file states it.

        value: what `read` returned; scope: the names it refers to.
        Keys at their default are left out, required ones and those of `one_of` are not.
        Raises TypeError without `parts`.
        """
        if self.parts is None:
            raise TypeError(f"a {self.title} is not written")
        keys = {key.name: key for key in self.keys}
        parts = self.parts(value, scope)
        return {
            name: keys[name].shape.write(part, scope)
            for name, part in parts.items()
            if keys[name].required or name in self.one_of or not _is_default(part, keys[name].default)
        }

    def schema(self, definitions: Plain) -> Plain:
        """Return the JSON schema of the mapping; types with a `ref` are added to `definitions`."""
        schema: Plain = {
            "type": "object",
            "description": self.help,
            "properties": {key.name: key.schema(definitions) for key in self.keys},
            "required": [key.name for key in self.keys if key.required],
            "additionalProperties": False,
        }
        if self.one_of:
            schema["oneOf"] = [{"required": [name]} for name in self.one_of]
        needs = {key.name: any_required(key.goes_with) for key in self.keys if key.goes_with}
        return schema | ({"dependentSchemas": needs} if needs else {}) | dict(self.constraints)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One of several things that a mapping may state, told by a key.

    key: the key that tells it, with the type of its value.
    make: builds a value from the fields of the mapping.
    of: the class of the values that are written as this kind; None for another way to write the same class.
    parts: the values of the keys, to be written.
    offered: whether messages list it among what could be given, in a scope.
    """

    key: Key
    make: Callable[[Fields], T | None]
    of: type | None = None
    parts: Callable[[Any, Scope], Plain] | None = None
    offered: Callable[[Scope], bool] = lambda scope: True


@dataclass(frozen=True, slots=True)
class Union(Generic[T]):
    """A mapping with exactly one of several kinds, and further keys beside it; `kinds` is the registry to add to."""

    title: str
    help: str
    kinds: dict[str, Kind[T]]
    keys: tuple[Key, ...] = ()
    example: str = ""

    @classmethod
    def of(cls, title: str, help: str, kinds: Iterable[Kind[T]], *others: Any, **more: Any) -> Union[T]:
        """Return the union of some kinds, each under its key; the other arguments are those of Union."""
        return cls(title, help, {kind.key.name: kind for kind in kinds}, *others, **more)

    def add(self, kind: Kind[T]) -> None:
        """Register one more kind. Raises ValueError when its key is taken."""
        if kind.key.name in self.kinds or kind.key.name in {key.name for key in self.keys}:
            raise ValueError(f"the key '{kind.key.name}' of '{self.title}' is taken")
        self.kinds[kind.key.name] = kind

    @property
    def record(self) -> Record[T]:
        """The mapping with the kinds that are registered now."""
        keys, kinds = (*(kind.key for kind in self.kinds.values()), *self.keys), tuple(self.kinds)
        record = Record(self.title, self.help, keys, self._make, self._parts, kinds, self.example)
        return replace(record, offered=lambda name, scope: self.kinds[name].offered(scope))

    @property
    def shape(self) -> ValueType[T]:
        """This mapping as the value of a key."""
        return record_type(self.title, lambda: self.record)

    def is_object(self, value: Any) -> bool:
        """Return whether a value is a finished object of some kind."""
        return isinstance(value, tuple(kind.of for kind in self.kinds.values() if kind.of is not None))

    def _make(self, fields: Fields) -> T | None:
        """Return the value of the kind that is there; None when there is none, which `Record.choose` has noted."""
        return None if fields.kind is None else self.kinds[fields.kind].make(fields)

    def _parts(self, value: T, scope: Scope) -> Plain:
        """Return the values of the keys, by the first kind of the value's class.

        Raises TypeError when no kind writes that class.
        """
        for kind in self.kinds.values():
            if kind.of is not None and kind.parts is not None and isinstance(value, kind.of):
                return kind.parts(value, scope)
        raise TypeError(f"no kind of '{self.title}' writes {type(value).__name__}")


def record_type(title: str, record: Callable[[], Record[T]]) -> ValueType[T]:
    """Return a mapping as the value of a key.

    title: its name in the reference page, to which the description links, and in the schema.
    record: makes the mapping when it is read, written or described, so that kinds registered later are in it.
    """
    return ValueType(
        f"a mapping: [{title}](#{title})",
        lambda cursor: record().read(cursor),
        lambda definitions: record().schema(definitions),
        lambda value, scope: record().write(value, scope),
        title,
        record=record,
    )


def any_required(names: Iterable[str]) -> Plain:
    """Return the JSON schema that at least one of these keys is there."""
    return {"anyOf": [{"required": [name]} for name in names]}


def choose_key(
    cursor: Cursor, given: Mapping[str, Any], options: Iterable[str], misspelled: Iterable[str] = ()
) -> str | None:
    """Return the only one of the options that is a key of a mapping; None, and a fault, when there is not exactly one.

    cursor: the mapping; given: its keys.
    options: the keys of which one must be there, in the order in which messages list them.
    misspelled: options that an unknown key was meant to be: that none is there is then noted already.
    """
    names = list(options)
    present = [option for option in names if option in given]
    if len(present) == 1:
        return present[0]
    if present:
        both = " and ".join(f"'{option}'" for option in present)
        cursor.error(f"has {both}", "keep one of them")
    elif not set(misspelled) & set(names):
        cursor.error(f"has none of {', '.join(names)}", "give exactly one")
    return None


def _note_unknown_keys(cursor: Cursor, given: Mapping[str, Cursor], allowed: tuple[str, ...]) -> set[str]:
    """Note the keys that do not belong; return the absent keys that they were probably meant to be.

    cursor: the mapping; given: its values by key; allowed: the keys it may have.
    Each unknown key is a fault, with the nearest absent key as advice; beyond _MOST_COMPARED none is looked for.
    """
    misspelled: set[str] = set()
    absent = [option for option in allowed if option not in given]
    for count, key in enumerate(name for name in given if name not in allowed):
        near = nearest(key, absent) if count <= _MOST_COMPARED else []
        misspelled.update(near)
        advice = f"did you mean '{near[0]}'?" if near else f"the keys here are {', '.join(allowed)}"
        given[key].error("unknown key", advice)
    return misspelled


def _is_default(value: Any, default: Any) -> bool:
    """Return whether a part need not be written: it is None, empty where there is no default, or the default."""
    if value is None or default is None:
        return value is None or (isinstance(value, dict | list | tuple | str) and not value)
    return isinstance(value, bool | int | float | str) and value == default


# What records are most often made of.


def build_from_keys(make: Callable[..., T], *names: str) -> Callable[[Fields], T | None]:
    """Return a `make` that calls a function with the values of these keys, in order, when all of them are usable.

    make: the function, e.g. a dataclass; names: the keys of its positional arguments.
    """

    def build(fields: Fields) -> T | None:
        """Return what `make` makes of the values; None when one of them is unusable."""
        values = [fields.read(name) for name in names]
        return None if any(value is None for value in values) else make(*values)

    return build


def attributes(*names: str) -> Callable[[Any, Scope], Plain]:
    """Return a `parts` for values whose attributes are named as the keys are."""
    return lambda value, _: {name: getattr(value, name) for name in names}


def all_or_none(values: list[T | None]) -> list[T] | None:
    """Return the values when none of them is None, else None."""
    usable = [value for value in values if value is not None]
    return usable if len(usable) == len(values) else None


# The library of value types.


def number(low: float = float("-inf"), high: float = float("inf")) -> ValueType[float]:
    """Return the type of a finite number from `low` to `high`, both included; by default any."""
    bounds = {"minimum": low, "maximum": high}
    schema = {"type": "number"} | {key: bound for key, bound in bounds.items() if abs(bound) != float("inf")}
    return ValueType(number_range(low, high), lambda cursor: cursor.number(low=low, high=high), schema)


def whole(low: int, high: int) -> ValueType[int]:
    """Return the type of a whole number from `low` to `high`."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return ValueType(f"a whole number from {low}", lambda cursor: cursor.whole(low=low, high=high), schema)


def one_of(*options: str) -> ValueType[str]:
    """Return the type of one of a few words, written as they are, e.g. one_of("horizon", "forever")."""
    words = " or ".join(f"'{word}'" for word in options)

    def read(cursor: Cursor) -> str | None:
        """Return the word at a cursor; None after noting anything else."""
        known = isinstance(cursor.value, str) and cursor.value in options
        return str(cursor.value) if known else cursor.wrong(words)

    return ValueType(" or ".join(f"`{word}`" for word in options), read, {"enum": list(options)})


def unique_names(kind: str, most: int) -> ValueType[tuple[str, ...]]:
    """Return the type of a list of at most `most` distinct names; messages call one of them a `kind`."""
    return ValueType(
        "a list of names",
        lambda cursor: cursor.unique_names(kind=kind, most=most),
        NAMES,
        lambda names, _: list(names),
    )


def list_of(shape: ValueType[T], description: str) -> ValueType[list[T]]:
    """Return the type of a list whose entries have one type; it is unusable when some entries are.

    shape: the type of the entries; description: what the reference page says of the list.
    """

    def read(cursor: Cursor) -> list[T] | None:
        """Return the values of a list; None when it is no list or one of them is unusable."""
        entries = cursor.items()
        return None if entries is None else all_or_none([shape.read(entry) for entry in entries])

    def write(values: list[T], scope: Scope) -> Any:
        """Return the list of the values as a file states them."""
        return [shape.write(value, scope) for value in values]

    return ValueType(description, read, list_schema(shape), write, inside=(shape,))


def map_of(shape: ValueType[T], description: str, *, ref: str = "") -> ValueType[dict[str, T]]:
    """Return the type of a mapping from any name to values of one type; it is unusable when some values are.

    shape: the type of the values; description: what the reference page says of the mapping.
    ref: its name among the definitions of the schema; empty: it is written out where it stands.
    """

    def read(cursor: Cursor) -> dict[str, T] | None:
        """Return name -> value of a mapping; None when it is no mapping or one of the values is unusable."""
        entries = cursor.entries()
        if entries is None:
            return None
        values = all_or_none([shape.read(entry) for entry in entries.values()])
        return None if values is None else dict(zip(entries, values, strict=True))

    def write(values: Mapping[str, T], scope: Scope) -> Any:
        """Return name -> value as a file states them."""
        return {name: shape.write(value, scope) for name, value in values.items()}

    return ValueType(description, read, mapping_schema(shape), write, ref, (shape,))


def name_of(kind: str, description: str) -> ValueType[int]:
    """Return the type of one known name, read as its position.

    kind: the field of Scope that has the names, e.g. "nodes"; description: what the reference page says.
    """
    return ValueType(description, lambda cursor: getattr(cursor.scope, kind).find(cursor), NAME)


def names_of(kind: str, description: str) -> ValueType[list[int]]:
    """Return the type of one known name or a list of them, read as positions.

    kind: the field of Scope that has the names; description: what the reference page says.
    """
    schema = (NAME, list_schema(NAME))
    return ValueType(description, lambda cursor: getattr(cursor.scope, kind).find_all(cursor), schema)


def raw_value(description: str, schema: Any, **others: Any) -> ValueType[Any]:
    """Return a type that is described here and read by the mapping around it, because it depends on other keys.

    description, schema: as in ValueType; others: further fields of it. Its `read` always returns None.
    """
    return ValueType(description, lambda cursor: None, schema, **others)


def accept_object(
    shape: ValueType[T], is_object: type | Callable[[Any], bool], check: Callable[[Cursor, Any], object]
) -> ValueType[T]:
    """Return the same type where a finished object may stand instead of what a file says.

    is_object: the class of such objects, or a function that recognises them.
    check: notes at the cursor what of an object does not fit the scope; the object is returned all the same.
    """

    def read(cursor: Cursor) -> T | None:
        """Return a finished object after checking it, or what the value means; None after a fault."""
        if not (isinstance(cursor.value, is_object) if isinstance(is_object, type) else is_object(cursor.value)):
            return shape.read(cursor)
        check(cursor, cursor.value)
        value: T = cursor.value
        return value

    return replace(shape, read=read)


def list_schema(form: Any) -> Plain:
    """Return the JSON schema of a list whose entries have the schema `form`."""
    return {"type": "array", "items": form}


def mapping_schema(form: Any, *, least: int = 0) -> Plain:
    """Return the JSON schema of a mapping from any name to `form`, with at least `least` keys."""
    return {"type": "object", "additionalProperties": form} | ({"minProperties": least} if least else {})


def single_key_schema(name: str, form: Any) -> Plain:
    """Return the JSON schema of a mapping with the one key `name`."""
    return {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}


TEXT_SCHEMA: Plain = {"type": "string", "minLength": 1}  # text that is not empty
NAME: ValueType[str] = ValueType(
    "a name",
    Cursor.name,
    {"description": "A name; whole numbers count as names.", "type": ["string", "integer"], "minLength": 1},
    ref="name",
)
NAMES: ValueType[tuple[str, ...]] = ValueType(
    "a list of names",
    lambda cursor: cursor.unique_names(kind="name", most=1_000_000),
    list_schema(NAME) | {"description": "Distinct names.", "minItems": 1, "uniqueItems": True},
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
ARRAY: ValueType[Any] = raw_value(
    "an array",
    list_schema(({"type": "number"}, lambda definitions: ARRAY.to_schema(definitions)))
    | {"description": "An array of numbers, as nested lists."},
    ref="numbers",
)
