"""Guards: Boolean formulas over labels, written with ! & | ( ) true false."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from opaq.lexer import InLine, Tokens

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
_PATTERN = re.compile(rf"(?P<name>{_NAME}|\"[^\"]*\")|&&?|\|\|?|[!~()]")
_PLAIN = re.compile(_NAME)
_JOINED_BY = {"or": ("|", "||"), "and": ("&", "&&")}


class GuardError(ValueError):
    """The text is not a guard; the message says where and what was expected."""


_STYLE = InLine("a guard", GuardError, hint="use labels and ! & | ( )", end="'the end'")


@dataclass(frozen=True, slots=True)
class Guard:
    """A parsed guard: `kind` is one of true, false, label, not, and, or."""

    kind: str
    label: str = ""
    parts: tuple[Guard, ...] = ()

    def holds(self, labels: frozenset[str]) -> bool:
        """Whether the guard is true of a set of labels."""
        if self.kind == "label":
            return self.label in labels
        if self.kind == "not":
            return not self.parts[0].holds(labels)
        if self.kind == "and":
            return all(part.holds(labels) for part in self.parts)
        if self.kind == "or":
            return any(part.holds(labels) for part in self.parts)
        return self.kind == "true"

    def names(self) -> frozenset[str]:
        """Every label the guard mentions."""
        own = frozenset([self.label]) if self.kind == "label" else frozenset()
        return own.union(*(part.names() for part in self.parts))

    def __str__(self) -> str:
        if self.kind == "label":
            plain = _PLAIN.fullmatch(self.label) and self.label not in ("true", "false")
            return self.label if plain else f'"{self.label}"'
        if self.kind == "not":
            return f"!{self._inner(self.parts[0])}"
        if self.kind in ("and", "or"):
            return (" & " if self.kind == "and" else " | ").join(self._inner(part) for part in self.parts)
        return self.kind

    @staticmethod
    def _inner(part: Guard) -> str:
        return f"({part})" if part.kind in ("and", "or") else str(part)


def parse_guard(text: str) -> Guard:
    """Read a guard; `&` binds tighter than `|`. Raises GuardError with the position of the first fault."""
    tokens = Tokens(text, _PATTERN, _STYLE)
    guard = read_guard(tokens, _label)
    if tokens.text:
        raise tokens.unexpected("'&', '|' or the end")
    return guard


def read_guard(tokens: Tokens, atom: Callable[[Tokens], Guard], *, depth: int = 0, kind: str = "or") -> Guard:
    """Parts joined by `|` and, tighter, by `&`; `atom` reads what is neither negated nor in brackets."""
    parts = []
    while True:
        parts.append(
            read_guard(tokens, atom, depth=depth, kind="and") if kind == "or" else _single(tokens, atom, depth)
        )
        if not tokens.skip(*_JOINED_BY[kind]):
            return parts[0] if len(parts) == 1 else Guard(kind, parts=tuple(parts))


def _single(tokens: Tokens, atom: Callable[[Tokens], Guard], depth: int) -> Guard:
    tokens.check_depth(depth)
    if tokens.skip("!", "~"):
        return Guard("not", parts=(_single(tokens, atom, depth + 1),))
    if tokens.skip("("):
        guard = read_guard(tokens, atom, depth=depth + 1)
        tokens.expect(")")
        return guard
    return atom(tokens)


def _label(tokens: Tokens) -> Guard:
    if tokens.kind != "name":
        raise tokens.unexpected("a label, '!' or '('")
    text = tokens.take()
    return Guard(text) if text in ("true", "false") else Guard("label", text.strip('"'))
