"""Regular expressions over labels, against Python's own on encoded words."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from automata.traces import accepts, all_letters, words
from opaq.automata.regex import RegexError, parse_regex, translate_regex
from opaq.automata.translate import language_automaton
from opaq.errors import BudgetError
from opaq.model.automaton import parse_guard
from trials import part_of

LETTERS = all_letters("ab")
CODE = dict(zip(LETTERS, "wxyz", strict=True))


def coded(guard: str) -> str:
    inside = "".join(CODE[letter] for letter in LETTERS if parse_guard(guard).holds(letter))
    return f"[{inside}]" if inside else "(?!)"


def random_pair(rng: random.Random, size: int) -> tuple[str, str]:
    """An expression of ours and the same in Python's notation."""
    if size <= 1:
        guard = rng.choice(["true", "a", "b", "a & b", "!a", "a | !b", "false"])
        told = rng.choice([f"[{guard}]", *({"true": ["."], "a": ["a"], "b": ["b", '"b"']}.get(guard, []))])
        return told, coded(guard)
    kind = rng.choice(["then", "or", "repeat"])
    if kind == "repeat":
        ours, theirs = random_pair(rng, size - 1)
        times = rng.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "{0}"])
        return f"({ours}){times}", f"(?:{theirs}){times}"
    left, right = random_pair(rng, size // 2), random_pair(rng, size - size // 2)
    if kind == "or":
        return f"({left[0]} | {right[0]})", f"(?:{left[1]}|{right[1]})"
    return f"({left[0]}{rng.choice([' ', ';', ' ; '])}{right[0]})", f"(?:{left[1]}{right[1]})"


@pytest.mark.parametrize("minimal", [True, False])
@pytest.mark.parametrize("seed", part_of(range(100), 25))
def test_agrees_with_python(seed: int, minimal: bool) -> None:
    ours, theirs = random_pair(random.Random(seed), random.Random(seed).randint(1, 7))
    automaton = translate_regex(parse_regex(ours), LETTERS, minimal=minimal)
    pattern = re.compile(theirs)
    for listed in words(LETTERS, 5):
        told = ["".join(CODE[letter] for letter in word) for word in listed]
        assert accepts(automaton, listed) == [bool(pattern.fullmatch(word)) for word in told], ours


SAME = [
    ("a b", "a;b"),
    ("a.*", "a . *"),
    ("a | b c", "a | (b c)"),
    ("a b*", "a (b*)"),
    ("a{2}", "a a"),
    ("a+", "a a*"),
    ("[a & !b]", "[!b & a]"),
    ("() | a", "a?"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_notation(one: str, other: str) -> None:
    assert translate_regex(parse_regex(one), LETTERS) == translate_regex(parse_regex(other), LETTERS)


FAULTS = [
    ("", "at character 1: expected a label"),
    ("a |", "at character 4: expected a label"),
    ("a;;b", "at character 3: expected a label"),
    ("(a", "at character 3: expected ')', found the end"),
    ("a)", "at character 2: expected a label, '.', '[', '(' or the end, found ')'"),
    ("*", "at character 1: expected"),
    ("a{3,1}", "at character 2: '{3,1}' ends before it begins"),
    ("a{9999999999}", "at character 2: '{9999999999}' repeats more than"),
    ("(a{100}){100}", "10,000 letters long"),
    ("a [b &]", "at character 3: in [b &]: at character 4"),
    ("[a", "at character 1: '[' is not part"),
    ("(" * 3000, "nested deeper than 100"),
    ("a" + "*" * 3000, "nested deeper than 100"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_faults_tell_the_place(text: str, fault: str) -> None:
    with pytest.raises(RegexError, match=re.escape(fault)):
        parse_regex(text)


@given(st.text(alphabet='ab.;|*+?()[]{}012,!&" ', max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        regex = parse_regex(text)
    except RegexError:
        return
    if regex.positions() < 12:
        assert translate_regex(regex, LETTERS).states[0] == "q0"


def test_a_giant_is_refused() -> None:
    with pytest.raises(BudgetError, match="states"):
        translate_regex(parse_regex(".* a .{20}"), LETTERS)


def test_warnings() -> None:
    assert language_automaton("regex", ".*", LETTERS)[1] == [
        "the expression matches every run: there is nothing to hide"
    ]
    assert language_automaton("regex", ".* zz", LETTERS)[1] == [
        "no state carries the label 'zz'",
        "the expression matches no run: there is nothing to hide",
    ]
    assert language_automaton("regex", ".* a", LETTERS)[1] == []
