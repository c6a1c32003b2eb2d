"""Sets of states, distributions over names, and partitions of the states."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opaq.model.arrays import BoolArray, FloatArray, IntArray, SparseRows, floats, ints
from opaq.model.secret import StateClasses
from opaq.spec.cursor import Cursor, is_int, suggestion
from opaq.spec.grammar import NAME, PROBABILITY, Shape, array_schema, either
from opaq.spec.matrices import dense, right_shape
from opaq.spec.names import Known, Names, cell_name
from opaq.spec.variables import ExpressionError, holds

MAX_ENTRIES = 20_000_000  # of a table of probabilities
CLASS_FORMS = "true, a label, a list of states, or a mapping {class: states}"
START_ADVICE = "say where the run starts: a state, or {state: probability}"


def distribution(cursor: Cursor, names: Known) -> dict[int, float] | None:
    """A distribution {name: probability}, or one name for probability 1, as position -> probability."""
    if isinstance(cursor.value, str) or is_int(cursor.value):
        index = names.find(cursor)
        return None if index is None else {index: 1.0}
    if not isinstance(cursor.value, Mapping):
        return cursor.wrong(f"a mapping {{{names.kind}: probability}}")
    if not cursor.value:
        return cursor.error("is empty", "give probabilities that sum to 1")
    entries = cursor.entries() or {}
    shares = [entry.probability() for entry in entries.values()]
    indices = [names.find(cursor.child(key, key)) for key in entries]
    usable = [share for share in shares if share is not None]
    if len(usable) < len(cursor.value):
        return None  # the sum of some of them means nothing
    scale = cursor.scale_to_one(math.fsum(usable))
    if scale is None or None in indices:
        return None
    if len(set(indices)) < len(indices):
        return cursor.error(f"names a {names.kind} twice, spelled differently", "keep one of them")
    return {index: share * scale for index, share in zip(indices, usable, strict=True) if index is not None}


def rows_by_name(
    cursor: Cursor, given: Known, shown: Known, *, rest: Mapping[int, dict[int, float] | None] | None = None
) -> SparseRows | None:
    """{given: distribution over shown} as a table [given, shown]; "*" and then `rest` stand for names not listed."""
    entries = cursor.entries()
    if entries is None:
        return None
    others = distribution(entries.pop("*"), shown) if (starred := "*" in entries) else None
    rows: dict[int, dict[int, float] | None] = {}
    for key, entry in entries.items():
        shares = distribution(entry, shown)
        index = given.find(cursor.child(key, key))
        if index is not None and index in rows:
            entry.error(f"the same {given.kind} is there twice", "keep one of them")
        if index is not None:
            rows[index] = shares
    for name, index in (given.index or {}).items():
        if index not in rows and not starred and rest is None:
            cursor.child(name, None).error("is missing", "say what is seen there, or add '*' for all others")
        rows.setdefault(index, others if starred or rest is None else rest[index])
    return None if given.index is None else _table(cursor, rows, shape=(len(given), len(shown)))


def _table(
    cursor: Cursor, rows: Mapping[int, Mapping[int, float] | None], *, shape: tuple[int, int]
) -> SparseRows | None:
    """Rows as a table, when all of them could be read and they are not too many."""
    size = sum(len(shares or ()) for shares in rows.values())
    if too_many(cursor, size) or None in rows.values() or not size:
        return None
    columns, values = array("q"), array("d")
    for shares in rows.values():
        columns.extend((shares or {}).keys())
        values.extend((shares or {}).values())
    owner = np.repeat(list(rows), [len(shares or ()) for shares in rows.values()])
    column, chance = np.array(columns), np.array(values)
    used = chance > 0
    return SparseRows.from_entries(owner[used], column[used], chance[used], shape=shape)


def too_many(cursor: Cursor, entries: int) -> bool:
    """Whether a table of probabilities is larger than opaq reads."""
    if entries > MAX_ENTRIES:
        finding = f"has {entries:,} entries, '*' written out; the limit is {MAX_ENTRIES:,}"
        cursor.error(finding, "let states show fewer observations")
    return entries > MAX_ENTRIES


def state_set(cursor: Cursor) -> IntArray | None:
    """A set of states, ascending: a label, a state, a cell, a list of these, an expression, or truth values."""
    value, names = cursor.value, cursor.names
    if is_expression(value):
        value = _truth(cursor)
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return _marked(value, cursor, names.states)
    if value is None and cursor.value is not None:
        return None
    if _is_one_cell(value, names) or not isinstance(value, list | tuple | np.ndarray):
        return _states_of(cursor)
    seen: set[str] = set()
    sets: list[IntArray | None] = []
    for entry in cursor.items() or []:
        states = _states_of(entry)
        spelled = cell_name(entry.value) or str(entry.value)
        if states is not None and spelled in seen:
            entry.error(f"'{spelled}' is listed twice", "keep one of them")
        seen.add(spelled)
        sets.append(states)
    usable = [states for states in sets if states is not None]
    if len(usable) < len(sets) or names.states.index is None:
        return None
    return ints(np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *usable])))


def label_or_states(cursor: Cursor) -> IntArray | None:
    """A set of states where nothing but states makes sense."""
    if (isinstance(cursor.value, bool | Mapping) and not is_expression(cursor.value)) or cursor.value is None:
        return cursor.wrong("a label or a list of states")
    return state_set(cursor)


def is_expression(value: Any) -> bool:
    """Whether a value is {where: expression}."""
    return isinstance(value, Mapping) and set(value) == {"where"} and isinstance(value["where"], str)


def start(cursor: Cursor) -> FloatArray | None:
    """The start: a state, {state: probability}, a list of states (each as likely), or an array [state]."""
    value, states = cursor.value, cursor.names.states
    if _is_vector(value):
        return _start_vector(cursor)
    if isinstance(value, Mapping) and not is_expression(value):
        shares = distribution(cursor, states)
    elif isinstance(value, str | list | tuple | np.ndarray | Mapping) or is_int(value):
        shares = _evenly(cursor)
    else:
        return cursor.wrong("a state, a list of states or a mapping {state: probability}")
    if shares is None:
        return None
    chances = np.zeros(len(states))
    chances[list(shares)] = list(shares.values())
    return floats(chances)


def state_classes(cursor: Cursor) -> StateClasses | None:
    """What about a state is secret: itself, whether it is in a set, or which class of a partition it is in."""
    value, states = cursor.value, cursor.names.states
    if value is False or value is None:
        return cursor.wrong(CLASS_FORMS)
    if isinstance(value, Mapping) and not is_expression(value):
        return _partition(cursor)
    if value is True:
        return None if states.index is None else StateClasses(states.listed, ints(range(len(states))))
    members = state_set(cursor)
    if members is None or states.index is None:
        return None
    if members.size in (0, len(states)):
        cursor.warn(f"holds {'no' if not members.size else 'every'} state", "there is nothing to hide")
    of_state = np.zeros(len(states), dtype=np.int64)
    of_state[members] = 1
    return StateClasses(("no", "yes"), ints(of_state))


def written_states(states: Any, names: Names) -> list[str]:
    """The names of states."""
    listed = names.states.listed
    return [listed[state] for state in np.asarray(states).tolist()]


def written_shares(columns: Any, values: Any, names: tuple[str, ...]) -> dict[str, float]:
    """A row of probabilities by name."""
    return {names[column]: float(value) for column, value in zip(columns.tolist(), values.tolist(), strict=True)}


def _write_start(chances: FloatArray, names: Names) -> dict[str, float]:
    begun = np.flatnonzero(chances)
    return written_shares(begun, chances[begun], names.states.listed)


def _write_classes(classes: StateClasses, names: Names) -> bool | dict[str, list[str]]:
    if classes.names == names.states.listed and classes.of_state.tolist() == list(range(len(names.states))):
        return True
    return {
        name: written_states(np.flatnonzero(classes.of_state == index), names)
        for index, name in enumerate(classes.names)
    }


def _truth(cursor: Cursor) -> BoolArray | None:
    """For {where: expression}, in which states it holds; None when that cannot be told."""
    expression, variables = cursor.child("where", cursor.value["where"]), cursor.names.variables
    if variables is None:
        return None
    if not variables:
        return expression.error("the model has no state variables", "list the states or use a label")
    try:
        return holds(expression.value, variables)
    except ExpressionError as error:
        return expression.error(str(error))


def _marked(mask: BoolArray, cursor: Cursor, states: Known) -> IntArray | None:
    if states.index is None:
        return None
    if mask.shape != (len(states),):
        return cursor.error(f"has shape {mask.shape}, not one truth value for each of {len(states):,} states")
    return ints(np.flatnonzero(mask))


def _is_one_cell(value: Any, names: Names) -> bool:
    """Whether a pair of integers is one cell rather than a list of two states named by integers."""
    index = names.states.index or {}
    spelled = cell_name(value) if isinstance(value, list | tuple) else None
    return spelled in index and not all(str(part) in index for part in value)


def _states_of(cursor: Cursor) -> IntArray | None:
    """The states one name stands for; a state's name wins over the same label."""
    index, labels, value = cursor.names.states.index, cursor.names.labels, cursor.value
    if is_expression(value):
        return state_set(cursor)
    spelled = str(value) if isinstance(value, str) or is_int(value) else None
    if spelled is None or (index is not None and (spelled in index or cell_name(spelled) in index)):
        state = cursor.names.states.find(cursor)
        _warn_if_label(spelled, cursor)
        return None if state is None else ints([state])
    if labels is not None and spelled in labels:
        return labels[spelled]
    if index is None or labels is None:
        return None  # it cannot be told whether the name exists
    if labels and not cell_name(spelled):
        advice = suggestion(spelled, [*labels, *index], kind="name", faults=cursor.faults)
        return cursor.error(f"unknown state or label '{spelled}'", advice)
    cursor.names.states.find(cursor)
    return None


def _warn_if_label(spelled: str | None, cursor: Cursor) -> None:
    names = cursor.names
    label = (names.labels or {}).get(spelled or "")
    if label is not None and label.tolist() != [(names.states.index or {}).get(spelled or "")]:
        cursor.warn(f"'{spelled}' is a state and a label", "it was read as the state; rename one of them")


def _is_vector(value: Any) -> bool:
    """Whether the start is an array of probabilities rather than a list of names."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu"
    return isinstance(value, list | tuple) and any(isinstance(entry, float) for entry in value)


def _start_vector(cursor: Cursor) -> FloatArray | None:
    states, vector = cursor.names.states, dense(cursor, axes=("state",))
    if vector is None or states.index is None or not right_shape(cursor, vector.shape, (len(states),)):
        return None
    outside = np.flatnonzero((vector < 0) | (vector > 1))
    for state in outside.tolist():
        cursor.item(state).error(f"is {vector[state]:.7g}, not a probability", "use a number from 0 to 1")
    scale = None if outside.size else cursor.scale_to_one(float(vector.sum()))
    return None if scale is None else floats(vector * scale)


def _evenly(cursor: Cursor) -> dict[int, float] | None:
    states = state_set(cursor)
    if states is None:
        return None
    if not states.size:
        return cursor.error("is empty", START_ADVICE)
    return {int(state): 1 / states.size for state in states}


def _partition(cursor: Cursor) -> StateClasses | None:
    entries, states = cursor.entries() or {}, cursor.names.states
    if not entries:
        return cursor.error("is empty", f"give {CLASS_FORMS}")
    sets = {key: state_set(entry) for key, entry in entries.items()}
    if states.index is None or any(members is None for members in sets.values()):
        return None
    classes = tuple(sets)
    of_state = np.full(len(states), -1)
    for number, (key, members) in enumerate(sets.items()):
        for state in [] if members is None else members.tolist():
            if of_state[state] >= 0:
                other = classes[of_state[state]]
                entries[key].error(f"state '{states.listed[state]}' is in '{other}' too", "put it in one class")
            of_state[state] = number
    if (of_state < 0).any():
        classes = classes if "other" in classes else (*classes, "other")
        of_state[of_state < 0] = classes.index("other")
    return StateClasses(classes, ints(of_state))


def shares(names: Callable[[Names], Known], words: str) -> Shape[dict[int, float]]:
    """A distribution over names of one kind."""
    return Shape(words, lambda cursor: distribution(cursor, names(cursor.names)), DISTRIBUTION.described)


_CELL = {
    "description": "A grid cell [column, row], row 0 on top.",
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "minItems": 2,
    "maxItems": 2,
}
_SHARES: Shape[Any] = Shape(
    "",
    lambda cursor: None,
    lambda known: {"type": "object", "additionalProperties": PROBABILITY.described(known), "minProperties": 1},
)
_WHERE: Shape[Any] = Shape(
    "`{where: expression}` over state variables",
    lambda cursor: None,
    {
        "type": "object",
        "description": "The states of an imported model in which an expression over its state variables holds, "
        'e.g. {where: "x + y < 3"}.',
        "properties": {"where": {"type": "string", "minLength": 1}},
        "required": ["where"],
        "additionalProperties": False,
    },
    ref="where",
)
STATE: Shape[int] = Shape(
    "a state, or a grid cell `[column, row]`",
    lambda cursor: cursor.names.states.find(cursor),
    lambda known: either(NAME, _CELL)(known) | {"description": "A state, or a grid cell [column, row]."},
    ref="state",
)
STATES: Shape[IntArray] = Shape(
    "a label, a state, a grid cell, a list of these, or `{where: expression}`",
    state_set,
    lambda known: either(STATE, {"type": "array", "items": STATE.described(known)}, _WHERE)(known),
    written_states,
    ref="states",
)
DISTRIBUTION: Shape[Any] = Shape(
    "`{name: probability}`, or one name for probability 1",
    lambda cursor: None,
    lambda known: either(NAME, _SHARES)(known) | {"description": "Probabilities that sum to 1, or one name."},
    ref="distribution",
)
START: Shape[FloatArray] = Shape(
    "a state, a list of states (each as likely), `{state: probability}`, or an array `[state]`",
    start,
    either(STATES, _SHARES, array_schema),
    _write_start,
    ref="start",
)
CLASSES: Shape[StateClasses] = Shape(
    "`true` (the state itself), a set of states (whether it is among them), or `{class: states}` (which class it is "
    'in; states in none are "other")',
    state_classes,
    lambda known: either(
        {"const": True},
        STATES,
        {"type": "object", "additionalProperties": STATES.described(known), "minProperties": 1},
    )(known),
    _write_classes,
    ref="classes",
)
