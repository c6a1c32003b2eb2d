"""Files from one format into another, by their endings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opaq.choices import check_types, is_flag
from opaq.errors import Fault, Faults, InputError
from opaq.files import write_bytes
from opaq.formats.format_registry import Export, ending_of, format_of, writable
from opaq.loading.policy_files import load_policy
from opaq.loading.scenarios import load_problem
from opaq.model.automaton import Automaton
from opaq.model.imported import Imported
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.spec.policy_table import FORMAT as POLICY_FORMAT
from opaq.spec.yaml_reader import load_yaml

_KINDS = {Problem: "problem", Imported: "model", Automaton: "automaton", Policy: "policy"}


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    problem: Problem | None = None,
    constants: Mapping[str, bool | int | float] | None = None,
    overwrite: bool = False,
    faults: Faults | None = None,
) -> tuple[str, ...]:
    """Read a problem, model, automaton or policy and write it in the format that the ending of `target` names.

    A policy needs the `problem` it is for; `constants` are for PRISM and JANI models. Returns what is lost on the
    way, in sentences; warnings about the source go to `faults`. An existing target stays unless `overwrite`. Raises
    InputError when the two do not go together.
    """
    check_types(
        {
            "source": (source, str | os.PathLike, "the name of a file or of a scenario"),
            "target": (target, str | os.PathLike, "the name of a file"),
            "problem": (problem, Problem, "an opaq.Problem"),
            "constants": (constants, Mapping, "a mapping {constant: value}"),
            "overwrite": (overwrite, is_flag, "True or False"),
            "faults": (faults, Faults, "an opaq.errors.Faults"),
        },
        optional=("problem", "constants", "faults"),
    )
    given = os.fspath(source)
    thing = _read(given, problem, constants or {}, Faults() if faults is None else faults)
    kind, ending = _KINDS[type(thing)], ending_of(target)
    formats = writable(kind)
    if ending not in formats:
        article = "an" if kind == "automaton" else "a"
        found = f"{article} {kind} cannot become '{ending}'"
        raise InputError([Fault("", found, f"it can become {', '.join(formats)}")], given)
    export = Export(problem)
    content = formats[ending].writer(kind)(thing, export)
    write_bytes(target, content.encode() if isinstance(content, str) else content, overwrite=overwrite)
    return tuple(export.notes)


def _read(
    source: str, problem: Problem | None, constants: Mapping[str, Any], faults: Faults
) -> Problem | Imported | Automaton | Policy:
    format = format_of(source)
    if format is not None and format.reader:
        options = {"constants": constants} if format.takes("constants") else {}
        thing: Imported | Automaton = format.read(source, **options)
        faults.warnings.extend(thing.warnings if isinstance(thing, Imported) else ())
        return thing
    if format is not None and format.holds == "problem" and Path(source).is_file() and _is_policy(source):
        if problem is None:
            raise InputError([Fault("", "is a policy", "give the problem it is for with --problem")], source)
        return load_policy(source, problem, faults=faults)
    return load_problem(source, faults=faults)


def _is_policy(source: str) -> bool:
    data = load_yaml(source).data
    return isinstance(data, Mapping) and data.get("format") == POLICY_FORMAT
