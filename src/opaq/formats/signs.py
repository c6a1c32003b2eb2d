"""Text files of other tools, sign by sign, with the line and column of every fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opaq.errors import Fault, InputError

MAX_CHARACTERS = 5_000_000


@dataclass(frozen=True, slots=True)
class Sign:
    """One token, what kind it is and where it stands; the end of the file is an empty one of kind `end`."""

    kind: str
    text: str
    line: int
    column: int


class Signs:
    """The tokens of a text, taken one after the other."""

    def __init__(self, text: str, pattern: re.Pattern[str], *, source: str = "") -> None:
        self._source = source
        self._at = 0
        self._signs = self._scan(text, pattern)

    @property
    def next(self) -> Sign:
        """The token that comes next."""
        return self._signs[self._at]

    @property
    def place(self) -> int:
        """How many tokens have been taken."""
        return self._at

    def take(self) -> Sign:
        """The next token; the one after it is next."""
        sign = self._signs[self._at]
        self._at = min(self._at + 1, len(self._signs) - 1)
        return sign

    def skip(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs."""
        found = self.next.kind != "string" and self.next.text in texts and bool(self.next.text)
        if found:
            self.take()
        return found

    def expect(self, kind: str, wanted: str) -> Sign:
        """Take the next token, which must be of a kind."""
        if self.next.kind != kind:
            raise self.unexpected(wanted)
        return self.take()

    def expect_sign(self, text: str) -> None:
        """Take the next token, which must be this sign."""
        if not self.skip(text):
            raise self.unexpected(f"'{text}'")

    def unexpected(self, wanted: str) -> InputError:
        """The error that the next token is not what was wanted."""
        found = "the end of the file" if self.next.kind == "end" else f"'{_short(self.next.text)}'"
        return self.error(self.next, f"expected {wanted}, found {found}")

    def error(self, sign: Sign, found: str, advice: str = "") -> InputError:
        """The error that something is wrong at a token."""
        return InputError([Fault("", f"column {sign.column}: {found}", advice, sign.line)], self._source)

    def _scan(self, text: str, pattern: re.Pattern[str]) -> list[Sign]:
        signs: list[Sign] = []
        if len(text) > MAX_CHARACTERS:
            found = f"has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}"
            raise InputError([Fault("", found)], self._source)
        at, line, begun = 0, 1, 0
        while at < len(text):
            match = pattern.match(text, at)
            if match is None:
                stray = Sign("stray", text[at], line, at - begun + 1)
                raise self.error(stray, f"'{stray.text}' cannot stand here", "is a quote or a comment left open?")
            if match.lastgroup != "skip":
                signs.append(Sign(match.lastgroup or "", match.group(), line, at - begun + 1))
            breaks = match.group().count("\n")
            if breaks:
                line, begun = line + breaks, at + match.group().rindex("\n") + 1
            at = match.end()
        return [*signs, Sign("end", "", line, at - begun + 1)]


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def quoted(text: str) -> str:
    """A text as a string of HOA or DOT."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(text: str) -> str:
    """What a string of HOA or DOT says."""
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nlr" else match[1], text[1:-1], flags=re.DOTALL)
