"""The examples in the documents about secrets and automata are what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from automata.drawn import LETTERS
from automata.traces import all_letters
from opaq.automata.dfa import tabulate
from opaq.automata.formula import parse_ltlf
from opaq.automata.translate import language_automaton, translate_ltlf
from opaq.formats.dot import automaton_from_dot, automaton_to_dot
from opaq.formats.hoa import automaton_from_hoa, automaton_to_hoa
from opaq.spec.automaton_part import build_automaton
from opaq.spec.cursor import Scope
from opaq.spec.model_part import build_mdp
from opaq.spec.secret_part import SECRET, build_secret

DOCS = Path(__file__).parents[2] / "docs"
AUTOMATA = (DOCS / "formats" / "automata.md").read_text(encoding="utf-8")
SECRETS = (DOCS / "secrets.md").read_text(encoding="utf-8")
EXAMPLE = translate_ltlf(parse_ltlf("F(a & F b)"), LETTERS)
LABELS = ["vault", "goal_left", "goal_right", "pickup", "dropoff", "fuel"]
MODEL: dict[str, Any] = {
    "states": ["g1", "g2", "q1", "q4"],
    "actions": ["go"],
    "start": {"g1": 1},
    "transitions": {state: {"go": {state: 1}} for state in ("g1", "g2", "q1", "q4")},
    "labels": {label: ["q1"] for label in LABELS},
}


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}(?: [\w.]+)?\n(.*?)^```$", document, flags=re.DOTALL | re.MULTILINE)


def test_the_hoa_example() -> None:
    (text,) = blocks(AUTOMATA, "hoa")
    assert automaton_to_hoa(EXAMPLE) == text
    assert automaton_from_hoa(text) == EXAMPLE


def test_the_dot_example() -> None:
    (text,) = blocks(AUTOMATA, "dot")
    assert automaton_to_dot(EXAMPLE) == text
    assert automaton_from_dot(text) == EXAMPLE


def test_the_yaml_example() -> None:
    (text,) = blocks(AUTOMATA, "yaml")
    drawn = build_automaton(yaml.safe_load(text))
    assert tabulate(drawn, LETTERS).tolist() == tabulate(EXAMPLE, LETTERS).tolist()
    assert drawn.accepting == EXAMPLE.accepting


@pytest.mark.parametrize("text", blocks(SECRETS, "yaml"))
def test_secrets(text: str) -> None:
    spec = yaml.safe_load(text)["secret"]
    formulas = [(kind, spec[kind]) for kind in ("ltlf", "regex") if kind in spec]
    for kind, formula in formulas:
        letters = all_letters(LABELS)
        assert language_automaton(kind, formula, letters)[1] == []
    if not formulas:
        mdp = build_mdp(**MODEL)
        secret = build_secret(spec, mdp, horizon=5)
        assert build_secret(SECRET.record.write(secret, Scope.of(mdp)), mdp, horizon=5) == secret
