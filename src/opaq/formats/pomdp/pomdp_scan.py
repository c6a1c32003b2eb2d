"""The words of a Cassandra .pomdp file, each with its line and column."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass

_WORD = re.compile(r"#[^\n]*|:|\*|[^\s:#*]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order; the last one is empty and stands for the end."""

    texts: list[str]
    offsets: array[int]
    text: str

    def place(self, index: int) -> str:
        """Where a word stands, for people."""
        offset = self.offsets[index]
        line = self.text.count("\n", 0, offset)
        column = offset - (self.text.rfind("\n", 0, offset) + 1)
        return f"line {line + 1}, column {column + 1}"

    def shown(self, index: int) -> str:
        """A word as a message quotes it."""
        text = self.texts[index]
        return repr(text[:_LONGEST_SHOWN]) if text else "the end of the file"


def scan(text: str) -> Words:
    """Split a text into words; `:` and `*` stand alone, `#` begins a comment."""
    texts: list[str] = []
    offsets = array("q")
    for match in _WORD.finditer(text):
        if not match.group().startswith("#"):
            texts.append(match.group())
            offsets.append(match.start())
    texts.append("")
    offsets.append(len(text))
    return Words(texts, offsets, text)


def is_number(text: str) -> bool:
    """Whether a word is written like a number, however large."""
    return _NUMBER.fullmatch(text) is not None


def number(text: str) -> float | None:
    """The finite number a word stands for, if it does."""
    if not is_number(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
