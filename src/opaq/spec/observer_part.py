"""The eavesdropper: emissions by state, or sensors, and what it sees of the actions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import SparseRows
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.spec.cursor import at, check_keys, gather, is_int, item, mapping, one_key, unique_names, wrong
from opaq.spec.matrices import check_shape, is_array, matrix_entries, scaled_rows
from opaq.spec.names import Known, Names, distribution, known
from opaq.spec.sensors import read_sensors

KEYS = ("emissions", "observations", "sensors", "null", "actions", "signs", "after_action")
MAX_OBSERVATIONS = 5_000_000
MAX_ENTRIES = 20_000_000  # of a table of emissions


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
    """An observer from emissions {state: {observation: probability}} or an array, or from sensors.

    With after_action {action: emissions}, what is seen in a state depends on the action that led there; `emissions`
    is then for time 0 and for actions not listed.
    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    stated = (emissions, observations, sensors, null, actions, signs, after_action)
    spec = {key: value for key, value in zip(KEYS, stated, strict=True) if value is not None}
    return gather(lambda found: read_observer(spec, path, found, Names.of(mdp)), faults)


def read_observer(value: Any, path: str, faults: Faults, names: Names) -> Observer | None:
    """An observer from its mapping."""
    spec = mapping(_without_null_key(value), path, faults)
    if spec is None:
        return None
    meant = check_keys(spec, path, faults, allowed=KEYS)
    kind = one_key(spec, path, faults, options=("emissions", "sensors"), meant=meant)
    for other in {"emissions": ("null",), "sensors": ("observations", "after_action")}.get(kind or "", ()):
        if other in spec:
            faults.error(at(path, other), f"does not go with '{kind}'", "remove it")
    states = None
    if kind == "sensors":
        null = spec.get("null")
        states = read_sensors(
            spec["sensors"], at(path, "sensors"), faults, names, null="null" if null is None else null
        )
    elif kind == "emissions":
        listed = _observations(spec, path, faults)
        states = _read_table(spec["emissions"], at(path, "emissions"), faults, given=names.states, listed=listed)
    signs = read_signs(spec, path, faults, names.actions)
    if states is None or signs is None:
        return None
    if "after_action" not in spec or kind == "sensors":
        return Observer(*states, *signs)
    after = _read_after(spec["after_action"], at(path, "after_action"), faults, names, *states)
    return None if after is None else Observer(*states, *signs, after)


def check_observer(observer: Observer, path: str, faults: Faults, names: Names) -> None:
    """Note when a finished observer does not fit the model."""
    if names.states.index is not None and observer.emission.num_rows != len(names.states):
        faults.error(path, f"emits in {observer.emission.num_rows:,} states, but the model has {len(names.states):,}")
    after, size = observer.after_action, len(names.states) * len(names.actions)
    if after is not None and names.states.index is not None and after.num_rows != size:
        faults.error(path, f"emits after {after.num_rows:,} pairs of action and state, but the model has {size:,}")
    signs = observer.action_emission
    if signs is not None and names.actions.index is not None and signs.num_rows != len(names.actions):
        faults.error(path, f"sees {signs.num_rows:,} actions, but the model has {len(names.actions):,}")


def _without_null_key(value: Any) -> Any:
    """The same mapping with the key null, which YAML reads as nothing, as the text it is."""
    if not isinstance(value, Mapping) or None not in value:
        return value
    return {("null" if key is None else key): entry for key, entry in value.items()}


def _listed(spec: Mapping[str, Any], key: str, path: str, faults: Faults, *, kind: str) -> Known | None:
    """The names the user lists under a key; None when there is no such list."""
    if key not in spec:
        return None
    return known(kind, unique_names(spec[key], at(path, key), faults, kind=kind, most=MAX_OBSERVATIONS))


def _observations(spec: Mapping[str, Any], path: str, faults: Faults) -> Known | None:
    """The observations listed, else all that are mentioned when some of them stand under `after_action`."""
    listed, after = _listed(spec, "observations", path, faults, kind="observation"), spec.get("after_action")
    if listed is not None or not isinstance(after, Mapping) or not isinstance(spec["emissions"], Mapping):
        return listed
    tables = [spec["emissions"], *(table for table in after.values() if isinstance(table, Mapping))]
    return known("observation", _mentioned(entry for table in tables for entry in table.values()))


def _read_after(
    value: Any, path: str, faults: Faults, names: Names, observations: tuple[str, ...], emission: SparseRows
) -> SparseRows | None:
    """What is seen after every action, [action * num_states + state, observation]."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    seen, actions, size = known("observation", observations), names.actions, len(names.states)
    read: dict[int, SparseRows] = {}
    for key, entry in table.items():
        found = _read_table(entry, at(path, key), faults, given=names.states, listed=seen)
        action = None if key == "*" else actions.find(key, at(path, key), faults)
        if found is None or (action is None and key != "*"):
            return None
        for place in range(len(actions)) if action is None else (action,):
            if key != "*" or place not in read:
                read[place] = found[1]
    tables = [read.get(action, emission) for action in range(len(actions))]
    if _too_many(sum(part.columns.size for part in tables), path, faults):
        return None
    rows = np.concatenate([part.row_of_entry() + action * size for action, part in enumerate(tables)])
    columns, values = (np.concatenate([getattr(part, axis) for part in tables]) for axis in ("columns", "values"))
    return SparseRows.from_entries(rows, columns, values, shape=(len(actions) * size, len(observations)))


def read_signs(
    spec: Mapping[str, Any], path: str, faults: Faults, actions: Known
) -> tuple[tuple[str, ...], SparseRows | None] | None:
    """What is seen of the actions: names and emission."""
    listed = _listed(spec, "signs", path, faults, kind="sign")
    value = spec.get("actions", False)
    if value is False or value is None:
        return (), None
    if value is not True:
        return _read_table(value, at(path, "actions"), faults, given=actions, listed=listed, kind="sign")
    if actions.index is None:
        return None
    same = range(len(actions))
    seen = SparseRows.from_entries(same, same, [1.0] * len(actions), shape=(len(actions), len(actions)))
    return tuple(actions.index), seen


def _read_table(
    value: Any, path: str, faults: Faults, *, given: Known, listed: Known | None, kind: str = "observation"
) -> tuple[tuple[str, ...], SparseRows] | None:
    """What is shown for every state or action: {given: {shown: probability}}, or an array [given, shown]."""
    if is_array(value):
        return _read_matrix(value, path, faults, given=given, listed=listed)
    table = mapping(value, path, faults)
    if table is None:
        return None
    seen = known(kind, _mentioned(table.values())) if listed is None else listed
    rest = distribution(table.pop("*"), at(path, "*"), faults, seen) if (others := "*" in table) else None
    rows: dict[int, dict[int, float] | None] = {}
    for key, entry in table.items():
        shares = distribution(entry, at(path, key), faults, seen)
        place = given.find(key, at(path, key), faults)
        if place is not None and place in rows:
            faults.error(at(path, key), f"the same {given.kind} is there twice", "keep one of them")
        if place is not None:
            rows[place] = shares
    if given.index is None:
        return None
    for name, place in given.index.items():
        if place not in rows and not others:
            faults.error(at(path, name), "is missing", "say what is seen there, or add '*' for all others")
        rows.setdefault(place, rest)
    size = sum(len(shares or ()) for shares in rows.values())
    if _too_many(size, path, faults):
        return None
    return _assemble(rows, given=given, seen=seen)


def _too_many(entries: int, path: str, faults: Faults) -> bool:
    if entries > MAX_ENTRIES:
        found = f"has {entries:,} entries, '*' written out; the limit is {MAX_ENTRIES:,}"
        faults.error(path, found, "let states show fewer observations")
    return entries > MAX_ENTRIES


def _assemble(
    rows: Mapping[int, Mapping[int, float] | None], *, given: Known, seen: Known
) -> tuple[tuple[str, ...], SparseRows] | None:
    signs, values = array("q"), array("d")
    for shares in rows.values():
        signs.extend((shares or {}).keys())
        values.extend((shares or {}).values())
    if None in rows.values() or not signs:
        return None
    places = np.repeat(list(rows), [len(shares or ()) for shares in rows.values()])
    columns, chances = np.array(signs), np.array(values)
    shown = chances > 0
    shape = (len(given), len(seen))
    return tuple(seen.index or ()), SparseRows.from_entries(places[shown], columns[shown], chances[shown], shape=shape)


def _mentioned(entries: Iterable[Any]) -> tuple[str, ...]:
    """Every observation named, in order; what is no name is left for the reader of its row to note."""
    found: dict[str, None] = {}
    for entry in entries:
        for key in entry if isinstance(entry, Mapping) else [entry]:
            if isinstance(key, str) or is_int(key):
                found[str(key)] = None
    return tuple(found)


def _read_matrix(
    value: Any, path: str, faults: Faults, *, given: Known, listed: Known | None
) -> tuple[tuple[str, ...], SparseRows] | None:
    entries = matrix_entries(value, path, faults, axes=(given.kind, "observation"))
    if entries is None:
        return None
    rows, columns, values, shape = entries
    seen = tuple(str(place) for place in range(shape[1])) if listed is None else tuple(listed.index or ())
    if given.index is None or not check_shape(shape, (len(given), len(seen)), path, faults):
        return None
    scaled = scaled_rows(
        rows,
        values,
        num_rows=shape[0],
        entry_path=lambda entry: item(path, int(rows[entry]), int(columns[entry])),
        row_path=lambda row: item(path, row),
        path=path,
        faults=faults,
    )
    blank = sorted(set(range(shape[0])) - set(rows.tolist()))
    for row in blank:
        wrong(0, item(path, row), faults, "a distribution", advice="make the row sum to 1")
    if scaled is None or blank:
        return None
    return seen, SparseRows.from_entries(rows, columns, scaled, shape=shape)
