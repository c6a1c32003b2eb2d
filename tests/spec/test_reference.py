"""The reference page is made from the grammar, and its examples are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from opaq.spec import problem_schema
from opaq.spec.grammar import Record
from opaq.spec.problem_part import problem_record
from opaq.spec.reference import _records, reference
from opaq.spec.yaml import parse_yaml
from problem_examples import GRID, TWO_SINK, findings

PAGE = Path(__file__).parents[2] / "docs" / "problem-file-reference.md"
RECORDS = _records(problem_record(), {})


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: python -m opaq.spec.reference > docs/..."


@pytest.mark.parametrize("title", [title for title, record in RECORDS.items() if record.example])
def test_examples_are_read(title: str) -> None:
    spec = dict(GRID if "[[" in RECORDS[title].example or title in ("grid", "task") else TWO_SINK)
    if title in ("model", "grid"):
        spec = {key: value for key, value in spec.items() if key not in ("model", "grid", "secret", "observer")}
        spec |= {"secret": {"last_state": "secret"}, "observer": {"emissions": {"*": "N"}}}
    stated = parse_yaml(RECORDS[title].example).data
    if title == "imported":
        pytest.skip("names a file")  # tests/spec/test_overlay.py reads such models
    if title in ("memory", "belief"):
        stated = {"policy": {"conditions_on": ["state", stated]}}
    elif title == "automaton":
        stated = {"secret": stated}
    elif title == "secret":
        stated = {"secret": {"ltlf": "F(secret & F goal)", "reveal": "acceptance"}}
    elif title in ("figures", "limit"):
        watching = dict.fromkeys(("street", "harbour", "control"), spec.pop("observer"))
        spec |= {"observers": watching, "secrets": {"goal": spec.pop("secret")}}
    elif title == "task":
        spec["grid"] = {**spec["grid"], "named_rewards": {"fuel": {"*": -1}}}
    assert findings(spec | stated)[0] == []


def test_schema_and_page_know_the_same_keys() -> None:
    definitions = problem_schema()["$defs"]

    def keys(record: Record[object]) -> set[str]:
        return {key.name for key in record.keys}

    for title, record in RECORDS.items():
        if title in definitions:
            assert set(definitions[title]["properties"]) == keys(record), title
    assert set(problem_schema()["properties"]) == keys(problem_record())
    assert len(set(RECORDS) & set(definitions)) >= 10
