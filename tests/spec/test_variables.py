"""Expressions over state variables: values against Python's own, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.spec.variables import ExpressionError, evaluate, find_coordinates, holds

VARIABLES = {
    "x": np.array([0, 1, 2, 3]),
    "y": np.array([-1, 5, 2, 0]),
    "half": np.array([0.5, 1.5, 2.5, 3.5]),
    "on": np.array([True, False, True, False]),
    "K": 3,
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x", [0, 1, 2, 3]),
        ("x + 2 * y", [-2, 11, 6, 3]),
        ("-x - -y", [-1, 4, 0, -3]),
        ("x - 1 - 1", [-2, -1, 0, 1]),
        ("x / 2", [0, 0.5, 1, 1.5]),
        ("floor(x / 2) + ceil(half)", [1, 2, 4, 5]),
        ("x % 2", [0, 1, 0, 1]),
        ("y % 3", [2, 2, 2, 0]),
        ("mod(x, K)", [0, 1, 2, 0]),
        ("min(x, y, 1) + max(x, y)", [-1, 6, 3, 3]),
        ("abs(y) + pow(2, x)", [2, 7, 6, 8]),
        ("x = 1 | x == 2 & on", [0, 1, 1, 0]),
        ("!x = 1", [1, 0, 1, 1]),
        ("!on & x >= 1", [0, 1, 0, 1]),
        ("on -> x > 0", [0, 1, 1, 1]),
        ("on -> on -> x > 1", [0, 1, 1, 1]),
        ("on <=> x < 1", [1, 1, 0, 1]),
        ("x != y && x <= 1 || false", [1, 1, 0, 0]),
        ("on ? x : -1", [0, -1, 2, -1]),
        ("x = 0 ? 0 : 6 / x", [0, 6, 3, 2]),
        ("1e1 + .5", [10.5] * 4),
        ('"x" < K', [1, 1, 1, 0]),
        ("true", [1, 1, 1, 1]),
    ],
)
def test_values(text: str, wanted: list[float]) -> None:
    np.testing.assert_array_equal(evaluate(text, VARIABLES), wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 1: expected a variable"),
        ("x +", "at character 4: expected a variable"),
        ("(x", "at character 3: expected '\\)'"),
        ("x y", "at character 3: expected an operator or the end, found 'y'"),
        ("x @ 1", "at character 3: '@' is not part of"),
        ("z = 1", "at character 1: 'z' is not a variable; the variables are: x, y, half, on, K"),
        ("on + 1", "at character 4: '\\+' needs numbers"),
        ("x & on", "at character 3: '&' needs conditions"),
        ("on = 1", "at character 4: '=' compares a number with true or false"),
        ("on < on", "needs numbers"),
        ("on ? 1 : false", "one branch is a condition"),
        ("1 / x", "state 0 is not a finite number"),
        ("x % (x - 1)", "state 1 is not a finite number"),
        ("abs(x, y)", "abs takes 1 arguments, not 2"),
        ("min(x)", "min takes 2 or more"),
        ("9999999999999999999", "too large"),
        ("99999999999 * 99999999999", "too large"),
        ("(" * 200 + "x" + ")" * 200, "nested deeper than 50"),
        ("!" * 200 + "on", "nested deeper than 50"),
        ("-" * 200 + "x", "nested deeper than 50"),
        ("x+" * 20_000 + "x", "too long"),
        ("__import__('os')", "is not"),
        ("x.real", "is not part of"),
    ],
)
def test_faults_say_where(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        evaluate(text, VARIABLES)


def test_long_chains_do_not_exhaust_the_stack() -> None:
    assert evaluate("x" + "+x" * 4000, VARIABLES)[1] == 4001


def test_a_condition_is_asked_for_by_name() -> None:
    assert holds("x > 1", VARIABLES).tolist() == [False, False, True, True]
    with pytest.raises(ExpressionError, match="a condition is needed"):
        holds("x + 1", VARIABLES)


def test_the_result_is_a_copy() -> None:
    value = evaluate("x", VARIABLES)
    value[0] = 9
    assert VARIABLES["x"][0] == 0


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("row", "col"), ("col", "row")),
        (("fuel", "y", "x"), ("x", "y")),
        (("ax", "ay", "x", "y"), ("x", "y")),
        (("taxi_row", "taxi_col", "passenger"), ("taxi_col", "taxi_row")),
        (("x2", "y2", "ax", "ay"), ("x2", "y2")),
        (("robotX", "robotY"), ("robotX", "robotY")),
        (("column", "row"), ("column", "row")),
        (("x", "z"), None),
        (("max", "row"), None),
    ],
)
def test_coordinates_are_found_by_the_names_of_variables(names: tuple[str, ...], pair: tuple[str, str] | None) -> None:
    variables = {name: np.arange(3) * (index + 1) for index, name in enumerate(names)}
    axes = find_coordinates(variables)
    if pair is None:
        assert axes is None
        return
    assert axes is not None
    down = -1 if "row" in pair[1] else 1
    assert axes.positions().T.tolist() == [variables[pair[0]].tolist(), (down * variables[pair[1]]).tolist()]


def test_coordinates_that_never_change_or_are_no_numbers_are_none() -> None:
    assert find_coordinates({"x": np.ones(3), "y": np.ones(3)}) is None
    assert find_coordinates({"x": np.array([True, False]), "y": np.array([1, 2])}) is None
    assert find_coordinates({"x": np.ones(3), "y": np.ones(3), "bx": np.arange(3), "by": np.ones(3)}) is not None
