"""The grid shorthand: cells [column, row], row 0 on top; a blocked move stays put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import BoolArray, FloatArray, IntArray, floats
from opaq.model.mdp import MDP
from opaq.spec.cursor import at, check_keys, flag, gather, item, listing, mapping, number, reward, shown, whole, wrong
from opaq.spec.model_part import assemble, read_labels, read_start, usable_labels, warn_unreachable
from opaq.spec.names import Names, cell, known, state_set
from opaq.spec.transitions import Choices, choices_of

KEYS = ("width", "height", "size", "walls", "traps", "slip", "stay", "start", "rewards", "named_rewards", "labels")
MAX_CELLS = 1_000_000
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # north, east, south, west as (column, row)
_START = "say where the run starts: cells, {cell: probability}, {column: c} or {row: r}"


@dataclass(frozen=True, slots=True)
class Board:
    """The cells that are no walls, numbered row by row."""

    width: int
    height: int
    number: IntArray  # [row, column] -> state, -1 for a wall

    def free(self) -> tuple[IntArray, IntArray]:
        """The columns and rows of the states."""
        rows, columns = np.nonzero(self.number >= 0)
        return columns, rows

    def names(self) -> tuple[str, ...]:
        """The state names, (column,row)."""
        return tuple(f"({column},{row})" for column, row in zip(*(axis.tolist() for axis in self.free()), strict=True))

    def after(self, move: tuple[int, int]) -> IntArray:
        """Where a move ends from every state: the neighbour, or the same cell when that is blocked."""
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
    """A grid world with the actions N, E, S, W (and a certain "stay"); `slip` goes to each side of a move.

    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    stated = {"width": width, "height": height, "size": size, "rewards": rewards, "labels": labels}
    stated["named_rewards"] = named_rewards
    spec = {"start": start, "walls": walls, "traps": traps, "slip": slip, "stay": stay}
    spec |= {key: value for key, value in stated.items() if value is not None}
    return gather(lambda found: read_grid(spec, path, found)[1], faults)


def read_grid(value: Any, path: str, faults: Faults) -> tuple[Names, MDP | None]:
    """The names of a grid, as far as they can be told, and its model unless it is unusable."""
    spec = mapping(value, path, faults)
    if spec is None:
        return Names.unread(), None
    check_keys(spec, path, faults, allowed=KEYS, required={"start": _START})
    board = _read_board(spec, path, faults)
    state_names = None if board is None else board.names()
    stay = flag(spec.get("stay", False), at(path, "stay"), faults)
    slip = number(spec.get("slip", 0.0), at(path, "slip"), faults, low=0, high=0.5)
    action_names = ("N", "E", "S", "W", "stay") if stay else ("N", "E", "S", "W")
    states, actions = known("state", state_names, cells=True), known("action", action_names)
    labels = read_labels(spec.get("labels", {}), at(path, "labels"), faults, states)
    names = Names(states, actions, labels)
    traps = state_set(spec.get("traps", []), at(path, "traps"), faults, names)
    start = _read_start(spec["start"], at(path, "start"), faults, names, board) if "start" in spec else None
    rewards = _read_rewards(spec.get("rewards", []), at(path, "rewards"), faults, names)
    further = _read_named_rewards(spec.get("named_rewards", {}), at(path, "named_rewards"), faults, names)
    carriers = usable_labels(labels)
    if board is None or state_names is None or slip is None or traps is None or start is None:
        return names, None
    if rewards is None or further is None or carriers is None:
        return names, None
    choices = _choices(board, slip=slip, stay=bool(stay), traps=traps)
    counts = np.diff(choices.choice_start)
    mdp = assemble(
        state_names,
        action_names,
        start=start,
        choices=choices,
        rewards=floats(np.repeat(rewards, counts)),
        named_rewards={title: floats(np.repeat(amounts, counts)) for title, amounts in further.items()},
        labels=carriers,
    )
    warn_unreachable(mdp, path, faults)
    return names, mdp


def _read_board(spec: Mapping[str, Any], path: str, faults: Faults) -> Board | None:
    sides = _read_size(spec, path, faults)
    if sides is None:
        return None
    width, height = sides
    if width * height > MAX_CELLS:
        faults.error(path, f"has {width * height:,} cells, more than {MAX_CELLS:,}")
        return None
    blocked = _read_walls(spec.get("walls", []), at(path, "walls"), faults, sides)
    if blocked is None:
        return None
    if blocked.all():
        faults.error(at(path, "walls"), "leave no free cell")
        return None
    number = np.where(blocked, -1, np.cumsum(~blocked).reshape(blocked.shape) - 1)
    return Board(width, height, number)


def _read_size(spec: Mapping[str, Any], path: str, faults: Faults) -> tuple[int, int] | None:
    by_side = [key for key in ("width", "height") if key in spec]
    if "size" in spec and by_side:
        faults.error(path, f"has 'size' and '{by_side[0]}'", "keep size: [width, height], or width and height")
        return None
    if "size" in spec:
        sides = listing(spec["size"], at(path, "size"), faults)
        if sides is not None and len(sides) != 2:
            faults.error(at(path, "size"), f"has {len(sides)} entries, not 2", "write [width, height]")
        places = [item(at(path, "size"), place) for place in range(2)]
        given = dict(zip(places, sides, strict=True)) if sides is not None and len(sides) == 2 else {}
    else:
        given = {at(path, key): spec[key] for key in by_side}
        for key in {"width", "height"} - set(by_side):
            faults.error(at(path, key), "is missing", "say how many cells")
    read = [whole(side, where, faults, low=1, high=MAX_CELLS) for where, side in given.items()]
    found = [side for side in read if side is not None]
    return (found[0], found[1]) if len(found) == 2 else None


def _read_walls(value: Any, path: str, faults: Faults, sides: tuple[int, int]) -> BoolArray | None:
    """Which cells are walls: [row, column]."""
    cells = listing(value, path, faults)
    if cells is None:
        return None
    blocked = np.zeros((sides[1], sides[0]), dtype=bool)
    usable = True
    for place, entry in enumerate(cells):
        found = cell(entry)
        if found is None:
            wrong(entry, item(path, place), faults, "a cell", advice="write [column, row]")
        elif not (0 <= found[0] < sides[0] and 0 <= found[1] < sides[1]):
            outside = f"({found[0]},{found[1]}) is outside the {sides[0]} x {sides[1]} grid"
            faults.error(item(path, place), outside, "columns and rows count from 0")
        else:
            blocked[found[1], found[0]] = True
            continue
        usable = False
    return blocked if usable else None


def _read_start(value: Any, path: str, faults: Faults, names: Names, board: Board | None) -> FloatArray | None:
    if not isinstance(value, Mapping) or not {"column", "row"} & set(value):
        return read_start(value, path, faults, names)
    line = mapping(value, path, faults) or {}
    check_keys(line, path, faults, allowed=("column", "row"))
    if board is None:
        return None
    sizes = {"column": board.width, "row": board.height}
    read = {
        key: whole(line[key], at(path, key), faults, low=0, high=most - 1) for key, most in sizes.items() if key in line
    }
    if None in read.values():
        return None
    columns, rows = board.free()
    chosen = (columns == read.get("column", columns)) & (rows == read.get("row", rows))
    if not chosen.any():
        faults.error(path, "has no free cell", _START)
        return None
    return floats(chosen / np.count_nonzero(chosen))


def _read_rewards(value: Any, path: str, faults: Faults, names: Names) -> FloatArray | None:
    """The reward of every cell, from [{cells, reward}] or {label or cell: reward}; "*" is every other cell."""
    named = isinstance(value, Mapping)
    entries = _named_rewards(value, path, faults) if named else _listed_rewards(value, path, faults)
    if entries is None:
        return None
    rewards = np.zeros(len(names.states))
    giver: dict[int, str] = {}
    for cells, amount, where in entries:
        if named and cells == "*":
            continue
        states = state_set(cells, where, faults, names)
        for state in [] if states is None else states.tolist():
            if state in giver:
                spelled = tuple(names.states.index or ())[state]
                faults.error(where, f"{spelled} has a reward already", f"the other is at {giver[state]}")
            giver[state] = where
            rewards[state] = amount
    others = [amount for cells, amount, _ in entries if named and cells == "*"]
    if others:
        rest = [state for state in range(rewards.size) if state not in giver]
        rewards[rest] = others[0]
    return rewards


def _read_named_rewards(value: Any, path: str, faults: Faults, names: Names) -> dict[str, FloatArray] | None:
    """Further rewards by name."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    read = {key: _read_rewards(entry, at(path, key), faults, names) for key, entry in table.items()}
    found = {key: amounts for key, amounts in read.items() if amounts is not None}
    return found if len(found) == len(read) else None


def _named_rewards(value: Any, path: str, faults: Faults) -> list[tuple[Any, float, str]] | None:
    table = mapping(value, path, faults) or {}
    read = [(key, reward(amount, at(path, key), faults), at(path, key)) for key, amount in table.items()]
    return [(key, amount, where) for key, amount, where in read if amount is not None]


def _listed_rewards(value: Any, path: str, faults: Faults) -> list[tuple[Any, float, str]] | None:
    if not isinstance(value, list | tuple):
        faults.error(path, f"is {shown(value)}, not a list or a mapping", "write [{cells: [...], reward: 1}]")
        return None
    found = []
    required = {"cells": "list the cells", "reward": "say how much"}
    for place, entry in enumerate(value):
        where = item(path, place)
        spec = mapping(entry, where, faults)
        if spec is None:
            continue
        check_keys(spec, where, faults, allowed=tuple(required), required=required)
        amount = reward(spec["reward"], at(where, "reward"), faults) if "reward" in spec else None
        if amount is not None and "cells" in spec:
            found.append((spec["cells"], amount, at(where, "cells")))
    return found


def _choices(board: Board, *, slip: float, stay: bool, traps: IntArray) -> Choices:
    """Every action of every cell; traps hold the agent whatever it does."""
    num_states = board.free()[0].size
    own = np.arange(num_states)
    held = np.isin(own, traps)
    reach = [np.where(held, own, board.after(move)) for move in MOVES]
    pieces = []
    for action in range(4):
        for turn, share in ((0, 1 - 2 * slip), (1, slip), (3, slip)):
            pieces.append((action, reach[(action + turn) % 4], share))
    if stay:
        pieces.append((4, own, 1.0))
    states = np.tile(own, len(pieces))
    actions = np.repeat([action for action, _, _ in pieces], num_states)
    shares = np.repeat([share for _, _, share in pieces], num_states)
    targets = np.concatenate([target for _, target, _ in pieces])
    return choices_of(states, actions, targets, shares, num_states=num_states, num_actions=4 + stay)
