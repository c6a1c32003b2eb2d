"""Make long names short for a page, with a legend that says what was left out.

Comes in: all names that appear on one page. Goes out: a short form for each, and lines of legend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from opaq.errors import escape_invisible
from opaq.reports.layout import wrap_lines

_LONGEST = 28  # a name up to this length is shown as it is


@dataclass(frozen=True, slots=True)
class ShortNames:
    """Names as they are shown, and what was left out of them.

    Long names of variables (`a=1,b=2,...`) are shown without the parts that all of them share; those that are still
    long get a mark that the legend explains.
    """

    short: Mapping[str, str]
    shared: str = ""  # the parts left out of every name
    legend: Mapping[str, str] | None = None  # mark -> what it stands for

    @classmethod
    def of(cls, names: Iterable[str]) -> ShortNames:
        """Return short forms of all names that appear on one page.

        Names of at most 28 characters stay as they are.
        """
        full = {name: escape_invisible(name) for name in dict.fromkeys(names)}
        if _longest(full) <= _LONGEST:
            return cls(full)
        parts, shared = _varying_parts(full)
        short = {name: ",".join(part) for name, part in parts.items()} if parts else full
        if _longest(short) <= _LONGEST:
            return cls(short, shared)
        marks = {name: f"[{count}]" for count, name in enumerate(short, start=1)}
        return cls(marks, shared, {marks[name]: text for name, text in short.items()})

    def __getitem__(self, name: str) -> str:
        """Return the short form of a name. Raises KeyError for a name that the page does not have."""
        return self.short[name]

    def notes(self, kind: str, *, width: int) -> list[str]:
        """Return the lines of the legend, an empty one and the kind first; no lines where names are whole.

        kind: the word for what is named, in the plural. width: columns to wrap to.
        """
        lines = []
        for mark, text in (self.legend or {}).items():
            lines += wrap_lines(text.replace(",", ", "), first=f"  {mark:<4} ", rest=" " * 7, width=width)
        return ["", kind, *lines, *_shared_note(kind, self.shared, width)] if lines or self.shared else []


def tell_apart(names: Sequence[str]) -> list[str] | None:
    """Return names of variables (`a=1,b=2`) without those that have one value in all of them, in the same order.

    Returns None where that leaves nothing out, or where they are no such names.
    """
    parts, shared = _varying_parts(dict(zip(names, names, strict=True)))
    return [",".join(parts[name]) for name in names] if shared and parts else None


@dataclass(frozen=True, slots=True)
class Changes:
    """Sequences of long names of variables: the first in full, then what changes from one to the next."""

    parts: Mapping[str, tuple[str, ...]]
    shared: str

    @classmethod
    def of(cls, names: Iterable[str]) -> Changes | None:
        """Return the parts of all names that appear on one page; None where names are short or name no variables."""
        full = {name: escape_invisible(name) for name in dict.fromkeys(names)}
        parts, shared = _varying_parts(full) if _longest(full) > _LONGEST else ({}, "")
        return cls(parts, shared) if parts else None

    def words(self, names: Sequence[str]) -> list[str]:
        """Return one word for every name of a sequence in which no name follows itself.

        The first is the name in full, without the parts that all names share; the others are what changes.
        """
        words = [", ".join(self.parts[name]) for name in names[:1]]
        for before, after in pairwise(names):
            pairs = zip(self.parts[before], self.parts[after], strict=True)
            words.append(", ".join(new for old, new in pairs if old != new))
        return words

    def notes(self, kind: str, *, width: int) -> list[str]:
        """Return the lines that say how to read the words, an empty one first.

        kind: the word for what is named, in the plural. width: columns to wrap to.
        """
        lines = wrap_lines(f"{kind}: the first in full, then what changes", width=width)
        return ["", *lines, *_shared_note(kind, self.shared, width)]


def _shared_note(kind: str, shared: str, width: int) -> list[str]:
    """Return the lines on the parts that all names share; none where there are no such parts."""
    return wrap_lines(shared, first=f"  in all {kind}: ", rest=" " * 7, width=width) if shared else []


def _longest(names: Mapping[str, str]) -> int:
    """Return the length of the longest short form, 0 without names; names: name -> its form."""
    return max(map(len, names.values()), default=0)


def _varying_parts(names: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the `variable=value` parts that are not the same in all names, by name, and those that are, as text.

    Both are empty for fewer than two names, and for names that are no lists of the same variables.
    """
    parts = {name: text.split(",") for name, text in names.items()}
    variables = {tuple(part.partition("=")[0] for part in split) for split in parts.values()}
    if len(names) < 2 or len(variables) != 1 or not all("=" in part for split in parts.values() for part in split):
        return {}, ""
    columns = list(zip(*parts.values(), strict=True))
    varies = [len(set(column)) > 1 for column in columns]
    shared = ", ".join(column[0] for column, vary in zip(columns, varies, strict=True) if not vary)
    return {name: tuple(compress(split, varies)) for name, split in parts.items()}, shared
