"""Automata of formulas against the definition, against MONA, and their size."""

from __future__ import annotations

import random
import re
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from automata.traces import accepts, all_letters, random_formula, satisfies, words
from counting import count_calls
from opaq.automata.dfa import Table, minimise, tabulate
from opaq.automata.formula import Formula, parse_ltlf
from opaq.automata.translate import explain, language_automaton, translate_ltlf
from opaq.errors import BudgetError
from opaq.model.automaton import Automaton, Edge, parse_guard
from trials import part_of

PAIRS = all_letters("ab")
TRIPLES = all_letters("abc")


def check(automaton: Automaton, formula: Formula, letters: tuple[frozenset[str], ...], longest: int) -> None:
    for given in words(letters, longest):
        found, meant = accepts(automaton, given), satisfies(formula, given)
        assert found == meant, (
            f"{formula} on {[each for each in zip(given, found, meant, strict=True) if each[1] != each[2]][:1]}"
        )


@pytest.mark.parametrize("seed", part_of(range(200), 50))
def test_agrees_with_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    labels, letters, longest = ("ab", PAIRS, 6) if seed % 2 else ("abc", TRIPLES, 4)
    formula = random_formula(rng, labels, rng.randint(2, 9))
    check(translate_ltlf(formula, letters), formula, letters, longest)
    check(translate_ltlf(formula, letters, minimal=False), formula, letters, 4)


@pytest.mark.parametrize("seed", part_of(range(100), 25))
def test_past_formulas_agree_with_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    formula = random_formula(rng, "ab", rng.randint(2, 9), past=True)
    check(translate_ltlf(formula, PAIRS), formula, PAIRS, 6)


@pytest.mark.parametrize("seed", range(60))
def test_on_few_letters_it_agrees_and_is_not_larger(seed: int) -> None:
    rng = random.Random(seed)
    formula = random_formula(rng, "abc", rng.randint(2, 9))
    some = tuple(rng.sample(TRIPLES, rng.randint(1, 4)))
    automaton = translate_ltlf(formula, some)
    assert len(automaton.states) <= len(translate_ltlf(formula, TRIPLES).states)
    check(automaton, formula, some, 4)


@pytest.mark.parametrize("seed", range(100))
def test_is_minimal(seed: int) -> None:
    """Every two states are told apart by a word, the initial one by non-empty words only."""
    rng = random.Random(seed)
    automaton = translate_ltlf(random_formula(rng, "ab", rng.randint(2, 8)), PAIRS)
    moves = tabulate(automaton, PAIRS)
    entered = set(moves.ravel().tolist())
    assert entered | {0} == set(range(len(automaton.states)))
    apart = {(p, q) for p in entered for q in entered if (p in automaton.accepting) != (q in automaton.accepting)}
    states = range(len(automaton.states))
    for _ in states:
        apart |= {
            (p, q)
            for p in states
            for q in states
            if any((x, y) in apart for x, y in zip(moves[p], moves[q], strict=True))
        }
    assert all((p, q) in apart for p, q in combinations(states, 2))


SIZES = [
    ("F(ps & F pg) | F pg", 2),
    ("F a", 2),
    ("G a", 2),
    ("true", 1),
    ("false", 1),
    ("a U b", 3),
    ("F(a & F b)", 3),
    ("last", 3),
    ("X a", 4),
    ("F a & F b", 4),
    ("G(a -> F b)", 2),
    ("O a", 2),
    ("b S a", 2),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_known_sizes(text: str, size: int) -> None:
    formula = parse_ltlf(text)
    assert len(translate_ltlf(formula, all_letters(sorted(formula.labels()))).states) == size


def test_names_and_guards_can_be_read() -> None:
    automaton = translate_ltlf(parse_ltlf("F(a & F b)"), PAIRS)
    told = [(automaton.states[edge.source], automaton.states[edge.target], str(edge.guard)) for edge in automaton.edges]
    assert told == [
        ("q0", "q1", "a & !b"),
        ("q0", "q2", "a & b"),
        ("q0", "q0", "!a"),
        ("q1", "q2", "b"),
        ("q1", "q1", "!b"),
        ("q2", "q2", "true"),
    ]
    assert automaton.reads == "entered"


def test_labels_outside_the_formula_do_not_matter() -> None:
    wide = tuple(letter | extra for letter in PAIRS for extra in all_letters("xyz"))
    assert translate_ltlf(parse_ltlf("a U b"), wide) == translate_ltlf(parse_ltlf("a U b"), PAIRS)


@pytest.mark.parametrize(("count", "most"), [(4, 20_000), (8, 1_500_000)])
def test_conjunctions_of_eventualities_are_quick(count: int, most: int) -> None:
    labels = [f"p{place}" for place in range(count)]
    formula = parse_ltlf(" & ".join(f"F {label}" for label in labels))
    assert len(translate_ltlf(formula, all_letters(labels)).states) == 2**count
    assert count_calls(lambda: translate_ltlf(formula, all_letters(labels))) < most


def test_a_giant_is_refused() -> None:
    labels = [f"p{place}" for place in range(16)]
    letters = tuple(frozenset([label]) for label in labels)
    with pytest.raises(BudgetError, match="states"):
        translate_ltlf(parse_ltlf(" & ".join(f"F {label}" for label in labels)), letters)


def test_nested_equivalences_do_not_blow_up() -> None:
    text = " <-> ".join(["F a", "G b"] * 40)
    assert len(translate_ltlf(parse_ltlf(text), PAIRS).states) <= 16


def test_no_letters_no_moves() -> None:
    assert translate_ltlf(parse_ltlf("F a"), ()).edges == ()


def test_minimise_keeps_what_is_minimal() -> None:
    small = Table(np.array([[1, 0], [1, 1]]), np.array([False, True]))
    again = minimise(small)
    assert again.moves.tolist() == [[1, 0], [1, 1]]
    assert again.accepting.tolist() == [False, True]


WARNINGS = [
    ("F(a & F b) | F b", ["F(a & F b) | F b is equivalent to F b"]),
    ("G(a -> a) & F b", ["G(a -> a) & F b is equivalent to F b"]),
    ("F F a", ["F F a is equivalent to F a"]),
    ("a | !a", ["a | !a is true of every run: there is nothing to hide"]),
    ("F a", []),
    ("F(a & F b)", []),
]


@pytest.mark.parametrize(("text", "warnings"), WARNINGS)
def test_warnings(text: str, warnings: list[str]) -> None:
    assert language_automaton("ltlf", text, PAIRS)[1] == warnings


def test_warnings_about_the_letters_that_occur() -> None:
    automaton, warnings = language_automaton("ltlf", "F(a & !b) | F zz", (frozenset(), frozenset("a")))
    assert warnings == [
        "no state carries the label 'b'",
        "no state carries the label 'zz'",
        "F(a & !b) | F zz is equivalent to F a on the label sets that occur",
    ]
    assert len(automaton.states) == 2


@pytest.mark.parametrize("seed", range(40))
def test_a_shorter_formula_means_the_same(seed: int) -> None:
    formula = random_formula(random.Random(seed), "ab", 8)
    for warning in explain(formula, translate_ltlf(formula, PAIRS), alphabet=PAIRS):
        if " is equivalent to " in warning:
            shorter = parse_ltlf(warning.removeprefix(f"{formula} is equivalent to "))
            assert all(satisfies(shorter, given) == satisfies(formula, given) for given in words(PAIRS, 4))


def random_automaton(rng: random.Random) -> Automaton:
    guards = ["a", "!a", "b", "a & !b", "a | b", "!(a & b)", "true", "false"]
    size = rng.randint(1, 5)
    edges = [
        Edge(rng.randrange(size), rng.randrange(size), parse_guard(rng.choice(guards)))
        for _ in range(rng.randint(0, 9))
    ]
    names = tuple(f"n{state}" for state in range(size))
    return Automaton(names, rng.randrange(size), frozenset(rng.sample(range(size), rng.randint(0, size))), tuple(edges))


@pytest.mark.parametrize("seed", range(50))
def test_tables_are_what_single_steps_say(seed: int) -> None:
    automaton = random_automaton(random.Random(seed))
    found = tabulate(automaton, PAIRS)
    assert found.tolist() == [[automaton.step(q, letter) for letter in PAIRS] for q in range(len(automaton.states))]


def from_mona(dot: str) -> Automaton:
    """The automaton that ltlf2dfa draws."""
    final = re.search(r"doublecircle\];([^\n]*)", dot)
    start = re.search(r"init -> (\d+)", dot)
    moves = re.findall(r"(\d+) -> (\d+) \[label=\"(.*?)\"\]", dot)
    assert final is not None
    assert start is not None
    states = tuple(sorted({state for source, target, _ in moves for state in (source, target)}))
    accepting = frozenset(states.index(state) for state in re.findall(r"\d+", final[1]))
    edges = tuple(
        Edge(states.index(source), states.index(target), parse_guard(guard)) for source, target, guard in moves
    )
    return Automaton(states, states.index(start[1]), accepting, edges)


@pytest.mark.skipif(shutil.which("mona") is None, reason="needs the program mona")
def test_agrees_with_mona(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ltlf2dfa = pytest.importorskip("ltlf2dfa.parser.ltlf", reason="needs the package ltlf2dfa")
    monkeypatch.chdir(tmp_path)  # MONA's input is written to the working folder
    parser, rng, checked = ltlf2dfa.LTLfParser(), random.Random(7), 0
    while checked < 30:
        formula = random_formula(rng, "ab", rng.randint(3, 8))
        if formula.kinds() & {"weak_until", "strong_release", "last", "true", "false"}:
            continue  # not all of them in the other notation
        theirs, ours = from_mona(parser(str(formula)).to_dfa()), translate_ltlf(formula, PAIRS)
        for given in words(PAIRS, 5):
            assert accepts(ours, given) == accepts(theirs, given), str(formula)
        checked += 1
