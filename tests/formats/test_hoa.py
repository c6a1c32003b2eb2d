"""Automata to and from HOA files."""

from __future__ import annotations

import contextlib
import random

import pytest

from automata.drawn import LETTERS, damaged, random_automaton, same
from opaq.automata.dfa import tabulate
from opaq.automata.formula import parse_ltlf
from opaq.automata.translate import translate_ltlf
from opaq.errors import InputError
from opaq.formats.hoa import automaton_from_hoa, automaton_to_hoa

SMALL = """HOA: v1
name: "F a"
States: 2
Start: 0
AP: 1 "a"
Acceptance: 1 Inf(0)
properties: trans-labels explicit-labels state-acc deterministic complete
--BODY--
State: 0 "q0"
[0] 1
[!0] 0
State: 1 "q1" {0}
[t] 1
--END--
"""
IMPLICIT = """HOA: v1
/* letters in the order !a!b, a!b, !ab, ab */
Start: 0
AP: 2 "a" "b"
acc-name: Buchi
Acceptance: 1 Inf(0)
--BODY--
State: 0
0 1 0 1
State: 1 {0}
1 1 1 1
--END--
"""
ALIASES = """HOA: v1
States: 3 Start: 1 AP: 2 "a" "b"
Alias: @x 0 & !1
Alias: @y !@x
Acceptance: 0 t
--BODY--
State: [@x] 0 2
State: 1
[@x] 0 [@y & 1] 2
State: 2 [t] 2
--END--
"""


def test_what_is_written() -> None:
    assert automaton_to_hoa(translate_ltlf(parse_ltlf("F a"), LETTERS), name="F a") == SMALL


@pytest.mark.parametrize("seed", range(100))
def test_what_is_written_is_read_back(seed: int) -> None:
    automaton = random_automaton(random.Random(seed))
    assert same(automaton_from_hoa(automaton_to_hoa(automaton)), automaton)


@pytest.mark.parametrize("text", ["F(a & F b)", "a U b", "G(a -> X b)", "true"])
def test_complete_automata_come_back_edge_by_edge(text: str) -> None:
    automaton = translate_ltlf(parse_ltlf(text), LETTERS)
    assert automaton_from_hoa(automaton_to_hoa(automaton)) == automaton


def test_edges_without_labels() -> None:
    automaton = automaton_from_hoa(IMPLICIT)
    assert tabulate(automaton, LETTERS).tolist() == [[0, 1, 0, 1], [1, 1, 1, 1]]
    assert automaton.accepting == {1}


def test_aliases_labels_of_states_and_a_sink_for_what_is_missing() -> None:
    automaton = automaton_from_hoa(ALIASES)
    assert automaton.states == ("q0", "q1", "q2", "sink")
    assert automaton.initial == 1
    assert automaton.accepting == {0, 1, 2}
    assert tabulate(automaton, LETTERS).tolist() == [[3, 2, 3, 3], [3, 0, 2, 2], [2, 2, 2, 2], [3, 3, 3, 3]]


FAULTS = [
    ("", 1, "column 1: expected 'HOA: v1', found the end of the file"),
    (SMALL.replace("v1", "v2", 1), 1, "column 6: expected 'v1', found 'v2'"),
    (SMALL.replace("Start: 0\n", ""), 8, "the header has no 'Start:'"),
    (SMALL.replace("1 Inf(0)", "2 Inf(0)&Fin(1)"), 6, "not that of a finite automaton"),
    (SMALL.replace("[!0]", "[t]"), 11, "column 1: state 0 has two edges for one letter"),
    (SMALL.replace("[0] 1", "[0] 7"), 10, "names a state that is not among the 2"),
    (SMALL.replace("[0] 1", "[5] 1"), 10, "column 2: label 5 is not among the 1 of 'AP:'"),
    (SMALL.replace("[0] 1", "[0] 1 {0}"), 10, "column 7: acceptance on edges is not read"),
    (SMALL.replace("[0] 1", "[0] 1&0"), 10, "column 6: alternating automata are not read"),
    (SMALL.replace("[0] 1", "[0 1"), 10, "column 4: expected ']', found '1'"),
    (SMALL.replace('"q1"', '"q0"'), 12, "two states are called 'q0'"),
    (SMALL.replace("States: 2", "States: 99999999999999"), 3, "too large"),
    (SMALL.replace("name:", "Fairness:"), 2, "the header 'Fairness:' is not known"),
    (SMALL.replace("[0] 1", f"[{'!' * 5000}0] 1"), 10, "nested deeper than 100"),
    (SMALL.replace("--END--\n", ""), 14, "expected '--END--', found the end of the file"),
    (SMALL.replace('"F a"', '"F a'), 12, "cannot stand here"),
    (IMPLICIT.replace("0 1 0 1", "0 1 0"), 9, "3 edges without labels, not one for each of the 2^2 letters"),
]


@pytest.mark.parametrize(("text", "line", "found"), FAULTS)
def test_faults_tell_line_and_column(text: str, line: int, found: str) -> None:
    with pytest.raises(InputError) as caught:
        automaton_from_hoa(text, source="file.hoa")
    (fault,) = caught.value.faults
    assert found in fault.message
    assert fault.line == line
    assert str(caught.value).startswith("file.hoa: ")


def test_aliases_cannot_blow_up() -> None:
    doubled = "".join(f"Alias: @a{n + 1} @a{n} & @a{n}\n" for n in range(60))
    text = SMALL.replace("--BODY--", f"Alias: @a0 0\n{doubled}--BODY--")
    with pytest.raises(InputError, match="too large once aliases are written out"):
        automaton_from_hoa(text)


def test_damaged_files_are_read_or_refused() -> None:
    rng = random.Random(0)
    for case in range(2000):
        text = damaged([SMALL, IMPLICIT, ALIASES][case % 3], rng)
        with contextlib.suppress(InputError):
            automaton_from_hoa(text)
