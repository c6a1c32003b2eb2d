"""The lexer that all texts share."""

from __future__ import annotations

import re

import pytest

from opaq.errors import InputError
from opaq.lexer import MAX_LINE, InFile, InLine, Tokens

PATTERN = re.compile(r"(?P<skip>#[^\n]*)|(?P<name>[a-z]+)|(?P<string>\"[^\"]*\")|->|[-!]")
LINE = InLine("a thing", ValueError, hint="use names")


def test_tokens_and_their_kinds() -> None:
    tokens = Tokens('a->"->" # all\n -\t!', PATTERN, LINE)
    assert tokens.texts == ["a", "->", '"->"', "-", "!", ""]
    assert tokens.kinds == ["name", "", "string", "", "", "end"]
    assert [tokens.position(at) for at in range(6)] == [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 5)]


def test_walking_stops_at_the_end() -> None:
    tokens = Tokens(" a ", PATTERN, LINE)
    assert not tokens.skip("b", "")
    assert tokens.skip("b", "a")
    assert [tokens.take(), tokens.take(), tokens.kind] == ["", "", "end"]
    assert not tokens.skip("")


def test_a_string_is_never_a_sign() -> None:
    pattern = re.compile(r"(?P<string>x)|y")
    tokens = Tokens("xy", pattern, LINE)
    assert not tokens.skip("x")
    tokens.take()
    tokens.expect("y")


@pytest.mark.parametrize("before", ["", "a ", "# \n", "a" + " " * 15_000])
def test_strays_are_found_wherever_they_are(before: str) -> None:
    with pytest.raises(ValueError, match=f"at character {len(before) + 1}: '@' is not part of a thing; use names"):
        Tokens(f"{before}@ a", PATTERN, LINE)
    with pytest.raises(InputError) as caught:
        Tokens(f"{before}@ a", PATTERN, InFile("x.thing"))
    (fault,) = caught.value.faults
    assert fault.line == before.count("\n") + 1
    assert "'@' cannot stand here" in fault.message


def test_faults_of_earlier_tokens() -> None:
    tokens = Tokens("a\n  b c", PATTERN, InFile("x.thing"))
    assert str(tokens.unexpected("'!'")) == "x.thing: column 1: expected '!', found 'a' (line 1)"
    assert str(tokens.unexpected("'!'", at=1)) == "x.thing: column 3: expected '!', found 'b' (line 2)"
    assert str(tokens.unexpected("'!'", at=3)) == "x.thing: column 6: expected '!', found the end of the file (line 2)"
    assert str(tokens.error("is odd", "leave it out", at=2)) == "x.thing: column 5: is odd; leave it out (line 2)"


def test_long_words_are_cut_in_messages() -> None:
    tokens = Tokens("x" * 41, PATTERN, LINE)
    assert tokens.quote() == f"'{'x' * 37}...'"
    assert Tokens("x" * 40, PATTERN, LINE).quote() == f"'{'x' * 40}'"


def test_limits() -> None:
    with pytest.raises(ValueError, match="a thing of 20,001 characters is too long; the limit is 20,000"):
        Tokens("x" * (MAX_LINE + 1), PATTERN, LINE)
    with pytest.raises(InputError, match="has 11 characters; the limit is 10"):
        Tokens("x" * 11, PATTERN, InFile(limit=10))
    with pytest.raises(ValueError, match="at character 1: nested deeper than 3 levels"):
        Tokens("x", PATTERN, LINE).check_depth(4, most=3, unit=" levels")
