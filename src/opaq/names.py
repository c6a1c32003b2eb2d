"""Names from files, made safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line, with control characters spelt out: names in a file must not steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
