"""Expressions over state variables, such as `x = 3 & !(fuel < 2)`, evaluated for all states at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = NDArray[Any]  # one entry a state, or a single one for all

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf'{_NUMBER}|[A-Za-z_]\w*|"[^"]*"|<=>|=>|->|<=|>=|==|!=|&&|\|\||[-+*/%<>=!&|?:(),]')
_SAME = {"==": "=", "&&": "&", "||": "|", "->": "=>"}
_LARGEST = 2**63 - 1
_MAX_LENGTH = 20_000
_MAX_DEPTH = 50  # ten Python frames each


class ExpressionError(ValueError):
    """The text is not an expression over the variables; the message says where and why."""


def evaluate(text: str, variables: Mapping[str, Any]) -> Value:
    """The value of an expression in every state; a variable is an array over states or one value for all.

    From weakest to strongest: `? :`, `->` and `<=>`, `|`, `&`, `!`, comparisons, `+ -`, `* / %`; functions are
    min, max, abs, floor, ceil, mod and pow. `/` divides as in mathematics: 3/2 is 1.5.
    """
    parser = _Parser(_scan(text), variables)
    with np.errstate(all="ignore"):
        value = parser.whole()
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        bad = int(np.flatnonzero(~np.isfinite(np.atleast_1d(value)))[0])
        raise ExpressionError(f"the value in state {bad} is not a finite number; is something divided by zero?")
    return np.broadcast_to(value, parser.shape()).copy()


def holds(text: str, variables: Mapping[str, Any]) -> NDArray[np.bool_]:
    """In which states a condition is true; an expression that is not a condition is an ExpressionError."""
    value = evaluate(text, variables)
    if value.dtype.kind != "b":
        raise ExpressionError("is a number, but a condition is needed, such as x = 1")
    return value


@dataclass(frozen=True, slots=True)
class _Token:
    """One sign, name or number, and where it starts (from 0); the end of the text is an empty one."""

    text: str
    start: int


def _scan(text: str) -> list[_Token]:
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"{len(text):,} characters are too long; the limit is {_MAX_LENGTH:,}")
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is not None:
            tokens.append(_Token(match.group(), at))
        elif not text[at].isspace():
            raise ExpressionError(f"at character {at + 1}: '{text[at]}' is not part of an expression")
        at = match.end() if match else at + 1
    return [*tokens, _Token("", len(text))]


@dataclass(slots=True)
class _Parser:
    """Evaluates while it reads; each method takes one level of binding strength."""

    tokens: list[_Token]
    variables: Mapping[str, Any]
    at: int = 0
    depth: int = 0

    def shape(self) -> tuple[int, ...]:
        """One entry a state, as soon as any variable has one."""
        return np.broadcast_shapes(*(np.shape(value) for value in self.variables.values()))

    def whole(self) -> Value:
        value = self.either_or()
        if self.here.text:
            raise _expected("an operator or the end", self.here)
        return value

    @property
    def here(self) -> _Token:
        return self.tokens[self.at]

    @property
    def sign(self) -> str:
        return _SAME.get(self.here.text, self.here.text)

    def take(self) -> _Token:
        token = self.here
        self.at += 1
        return token

    def close(self, wanted: str) -> None:
        if self.here.text != wanted:
            raise _expected(f"'{wanted}'", self.here)
        self.at += 1

    def deeper(self, read: Callable[[], Value]) -> Value:
        """One level of nesting further down."""
        if self.depth >= _MAX_DEPTH:
            raise ExpressionError(f"at character {self.here.start + 1}: nested deeper than {_MAX_DEPTH} levels")
        self.depth += 1
        value = read()
        self.depth -= 1
        return value

    def either_or(self) -> Value:
        value = self.implication()
        if self.sign != "?":
            return value
        token = self.take()
        first = self.deeper(self.either_or)
        self.close(":")
        second = self.deeper(self.either_or)
        if (first.dtype.kind == "b") != (second.dtype.kind == "b"):
            raise _fault(token, "one branch is a condition, the other a number")
        return np.where(_condition(value, token), first, second)

    def implication(self) -> Value:
        value = self.disjunction()
        while self.sign in ("=>", "<=>"):
            token, same = self.here, self.sign == "<=>"
            self.at += 1
            left = _condition(value, token)
            # a -> b -> c is a -> (b -> c)
            right = _condition(self.disjunction() if same else self.deeper(self.implication), token)
            value = left == right if same else ~left | right
        return value

    def disjunction(self) -> Value:
        value = self.conjunction()
        while self.sign == "|":
            token = self.take()
            value = _condition(value, token) | _condition(self.conjunction(), token)
        return value

    def conjunction(self) -> Value:
        value = self.negation()
        while self.sign == "&":
            token = self.take()
            value = _condition(value, token) & _condition(self.negation(), token)
        return value

    def negation(self) -> Value:
        if self.sign != "!":
            return self.comparison()
        token = self.take()
        return ~_condition(self.deeper(self.negation), token)

    def comparison(self) -> Value:
        value = self.addition()
        while self.sign in _COMPARISONS:
            sign, token = self.sign, self.take()
            value = _compare(sign, value, self.addition(), token)
        return value

    def addition(self) -> Value:
        value = self.multiplication()
        while self.sign in ("+", "-"):
            token = self.take()
            value = _arithmetic(token.text, value, self.multiplication(), token)
        return value

    def multiplication(self) -> Value:
        value = self.factor()
        while self.sign in ("*", "/", "%"):
            token = self.take()
            value = _arithmetic(token.text, value, self.factor(), token)
        return value

    def factor(self) -> Value:
        token = self.take()
        if token.text == "-":
            return _arithmetic("-", np.asarray(0), self.deeper(self.factor), token)
        if token.text == "(":
            value = self.deeper(self.either_or)
            self.close(")")
            return value
        if token.text in _FUNCTIONS and self.here.text == "(":
            return self.call(token)
        if token.text[:1].isdigit() or token.text[:1] == ".":
            return _number(token)
        if token.text[:1].isalpha() or token.text[:1] in ("_", '"'):
            return self.variable(token)
        raise _expected("a variable, a number or '('", token)

    def call(self, token: _Token) -> Value:
        fewest, most = _FUNCTIONS[token.text]
        self.close("(")
        values = [self.deeper(self.either_or)]
        while self.here.text == ",":
            self.at += 1
            values.append(self.deeper(self.either_or))
        self.close(")")
        if not fewest <= len(values) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} or more"
            raise _fault(token, f"{token.text} takes {wanted} arguments, not {len(values)}")
        return _apply(token, values)

    def variable(self, token: _Token) -> Value:
        if token.text in ("true", "false"):
            return np.asarray(token.text == "true")
        name = token.text.strip('"')
        if name not in self.variables:
            known = ", ".join(list(self.variables)[:20]) or "none"
            raise _fault(token, f"'{name}' is not a variable; the variables are: {known}")
        value = np.asarray(self.variables[name])
        if value.dtype.kind == "u":
            value = value.astype(np.int64)
        if value.dtype.kind not in "bif":
            raise _fault(token, f"the variable '{name}' is neither a number nor true or false")
        return value


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
# name -> how many arguments it takes: at least, at most
_FUNCTIONS = {
    "min": (2, 99),
    "max": (2, 99),
    "abs": (1, 1),
    "floor": (1, 1),
    "ceil": (1, 1),
    "mod": (2, 2),
    "pow": (2, 2),
}


def _fault(token: _Token, found: str) -> ExpressionError:
    return ExpressionError(f"at character {token.start + 1}: {found}")


def _expected(wanted: str, token: _Token) -> ExpressionError:
    found = f"'{token.text}'" if token.text else "the end"
    return _fault(token, f"expected {wanted}, found {found}")


def _condition(value: Value, token: _Token) -> NDArray[np.bool_]:
    if value.dtype.kind != "b":
        raise _fault(token, f"'{token.text}' needs conditions, but one side is a number")
    return value


def _numeric(value: Value, token: _Token) -> Value:
    if value.dtype.kind == "b":
        raise _fault(token, f"'{token.text}' needs numbers, but one side is true or false")
    return value


def _number(token: _Token) -> Value:
    if token.text.isdigit():
        if len(token.text) > 18:
            raise _fault(token, f"{token.text} is too large")
        return np.asarray(int(token.text))
    return np.asarray(float(token.text))


def _compare(sign: str, left: Value, right: Value, token: _Token) -> Value:
    if sign not in ("=", "!="):
        left, right = _numeric(left, token), _numeric(right, token)
    if (left.dtype.kind == "b") != (right.dtype.kind == "b"):
        raise _fault(token, f"'{token.text}' compares a number with true or false")
    return np.asarray(_COMPARISONS[sign](left, right))


def _arithmetic(sign: str, left: Value, right: Value, token: _Token) -> Value:
    left, right = _numeric(left, token), _numeric(right, token)
    if sign == "/":
        return np.asarray(np.true_divide(left, right))
    if sign == "%":
        # Whole numbers know no NaN: a division by zero must not become 0.
        return np.asarray(np.mod(left, right if right.all() else right.astype(np.float64)))
    if left.dtype.kind == right.dtype.kind == "i":
        _refuse_overflow(sign, left, right, token)
    return np.asarray({"+": np.add, "-": np.subtract, "*": np.multiply}[sign](left, right))


def _refuse_overflow(sign: str, left: Value, right: Value, token: _Token) -> None:
    """Whole numbers of NumPy wrap round in silence."""
    largest = [max(abs(int(side.max(initial=0))), abs(int(side.min(initial=0)))) for side in (left, right)]
    bound = largest[0] * largest[1] if sign == "*" else sum(largest)
    if bound > _LARGEST:
        raise _fault(token, "the result may be too large for a whole number")


def _apply(token: _Token, values: list[Value]) -> Value:
    values = [_numeric(value, token) for value in values]
    if token.text in ("min", "max"):
        choose = np.minimum if token.text == "min" else np.maximum
        result = values[0]
        for value in values[1:]:
            result = np.asarray(choose(result, value))
        return result
    if token.text == "mod":
        return _arithmetic("%", values[0], values[1], token)
    if token.text == "pow":
        return _whole(np.asarray(np.power(values[0].astype(np.float64), values[1])), like=values)
    if token.text == "abs":
        return np.asarray(np.abs(values[0]))
    return _whole(np.asarray(np.floor(values[0]) if token.text == "floor" else np.ceil(values[0])), like=[])


def _whole(value: Value, *, like: list[Value]) -> Value:
    """As whole numbers, where they are exact and all of `like` are whole."""
    exact = np.isfinite(value).all() and (np.abs(value) < 2**53).all() and (value == np.floor(value)).all()
    return value.astype(np.int64) if exact and all(part.dtype.kind == "i" for part in like) else value
