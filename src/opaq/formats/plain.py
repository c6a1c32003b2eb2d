"""Problems, models and automata as our own YAML and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from opaq.formats.registry import Export, Writer
from opaq.model.automaton import Automaton
from opaq.model.mdp import Imported
from opaq.model.problem import Problem
from opaq.spec.automaton_part import AUTOMATON
from opaq.spec.cursor import Scope
from opaq.spec.model_part import MODEL
from opaq.spec.observer_part import OBSERVER
from opaq.spec.problem_part import problem_to_dict


def yaml_text(data: dict[str, Any]) -> str:
    """A mapping as YAML, in the order of its keys."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def json_text(data: dict[str, Any]) -> str:
    """A mapping as JSON."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _problem(problem: Problem, export: Export) -> dict[str, Any]:
    return problem_to_dict(problem)


def _model(imported: Imported, export: Export) -> dict[str, Any]:
    """The parts of a problem file that a model has."""
    mdp = dataclasses.replace(imported.mdp, named_rewards=dict(imported.rewards))
    data: dict[str, Any] = {"opaq": 1, "model": MODEL.write(mdp, Scope.of(mdp))}
    missing = ["secret", "horizon"]
    if imported.observer is None:
        missing.insert(0, "observer")
    else:
        data["observer"] = OBSERVER.record.write(imported.observer, Scope.of(mdp))
    if imported.discount is not None:
        data["discount"] = imported.discount
    export.notes.append(f"the model is no problem yet: add {', '.join(missing[:-1])} and {missing[-1]}")
    return data


def _automaton(automaton: Automaton, export: Export) -> dict[str, Any]:
    return AUTOMATON.write(automaton, Scope())


def _writer(mapping_of: Callable[[Any, Export], dict[str, Any]], text_of: Callable[[dict[str, Any]], str]) -> Writer:
    return lambda thing, export: text_of(mapping_of(thing, export))


problem_as_yaml, problem_as_json = _writer(_problem, yaml_text), _writer(_problem, json_text)
model_as_yaml, model_as_json = _writer(_model, yaml_text), _writer(_model, json_text)
automaton_as_yaml, automaton_as_json = _writer(_automaton, yaml_text), _writer(_automaton, json_text)
