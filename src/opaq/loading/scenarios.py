"""Problems by name or by file: the bundled scenarios and the user's own."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from opaq.choices import check_path, check_types
from opaq.errors import Fault, Faults, InputError
from opaq.formats.format_registry import FORMATS, endings
from opaq.loading.kinds import refuse_other_format, refuse_other_kind
from opaq.loading.located import located
from opaq.spec.yaml_reader import Document, parse_yaml, read_text

if TYPE_CHECKING:
    from opaq.model.problem import Problem

_SUFFIXES = endings((FORMATS["yaml"], FORMATS["json"]))
_FOLDER = resources.files("opaq") / "scenarios"


def names() -> tuple[str, ...]:
    """The names of the bundled scenarios."""
    found = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml")))


def describe(name: str) -> str:
    """What a bundled scenario is about, in one line."""
    return str(parse_yaml(text(name), source=name).data["description"])


def text(name: str) -> str:
    """The file of a bundled scenario, comments and all."""
    if name not in names():
        raise InputError([_unknown(name)])
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load_problem(name_or_path: str | os.PathLike[str], *, faults: Faults | None = None) -> Problem:
    """A problem from a file, or a bundled scenario by name.

    name_or_path: what has a folder in it or ends in .yaml, .yml or .json is a file. Raises InputError with every
    fault, each with its line; warnings go to `faults` if given. A problem without a name is called after its file, and
    the paths in it are relative to it.
    """
    from opaq.loading.sources import FolderSources
    from opaq.spec import build_problem  # brings NumPy, which the list of scenarios does without

    check_path("name_or_path", name_or_path, "a file or a scenario")
    check_types({"faults": (faults, Faults, "an opaq.errors.Faults")}, optional=("faults",))
    source = os.fspath(name_or_path)
    refuse_other_kind(source, expected="a problem")
    document = parse_yaml(problem_text(source), source=source)
    refuse_other_format(document.data, source, expected="a problem")
    with located(document, source, faults) as noted:
        problem = build_problem(_mapping(document), sources=FolderSources(Path(source).parent), faults=noted)
    if problem.name:
        return problem
    # Bytes of a file name that are no UTF-8 are spelt out: the name is written to files.
    return dataclasses.replace(problem, name=Path(source).stem.encode("utf-8", "backslashreplace").decode())


def as_problem(problem: object) -> Problem:
    """The problem itself, or that of a file or of a bundled scenario by name; InputError for anything else."""
    from opaq.model.problem import Problem

    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, str | os.PathLike):
        return load_problem(problem)
    found = f"is of the type {type(problem).__name__}"
    raise InputError([Fault("problem", found, "give a Problem, the name of a file, or the name of a scenario")])


def problem_text(name_or_path: str | os.PathLike[str]) -> str:
    """The text of a problem file, or of a bundled scenario by name, comments and all."""
    source = os.fspath(name_or_path)
    return read_text(source) if _is_path(source) else text(source)


def _is_path(source: str) -> bool:
    """A bundled name is a bare word; anything else, and any other word that is a file here, is a path."""
    separated = os.sep in source or bool(os.altsep and os.altsep in source)
    return separated or source.lower().endswith(_SUFFIXES) or (source not in names() and os.path.exists(source))


def _mapping(document: Document) -> Mapping[str, object]:
    if not isinstance(document.data, Mapping):
        found = "a list" if isinstance(document.data, list) else f"'{document.data}'"
        raise InputError([Fault("", f"expected keys such as model, observer, secret and horizon, found {found}")])
    return document.data


def _unknown(name: str) -> Fault:
    near = difflib.get_close_matches(name, names(), n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    return Fault("", f"no scenario is called '{name}'", f"{meant}There are {', '.join(names())}; files end in .yaml")
