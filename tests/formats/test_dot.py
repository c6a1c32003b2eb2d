"""Automata and models as Graphviz drawings."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess

import numpy as np
import pytest

from automata.drawn import LETTERS, damaged, random_automaton
from opaq.automata.formula import parse_ltlf
from opaq.automata.translate import translate_ltlf
from opaq.errors import BudgetError, InputError
from opaq.formats.dot import automaton_from_dot, automaton_to_dot, mdp_to_dot
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP

SMALL = """digraph automaton {
  rankdir=LR;
  reads=entered;
  start [shape=point];
  "q0" [shape=circle];
  "q1" [shape=doublecircle];
  start -> "q0";
  "q0" -> "q1" [label="a"];
  "q0" -> "q0" [label="!a"];
  "q1" -> "q1" [label="true"];
}
"""
DRAWN = """// by hand
strict Digraph "my automaton" {
  graph [rankdir=LR, fontsize=10]; node [shape = doublecircle]; done, 2
  node [shape=circle]
  # the way
  idle -> busy -> done [label="a & \\"b c\\"", color=red]; busy -> idle
  /* a state
     on its own */
  2 [shape=circle peripheries=2]
}
"""


def test_what_is_written() -> None:
    assert automaton_to_dot(translate_ltlf(parse_ltlf("F a"), LETTERS)) == SMALL


@pytest.mark.parametrize("seed", range(100))
def test_what_is_written_is_read_back(seed: int) -> None:
    automaton = random_automaton(random.Random(seed))
    assert automaton_from_dot(automaton_to_dot(automaton)) == automaton


def test_a_drawing_by_hand() -> None:
    automaton = automaton_from_dot(DRAWN)
    assert automaton.states == ("done", "2", "idle", "busy")
    assert automaton.accepting == {0, 1}
    assert automaton.initial == 0
    told = [(automaton.states[edge.source], automaton.states[edge.target], str(edge.guard)) for edge in automaton.edges]
    assert told == [("idle", "busy", 'a & "b c"'), ("busy", "done", 'a & "b c"'), ("busy", "idle", "true")]


FAULTS = [
    ("", 1, "column 1: expected 'digraph', found the end of the file"),
    ("graph g { a -- b }", 1, "expected 'digraph'"),
    ("digraph { a -> b", 1, "expected a state, an edge or '}', found the end of the file"),
    ("digraph {\n a -- b }", 2, "column 4: edges without direction are not read"),
    ("digraph {\n a:n -> b }", 2, "column 3: ports are not read"),
    ("digraph {\n subgraph x { a } }", 2, "subgraphs are not read"),
    ('digraph {\n a -> b [label="p &"] }', 2, "the label of a -> b is not a guard: at character 4"),
    ("digraph {\n a -> b [label] }", 2, "expected '='"),
    ("digraph {\n}", 2, "there are no states"),
    ("digraph { s [shape=point] t [shape=none]\n s -> a\n t -> b }", 3, "a second initial state"),
    ("digraph {\n reads=sideways a }", 2, "reads is 'sideways'"),
    ('digraph { "a }', 1, "column 11: '\"' cannot stand here"),
    ("digraph { a } b", 1, "expected nothing after '}'"),
]


@pytest.mark.parametrize(("text", "line", "found"), FAULTS)
def test_faults_tell_line_and_column(text: str, line: int, found: str) -> None:
    with pytest.raises(InputError) as caught:
        automaton_from_dot(text, source="file.dot")
    (fault,) = caught.value.faults
    assert found in fault.message
    assert fault.line == line


def test_damaged_files_are_read_or_refused() -> None:
    rng = random.Random(0)
    for case in range(2000):
        text = damaged([SMALL, DRAWN][case % 2], rng)
        with contextlib.suppress(InputError):
            automaton_from_dot(text)


def chain(num_states: int) -> MDP:
    """Every state goes on or stays, half and half; the last one stays."""
    states, last = np.arange(num_states), num_states - 1
    rows = np.repeat(states, 2)
    columns = np.column_stack((states, np.minimum(states + 1, last))).ravel()
    return MDP(
        states=tuple(f'place "{state}"' for state in states),
        actions=("go",),
        start=floats([1.0, *[0.0] * last]),
        choice_start=ints(np.arange(num_states + 1)),
        choice_action=ints(np.zeros(num_states)),
        transitions=SparseRows.from_entries(rows, columns, np.full(rows.size, 0.5), shape=(num_states, num_states)),
        rewards=floats(np.zeros(num_states)),
        labels={"goal": ints([last])},
    )


def test_a_small_model() -> None:
    assert mdp_to_dot(chain(2)).splitlines() == [
        "digraph model {",
        "  rankdir=LR;",
        "  node [shape=box, style=rounded];",
        '  s0 [label="place \\"0\\""];',
        '  s1 [label="place \\"1\\"\\n{goal}"];',
        '  start0 [shape=point]; start0 -> s0 [label="1"];',
        '  s0 -> s0 [label="go: 0.5"];',
        '  s0 -> s1 [label="go: 0.5"];',
        '  s1 -> s1 [label="go"];',
        "}",
    ]


def test_a_large_model_is_not_drawn() -> None:
    mdp_to_dot(chain(500))
    with pytest.raises(BudgetError, match="501 states is too large to draw; the limit is 500"):
        mdp_to_dot(chain(501))


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")
def test_graphviz_reads_it() -> None:
    for text in (automaton_to_dot(random_automaton(random.Random(3))), mdp_to_dot(chain(3))):
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)
