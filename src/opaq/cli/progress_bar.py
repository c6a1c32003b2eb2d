"""The bar of a progress line, drawn by rich; loaded only where work lasts, for it takes longer than short work."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any, TextIO

WIDTH = 20  # columns
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")


def bar(share: float, stream: TextIO) -> str:
    """A bar of WIDTH columns as the stream's terminal shows it: in ASCII or without looks where it must be."""
    from rich.progress_bar import ProgressBar

    console = _console(stream)
    style = "" if os.environ.get("NO_COLOR") else "bold"
    drawn = ProgressBar(
        total=1.0, completed=share, width=WIDTH, style="dim", complete_style=style, finished_style=style
    )
    with console.capture() as captured:
        console.print(drawn, end="")
    text: str = captured.get()
    return text + " " * (WIDTH - len(_LOOKS.sub("", text)))


@lru_cache(maxsize=1)
def _console(stream: TextIO) -> Any:
    """Rich's picture of the terminal; it writes nothing, for everything is captured."""
    from rich.console import Console

    return Console(file=stream, force_terminal=True, highlight=False, width=WIDTH)
