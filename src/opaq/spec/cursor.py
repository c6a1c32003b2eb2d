"""Readers of plain values: each takes (value, path, faults), notes what is wrong there and returns None for it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from opaq.errors import Faults
from opaq.model.mdp import MAX_REWARD

T = TypeVar("T")

SILENT_SLACK = 1e-9  # sums this close to 1 are rounding and are scaled without a word
SLACK = 1e-5  # sums this close to 1 are scaled with a warning, others are faults
_EXACT_SLACK = 1e-12  # sums this close to 1 are left alone, so that reading twice changes nothing
UNREAD: Any = object()  # stands for a part that could not be read and whose faults are noted already
_MOST_COMPARED = 5_000  # comparing a misspelt name with more names than this takes too long
_MOST_SHOWN = 8
MAX_NAME = 10_000  # characters
_LONGEST_COMPARED = 100  # characters of a misspelt name
_MOST_SUGGESTED = 20  # faults: a file with more of them is not merely misspelt


def gather(read: Callable[[Faults], T | None], faults: Faults | None) -> T:
    """Run a reader; without a collector raise InputError with every fault, with one return None if unusable."""
    found = Faults() if faults is None else faults
    before = len(found.errors)
    result = read(found)
    if faults is None:
        found.raise_if_any()
    return cast("T", result if len(found.errors) == before else None)


def at(path: str, key: object) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else str(key)


def item(path: str, *places: int) -> str:
    """The path of an entry of a list or an array."""
    return f"{path}[{', '.join(str(place) for place in places)}]"


def shown(value: object) -> str:
    """A value as it is named in a message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 40 else f"'{value[:37]}...'"
    if isinstance(value, int | float | np.number):
        return f"{value}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "an array" if isinstance(value, np.ndarray) else f"of type {type(value).__name__}"


def wrong(value: object, path: str, faults: Faults, expected: str, *, advice: str = "") -> None:
    """Note that a value is not what was expected."""
    faults.error(path, f"is {shown(value)}, not {expected}", advice)


def some(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    listed = list(names)
    rest = f" and {len(listed) - _MOST_SHOWN:,} more" if len(listed) > _MOST_SHOWN else ""
    return ", ".join(listed[:_MOST_SHOWN]) + rest


def suggestion(name: str, options: Iterable[str], *, kind: str, faults: Faults | None = None) -> str:
    """Advice for an unknown name: the nearest one that exists, else all of them when they are few.

    Comparing takes time: with many `faults` noted before, nothing is suggested.
    """
    if faults is not None and len(faults.errors) > _MOST_SUGGESTED:
        return ""
    listed = list(options)
    comparable = len(listed) <= _MOST_COMPARED and len(name) <= _LONGEST_COMPARED
    near = difflib.get_close_matches(name, listed, n=1) if comparable else []
    if near:
        return f"did you mean '{near[0]}'?"
    if not listed:
        return f"there are no {kind}s"
    return f"the {kind}s are {', '.join(listed)}" if len(listed) <= _MOST_SHOWN else ""


def is_int(value: object) -> bool:
    """Whether the value is an integer (booleans are not)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether the value is a number (booleans are not)."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def name(value: Any, path: str, faults: Faults) -> str | None:
    """A name: text, or an integer, which becomes its text."""
    if is_int(value):
        return str(int(value))
    if not isinstance(value, str):
        wrong(value, path, faults, "a name", advice="put it in quotes" if _is_scalar(value) else "")
        return None
    if len(value) > MAX_NAME:
        faults.error(path, f"a name of {len(value):,} characters is too long", f"the limit is {MAX_NAME:,}")
        return None
    if not value or value != value.strip():
        faults.error(path, f"'{value}' is not a name", "a name has at least one character and no space around it")
        return None
    return value


def text(value: Any, path: str, faults: Faults) -> str | None:
    """Free text."""
    if isinstance(value, str):
        return value
    wrong(value, path, faults, "text")
    return None


def flag(value: Any, path: str, faults: Faults) -> bool | None:
    """True or false."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    wrong(value, path, faults, "true or false")
    return None


def mapping(value: Any, path: str, faults: Faults) -> dict[str, Any] | None:
    """A mapping with names as keys; keys that are no names are noted and left out."""
    if not isinstance(value, Mapping):
        wrong(value, path, faults, "a mapping")
        return None
    found: dict[str, Any] = {}
    for key, entry in value.items():
        known = _key(key, path, faults)
        if known is None:
            continue
        if known in found:
            faults.error(at(path, known), "is there twice, as a number and as text", "keep one of them")
        found[known] = entry
    return found


def listing(value: Any, path: str, faults: Faults) -> list[Any] | None:
    """A list; tuples and one-dimensional arrays count."""
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value.tolist())
    wrong(value, path, faults, "a list")
    return None


def number(value: Any, path: str, faults: Faults, *, low: float = -math.inf, high: float = math.inf) -> float | None:
    """A finite number from `low` to `high`."""
    if not is_number(value):
        _not_a_number(value, path, faults)
        return None
    if is_int(value) and abs(int(value)) > 1e300:
        faults.error(path, "is too large a number", "the largest is 1e300")
        return None
    found = float(value)
    if not math.isfinite(found):
        wrong(value, path, faults, "a finite number")
        return None
    if not low <= found <= high:
        faults.error(path, f"is {value}, not {_range(low, high)}")
        return None
    return found


def reward(value: Any, path: str, faults: Faults) -> float | None:
    """A reward or a threshold: a number whose sums and squares stay finite."""
    amount = number(value, path, faults)
    if amount is not None and abs(amount) > MAX_REWARD:
        faults.error(path, f"is {amount:g}, beyond {MAX_REWARD:g}", "scale all rewards and thresholds down")
        return None
    return amount


def whole(value: Any, path: str, faults: Faults, *, low: int, high: int) -> int | None:
    """A whole number from `low` to `high`."""
    if isinstance(value, str):
        _not_a_number(value, path, faults)
        return None
    if not is_int(value):
        wrong(value, path, faults, "a whole number")
        return None
    if not low <= int(value) <= high:
        faults.error(path, f"is {value}, not a whole number from {low:,} to {high:,}")
        return None
    return int(value)


def probability(value: Any, path: str, faults: Faults) -> float | None:
    """A number from 0 to 1."""
    found = number(value, path, faults)
    if found is None:
        return None
    if found < 0:
        faults.error(path, f"probability {found:.7g} is negative", "use a number from 0 to 1")
        return None
    if found > 1 + SLACK:
        faults.error(path, f"probability {found:.7g} is above 1", "use a number from 0 to 1")
        return None
    return found


def scale_to_one(total: float, path: str, faults: Faults) -> float | None:
    """What to multiply probabilities of this sum with; None (and a fault) when they do not sum to 1."""
    gap = abs(total - 1)
    if gap <= _EXACT_SLACK:
        return 1.0
    if gap > SLACK:
        faults.error(path, sum_fault(total), "make them sum to 1")
        return None
    if gap > SILENT_SLACK:
        faults.warn(path, f"probabilities sum to {total:.9g}, not 1", "they were scaled to sum to 1")
    return 1 / total


def sum_fault(total: float) -> str:
    """What is wrong with probabilities of this sum."""
    return f"probabilities sum to {total:.7g}, not 1"


def check_keys(
    spec: Mapping[str, Any],
    path: str,
    faults: Faults,
    *,
    allowed: Sequence[str],
    required: Mapping[str, str] | None = None,
) -> set[str]:
    """Note the keys that do not belong here and the required ones (key -> advice) that are not there.

    Returns the absent keys that unknown ones were probably meant to be, so that they are not called missing as well.
    """
    meant: set[str] = set()
    unknown = 0
    for key in spec:
        if key in allowed:
            continue
        absent = [option for option in allowed if option not in spec]
        near = difflib.get_close_matches(key[:_LONGEST_COMPARED], absent, n=1) if unknown <= _MOST_SUGGESTED else []
        unknown += 1
        meant.update(near)
        faults.error(at(path, key), "unknown key", _key_advice(near, allowed))
    for key, advice in (required or {}).items():
        if key not in spec and key not in meant:
            faults.error(at(path, key), "is missing", advice)
    return meant


def one_key(
    spec: Mapping[str, Any], path: str, faults: Faults, *, options: Sequence[str], meant: Collection[str] = ()
) -> str | None:
    """The only one of the options that is a key of the mapping; `meant` are misspelt ones noted before."""
    present = [option for option in options if option in spec]
    if len(present) == 1:
        return present[0]
    if present:
        both = " and ".join(f"'{option}'" for option in present)
        faults.error(path, f"has {both}", "keep one of them")
    elif not set(meant) & set(options):
        faults.error(path, f"has none of {', '.join(options)}", "give exactly one")
    return None


def option(value: Any, path: str, faults: Faults, *, options: Sequence[str]) -> str | None:
    """One of a few words."""
    if isinstance(value, str) and value in options:
        return value
    wrong(value, path, faults, " or ".join(f"'{word}'" for word in options))
    return None


def unique_names(value: Any, path: str, faults: Faults, *, kind: str, most: int) -> tuple[str, ...] | None:
    """A list of distinct names; None when some entry is no name (a repeated one is noted and dropped)."""
    entries = listing(value, path, faults)
    if entries is None:
        return None
    if not entries:
        faults.error(path, "is empty", f"list at least one {kind}")
        return None
    if len(entries) > most:
        faults.error(path, f"lists {len(entries):,} {kind}s, more than {most:,}")
        return None
    first: dict[str, int] = {}
    unusable = False
    for place, entry in enumerate(entries):
        found = name(entry, item(path, place), faults)
        unusable |= found is None
        if found == "*":
            faults.error(item(path, place), "'*' is not a name", "it stands for all of them")
        elif found in first:
            faults.error(item(path, place), f"'{found}' is listed twice", f"first at {item(path, first[found])}")
        elif found is not None:
            first[found] = place
    return None if unusable else tuple(first)


def _key(key: Any, path: str, faults: Faults) -> str | None:
    """The text of a key: a name, or a grid cell given as a pair."""
    if isinstance(key, tuple) and len(key) == 2 and all(is_int(part) for part in key):
        return f"({key[0]},{key[1]})"
    if key is None or isinstance(key, bool | float):
        spelled = "null" if key is None else shown(key)
        faults.error(path, f"the key {spelled} is not a name", "put it in quotes")
        return None
    return name(key, path, faults)


def _key_advice(near: list[str], allowed: Sequence[str]) -> str:
    return f"did you mean '{near[0]}'?" if near else f"the keys here are {', '.join(allowed)}"


def _is_scalar(value: object) -> bool:
    return value is not None and isinstance(value, bool | float)


def _not_a_number(value: Any, path: str, faults: Faults) -> None:
    if not isinstance(value, str):
        wrong(value, path, faults, "a number")
        return
    faults.error(path, f"{shown(value)} is text, not a number", _number_advice(value))


def _number_advice(value: str) -> str:
    try:
        float(value)
    except ValueError:
        return "write it as a decimal number"
    return "remove the quotes"


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"a number of at least {low:g}"
    return f"a number up to {high:g}" if math.isinf(low) else f"a number from {low:g} to {high:g}"
