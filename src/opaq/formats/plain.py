"""Write problems, models, automata and policies as opaq's own YAML and JSON.

One of these comes in, text goes out. A problem becomes a whole problem file, a model the keys `opaq` and `model` and
what else it has, an automaton the mapping of `automaton`, a policy its table. `opaq.load` reads them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from opaq.formats.format import Export, Format
from opaq.model.mdp import Imported
from opaq.spec.automaton_part import AUTOMATON
from opaq.spec.cursor import Scope
from opaq.spec.model_part import MODEL
from opaq.spec.observer_part import OBSERVER
from opaq.spec.policy_table import policy_to_dict
from opaq.spec.problem_part import problem_to_dict


def yaml_text(data: dict[str, Any]) -> str:
    """Return a mapping as YAML, in the order of its keys; short lists and mappings stand on one line."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def json_text(data: dict[str, Any]) -> str:
    """Return a mapping as JSON, control, bidirectional and separator characters escaped.

    Readers refuse them raw, and terminals obey them. Raises ValueError for numbers that are not finite, which JSON does
    not have.
    """
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return "".join(
        char if char.isprintable() or char == "\n" or ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in text
    )


def _model_to_dict(imported: Imported, export: Export) -> dict[str, Any]:
    """Return the parts of a problem file that a model has; the note says which parts it still needs.

    imported: its observer and discount are written where it has them. export: gets the note.
    """
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


def _own_format(name: str, endings: tuple[str, ...], to_text: Callable[[dict[str, Any]], str]) -> Format:
    """Return the format of our own mappings; `opaq.load` reads them.

    name, endings: as in Format.
    to_text: writes a mapping.
    """
    writers: dict[str, Callable[[Any, Export], str]] = {
        "problem": lambda problem, export: to_text(problem_to_dict(problem)),
        "model": lambda imported, export: to_text(_model_to_dict(imported, export)),
        "automaton": lambda automaton, export: to_text(AUTOMATON.write(automaton, Scope())),
        "policy": lambda policy, export: json_text(
            policy_to_dict(policy, problem=export.problem)
        ),  # which is YAML, too
    }
    return Format(name, "a problem", "problem", endings, writers=writers)


YAML = _own_format("yaml", (".yaml", ".yml"), yaml_text)
JSON = _own_format("json", (".json",), json_text)
