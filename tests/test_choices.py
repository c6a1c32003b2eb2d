"""Arguments that take one of a few words."""

from __future__ import annotations

from enum import StrEnum

import pytest

from opaq.errors import InputError, choose

MODES = ("auto", "exact", "interval", "sampled")


@pytest.mark.parametrize("mode", MODES)
def test_a_choice_is_returned(mode: str) -> None:
    assert choose("mode", mode, MODES) == mode


def test_a_string_enum_becomes_a_plain_string() -> None:
    class Mode(StrEnum):
        EXACT = "exact"

    assert type(choose("mode", Mode.EXACT, MODES)) is str


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("exakt", "mode: 'exakt' is not a choice; did you mean 'exact'? use one of auto, exact, interval, sampled"),
        ("?", "mode: '?' is not a choice; use one of auto, exact, interval, sampled"),
        (None, "mode: None is not a choice; use one of auto, exact, interval, sampled"),
        (3, "mode: 3 is not a choice; use one of auto, exact, interval, sampled"),
    ],
)
def test_anything_else_is_refused_with_the_choices(value: object, message: str) -> None:
    with pytest.raises(InputError) as refused:
        choose("mode", value, MODES)
    assert str(refused.value) == message
