"""Cursors and scopes: a plain value being read, where it stands, its faults so far, and the names it may use.

Every reader of `opaq.spec` takes a Cursor and returns what it read, or None after it has noted a fault. Reading goes on
after a fault, so that one run reports everything that is wrong with a file. A Scope holds what is known of the problem
at that point: a name is called unknown only where its table could be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from opaq.errors import Faults, InputError, check_types, describe_value, is_int, is_number, suggestion, whole_fault
from opaq.model.arrays import SILENT, SLACK, BoolArray, IntArray, divisor, probability_fault, sum_fault
from opaq.model.automaton import Automaton
from opaq.model.checks import MAX_REWARD
from opaq.model.mdp import MDP, Imported, positions
from opaq.model.policy import Policy
from opaq.model.problem import Problem

T = TypeVar("T")

_MAX_NAME = 10_000  # characters
_CELL_TEXT = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)|(\d+)\s*,\s*(\d+)")


def parse_cell(value: Any) -> tuple[int, int] | None:
    """Return the (column, row) of a grid cell.

    value: a pair of integers `[c, r]`, or the text `(c,r)` or `c,r`, with or without space around the numbers.
    Returns None when the value is none of these; whether the cell exists is not checked.
    """
    if isinstance(value, list | tuple):
        pair = len(value) == 2 and all(is_int(part) for part in value)
        return (int(value[0]), int(value[1])) if pair else None
    match = _CELL_TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    column, row = (part for part in match.groups() if part is not None)
    return int(column), int(row)


def cell_name(value: Any) -> str | None:
    """Return the state name of a grid cell, e.g. "(5,2)", in any form that `parse_cell` reads; else None."""
    pair = parse_cell(value)
    return None if pair is None else f"({pair[0]},{pair[1]})"


@dataclass(frozen=True, slots=True)
class NameTable:
    """The names of one kind, each with its position.

    kind: what messages call one of them, e.g. "state".
    index: name -> position in order; None when the names could not be read, and then none is called unknown.
    cells: whether the names are those of grid cells, which may then be written as pairs too.
    """

    kind: str
    index: Mapping[str, int] | None = None
    cells: bool = False

    @classmethod
    def of(cls, kind: str, names: tuple[str, ...] | None, *, cells: bool = False) -> NameTable:
        """Number some names in their order.

        kind: what messages call one of them.
        names: the names; None when they could not be read.
        cells: whether they are those of grid cells.
        """
        return cls(kind, None if names is None else positions(names), cells)

    def __len__(self) -> int:
        """Return the number of names; 0 when they could not be read."""
        return len(self.index or ())

    @property
    def size(self) -> int | None:
        """The number of names; None when they could not be read (`len` is 0 then)."""
        return None if self.index is None else len(self.index)

    @property
    def listed(self) -> tuple[str, ...]:
        """The names in order; none when they could not be read."""
        return tuple(self.index or ())

    def spell(self, cursor: Cursor) -> str | None:
        """Return the name that a value means: the name itself, or a cell written [c, r], (c,r) or c,r.

        Returns None when the value is no name or an unknown one, which is noted, or when the names are not known.
        """
        if self.index is not None and isinstance(cursor.value, str) and cursor.value in self.index:
            return cursor.value
        pair = isinstance(cursor.value, list | tuple)
        text = cell_name(cursor.value) if pair else cursor.name()
        if text is None and pair:
            cursor.wrong(f"the name of a {self.kind}")
        if text is None or self.index is None:
            return None
        for name in (text, cell_name(text)):
            if name is not None and name in self.index:
                return name
        if self.cells and cell_name(text):
            return cursor.error(f"{cell_name(text)} is not a free cell of the grid", "it is a wall or outside")
        advice = suggestion(text, self.index, kind=self.kind, faults=cursor.faults)
        return cursor.error(f"unknown {self.kind} '{text}'", advice)

    def find(self, cursor: Cursor) -> int | None:
        """Return the position of the name that a value means, from 0; None, after the same faults, as in `spell`."""
        name = self.spell(cursor)
        return None if name is None or self.index is None else self.index[name]

    def find_all(self, cursor: Cursor) -> list[int] | None:
        """Return the positions of one name or of a list of names, in the order in which they are written.

        Returns None when one of them has none; each unknown name is noted.
        """
        entries = (cursor.items() or []) if isinstance(cursor.value, list | tuple) else [cursor]
        indices = [self.find(entry) for entry in entries]
        return None if None in indices else [index for index in indices if index is not None]


@runtime_checkable
class Sources(Protocol):
    """Reads the models, automata and policies of other files that a problem file names.

    All methods note the faults of the other file at the cursor, which holds its name, and then return None.
    """

    def model(self, cursor: Cursor, kind: str, options: Mapping[str, Any]) -> Imported | None:
        """Read a model.

        cursor: holds the name of the file, or the id of an environment.
        kind: the key of the model in the problem file, e.g. "prism".
        options: the keys beside it that its reader takes, e.g. {"constants": {"N": 4}}.
        """

    def automaton(self, cursor: Cursor) -> Automaton | None:
        """Read an automaton; the cursor holds the name of its file."""

    def policy(self, cursor: Cursor, problem: Problem) -> Policy | None:
        """Read a policy for a problem; the cursor holds the name of its file."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a value may refer to by name: all that is known of the problem where it stands.

    A field is None, or a table without an index, when that part could not be read or is not known yet; nothing that
    refers to it is then called wrong.
    """

    states: NameTable = NameTable("state")
    actions: NameTable = NameTable("action")
    labels: Mapping[str, IntArray | None] | None = None  # label -> its states; None: an unusable label
    imported: Imported | None = None  # the model of another file
    variables: Mapping[str, Any] | None = None  # variable -> [state]; {} where the model has none
    walls: Collection[str] = ()  # cells of a grid that are no states; a sensor's range over them is cut
    ranges: Mapping[str, BoolArray] | None = field(default_factory=dict)  # sensor of a grid's map -> [state] covered
    rewards: Collection[str] | None = None  # the model's named rewards
    horizon: int | None = None
    discount: float | None = None
    has_automaton: bool = True  # the secret has one, or is not known to have none
    sources: Sources | None = None
    nodes: NameTable = NameTable("node")  # of the policy's memory
    beliefs: NameTable = NameTable("belief")  # the nodes of the policy's belief graph
    automaton: NameTable = NameTable("automaton state")  # of the secret, or of the automaton being read
    observations: NameTable = NameTable("observation")
    secrets: NameTable = NameTable("secret")  # the problem's own, by name
    observers: NameTable = NameTable("observer")
    assume: Callable[[Cursor], MDP | None] | None = None  # reads a model from the keys in which it differs
    problem: Problem | None = None  # that policies are read for

    @classmethod
    def of(cls, mdp: MDP, **more: Any) -> Scope:
        """Return the scope of a finished model: its states, actions, labels, named rewards and coordinates.

        The variables are column and row where the states are called (column,row), else x and y of its positions.
        more: further fields of Scope, e.g. horizon=10. Raises InputError if `mdp` is no MDP.
        """
        check_types({"mdp": (mdp, MDP, "an opaq.MDP")})
        states, actions = NameTable("state", mdp.state_index()), NameTable("action", mdp.action_index())
        cells = mdp.cells() if mdp.positions is None else None
        axes, names = (mdp.positions, ("x", "y")) if cells is None else (cells, ("column", "row"))
        variables = {} if axes is None else dict(zip(names, axes.T, strict=True))
        return cls(states, actions, mdp.labels, variables=variables, rewards=mdp.named_rewards, **more)

    def cursor(self, value: Any, path: str) -> Cursor:
        """Return a cursor on a value in this scope, with no faults so far; `path` is what faults call it."""
        return Cursor(value, path, Faults(), self)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A plain value, its path in the file, the faults noted so far, and the names it may refer to.

    The methods that read (`name`, `number`, `entries`, ...) return None after they have noted what is wrong.
    """

    value: Any
    path: str
    faults: Faults
    scope: Scope

    def child(self, key: object, value: Any) -> Cursor:
        """Return the cursor of a value below a key of this mapping."""
        return Cursor(value, f"{self.path}.{key}" if self.path else str(key), self.faults, self.scope)

    def item(self, *index: int, value: Any = None) -> Cursor:
        """Return the cursor of an entry of this list or array.

        index: one number, or one per axis of an array; faults write it as "[2]" or "[2, 0]".
        value: the entry, where it will be read; None where only faults are noted.
        """
        return Cursor(value, f"{self.path}[{', '.join(map(str, index))}]", self.faults, self.scope)

    def within(self, scope: Scope) -> Cursor:
        """Return the cursor of the same value in another scope."""
        return Cursor(self.value, self.path, self.faults, scope)

    def error(self, finding: str, advice: str = "", *, option: str = "") -> None:
        """Note something that makes the input unusable.

        finding: what is wrong, as it follows the path ("is empty"); advice: what to do about it.
        option: the argument of the library that would allow it; empty when there is none.
        Returns None, so that a reader can end with `return cursor.error(...)`.
        """
        self.faults.error(self.path, finding, advice, option=option)

    def warn(self, finding: str, advice: str = "") -> None:
        """Note something the user should know and that does not stop the work."""
        self.faults.warn(self.path, finding, advice)

    def wrong(self, expected: str, advice: str = "") -> None:
        """Note that the value is not what was expected; the message names what it is.

        expected: in words that follow "not", e.g. "a list"; advice: what to do about it.
        """
        self.error(f"is {describe_value(self.value)}, not {expected}", advice)

    def exceeds(self, count: float, limit: float, finding: str, advice: str = "") -> bool:
        """Return whether a count is above its limit, and note `finding` if it is.

        count, limit: compared as they are; a count equal to the limit is allowed.
        finding, advice: the fault in words, as for `error`.
        """
        if count > limit:
            self.error(finding, advice)
        return count > limit

    def entries(self) -> dict[str, Cursor] | None:
        """Return the values of a mapping by name.

        Keys are names, whole numbers (which become text) or grid cells given as pairs; any other key is noted and left
        out. Returns None when the value is no mapping.
        """
        if not isinstance(self.value, Mapping):
            self.wrong("a mapping")
            return None
        children: dict[str, Cursor] = {}
        for key, entry in self.value.items():
            name = self._key(key)
            if name is None:
                continue
            if name in children:
                children[name].error("is there twice, as a number and as text", "keep one of them")
            children[name] = self.child(name, entry)
        return children

    def items(self) -> list[Cursor] | None:
        """Return the cursors of the entries of a list; tuples and one-dimensional arrays count as lists.

        Returns None after noting that the value is no list.
        """
        if isinstance(self.value, np.ndarray) and self.value.ndim == 1:
            return [self.item(index, value=entry) for index, entry in enumerate(self.value.tolist())]
        if isinstance(self.value, list | tuple):
            return [self.item(index, value=entry) for index, entry in enumerate(self.value)]
        self.wrong("a list")
        return None

    def name(self) -> str | None:
        """Return a name: text of 1 to _MAX_NAME characters without space around it, or an integer as its text.

        Returns None after a fault; a truth value or a decimal number gets the advice to put it in quotes.
        """
        value = self.value
        if not isinstance(value, str):
            if is_int(value):
                return str(int(value))
            self.wrong("a name", "put it in quotes" if isinstance(value, bool | float) else "")
        elif len(value) > _MAX_NAME:
            self.error(f"a name of {len(value):,} characters is too long", f"the limit is {_MAX_NAME:,}")
        elif not value or value != value.strip():
            self.error(f"'{value}' is not a name", "a name has at least one character and no space around it")
        else:
            return value
        return None

    def unique_names(self, *, kind: str, most: int) -> tuple[str, ...] | None:
        """Return a list of distinct names.

        kind: what messages call one of them.
        most: the largest number of names.
        Returns None when the list is empty or too long or an entry is no name; a repeated name is noted and dropped.
        """
        entries = self.items()
        if entries is None:
            return None
        if not entries:
            return self.error("is empty", f"list at least one {kind}")
        if len(entries) > most:
            return self.error(f"lists {len(entries):,} {kind}s, more than {most:,}")
        first: dict[str, Cursor] = {}
        usable = True
        for entry in entries:
            name = entry.name()
            if name is None:
                usable = False
            elif name == "*":
                entry.error("'*' is not a name", "it stands for all of them")
            elif name in first:
                entry.error(f"'{name}' is listed twice", f"first at {first[name].path}")
            else:
                first[name] = entry
        return tuple(first) if usable else None

    def number(self, *, low: float = -math.inf, high: float = math.inf) -> float | None:
        """Return a finite number as a float; None after a fault.

        low, high: the least and the largest value allowed, both included; by default any.
        Text is refused, with the advice to remove quotes where it looks like a number, and so are integers above 1e300.
        """
        value = self.value
        if not is_number(value):
            return self._not_a_number()
        if is_int(value) and abs(int(value)) > 1e300:
            return self.error("is too large a number", "the largest is 1e300")
        if not math.isfinite(float(value)):
            return self.wrong("a finite number")
        if not low <= float(value) <= high:
            return self.error(f"is {value}, not {number_range(low, high)}")
        return float(value)

    def reward(self) -> float | None:
        """Return a reward or a threshold: a number of size up to MAX_REWARD, so that sums and squares stay finite."""
        amount = self.number()
        if amount is not None and abs(amount) > MAX_REWARD:
            return self.error(f"is {amount:g}, beyond {MAX_REWARD:g}", "scale all rewards and thresholds down")
        return amount

    def whole(self, *, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`, both included; None after noting anything else."""
        if isinstance(self.value, str):
            return self._not_a_number()
        fault = whole_fault(self.value, low=low, high=high)
        return int(self.value) if fault is None else self.error(fault)

    def probability(self) -> float | None:
        """Return a number from 0 to 1; up to SLACK above 1 is taken for rounding and returned as it is.

        Returns None after noting anything else.
        """
        share = self.number()
        if share is None or 0 <= share <= 1 + SLACK:
            return share
        return self.error(*probability_fault(share))

    def scale_to_one(self, total: float) -> float | None:
        """Return the factor that makes probabilities of this sum add up to 1.

        A sum that misses 1 by more than SILENT is a warning; one that misses it by more than SLACK is a fault, and then
        the result is None.
        """
        scale = divisor(total)
        if scale is None:
            return self.error(*sum_fault(total))
        if abs(total - 1) > SILENT:
            self.warn(f"probabilities sum to {total:.9g}, not 1", "they were scaled to sum to 1")
        return 1 / scale

    def _key(self, key: Any) -> str | None:
        """Return the text of a mapping's key: a name, or a grid cell given as a pair, (5, 2) -> "(5,2)".

        Returns None after noting a key such as null, true or 0.5, which YAML made of an unquoted word.
        """
        if isinstance(key, tuple) and len(key) == 2 and all(is_int(part) for part in key):
            return f"({key[0]},{key[1]})"
        if key is None or isinstance(key, bool | float):
            return self.error(
                f"the key {'null' if key is None else describe_value(key)} is not a name", "put it in quotes"
            )
        return Cursor(key, self.path, self.faults, self.scope).name()

    def _not_a_number(self) -> None:
        """Note that the value is no number, and how to write it if it is a number in quotes."""
        if not isinstance(self.value, str):
            return self.wrong("a number")
        try:
            float(self.value)
        except ValueError:
            return self.error(f"{describe_value(self.value)} is text, not a number", "write it as a decimal number")
        return self.error(f"{describe_value(self.value)} is text, not a number", "remove the quotes")


def catch_faults(make: Callable[[], T | None], faults: Faults) -> T | None:
    """Call a function that builds part of a model, and turn an InputError of the model's own checks into faults.

    make: the function; it may note faults in `faults` itself, and then those of the model are dropped, because they
        follow from them.
    Returns what it returns, or None after an InputError. One that names a source is of another file and passes through.
    """
    before = len(faults.errors)
    try:
        return make()
    except InputError as error:
        if error.source:
            raise
        faults.errors.extend(error.faults if len(faults.errors) == before else ())
        return None


def read_with_faults(read: Callable[[Cursor], T | None], start: Cursor, faults: Faults | None) -> T:
    """Run a reader on a whole value.

    read: the reader.
    start: the cursor of the value; its own faults are not used.
    faults: collects every fault and warning; None raises InputError with all errors instead.
    Returns what was read; with a collector, None when there were errors.
    """
    check_types({"faults": (faults, Faults, "an opaq.errors.Faults")}, optional=("faults",))
    check_types({"path": (start.path, str, "a text")})
    collected = Faults() if faults is None else faults
    before = len(collected.errors)
    result = catch_faults(lambda: read(replace(start, faults=collected)), collected)
    if faults is None:
        collected.raise_if_any()
    return cast("T", result if len(collected.errors) == before else None)


def drop_none(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None as a mapping, as a user would have written it."""
    return {name: value for name, value in arguments.items() if value is not None}


def number_range(low: float, high: float) -> str:
    """Return the words for the numbers from `low` to `high`, e.g. "a number from 0 to 1"; either may be infinite."""
    if math.isinf(high):
        return "a number" if math.isinf(low) else f"a number of at least {low:g}"
    return f"a number up to {high:g}" if math.isinf(low) else f"a number from {low:g} to {high:g}"
