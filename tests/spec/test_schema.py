"""The schema agrees with what is read."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from opaq import load
from opaq.spec import build_problem
from opaq.spec.problem_part import problem_schema, problem_to_dict
from opaq.spec.yaml import parse_yaml
from problem_examples import EXAMPLES, GONE, GRAPH, GRID, TWO_SINK, edited, findings

VALIDATOR = jsonschema.Draft202012Validator(problem_schema())


def as_json(value: Any) -> Any:
    """The same value with text keys, as JSON has them."""
    if isinstance(value, dict):
        return {str(key): as_json(entry) for key, entry in value.items()}
    return [as_json(entry) for entry in value] if isinstance(value, list) else value


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(problem_schema())


def test_every_reference_leads_somewhere_and_everything_is_used() -> None:
    schema = problem_schema()
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.update([node["$ref"]] if "$ref" in node else [])
            for entry in node.values():
                walk(entry)
        elif isinstance(node, list):
            for entry in node:
                walk(entry)

    walk(schema)
    assert found == {f"#/$defs/{name}" for name in schema["$defs"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid_as_written_and_as_told(name: str) -> None:
    VALIDATOR.validate(as_json(EXAMPLES[name]))
    VALIDATOR.validate(problem_to_dict(build_problem(EXAMPLES[name])))


@pytest.mark.parametrize("name", load.scenario_names())
def test_scenarios_are_valid(name: str) -> None:
    VALIDATOR.validate(as_json(parse_yaml(load.scenario_text(name)).data))


VALID: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TWO_SINK, {"secret": {"initial_state": True}}),
    (TWO_SINK, {"secret": {"last_state": {"x": "q0", "y": ["q1"]}}}),
    (TWO_SINK, {"secret": {"state_at": {"time": 1, "states": "goal"}}}),
    (TWO_SINK, {"secret": {"steps_ago": {"steps": 1, "states": ["q0"]}}}),
    (TWO_SINK, {"secret": {"visited": "goal"}}),
    (TWO_SINK, {"model/start": ["q0", "q1"]}),
    (TWO_SINK, {"model/start": [0.5, 0.5, 0.0]}),
    (TWO_SINK, {"model/rewards": [[1, 2], [3, 4], [5, 6]]}),
    (TWO_SINK, {"observer": {"emissions": [[1], [1], [1]], "actions": True}}),
    (TWO_SINK, {"policy": {"conditions_on": ["state", "time", "start", {"memory": {"nodes": 2}}]}}),
    (TWO_SINK, {"opaq": GONE}),
    (TWO_SINK, {"secret": {"regex": ".* goal", "minimal": False, "reveal": "progress"}}),
    (TWO_SINK, {"task": {"reach": ["q1"], "probability_at_least": 0.5, "name": "there"}}),
    (TWO_SINK, {"task": {"regex": ".* goal", "probability_at_least": 0.5, "minimal": False}}),
    (TWO_SINK, {"task": {"objective": "maximise", "requirements": []}}),
    (TWO_SINK, {"model/named_rewards": {"fuel": {"*": -1}}}),
    (TWO_SINK, {"policy": {"conditions_on": ["state", {"memory": {"nodes": ["m", "n"], "update": "free"}}]}}),
    (GRID, {"grid/start": [[0, 0]]}),
    (GRID, {"grid/start": {"0,0": 1}}),
    (GRID, {"grid/rewards": [{"cells": [[2, 2]], "reward": 1}]}),
    (GRID, {"grid/size": GONE, "grid/width": 6, "grid/height": 6}),
]


@pytest.mark.parametrize(("spec", "edits"), VALID)
def test_what_is_read_is_valid(spec: dict[str, Any], edits: dict[str, Any]) -> None:
    changed = edited(spec, edits)
    assert findings(changed)[0] == []
    VALIDATOR.validate(as_json(changed))


INVALID: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TWO_SINK, {"model": GONE}),
    (TWO_SINK, {"grid": GRID["grid"]}),
    (TWO_SINK, {"horizon": GONE}),
    (TWO_SINK, {"horizon": "two"}),
    (TWO_SINK, {"horizon": -1}),
    (TWO_SINK, {"discount": 0}),
    (TWO_SINK, {"opaq": 2}),
    (TWO_SINK, {"colour": 1}),
    (TWO_SINK, {"model/transitons": {}}),
    (TWO_SINK, {"model/start": GONE}),
    (TWO_SINK, {"model/states": "q0"}),
    (TWO_SINK, {"model/states": ["q0", "q0", "q1", "q2"]}),
    (TWO_SINK, {"model/transitions/q0/a": {"q0": "1"}}),
    (TWO_SINK, {"model/transitions/q0/a": {"q0": 1.5}}),
    (TWO_SINK, {"model/rewards": {"q0": "x"}}),
    (TWO_SINK, {"observer": {}}),
    (TWO_SINK, {"observer/sensors": {"A": {"covers": "goal", "detects": 1}}}),
    (TWO_SINK, {"observer": {"sensors": {"A": {"covers": "goal"}}}}),
    (TWO_SINK, {"secret": {}}),
    (TWO_SINK, {"secret": {"last_state": False}}),
    (TWO_SINK, {"secret": {"last_state": "q0", "visited": "q1"}}),
    (TWO_SINK, {"secret/reveal": "progress"}),
    (TWO_SINK, {"task": {"over": "ever"}}),
    (TWO_SINK, {"task": {"objective": "hide"}}),
    (TWO_SINK, {"task": {"reach": "goal"}}),
    (TWO_SINK, {"task": {"reach": "goal", "regex": "goal", "probability_at_least": 1}}),
    (TWO_SINK, {"task": {"probability_at_least": 1}}),
    (TWO_SINK, {"task": {"reach": "goal", "probability_at_least": 1, "minimal": True}}),
    (TWO_SINK, {"task": {"requirements": [{"reward": "fuel"}]}}),
    (TWO_SINK, {"task": {"requirements": [{"reach": "goal"}]}}),
    (TWO_SINK, {"task": {"requirements": {"reach": "goal", "probability_at_least": 1}}}),
    (TWO_SINK, {"secret": {"ltlf": 3}}),
    (TWO_SINK, {"secret": {"visited": "goal", "minimal": True}}),
    (TWO_SINK, {"model": {"prism": "x.prism", "pomdp": "x.pomdp"}}),
    (TWO_SINK, {"policy": {"conditions_on": [{"memory": {"nodes": 2, "update": "frei"}}]}}),
    (TWO_SINK, {"policy": {"conditions_on": []}}),
    (TWO_SINK, {"policy": {"conditions_on": ["memory"]}}),
    (GRID, {"grid/width": 6}),
    (GRID, {"grid/slip": 0.6}),
    (GRID, {"grid/stay": "yes"}),
    (GRAPH, {"secret/automaton/reads": "leaving"}),
    (GRAPH, {"secret/automaton/edges": [{"from": "x", "to": "y"}]}),
    (GRAPH, {"secret/reveal": "all"}),
]


@pytest.mark.parametrize(("spec", "edits"), INVALID)
def test_structural_mistakes_are_refused_by_both(spec: dict[str, Any], edits: dict[str, Any]) -> None:
    changed = edited(spec, edits)
    assert findings(changed)[0]
    assert not VALIDATOR.is_valid(as_json(changed))
