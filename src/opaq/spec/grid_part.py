"""Read the grid shorthand: cells [column, row], row 0 on top; a blocked move stays put.

The mapping of `grid` comes in, a `Plant` goes out: the MDP whose states are the free cells "(column,row)", numbered
row by row, and the scope of the parts after it. A grid is written back as a plain `model`.

With slip p an action moves to each side of its direction with probability p, and ahead with 1 - 2p.

    grid: {size: [4, 3], walls: [[1, 1]], start: [0, 0], slip: 0.1, rewards: [{cells: [[3, 0]], reward: 1}]}
    grid: {map: [S..G, .#.x], legend: {G: {label: goal}}, rewards: {goal: 1}}

A map has a letter per cell; the legend says what letters mean: walls, traps, starts, labels, the ranges of sensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Faults, describe_value, list_names
from opaq.model.arrays import BoolArray, FloatArray, IntArray, floats, ints
from opaq.model.mdp import MDP
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, parse_cell, read_with_faults
from opaq.spec.grammar import (
    FLAG,
    NAME,
    REWARD,
    TEXT_SCHEMA,
    Fields,
    Key,
    Record,
    ValueType,
    all_or_none,
    any_required,
    list_schema,
    map_of,
    mapping_schema,
    number,
    raw_value,
    whole,
)
from opaq.spec.model_part import (
    LABELS,
    ActionTable,
    Plant,
    assemble,
    check_label,
    mdp_of,
    model_scope,
    tabulate_choices,
)
from opaq.spec.sets import REGION, REGION_FORMS, START, STATE, STATES, is_region, read_region, read_start, read_states

_MAX_CELLS = 1_000_000
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west as (column, row)
_START = "say where the run starts: cells, {cell: probability}, {column: c} or {row: r}"


_LETTERS = {"#": ("wall",), ".": ("free",), "S": ("start",), "x": ("trap",)}  # unless the legend says otherwise
_ROUNDING = 1e-9  # of a squared distance
_WORDS = ("wall", "free", "trap", "start")


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What one letter of a map means: any of _WORDS, labels, and sensors whose range reaches `radius` cells from it."""

    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    sensors: tuple[str, ...] = ()
    radius: float = 0.0


@dataclass(frozen=True, slots=True)
class _Map:
    """A map: a letter for every cell, and what the letters mean."""

    letters: NDArray[np.str_]  # [row, column]
    legend: Mapping[str, tuple[_Meaning, ...]]
    complete: bool = True  # False after faults: letters without a meaning count as free

    def marks(self, kind: str) -> dict[str, BoolArray]:
        """Return name -> [row, column]: where it is drawn; of a sensor, all cells in its range, walls among them.

        kind: which names, "words", "labels" or "sensors".
        """
        nowhere = np.zeros(self.letters.shape, dtype=bool)
        marked = dict.fromkeys(_WORDS, nowhere) if kind == "words" else {}
        rows, columns = np.indices(self.letters.shape)
        for letter, meanings in self.legend.items():
            for meaning in meanings:
                cells = self.letters == letter
                for row, column in np.argwhere(cells) if kind == "sensors" and meaning.radius else ():
                    cells |= (columns - column) ** 2 + (rows - row) ** 2 <= meaning.radius**2 + _ROUNDING
                marked |= {name: marked.get(name, nowhere) | cells for name in getattr(meaning, kind)}
        return marked


@dataclass(frozen=True, slots=True)
class _Board:
    """The cells that are no walls, numbered row by row."""

    width: int
    height: int
    number: IntArray  # [row, column] -> state, -1 for a wall
    map: _Map | None = None

    def states(self, marked: BoolArray) -> BoolArray:
        """Return [state]: True for those whose cell is marked; marked: [row, column]."""
        return marked[self.number >= 0]

    def walls(self) -> frozenset[str]:
        """Return the names of the cells that are walls."""
        return frozenset(f"({column},{row})" for row, column in np.argwhere(self.number < 0).tolist())

    def free(self) -> tuple[IntArray, IntArray]:
        """Return the columns and the rows of the states, each [state]."""
        rows, columns = np.nonzero(self.number >= 0)
        return columns, rows

    def names(self) -> tuple[str, ...]:
        """Return the state names, (column,row)."""
        return tuple(f"({column},{row})" for column, row in zip(*(axis.tolist() for axis in self.free()), strict=True))

    def after(self, move: tuple[int, int]) -> IntArray:
        """Return [state] -> the state in which a move ends: the neighbour, or the same cell when that is blocked.

        move: (columns, rows) to go by, one of _MOVES.
        """
        columns, rows = self.free()
        own = self.number[rows, columns]
        columns, rows = columns + move[0], rows + move[1]
        inside = (columns >= 0) & (columns < self.width) & (rows >= 0) & (rows < self.height)
        target = self.number[rows.clip(0, self.height - 1), columns.clip(0, self.width - 1)]
        return np.where(inside & (target >= 0), target, own)


def build_grid(
    *,
    start: Any = None,
    width: Any = None,
    height: Any = None,
    size: Any = None,
    map: Any = None,
    legend: Any = None,
    walls: Any = (),
    traps: Any = (),
    slip: Any = 0.0,
    stay: Any = False,
    rewards: Any = None,
    named_rewards: Any = None,
    labels: Any = None,
    faults: Faults | None = None,
    path: str = "grid",
) -> MDP:
    """Build a grid world with the actions N, E, S, W (and a certain "stay").

    start: cells [column, row] (each as likely), {cell: probability}, {"column": c} or {"row": r}; needed unless the
        map has it.
    width, height, size: how many columns and rows, or both as [width, height].
    map: instead of a size, a letter for every cell: one text with a line per row, or a list of rows.
    legend: {letter: meaning}, a meaning being "wall", "free", "trap", "start", {"label": name},
        {"sensor": name, "radius": cells} or a list of these; "#", ".", "x" and "S" mean the first four without it.
    walls: cells that cannot be entered; they are not states.
    traps: cells that hold the agent for ever.
    slip: the probability to move to each side of the intended direction.
    stay: whether there is an action "stay" that always succeeds.
    rewards: [{"cells": [...], "reward": 1}], or {label or cell: number} where "*" is every other cell.
    named_rewards: further rewards by name, each written as `rewards` are.
    labels: {label: cells}.
    faults: collects every fault instead of raising InputError; the model is then None when it is unusable.
    path: what faults call the grid.
    """
    spec = {"walls": walls, "traps": traps, "slip": slip, "stay": stay}
    spec |= drop_none(start=start, width=width, height=height, size=size, map=map, legend=legend)
    spec |= drop_none(rewards=rewards, named_rewards=named_rewards, labels=labels)
    return read_with_faults(lambda cursor: mdp_of(GRID.read(cursor)), Scope().cursor(spec, path), faults)


def _make(fields: Fields) -> Plant:
    """Build the model of a grid from its keys.

    fields: the mapping of `grid`. The model is None when a part is unusable; the parts after it are read all the same.
    """
    board = _read_board(fields)
    drawn = None if board is None else board.map
    stay, slip = fields.read("stay"), fields.read("slip")
    actions = ("N", "E", "S", "W", "stay") if stay else ("N", "E", "S", "W")
    cells = NameTable.of("state", None if board is None else board.names(), cells=True)
    axes = None if board is None else dict(zip(("column", "row"), board.free(), strict=True))
    scope = model_scope(fields, cells, NameTable.of("action", actions), axes)
    if board is not None and (drawn is None or drawn.complete):
        labels = {} if drawn is None else {name: board.states(mask) for name, mask in drawn.marks("labels").items()}
        ranges = {} if drawn is None else {name: board.states(mask) for name, mask in drawn.marks("sensors").items()}
        scope = replace(scope, labels=_add_labels(scope.labels, labels), walls=board.walls(), ranges=ranges)
    else:
        scope = replace(scope, labels=None if "map" in fields else scope.labels, ranges=None)
    traps = fields.read("traps", scope)
    start = _read_start(fields, scope, board)
    choices = None
    if board is not None and slip is not None and traps is not None:
        if drawn is not None:
            traps = np.union1d(traps, np.flatnonzero(board.states(drawn.marks("words")["trap"])))
        choices = _tabulate_moves(board, slip=slip, stay=bool(stay), traps=traps)
    return assemble(fields, scope, choices=choices, start=start, where=fields.cursor)


def _add_labels(stated: Mapping[str, IntArray | None] | None, drawn: Mapping[str, BoolArray]) -> Any:
    """Return label -> states with what the map draws added to what `labels` lists; None where that is unusable."""
    if stated is None:
        return None
    labels = dict(stated)
    for name, mask in drawn.items():
        more, listed = np.flatnonzero(mask), labels.get(name, ints([]))
        labels[name] = None if listed is None else ints(np.union1d(listed, more))
    return labels


def _read_board(fields: Fields) -> _Board | None:
    """Return the board of `map`, or of `size` (or `width` and `height`), and `walls`.

    Returns None after a fault: more than _MAX_CELLS cells, a wall outside, or no free cell.
    """
    if "legend" in fields and "map" not in fields:
        fields.at("legend").error("needs a map", "remove it, or draw the cells in 'map'")
    drawn = _read_map(fields) if "map" in fields else None
    sides = _read_size(fields) if "map" not in fields else None if drawn is None else drawn.letters.shape[::-1]
    if sides is None:
        return None
    width, height = sides
    if width * height > _MAX_CELLS:
        return fields.cursor.error(f"has {width * height:,} cells, more than {_MAX_CELLS:,}")
    blocked = _read_walls(fields.at("walls"), (width, height)) if "walls" in fields else np.zeros((height, width), bool)
    if blocked is None:
        return None
    blocked = blocked if drawn is None else blocked | drawn.marks("words")["wall"]
    if blocked.all():
        return fields.at("walls" if drawn is None else "map").error("leave no free cell")
    return _Board(width, height, np.where(blocked, -1, np.cumsum(~blocked).reshape(blocked.shape) - 1), drawn)


def _read_map(fields: Fields) -> _Map | None:
    """Return the map with its legend, incomplete after noting unknown letters and unused ones.

    None after noting rows of other lengths, since the parts after it then have no cells to refer to.

    fields: `map`, a text or a list of rows, beside `legend`; a size beside it is a fault.
    """
    cursor, before = fields.at("map"), len(fields.cursor.faults.errors)
    for key in ("size", "width", "height"):
        if key in fields:
            fields.at(key).error("does not go with 'map'", "remove it: the map has a size")
    rows = _read_rows(cursor)
    legend: dict[str, tuple[_Meaning, ...]] = {letter: (_Meaning(words),) for letter, words in _LETTERS.items()}
    stated = fields.read("legend") if "legend" in fields else {}
    legend |= stated or {}
    if rows is None:
        return None
    width = Counter(map(len, rows)).most_common(1)[0][0]
    unknown: dict[str, list[tuple[int, int]]] = {}
    for line, row in enumerate(rows, start=1):
        if len(row) != width:
            cursor.error(f"line {line} has {len(row)} letters, not {width} as most lines", "make all lines as long")
        for column, letter in enumerate(row, start=1):
            if letter not in legend:
                unknown.setdefault(letter, []).append((line, column))
    for letter, ((line, column), *more) in unknown.items() if stated is not None else ():
        often = f" and {len(more)} more times" if len(more) > 1 else " and once more" if more else ""
        cursor.error(f"unknown letter '{letter}' in line {line}, column {column}{often}", "add it to 'legend'")
    for letter in stated or {}:
        if len(letter) == 1 and not any(letter in row for row in rows):
            fields.at("legend").child(letter, None).error("is not in the map", "draw it or remove it")
    if len(set(map(len, rows))) > 1:
        return None
    return _Map(np.array([list(row) for row in rows]), legend, len(cursor.faults.errors) == before)


def _read_rows(cursor: Cursor) -> list[str] | None:
    """Return the rows of a map, from a text with a line for each or from a list of texts; None after a fault.

    Empty lines before and after are dropped, and spaces at the ends of lines.
    """
    value = cursor.value
    if isinstance(value, list | tuple) and all(isinstance(row, str) for row in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        return cursor.wrong("a text with a line for every row", "write it after 'map: |'")
    rows = [row.rstrip() for row in value.strip("\n").splitlines()]
    return rows if any(rows) else cursor.error("is empty", "draw a letter for every cell, such as . and #")


def _read_legend(cursor: Cursor) -> dict[str, tuple[_Meaning, ...]] | None:
    """Return letter -> its meanings, without those that are wrong, which are noted; None when it is no mapping."""
    entries = cursor.entries()
    for letter, entry in (entries or {}).items():
        if len(letter) != 1:
            entry.error(f"'{letter}' is not one letter", "a map has one letter per cell")
    return None if entries is None else {letter: _read_meanings(entry) for letter, entry in entries.items()}


def _read_meanings(cursor: Cursor) -> tuple[_Meaning, ...]:
    """Return what a letter means: one of _WORDS, {label, sensor, radius}, or a list of these; wrong ones are noted."""
    meanings = []
    for entry in _list_entries(cursor):
        if isinstance(entry.value, Mapping):
            meanings.append(_MEANING.read(entry) or _Meaning())
        elif entry.value in _WORDS:
            meanings.append(_Meaning((str(entry.value),)))
        else:
            label = f", a label is {{label: {entry.value}}}" if isinstance(entry.value, str) else ""
            entry.wrong("a meaning", f"write {list_names(_WORDS)}{label}, a sensor {{sensor: NAME}}")
    words = {word for meaning in meanings for word in meaning.words}
    if "wall" in words and (len(words) > 1 or any(meaning.labels for meaning in meanings)):
        cursor.error("is a wall and something that only free cells are", "use another letter")
    return tuple(meanings)


def _list_entries(cursor: Cursor) -> list[Cursor]:
    """Return the cursors of the entries of a list, or that of the one value that stands for a list."""
    return (cursor.items() or []) if isinstance(cursor.value, list | tuple) else [cursor]


def _make_meaning(fields: Fields) -> _Meaning | None:
    """Return the meaning of {label: names, sensor: names, radius: cells}; None after a fault."""
    labels, sensors, radius = (fields.read(key) for key in ("label", "sensor", "radius"))
    if "radius" in fields and "sensor" not in fields:
        return fields.at("radius").error("needs a sensor", "write {sensor: NAME, radius: cells}")
    if not {"label", "sensor"} & set(fields.given):
        return fields.cursor.error("says nothing", "write {label: NAME} or {sensor: NAME}")
    for label in labels or ():
        check_label(fields.at("label"), label)
    for key, names in (("label", labels), ("sensor", sensors)):
        if key in fields and names is None:
            return None
    return None if radius is None else _Meaning((), tuple(labels or ()), tuple(sensors or ()), radius)


def _read_size(fields: Fields) -> tuple[int, int] | None:
    """Return (width, height) from `size: [width, height]` or from the two keys; None after a fault.

    It is a fault to give both forms.
    """
    by_side = [key for key in ("width", "height") if key in fields]
    if "size" in fields and by_side:
        advice = "keep size: [width, height], or width and height"
        return fields.cursor.error(f"has 'size' and '{by_side[0]}'", advice)
    if "size" in fields:
        sides = fields.at("size").items()
        if sides is not None and len(sides) != 2:
            return fields.at("size").error(f"has {len(sides)} entries, not 2", "write [width, height]")
    else:
        for key in ("width", "height"):
            fields.require(key, "say how many cells")
        sides = [fields.at(key) for key in by_side]
    read = all_or_none([side.whole(low=1, high=_MAX_CELLS) for side in sides or []])
    return None if read is None or len(read) < 2 else (read[0], read[1])


def _read_walls(cursor: Cursor, sides: tuple[int, int]) -> BoolArray | None:
    """Return [row, column] -> whether the cell is a wall; None where there is no list of them.

    cursor: a list of cells and regions, or one region; sides: (width, height). Entries that are no cell of the grid are
    noted and left out, so that the parts after it are read all the same.
    """
    entries = [cursor] if is_region(cursor.value) else cursor.items()
    if entries is None:
        return None
    blocked = np.zeros((sides[1], sides[0]), dtype=bool)
    for entry in entries:
        if is_region(entry.value):
            rows, columns = np.indices(blocked.shape).reshape(2, -1)
            inside = read_region(entry.within(replace(cursor.scope, variables={"column": columns, "row": rows})))
            blocked |= False if inside is None else inside.reshape(blocked.shape)
            continue
        pair = parse_cell(entry.value)
        if pair is None:
            region = isinstance(entry.value, Mapping)
            entry.wrong("a cell", f"write [column, row]{f', {REGION_FORMS}' if region else ''}")
        elif not (0 <= pair[0] < sides[0] and 0 <= pair[1] < sides[1]):
            outside = f"({pair[0]},{pair[1]}) is outside the {sides[0]} x {sides[1]} grid"
            entry.error(outside, "columns and rows count from 0")
        else:
            blocked[pair[1], pair[0]] = True
    return blocked


def _read_start(fields: Fields, scope: Scope, board: _Board | None) -> FloatArray | None:
    """Return the start [state]: that of `start`, else the cells that the map marks, each as likely; None after a fault.

    fields: the mapping of `grid`; scope: what the start may refer to; board: None when it could not be read.
    """
    marked = None if board is None or board.map is None else board.states(board.map.marks("words")["start"])
    if "start" in fields:
        if marked is not None and marked.any():
            fields.at("start").error("the map has starts too", "keep one of them")
        return _read_stated_start(fields.at("start").within(scope), board)
    if marked is not None and marked.any():
        return floats(marked / np.count_nonzero(marked))
    if "map" not in fields or (board is not None and board.map is not None and board.map.complete):
        fields.require("start", f"{_START}{', or S in the map' if 'map' in fields else ''}")
    return None


def _read_stated_start(cursor: Cursor, board: _Board | None) -> FloatArray | None:
    """Return the start [state]: as in any model, or the free cells of a column or a row, each as likely.

    cursor: as for `sets.read_start`, or {column: c}, {row: r} or both; board: None when it could not be read.
    """
    if not isinstance(cursor.value, Mapping) or not {"column", "row"} & set(cursor.value):
        return read_start(cursor)
    fields = _LINE.open(cursor)
    if board is None or fields is None:
        return None
    sizes = {"column": board.width, "row": board.height}
    read = {key: fields.at(key).whole(low=0, high=most - 1) for key, most in sizes.items() if key in fields}
    if None in read.values():
        return None
    columns, rows = board.free()
    chosen = (columns == read.get("column", columns)) & (rows == read.get("row", rows))
    return floats(chosen / np.count_nonzero(chosen)) if chosen.any() else cursor.error("has no free cell", _START)


def _read_rewards(cursor: Cursor) -> FloatArray | None:
    """Return the reward of every cell, from [{cells, reward}] or {label or cell: reward}; "*" is every other cell.

    A cell that is given two rewards is a fault; one that is given none has 0. Returns None when it is neither form.
    """
    if not isinstance(cursor.value, list | tuple | Mapping):
        finding = f"is {describe_value(cursor.value)}, not a list or a mapping"
        return cursor.error(finding, "write [{cells: [...], reward: 1}]")
    states = cursor.scope.states
    rewards, path_of = np.zeros(len(states)), dict[int, str]()
    entries = _read_reward_mapping(cursor) if isinstance(cursor.value, Mapping) else _read_reward_list(cursor)
    for cells, amount in entries:
        for state in () if (members := read_states(cells)) is None else members.tolist():
            if state in path_of:
                cells.error(f"{states.listed[state]} has a reward already", f"the other is at {path_of[state]}")
            path_of[state] = cells.path
            rewards[state] = amount
    others = cursor.value.get("*") if isinstance(cursor.value, Mapping) else None
    rest = None if others is None else cursor.child("*", others).reward()
    if rest is not None:
        rewards[[state for state in range(rewards.size) if state not in path_of]] = rest
    return rewards


def _read_reward_mapping(cursor: Cursor) -> list[tuple[Cursor, float]]:
    """Return the cursors of cells and their rewards from {label or cell: reward}, without "*"."""
    entries = {key: entry for key, entry in (cursor.entries() or {}).items() if key != "*"}
    read = [(cursor.child(key, key), entry.reward()) for key, entry in entries.items()]
    return [(cells, amount) for cells, amount in read if amount is not None]


def _read_reward_list(cursor: Cursor) -> list[tuple[Cursor, float]]:
    """Return the cursors of cells and their rewards from [{cells, reward}]."""
    opened = [_CELL_REWARD.open(entry) for entry in cursor.items() or []]
    read = [(fields.at("cells"), fields.read("reward")) for fields in opened if fields is not None]
    return [(cells, amount) for cells, amount in read if amount is not None and cells.value is not None]


def _tabulate_moves(board: _Board, *, slip: float, stay: bool, traps: IntArray) -> ActionTable:
    """Return every action of every cell; traps hold the agent whatever it does.

    slip: the probability to move to each side; stay: whether there is an action that stays; traps: their states.
    """
    num_states = board.free()[0].size
    own = np.arange(num_states)
    held = np.isin(own, traps)
    reach = [np.where(held, own, board.after(move)) for move in _MOVES]
    pieces = [
        (action, reach[(action + turn) % 4], share)
        for action in range(4)
        for turn, share in ((0, 1 - 2 * slip), (1, slip), (3, slip))
    ]
    if stay:
        pieces.append((4, own, 1.0))
    states = np.tile(own, len(pieces))
    actions = np.repeat([action for action, _, _ in pieces], num_states)
    shares = np.repeat([share for _, _, share in pieces], num_states)
    targets = np.concatenate([target for _, target, _ in pieces])
    return tabulate_choices(states, actions, targets, shares, num_states=num_states, num_actions=4 + stay)


_INDEX, _SIDE = whole(0, _MAX_CELLS), whole(1, _MAX_CELLS)
_LINE: Record[Any] = Record(
    "line",
    "The free cells of a column, of a row, or of both.",
    (Key("column", _INDEX, "The column, from 0."), Key("row", _INDEX, "The row, from 0.")),
)
_CELL_REWARD: Record[Any] = Record(
    "cell_reward",
    "What some cells earn.",
    (
        Key("cells", STATES, "The cells.", required="list the cells"),
        Key("reward", REWARD, "What each of them earns.", required="say how much"),
    ),
)
_GRID_REWARDS: ValueType[FloatArray] = ValueType(
    '`{label or cell: number}` where `"*"` is every other cell, or `[{cells: [...], reward: 1}]`. A cell has one '
    "reward, earned on every step there",
    _read_rewards,
    (list_schema(_CELL_REWARD.shape), mapping_schema(REWARD)),
    ref="grid_rewards",
)
_NAMED_REWARDS = map_of(_GRID_REWARDS, "name -> rewards, in the same form")
_NAMES: ValueType[list[str]] = ValueType(
    "a name, or a list of names",
    lambda cursor: all_or_none([entry.name() for entry in _list_entries(cursor)]),
    (NAME, list_schema(NAME)),
)
_MEANING: Record[_Meaning] = Record(
    "meaning",
    "What a letter of a map means, beside `wall`, `free`, `trap` and `start`.",
    (
        Key("label", _NAMES, "The cell carries this label, or these."),
        Key("sensor", _NAMES, "The cell is in the range of this sensor, or of these."),
        Key("radius", number(0), "The range also holds the cells up to so far away; walls are cut.", default=0.0),
    ),
    _make_meaning,
)
_WORD = {"enum": list(_WORDS)}
_LEGEND: ValueType[Any] = ValueType(
    "letter -> `wall`, `free`, `trap`, `start`, a [meaning](#meaning), or a list of these",
    _read_legend,
    mapping_schema((_WORD, _MEANING.shape, list_schema((_WORD, _MEANING.shape)))),
    inside=(_MEANING.shape,),
)
_MAP_HELP = (
    "Instead of a size, a letter for every cell: `#` wall, `.` free, `x` trap, `S` start, others as `legend` says."
)
_MAP = raw_value("a text with a line for every row, or a list of rows", (TEXT_SCHEMA, list_schema(TEXT_SCHEMA)))
_WALLS = raw_value("a region, or a list of cells and regions", (REGION, list_schema((STATE, REGION))))
_SIZE = raw_value("`[width, height]`", list_schema({"type": "integer", "minimum": 1}) | {"minItems": 2, "maxItems": 2})
_BEGIN = raw_value("cells (each as likely), `{cell: probability}`, `{column: c}` or `{row: r}`", (_LINE.shape, START))
GRID: Record[Plant] = Record(
    "grid",
    "A grid world with the actions N, E, S, W. Cells are `[column, row]`, row 0 on top, and are called `(column,row)`; "
    "north lowers the row; a blocked move stays put.",
    (
        Key("width", _SIDE, "How many columns."),
        Key("height", _SIDE, "How many rows."),
        Key("size", _SIZE, "Both, instead of the two."),
        Key(
            "map",
            _MAP,
            _MAP_HELP,
        ),
        Key("legend", _LEGEND, "What the letters of the map mean.", goes_with=("map",)),
        Key("walls", _WALLS, "Cells that cannot be entered; they are not states."),
        Key("traps", STATES, "Cells that hold the agent for ever.", default=()),
        Key("slip", number(0, 0.5), "The probability to move to each side of the intended direction.", default=0.0),
        Key("stay", FLAG, 'Whether there is an action "stay" that always succeeds.', default=False),
        Key("start", _BEGIN, "Where the run starts; needed unless the map has it."),
        Key("rewards", _GRID_REWARDS, "What is earned at every time 0 .. horizon."),
        Key("named_rewards", _NAMED_REWARDS, "Further rewards, to which requirements of the task refer."),
        Key("labels", LABELS, "Secrets, sensors, rewards, guards and formulas refer to labels."),
    ),
    _make,
    example="""\
grid:
  size: [6, 6]
  walls: [[5, 2], [1, 3]]
  traps: [[1, 1]]
  slip: 0.1
  stay: true
  start: {column: 0}
  rewards: {goal: 1}
  named_rewards: {fuel: {"*": -1}}
  labels: {goal: [[2, 2], [4, 3]], secret: [[2, 0]]}""",
    constraints={
        "oneOf": [
            {"required": ["size", "start"], "not": any_required(("width", "height", "map"))},
            {"required": ["width", "height", "start"], "not": any_required(("size", "map"))},
            {"required": ["map"], "not": any_required(("size", "width", "height"))},
        ]
    },
)
