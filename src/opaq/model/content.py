"""What data with arrays share: equality by content, hashes that agree with it, and a repr of one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_LONGEST = 160  # characters of a repr
_LONGEST_PART = 40


class Brief:
    """Base of dataclasses (repr=False) whose repr is one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={brief(getattr(self, name))}" for name in _names(self))
        return _cut(f"{type(self).__name__}({parts})", _LONGEST)


class ByContent(Brief):
    """Base of frozen dataclasses (eq=False, repr=False) that hold arrays or mappings: equal if their content is."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in _names(self))

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_hashed(getattr(self, name)) for name in _names(self))))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal: arrays entry by entry, mappings key by key."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"array[{'x'.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}" if value else "{}"
    if isinstance(value, tuple | list | frozenset):
        text = f"({', '.join(map(brief, value))})" if len(value) <= 4 else ""
        return text if text and len(text) <= _LONGEST_PART else f"({len(value)} items)"
    if is_dataclass(value):
        text = repr(value)
        return text if len(text) <= _LONGEST_PART else f"{type(value).__name__}(...)"
    return _cut(repr(value), _LONGEST_PART)


def _names(value: Any) -> list[str]:
    return [field.name for field in fields(value)]


def _hashed(value: Any) -> Any:
    """Something hashable that is equal for equal values: cheap, so it leaves out the entries of arrays and mappings."""
    if isinstance(value, np.ndarray | list):
        return np.shape(value)[:1]
    if isinstance(value, tuple):
        return (len(value),)
    return len(value) if isinstance(value, Mapping) else hash(value)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
