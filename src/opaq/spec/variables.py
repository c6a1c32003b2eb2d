"""Evaluate expressions over state variables, such as `x = 3 & !(fuel < 2)`, for all states at once; find coordinates.

A text and an array per variable come in, one array over states goes out. Values are numbers or truth values, which do
not mix: `x + (y = 1)` is refused.

From weakest to strongest: `? :`, `->` and `<=>`, `|`, `&`, `!`, comparisons, `+ -`, `* / %`; functions are min, max,
abs, floor, ceil, mod and pow. `/` divides as in mathematics: 3/2 is 1.5. `==`, `&&`, `||` and `=>` are accepted for
`=`, `&`, `|` and `->`; names with other characters stand in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opaq.lexer import InLine, Tokens
from opaq.model.arrays import FloatArray, floats
from opaq.model.mdp import MDP

_Value = NDArray[Any]  # one entry a state, or a single one for all

_PATTERN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*|\"[^\"]*\")"
    r"|<=>|=>|->|<=|>=|==|!=|&&|\|\||[-+*/%<>=!&|?:(),]"
)
_SAME = {"==": "=", "&&": "&", "||": "|", "->": "=>"}
_LARGEST = 2**63 - 1
_MAX_DEPTH = 50  # a few Python frames each


class ExpressionError(ValueError):
    """Raised for a text that is no expression over the variables; the message says where and why."""


_ACROSS = re.compile(r"^(?:column|col|x)|(?:column|col|x)$", re.IGNORECASE)  # the variable of x; its partner has row, y
_STYLE = InLine("an expression", ExpressionError)


def evaluate(text: str, variables: Mapping[str, Any]) -> _Value:
    """Return the value of an expression in every state.

    text: the expression; the module says its grammar.
    variables: name -> an array over states, or one value for all.
    Raises ExpressionError for a text that cannot be read, and where a value is not finite.
    """
    parser = _Parser(Tokens(text, _PATTERN, _STYLE), variables)
    with np.errstate(all="ignore"):
        value = parser.parse()
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        bad = int(np.flatnonzero(~np.isfinite(np.atleast_1d(value)))[0])
        raise ExpressionError(f"the value in state {bad} is not a finite number; is something divided by zero?")
    return np.broadcast_to(value, np.broadcast_shapes(*map(np.shape, variables.values()))).copy()


def holds(text: str, variables: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return in which states a condition is true, [state].

    text, variables: as for `evaluate`.
    Raises ExpressionError also for an expression that is no condition.
    """
    value = evaluate(text, variables)
    if value.dtype.kind != "b":
        raise ExpressionError("is a number, but a condition is needed, such as x = 1")
    return value


class Coordinates(NamedTuple):
    """Where the states are, by two of their variables; down: whether y counts down, as rows do."""

    x: NDArray[Any]  # [state]
    y: NDArray[Any]  # [state]
    down: bool

    def positions(self) -> FloatArray:
        """Return [state, 2]: x to the right and y up, as pictures take them."""
        return floats(np.stack([self.x, -self.y if self.down else self.y], axis=1))


def find_coordinates(variables: Mapping[str, Any]) -> Coordinates | None:
    """Return the coordinates among state variables: column (or col) and row, or x and y; None where there are none.

    variables: name -> an array over states. Pairs that share a beginning or an ending count too (taxi_col and taxi_row,
    ax and ay); the plain names come first, then the order of `variables`. A pair that is the same everywhere is none.
    """
    pairs = [
        (name, name[: match.start()] + word + name[match.end() :], match.group() != name)
        for name in variables
        for match in _ACROSS.finditer(name)
        for word in (("y", "Y") if len(match.group()) == 1 else ("row", "Row", "ROW"))
    ]
    for name, partner, _ in sorted(pairs, key=lambda pair: pair[2]):
        if partner in variables and (axes := pair_coordinates(variables, name, partner)) is not None:
            return axes
    return None


def place_states(mdp: MDP, variables: Mapping[str, Any]) -> MDP:
    """Return the model with the positions that its variables give it, unless it has some already."""
    axes = find_coordinates(variables) if mdp.positions is None else None
    return mdp if axes is None else replace(mdp, positions=axes.positions())


def pair_coordinates(variables: Mapping[str, Any], across: str, along: str) -> Coordinates | None:
    """Return the coordinates that two variables give; None where they are no numbers, or the same in all states.

    across: the variable of x; along: that of y, which counts down if it is called a row.
    """
    x, y = (np.asarray(variables[name]) for name in (across, along))
    numbers = x.dtype.kind in "iuf" and y.dtype.kind in "iuf"
    if not numbers or not (np.ptp(x) or np.ptp(y)):
        return None
    return Coordinates(x.astype(np.float64), y.astype(np.float64), down="row" in along.lower())


class _Parser:
    """Reads an expression by precedence climbing and evaluates it on the way.

    tokens: the text; variables: name -> values; depth: how deep the nesting is here.
    `at` is the number of a token, for faults. Every method raises ExpressionError for what it cannot read.
    """

    def __init__(self, tokens: Tokens, variables: Mapping[str, Any]) -> None:
        """Begin at the first token; `variables` are the values of the names."""
        self.tokens, self.variables, self.depth = tokens, variables, 0

    def parse(self) -> _Value:
        """Return the value of the whole text."""
        value = self.conditional()
        if self.tokens.text:
            raise self.tokens.unexpected("an operator or the end")
        return value

    @property
    def sign(self) -> str:
        """The next token, by its first spelling (`==` is `=`)."""
        return _SAME.get(self.tokens.text, self.tokens.text)

    def take(self) -> int:
        """Go on to the next token; return the number of the one passed, for faults."""
        self.tokens.take()
        return self.tokens.at - 1

    def nest(self, read: Callable[[], _Value]) -> _Value:
        """Return what `read` returns, one level of nesting further down.

        Raises ExpressionError beyond _MAX_DEPTH levels.
        """
        self.tokens.check_depth(self.depth + 1, most=_MAX_DEPTH, unit=" levels")
        self.depth += 1
        value = read()
        self.depth -= 1
        return value

    def conditional(self) -> _Value:
        """Return the value of a condition, `?` and two values; or of anything else.

        Both values are computed in every state, and both must be numbers or both conditions.
        """
        value = self.binary(1)
        if self.sign != "?":
            return value
        at = self.take()
        first = self.nest(self.conditional)
        self.tokens.expect(":")
        second = self.nest(self.conditional)
        if (first.dtype.kind == "b") != (second.dtype.kind == "b"):
            raise self.tokens.error("one branch is a condition, the other a number", at=at)
        return np.where(self.condition(value, at), first, second)

    def binary(self, level: int) -> _Value:
        """Return the value of operands joined by operators that bind at least as tightly as `level`.

        level: a number of _LEVELS; 1 reads everything but `? :`.
        """
        if self.sign == "!" and level <= _NEGATION:
            at = self.take()
            value: _Value = ~self.condition(self.nest(lambda: self.binary(_NEGATION)), at)
        else:
            value = self.factor()
        while (own := _LEVELS.get(self.sign, 0)) >= level:
            sign, at = self.sign, self.take()
            value = self.condition(value, at) if sign in _LOGIC else value
            # a -> b -> c is a -> (b -> c); all others group to the left
            right = self.nest(lambda: self.binary(1)) if sign == "=>" else self.binary(own + 1)
            value = self.apply(sign, value, right, at)
        return value

    def apply(self, sign: str, left: _Value, right: _Value, at: int) -> _Value:
        """Return two values joined by one operator.

        sign: the operator by its first spelling; at: its token, for faults.
        Raises ExpressionError where it takes conditions and a side is a number, or the other way round.
        """
        if sign in _LOGIC:
            return np.asarray(_LOGIC[sign](left, self.condition(right, at)))
        if sign in ("=", "!=") and (left.dtype.kind == "b") != (right.dtype.kind == "b"):
            raise self.tokens.error(f"'{self.tokens.texts[at]}' compares a number with true or false", at=at)
        if sign in ("=", "!="):
            return np.asarray(_ARITHMETIC[sign](left, right))
        left, right = self.number(left, at), self.number(right, at)
        if sign in ("+", "-", "*") and left.dtype.kind == right.dtype.kind == "i":
            self.refuse_overflow(sign, left, right, at)
        return np.asarray(_ARITHMETIC[sign](left, right))

    def refuse_overflow(self, sign: str, left: _Value, right: _Value, at: int) -> None:
        """Raise ExpressionError where the result may exceed 64 bits: whole numbers of NumPy wrap round in silence."""
        largest = [max(abs(int(side.max(initial=0))), abs(int(side.min(initial=0)))) for side in (left, right)]
        if (largest[0] * largest[1] if sign == "*" else sum(largest)) > _LARGEST:
            raise self.tokens.error("the result may be too large for a whole number", at=at)

    def condition(self, value: _Value, at: int) -> _Value:
        """Return the value, which must be true or false; `at` is the token that needs it so."""
        if value.dtype.kind != "b":
            raise self.tokens.error(f"'{self.tokens.texts[at]}' needs conditions, but one side is a number", at=at)
        return value

    def number(self, value: _Value, at: int) -> _Value:
        """Return the value, which must be a number; `at` is the token that needs it so."""
        if value.dtype.kind == "b":
            raise self.tokens.error(f"'{self.tokens.texts[at]}' needs numbers, but one side is true or false", at=at)
        return value

    def factor(self) -> _Value:
        """Return the value of a number, a variable, a call, or anything in brackets; perhaps negative."""
        text, kind = self.tokens.text, self.tokens.kind
        if text == "-":
            at = self.take()
            return self.apply("-", np.asarray(0), self.nest(self.factor), at)
        if self.tokens.skip("("):
            value = self.nest(self.conditional)
            self.tokens.expect(")")
            return value
        if kind not in ("name", "number"):
            raise self.tokens.unexpected("a variable, a number or '('")
        at = self.take()
        if kind == "number":
            return self.literal(text, at)
        return self.call(text, at) if text in _FUNCTIONS and self.tokens.skip("(") else self.variable(text, at)

    def literal(self, text: str, at: int) -> _Value:
        """Return a number as it is written: whole if it has digits only, of which 18 are the most, else a float."""
        if text.isdigit() and len(text) > 18:
            raise self.tokens.error(f"{text} is too large", at=at)
        return np.asarray(int(text) if text.isdigit() else float(text))

    def call(self, name: str, at: int) -> _Value:
        """Return the value of a function of the arguments in brackets.

        name: a key of _FUNCTIONS; at: its token, for faults. The opening bracket is read already.
        """
        fewest, most, function = _FUNCTIONS[name]
        values = [self.nest(self.conditional)]
        while self.tokens.skip(","):
            values.append(self.nest(self.conditional))
        self.tokens.expect(")")
        if not fewest <= len(values) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} or more"
            raise self.tokens.error(f"{name} takes {wanted} arguments, not {len(values)}", at=at)
        return np.asarray(function([self.number(value, at) for value in values]))

    def variable(self, text: str, at: int) -> _Value:
        """Return the values of a variable, or true or false.

        text: the name, perhaps in quotes; at: its token, for faults. Unknown names and variables of texts are refused.
        """
        if text in ("true", "false"):
            return np.asarray(text == "true")
        name = text.strip('"')
        if name not in self.variables:
            known = ", ".join(list(self.variables)[:20]) or "none"
            raise self.tokens.error(f"'{name}' is not a variable; the variables are: {known}", at=at)
        value = np.asarray(self.variables[name])
        if value.dtype.kind not in "biuf":
            raise self.tokens.error(f"the variable '{name}' is neither a number nor true or false", at=at)
        return value.astype(np.int64) if value.dtype.kind == "u" else value


def _modulo(left: _Value, right: _Value) -> _Value:
    """Return left mod right; NaN for a division by zero, which whole numbers would turn into 0."""
    return np.asarray(np.mod(left, right if right.all() else right.astype(np.float64)))


def _whole(value: _Value, *, like: list[_Value]) -> _Value:
    """Return the values as whole numbers, where they are exact and all of `like` are whole."""
    exact = np.isfinite(value).all() and (np.abs(value) < 2**53).all() and (value == np.floor(value)).all()
    return value.astype(np.int64) if exact and all(part.dtype.kind == "i" for part in like) else value


_LEVELS = {"=>": 1, "<=>": 1, "|": 2, "&": 3, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
_LEVELS |= dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), 5)
_NEGATION = 4  # `!` takes a whole comparison
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "=>": lambda left, right: ~left | right,
    "<=>": np.equal,
    "|": np.logical_or,
    "&": np.logical_and,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "%": _modulo,
}


# name -> the fewest and the most arguments, and the function of their list
_FUNCTIONS: dict[str, tuple[int, int, Callable[[list[_Value]], _Value]]] = {
    "min": (2, 99, lambda values: reduce(np.minimum, values)),
    "max": (2, 99, lambda values: reduce(np.maximum, values)),
    "abs": (1, 1, lambda values: np.abs(values[0])),
    "floor": (1, 1, lambda values: _whole(np.asarray(np.floor(values[0])), like=[])),
    "ceil": (1, 1, lambda values: _whole(np.asarray(np.ceil(values[0])), like=[])),
    "mod": (2, 2, lambda values: _modulo(*values)),
    "pow": (2, 2, lambda values: _whole(np.asarray(np.power(values[0].astype(np.float64), values[1])), like=values)),
}
