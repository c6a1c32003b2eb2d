"""Pages for people (sentence, facts, tables, lines) as text of limited width, and how numbers are written."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from opaq.errors import escape_invisible
from opaq.model.uncertainty import UNCERTAINTIES, Uncertainty
from opaq.opacity.amount import Amount

WIDTH = 100  # columns where there is no terminal to ask
GLUE = "\xa0"  # a space at which no line is broken; names cannot contain it, being printable
_LABEL = 12
_LONGEST = 28  # a name up to this length is shown as it is
_ONE = {"bits": "bit", "guesses": "guess"}
NOISE = 1e-12  # probabilities and bits below this are rounding errors


def number(value: float) -> str:
    """Bits or a probability in six digits; rounding errors are shown as 0."""
    return f"{value:.6g}" if abs(value) >= NOISE else "0"


def with_unit(shown: str, unit: str) -> str:
    """A figure and its unit in the plural, made singular where the figure is 1."""
    return f"{shown} {_ONE.get(unit, unit) if shown == '1' else unit}"


def row(label: str, text: str, *, width: int) -> list[str]:
    """A label and a text, which goes on below itself where it does not fit."""
    first = f"{escape_invisible(label):<{_LABEL}} "
    return wrap_lines(escape_invisible(text), first=first, rest=" " * (_LABEL + 1), width=width)


def wrap_lines(text: str, *, first: str = "", rest: str = "", width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken at spaces (not at GLUE), too long words anywhere."""
    lines = textwrap.wrap(
        text,
        width=max(width, len(rest) + 20),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
    return [line.replace(GLUE, " ") for line in lines] or [first.rstrip()]


@dataclass(frozen=True, slots=True)
class ShortNames:
    """Names as they are shown, and what was left out of them.

    Long names of variables (`a=1,b=2,...`) are shown without the parts that all of them share; those that are still
    long get a mark that the legend explains.
    """

    shown: Mapping[str, str]
    shared: str = ""  # the parts left out of every name
    legend: Mapping[str, str] | None = None  # mark -> what it stands for

    @classmethod
    def of(cls, names: Iterable[str]) -> ShortNames:
        """Short forms of all names that appear on one page."""
        full = {name: escape_invisible(name) for name in names}
        if _longest(full) <= _LONGEST:
            return cls(full)
        parts, shared = _varying_parts(full)
        short = {name: ",".join(part) for name, part in parts.items()} if parts else full
        if _longest(short) <= _LONGEST:
            return cls(short, shared)
        marks = {name: f"[{count}]" for count, name in enumerate(short, start=1)}
        return cls(marks, shared, {marks[name]: text for name, text in short.items()})

    def __getitem__(self, name: str) -> str:
        return self.shown[name]

    def notes(self, kind: str, *, width: int) -> list[str]:
        """What a reader needs to know to read the short names; `kind` says what is named, in the plural."""
        lines = []
        for mark, text in (self.legend or {}).items():
            lines += wrap_lines(text.replace(",", ", "), first=f"  {mark:<4} ", rest=" " * 7, width=width)
        return ["", kind, *lines, *_shared_note(kind, self.shared, width)] if lines or self.shared else []


@dataclass(frozen=True, slots=True)
class Changes:
    """Sequences of long names of variables: the first in full, then what changes from one to the next."""

    parts: Mapping[str, tuple[str, ...]]
    shared: str

    @classmethod
    def of(cls, names: Iterable[str]) -> Changes | None:
        """None where names are short or do not name variables."""
        full = {name: escape_invisible(name) for name in names}
        parts, shared = _varying_parts(full) if _longest(full) > _LONGEST else ({}, "")
        return cls(parts, shared) if parts else None

    def words(self, names: Sequence[str]) -> list[str]:
        """One word for every name of a sequence in which no name follows itself."""
        found = [", ".join(self.parts[name]) for name in names[:1]]
        for before, after in pairwise(names):
            pairs = zip(self.parts[before], self.parts[after], strict=True)
            found.append(", ".join(new for old, new in pairs if old != new))
        return found

    def notes(self, kind: str, *, width: int) -> list[str]:
        """How to read the words; `kind` says what is named, in the plural."""
        lines = wrap_lines(f"{kind}: the first in full, then what changes", width=width)
        return ["", *lines, *_shared_note(kind, self.shared, width)]


def _shared_note(kind: str, shared: str, width: int) -> list[str]:
    return wrap_lines(shared, first=f"  in all {kind}: ", rest=" " * 7, width=width) if shared else []


def _longest(names: Mapping[str, str]) -> int:
    return max(map(len, names.values()), default=0)


def _varying_parts(names: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """The `variable=value` parts that are not the same in all names, and those that are; nothing for other names."""
    parts = {name: text.split(",") for name, text in names.items()}
    variables = {tuple(part.partition("=")[0] for part in split) for split in parts.values()}
    if len(names) < 2 or len(variables) != 1 or not all("=" in part for split in parts.values() for part in split):
        return {}, ""
    columns = list(zip(*parts.values(), strict=True))
    varies = [len(set(column)) > 1 for column in columns]
    shared = ", ".join(column[0] for column, vary in zip(columns, varies, strict=True) if not vary)
    return {name: tuple(compress(split, varies)) for name, split in parts.items()}, shared


_GAP = "  "


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels and what belongs to them, one below the other."""

    rows: tuple[tuple[str, str], ...]

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        return [line for label, text in self.rows for line in row(label, text, width=width)]


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with a head; the last column goes on below itself where it does not fit."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Collection[int] = ()  # columns that are aligned to the right

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        table = [[escape_invisible(cell) for cell in cells] for cells in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines: list[str] = []
        for cells in table:
            padded = [
                cell.rjust(size) if column in self.numbers else cell.ljust(size)
                for column, (cell, size) in enumerate(zip(cells, widths, strict=True))
            ]
            first = "".join(f"{cell}{_GAP}" for cell in padded[:-1])
            lines += wrap_lines(cells[-1], first=first, rest=" " * len(first), width=width)
        return lines


@dataclass(frozen=True, slots=True)
class Lines:
    """Finished lines, under a title or without one."""

    content: tuple[str, ...]
    title: str = ""

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        return [*([self.title] if self.title else []), *self.content]


Part = Facts | TextTable | Lines


@dataclass(frozen=True, slots=True)
class Page:
    """A sentence and the parts below it, an empty line before each."""

    sentence: str
    parts: tuple[Part, ...] = ()

    def text(self, *, width: int = WIDTH) -> str:
        """The page as plain text, `width` columns wide."""
        blocks = [wrap_lines(escape_invisible(self.sentence), width=width)] if self.sentence else []
        blocks += [part.lines(width) for part in self.parts]
        return "\n\n".join("\n".join(block) for block in blocks if block)


_BETWEEN = "  "


def plain_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int], width: int
) -> list[str]:
    """The lines of a table; `numbers` are the columns that are aligned to the right."""
    table = [[escape_invisible(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines: list[str] = []
    for cells in table:
        padded = [
            cell.rjust(size) if index in numbers else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        first = "".join(cell + _BETWEEN for cell in padded[:-1])
        lines += wrap_lines(padded[-1], first=first, rest=" " * len(first), width=width)
    return [line.rstrip() for line in lines]


def short_amount(amount: Amount) -> str:
    """An amount as a cell of a table."""
    if amount.method == "exact":
        return f"{amount.value:.5f}"
    if amount.standard_error is not None:
        return f"{amount.value:.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:.4f}, {amount.upper:.4f}]"


def short_difference(amount: Amount) -> str:
    """A difference of two amounts as a cell, with its sign."""
    if amount.method == "exact":
        return f"{amount.value:+.5f}"
    if amount.standard_error is not None:
        return f"{amount.value:+.4f} ± {amount.standard_error:.2g}"
    return f"[{amount.lower:+.4f}, {amount.upper:+.4f}]"


def short_bound(bound: float | None, *, trivial: bool = False) -> str:
    """An upper bound as a cell, rounded upwards: what is read must still be a bound."""
    return "" if bound is None else f"<= {math.ceil(bound * 1e5) / 1e5:.5f}{' (trivial)' if trivial else ''}"


def objective_title(name: str) -> str:
    """In words: "guess error"."""
    return UNCERTAINTIES[name].title if name in UNCERTAINTIES else name.replace("_", " ")


def objective_unit(name: str) -> str:
    """Its unit; empty if it has none, or none is known."""
    return UNCERTAINTIES[name].unit if name in UNCERTAINTIES else ""


def axis_title(name: str, uncertainty: Uncertainty | None = None) -> str:
    """The title with its unit: "opacity (bits)"; `uncertainty` where there is the object itself."""
    title = objective_title(name) if uncertainty is None else uncertainty.title
    unit = objective_unit(name) if uncertainty is None else uncertainty.unit
    return f"{title} ({unit})" if unit else title


def with_objective_unit(value: str, name: str) -> str:
    """A value as it is written, and its unit: "0.5 bits"."""
    return f"{value} {objective_unit(name)}".rstrip()
