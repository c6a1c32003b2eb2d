"""Tables on a terminal, by rich: columns that wrap to its width, a head that stands out unless NO_COLOR is set."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from opaq.cli.shell import page_width
from opaq.escapes import printable


def on_terminal() -> bool:
    """Whether the answer goes to a terminal, where a table may have looks; pipes and files get plain text."""
    there = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """A table as text for the terminal; `numbers` are the columns that are aligned to the right."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    style = "" if os.environ.get("NO_COLOR") else "bold"
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=style)
    for column, name in enumerate(head):
        shown.add_column(Text(printable(name)), justify="right" if column in numbers else "left")
    for row in rows:
        shown.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=StringIO(), force_terminal=True, width=page_width(), highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
