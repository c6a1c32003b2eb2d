"""Names from files, made safe to show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opaq.errors import escape_invisible, escape_separator

NAMES = st.lists(st.text(alphabet="ab >\\", min_size=1, max_size=4), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x1b[31mb\nc é", "a\\x1b[31mb\\nc é"),
        ("\x9b31m", "\\x9b31m"),
        ("left\u202eright", "left\\u202eright"),
        ("one\u2028two", "one\\u2028two"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_spelt_out(name: str, shown: str) -> None:
    assert escape_invisible(name) == shown


@given(NAMES, NAMES)
def test_different_lists_of_names_never_look_alike(names: list[str], others: list[str]) -> None:
    joined = [" > ".join(escape_separator(name, ">") for name in listed) for listed in (names, others)]
    assert (joined[0] == joined[1]) == (names == others)
