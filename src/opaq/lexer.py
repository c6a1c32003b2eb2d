"""The one lexer: cuts guards, formulas, conditions, HOA, DOT and .pomdp texts into tokens and says where faults are.

A parser gives `Tokens` a regular expression whose named groups are the kinds of tokens, and a style that says how
faults
are reported: `InLine` by character for a text inside a file, `InFile` by line and column for a whole file.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass

from opaq.errors import Fault, InputError, escape_invisible

MAX_LINE = 20_000  # characters of a guard, a formula or an expression
_MAX_FILE = 5_000_000  # characters of a file
MAX_DEPTH = 100  # brackets and operators inside one another
_LONGEST_SHOWN = 40
_INK = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class InLine:
    """A text of one line inside another file: faults give the character, as the exception `fault`.

    what: what the text is, for messages ("a guard").
    fault: the exception that is raised.
    hint: the advice for a character that belongs to no token.
    end: what messages call the end of the text.
    """

    what: str  # "a guard"
    fault: type[ValueError]
    hint: str = ""
    end: str = "the end"

    def check_length(self, length: int) -> None:
        """Raise `fault` if a text has more than MAX_LINE characters."""
        if length > MAX_LINE:
            raise self.fault(f"{self.what} of {length:,} characters is too long; the limit is {MAX_LINE:,}")

    def stray(self, character: str) -> tuple[str, str]:
        """Return the finding and the advice for a character that belongs to no token."""
        return f"'{character}' is not part of {self.what}", self.hint

    def error(self, text: str, start: int, finding: str, advice: str) -> Exception:
        """Return the exception for a fault at the position `start` of a text; characters count from 1."""
        return self.fault(f"at character {start + 1}: {finding}{'; ' if advice else ''}{advice}")


@dataclass(frozen=True, slots=True)
class InFile:
    """A whole file: faults give line and column, as InputError.

    source: the name of the file in the error.
    limit: the most characters it may have.
    end: what messages call its end.
    """

    source: str = ""
    limit: int = _MAX_FILE  # characters
    end: str = "the end of the file"

    def check_length(self, length: int) -> None:
        """Raise InputError if the file has more than `limit` characters."""
        if length > self.limit:
            raise InputError([Fault("", f"has {length:,} characters; the limit is {self.limit:,}")], self.source)

    def stray(self, character: str) -> tuple[str, str]:
        """Return the finding and the advice for a character that belongs to no token.

        Most often something was not closed.
        """
        return f"'{character}' cannot stand here", "is a quote or a comment left open?"

    def error(self, text: str, start: int, finding: str, advice: str) -> Exception:
        """Return the InputError for a fault at the position `start` of a text; lines and columns count from 1."""
        line, column = _line_and_column(text, start)
        return InputError([Fault("", f"column {column}: {finding}", advice, line)], self.source)


_Style = InLine | InFile


def _line_and_column(text: str, start: int) -> tuple[int, int]:
    """Return the line and the column of a position in a text, both from 1."""
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


class Tokens:
    """The tokens of a text, taken one after the other; the last one is empty and stands for the end.

    Each token is matched by `pattern`, whose named groups are the kinds of tokens; those of kind `skip` are comments,
    and white space may stand between any two. `at` is the number of the next token, and tokens are referred to by
    number, so that a fault can be reported at an earlier one.
    """

    __slots__ = ("_starts", "_style", "_text", "at", "kinds", "texts")

    def __init__(self, text: str, pattern: re.Pattern[str], style: _Style) -> None:
        """Cut a text into tokens.

        text: the text.
        pattern: matches one token at a time; a token of no named group has the kind "".
        style: how faults are reported.
        Raises the style's exception if the text is too long or has a character that belongs to no token.
        """
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
        """The next token; empty at the end."""
        return self.texts[self.at]

    @property
    def kind(self) -> str:
        """The kind of the next token; `end` at the end."""
        return self.kinds[self.at]

    def take(self) -> str:
        """Return the next token and go on to the one after it; at the end it returns "" and stays."""
        text = self.texts[self.at]
        self.at += text != ""  # nothing comes after the end
        return text

    def skip(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs; return whether it was. Strings never count as signs."""
        text = self.texts[self.at]
        here = text in texts and text != "" and self.kinds[self.at] != "string"
        self.at += here
        return here

    def expect(self, text: str) -> None:
        """Take the next token, which must be this sign. Raises the style's exception otherwise."""
        if not self.skip(text):
            raise self.unexpected(f"'{text}'")

    def expect_kind(self, kind: str, wanted: str) -> str:
        """Take and return the next token, which must be of a kind; `wanted` is what the exception says was expected."""
        if self.kind != kind:
            raise self.unexpected(wanted)
        return self.take()

    def quote(self, at: int | None = None) -> str:
        """Return a token (the next one by default) as a message quotes it.

        In quotes, printable, at most 40 characters.
        """
        text = escape_invisible(self.texts[self.at if at is None else at])
        short = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
        return f"'{short}'" if text else self._style.end

    def position(self, at: int) -> tuple[int, int]:
        """Return the line and the column of a token, both from 1."""
        return _line_and_column(self._text, self._starts[at])

    def check_depth(self, depth: int, *, most: int = MAX_DEPTH, unit: str = "") -> None:
        """Raise the style's exception if `depth`, the brackets and operators around the next token.

        Is more than `most`.
        """
        if depth > most:
            raise self.error(f"nested deeper than {most}{unit}")

    def error(self, finding: str, advice: str = "", *, at: int | None = None) -> Exception:
        """Return the exception for a fault at a token (the next one by default); the caller raises it."""
        return self._style.error(self._text, self._starts[self.at if at is None else at], finding, advice)

    def unexpected(self, wanted: str, *, at: int | None = None) -> Exception:
        """Return the exception that something else was expected (`wanted`) than a token (the next one by default)."""
        return self.error(f"expected {wanted}, found {self.quote(at)}", at=at)
