"""Reading LTLf: linear temporal logic on finite, non-empty traces of label sets.

From tight to loose: `! X WX F G Y WY O H`, then `U R W M S` (to the right), `&`, `|`, `->` and `<->` (to the right).
"""

from __future__ import annotations

import re
from itertools import count

from opaq.automata.syntax.formula import BINARY, CONSTANTS, FUTURE, PAST, RESERVED, UNARY, Formula
from opaq.automata.syntax.scan import MAX_DEPTH, NAME, QUOTED, NotationError, Token, expected, scan

_PATTERN = re.compile(rf"{NAME}|{QUOTED}|<->|->|&&?|\|\|?|[!~()]")
_UNARY = {sign: kind for kind, sign in UNARY.items()} | {"~": "not", "not": "not", "N": "weak_next"}
_BINARY = {sign: (kind, level) for kind, (sign, level) in BINARY.items()} | {
    "&&": ("and", BINARY["and"][1]),
    "and": ("and", BINARY["and"][1]),
    "||": ("or", BINARY["or"][1]),
    "or": ("or", BINARY["or"][1]),
    "V": ("release", BINARY["release"][1]),
}
_OPERATORS = "".join(sorted(word for word in RESERVED if len(word) == 1))


class FormulaError(NotationError):
    """The text is not a formula; the message says where and what was expected."""


def parse_ltlf(text: str) -> Formula:
    """Read a formula about the future or one about the past. Raises FormulaError with the first fault."""
    tokens = scan(text, _PATTERN, fault=FormulaError, what="a formula")
    _check_one_direction(tokens)
    formula, at = _joined(tokens, 0, 0, level=1)
    if tokens[at].text:
        raise _unfinished(tokens, at)
    return formula


def _check_one_direction(tokens: list[Token]) -> None:
    """Past and future in one formula would need another translation, and are easily meant otherwise."""
    first: dict[str, Token] = {}
    for token in tokens:
        kind = _kind(token)
        side = "future" if kind in FUTURE else "past" if kind in PAST else ""
        if side:
            first.setdefault(side, token)
    if len(first) == 2:
        earlier, later = sorted(first.values(), key=lambda token: token.start)
        sides = "the future and the past" if first["future"] is earlier else "the past and the future"
        found = f"at character {later.start + 1}: '{later.text}' mixes {sides} ('{earlier.text}' came before)"
        raise FormulaError(f"{found}; use one of them only")


def _kind(token: Token) -> str:
    if token.text in CONSTANTS:
        return token.text
    return _UNARY.get(token.text) or _BINARY.get(token.text, ("", 0))[0]


def _joined(tokens: list[Token], at: int, depth: int, *, level: int) -> tuple[Formula, int]:
    """Operands joined by operators that bind at least as tightly as `level`."""
    left, at = _operand(tokens, at, depth)
    for deeper in count(depth + 1):
        kind, own = _BINARY.get(tokens[at].text, ("", 0))
        if own < level or not kind:
            return left, at
        if kind in ("and", "or"):
            left, at = _chain(tokens, at, deeper, left=left, kind=kind, level=own)
        else:
            right, at = _joined(tokens, at + 1, deeper, level=own)
            left = Formula(kind, parts=(left, right))
    raise AssertionError


def _chain(tokens: list[Token], at: int, depth: int, *, left: Formula, kind: str, level: int) -> tuple[Formula, int]:
    """A run of operands joined by one operator, as one formula."""
    parts = [left]
    while _BINARY.get(tokens[at].text, ("", 0))[0] == kind:
        part, at = _joined(tokens, at + 1, depth, level=level + 1)
        parts.append(part)
    return Formula(kind, parts=tuple(parts)), at


def _operand(tokens: list[Token], at: int, depth: int) -> tuple[Formula, int]:
    token = tokens[at]
    if depth > MAX_DEPTH:
        raise FormulaError(f"at character {token.start + 1}: nested deeper than {MAX_DEPTH}")
    if token.text in _UNARY:
        part, at = _operand(tokens, at + 1, depth + 1)
        return Formula(_UNARY[token.text], parts=(part,)), at
    if token.text == "(":
        part, at = _joined(tokens, at + 1, depth + 1, level=1)
        if tokens[at].text != ")":
            raise _unfinished(tokens, at, closing="')'")
        return part, at + 1
    if token.text in CONSTANTS:
        return Formula(token.text), at + 1
    if token.text[:1] in ('"', "_") or token.text[:1].isalpha():
        return _label(token), at + 1
    raise expected("a label, an operator such as 'F', '!' or '('", token, fault=FormulaError)


def _label(token: Token) -> Formula:
    if token.text in _BINARY:
        wanted = "a label or a formula"
        raise FormulaError(
            f"at character {token.start + 1}: expected {wanted}, found the operator '{token.text}'; "
            f'a label of that name is written "{token.text}", in quotes'
        )
    if token.text.strip('"') == "":
        raise expected("a name between the quotes", token, fault=FormulaError)
    return Formula("label", token.text.strip('"'))


def _unfinished(tokens: list[Token], at: int, closing: str = "the end") -> FormulaError:
    """The fault that a formula goes on in a way it cannot."""
    hint = ""
    before = tokens[at - 1].text
    if len(before) > 1 and set(before) <= set(_OPERATORS) and before not in RESERVED:
        hint = f"; '{before}' is read as one label: write spaces between operators, '{' '.join(before)}'"
    fault = expected(f"an operator such as '&' or 'U', or {closing}", tokens[at], fault=FormulaError)
    return FormulaError(f"{fault}{hint}")
