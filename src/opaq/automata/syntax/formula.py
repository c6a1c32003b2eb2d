"""Formulas of linear temporal logic on finite traces, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass

from opaq.automata.syntax.scan import label_text

CONSTANTS = ("true", "false", "last")
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
    """A parsed formula: `kind` is `label`, one of CONSTANTS, or a key of UNARY or BINARY."""

    kind: str
    label: str = ""
    parts: tuple[Formula, ...] = ()

    def labels(self) -> frozenset[str]:
        """Every label the formula mentions."""
        own = frozenset([self.label]) if self.kind == "label" else frozenset()
        return own.union(*(part.labels() for part in self.parts))

    def kinds(self) -> frozenset[str]:
        """Every kind of formula inside this one, its own included."""
        return frozenset([self.kind]).union(*(part.kinds() for part in self.parts))

    def size(self) -> int:
        """How many operators, constants and labels it is made of."""
        return max(len(self.parts) - 1, 1) + sum(part.size() for part in self.parts)

    def __str__(self) -> str:
        if self.kind == "label":
            return label_text(self.label, reserved=RESERVED)
        if self.kind in UNARY:
            return self._unary_text()
        if self.kind in BINARY:
            return self._binary_text()
        return self.kind

    def _unary_text(self) -> str:
        inner = _at_least(self.parts[0], _TIGHTEST)
        close = self.kind == "not" or inner.startswith("(")
        return f"{UNARY[self.kind]}{'' if close else ' '}{inner}"

    def _binary_text(self) -> str:
        sign, level = BINARY[self.kind]
        chain = self.kind in ("and", "or")
        operands = [_at_least(part, level + 1) for part in self.parts[:-1]]
        return f" {sign} ".join([*operands, _at_least(self.parts[-1], level + 1 if chain else level)])


def _at_least(formula: Formula, level: int) -> str:
    """The text of an operand, in brackets unless it binds at least so tightly."""
    own = BINARY[formula.kind][1] if formula.kind in BINARY else _TIGHTEST
    return str(formula) if own >= level else f"({formula})"
