"""Names from files, made safe to show."""

from __future__ import annotations

import pytest

from opaq.escapes import printable


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
    assert printable(name) == shown
