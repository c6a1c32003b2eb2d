"""Read and write LTLf formulas on finite traces, as syntax trees.

    formula ::= label | "true" | "false" | "last" | "(" formula ")"
              | ("!" | "X" | "WX" | "F" | "G") formula                         future
              | ("Y" | "WY" | "O" | "H") formula                               past
              | formula ("U" | "R" | "W" | "M" | "S") formula                  bind tightest, group to the right
              | formula "&" formula | formula "|" formula                      chains
              | formula "->" formula | formula "<->" formula                   bind loosest, group to the right

A formula speaks of the future or of the past, not of both. At the last position `X f` is false and `WX f` is true; at
the first `Y f` is false and `WY f` is true. `~` and `not`, `&&` and `and`, `||` and `or`, `N` for WX and `V` for R
are read too; labels that look like operators or have other characters stand in double quotes: `F("door open" & G p)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from opaq.lexer import InLine, Tokens

# Dots and dashes only inside a name: `p->q` is not the label `p-`, and `a.*` is not the label `a.` repeated.
_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-]+[A-Za-z0-9_]+)*"
QUOTED = r"\"[^\"]*\""
LABEL = rf"(?P<label>{_NAME}|{QUOTED})"
_PLAIN = re.compile(_NAME)


class NotationError(ValueError):
    """Raised for a text that cannot be read; the message says where, what was expected and what is there."""


def _label_text(label: str, *, reserved: Collection[str] = ()) -> str:
    """Return a label as it is written: in quotes if it would be read as something else.

    reserved: words that have a meaning of their own.
    """
    return label if _PLAIN.fullmatch(label) and label not in reserved else f'"{label}"'


_CONSTANTS = ("true", "false", "last")
UNARY = {
    "not": "!",
    "next": "X",
    "weak_next": "WX",
    "eventually": "F",
    "always": "G",
    "yesterday": "Y",
    "weak_yesterday": "WY",
    "once": "O",
    "historically": "H",
}
# How tightly each joins: a higher number binds tighter. All but `and` and `or`, which are chains, group to the right.
BINARY = {
    "iff": ("<->", 1),
    "implies": ("->", 2),
    "or": ("|", 3),
    "and": ("&", 4),
    "until": ("U", 5),
    "release": ("R", 5),
    "weak_until": ("W", 5),
    "strong_release": ("M", 5),
    "since": ("S", 5),
}
FUTURE = frozenset(
    ["last", "next", "weak_next", "eventually", "always", "until", "release", "weak_until", "strong_release"]
)
PAST = frozenset(["yesterday", "weak_yesterday", "once", "historically", "since"])
# Words with a meaning of their own; a label of that name is written in quotes.
RESERVED = frozenset(("true", "false", "last", "not", "and", "or", "WX", "WY", *"FGHMNORSUVWXY"))
_TIGHTEST = 6


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula: `kind` is `label`, one of _CONSTANTS, or a key of UNARY or BINARY.

    label: the name of a label, else empty.
    parts: the operands: one of a unary operator, two of a binary one, two or more of `and` and `or`.
    """

    kind: str
    label: str = ""
    parts: tuple[Formula, ...] = ()

    def labels(self) -> frozenset[str]:
        """Return every label that the formula mentions."""
        own = frozenset([self.label]) if self.kind == "label" else frozenset()
        return own.union(*(part.labels() for part in self.parts))

    def kinds(self) -> frozenset[str]:
        """Return every kind of formula inside this one, its own included."""
        return frozenset([self.kind]).union(*(part.kinds() for part in self.parts))

    def size(self) -> int:
        """Return how many operators, constants and labels it is made of; a chain of n operands has n - 1 operators."""
        return max(len(self.parts) - 1, 1) + sum(part.size() for part in self.parts)

    def __str__(self) -> str:
        """Return the text that reads back as this formula, with as few brackets as that takes."""
        if self.kind == "label":
            return _label_text(self.label, reserved=RESERVED)
        if self.kind in UNARY:
            return self._unary_text()
        if self.kind in BINARY:
            return self._binary_text()
        return self.kind

    def _unary_text(self) -> str:
        """Return the text of a unary operator: "!p", "F p" or "F(p & q)"."""
        inner = _bracket(self.parts[0], _TIGHTEST)
        close = self.kind == "not" or inner.startswith("(")
        return f"{UNARY[self.kind]}{'' if close else ' '}{inner}"

    def _binary_text(self) -> str:
        """Return the text of a binary operator or a chain, operands in brackets where they bind less tightly."""
        sign, level = BINARY[self.kind]
        chain = self.kind in ("and", "or")
        operands = [_bracket(part, level + 1) for part in self.parts[:-1]]
        return f" {sign} ".join([*operands, _bracket(self.parts[-1], level + 1 if chain else level)])


def _bracket(formula: Formula, level: int) -> str:
    """Return the text of an operand, in brackets unless it binds at least as tightly as `level`."""
    own = BINARY[formula.kind][1] if formula.kind in BINARY else _TIGHTEST
    return str(formula) if own >= level else f"({formula})"


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
    """Raised for a text that is no formula; the message says where and what was expected."""


_STYLE = InLine("a formula", FormulaError)


def parse_ltlf(text: str) -> Formula:
    """Return the formula of a text, one about the future or one about the past.

    text: by the grammar of this module, e.g. "G(request -> F grant)".
    Raises FormulaError with the first fault and its position.
    """
    tokens = Tokens(text, _PATTERN, _STYLE)
    _check_one_direction(tokens)
    formula = _parse_operators(tokens, 0, level=1)
    if tokens.text:
        raise _unexpected_token(tokens)
    return formula


def _check_one_direction(tokens: Tokens) -> None:
    """Raise FormulaError for past and future in one formula.

    They need another translation, and are easily meant otherwise.
    """
    first: dict[str, int] = {}
    for at, text in enumerate(tokens.texts):
        kind = text if text in _CONSTANTS else _UNARY.get(text) or _BINARY.get(text, ("", 0))[0]
        side = "the future" if kind in FUTURE else "the past" if kind in PAST else ""
        if side:
            first.setdefault(side, at)
    if len(first) == 2:
        earlier, later = first.values()
        finding = f"'{tokens.texts[later]}' mixes {' and '.join(first)} ('{tokens.texts[earlier]}' came before)"
        raise tokens.error(finding, "use one of them only", at=later)


def _parse_operators(tokens: Tokens, depth: int, *, level: int) -> Formula:
    """Return operands joined by operators that bind at least as tightly as `level` (precedence climbing).

    tokens: at the first operand; depth: how deep the nesting is here; level: a number of BINARY, 1 for any operator.
    """
    left = _parse_operand(tokens, depth)
    while True:
        depth += 1
        kind, own = _BINARY.get(tokens.text, ("", 0))
        if own < level:
            return left
        parts = [left]
        while _BINARY.get(tokens.text, ("", 0))[0] == kind:
            tokens.take()
            # A run of `&` or `|` is one formula; the others group to the right.
            parts.append(_parse_operators(tokens, depth, level=own + (kind in ("and", "or"))))
        left = Formula(kind, parts=tuple(parts))


def _parse_operand(tokens: Tokens, depth: int) -> Formula:
    """Return a label, a constant, a formula in brackets, or a unary operator and its operand.

    tokens: at its first token; depth: how deep the nesting is here. Raises FormulaError for anything else.
    """
    tokens.check_depth(depth)
    text = tokens.text
    if text in _UNARY:
        tokens.take()
        return Formula(_UNARY[text], parts=(_parse_operand(tokens, depth + 1),))
    if tokens.skip("("):
        formula = _parse_operators(tokens, depth + 1, level=1)
        if not tokens.skip(")"):
            raise _unexpected_token(tokens, closing="')'")
        return formula
    if tokens.kind != "label":
        raise tokens.unexpected("a label, an operator such as 'F', '!' or '('")
    if text in _BINARY:
        finding = f"expected a label or a formula, found the operator '{text}'"
        raise tokens.error(finding, f'a label of that name is written "{text}", in quotes')
    if text == '""':
        raise tokens.unexpected("a name between the quotes")
    tokens.take()
    return Formula(text) if text in _CONSTANTS else Formula("label", text.strip('"'))


def _unexpected_token(tokens: Tokens, closing: str = "the end") -> Exception:
    """Return the fault that a formula goes on in a way it cannot, with advice for operators written without spaces.

    closing: what could have ended it here, e.g. "')'".
    """
    before, hint = tokens.texts[tokens.at - 1], ""
    if len(before) > 1 and set(before) <= set(_OPERATORS) and before not in RESERVED:
        hint = f"'{before}' is read as one label: write spaces between operators, '{' '.join(before)}'"
    return tokens.error(f"expected an operator such as '&' or 'U', or {closing}, found {tokens.quote()}", hint)
