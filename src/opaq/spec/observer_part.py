"""Read and write the eavesdropper: emissions by state, sensors, or what an imported model shows, and signs of actions.

The mapping of `observer` comes in, a `model.Observer` goes out, and back. It is one of

    observer: {emissions: {q0: {red: 0.9, blue: 0.1}, "*": blue}}      or an array [state, observation]
    observer: {sensors: {A: {covers: goal, detects: 0.8}}}             what is seen is the set that fired, e.g. "A+B"
    observer: {from: model}                                            the observations of an imported model
    observer: {variables: [x]}                                         some of its state variables

`share` merges observations of an imported model and `noise` mixes them up; `actions` says what is seen of the actions,
`after_action` what depends on the action before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opaq.errors import Faults, InputError, suggestion
from opaq.model.arrays import SparseRows
from opaq.model.mdp import MDP
from opaq.model.observer import JOINS, MAX_OBSERVATIONS, NULL, Observer, Sensor, SensorSet, Together, check_observer
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, read_with_faults
from opaq.spec.figure_part import ASSUMES
from opaq.spec.grammar import (
    NAME,
    PROBABILITY,
    Fields,
    Key,
    Kind,
    Plain,
    Record,
    Union,
    ValueType,
    accept_object,
    attributes,
    list_schema,
    map_of,
    mapping_schema,
    one_of,
    raw_value,
    unique_names,
)
from opaq.spec.rows import (
    DISTRIBUTION,
    TABLE,
    NamedRows,
    collect_names,
    exceeds_table_limit,
    read_by_name,
    read_rows,
    rows_by_name,
    write_rows,
)
from opaq.spec.sets import STATES, read_range

_MAX_ENTRIES = 20_000_000  # of the emissions that noise leaves
_MAX_ALIKE = 2_000  # observations that noise may take for each other


def _merge_observations(cursor: Cursor, observer: Observer) -> Observer | None:
    """Return an observer to whom some observations look the same.

    cursor: {common name: [observations]}; an observation under two names, and a common name that an observation has
        which stays as it is, are faults.
    observer: the observer before.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    seen, names = NameTable.of("observation", observer.observations), list(observer.observations)
    before = len(cursor.faults.errors)
    new_name: dict[int, str] = {}
    for key, entry in entries.items():
        for member in entry.items() or []:
            column = seen.find(member)
            if column is None:
                continue
            if column in new_name:
                member.error(f"is shared under '{new_name[column]}' too", "keep one of them")
            new_name[column], names[column] = key, key
    unchanged = {name for column, name in enumerate(observer.observations) if column not in new_name}
    for key in unchanged & set(entries):
        entries[key].error("is an observation that stays as it is", "list it too, or use another name")
    if len(cursor.faults.errors) > before:
        return None
    merged_table = NameTable.of("observation", tuple(dict.fromkeys(names)))
    merged = [(merged_table.index or {})[name] for name in names]
    shape = (len(names), len(merged_table))
    channel = SparseRows.from_entries(np.arange(len(names)), merged, np.ones(len(names)), shape=shape)
    return _apply_channel(observer, channel, merged_table.listed)


def _add_noise(cursor: Cursor, observer: Observer) -> Observer | None:
    """Return an observer that takes observations for others; None after a fault.

    cursor: {keep: probability}, or {observation: {observation: probability}}, where those not listed are seen as they
        are; new observations may be named on the right.
    observer: the observer before.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    if set(entries) == {"keep"} and "keep" not in observer.observations:
        keep = entries["keep"].probability()
        return None if keep is None else _mix_evenly(cursor, observer, keep)
    values = [entry.value for entry in entries.values()]
    mentioned = [str(key) for value in values for key in (value if isinstance(value, Mapping) else [value])]
    names = tuple(dict.fromkeys([*observer.observations, *mentioned]))
    old_table, new_table = NameTable.of("observation", observer.observations), NameTable.of("observation", names)
    channel = rows_by_name(cursor, old_table, new_table, rest={index: {index: 1.0} for index in range(len(old_table))})
    if channel is None or _too_dense(cursor, observer, channel):
        return None
    return _apply_channel(observer, channel, names)


def _mix_evenly(cursor: Cursor, observer: Observer, keep: float) -> Observer | None:
    """Return an observer that sees each observation with probability `keep`, else one of the others, all as likely.

    cursor: for faults; observer: the observer before, returned as it is where fewer than two observations occur.
    The blank that stands for time 0 where observations follow actions is no observation of the model: it stays.
    Returns None after noting more than _MAX_ALIKE observations.
    """
    table = observer.emission if observer.after_action is None else observer.after_action
    columns = np.unique(table.columns)
    if columns.size < 2:
        return observer
    if columns.size > _MAX_ALIKE:
        finding = f"{columns.size:,} observations would be taken for each other, more than {_MAX_ALIKE:,}"
        return cursor.error(finding, "say which: {observation: {observation: probability}}")
    noise = np.eye(len(observer.observations))
    noise[np.ix_(columns, columns)] = (1 - keep) / (columns.size - 1)
    noise[columns, columns] = keep
    channel = SparseRows.from_dense(noise)
    return None if _too_dense(cursor, observer, channel) else _apply_channel(observer, channel, observer.observations)


def _too_dense(cursor: Cursor, observer: Observer, channel: SparseRows) -> bool:
    """Return whether noise would let too many states show too many observations, which is noted.

    channel: [observation, new observation]; each emission becomes as many as its row has entries.
    """
    after = observer.after_action
    columns = observer.emission.columns if after is None else np.concatenate((observer.emission.columns, after.columns))
    entries = int(np.diff(channel.starts)[columns].sum())
    finding = f"makes {entries:,} emissions, more than {_MAX_ENTRIES:,}"
    return cursor.exceeds(entries, _MAX_ENTRIES, finding, "mix up fewer observations")


def _apply_channel(observer: Observer, channel: SparseRows, names: tuple[str, ...]) -> Observer:
    """Return an observer whose observations pass through a channel [observation, new observation].

    names: the new observations.
    """
    after = observer.after_action
    return dataclasses.replace(
        observer,
        observations=names,
        emission=_compose(observer.emission, channel),
        after_action=None if after is None else _compose(after, channel),
    )


def _compose(emission: SparseRows, channel: SparseRows) -> SparseRows:
    """Return the product of an emission [row, observation] and a channel [observation, new observation]."""
    product = (emission.scipy() @ channel.scipy()).tocoo()
    shape = (emission.num_rows, channel.num_columns)
    return SparseRows.from_entries(product.row, product.col, product.data, shape=shape)


_DETECTS = "give the probability that it fires in its range"


def _make_sensor(fields: Fields) -> Sensor | None:
    """Return a sensor without a name, which is the key it stands under; None after a fault.

    fields: `covers` is needed: that of a sensor which a map draws is there by now.
    """
    fields.require("covers", "list the states, cells or labels in its range")
    covers, detects, false_alarm = (fields.read(key) for key in ("covers", "detects", "false_alarm"))
    if covers is None or detects is None or false_alarm is None:
        return None
    return Sensor("", covers, detects, false_alarm)


_COVERS = dataclasses.replace(STATES, read=read_range)
_COVERS_HELP = "Where it can detect; walls are cut. Left out, it is what the map of a grid gives the sensor."
_SENSOR: Record[Sensor] = Record(
    "sensor",
    "Sensors fire independently; the observation is the set that fired, e.g. `A+B`.",
    (
        Key("covers", _COVERS, _COVERS_HELP),
        Key("detects", PROBABILITY, "The probability that it fires where it covers.", required=_DETECTS),
        Key("false_alarm", PROBABILITY, "The probability that it fires elsewhere.", default=0.0),
    ),
    _make_sensor,
    attributes("covers", "detects", "false_alarm"),
)
_SENSORS = map_of(_SENSOR.shape, "name -> sensor")


def _read_sensors(cursor: Cursor, null: str | None) -> SensorSet | None:
    """Return the sensors {name: {covers, detects, false_alarm}}; None after a fault.

    null: the observation when none fires; None when it could not be read.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    if not entries:
        return cursor.error("is empty", "list at least one sensor")
    for key, entry in entries.items():
        if JOINS in key:
            entry.error(f"'{key}' cannot name a sensor", f"'{JOINS}' joins the sensors that fire together")
    sensors, states = _SENSORS.read(_add_ranges(cursor)), cursor.scope.states
    if null in entries:
        return entries[str(null)].error("is also the name for no sensor at all", "rename it or set 'null'")
    if null is None or sensors is None or states.index is None or any(JOINS in name for name in sensors):
        return None
    all_sensors = tuple(replace(sensor, name=name) for name, sensor in sensors.items())
    try:
        return SensorSet(all_sensors, len(states), null, state_names=states.listed)
    except InputError as error:
        for fault in error.faults:
            cursor.error(fault.message, fault.advice)
    return None


def _add_ranges(cursor: Cursor) -> Cursor:
    """Return the cursor of sensors in which those without `covers` have the range that the map of a grid draws.

    A sensor of the map that is not among them is a warning.
    """
    drawn, listed, states = cursor.scope.ranges, cursor.value, cursor.scope.states
    unknown = np.zeros(len(states) if states.index is not None else 0, dtype=bool)
    for name in (drawn or {}).keys() - {str(name) for name in listed}:
        cursor.warn(f"has no sensor '{name}', which the map draws", "it is left out")

    def add(name: str, sensor: Any) -> Any:
        wants = isinstance(sensor, Mapping) and "covers" not in sensor and (drawn is None or name in drawn)
        return {"covers": unknown if drawn is None else drawn[name], **sensor} if wants else sensor

    return replace(cursor, value={name: add(str(name), sensor) for name, sensor in listed.items()})


def _write_sensors(sensor_set: SensorSet) -> Plain:
    """Return the keys that state some sensors: `sensors`, and `null` where it is not the default."""
    null = {"null": sensor_set.null} if sensor_set.null != NULL else {}
    return {"sensors": {sensor.name: sensor for sensor in sensor_set.sensors}} | null


def build_observer(
    mdp: MDP,
    *,
    emissions: Any = None,
    observations: Any = None,
    sensors: Any = None,
    null: Any = None,
    actions: Any = None,
    signs: Any = None,
    after_action: Any = None,
    faults: Faults | None = None,
    path: str = "observer",
) -> Observer:
    """Build an observer of a model's states, and of its actions if it sees them.

    mdp: the model.
    emissions: {state: {observation: probability}} ("*" stands for every state not listed), or an array
        [state, observation]; this or `sensors` is needed.
    observations: the observations, in order; left out, they are those mentioned.
    sensors: {name: {"covers": states, "detects": p, "false_alarm": q}}; what is seen is the set that fired.
    null: the observation when no sensor fires, "null" by default.
    actions: True when every action is seen, or {action: {sign: probability}}; by default none is.
    signs: the signs of actions, in order; left out, they are those mentioned.
    after_action: {action: emissions} where what is seen in a state depends on the action that led there; `emissions`
        is then for time 0 and for actions not listed.
    faults: collects every fault instead of raising InputError; the observer is then None when it is unusable.
    path: what faults call the observer.
    """
    spec = drop_none(emissions=emissions, observations=observations, sensors=sensors, null=null, actions=actions)
    spec |= drop_none(signs=signs, after_action=after_action)
    observer: Observer = read_with_faults(ANY_OBSERVER.read, Scope.of(mdp).cursor(spec, path), faults)
    return observer


def _read(cursor: Cursor) -> Observer | None:
    """Return the observer of a mapping; a key `null` without quotes, which YAML reads as nothing, is meant as text."""
    if isinstance(cursor.value, Mapping) and None in cursor.value:  # YAML reads the key null as nothing
        spec = {("null" if key is None else key): entry for key, entry in cursor.value.items()}
        cursor = dataclasses.replace(cursor, value=spec)
    return OBSERVER.record.read(cursor)


def _check(cursor: Cursor, observer: Any) -> None:
    """Note when a finished observer of tables does not fit the model."""
    sizes = {"num_states": cursor.scope.states.size, "num_actions": cursor.scope.actions.size}
    check_observer(observer, cursor.faults, cursor.path, **sizes)


def _read_emissions(fields: Fields) -> Observer | None:
    """Return the observer of `emissions`, with what it sees of the actions and after them; None after a fault.

    fields: `observations`, `signs`, `actions` and `after_action` may stand beside it.
    """
    listed = _list_observations(fields)
    cursor = fields.at("emissions")
    seen = read_rows(cursor, given=cursor.scope.states, listed=listed)
    signs = _read_signs(fields)
    if seen is None or signs is None:
        return None
    after = _read_after(fields.at("after_action"), seen) if "after_action" in fields else None
    return None if "after_action" in fields and after is None else Observer(*seen, *signs, after)


def _read_sensor_observer(fields: Fields) -> Observer | None:
    """Return the observer of `sensors`, with what it sees of the actions; None after a fault.

    fields: `null` names what is seen when no sensor fires; left out, it is "null".
    """
    null = fields.at("null")
    null_name = NAME.read(null) if null.value is not None else "null"
    if null_name is not None and "+" in null_name:
        null.error(f"'{null_name}' cannot name what no sensor shows", "'+' joins the sensors that fire together")
    sensors = _read_sensors(fields.at("sensors"), null_name)
    signs = _read_signs(fields)
    return None if sensors is None or signs is None else Observer.of_sensors(sensors, *signs)


def _read_model_observer(fields: Fields) -> Observer | None:
    """Return an observer of an imported model: its own observations or some of its variables; None after a fault.

    fields: `from` or `variables`, changed by `share` and then by `noise`; `actions` replaces what it sees of them.
    """
    cursor, imported = fields.at(str(fields.kind)), fields.cursor.scope.imported
    if imported is None:
        if cursor.scope.variables is not None:
            cursor.error("needs a model from another file", "give emissions or sensors")
        return None
    observer = _read_own(cursor) if fields.kind == "from" else _read_variables(cursor)
    if observer is not None and "share" in fields:
        observer = _merge_observations(fields.at("share"), observer)
    if observer is not None and "noise" in fields:
        observer = _add_noise(fields.at("noise"), observer)
    signs = _read_signs(fields)
    if observer is None or signs is None or "actions" not in fields:
        return observer
    return dataclasses.replace(observer, action_signs=signs[0], action_emission=signs[1])


def _read_own(cursor: Cursor) -> Observer | None:
    """Return the imported model's own observer; one that it does not have is a fault."""
    if _MODEL.read(cursor) is None or cursor.scope.imported is None:
        return None
    if cursor.scope.imported.observer is None:
        return cursor.error("the model has no observations of its own", "give emissions, sensors or variables")
    return cursor.scope.imported.observer


def _read_variables(cursor: Cursor) -> Observer | None:
    """Return an observer of some state variables: one observation for every combination of values that occurs.

    cursor: a list of variables; observations are called "x=1,y=true". Returns None after noting unknown ones.
    """
    listed, variables = _VARIABLES.read(cursor), cursor.scope.variables or {}
    unknown = [(index, variable) for index, variable in enumerate(listed or ()) if variable not in variables]
    for index, variable in unknown:
        advice = suggestion(variable, variables, kind="variable")
        cursor.item(index).error(f"unknown variable '{variable}'", advice)
    if listed is None or unknown:
        return None
    columns = [np.unique(np.asarray(variables[variable]), return_inverse=True) for variable in listed]
    seen, of_state = np.unique(np.stack([index for _, index in columns], axis=1), axis=0, return_inverse=True)
    names = [
        ",".join(
            f"{variable}={str(values[index]).lower() if values.dtype == bool else values[index]}"
            for variable, (values, _), index in zip(listed, columns, row, strict=True)
        )
        for row in seen
    ]
    count = len(cursor.scope.states)
    shape = (count, len(names))
    emission = SparseRows.from_entries(np.arange(count), of_state.reshape(-1), np.ones(count), shape=shape)
    return Observer(tuple(names), emission)


def _list_observations(fields: Fields) -> NameTable | None:
    """Return the observations listed, else all that are mentioned when some of them stand under `after_action`.

    Returns None when the emissions alone say which there are.
    """
    if "observations" in fields:
        return NameTable.of("observation", fields.read("observations"))
    emissions, after = fields.at("emissions").value, fields.at("after_action").value
    if not isinstance(after, Mapping) or not isinstance(emissions, Mapping):
        return None
    tables = [emissions, *(table for table in after.values() if isinstance(table, Mapping))]
    return NameTable.of("observation", collect_names(entry for table in tables for entry in table.values()))


def _read_after(cursor: Cursor, seen: NamedRows) -> SparseRows | None:
    """Return the emissions after every action, [action * num_states + state, observation].

    seen: the emissions of time 0, which hold after actions that are not listed too.
    """
    actions, states, listed = cursor.scope.actions, cursor.scope.states, NameTable.of("observation", seen.names)
    tables = read_by_name(cursor, actions, lambda entry: read_rows(entry, given=states, listed=listed))
    if tables is None or None in tables.values() or actions.index is None:
        return None
    parts = [(tables.get(action) or seen).table for action in range(len(actions))]
    if exceeds_table_limit(cursor, sum(part.columns.size for part in parts)):
        return None
    rows = np.concatenate([part.row_of_entry() + action * len(states) for action, part in enumerate(parts)])
    columns, values = (np.concatenate([getattr(part, axis) for part in parts]) for axis in ("columns", "values"))
    return SparseRows.from_entries(rows, columns, values, shape=(len(actions) * len(states), len(seen.names)))


def _read_signs(fields: Fields) -> tuple[tuple[str, ...], SparseRows | None] | None:
    """Return what is seen of the actions, (signs, emission [action, sign]); ((), None) for nothing, None after a fault.

    fields: `actions` is true (each action is its own sign), false, or {action: {sign: probability}}; `signs` gives the
        order of the signs.
    """
    listed = NameTable.of("sign", fields.read("signs")) if "signs" in fields else None
    cursor, actions = fields.at("actions"), fields.cursor.scope.actions
    if cursor.value is False or cursor.value is None:
        return (), None
    if cursor.value is not True:
        return read_rows(cursor, given=actions, listed=listed, kind="sign")
    if actions.index is None:
        return None
    same = range(len(actions))
    return actions.listed, SparseRows.from_entries(same, same, [1.0] * len(same), shape=(len(same), len(same)))


def _parts(observer: Observer, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    states, actions = scope.states.listed, scope.actions.listed
    seen, signs, after = observer.observations, observer.action_emission, observer.after_action
    if observer.sensors is not None:
        parts = _write_sensors(observer.sensors)
    else:
        parts = {"observations": seen, "emissions": write_rows(observer.emission, states, seen)}
    if signs is not None:
        parts |= {"signs": observer.action_signs, "actions": write_rows(signs, actions, observer.action_signs)}
    if after is not None:
        firsts = {name: action * len(states) for action, name in enumerate(actions)}
        parts["after_action"] = {name: write_rows(after, states, seen, first=row) for name, row in firsts.items()}
    return parts


def _read_together(fields: Fields) -> Together | None:
    """Return the observer who sees what others see; None after a fault. Whether they exist is checked with them."""
    names = fields.read("together")
    return None if names is None else Together(names)


def _together_parts(observer: Together, scope: Scope) -> Plain:
    """Return the values of the keys, to be written."""
    return {"together": observer.names}


def _several(scope: Scope) -> bool:
    """Return whether there are several observers that could be together."""
    return len(scope.observers) > 1


def _imported_key(key: Key) -> Kind[Observer]:
    """Return a kind that only models of other tools have, and that is offered only for them."""
    return Kind(key, _read_model_observer, offered=lambda names: names.imported is not None)


_TABLES = ("emissions", "sensors", "from", "variables")  # the kinds that end in tables, of the actions as well
_MODEL = one_of("model")
_VARIABLES = unique_names("variable", 1_000)
_TABLE = raw_value(
    'state -> `{observation: probability}`; `"*"` stands for every state not listed. Also an array '
    "`[state][observation]`",
    TABLE,
)
_ACTIONS = raw_value(
    '`true`, or action -> `{sign: probability}` (`"*"` stands for the rest), or an array `[action][sign]`',
    ({"type": "boolean"}, TABLE),
)
_AFTER = map_of(_TABLE, 'action -> emissions by state; `"*"` stands for every action not listed')
_NULL: ValueType[str] = ValueType("a name", Cursor.name, (NAME, {"type": "null"}))
_SHARE = raw_value("common name -> observations that look the same", mapping_schema(list_schema(NAME)))
_NOISE = raw_value(
    "`{keep: p}` (right with probability p, else any other observation), or observation -> "
    "`{observation: probability}`",
    mapping_schema((PROBABILITY, DISTRIBUTION), least=1),
)
_OBSERVATIONS, _SIGNS = (unique_names(kind, MAX_OBSERVATIONS) for kind in ("observation", "sign"))
_LISTED = "The observations, in order; left out, they are those mentioned."
_AFTER_HELP = "What each state shows after the action that led there; emissions is then for time 0 and other actions."
_TOGETHER = unique_names("observer", 1_000)
_TOGETHER_HELP = "Others of the problem's observers: it sees what all of them see."
OBSERVER: Union[Any] = Union.of(
    "observer",
    "What the eavesdropper sees at every time, the start included.",
    [
        Kind(Key("emissions", _TABLE, "What each state shows."), _read_emissions, Observer, _parts),
        Kind(Key("sensors", _SENSORS, "Sensors that fire independently."), _read_sensor_observer),
        _imported_key(Key("from", _MODEL, "The observations of the imported model itself.")),
        _imported_key(Key("variables", _VARIABLES, "State variables of the imported model, seen exactly.")),
        Kind(Key("together", _TOGETHER, _TOGETHER_HELP), _read_together, Together, _together_parts, offered=_several),
    ],
    (
        Key("assumes", ASSUMES.shape, "What it takes for granted; left out, it knows model and policy."),
        Key("observations", _OBSERVATIONS, _LISTED, goes_with=("emissions",)),
        Key("null", _NULL, 'The observation when no sensor fires; "null" if left out.', goes_with=("sensors",)),
        Key("actions", _ACTIONS, "What is seen of the actions; left out, nothing.", goes_with=_TABLES),
        Key("signs", _SIGNS, "The signs of actions, in order.", goes_with=_TABLES),
        Key("after_action", _AFTER, _AFTER_HELP, goes_with=("emissions",)),
        Key("share", _SHARE, "Observations that cannot be told apart.", goes_with=("from", "variables")),
        Key("noise", _NOISE, "Observations taken for others; comes after share.", goes_with=("from", "variables")),
    ),
    example="""\
observer:
  sensors:
    A: {covers: [[3, 1], [4, 1]], detects: 0.7}
    B: {covers: goal, detects: 0.7, false_alarm: 0.01}
  "null": quiet""",
)
ANY_OBSERVER: ValueType[Any] = accept_object(
    dataclasses.replace(OBSERVER.shape, read=_read), OBSERVER.is_object, _check
)
