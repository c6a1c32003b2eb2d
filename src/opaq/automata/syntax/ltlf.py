"""Reading LTLf: linear temporal logic on finite, non-empty traces of label sets.

From tight to loose: `! X WX F G Y WY O H`, then `U R W M S` (to the right), `&`, `|`, `->` and `<->` (to the right).
"""

from __future__ import annotations

import re

from opaq.automata.syntax.formula import BINARY, CONSTANTS, FUTURE, PAST, RESERVED, UNARY, Formula
from opaq.automata.syntax.scan import LABEL, NotationError
from opaq.lexer import InLine, Tokens

_PATTERN = re.compile(rf"{LABEL}|<->|->|&&?|\|\|?|[!~()]")
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


_STYLE = InLine("a formula", FormulaError)


def parse_ltlf(text: str) -> Formula:
    """Read a formula about the future or one about the past. Raises FormulaError with the first fault."""
    tokens = Tokens(text, _PATTERN, _STYLE)
    _check_one_direction(tokens)
    formula = _joined(tokens, 0, level=1)
    if tokens.text:
        raise _unfinished(tokens)
    return formula


def _check_one_direction(tokens: Tokens) -> None:
    """Past and future in one formula would need another translation, and are easily meant otherwise."""
    first: dict[str, int] = {}
    for at, text in enumerate(tokens.texts):
        kind = text if text in CONSTANTS else _UNARY.get(text) or _BINARY.get(text, ("", 0))[0]
        side = "the future" if kind in FUTURE else "the past" if kind in PAST else ""
        if side:
            first.setdefault(side, at)
    if len(first) == 2:
        earlier, later = first.values()
        found = f"'{tokens.texts[later]}' mixes {' and '.join(first)} ('{tokens.texts[earlier]}' came before)"
        raise tokens.error(found, "use one of them only", at=later)


def _joined(tokens: Tokens, depth: int, *, level: int) -> Formula:
    """Operands joined by operators that bind at least as tightly as `level`."""
    left = _operand(tokens, depth)
    while True:
        depth += 1
        kind, own = _BINARY.get(tokens.text, ("", 0))
        if own < level:
            return left
        parts = [left]
        while _BINARY.get(tokens.text, ("", 0))[0] == kind:
            tokens.take()
            # A run of `&` or `|` is one formula; the others group to the right.
            parts.append(_joined(tokens, depth, level=own + (kind in ("and", "or"))))
        left = Formula(kind, parts=tuple(parts))


def _operand(tokens: Tokens, depth: int) -> Formula:
    tokens.check_depth(depth)
    text = tokens.text
    if text in _UNARY:
        tokens.take()
        return Formula(_UNARY[text], parts=(_operand(tokens, depth + 1),))
    if tokens.skip("("):
        formula = _joined(tokens, depth + 1, level=1)
        if not tokens.skip(")"):
            raise _unfinished(tokens, closing="')'")
        return formula
    if tokens.kind != "label":
        raise tokens.unexpected("a label, an operator such as 'F', '!' or '('")
    if text in _BINARY:
        found = f"expected a label or a formula, found the operator '{text}'"
        raise tokens.error(found, f'a label of that name is written "{text}", in quotes')
    if text == '""':
        raise tokens.unexpected("a name between the quotes")
    tokens.take()
    return Formula(text) if text in CONSTANTS else Formula("label", text.strip('"'))


def _unfinished(tokens: Tokens, closing: str = "the end") -> Exception:
    """The fault that a formula goes on in a way it cannot."""
    before, hint = tokens.texts[tokens.at - 1], ""
    if len(before) > 1 and set(before) <= set(_OPERATORS) and before not in RESERVED:
        hint = f"'{before}' is read as one label: write spaces between operators, '{' '.join(before)}'"
    return tokens.error(f"expected an operator such as '&' or 'U', or {closing}, found {tokens.shown()}", hint)
