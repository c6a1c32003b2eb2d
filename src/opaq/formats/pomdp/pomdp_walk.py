"""Walking through the words of a .pomdp file: numbers, declared names, and faults with their line and column."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from opaq.choices import suggestion
from opaq.errors import Faults
from opaq.lexer import InFile, Tokens
from opaq.model.arrays import FloatArray
from opaq.model.mdp import positions

ANY = -1  # the index written `*`
MAX_CHARACTERS = 32_000_000
MAX_NAMES = 100_000  # states, and likewise actions and observations
MAX_CHOICES = 2_000_000  # states times actions
MAX_ENTRIES = 10_000_000  # table entries written, and cases rewards are averaged over
MOST_FAULTS = 50
KINDS = {"states": "state", "actions": "action", "observations": "observation"}
HEADS = ("discount", "values", *KINDS, "start", "T", "O", "R")
_PATTERN = re.compile(r"(?P<skip>#[^\n]*)|:|\*|[^\s:#*]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class SkipError(Exception):
    """This statement is unusable (and noted); go on with the next."""


class StopError(Exception):
    """Nothing more can be made of the file; what is wrong is noted."""


def as_number(text: str) -> float | None:
    """The finite number a word stands for, if it does."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def is_index(text: str) -> bool:
    """Whether a word is written like the number of a state, an action or an observation."""
    return text.isascii() and text.isdigit()


@dataclass(slots=True)
class Walk:
    """The words, the names declared so far, and what is wrong."""

    tokens: Tokens
    faults: Faults = field(default_factory=Faults)
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # None: declared, but unusable
    index: dict[str, dict[str, int]] = field(default_factory=dict)
    written: int = 0

    @classmethod
    def through(cls, text: str) -> Walk:
        """A walk from the first word of a text."""
        return cls(Tokens(text, _PATTERN, InFile(limit=MAX_CHARACTERS)))

    def where(self, at: int) -> str:
        """Where a word stands, for people."""
        line, column = self.tokens.position(at)
        return f"line {line}, column {column}"

    def fail(self, found: str, advice: str = "", *, at: int | None = None) -> NoReturn:
        """Note a fault (at the next word) and leave the statement."""
        where = self.where(self.tokens.at if at is None else at)
        if len(self.faults.errors) >= MOST_FAULTS:
            self.faults.error(where, "and from here on more faults, which are not listed")
            raise StopError
        self.faults.error(where, found, advice)
        raise SkipError

    def stop(self, found: str, advice: str, *, at: int | None = None) -> NoReturn:
        """Note a fault that ends the reading."""
        self.faults.error(self.where(self.tokens.at if at is None else at), found, advice)
        raise StopError

    def spend(self, entries: int, at: int) -> None:
        """Count the entries of tables that a statement writes."""
        self.written += entries
        if self.written > MAX_ENTRIES:
            found = f"the tables grow beyond {MAX_ENTRIES:,} entries here"
            self.stop(found, "a model this dense cannot be read", at=at)

    def check_size(self, states: int, actions: int) -> None:
        """Refuse models whose rows alone are too many."""
        if states * actions > MAX_CHOICES:
            found = f"{states:,} states times {actions:,} actions are too many"
            self.stop(found, f"at most {MAX_CHOICES:,} pairs can be read")

    def at_head(self) -> bool:
        """Whether a statement begins here; a name like `T` after a colon does not count."""
        texts, at = self.tokens.texts, self.tokens.at
        if texts[at] not in HEADS or (at > 0 and texts[at - 1] == ":"):
            return False
        return texts[at + 1] == ":" or (texts[at] == "start" and texts[at + 1] in ("include", "exclude"))

    def to_next_head(self) -> list[str]:
        """Go on to the next statement; the words in between."""
        first = self.tokens.at
        while self.tokens.text and not self.at_head():
            self.tokens.take()
        return self.tokens.texts[first : self.tokens.at]

    def expect(self, wanted: str) -> None:
        """Take a word that must be this one."""
        if not self.tokens.skip(wanted):
            self.fail(f"expected '{wanted}', found {self.tokens.shown()}")

    def word(self, *options: str) -> str:
        """Take one of some words."""
        if self.tokens.text not in options:
            listed = " or ".join(f"'{option}'" for option in options)
            self.fail(f"expected {listed}, found {self.tokens.shown()}")
        return self.tokens.take()

    def number(self) -> float:
        """Take a number."""
        value = as_number(self.tokens.text)
        if value is None:
            self.fail(f"expected a number, found {self.tokens.shown()}")
        self.tokens.take()
        return value

    def numbers(self, count: int, what: str) -> FloatArray:
        """Exactly so many numbers."""
        first, values = self.tokens.at, []
        texts, at = self.tokens.texts, first
        while (value := as_number(texts[at])) is not None:
            values.append(value)
            at += 1
        self.tokens.at = at
        if len(values) != count:
            self.tokens.at = first + min(len(values), count)
            found = f"expected {count:,} numbers ({what}), found {len(values):,} and then {self.tokens.shown()}"
            self.fail(found)
        return np.array(values, dtype=np.float64)

    def declare(self, head: str) -> None:
        """`states: 3` or `states: left right`, after the colon."""
        first, texts = self.tokens.at, self.to_next_head()
        if not texts:
            self.fail(f"expected a number of {head} or their names, found {self.tokens.shown()}")
        counted = len(texts) == 1 and _NUMBER.fullmatch(texts[0]) is not None
        names = tuple(map(str, range(self._count(head, first)))) if counted else self._listed(head, texts, first)
        self.names[head], self.index[head] = names, positions(names)

    def _count(self, head: str, at: int) -> int:
        text = self.tokens.texts[at]
        if not is_index(text) or not text.strip("0"):
            self.fail(f"the number of {head} is {self.tokens.shown(at)}, not a whole number above 0", at=at)
        if len(text.lstrip("0")) > 9 or int(text) > MAX_NAMES:
            self.fail(f"{text[:20]} {head} are too many", f"at most {MAX_NAMES:,} can be read", at=at)
        return int(text)

    def _listed(self, head: str, texts: list[str], first: int) -> tuple[str, ...]:
        if len(texts) > MAX_NAMES:
            self.fail(f"{len(texts):,} {head} are too many", f"at most {MAX_NAMES:,} can be read", at=first)
        seen: set[str] = set()
        for at, text in enumerate(texts, first):
            if text in (":", "*") or not text.isprintable() or _NUMBER.fullmatch(text):
                self.fail(f"{self.tokens.shown(at)} cannot be the name of a {KINDS[head]}", at=at)
            if text in seen:
                self.fail(f"the {KINDS[head]} {self.tokens.shown(at)} is listed twice", at=at)
            seen.add(text)
        return tuple(texts)

    def known(self, head: str) -> tuple[str, ...]:
        """The names declared so far; a statement that needs unusable ones is passed over in silence."""
        if head not in self.names:
            self.names[head] = None
            self.fail(f"'{head}:' must be declared before this statement")
        names = self.names[head]
        if names is None:
            raise SkipError
        return names

    def pick(self, head: str, *, any_allowed: bool = True) -> int:
        """The index a name, a number or `*` stands for."""
        names, at, text = self.known(head), self.tokens.at, self.tokens.take()
        if text == "*" and any_allowed:
            return ANY
        index = self.index[head].get(text)
        if index is None and is_index(text):
            index = int(text[:10])
        if index is None or index >= len(names):
            self._unknown(at, head, " or '*'" if any_allowed else "")
        return index

    def _unknown(self, at: int, head: str, others: str) -> NoReturn:
        names, text, kind = self.known(head), self.tokens.texts[at], KINDS[head]
        if is_index(text):
            self.fail(f"there is no {kind} {text[:20]}", f"they are numbered 0 to {len(names) - 1}", at=at)
        if not text or text in (":", "*"):
            self.fail(f"expected a {kind}{others}, found {self.tokens.shown(at)}", at=at)
        self.fail(f"unknown {kind} {self.tokens.shown(at)}", suggestion(text[:40], names, kind=kind), at=at)

    def indices(self, axes: tuple[str, ...]) -> list[int]:
        """`: a : b : ...` as far as it goes, one index an axis."""
        cell: list[int] = []
        for axis in axes:
            if cell and self.tokens.text != ":":
                break
            self.expect(":")
            cell.append(self.pick(axis))
        if self.tokens.text == ":":
            self.fail(f"more than {len(axes)} parts")
        return cell
