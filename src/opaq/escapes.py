"""Names from files, written so that they cannot steer a terminal, a spreadsheet or another tool."""

from __future__ import annotations

import re

_FORMULA = tuple("=+-@\t\r＝＋－＠")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?")


def escape_mark(name: str, mark: str) -> str:
    """A name to be joined with others by a mark: the mark inside it, and every backslash, with a backslash in front.

    The first mark without a backslash of its own then ends the name, so that different lists of names never look alike.
    """
    return name.replace("\\", "\\\\").replace(mark, f"\\{mark}")


def printable(text: str) -> str:
    """The text on one line: control, bidirectional, line-break and other invisible characters spelt out as escapes.

    Everything that Unicode calls a control (Cc, C1 included), format (Cf, the bidirectional ones included), surrogate,
    private or unassigned character and every separator but the plain space is not printable.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def spreadsheet_cell(text: str) -> str:
    """A name as a cell of a CSV file: printable, and with an apostrophe in front where a formula could begin."""
    shown = printable(text)
    return f"'{shown}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else shown
