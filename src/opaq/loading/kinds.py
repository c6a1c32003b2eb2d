"""Files of other kinds, given where a problem or a policy is expected: what they are, and what to write instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opaq.errors import Fault, InputError
from opaq.files import check_file
from opaq.formats.format_registry import format_of

_ADVICE = {
    "model": "a problem file names the model and adds observer, secret and horizon, for example:",
    "automaton": "a problem file names it where it says what is secret, for example:",
}
_ANSWER = "the answer of a command (--json)"
_KEYS_OF_ANSWERS = ({"opacity", "return"}, {"points", "complete"}, {"trials", "base"}, {"points", "counts"})
_OWN_ENDINGS = "problem files and policy files are YAML or JSON and end in .yaml or .json"


def refuse_other_kind(path: str | os.PathLike[str], *, expected: str) -> None:
    """Raise InputError for a file whose ending says that it is something else than `expected`.

    The error has an example of a problem file that uses the file, where there is one.
    """
    source, format = os.fspath(path), format_of(path)
    if format is None or format.holds in ("problem", "policy"):
        return
    check_file(path)
    fault = Fault("", f"is {format.title}, not {expected}", _ADVICE.get(format.holds, _OWN_ENDINGS))
    raise InputError([fault], source, example=format.example.replace("FILE", os.path.basename(source)))


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
        _ANSWER: f"give {expected} itself",
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
    if "opaq" not in data and any(keys <= data.keys() for keys in _KEYS_OF_ANSWERS):
        return _ANSWER
    return "a problem" if "opaq" in data and "format" not in data else None
