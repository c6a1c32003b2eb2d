"""What a problem may refer to by name: states, actions, labels, grid cells."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import BoolArray, IntArray, ints
from opaq.model.mdp import MDP, positions
from opaq.spec.cursor import (
    at,
    is_int,
    item,
    mapping,
    name,
    probability,
    scale_to_one,
    suggestion,
    wrong,
)

_CELL = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)|(\d+)\s*,\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Known:
    """The names of one kind; `index` is None when they could not be read, and then none is called unknown."""

    kind: str
    index: Mapping[str, int] | None
    cells: bool = False  # whether the names are the cells of a grid

    def __len__(self) -> int:
        return len(self.index or ())

    def spell(self, value: Any, path: str, faults: Faults) -> str | None:
        """The name meant by a name, or by a cell written [c, r], (c,r) or c,r; None if it is unknown or unchecked."""
        pair = isinstance(value, list | tuple)
        wanted = cell_name(value) if pair else name(value, path, faults)
        if wanted is None and pair:
            wrong(value, path, faults, f"the name of a {self.kind}")
        if wanted is None or self.index is None:
            return None
        if wanted in self.index:
            return wanted
        as_cell = cell_name(wanted)
        if as_cell in self.index:
            return as_cell
        faults.error(path, *self._unknown(wanted, faults))
        return None

    def find(self, value: Any, path: str, faults: Faults) -> int | None:
        """The position of the name that is meant."""
        spelled = self.spell(value, path, faults)
        return None if spelled is None or self.index is None else self.index[spelled]

    def find_all(self, value: Any, path: str, faults: Faults) -> list[int] | None:
        """The positions of one name or of a list of names."""
        if not isinstance(value, list | tuple):
            place = self.find(value, path, faults)
            return None if place is None else [place]
        places = [self.find(entry, item(path, number), faults) for number, entry in enumerate(value)]
        return None if None in places else [place for place in places if place is not None]

    def _unknown(self, wanted: str, faults: Faults) -> tuple[str, str]:
        if self.cells and cell_name(wanted):
            return f"{cell_name(wanted)} is not a free cell of the grid", "it is a wall or outside"
        return f"unknown {self.kind} '{wanted}'", suggestion(wanted, self.index or (), kind=self.kind, faults=faults)


@dataclass(frozen=True, slots=True)
class Names:
    """The states, actions and labels of a model, as far as they could be read."""

    states: Known
    actions: Known
    labels: Mapping[str, IntArray | None] | None  # None: could not be read

    @classmethod
    def of(cls, mdp: MDP) -> Names:
        """The names of a finished model."""
        states, actions = Known("state", mdp.state_index()), Known("action", mdp.action_index())
        return cls(states, actions, mdp.labels)

    @classmethod
    def unread(cls) -> Names:
        """Stands for a model that could not be read at all."""
        return cls(Known("state", None), Known("action", None), None)


def known(kind: str, names: tuple[str, ...] | None, *, cells: bool = False) -> Known:
    """The names of one kind in order; None when they could not be read."""
    return Known(kind, None if names is None else positions(names), cells)


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
    place = cell(value)
    return None if place is None else f"({place[0]},{place[1]})"


def distribution(value: Any, path: str, faults: Faults, names: Known) -> dict[int, float] | None:
    """A distribution {name: probability}, or one name for probability 1, as position -> probability."""
    if isinstance(value, str) or is_int(value):
        place = names.find(value, path, faults)
        return None if place is None else {place: 1.0}
    if not isinstance(value, Mapping):
        wrong(value, path, faults, f"a mapping {{{names.kind}: probability}}")
        return None
    if not value:
        faults.error(path, "is empty", "give probabilities that sum to 1")
        return None
    entries = mapping(value, path, faults) or {}
    shares = _shares(entries, path, faults, names, complete=len(entries) == len(value))
    return shares if len(entries) == len(value) else None


def state_set(value: Any, path: str, faults: Faults, names: Names) -> IntArray | None:
    """A set of states: a label, a state, a cell, a list of these, or an array of truth values; ascending."""
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return _marked(value, path, faults, names.states)
    if _is_one_cell(value, names) or not isinstance(value, list | tuple | np.ndarray):
        return _states_of(value, path, faults, names)
    entries = value.tolist() if isinstance(value, np.ndarray) else value
    seen: set[str] = set()
    found: list[IntArray | None] = []
    for number, entry in enumerate(entries):
        states = _states_of(entry, item(path, number), faults, names)
        spelled = cell_name(entry) or str(entry)
        if states is not None and spelled in seen:
            faults.error(item(path, number), f"'{spelled}' is listed twice", "keep one of them")
        seen.add(spelled)
        found.append(states)
    usable = [states for states in found if states is not None]
    if len(usable) < len(found) or names.states.index is None:
        return None
    return ints(np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *usable])))


def _marked(mask: BoolArray, path: str, faults: Faults, states: Known) -> IntArray | None:
    if states.index is None:
        return None
    if mask.shape != (len(states),):
        faults.error(path, f"has shape {mask.shape}, not one truth value for each of {len(states):,} states")
        return None
    return ints(np.flatnonzero(mask))


def _shares(
    entries: Mapping[str, Any], path: str, faults: Faults, names: Known, *, complete: bool
) -> dict[int, float] | None:
    """Position -> probability; the sum of entries that are not complete means nothing."""
    shares = {key: probability(share, at(path, key), faults) for key, share in entries.items()}
    places = {key: names.find(key, at(path, key), faults) for key in entries}
    known_shares = [share for share in shares.values() if share is not None]
    if len(known_shares) < len(shares) or not complete:
        return None
    scale = scale_to_one(math.fsum(known_shares), path, faults)
    known_places = {place for place in places.values() if place is not None}
    if scale is None or None in places.values():
        return None
    if len(known_places) < len(places):
        faults.error(path, f"names a {names.kind} twice, spelled differently", "keep one of them")
        return None
    return {
        place: share * scale for place, share in zip(places.values(), known_shares, strict=True) if place is not None
    }


def _is_one_cell(value: Any, names: Names) -> bool:
    """Whether a pair of integers is one cell rather than a list of two states named by integers."""
    index = names.states.index or {}
    spelled = cell_name(value) if isinstance(value, list | tuple) else None
    return spelled in index and not all(str(part) in index for part in value)


def _states_of(value: Any, path: str, faults: Faults, names: Names) -> IntArray | None:
    """The states one name stands for; a state's name wins over the same label."""
    index, labels = names.states.index, names.labels
    if not (isinstance(value, str) or is_int(value)):
        place = names.states.find(value, path, faults)
        return None if place is None else ints([place])
    spelled = str(value)
    if index is not None and (spelled in index or cell_name(spelled) in index):
        place = names.states.find(spelled, path, faults)
        _warn_if_label(spelled, path, faults, names)
        return None if place is None else ints([place])
    if labels is not None and spelled in labels:
        return labels[spelled]
    if index is None or labels is None:
        return None  # it cannot be told whether the name exists
    if labels and not cell_name(spelled):
        faults.error(path, f"unknown state or label '{spelled}'", _suggest_either(spelled, names, faults))
    else:
        names.states.find(spelled, path, faults)
    return None


def _warn_if_label(spelled: str, path: str, faults: Faults, names: Names) -> None:
    label = (names.labels or {}).get(spelled)
    if label is not None and label.tolist() != [(names.states.index or {}).get(spelled)]:
        faults.warn(path, f"'{spelled}' is a state and a label", "it was read as the state; rename one of them")


def _suggest_either(spelled: str, names: Names, faults: Faults) -> str:
    return suggestion(spelled, [*(names.labels or ()), *(names.states.index or ())], kind="name", faults=faults)
