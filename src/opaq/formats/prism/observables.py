"""What the observables of a PRISM model are called and worth, read from its source.

Storm says which states look alike, but not (reliably) what is seen in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opaq.spec.variables import ExpressionError, evaluate

_COMMENT = re.compile(r"//[^\n]*")
_LISTED = re.compile(r"\bobservables\b(.*?)\bendobservables\b", re.DOTALL)
_NAMED = re.compile(r'\bobservable\s*"([^"]*)"\s*=([^;]*);')
_DEFINED = re.compile(r"\b(?:const(?:\s+(?:int|double|bool))?|formula)\s+([A-Za-z_]\w*)\s*=([^;]*);")
_NAME = re.compile(r"[A-Za-z_]\w*")


def observable_values(
    source: str, variables: Mapping[str, NDArray[Any]], constants: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Observable -> its value in every state; an ExpressionError if the source is beyond what is read here."""
    source = _COMMENT.sub("", source)
    names = _Names(dict(_DEFINED.findall(source)), {**variables, **constants})
    return {name: names.value(text) for name, text in _observables(source)}


def _observables(source: str) -> Iterator[tuple[str, str]]:
    for listed in _LISTED.findall(source):
        for name in _NAME.findall(listed):
            yield name, name
    yield from _NAMED.findall(source)


@dataclass(slots=True)
class _Names:
    """Formulas and constants by their definitions, evaluated when they are first asked for."""

    definitions: dict[str, str]
    known: dict[str, Any]
    open: set[str] = field(default_factory=set)

    def value(self, text: str) -> NDArray[Any]:
        for name in _NAME.findall(text):
            if name in self.known or name not in self.definitions:
                continue
            if name in self.open:
                raise ExpressionError(f"'{name}' is defined by itself")
            self.open.add(name)
            self.known[name] = self.value(self.definitions[name])
        return evaluate(text, self.known)


def agree(values: Mapping[str, NDArray[Any]], seen: NDArray[np.int64], count: int) -> dict[str, NDArray[Any]] | None:
    """The value of every observable for every observation; None if two states that look alike differ in one."""
    present, first = np.unique(seen, return_index=True)
    if present.size != count or not values:
        return None
    shared = {name: value[first] for name, value in values.items()}
    return shared if all((shared[name][seen] == value).all() for name, value in values.items()) else None
