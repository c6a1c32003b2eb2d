"""Pages as they suit stdout: with looks on a terminal, plain in a pipe or a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from opaq.cli.shell import page_width

if TYPE_CHECKING:
    from opaq.reports.layout import Page


def on_terminal() -> bool:
    """Return whether the answer goes to a terminal, where a page may have looks; pipes and files get plain text."""
    there = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"


def render_page(page: Page) -> str:
    """Return the page as it suits stdout; heads stand out on a terminal unless NO_COLOR is set."""
    from opaq.reports.layout import render_terminal, render_text

    if not on_terminal():
        return render_text(page, width=page_width())
    return render_terminal(page, width=page_width(), styled=not os.environ.get("NO_COLOR"))
