"""Read the grid shorthand: cells [column, row], row 0 on top; a blocked move stays put.

The mapping of `grid` comes in, a `Plant` goes out: the MDP whose states are the free cells "(column,row)", numbered
row by row, and the scope of the parts after it. A grid is written back as a plain `model`.

With slip p an action moves to each side of its direction with probability p, and ahead with 1 - 2p.

    grid: {size: [4, 3], walls: [[1, 1]], start: [0, 0], slip: 0.1, rewards: [{cells: [[3, 0]], reward: 1}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults, describe_value
from opaq.model.arrays import BoolArray, FloatArray, IntArray, floats
from opaq.model.mdp import MDP
from opaq.spec.cursor import Cursor, NameTable, Scope, drop_none, parse_cell, read_with_faults
from opaq.spec.grammar import (
    FLAG,
    REWARD,
    Fields,
    Key,
    Record,
    ValueType,
    all_or_none,
    any_required,
    list_of,
    list_schema,
    map_of,
    mapping_schema,
    number,
    raw_value,
    whole,
)
from opaq.spec.model_part import LABELS, ActionTable, Plant, assemble, mdp_of, model_scope, tabulate_choices
from opaq.spec.sets import START, STATE, STATES, read_start, read_states

_MAX_CELLS = 1_000_000
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west as (column, row)
_START = "say where the run starts: cells, {cell: probability}, {column: c} or {row: r}"


@dataclass(frozen=True, slots=True)
class _Board:
    """The cells that are no walls, numbered row by row."""

    width: int
    height: int
    number: IntArray  # [row, column] -> state, -1 for a wall

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
    start: Any,
    width: Any = None,
    height: Any = None,
    size: Any = None,
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

    start: cells [column, row] (each as likely), {cell: probability}, {"column": c} or {"row": r}.
    width, height, size: how many columns and rows, or both as [width, height].
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
    spec = {"start": start, "walls": walls, "traps": traps, "slip": slip, "stay": stay}
    spec |= drop_none(
        width=width, height=height, size=size, rewards=rewards, named_rewards=named_rewards, labels=labels
    )
    return read_with_faults(lambda cursor: mdp_of(GRID.read(cursor)), Scope().cursor(spec, path), faults)


def _make(fields: Fields) -> Plant:
    """Build the model of a grid from its keys.

    fields: the mapping of `grid`. The model is None when a part is unusable; the parts after it are read all the same.
    """
    board = _read_board(fields)
    stay, slip = fields.read("stay"), fields.read("slip")
    actions = ("N", "E", "S", "W", "stay") if stay else ("N", "E", "S", "W")
    cells = NameTable.of("state", None if board is None else board.names(), cells=True)
    scope = model_scope(fields, cells, NameTable.of("action", actions))
    traps = fields.read("traps", scope)
    start = _read_start(fields.at("start").within(scope), board) if "start" in fields else None
    choices = None
    if board is not None and slip is not None and traps is not None:
        choices = _tabulate_moves(board, slip=slip, stay=bool(stay), traps=traps)
    return assemble(fields, scope, choices=choices, start=start, where=fields.cursor)


def _read_board(fields: Fields) -> _Board | None:
    """Return the board of `size` (or `width` and `height`) and `walls`.

    Returns None after a fault: more than _MAX_CELLS cells, a wall outside, or no free cell.
    """
    sides = _read_size(fields)
    if sides is None:
        return None
    width, height = sides
    if width * height > _MAX_CELLS:
        return fields.cursor.error(f"has {width * height:,} cells, more than {_MAX_CELLS:,}")
    blocked = _read_walls(fields.at("walls"), sides) if "walls" in fields else np.zeros((height, width), dtype=bool)
    if blocked is None:
        return None
    if blocked.all():
        return fields.at("walls").error("leave no free cell")
    return _Board(width, height, np.where(blocked, -1, np.cumsum(~blocked).reshape(blocked.shape) - 1))


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
    """Return [row, column] -> whether the cell is a wall; None after noting every entry that is no cell of the grid.

    cursor: a list of cells; sides: (width, height).
    """
    entries = cursor.items()
    if entries is None:
        return None
    blocked = np.zeros((sides[1], sides[0]), dtype=bool)
    usable = True
    for entry in entries:
        pair = parse_cell(entry.value)
        if pair is None:
            entry.wrong("a cell", "write [column, row]")
        elif not (0 <= pair[0] < sides[0] and 0 <= pair[1] < sides[1]):
            outside = f"({pair[0]},{pair[1]}) is outside the {sides[0]} x {sides[1]} grid"
            entry.error(outside, "columns and rows count from 0")
        else:
            blocked[pair[1], pair[0]] = True
            continue
        usable = False
    return blocked if usable else None


def _read_start(cursor: Cursor, board: _Board | None) -> FloatArray | None:
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
        Key("walls", list_of(STATE, "a list of cells"), "Cells that cannot be entered; they are not states."),
        Key("traps", STATES, "Cells that hold the agent for ever.", default=()),
        Key("slip", number(0, 0.5), "The probability to move to each side of the intended direction.", default=0.0),
        Key("stay", FLAG, 'Whether there is an action "stay" that always succeeds.', default=False),
        Key("start", _BEGIN, "Where the run starts.", required=_START),
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
            {"required": ["size"], "not": any_required(("width", "height"))},
            {"required": ["width", "height"], "not": any_required(("size",))},
        ]
    },
)
