"""Files of other kinds, given where a problem or a policy is expected: what they are, and what to write instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opaq.errors import Fault, InputError
from opaq.files import check_file

_MODELS = {
    ".prism": ("a PRISM model", "prism"),
    ".nm": ("a PRISM model", "prism"),
    ".pm": ("a PRISM model", "prism"),
    ".sm": ("a PRISM model", "prism"),
    ".jani": ("a JANI model", "jani"),
    ".drn": ("a DRN model", "drn"),
    ".umb": ("a UMB model", "umb"),
    ".pomdp": ("a POMDP model", "pomdp"),
}
_AUTOMATA = {".hoa": "an automaton", ".dot": "a drawing of an automaton", ".gv": "a drawing of an automaton"}
_OTHERS = {".csv": "a table", ".html": "a web page", ".npz": "a store of arrays", ".npy": "an array"}
_SEES_VARIABLES = "observer: {variables: [x]}               # the observer sees the state variable x"
_SEES_OWN = "observer: {from: model}                  # the observer sees the model's own observations"


def refuse_other_kind(path: str | os.PathLike[str], *, expected: str) -> None:
    """Raise InputError for a file whose ending says that it is something else than `expected`.

    The error has an example of a problem file that uses the file, where there is one.
    """
    source = os.fspath(path)
    ending = os.path.splitext(source)[1].lower()
    kind = _MODELS.get(ending, (_AUTOMATA.get(ending) or _OTHERS.get(ending), ""))[0]
    if kind is None:
        return
    check_file(path)
    name = os.path.basename(source)
    if ending in _MODELS:
        advice = "a problem file names the model and adds observer, secret and horizon, for example:"
        raise InputError([Fault("", f"is {kind}, not {expected}", advice)], source, example=_example(ending, name))
    if ending in _AUTOMATA:
        advice = "a problem file names it where it says what is secret, for example:"
        example = f"secret: {{automaton: {{file: {name}}}}}"
        raise InputError([Fault("", f"is {kind}, not {expected}", advice)], source, example=example)
    advice = "problem files and policy files are YAML or JSON and end in .yaml or .json"
    raise InputError([Fault("", f"is {kind}, not {expected}", advice)], source)


def refuse_other_format(data: Any, source: str, *, expected: str) -> None:
    """Raise InputError for the content of a YAML or JSON file of opaq that is not what is expected."""
    if not isinstance(data, Mapping):
        return
    kind = _format(data)
    if kind is None or kind == expected:
        return
    advice = {
        "a policy": "give the problem it is for, and this file as its policy",
        "a problem": "give this file as the problem, and a policy for it",
    }
    raise InputError([Fault("", f"is {kind}, not {expected}", advice.get(kind, ""))], source)


def _format(data: Mapping[Any, Any]) -> str | None:
    """What a mapping says it is, if it does."""
    stated = data.get("format")
    if stated == "opaq-policy":
        return "a policy"
    if isinstance(stated, str) and stated.startswith("opaq-"):
        return f"a file of the format '{stated[:40]}'"
    if "opaq-sweep" in data:
        return "the plan of a sweep"
    return "a problem" if "opaq" in data and "format" not in data else None


def _example(ending: str, name: str) -> str:
    """A problem file of five lines."""
    key = _MODELS[ending][1]
    own = key == "pomdp"
    secret = "secret: {initial_state: true}" if own else 'secret: {last_state: {where: "x = 1"}}'
    lines = ["opaq: 1", f"{key}: {name}", _SEES_OWN if own else _SEES_VARIABLES, secret, "horizon: 10"]
    return "\n".join(lines)
