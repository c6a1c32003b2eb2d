"""What a problem may refer to by name: states, actions, labels, grid cells, variables, other files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from opaq.errors import Faults, check_types, is_int, suggestion
from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.mdp import MDP, Imported, positions
from opaq.spec.cursor import Cursor

_CELL = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)|(\d+)\s*,\s*(\d+)")


@dataclass(frozen=True, slots=True)
class NameTable:
    """The names of one kind; `index` is None when they could not be read, and then none is called unknown."""

    kind: str
    index: Mapping[str, int] | None = None
    cells: bool = False  # whether the names are the cells of a grid

    @classmethod
    def of(cls, kind: str, names: tuple[str, ...] | None, *, cells: bool = False) -> NameTable:
        """The names of one kind in order; None when they could not be read."""
        return cls(kind, None if names is None else positions(names), cells)

    def __len__(self) -> int:
        return len(self.index or ())

    @property
    def size(self) -> int | None:
        """How many names there are; None when they could not be read."""
        return None if self.index is None else len(self.index)

    @property
    def listed(self) -> tuple[str, ...]:
        """The names in order."""
        return tuple(self.index or ())

    def spell(self, cursor: Cursor) -> str | None:
        """The name meant by a name, or by a cell written [c, r], (c,r) or c,r; None if it is unknown or unchecked."""
        if self.index is not None and isinstance(cursor.value, str) and cursor.value in self.index:
            return cursor.value
        pair = isinstance(cursor.value, list | tuple)
        wanted = cell_name(cursor.value) if pair else cursor.name()
        if wanted is None and pair:
            cursor.wrong(f"the name of a {self.kind}")
        if wanted is None or self.index is None:
            return None
        spelled = next((name for name in (wanted, cell_name(wanted)) if name in self.index), None)
        return cursor.error(*self._unknown(wanted, cursor)) if spelled is None else spelled

    def find(self, cursor: Cursor) -> int | None:
        """The position of the name that is meant."""
        spelled = self.spell(cursor)
        return None if spelled is None or self.index is None else self.index[spelled]

    def find_all(self, cursor: Cursor) -> list[int] | None:
        """The positions of one name or of a list of names."""
        entries = (cursor.items() or []) if isinstance(cursor.value, list | tuple) else [cursor]
        indices = [self.find(entry) for entry in entries]
        return None if None in indices else [index for index in indices if index is not None]

    def _unknown(self, wanted: str, cursor: Cursor) -> tuple[str, str]:
        if self.cells and cell_name(wanted):
            return f"{cell_name(wanted)} is not a free cell of the grid", "it is a wall or outside"
        advice = suggestion(wanted, self.index or (), kind=self.kind, faults=cursor.faults)
        return f"unknown {self.kind} '{wanted}'", advice


class Sources(Protocol):
    """Where a problem file finds the models and automata of other files."""

    def model(self, cursor: Cursor, kind: str, options: Mapping[str, Any]) -> Imported | None:
        """The model named at a cursor; faults in it are noted there."""

    def automaton(self, cursor: Cursor) -> Automaton | None:
        """The automaton in the file named at a cursor; faults in it are noted there."""


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of a problem while it is read; None stands for what could not be read, or is not known yet."""

    states: NameTable = NameTable("state")
    actions: NameTable = NameTable("action")
    labels: Mapping[str, IntArray | None] | None = None
    imported: Imported | None = None  # the model of another file
    variables: Mapping[str, Any] | None = None  # of the states; {} where the model has none
    rewards: Collection[str] | None = None  # the model's named rewards
    horizon: int | None = None
    discount: float | None = None
    has_automaton: bool = True  # the secret has one, or cannot be told not to
    sources: Sources | None = None
    nodes: NameTable = NameTable("node")  # of the policy's memory
    automaton: NameTable = NameTable("automaton state")  # of the secret or of the automaton being read
    observations: NameTable = NameTable("observation")

    @classmethod
    def of(cls, mdp: MDP, **more: Any) -> Names:
        """The names of a finished model."""
        check_types({"mdp": (mdp, MDP, "an opaq.MDP")})
        states, actions = NameTable("state", mdp.state_index()), NameTable("action", mdp.action_index())
        return cls(states, actions, mdp.labels, variables={}, rewards=mdp.named_rewards, **more)

    def at_start(self, value: Any, path: str) -> Cursor:
        """A cursor on a value that may use these names."""
        return Cursor(value, path, Faults(), self)


def cell(value: Any) -> tuple[int, int] | None:
    """The column and row of a cell written [c, r], (c,r) or c,r; None when it is none of these."""
    if isinstance(value, list | tuple):
        pair = len(value) == 2 and all(is_int(part) for part in value)
        return (int(value[0]), int(value[1])) if pair else None
    match = _CELL.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    column, row = (part for part in match.groups() if part is not None)
    return int(column), int(row)


def cell_name(value: Any) -> str | None:
    """The state name of a cell, e.g. (5,2)."""
    pair = cell(value)
    return None if pair is None else f"({pair[0]},{pair[1]})"
