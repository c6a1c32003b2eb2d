"""What formulas and regular expressions share: how labels are written, and the error for a text that is neither."""

from __future__ import annotations

import re
from collections.abc import Collection

# Dots and dashes only inside a name: `p->q` is not the label `p-`, and `a.*` is not the label `a.` repeated.
NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-]+[A-Za-z0-9_]+)*"
QUOTED = r"\"[^\"]*\""
LABEL = rf"(?P<label>{NAME}|{QUOTED})"
_PLAIN = re.compile(NAME)


class NotationError(ValueError):
    """The text cannot be read; the message says where, what was expected and what was found."""


def label_text(label: str, *, reserved: Collection[str] = ()) -> str:
    """A label as it is written: in quotes if it would be read as something else."""
    return label if _PLAIN.fullmatch(label) and label not in reserved else f'"{label}"'
