"""How formulas are written and read."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automata.traces import random_formula
from opaq.automata.formula import RESERVED, Formula, FormulaError, parse_ltlf

SAME = [
    ("! a U b", "(!a) U b"),
    ("a U b & c", "(a U b) & c"),
    ("a & b | c", "(a & b) | c"),
    ("a | b -> c", "(a | b) -> c"),
    ("a -> b <-> c", "(a -> b) <-> c"),
    ("a -> b -> c", "a -> (b -> c)"),
    ("a U b R c", "a U (b R c)"),
    ("F a & G b", "(F a) & (G b)"),
    ("F a U b", "(F a) U b"),
    ("X X a", "X (X a)"),
    ("not a and b or c", "!a & b | c"),
    ("~a && b || c", "!a & b | c"),
    ("N a", "WX a"),
    ("a V b", "a R b"),
    ('"a" & "F"', 'a & "F"'),
    ("p->q", "p -> q"),
    ("F(a)", "F a"),
    ("O a S b", "(O a) S b"),
]
FAULTS = [
    ("", "at character 1: expected a label, an operator such as 'F', '!' or '(', found the end"),
    ("F", "at character 2: expected a label"),
    ("a b", "at character 3: expected an operator such as '&' or 'U', or the end, found 'b'"),
    ("(a", "at character 3: expected an operator such as '&' or 'U', or ')', found the end"),
    ("a & U", 'a label of that name is written "U", in quotes'),
    ("FG p", "write spaces between operators, 'F G'"),
    ("a # b", "at character 3: '#' is not part of a formula"),
    ('a & ""', "at character 5: expected a name between the quotes"),
    ('a & "b', "at character 5: '\"' is not part of a formula"),
    ("F a & Y b", "at character 7: 'Y' mixes the future and the past ('F' came before)"),
    ("Y b & last", "at character 7: 'last' mixes the past and the future"),
    ("!" * 5000 + "a", "nested deeper than 100"),
    ("(" * 5000 + "a", "nested deeper than 100"),
    ("a U " * 4000 + "a", "nested deeper than 100"),
    ("a <-> " * 3000 + "a", "nested deeper than 100"),
    ("a & " * 6000 + "a", "too long"),
]


@pytest.mark.parametrize(("text", "same"), SAME)
def test_precedence(text: str, same: str) -> None:
    assert parse_ltlf(text) == parse_ltlf(same)


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_faults_tell_the_place(text: str, fault: str) -> None:
    with pytest.raises(FormulaError, match=re.escape(fault)):
        parse_ltlf(text)


def test_a_chain_is_one_formula() -> None:
    assert parse_ltlf("a & b & c") == Formula("and", parts=tuple(Formula("label", name) for name in "abc"))


def test_a_long_chain_is_no_deep_formula() -> None:
    assert len(parse_ltlf(" | ".join(["a"] * 4000)).parts) == 4000


def test_names_may_hold_dots_and_dashes_inside() -> None:
    assert parse_ltlf("room-1.door -> a.b").labels() == {"room-1.door", "a.b"}


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_are_labels_in_quotes(word: str) -> None:
    formula = parse_ltlf(f'G "{word}"')
    assert formula.labels() == {word}
    assert parse_ltlf(str(formula)) == formula


@pytest.mark.parametrize("seed", range(100))
def test_what_is_written_is_read_back(seed: int) -> None:
    rng = random.Random(seed)
    formula = random_formula(rng, ["p", "a-b.c", "F", "two words"], rng.randint(1, 14), past=seed % 3 == 0)
    assert parse_ltlf(str(formula)) == formula


@given(st.text(alphabet='abFGXUWRNSY!&|()<->". #', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        formula = parse_ltlf(text)
    except FormulaError:
        return
    assert parse_ltlf(str(formula)) == formula
