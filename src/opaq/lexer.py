"""The one lexer: cuts guards, formulas, conditions, HOA, DOT and .pomdp texts into tokens and says where faults are."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

from opaq.errors import Fault, InputError, printable

MAX_LINE = 20_000  # characters of a guard, a formula or an expression
_MAX_FILE = 5_000_000  # characters of a file
MAX_DEPTH = 100  # brackets and operators inside one another
_LONGEST_SHOWN = 40
_INK = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class InLine:
    """Texts of one line inside another file: faults are told by character, as `fault`."""

    what: str  # "a guard"
    fault: type[ValueError]
    hint: str = ""
    end: str = "the end"

    def check_length(self, length: int) -> None:
        """At most MAX_LINE characters."""
        if length > MAX_LINE:
            raise self.fault(f"{self.what} of {length:,} characters is too long; the limit is {MAX_LINE:,}")

    def stray(self, character: str) -> tuple[str, str]:
        """It is not part of what is written here."""
        return f"'{character}' is not part of {self.what}", self.hint

    def error(self, text: str, start: int, finding: str, advice: str) -> Exception:
        """By character, from 1."""
        return self.fault(f"at character {start + 1}: {finding}{'; ' if advice else ''}{advice}")


@dataclass(frozen=True, slots=True)
class InFile:
    """Whole files: faults are told by line and column, as InputError."""

    source: str = ""
    limit: int = _MAX_FILE  # characters
    end: str = "the end of the file"

    def check_length(self, length: int) -> None:
        """At most `limit` characters."""
        if length > self.limit:
            raise InputError([Fault("", f"has {length:,} characters; the limit is {self.limit:,}")], self.source)

    def stray(self, character: str) -> tuple[str, str]:
        """Most often something was not closed."""
        return f"'{character}' cannot stand here", "is a quote or a comment left open?"

    def error(self, text: str, start: int, finding: str, advice: str) -> Exception:
        """By line and column, from 1."""
        line, column = _line_and_column(text, start)
        return InputError([Fault("", f"column {column}: {finding}", advice, line)], self.source)


_Style = InLine | InFile


def _line_and_column(text: str, start: int) -> tuple[int, int]:
    """Where a position is, both from 1."""
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


class Tokens:
    """The tokens of a text, taken one after the other; the last one is empty and stands for the end.

    Each is matched by `pattern`, whose named groups are the kinds of tokens; those of kind `skip` are comments, and
    white space stands between any two. A token is known by its number, so that faults can be told of earlier ones.
    """

    __slots__ = ("_starts", "_style", "_text", "at", "kinds", "texts")

    def __init__(self, text: str, pattern: re.Pattern[str], style: _Style) -> None:
        style.check_length(len(text))
        self.at = 0
        self.texts: list[str] = []
        self.kinds: list[str] = []
        self._text, self._style, self._starts = text, style, array("q")
        end = 0
        for match in pattern.finditer(text):
            start = match.start()
            if start != end and not text[end:start].isspace():
                break
            end, kind = match.end(), match.lastgroup or ""
            if kind != "skip":
                self.texts.append(match.group())
                self.kinds.append(kind)
                self._starts.append(start)
        self._refuse_stray(end)
        self.texts.append("")
        self.kinds.append("end")
        self._starts.append(len(text))

    def _refuse_stray(self, end: int) -> None:
        if stray := _INK.search(self._text, end):
            raise self._style.error(self._text, stray.start(), *self._style.stray(stray.group()))

    @property
    def text(self) -> str:
        """The token that comes next; empty at the end."""
        return self.texts[self.at]

    @property
    def kind(self) -> str:
        """Its kind; `end` at the end."""
        return self.kinds[self.at]

    def take(self) -> str:
        """The next token; the one after it is next."""
        text = self.texts[self.at]
        self.at += text != ""  # nothing comes after the end
        return text

    def skip(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs."""
        text = self.texts[self.at]
        here = text in texts and text != "" and self.kinds[self.at] != "string"
        self.at += here
        return here

    def expect(self, text: str) -> None:
        """Take the next token, which must be this sign."""
        if not self.skip(text):
            raise self.unexpected(f"'{text}'")

    def expect_kind(self, kind: str, wanted: str) -> str:
        """Take the next token, which must be of a kind."""
        if self.kind != kind:
            raise self.unexpected(wanted)
        return self.take()

    def quote(self, at: int | None = None) -> str:
        """A token (the next one) as a message quotes it."""
        text = printable(self.texts[self.at if at is None else at])
        short = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
        return f"'{short}'" if text else self._style.end

    def position(self, at: int) -> tuple[int, int]:
        """The line and column of a token."""
        return _line_and_column(self._text, self._starts[at])

    def check_depth(self, depth: int, *, most: int = MAX_DEPTH, unit: str = "") -> None:
        """Refuse what is nested too deeply."""
        if depth > most:
            raise self.error(f"nested deeper than {most}{unit}")

    def error(self, finding: str, advice: str = "", *, at: int | None = None) -> Exception:
        """The exception that something is wrong at a token (the next one)."""
        return self._style.error(self._text, self._starts[self.at if at is None else at], finding, advice)

    def unexpected(self, wanted: str, *, at: int | None = None) -> Exception:
        """The exception that something else than a token (the next one) was expected."""
        return self.error(f"expected {wanted}, found {self.quote(at)}", at=at)
