"""Checks that make every part of a model valid, wherever it comes from: a file, arrays, or `dataclasses.replace`.

Every part checks itself once, when it is made (`Checked`), and a problem checks that its parts fit each other. Arrays
and mappings are closed for writing then, so that what was checked stays so. A `Checks` collects all faults of one
object and raises them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from opaq.errors import Faults, describe_value, is_flag, is_number, whole_fault
from opaq.model.arrays import (
    SLACK,
    ContentEq,
    IntArray,
    SparseRows,
    find_improbable,
    frozen,
    normalise_rows,
    probability_fault,
    sum_fault,
)

_MAX_NAME = 10_000  # characters
MAX_REWARD = 1e100  # rewards and thresholds stay below: sums over any horizon and squares of them are still finite
_FIELD_VALUE: Any = object()  # default of `value`: check what the field holds
_FROM_DENSE = "SparseRows.from_dense makes one of an array"
_MOST_LISTED = 10  # faults of one array that are named one by one


class Checked(ContentEq):
    """Base of frozen dataclasses that are checked when they are made: also by `replace`, by copying or unpickling."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


class ReadOnlyDict(dict[Any, Any]):
    """A dictionary that cannot be changed; `dict(...)` of it can."""

    __slots__ = ()

    def _refuse(self, *arguments: object, **named: object) -> NoReturn:
        raise TypeError("a checked object cannot be changed: make another one with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyDict, (dict(self),)


class Names(tuple[str, ...]):
    """Distinct names that were checked, so that what is made of a checked object need not check them again.

    A name is a text without space around it, of at most 10,000 characters, and not "*". Only `of` makes them: calling
    the class, copying and unpickling give a plain tuple, which is checked where it is used.
    """

    __slots__ = ()

    def __new__(cls, values: Iterable[str] = ()) -> tuple[str, ...]:  # type: ignore[misc]
        """Return a plain tuple."""
        return tuple(values)

    @classmethod
    def of(cls, values: Sequence[Any]) -> Names | None:
        """Return the values as names; None if one of them is no name, or there twice."""
        if isinstance(values, cls):
            return values
        names = tuple(values)
        if list(map(type, names)).count(str) < len(names):
            return None
        text = "".join(names)
        if text.split() != [text] and tuple(map(str.strip, names)) != names:
            return None
        if len(text) > _MAX_NAME and max(map(len, names)) > _MAX_NAME:
            return None
        different = set(names)
        fine = len(different) == len(names) and different.isdisjoint(("", "*"))
        return tuple.__new__(cls, names) if fine else None

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class Checks:
    """Collects the faults of one object that is being made, by the paths that a problem file has for its fields.

    Each method checks one field, notes what is wrong, and puts the cleaned value (plain type, read-only array) in
    place. Methods that return a value return None when something was wrong.
    """

    def __init__(self, target: object, path: str) -> None:
        self._target, self._path = target, path
        self.faults = Faults()

    def at(self, field: str) -> str:
        """Return the path of a field."""
        return f"{self._path}.{field}" if self._path else field

    def error(self, field: str, finding: str, advice: str = "") -> None:
        """Note what is wrong with a field, and what to do about it."""
        self.faults.error(self.at(field), finding, advice)

    def put(self, field: str, value: Any) -> None:
        """Give a field of the frozen object its final value.

        Only while the object is being made; nobody else has seen it yet.
        """
        object.__setattr__(self._target, field, value)

    def type(self, field: str, kind: type | tuple[type, ...], words: str) -> bool:
        """Check that a field is an instance of a class; return whether it is. words: names the class in the message."""
        value = getattr(self._target, field)
        if isinstance(value, kind):
            return True
        self.error(field, f"is {describe_value(value)}, not {words}")
        return False

    def flag(self, field: str) -> None:
        """Check that a field is true or false."""
        value = getattr(self._target, field)
        if is_flag(value):
            self.put(field, bool(value))
        else:
            self.error(field, f"is {describe_value(value)}, not true or false")

    def word(self, field: str, words: tuple[str, ...]) -> None:
        """Check that a field is one of a few words."""
        value = getattr(self._target, field)
        if not isinstance(value, str) or value not in words:
            self.error(field, f"is {describe_value(value)}, not {' or '.join(map(repr, words))}")

    def whole(self, field: str, *, low: int, high: int) -> None:
        """Check that a field is a whole number from `low` to `high`."""
        value = getattr(self._target, field)
        fault = whole_fault(value, low=low, high=high)
        if fault is None:
            self.put(field, int(value))
        else:
            self.error(field, fault)

    def reward(self, field: str) -> None:
        """Check that a field is a reward or a threshold: a number whose sums and squares stay finite."""
        value = getattr(self._target, field)
        if not is_number(value):
            self.error(field, f"is {describe_value(value)}, not a number")
        elif not abs(value) <= MAX_REWARD:
            self.error(field, f"is {value:g}, beyond {MAX_REWARD:g}", "scale all rewards and thresholds down")
        else:
            self.put(field, float(value))

    def probability(self, field: str) -> None:
        """Check that a field is a number from 0 to 1, up to rounding."""
        value = getattr(self._target, field)
        if not is_number(value) or value != value:
            self.error(field, f"is {describe_value(value)}, not a number")
        elif not 0 <= value <= 1 + SLACK:
            self.error(field, *probability_fault(value))
        else:
            self.put(field, float(value))

    def names(self, field: str, *, kind: str, most: int) -> Names | None:
        """Check that a field lists distinct `Names`, at least one.

        kind: what is named, in the singular, for messages. most: how many there may be.
        """
        value = getattr(self._target, field)
        if not isinstance(value, tuple | list):
            return self.error(field, f"is {describe_value(value)}, not a tuple of names")
        if not value:
            return self.error(field, "is empty", f"list at least one {kind}")
        if len(value) > most:
            return self.error(field, f"lists {len(value):,} {kind}s, more than {most:,}")
        names = Names.of(value)
        if names is None:
            return self._refuse_names(field, value)
        self.put(field, names)
        return names

    def _refuse_names(self, field: str, values: Sequence[Any]) -> None:
        """Note why the values of a field are no `Names`."""
        other = next((index for index, name in enumerate(values) if type(name) is not str), None)
        if other is not None:
            return self.error(f"{field}[{other}]", f"is {describe_value(values[other])}, not a name")
        wrong = next((index for index, name in enumerate(values) if not name or name != name.strip()), None)
        if wrong is not None:
            advice = "a name has at least one character and no space around it"
            return self.error(f"{field}[{wrong}]", f"'{values[wrong]}' is not a name", advice)
        if max(map(len, values)) > _MAX_NAME:
            return self.error(field, "has a name that is too long", f"the limit is {_MAX_NAME:,} characters")
        if "*" in values:
            return self.error(field, "'*' is not a name", "it stands for all of them")
        seen: set[str] = set()
        again = next(name for name in values if name in seen or seen.add(name))
        return self.error(field, f"'{again}' is listed twice", "keep one of them")

    def text(self, field: str) -> None:
        """Check that a field is text."""
        self.type(field, str, "text")

    def floats(self, field: str, shape: tuple[int, ...], value: Any = _FIELD_VALUE) -> NDArray[np.float64] | None:
        """Check that a field is an array of finite numbers of this shape; return it read-only.

        value: checked instead of what the field holds (for entries of mappings); the field then stays as it is.
        """
        given = getattr(self._target, field) if value is _FIELD_VALUE else value
        array = self._array(field, given, "fiu", np.float64, shape, "numbers")
        if array is None:
            return None
        if not np.isfinite(array).all():
            index = int(np.flatnonzero(~np.isfinite(array))[0])
            return self.error(f"{field}[{index}]", f"is {array.flat[index]}, not a finite number")
        if value is _FIELD_VALUE:
            self.put(field, array)
        return array

    def ints(
        self,
        field: str,
        shape: tuple[int, ...] | None,
        *,
        most: int,
        what: str,
        axes: int = 1,
        value: Any = _FIELD_VALUE,
    ) -> IntArray | None:
        """Check that a field is an array of positions below `most`; return it read-only.

        shape: None takes any with `axes` axes. what: the thing that is numbered, for messages. value: checked instead
            of what the field holds; the field then stays as it is.
        """
        given = getattr(self._target, field) if value is _FIELD_VALUE else value
        array = self._array(field, given, "iu", np.int64, shape, "whole numbers")
        if array is None:
            return None
        if shape is None and array.ndim != axes:
            return self.error(field, f"has {array.ndim} axes, not {axes}")
        once = array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]  # what is not repeated
        if once.size and (once.min() < 0 or once.max() >= most):
            beyond = once[(once < 0) | (once >= most)][0]
            return self.error(field, f"names {what} {beyond}, but there are {most:,}")
        if value is _FIELD_VALUE:
            self.put(field, array)
        return array

    def distributions(
        self,
        field: str,
        *,
        num_rows: int | None,
        num_columns: int,
        column: str,
        spell: Callable[[int], str] | None = None,
    ) -> SparseRows | None:
        """Check that a field is SparseRows whose rows sum to 1, scaled where they miss it by rounding.

        Return it read-only.

        num_rows: None takes any number. column: what the columns are, for messages. spell: gives the path of a row
            below the field; "[row]" by default.
        """
        table = getattr(self._target, field)
        if not isinstance(table, SparseRows):
            return self.error(field, f"is {describe_value(table)}, not SparseRows", _FROM_DENSE)
        starts = self._array(field, table.starts, "iu", np.int64, None, "whole numbers")
        at = self._array(field, table.columns, "iu", np.int64, None, "whole numbers")
        values = self._array(field, table.values, "fiu", np.float64, None, "numbers")
        if starts is None or at is None or values is None:
            return None
        if whole_fault(table.num_columns, low=0, high=2**62) or starts.ndim != 1 or at.ndim != 1 or values.ndim != 1:
            return self.error(field, "is malformed", _FROM_DENSE)
        shape = (starts.size - 1 if num_rows is None else num_rows, num_columns)
        if not starts.size or (starts.size - 1, int(table.num_columns)) != shape:
            message = f"has shape {starts.size - 1:,} x {table.num_columns:,}, not {shape[0]:,} x {shape[1]:,}"
            return self.error(field, message)
        if starts[0] != 0 or starts[-1] != at.size or at.size != values.size or (starts[1:] < starts[:-1]).any():
            return self.error(field, "is malformed: its rows do not cover its entries")
        if at.size and (at.min() < 0 or at.max() >= shape[1]):
            beyond = int(at[(at < 0) | (at >= shape[1])][0])
            return self.error(field, f"names {column} {beyond}, but there are {shape[1]:,}")
        rows, path = np.arange(shape[0]).repeat(starts[1:] - starts[:-1]), spell or (lambda row: f"[{row}]")
        if ((at[1:] <= at[:-1]) & (rows[1:] == rows[:-1])).any():
            order = np.lexsort((at, rows))
            at, values = read_only(at[order]), read_only(values[order])
            if ((at[1:] == at[:-1]) & (rows[1:] == rows[:-1])).any():
                return self.error(field, f"has rows that name a {column} twice", "SparseRows.from_entries adds them up")
        broken = find_improbable(values)
        for entry in broken[:_MOST_LISTED].tolist():
            share = values[entry]
            what = probability_fault(share) if np.isfinite(share) else (f"is {share}, not a finite number", "")
            self.error(field + path(int(rows[entry])), *what)
        done = normalise_rows(rows, values, shape[0])
        off = done.off[~np.isin(done.off, rows[broken])] if broken.size else done.off
        for row in off[:_MOST_LISTED].tolist():
            self.error(field + path(row), *sum_fault(done.sums[row]))
        if broken.size or off.size:
            return None
        same = starts is table.starts and at is table.columns and done.values is table.values
        checked = table if same else SparseRows(starts, at, read_only(done.values), int(table.num_columns))
        self.put(field, checked)
        return checked

    def finish(self) -> None:
        """Raise InputError with every fault noted so far."""
        self.faults.raise_if_any()

    def _array(
        self, field: str, given: Any, kinds: str, dtype: Any, shape: tuple[int, ...] | None, words: str
    ) -> NDArray[Any] | None:
        """Return a value as a read-only array of a type and shape, or note why it is none.

        kinds: NumPy kind letters that are accepted. words: what the array should hold, for messages.
        """
        if is_masked(given):
            return self.error(field, *MASKED)
        try:
            array = np.asarray(given)
        except ValueError:
            return self.error(field, "is ragged: its rows differ in length")
        if array.dtype.kind not in kinds and array.size:
            return self.error(field, f"holds something other than {words}", f"give an array of {words}")
        if shape is not None and array.shape != shape:
            actual, expected = (" x ".join(f"{size:,}" for size in sizes) for sizes in (array.shape, shape))
            return self.error(field, f"has shape {actual or 'of one number'}, not {expected}")
        return read_only(array.astype(dtype, copy=False))


MASKED = ("has masked entries, which have no value", "fill them, e.g. with array.filled(0)")


def is_masked(value: object) -> bool:
    """Return whether a value is a masked array some of whose entries are masked."""
    if type(value) is np.ndarray or not isinstance(value, np.ndarray):
        return False  # NumPy imports masked arrays when they are first named, which takes a while
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array if nobody can write to it, else a copy closed for writing.

    A view of an array that can be written to counts as writable.
    """
    owner = array.base if isinstance(array.base, np.ndarray) else array
    closed = not array.flags.writeable and not owner.flags.writeable
    return array if closed else frozen(np.array(array, order="C"))
