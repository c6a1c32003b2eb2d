"""Reading formulas and expressions sign by sign, with the place of every fault."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

MAX_LENGTH = 20_000
MAX_DEPTH = 100

# Dots and dashes only inside a name: `p->q` is not the label `p-`, and `a.*` is not the label `a.` repeated.
NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-]+[A-Za-z0-9_]+)*"
QUOTED = r"\"[^\"]*\""
_PLAIN = re.compile(NAME)


class NotationError(ValueError):
    """The text cannot be read; the message says where, what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Token:
    """One sign, name or number, and where it starts (from 0); the end of the text is an empty one."""

    text: str
    start: int

    @property
    def shown(self) -> str:
        """As it is quoted in a message."""
        return f"'{self.text}'" if self.text else "the end"


def scan(text: str, pattern: re.Pattern[str], *, fault: type[NotationError], what: str) -> list[Token]:
    """The tokens of a text, each matched by `pattern`, and one empty token at the end."""
    if len(text) > MAX_LENGTH:
        raise fault(f"{what} of {len(text):,} characters is too long; the limit is {MAX_LENGTH:,}")
    tokens: list[Token] = []
    at = _skip(text, 0)
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise fault(f"at character {at + 1}: '{text[at]}' is not part of {what}")
        tokens.append(Token(match.group(), at))
        at = _skip(text, match.end())
    return [*tokens, Token("", len(text))]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def expected(wanted: str, token: Token, *, fault: type[NotationError]) -> NotationError:
    """The fault that something else than `wanted` was found."""
    return fault(f"at character {token.start + 1}: expected {wanted}, found {token.shown}")


def label_text(label: str, *, reserved: Collection[str] = ()) -> str:
    """A label as it is written: in quotes if it would be read as something else."""
    return label if _PLAIN.fullmatch(label) and label not in reserved else f'"{label}"'
