"""Small pieces of HTML for notebooks: tables with looks of their own that suit light and dark pages.

Every text is escaped here, and nowhere else: what these functions return is markup, what they take is text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from opaq.escapes import printable

_LINE = "1px solid rgba(128,128,128,.35)"  # seen on white and on black
_CELL = f"padding:.15em .6em;border-bottom:{_LINE};vertical-align:top;background:none;color:inherit;"
_TABLE = "border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit;"
_LONGEST = 80  # characters of a cell


def box(title: str, *content: str) -> str:
    """A titled piece of a page; the content is markup."""
    head = f'<div style="font-weight:600">{text(title)}</div>'
    return f'<div style="color:inherit;max-width:60em;overflow-x:auto">{head}{"".join(content)}</div>'


def paragraph(words: str) -> str:
    """A sentence."""
    return f'<div style="margin:.3em 0">{text(words, most=1000)}</div>' if words else ""


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Labels and what belongs to them."""
    lines = [
        f'<tr style="background:none">{_cell(label, "th", "left;font-weight:normal;opacity:.7;white-space:nowrap")}'
        f"{_cell(words, 'td', 'left', most=400)}</tr>"
        for label, words in rows
    ]
    return f'<table style="{_TABLE}"><tbody>{"".join(lines)}</tbody></table>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = (), of: int = 0) -> str:
    """A table; `numbers` are the columns aligned to the right, `of` how many rows there are if not all are given."""
    sides = ["right" if column in numbers else "left" for column in range(len(head))]
    top = "".join(_cell(name, "th", side) for name, side in zip(head, sides, strict=True))
    cells = ["".join(_cell(cell, "td", side) for cell, side in zip(row, sides, strict=True)) for row in rows]
    lines = [f'<tr style="background:none">{row}</tr>' for row in cells]
    more = paragraph(f"and {of - len(rows):,} more") if of > len(rows) else ""
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<table style="{_TABLE}">{body}</table>{more}'


def text(words: str, *, most: int = _LONGEST) -> str:
    """Text that cannot become markup, nor turn a line round; long text is cut."""
    shown = printable(words)
    return escape(shown if len(shown) <= most else f"{shown[: most - 1]}…")


def _cell(words: str, name: str, side: str, *, most: int = _LONGEST) -> str:
    return f'<{name} style="{_CELL}text-align:{side}">{text(words, most=most)}</{name}>'
