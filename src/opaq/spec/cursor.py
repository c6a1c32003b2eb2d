"""A value being read, where it stands, and the faults noted so far: readers take it and return None after a fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from opaq.errors import Faults, InputError, check_types, is_int, is_number, shown, whole_fault
from opaq.model.arrays import SILENT, SLACK, divisor, probability_fault, sum_fault
from opaq.model.checks import MAX_REWARD

if TYPE_CHECKING:
    from opaq.spec.names import Names

T = TypeVar("T")

MAX_NAME = 10_000  # characters


@dataclass(frozen=True, slots=True)
class Cursor:
    """A plain value, its path in the file, the faults noted so far, and the names it may refer to."""

    value: Any
    path: str
    faults: Faults
    names: Names

    def child(self, key: object, value: Any) -> Cursor:
        """A value below a key."""
        return Cursor(value, f"{self.path}.{key}" if self.path else str(key), self.faults, self.names)

    def item(self, *index: int, value: Any = None) -> Cursor:
        """An entry of a list or an array."""
        return Cursor(value, f"{self.path}[{', '.join(map(str, index))}]", self.faults, self.names)

    def naming(self, **names: Any) -> Cursor:
        """The same place, with more names known."""
        return replace(self, names=replace(self.names, **names))

    def error(self, finding: str, advice: str = "", *, option: str = "") -> None:
        """Note something that makes the input unusable; `option` is the argument that would allow it."""
        self.faults.error(self.path, finding, advice, option=option)

    def warn(self, finding: str, advice: str = "") -> None:
        """Note something the user should know and that does not stop the work."""
        self.faults.warn(self.path, finding, advice)

    def wrong(self, expected: str, advice: str = "") -> None:
        """Note that the value is not what was expected."""
        self.error(f"is {shown(self.value)}, not {expected}", advice)

    def beyond(self, count: float, most: float, finding: str, advice: str = "") -> bool:
        """Whether there are more of something than there may be, which is noted."""
        if count > most:
            self.error(finding, advice)
        return count > most

    def entries(self) -> dict[str, Cursor] | None:
        """The values of a mapping by name; keys that are no names are noted and left out."""
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
        """The entries of a list; tuples and one-dimensional arrays count."""
        if isinstance(self.value, np.ndarray) and self.value.ndim == 1:
            return [self.item(index, value=entry) for index, entry in enumerate(self.value.tolist())]
        if isinstance(self.value, list | tuple):
            return [self.item(index, value=entry) for index, entry in enumerate(self.value)]
        self.wrong("a list")
        return None

    def name(self) -> str | None:
        """A name: text, or an integer, which becomes its text."""
        value = self.value
        if is_int(value):
            return str(int(value))
        if not isinstance(value, str):
            self.wrong("a name", "put it in quotes" if isinstance(value, bool | float) else "")
        elif len(value) > MAX_NAME:
            self.error(f"a name of {len(value):,} characters is too long", f"the limit is {MAX_NAME:,}")
        elif not value or value != value.strip():
            self.error(f"'{value}' is not a name", "a name has at least one character and no space around it")
        else:
            return value
        return None

    def unique_names(self, *, kind: str, most: int) -> tuple[str, ...] | None:
        """A list of distinct names; None when some entry is no name (a repeated one is noted and dropped)."""
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
        """A finite number from `low` to `high`."""
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
        """A reward or a threshold: a number whose sums and squares stay finite."""
        amount = self.number()
        if amount is not None and abs(amount) > MAX_REWARD:
            return self.error(f"is {amount:g}, beyond {MAX_REWARD:g}", "scale all rewards and thresholds down")
        return amount

    def whole(self, *, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`."""
        if isinstance(self.value, str):
            return self._not_a_number()
        fault = whole_fault(self.value, low=low, high=high)
        return int(self.value) if fault is None else self.error(fault)

    def probability(self) -> float | None:
        """A number from 0 to 1, up to rounding."""
        share = self.number()
        if share is None or 0 <= share <= 1 + SLACK:
            return share
        return self.error(*probability_fault(share))

    def scale_to_one(self, total: float) -> float | None:
        """What to multiply probabilities of this sum with; None (and a fault) when they do not sum to 1."""
        scale = divisor(total)
        if scale is None:
            return self.error(*sum_fault(total))
        if abs(total - 1) > SILENT:
            self.warn(f"probabilities sum to {total:.9g}, not 1", "they were scaled to sum to 1")
        return 1 / scale

    def _key(self, key: Any) -> str | None:
        """The text of a key: a name, or a grid cell given as a pair."""
        if isinstance(key, tuple) and len(key) == 2 and all(is_int(part) for part in key):
            return f"({key[0]},{key[1]})"
        if key is None or isinstance(key, bool | float):
            return self.error(f"the key {'null' if key is None else shown(key)} is not a name", "put it in quotes")
        return Cursor(key, self.path, self.faults, self.names).name()

    def _not_a_number(self) -> None:
        if not isinstance(self.value, str):
            return self.wrong("a number")
        try:
            float(self.value)
        except ValueError:
            return self.error(f"{shown(self.value)} is text, not a number", "write it as a decimal number")
        return self.error(f"{shown(self.value)} is text, not a number", "remove the quotes")


def noting_faults(make: Callable[[], T | None], faults: Faults) -> T | None:
    """What is made, or None after a fault; those that the model itself finds are noted where the reader found none."""
    before = len(faults.errors)
    try:
        return make()
    except InputError as error:
        if error.source:
            raise
        faults.errors.extend(error.faults if len(faults.errors) == before else ())
        return None


def read_with_faults(read: Callable[[Cursor], T | None], start: Cursor, faults: Faults | None) -> T:
    """Run a reader; without a collector raise InputError with every fault, with one return None if unusable."""
    check_types({"faults": (faults, Faults, "an opaq.errors.Faults")}, optional=("faults",))
    check_types({"path": (start.path, str, "a text")})
    noted = Faults() if faults is None else faults
    before = len(noted.errors)
    result = noting_faults(lambda: read(replace(start, faults=noted)), noted)
    if faults is None:
        noted.raise_if_any()
    return cast("T", result if len(noted.errors) == before else None)


def drop_none(**stated: Any) -> dict[str, Any]:
    """The arguments that are not None, as the keys of a mapping."""
    return {name: value for name, value in stated.items() if value is not None}


def number_range(low: float, high: float) -> str:
    """The numbers from `low` to `high` in words."""
    if math.isinf(high):
        return "a number" if math.isinf(low) else f"a number of at least {low:g}"
    return f"a number up to {high:g}" if math.isinf(low) else f"a number from {low:g} to {high:g}"
