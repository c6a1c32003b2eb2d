"""Regular expressions over letters: a run is accepted when its whole word of label sets matches.

From tight to loose: `* + ? {n} {n,m}`, then one after the other (a space or `;`), then `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opaq.automata.minimise import minimise
from opaq.automata.readable import readable
from opaq.automata.syntax.scan import MAX_DEPTH, NAME, QUOTED, NotationError, Token, expected, scan
from opaq.automata.tables import Letter, Table, explore, reduced
from opaq.model.automaton import Automaton
from opaq.model.guard import Guard, GuardError, parse_guard

MAX_POSITIONS = 2_000
_PATTERN = re.compile(rf"{NAME}|{QUOTED}|\[(?:{QUOTED}|[^\]\"])*\]|\{{\s*\d+\s*(?:,\s*\d*\s*)?\}}|[.;|*+?()]")
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


ANY = Guard("true")


class RegexError(NotationError):
    """The text is not a regular expression; the message says where and what was expected."""


@dataclass(frozen=True, slots=True)
class Regex:
    """A parsed expression: `kind` is one of letter, then, or, repeat.

    A `then` without parts is the empty word; a `repeat` has one part and `most` is None when there is no end.
    """

    kind: str
    guard: Guard = ANY
    parts: tuple[Regex, ...] = ()
    least: int = 0
    most: int | None = None

    def labels(self) -> frozenset[str]:
        """Every label the expression mentions."""
        return self.guard.names().union(*(part.labels() for part in self.parts))

    def positions(self) -> int:
        """How many letters it has once repetitions are written out."""
        inner = sum(part.positions() for part in self.parts)
        if self.kind == "repeat":
            return inner * max(self.least if self.most is None else self.most, 1)
        return 1 if self.kind == "letter" else inner


def parse_regex(text: str) -> Regex:
    """Read a regular expression. Raises RegexError with the position of the first fault."""
    tokens = scan(text, _PATTERN, fault=RegexError, what="a regular expression")
    regex, at = _either(tokens, 0, 0)
    if tokens[at].text:
        raise expected("a label, '.', '[', '(' or the end", tokens[at], fault=RegexError)
    if regex.positions() > MAX_POSITIONS:
        found = f"the expression is {regex.positions():,} letters long once repetitions are written out"
        raise RegexError(f"{found}; the limit is {MAX_POSITIONS:,}")
    return regex


def translate_regex(regex: Regex, alphabet: Sequence[Letter], *, minimal: bool = True) -> Automaton:
    """The automaton that accepts the non-empty words over `alphabet` that match the whole expression.

    Raises BudgetError when the automaton grows too large.
    """
    letters = reduced(alphabet, regex.labels())
    table = _table(regex, letters)
    return readable(minimise(table) if minimal else table, letters)


def _either(tokens: list[Token], at: int, depth: int) -> tuple[Regex, int]:
    parts: list[Regex] = []
    while True:
        part, at = _sequence(tokens, at, depth)
        parts.append(part)
        if tokens[at].text != "|":
            return (parts[0] if len(parts) == 1 else Regex("or", parts=tuple(parts))), at
        at += 1


def _sequence(tokens: list[Token], at: int, depth: int) -> tuple[Regex, int]:
    """Expressions one after the other; a `;` must stand between two of them."""
    part, at = _repeated(tokens, at, depth)
    parts = [part]
    while tokens[at].text not in ("", "|", ")"):
        part, at = _repeated(tokens, at + 1 if tokens[at].text == ";" else at, depth)
        parts.append(part)
    return (parts[0] if len(parts) == 1 else Regex("then", parts=tuple(parts))), at


def _repeated(tokens: list[Token], at: int, depth: int) -> tuple[Regex, int]:
    regex, at = _single(tokens, at, depth)
    while tokens[at].text[:1] in _REPEATS or tokens[at].text[:1] == "{":
        depth += 1
        _check_depth(tokens[at], depth)
        least, most = _bounds(tokens[at])
        regex, at = Regex("repeat", parts=(regex,), least=least, most=most), at + 1
    return regex, at


def _bounds(token: Token) -> tuple[int, int | None]:
    if token.text in _REPEATS:
        return _REPEATS[token.text]
    low, comma, high = token.text.strip("{} ").partition(",")
    if max(len(low.strip()), len(high.strip())) > 6:
        raise RegexError(f"at character {token.start + 1}: {token.shown} repeats more than {MAX_POSITIONS:,} times")
    least = int(low)
    most = int(high) if high.strip() else None if comma else least
    if most is not None and most < least:
        raise RegexError(f"at character {token.start + 1}: {token.shown} ends before it begins; write {{least,most}}")
    if max(least, most or 0) > MAX_POSITIONS:
        raise RegexError(f"at character {token.start + 1}: {token.shown} repeats more than {MAX_POSITIONS:,} times")
    return least, most


def _check_depth(token: Token, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RegexError(f"at character {token.start + 1}: nested deeper than {MAX_DEPTH}")


def _single(tokens: list[Token], at: int, depth: int) -> tuple[Regex, int]:
    token = tokens[at]
    _check_depth(token, depth)
    if token.text == "(":
        if tokens[at + 1].text == ")":
            return Regex("then"), at + 2
        regex, at = _either(tokens, at + 1, depth + 1)
        if tokens[at].text != ")":
            raise expected("')'", tokens[at], fault=RegexError)
        return regex, at + 1
    if token.text == ".":
        return Regex("letter"), at + 1
    if token.text[:1] == "[":
        return Regex("letter", _bracketed(token)), at + 1
    if token.text[:1] in ("_", '"') or token.text[:1].isalpha():
        return Regex("letter", _label(token)), at + 1
    raise expected("a label, '.', '[' or '('", token, fault=RegexError)


def _label(token: Token) -> Guard:
    if token.text in ("true", "false"):
        return Guard(token.text)
    if token.text == '""':
        raise expected("a name between the quotes", token, fault=RegexError)
    return Guard("label", token.text.strip('"'))


def _bracketed(token: Token) -> Guard:
    try:
        return parse_guard(token.text[1:-1])
    except GuardError as error:
        raise RegexError(f"at character {token.start + 1}: in {token.text}: {error}") from None


@dataclass(slots=True)
class _Positions:
    """An expression by its letters (Glushkov's construction): which may come after which, sets as bits."""

    guards: list[Guard]
    follow: list[int]

    def add(self, guard: Guard) -> int:
        """A new letter; its bit."""
        self.guards.append(guard)
        self.follow.append(0)
        return 1 << (len(self.guards) - 1)

    def link(self, before: int, after: int) -> None:
        """Let any letter of `after` follow any of `before`."""
        while before:
            low = before & -before
            self.follow[low.bit_length() - 1] |= after
            before ^= low


@dataclass(frozen=True, slots=True)
class _Ends:
    """Whether an expression matches the empty word, and the letters it may begin and end with."""

    empty: bool
    first: int
    last: int


def _place(regex: Regex, found: _Positions) -> _Ends:
    if regex.kind == "letter":
        bit = found.add(regex.guard)
        return _Ends(False, bit, bit)
    if regex.kind == "or":
        ends = [_place(part, found) for part in regex.parts]
        return _Ends(any(end.empty for end in ends), _union(e.first for e in ends), _union(e.last for e in ends))
    if regex.kind == "then":
        return _chained([_place(part, found) for part in regex.parts], found)
    return _place_repeat(regex, found)


def _union(sets: Iterable[int]) -> int:
    joined = 0
    for each in sets:
        joined |= each
    return joined


def _chained(ends: Sequence[_Ends], found: _Positions) -> _Ends:
    whole = _Ends(True, 0, 0)
    for end in ends:
        found.link(whole.last, end.first)
        first = whole.first | (end.first if whole.empty else 0)
        last = end.last | (whole.last if end.empty else 0)
        whole = _Ends(whole.empty and end.empty, first, last)
    return whole


def _place_repeat(regex: Regex, found: _Positions) -> _Ends:
    """Copies one after the other: the first `least` must come, the others may; without an end the last one loops."""
    copies = max(regex.least if regex.most is None else regex.most, 1 if regex.most is None else 0)
    ends = []
    for copy in range(copies):
        end = _place(regex.parts[0], found)
        if regex.most is None and copy == copies - 1:
            found.link(end.last, end.first)
        ends.append(end if copy < regex.least else _Ends(True, end.first, end.last))
    return _chained(ends, found)


def _table(regex: Regex, letters: Sequence[Letter]) -> Table:
    """Subsets of letters that may have been read last; -1 stands for nothing read yet."""
    found = _Positions([], [])
    ends = _place(regex, found)
    distinct = {guard: [guard.holds(letter) for letter in letters] for guard in set(found.guards)}
    matches = [
        sum(1 << place for place, guard in enumerate(found.guards) if distinct[guard][letter])
        for letter in range(len(letters))
    ]

    def successors(state: int) -> list[int]:
        after = ends.first if state < 0 else _after(state, found.follow)
        return [after & match for match in matches]

    return explore(-1, successors, lambda state: state >= 0 and bool(state & ends.last), num_letters=len(letters))


def _after(state: int, follow: Sequence[int]) -> int:
    joined = 0
    while state:
        low = state & -state
        joined |= follow[low.bit_length() - 1]
        state ^= low
    return joined
