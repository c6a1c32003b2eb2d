"""Decision diagrams: the same function is the same number."""

from __future__ import annotations

import random

import pytest

from opaq.automata.progression import FALSE, TRUE, Diagrams
from opaq.errors import BudgetError
from opaq.model.automaton import parse_guard

PLACE = {"a": 0, "b": 1, "c": 2}
SAME = [
    ("a & b", "b & a"),
    ("!(a & b)", "!a | !b"),
    ("a | !a", "true"),
    ("a & !a", "false"),
    ("(a & b) | (a & !b)", "a"),
    ("a | (a & c)", "a"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_functions_are_one(one: str, other: str) -> None:
    diagrams = Diagrams()
    assert diagrams.of_guard(parse_guard(one), PLACE) == diagrams.of_guard(parse_guard(other), PLACE)


def test_constants() -> None:
    diagrams = Diagrams()
    assert diagrams.both([]) == TRUE
    assert diagrams.either([]) == FALSE
    assert diagrams.negate(TRUE) == FALSE


def test_a_budget_is_kept() -> None:
    diagrams, rng = Diagrams(most=50), random.Random(0)
    with pytest.raises(BudgetError, match="50 diagram nodes"):
        diagrams.either(
            diagrams.both(diagrams.variable(place) for place in rng.sample(range(40), 5)) for _ in range(100)
        )
