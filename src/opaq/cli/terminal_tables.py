"""Pages on a terminal, by rich: columns that wrap to its width, heads that stand out unless NO_COLOR is set."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from opaq.cli.shell import page_width
from opaq.errors import escape_invisible

if TYPE_CHECKING:
    from opaq.reports.layout import Page, Part


def on_terminal() -> bool:
    """Whether the answer goes to a terminal, where a table may have looks; pipes and files get plain text."""
    there = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"


def render_page(page: Page) -> str:
    """The page as it suits stdout: with looks on a terminal, plain in a pipe or a file."""
    if not on_terminal():
        return page.text(width=page_width())
    blocks = [_rich_lines(_words(page.sentence, _style("bold")))] if page.sentence else []
    blocks += [_part(part) for part in page.parts]
    return "\n\n".join(block for block in blocks if block)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """A table as text for the terminal; `numbers` are the columns that are aligned to the right."""
    drawn = _columns(header_style=_style("bold"))
    for column, name in enumerate(head):
        drawn.add_column(_words(name), justify="right" if column in numbers else "left")
    for row in rows:
        drawn.add_row(*map(_words, row))
    return _rich_lines(drawn)


def _part(part: Part) -> str:
    from opaq.reports.layout import Facts, TextTable

    if isinstance(part, Facts):
        return _facts(part.rows)
    if isinstance(part, TextTable):
        return table(part.head, part.rows, numbers=part.numbers)
    title = [_rich_lines(_words(part.title, _style("bold")))] if part.title else []
    return "\n".join([*title, *part.content])


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    drawn = _columns(show_header=False)
    drawn.add_column(style=_style("dim"), no_wrap=True, min_width=11)
    drawn.add_column()
    for label, text in rows:
        drawn.add_row(_words(label), _words(text))
    return _rich_lines(drawn)


def _columns(**looks: Any) -> Any:
    """An empty table without lines."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **looks)


def _words(text: str, style: str = "") -> Any:
    """Text in which nothing is markup and no character steers the terminal."""
    from rich.text import Text

    return Text(escape_invisible(text), style=style)


def _style(style: str) -> str:
    return "" if os.environ.get("NO_COLOR") else style


def _rich_lines(thing: Any) -> str:
    """Something of rich's as lines of text."""
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True, width=page_width(), highlight=False)
    with console.capture() as captured:
        console.print(thing)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
