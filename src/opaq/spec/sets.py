"""Sets of states, the start, and partitions of the states.

states  ::= label | state | cell | region | [states, ...] | truth values [state]
region  ::= {where: expression} | {rectangle: [x0, y0, x1, y1]} | {disc: [x, y, r]}
start   ::= state | [state, ...] (each as likely) | {state: probability} | array [state]
classes ::= true (the state itself) | states (in it or not) | {class: states}
words   ::= classes | {labels: [label, ...]} (which of them hold) | {variable: name} (its value)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opaq.errors import is_int, list_names, suggestion
from opaq.model.arrays import BoolArray, FloatArray, IntArray, distinct, floats, ints
from opaq.model.checks import MASKED, is_masked
from opaq.model.secret import StateClasses
from opaq.spec.cursor import Cursor, NameTable, Scope, cell_name
from opaq.spec.grammar import (
    ARRAY,
    NAME,
    TEXT_SCHEMA,
    ValueType,
    list_schema,
    mapping_schema,
    raw_value,
    single_key_schema,
    unique_names,
)
from opaq.spec.rows import SHARES, check_shape, read_array, read_distribution, write_shares
from opaq.spec.variables import ExpressionError, find_coordinates, holds

CLASS_FORMS = "true, a label, a list of states, or a mapping {class: states}"
REGION_FORMS = '{where: "..."}, {rectangle: [x0, y0, x1, y1]} or {disc: [x, y, r]}'
_SHAPES = {"rectangle": ("x0", "y0", "x1", "y1"), "disc": ("x", "y", "r")}  # shape -> its numbers
_ROUNDING = 1e-9  # of a squared distance
_REST = "other"  # the class of the states that are in no class
START_ADVICE = "say where the run starts: a state, or {state: probability}"


def read_states(cursor: Cursor, *, skipped: Collection[str] = ()) -> IntArray | None:
    """Return a set of states, ascending.

    cursor: a label, a state, a cell, a region, a list of these, or an array of truth values.
    skipped: names of cells that are no states and are left out without a fault.
    A pair of integers is one cell, unless both are states. Returns None after a fault, or when states are not known.
    """
    value, names = cursor.value, cursor.scope
    if is_region(value):
        value = read_region(cursor)
    if is_masked(value):
        return cursor.error(*MASKED)
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return _mark_states(value, cursor, names.states)
    if value is None and cursor.value is not None:
        return None
    if cell_name(value) in skipped and not isinstance(value, np.ndarray):
        return ints([])
    if _is_one_cell(value, names) or not isinstance(value, list | tuple | np.ndarray):
        return _read_entry(cursor)
    cells = _read_cells(value, names.states)
    if cells is not None:
        return cells
    seen: set[str] = set()
    sets: list[IntArray | None] = []
    for entry in cursor.items() or []:
        states = ints([]) if cell_name(entry.value) in skipped else _read_entry(entry)
        text = cell_name(entry.value) or str(entry.value)
        if states is not None and text in seen:
            entry.error(f"'{text}' is listed twice", "keep one of them")
        seen.add(text)
        sets.append(states)
    usable = [states for states in sets if states is not None]
    if len(usable) < len(sets) or names.states.index is None:
        return None
    return ints(distinct(np.concatenate([np.zeros(0, dtype=np.int64), *usable])))


def read_only_states(cursor: Cursor) -> IntArray | None:
    """Return a set of states where nothing else makes sense: true, null and mappings but regions are faults.

    cursor: as for `read_states`. Returns the states ascending; None after a fault.
    """
    if (isinstance(cursor.value, bool | Mapping) and not is_region(cursor.value)) or cursor.value is None:
        return cursor.wrong("a label or a list of states")
    return read_states(cursor)


def read_range(cursor: Cursor) -> IntArray | None:
    """Return the states that a sensor covers, ascending: as `read_states`, where cells that are walls are cut.

    cursor: any set of states; a range that is left empty by that is a warning. Returns None after a fault.
    """
    states = read_states(cursor, skipped=cursor.scope.walls)
    if states is not None and not states.size and cursor.scope.walls:
        cursor.warn("has no free cell", "the sensor detects nothing")
    return states


def is_region(value: Any) -> bool:
    """Return whether a value is {where: expression}, {rectangle: [x0, y0, x1, y1]} or {disc: [x, y, r]}."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    ((key, inside),) = value.items()
    return key in _SHAPES or (key == "where" and isinstance(inside, str))


def read_start(cursor: Cursor) -> FloatArray | None:
    """Return the start as an array of probabilities [state]; None after a fault.

    cursor: a state, {state: probability}, a list of states (each as likely), a region, or an array [state].
        A list that has a decimal number in it is an array: [0.5, 0.5]; a list of integers is one of names.
    """
    value, states = cursor.value, cursor.scope.states
    if _is_vector(value):
        return _read_start_vector(cursor)
    if isinstance(value, Mapping) and not is_region(value):
        shares = read_distribution(cursor, states)
    elif isinstance(value, str | list | tuple | np.ndarray | Mapping) or is_int(value):
        shares = _read_uniform(cursor)
    else:
        return cursor.wrong("a state, a list of states or a mapping {state: probability}")
    if shares is None:
        return None
    chances = np.zeros(len(states))
    chances[list(shares)] = list(shares.values())
    return floats(chances)


def _read_classes(cursor: Cursor) -> StateClasses | None:
    """Return which property of a state is secret: itself, whether it is in a set, or its class of a partition.

    cursor: true, a set of states (classes "no" and "yes"), or {class: states}.
    A set that holds no state or every state is a warning: there is nothing to hide. Returns None after a fault.
    """
    value, states = cursor.value, cursor.scope.states
    if value is False or value is None:
        return cursor.wrong(CLASS_FORMS)
    if isinstance(value, Mapping) and not is_region(value):
        return _read_partition(cursor)
    if value is True:
        return None if states.index is None else StateClasses(states.listed, ints(range(len(states))))
    members = read_states(cursor)
    if members is None or states.index is None:
        return None
    if members.size in (0, len(states)):
        cursor.warn(f"holds {'no' if not members.size else 'every'} state", "there is nothing to hide")
    of_state = np.zeros(len(states), dtype=np.int64)
    of_state[members] = 1
    return StateClasses(("no", "yes"), ints(of_state))


def write_states(states: Any, scope: Scope) -> list[str]:
    """Return the names of states.

    states: their positions, in any sequence; scope: has the names.
    """
    listed = scope.states.listed
    return [listed[state] for state in np.asarray(states).tolist()]


def _write_start(chances: FloatArray, scope: Scope) -> dict[str, float]:
    """Return the start as {state: probability}, states of probability 0 left out."""
    states = np.flatnonzero(chances)
    return write_shares(states, chances[states], scope.states.listed)


def _write_classes(classes: StateClasses, scope: Scope) -> bool | dict[str, list[str]]:
    """Return the classes as a file states them: true for the states themselves, else {class: states}."""
    if classes.names == scope.states.listed and classes.of_state.tolist() == list(range(len(scope.states))):
        return True
    return {
        name: write_states(np.flatnonzero(classes.of_state == index), scope) for index, name in enumerate(classes.names)
    }


def read_region(cursor: Cursor) -> BoolArray | None:
    """Return [state] -> whether it is in a region; None after a fault, or when variables are not known.

    cursor: as `is_region` has it; its scope has the variables, and the coordinates among them.
    """
    ((kind, value),) = cursor.value.items()
    region, variables = cursor.child(kind, value), cursor.scope.variables
    if variables is None:
        return None
    if kind in _SHAPES:
        return _read_shape(region, kind)
    if not variables:
        return region.error("the model has no state variables", "list the states or use a label")
    try:
        return holds(region.value, variables)
    except ExpressionError as error:
        return region.error(str(error))


def _read_shape(cursor: Cursor, kind: str) -> BoolArray | None:
    """Return [state] -> whether its coordinates are in a rectangle or a disc, their edges included.

    cursor: [x0, y0, x1, y1], opposite corners, or [x, y, r]; kind: "rectangle" or "disc".
    """
    entries, words = cursor.items(), _SHAPES[kind]
    if entries is None:
        return None
    if len(entries) != len(words):
        return cursor.error(f"has {len(entries)} numbers, not {len(words)}", f"write [{', '.join(words)}]")
    read = [entry.number(low=0 if word == "r" else -np.inf) for entry, word in zip(entries, words, strict=True)]
    numbers = [each for each in read if each is not None]
    axes = find_coordinates(cursor.scope.variables or {})
    if axes is None:
        return cursor.error("the model has no coordinates", "give it positions, list the states or use a label")
    if len(numbers) < len(read):
        return None
    x, y = axes.x, axes.y
    if kind == "disc":
        return np.asarray((x - numbers[0]) ** 2 + (y - numbers[1]) ** 2 <= numbers[2] ** 2 + _ROUNDING)
    (left, right), (low, high) = sorted(numbers[::2]), sorted(numbers[1::2])
    return np.asarray((x >= left) & (x <= right) & (y >= low) & (y <= high))


def _mark_states(mask: BoolArray, cursor: Cursor, states: NameTable) -> IntArray | None:
    """Return the states that an array of truth values marks; None when it does not have one for each state.

    cursor: where the fault is noted; states: the states of the model.
    """
    if states.index is None:
        return None
    if mask.shape != (len(states),):
        return cursor.error(f"has shape {mask.shape}, not one truth value for each of {len(states):,} states")
    return ints(np.flatnonzero(mask))


def _is_one_cell(value: Any, scope: Scope) -> bool:
    """Return whether a pair of integers is one cell rather than a list of two states named by integers.

    [1, 2] is the cell "(1,2)" where that is a state, unless "1" and "2" are states themselves.
    """
    index = scope.states.index or {}
    text = cell_name(value) if isinstance(value, list | tuple) else None
    return text in index and not all(str(part) in index for part in value)


def _read_cells(value: Any, states: NameTable) -> IntArray | None:
    """Return many cells of a grid at once, each written [c, r]: the usual case, without a cursor for each.

    Returns None where an entry is anything else, unknown or repeated; the slow way then notes what is wrong.
    """
    index = states.index if states.cells else None
    if index is None or not all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in value):
        return None
    positions = [index.get(f"({column},{row})") for column, row in value]
    return (
        None
        if None in positions or len(set(positions)) < len(positions)
        else ints(np.sort(np.array(positions, dtype=np.int64)))
    )


def _read_entry(cursor: Cursor) -> IntArray | None:
    """Return the states of one entry: those of a label, or one state; a state wins over a label of the same name.

    cursor: a name, a cell, or a region.
    Returns None after noting an unknown name, or when names are not known.
    """
    if isinstance(cursor.value, Mapping) and not is_region(cursor.value):
        return cursor.wrong("a name or a region", f"write {REGION_FORMS}")
    index, labels, value = cursor.scope.states.index, cursor.scope.labels, cursor.value
    if is_region(value):
        return read_states(cursor)
    text = str(value) if isinstance(value, str) or is_int(value) else None
    if text is None or (index is not None and (text in index or cell_name(text) in index)):
        state = cursor.scope.states.find(cursor)
        _warn_if_label(text, cursor)
        return None if state is None else ints([state])
    if labels is not None and text in labels:
        return labels[text]
    if index is None or labels is None:
        return None  # it cannot be told whether the name exists
    if labels and not cell_name(text):
        advice = suggestion(text, [*labels, *index], kind="name", faults=cursor.faults)
        return cursor.error(f"unknown state or label '{text}'", advice)
    cursor.scope.states.find(cursor)
    return None


def _warn_if_label(text: str | None, cursor: Cursor) -> None:
    """Warn if a name that was read as a state is that of a label of other states too."""
    names = cursor.scope
    label = (names.labels or {}).get(text or "")
    if label is not None and label.tolist() != [(names.states.index or {}).get(text or "")]:
        cursor.warn(f"'{text}' is a state and a label", "it was read as the state; rename one of them")


def _is_vector(value: Any) -> bool:
    """Return whether the start is an array of probabilities rather than a list of names.

    Numeric NumPy arrays are, and lists with a float in them.
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu"
    return isinstance(value, list | tuple) and any(isinstance(entry, float) for entry in value)


def _read_start_vector(cursor: Cursor) -> FloatArray | None:
    """Return the start from an array [state], scaled to sum to 1; None after a fault."""
    states, vector = cursor.scope.states, read_array(cursor, axes=("state",))
    if vector is None or states.index is None or not check_shape(cursor, vector.shape, (len(states),)):
        return None
    outside = np.flatnonzero((vector < 0) | (vector > 1))
    for state in outside.tolist():
        cursor.item(state).error(f"is {vector[state]:.7g}, not a probability", "use a number from 0 to 1")
    scale = None if outside.size else cursor.scale_to_one(float(vector.sum()))
    return None if scale is None else floats(vector * scale)


def _read_uniform(cursor: Cursor) -> dict[int, float] | None:
    """Return the same probability for every state of a set; None after a fault."""
    states = read_states(cursor)
    if states is None:
        return None
    if not states.size:
        return cursor.error("is empty", START_ADVICE)
    return {int(state): 1 / states.size for state in states}


def _read_partition(cursor: Cursor) -> StateClasses | None:
    """Return the classes of {class: states}, numbered as they are listed; states in none are in a last class "other".

    A state in two classes is noted, and the last one counts.
    Returns None for an empty or unreadable mapping, and for states in no class beside a class called "other".
    """
    entries, states = cursor.entries() or {}, cursor.scope.states
    if not entries:
        return cursor.error("is empty", f"give {CLASS_FORMS}")
    sets = {key: read_states(entry) for key, entry in entries.items()}
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
    rest = np.flatnonzero(of_state < 0)
    if rest.size and _REST in classes:
        listed = list_names(states.listed[state] for state in rest.tolist())
        return entries[_REST].error(
            f"states in no class are '{_REST}' too: {listed}", "rename it, or list them as well"
        )
    if rest.size:
        of_state[rest] = len(classes)
        classes = (*classes, _REST)
    return StateClasses(classes, ints(of_state))


def _read_words(cursor: Cursor) -> StateClasses | None:
    """Return what is told of every state of a run: classes, which of some labels hold, or the value of a variable.

    cursor: as for `_read_classes`, or {labels: [label, ...]} or {variable: name}. Returns None after a fault.
    """
    value = cursor.value
    kind = next(iter(value)) if isinstance(value, Mapping) and len(value) == 1 else ""
    if kind not in ("labels", "variable"):
        return _read_classes(cursor)
    told = cursor.child(kind, value[kind])
    if kind == "variable":
        return _read_variable(told)
    listed, known = unique_names("label", 1_000).read(told), cursor.scope.labels
    unknown = [(index, name) for index, name in enumerate(listed or ()) if known is not None and name not in known]
    for index, name in unknown:
        told.item(index).error(f"unknown label '{name}'", suggestion(name, known or (), kind="label"))
    if not listed or unknown or known is None or cursor.scope.states.index is None:
        return None
    holding = np.zeros((len(cursor.scope.states), len(listed)), dtype=np.int64)
    for column, name in enumerate(listed):
        holding[known[name], column] = 1
    sets, of_state = np.unique(holding, axis=0, return_inverse=True)
    names = [" + ".join(np.array(listed)[row > 0].tolist()) or "none" for row in sets]
    return StateClasses(tuple(names), ints(of_state.reshape(-1)))


def _read_variable(cursor: Cursor) -> StateClasses | None:
    """Return the classes of the states by the value of a state variable, called "x=1"; None after a fault."""
    name, variables = cursor.value, cursor.scope.variables
    if not isinstance(name, str):
        return cursor.wrong("the name of a state variable")
    if variables is None:
        return None
    if not variables:
        return cursor.error("the model has no state variables", "give classes or labels")
    if name not in variables:
        return cursor.error(f"unknown variable '{name}'", suggestion(name, variables, kind="variable"))
    values, of_state = np.unique(np.asarray(variables[name]), return_inverse=True)
    shown = [str(value).lower() if values.dtype == bool else f"{value}" for value in values.tolist()]
    return StateClasses(tuple(f"{name}={value}" for value in shown), ints(of_state.reshape(-1)))


_CELL = list_schema({"type": "integer", "minimum": 0}) | {
    "description": "A grid cell [column, row], row 0 on top.",
    "minItems": 2,
    "maxItems": 2,
}
REGION: ValueType[Any] = raw_value(
    "a region",
    {
        "anyOf": [
            single_key_schema("where", TEXT_SCHEMA),
            *(
                single_key_schema(
                    shape, list_schema({"type": "number"}) | {"minItems": len(words), "maxItems": len(words)}
                )
                for shape, words in _SHAPES.items()
            ),
        ],
        "description": 'The states in which an expression over the state variables holds, e.g. {where: "x + y < 3"}, '
        "or whose coordinates are in a shape, its edges included: {rectangle: [x0, y0, x1, y1]} or {disc: [x, y, r]}.",
    },
    ref="region",
)
STATE: ValueType[int] = ValueType(
    "a state, or a grid cell `[column, row]`",
    lambda cursor: cursor.scope.states.find(cursor),
    {"anyOf": [NAME, _CELL], "description": "A state, or a grid cell [column, row]."},
    ref="state",
)
STATES: ValueType[IntArray] = ValueType(
    "a label, a state, a grid cell, a region, or a list of these; a region is `{where: expression}` over state "
    "variables (of grids: `column`, `row`), `{rectangle: [x0, y0, x1, y1]}` or `{disc: [x, y, r]}`",
    read_states,
    (STATE, REGION, list_schema((STATE, REGION))),
    write_states,
    ref="states",
)
START: ValueType[FloatArray] = ValueType(
    "a state, a list of states (each as likely), `{state: probability}`, or an array `[state]`",
    read_start,
    (STATES, SHARES, ARRAY),
    _write_start,
    ref="start",
)
CLASSES: ValueType[StateClasses] = ValueType(
    "`true` (the state itself), a set of states (whether it is among them), or `{class: states}` (which class it is "
    'in; states in none are "other")',
    _read_classes,
    ({"const": True}, STATES, mapping_schema(STATES, least=1)),
    _write_classes,
    ref="classes",
)
WORDS: ValueType[StateClasses] = ValueType(
    f"{CLASSES.description}, `{{labels: [label, ...]}}` (which of these labels hold) or `{{variable: name}}` (the "
    "value of a state variable)",
    _read_words,
    (CLASSES, single_key_schema("labels", list_schema(TEXT_SCHEMA)), single_key_schema("variable", TEXT_SCHEMA)),
    _write_classes,
    ref="words",
)
