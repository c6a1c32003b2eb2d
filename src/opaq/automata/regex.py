"""Read regular expressions over letters: a run is accepted when its whole word of label sets matches.

Text comes in, a `Regex` goes out, and from that an `Automaton` (Glushkov's construction).

    regex    ::= sequence ("|" sequence)*
    sequence ::= repeated (";"? repeated)*               one after the other
    repeated ::= single ("*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}")*
    single   ::= label | "." | "[" guard "]" | "(" regex ")" | "()"

A label matches every letter that has it, `.` any letter, and `[guard]` the letters for which the guard holds. The runs
that visit `a`, later `b`, and never `c` in between: `.* a [!c]* b .*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from opaq.automata.dfa import Letter, Table, explore, minimise, restrict_letters, to_automaton
from opaq.automata.formula import LABEL, QUOTED, NotationError
from opaq.lexer import InLine, Tokens
from opaq.model.automaton import Automaton, Guard, GuardError, parse_guard

_MAX_POSITIONS = 2_000
_PATTERN = re.compile(
    rf"{LABEL}|(?P<guard>\[(?:{QUOTED}|[^\]\"])*\])|(?P<repeat>\{{\s*\d+\s*(?:,\s*\d*\s*)?\}}|[*+?])|[.;|()]"
)
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


_ANY = Guard("true")


class RegexError(NotationError):
    """Raised for a text that is no regular expression; the message says where and what was expected."""


_STYLE = InLine("a regular expression", RegexError)


@dataclass(frozen=True, slots=True)
class Regex:
    """A parsed expression: `kind` is one of letter, then, or, repeat.

    A `then` without parts is the empty word; a `repeat` has one part, and `most` is None when there is no end.
    """

    kind: str
    guard: Guard = _ANY
    parts: tuple[Regex, ...] = ()
    least: int = 0
    most: int | None = None

    def labels(self) -> frozenset[str]:
        """Return every label that the expression mentions."""
        return self.guard.names().union(*(part.labels() for part in self.parts))

    def positions(self) -> int:
        """Return how many letters it has once repetitions are written out."""
        inner = sum(part.positions() for part in self.parts)
        if self.kind == "repeat":
            return inner * max(self.least if self.most is None else self.most, 1)
        return 1 if self.kind == "letter" else inner


def parse_regex(text: str) -> Regex:
    """Return the expression of a text.

    text: by the grammar of this module, e.g. "p .* [q & !r]{1,3}".
    Raises RegexError with the position of the first fault, and for more than _MAX_POSITIONS letters, counted after
    repetitions are written out.
    """
    tokens = Tokens(text, _PATTERN, _STYLE)
    regex = _parse_alternatives(tokens, 0)
    if tokens.text:
        raise tokens.unexpected("a label, '.', '[', '(' or the end")
    if regex.positions() > _MAX_POSITIONS:
        finding = f"the expression is {regex.positions():,} letters long once repetitions are written out"
        raise RegexError(f"{finding}; the limit is {_MAX_POSITIONS:,}")
    return regex


def translate_regex(regex: Regex, alphabet: Sequence[Letter], *, minimal: bool = True) -> Automaton:
    """Return the automaton that accepts the non-empty words over `alphabet` that match the whole expression.

    alphabet: the label sets that occur in the model.
    minimal: whether the automaton is made minimal; otherwise its states are sets of positions.
    Raises BudgetError when the automaton grows too large.
    """
    letters = restrict_letters(alphabet, regex.labels())
    table = _tabulate(regex, letters)
    return to_automaton(minimise(table) if minimal else table, letters)


def _parse_alternatives(tokens: Tokens, depth: int) -> Regex:
    """Return sequences separated by `|`; `depth` is how deep the nesting is here."""
    parts = [_parse_sequence(tokens, depth)]
    while tokens.skip("|"):
        parts.append(_parse_sequence(tokens, depth))
    return parts[0] if len(parts) == 1 else Regex("or", parts=tuple(parts))


def _parse_sequence(tokens: Tokens, depth: int) -> Regex:
    """Return expressions one after the other; a `;` may stand between two of them."""
    parts = [_parse_repetition(tokens, depth)]
    while tokens.text not in ("", "|", ")"):
        tokens.skip(";")
        parts.append(_parse_repetition(tokens, depth))
    return parts[0] if len(parts) == 1 else Regex("then", parts=tuple(parts))


def _parse_repetition(tokens: Tokens, depth: int) -> Regex:
    """Return an expression with the repetitions after it, the first one innermost."""
    regex = _parse_single(tokens, depth)
    while tokens.kind == "repeat":
        depth += 1
        tokens.check_depth(depth)
        least, most = _parse_bounds(tokens)
        tokens.take()
        regex = Regex("repeat", parts=(regex,), least=least, most=most)
    return regex


def _parse_bounds(tokens: Tokens) -> tuple[int, int | None]:
    """Return (least, most) of a repetition; `most` is None when there is no end.

    Raises RegexError for impossible bounds.
    """
    if tokens.text in _REPEATS:
        return _REPEATS[tokens.text]
    low, comma, high = (part.strip() for part in tokens.text.strip("{} ").partition(","))
    if max(len(low), len(high)) > 6 or max(int(low), int(high or 0)) > _MAX_POSITIONS:
        raise tokens.error(f"{tokens.quote()} repeats more than {_MAX_POSITIONS:,} times")
    least = int(low)
    most = int(high) if high else None if comma else least
    if most is not None and most < least:
        raise tokens.error(f"{tokens.quote()} ends before it begins; write {{least,most}}")
    return least, most


def _parse_single(tokens: Tokens, depth: int) -> Regex:
    """Return a letter or an expression in brackets; `()` is the empty word. Raises RegexError for anything else."""
    tokens.check_depth(depth)
    if tokens.skip("("):
        if tokens.skip(")"):
            return Regex("then")
        regex = _parse_alternatives(tokens, depth + 1)
        tokens.expect(")")
        return regex
    if tokens.skip("."):
        return Regex("letter")
    if tokens.kind == "guard":
        return Regex("letter", _parse_brackets(tokens))
    if tokens.kind != "label":
        raise tokens.unexpected("a label, '.', '[' or '('")
    if tokens.text == '""':
        raise tokens.unexpected("a name between the quotes")
    text = tokens.take()
    return Regex("letter", Guard(text) if text in ("true", "false") else Guard("label", text.strip('"')))


def _parse_brackets(tokens: Tokens) -> Guard:
    """Return the guard in square brackets. Raises RegexError with the guard's own message."""
    try:
        guard = parse_guard(tokens.text[1:-1])
    except GuardError as error:
        raise tokens.error(f"in {tokens.text}: {error}") from None
    tokens.take()
    return guard


@dataclass(slots=True)
class _Positions:
    """An expression by its letters (Glushkov's construction): which may come after which, sets as bits."""

    guards: list[Guard]
    follow: list[int]

    def add(self, guard: Guard) -> int:
        """Add a letter and return its bit."""
        self.guards.append(guard)
        self.follow.append(0)
        return 1 << (len(self.guards) - 1)

    def link(self, before: int, after: int) -> None:
        """Let any letter of `after` follow any of `before`."""
        for letter in _set_bits(before):
            self.follow[letter] |= after


@dataclass(frozen=True, slots=True)
class _Ends:
    """Whether an expression matches the empty word, and the letters it may begin and end with, as bits."""

    empty: bool
    first: int
    last: int


def _collect_ends(regex: Regex, positions: _Positions) -> _Ends:
    """Return the ends of an expression, and add its letters and what follows what to `positions`.

    regex: the expression; positions: the letters so far, which grow.
    """
    if regex.kind == "letter":
        bit = positions.add(regex.guard)
        return _Ends(False, bit, bit)
    if regex.kind == "or":
        ends = [_collect_ends(part, positions) for part in regex.parts]
        first, last = (reduce(or_, (getattr(end, side) for end in ends)) for side in ("first", "last"))
        return _Ends(any(end.empty for end in ends), first, last)
    if regex.kind == "then":
        return _link_positions([_collect_ends(part, positions) for part in regex.parts], positions)
    return _repeat_ends(regex, positions)


def _set_bits(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _link_positions(ends: Sequence[_Ends], positions: _Positions) -> _Ends:
    """Return the ends of expressions one after the other, and link the last letters of each to the first of the next.

    ends: those of the expressions, in order; of none, the ends of the empty word.
    """
    whole = _Ends(True, 0, 0)
    for end in ends:
        positions.link(whole.last, end.first)
        first = whole.first | (end.first if whole.empty else 0)
        last = end.last | (whole.last if end.empty else 0)
        whole = _Ends(whole.empty and end.empty, first, last)
    return whole


def _repeat_ends(regex: Regex, positions: _Positions) -> _Ends:
    """Return the ends of copies one after the other.

    regex: a `repeat`; positions: gets the letters of every copy.
    The first `least` copies must come, the others may; without an end the last copy loops.
    """
    copies = max(regex.least if regex.most is None else regex.most, 1 if regex.most is None else 0)
    ends = []
    for copy in range(copies):
        end = _collect_ends(regex.parts[0], positions)
        if regex.most is None and copy == copies - 1:
            positions.link(end.last, end.first)
        ends.append(end if copy < regex.least else _Ends(True, end.first, end.last))
    return _link_positions(ends, positions)


def _tabulate(regex: Regex, letters: Sequence[Letter]) -> Table:
    """Return the table whose states are the sets of letters that may have been read last; -1 is nothing read yet.

    regex: the expression; letters: the label sets that are told apart, one per column.
    """
    positions = _Positions([], [])
    ends = _collect_ends(regex, positions)
    distinct = {guard: [guard.holds(letter) for letter in letters] for guard in set(positions.guards)}
    matches = [
        sum(1 << index for index, guard in enumerate(positions.guards) if distinct[guard][letter])
        for letter in range(len(letters))
    ]

    def successors(state: int) -> list[int]:
        """Return the state after each letter: the positions that may follow and whose guard holds."""
        after = ends.first if state < 0 else reduce(or_, (positions.follow[letter] for letter in _set_bits(state)), 0)
        return [after & match for match in matches]

    return explore(-1, successors, lambda state: state >= 0 and bool(state & ends.last), num_letters=len(letters))
