"""A page for people: one sentence that says what the answer means, then figures, tables and lines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from opaq.escapes import printable
from opaq.reports.layout import WIDTH, row, wrapped

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels and what belongs to them, one below the other."""

    rows: tuple[tuple[str, str], ...]

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        return [line for label, text in self.rows for line in row(label, text, width=width)]


@dataclass(frozen=True, slots=True)
class Cells:
    """A table with a head; the last column goes on below itself where it does not fit."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Collection[int] = ()  # columns that are aligned to the right

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        table = [[printable(cell) for cell in cells] for cells in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines: list[str] = []
        for cells in table:
            padded = [
                cell.rjust(size) if column in self.numbers else cell.ljust(size)
                for column, (cell, size) in enumerate(zip(cells, widths, strict=True))
            ]
            first = "".join(f"{cell}{_GAP}" for cell in padded[:-1])
            lines += wrapped(cells[-1], first=first, rest=" " * len(first), width=width)
        return lines


@dataclass(frozen=True, slots=True)
class Lines:
    """Finished lines, under a title or without one."""

    content: tuple[str, ...]
    title: str = ""

    def lines(self, width: int) -> list[str]:
        """As plain text."""
        return [*([self.title] if self.title else []), *self.content]


Part = Facts | Cells | Lines


@dataclass(frozen=True, slots=True)
class Page:
    """A sentence and the parts below it, an empty line before each."""

    sentence: str
    parts: tuple[Part, ...] = ()

    def text(self, *, width: int = WIDTH) -> str:
        """The page as plain text, `width` columns wide."""
        blocks = [wrapped(printable(self.sentence), width=width)] if self.sentence else []
        blocks += [part.lines(width) for part in self.parts]
        return "\n\n".join("\n".join(block) for block in blocks if block)
