"""Run Storm in this process: read a request, write the model as UMB and a report beside it.

Storm may crash, hang or fill the memory on a faulty model; here it can only take this process with it. Run as
`python -m opaq.formats.prism.storm_child REQUEST.json`.

    request   {"path": file, "kind": "prism" | "jani" | "drn", "constants": {...}, "seconds": s, "memory": bytes}
    report    {"rewards": [names in order], "deadlocks": {"states": [...], "rewards": {...}}}, or {"error": message}
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_READABLE = ("DTMC", "MDP", "POMDP")
_REWARDS = re.compile(r'^rewards(?: "([^"]*)")?\n(.*?)^endrewards', re.DOTALL | re.MULTILINE)
# A line of state rewards; those of transitions begin with the action in brackets. ` : ` belongs to `? :`.
_LONG = re.compile(r"\b\d{19,}\b")  # whole numbers that Storm prints and does not read again
_LINE = re.compile(r"^\t(?!\[)(.*?\S): (.*);$", re.MULTILINE)


class RefusedError(Exception):
    """Raised for a model that cannot be used; the message is for the user."""


def main(request_file: str) -> None:
    """Answer one request; whatever goes wrong is written to report.json.

    request_file: the request; model.umb and report.json are written beside it.
    """
    folder = Path(request_file).parent
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    _limit(request["memory"], request["seconds"])
    try:
        report = _answer(request, folder / "model.umb")
    except MemoryError:
        report = {"error": "std::bad_alloc"}
    except Exception as error:  # Storm raises plain RuntimeErrors, among others
        report = {"error": str(error) or type(error).__name__}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _limit(memory: int, seconds: float) -> None:
    """Cap the address space, and the processor time in case nobody is left to stop this process."""
    if sys.platform == "win32":
        return
    import resource

    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, int(seconds) * 4 + 60)):
        most = resource.getrlimit(limit)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))


def _answer(request: Mapping[str, Any], target: Path) -> dict[str, Any]:
    """Build the model of a request, write it as UMB to `target`, and return what UMB does not hold.

    Raises RefusedError for a model that is none of _READABLE, and whatever Storm raises.
    """
    import stormpy  # type: ignore[import-untyped, import-not-found, unused-ignore]

    kind = request["kind"]
    if kind == "drn":
        options = stormpy.io.DirectEncodingParserOptions()
        options.build_choice_labeling = True
        model, rewards = stormpy.build_model_from_drn(request["path"], options=options), []
        deadlocks = {}
    else:
        program = _instantiate(stormpy, _parse(stormpy, kind, request["path"]), request["constants"])
        model, rewards = _build(stormpy, program), _reward_names(program) if kind == "prism" else []
        deadlocks = _deadlocks(stormpy, program, model, known=kind == "prism")
    name = model.model_type.name
    if name not in _READABLE:
        raise RefusedError(f"the model is of type {name}; only {', '.join(_READABLE)} can be read")
    export = stormpy.io.UmbExportOptions()
    export.compression = stormpy.io.CompressionMode.NO_COMPRESSION
    export.canonicize_pomdp = False
    stormpy.io.export_to_umb(model, str(target), options=export)
    return {"rewards": rewards, "deadlocks": deadlocks}


def _parse(stormpy: Any, kind: str, path: str) -> Any:
    """Return the program or the JANI model of a file."""
    if kind == "jani":
        return stormpy.parse_jani_model(path)[0]
    return stormpy.parse_prism_program(path, prism_compatibility=True)


def _instantiate(stormpy: Any, program: Any, constants: Mapping[str, Any]) -> Any:
    """Return the program with its constants filled in.

    constants: name -> value. Raises RefusedError for names that the model does not have and for constants without a
        value.
    """
    known = [constant.name for constant in program.constants]
    unknown = [name for name in constants if name not in known]
    if unknown:
        raise RefusedError(f"there is no constant {', '.join(unknown)}; the model has: {', '.join(known) or 'none'}")
    if constants:
        program = stormpy.io.instantiate_constants(program, dict(constants))[0]
    if program.has_undefined_constants:
        missing = ", ".join(constant.name for constant in program.constants if not constant.defined)
        raise RefusedError(f"constants without a value: {missing}")
    return program


def _build(stormpy: Any, program: Any) -> Any:
    """Return the model. Raises RefusedError, or Storm's own error, when a variable leaves its range."""
    # Storm's own checks also refuse 13 times 1/13 for not being 1. States out of bounds are asked for instead, and
    # probabilities are checked by the reader.
    model = stormpy.build_model(program, options=_options(stormpy, checks=False))
    if not model.labeling.contains_label("out_of_bounds"):
        return model
    stormpy.build_model(program, options=_options(stormpy, checks=True))  # raises, and names the command
    raise RefusedError("a variable leaves its range")


def _options(stormpy: Any, *, checks: bool) -> Any:
    """Return Storm's options: all labels, rewards, valuations and choice labels.

    checks: whether Storm checks ranges and probabilities itself; if not, it labels states that are out of bounds.
    """
    options = stormpy.BuilderOptions()
    options.set_build_all_labels(True)
    options.set_build_all_reward_models(True)
    options.set_build_state_valuations(True)
    options.set_build_choice_labels(True)
    options.set_exploration_checks(checks)
    options.set_add_out_of_bounds_state(not checks)
    return options


def _deadlocks(stormpy: Any, program: Any, model: Any, *, known: bool) -> dict[str, Any]:
    """Return the states without an enabled command, which Storm gives a loop but no reward, and their rewards.

    PRISM counts the rewards of such states (not those of transitions). {} when there are none; `rewards` is None when
    they are not known.
    """
    states = list(model.labeling.get_states("deadlock")) if model.labeling.contains_label("deadlock") else []
    if not states:
        return {}
    try:
        rewards = _state_rewards(stormpy, program, model, states) if known else None
    except Exception:  # Storm raises plain RuntimeErrors, among others
        rewards = None
    return {"states": states, "rewards": rewards}


def _state_rewards(stormpy: Any, program: Any, model: Any, states: list[int]) -> dict[str, list[float]]:
    """Return reward structure -> what the states earn by its lines `guard : value;`.

    The lines are read as Storm prints the program, with constants and formulas filled in, and evaluated state by state.
    """
    manager, valuations = program.expression_manager, model.state_valuations
    variables = valuations.get_all_variables()
    parser = stormpy.expressions.ExpressionParser(manager)
    parser.set_identifier_mapping({variable.name: variable.get_expression() for variable in variables})
    printed = str(program.substitute_constants().substitute_formulas())
    lines: dict[str, list[tuple[Any, Any]]] = {}
    for name, block in _REWARDS.findall(printed):
        lines[name or "default"] = [
            (parser.parse_from_string(guard), parser.parse_from_string(_LONG.sub(r"\g<0>.0", value)))
            for guard, value in _LINE.findall(block)
        ]
    totals: dict[str, list[float]] = {name: [] for name in lines}
    for state in states:
        values = {variable: _literal(manager, valuations.get_value(state, variable)) for variable in variables}
        for name, parts in lines.items():
            amounts = [value for guard, value in parts if guard.substitute(values).evaluate_as_bool()]
            totals[name].append(sum(value.substitute(values).evaluate_as_double() for value in amounts))
    return totals


def _literal(manager: Any, value: Any) -> Any:
    """Return a value as an expression of Storm."""
    if isinstance(value, bool):
        return manager.boolean(value)
    return manager.integer(value) if isinstance(value, int) else manager.rational(float(value))


def _reward_names(program: Any) -> list[str]:
    """Return the names of the reward structures, in order."""
    return [model.name or "default" for model in program.reward_models]


if __name__ == "__main__":
    main(sys.argv[1])
