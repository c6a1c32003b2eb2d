"""Guards: Boolean formulas over labels, written with ! & | ( ) true false."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_.\-]*|\"[^\"]*\")|(?P<sign>&&?|\|\|?|[!~()]))")
_MAX_DEPTH = 100
_MAX_LENGTH = 20_000


class GuardError(ValueError):
    """The text is not a guard; the message says where and what was expected."""


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
            plain = _TOKEN.fullmatch(self.label) and self.label not in ("true", "false")
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
    tokens = _tokens(text)
    guard, rest = _either(tokens, 0, 0)
    if rest < len(tokens) - 1:
        raise GuardError(f"at character {tokens[rest][1] + 1}: expected '&', '|' or the end, found '{tokens[rest][0]}'")
    return guard


def _tokens(text: str) -> list[tuple[str, int]]:
    if len(text) > _MAX_LENGTH:
        raise GuardError(f"a guard of {len(text):,} characters is too long; the limit is {_MAX_LENGTH:,}")
    found: list[tuple[str, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise GuardError(f"at character {at + 1}: '{text[at]}' is not part of a guard; use labels and ! & | ( )")
        found.append((match.group().strip(), match.end() - len(match.group().strip())))
        at = match.end()
    return [*found, ("", len(text))]


def _either(tokens: list[tuple[str, int]], at: int, depth: int) -> tuple[Guard, int]:
    return _chain(tokens, at, depth, kind="or")


def _chain(tokens: list[tuple[str, int]], at: int, depth: int, *, kind: str) -> tuple[Guard, int]:
    """A run of parts joined by one operator."""
    signs = ("|", "||") if kind == "or" else ("&", "&&")
    parts = []
    while True:
        part, at = _chain(tokens, at, depth, kind="and") if kind == "or" else _single(tokens, at, depth)
        parts.append(part)
        if tokens[at][0] not in signs:
            return (parts[0] if len(parts) == 1 else Guard(kind, parts=tuple(parts))), at
        at += 1


def _single(tokens: list[tuple[str, int]], at: int, depth: int) -> tuple[Guard, int]:
    token, place = tokens[at]
    if depth > _MAX_DEPTH:
        raise GuardError(f"at character {place + 1}: nested deeper than {_MAX_DEPTH}")
    if token in ("!", "~"):
        part, at = _single(tokens, at + 1, depth + 1)
        return Guard("not", parts=(part,)), at
    if token == "(":
        part, at = _either(tokens, at + 1, depth + 1)
        if tokens[at][0] != ")":
            raise GuardError(f"at character {tokens[at][1] + 1}: expected ')', found '{tokens[at][0] or 'the end'}'")
        return part, at + 1
    if token in ("true", "false"):
        return Guard(token), at + 1
    if token and token not in (")", "&", "&&", "|", "||"):
        return Guard("label", token.strip('"')), at + 1
    raise GuardError(f"at character {place + 1}: expected a label, '!' or '(', found '{token or 'the end'}'")
