"""Read models of other tools, and what a problem file lays over them: start, labels, rewards.

A mapping with the key of one format comes in, a `Plant` goes out; the file itself is read by the `Sources` of the
scope. What stands beside the key is an option of the format's reader (`constants`, `reward`, `options`) or an overlay:

    model: {prism: robot.prism, constants: {N: 4}, labels: {home: {where: "x = 0 & y = 0"}}}

`start`, `rewards` and `positions` replace those of the file, `labels` and `named_rewards` are added to them. The
positions of a file are its variables column (or col) and row, or x and y, if it has such.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from opaq.errors import describe_value, is_number, suggestion
from opaq.model.arrays import FloatArray
from opaq.model.mdp import Imported
from opaq.spec.cursor import Cursor, Scope, Sources
from opaq.spec.grammar import (
    NAME,
    TEXT_SCHEMA,
    Fields,
    Key,
    Kind,
    Plain,
    Record,
    Union,
    ValueType,
    list_schema,
    map_of,
    record_type,
)
from opaq.spec.model_part import (
    LABELS,
    NAMED_REWARDS,
    POSITIONS,
    REWARDS,
    ActionTable,
    Plant,
    all_labels,
    expand_rewards,
)
from opaq.spec.sets import START
from opaq.spec.variables import pair_coordinates, place_states


def add_imported(
    name: str, help: str, options: tuple[str, ...] = (), words: str = "a file name, relative to the problem file"
) -> None:
    """Register one more kind of model file, which the sources of a problem read.

    name: its key in problem files.
    help: what the reference page says of it.
    options: the keys of OPTIONS that its reader takes.
    words: what the value is.
    """
    IMPORTED.add(Kind(Key(name, ValueType(words, Cursor.name, TEXT_SCHEMA), help), _make))
    OPTIONS_OF_KIND[name] = options


def _imported_record() -> Record[Plant]:
    """Return the mapping with the kinds that are registered now, each option with those that take it."""
    takers = {key.name: tuple(kind for kind, names in OPTIONS_OF_KIND.items() if key.name in names) for key in OPTIONS}
    options = tuple(dataclasses.replace(key, goes_with=takers[key.name]) for key in OPTIONS)
    record = IMPORTED.record
    return dataclasses.replace(record, keys=(*record.keys, *options, *_OVERLAYS))


def read_imported(cursor: Cursor) -> Plant | None:
    """Return a model of another tool; None after a fault.

    cursor: a mapping with the key of one registered kind. Keys that its kind does not take are unknown there.
    """
    record = _imported_record()
    kinds = [name for name in IMPORTED.kinds if name in cursor.value]
    if len(kinds) == 1:
        others = set(IMPORTED.kinds) - set(kinds)
        keys = (key for key in record.keys if key.name not in others)
        fitting = tuple(key for key in keys if not key.goes_with or kinds[0] in key.goes_with)
        record = dataclasses.replace(record, keys=fitting)
    return record.read(cursor)


def imported_plant(imported: Imported, sources: Sources | None = None) -> Plant:
    """Return an imported model as it is, its own rewards as named rewards, and what may refer to it.

    sources: reads further files that the problem names.
    """
    mdp = dataclasses.replace(place_states(imported.mdp, imported.variables), named_rewards=dict(imported.rewards))
    scope = Scope.of(mdp, sources=sources, imported=imported)
    return Plant(dataclasses.replace(scope, variables=imported.variables), mdp)


def _make(fields: Fields) -> Plant:
    """Return the plant of a file with what the problem says laid over it; one without a model after a fault.

    fields: the mapping of an imported model. Without sources in the scope there is no file to read, which is noted.
    """
    cursor, kind = fields.cursor, str(fields.kind)
    before, sources = len(cursor.faults.errors), cursor.scope.sources
    source = cursor.child(kind, fields.at(kind).value)
    source.name()
    options = {key.name: fields.read(key.name) for key in OPTIONS if key.name in fields}
    if sources is None:
        source.error("is read by load_problem only", "read it first and give its model as 'model'")
    usable = sources is not None and len(cursor.faults.errors) == before
    imported = sources.model(source, kind, options) if sources is not None and usable else None
    if imported is None:
        return Plant(Scope(sources=sources), None)
    plant = _overlay(imported, fields)
    return plant if len(cursor.faults.errors) == before else Plant(plant.scope, None)


def _overlay(imported: Imported, fields: Fields) -> Plant:
    """Return the model with what the problem file says of it: start and rewards replace its own, labels are added.

    imported: the model as its file has it; fields: the mapping with the overlays.
    """
    scope, mdp = imported_plant(imported, fields.cursor.scope.sources)
    if mdp is None:
        return Plant(scope, mdp)
    if "labels" in fields:
        known = LABELS.read(fields.at("labels").within(scope))
        labels = all_labels(known)
        mdp = mdp if labels is None else dataclasses.replace(mdp, labels=labels)
        scope = dataclasses.replace(scope, labels=known)  # a label that is unusable is known all the same
    start = START.read(fields.at("start").within(scope)) if "start" in fields else None
    positions = _POSITIONS.read(fields.at("positions").within(scope)) if "positions" in fields else mdp.positions
    choices = ActionTable.of(mdp)
    entries = {"": fields.at("rewards").within(scope)} if "rewards" in fields else {}
    if "named_rewards" in fields:
        entries |= fields.at("named_rewards").within(scope).entries() or {}
    rewards = {
        name: expand_rewards(REWARDS.read(_expand_labels(entry)), choices, scope.actions)
        for name, entry in entries.items()
    }
    mdp = dataclasses.replace(
        mdp,
        start=mdp.start if start is None else start,
        rewards=rewards.pop("", mdp.rewards),
        named_rewards={**mdp.named_rewards, **rewards},
        positions=positions,
    )
    return Plant(dataclasses.replace(scope, rewards=mdp.named_rewards), mdp)


def _read_positions(cursor: Cursor) -> FloatArray | None:
    """Return positions [state, 2] from two variables [x, y], or from {state: [x, y]}; None after a fault."""
    if not isinstance(cursor.value, list | tuple):
        return POSITIONS.read(cursor)
    variables, names = cursor.scope.variables or {}, [entry.name() for entry in cursor.items() or []]
    if len(names) != 2:
        return cursor.error(f"has {len(names)} variables, not 2", "write [x, y]")
    for index, name in enumerate(names):
        if name is not None and name not in variables:
            cursor.item(index).error(f"unknown variable '{name}'", suggestion(name, variables, kind="variable"))
    if not set(names) <= set(variables):
        return None
    axes = pair_coordinates(variables, *map(str, names))
    return (
        cursor.error("are no coordinates", "name two variables that are numbers") if axes is None else axes.positions()
    )


def _expand_labels(cursor: Cursor) -> Cursor:
    """Return the cursor of rewards with those of labels written out for their states; a state's own entry wins.

    cursor: {label or state: reward}; anything but a mapping comes back as it is.
    """
    if not isinstance(cursor.value, Mapping):
        return cursor
    index, labels = cursor.scope.states.index or {}, cursor.scope.labels or {}
    listed = cursor.scope.states.listed
    of_labels: Plain = {}
    for key, amount in cursor.value.items():
        states = labels.get(key) if isinstance(key, str) and key not in index else None
        of_labels |= {} if states is None else {listed[state]: amount for state in states.tolist()}
    own = {key: amount for key, amount in cursor.value.items() if key in index or key not in labels}
    return dataclasses.replace(cursor, value=of_labels | own)


def _read_constant(cursor: Cursor) -> Any:
    """Return the value of a constant: a number, true or false."""
    if isinstance(cursor.value, bool) or is_number(cursor.value):
        return cursor.value
    return cursor.error(f"is {describe_value(cursor.value)}, not a number or true or false")


def _read_mapping(cursor: Cursor) -> Plain | None:
    """Return a mapping with any values, which the reader of the format checks; None when it is no mapping."""
    entries = cursor.entries()
    return None if entries is None else {key: entry.value for key, entry in entries.items()}


_CONSTANT: ValueType[Any] = ValueType("a number, true or false", _read_constant, {"type": ["number", "boolean"]})
_CONSTANTS = map_of(_CONSTANT, "name -> number, true or false")
OPTIONS = (
    Key("constants", _CONSTANTS, "Values for the constants a model leaves open."),
    Key("reward", NAME, "Which of the file's rewards is the return; the first if left out."),
    Key("options", ValueType("a mapping", _read_mapping, {"type": "object"}), "Arguments of the environment."),
)
_POSITIONS: ValueType[FloatArray] = ValueType(
    "two variables `[x, y]`, or state -> `[x, y]`; x to the right, y up, or down if the variable is called a row",
    _read_positions,
    (list_schema(NAME) | {"minItems": 2, "maxItems": 2}, POSITIONS),
)
_OVERLAYS = (
    Key("start", START, "Where the run starts, in place of the file's own start."),
    Key("labels", LABELS, "Labels beside those of the file."),
    Key("rewards", REWARDS, "Rewards in place of the file's own; labels may stand for their states."),
    Key("named_rewards", NAMED_REWARDS, "Further rewards by name, beside those of the file."),
    Key("positions", _POSITIONS, "Where pictures put the states, in place of the variables col and row or x and y."),
)
OPTIONS_OF_KIND: dict[str, tuple[str, ...]] = {}  # kind -> the options it takes
IMPORTED: Union[Plant] = Union.of(
    "imported",
    "A model of another tool, and what is laid over it.",
    (),
    example='model: {prism: robot.prism, constants: {N: 4}, labels: {home: {where: "x = 0 & y = 0"}}}',
)
add_imported("prism", "A PRISM file, built by Storm.", ("constants", "reward"))
add_imported("jani", "A JANI file, built by Storm.", ("constants", "reward"))
add_imported("drn", "A DRN file, read by Storm.", ("reward",))
add_imported("umb", "A UMB file.", ("reward",))
add_imported("pomdp", "A file of pomdp.org.")
add_imported("gymnasium", "A registered tabular environment.", ("options",), "the id of an environment")
IMPORTED_SHAPE: ValueType[Plant] = record_type("imported", _imported_record)
