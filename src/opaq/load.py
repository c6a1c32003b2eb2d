"""Load problems and policies by the names of files and scenarios, save them, and convert files between formats.

A name comes in, checked data go out. Imports: model, spec, product, formats.

A bare word such as `two-sink` names a bundled scenario; what has a folder in it or ends in .yaml, .yml or .json is a
file. Problem and policy files are told apart by their content (`opaq: 1`, or `format: opaq-policy`); the ending of any
other file names its format. A policy is also read from a scheduler of Storm and from the answer of a solve. Faults are
raised together, each with its line.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from opaq.codec import kind_of
from opaq.errors import Fault, Faults, InputError, check_path, check_types, is_flag
from opaq.files import check_file, write_bytes
from opaq.formats.format import Export, Writer
from opaq.formats.policies import is_scheduler, parse_scheduler
from opaq.formats.registry import FORMATS, ending_of, endings, format_of, formats_of, writable
from opaq.model.automaton import Automaton
from opaq.model.mdp import Imported
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.spec.cursor import Cursor
from opaq.spec.imported_part import IMPORTED, add_imported
from opaq.spec.policy_table import FORMAT as POLICY_FORMAT
from opaq.spec.policy_table import policy_from_dict
from opaq.spec.yaml import Document, load_yaml, locate_faults, parse_yaml, read_text

_ADVICE = {
    "policy": "give the problem it is for, and this file as its policy",
    "model": "a problem file names the model and adds observer, secret and horizon, for example:",
    "automaton": "a problem file names it where it says what is secret, for example:",
}
_ANSWER = "the answer of a command (--json)"
POLICY_NAMES = ("uniform", "return-optimal")  # of policies that are no files: `opaq.opacity.policies` makes them
_OWN_ENDINGS = "problem files and policy files are YAML or JSON and end in .yaml or .json"


def _refuse_other_kind(path: str | os.PathLike[str], *, expected: str) -> None:
    """Raise InputError for a file whose ending says that it is something else than `expected`.

    path: the file; expected: "a problem" or "a policy". Unknown endings pass: the content is looked at then.
    The error has an example of a problem file that uses the file, where there is one.
    """
    source, format = os.fspath(path), format_of(path)
    if format is None or format.holds == "problem" or expected == f"a {format.holds}":
        return
    check_file(path)
    fault = Fault("", f"is {format.title}, not {expected}", _ADVICE.get(format.holds, _OWN_ENDINGS))
    raise InputError([fault], source, example=format.example.replace("FILE", os.path.basename(source)))


def _refuse_other_format(data: Any, source: str, *, expected: str) -> None:
    """Raise InputError for the content of a YAML or JSON file of opaq that is not what is expected.

    data: the content; one that does not say what it is passes.
    source: the file, for the error.
    expected: "a problem" or "a policy".
    """
    if not isinstance(data, Mapping):
        return
    kind = _kind_of_mapping(data)
    if kind is None or kind == expected:
        return
    advice = {
        "a policy": _ADVICE["policy"],
        "a problem": "give this file as the problem, and a policy for it",
        _ANSWER: f"give {expected} itself",
    }
    raise InputError([Fault("", f"is {kind}, not {expected}", advice.get(kind, ""))], source)


def _kind_of_mapping(data: Mapping[Any, Any]) -> str | None:
    """Return what a mapping says it is ("a policy", "a problem", ...); None if it says nothing."""
    format = data.get("format")
    if format == "opaq-policy":
        return "a policy"
    if isinstance(format, str) and format.startswith("opaq-"):
        return f"a file of the format '{format[:40]}'"
    if "opaq-sweep" in data:
        return "the plan of a sweep"
    if "opaq" not in data and kind_of(data) is not None:
        return _ANSWER
    return "a problem" if "opaq" in data and "format" not in data else None


_SUFFIXES = endings((FORMATS["yaml"], FORMATS["json"]))
_FOLDER = resources.files("opaq") / "scenarios"


def scenario_names() -> tuple[str, ...]:
    """Return the names of the bundled scenarios."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def describe_scenario(name: str) -> str:
    """Return what a bundled scenario is about, in one line.

    name: one of `scenario_names()`.
    """
    return str(parse_yaml(scenario_text(name), source=name).data["description"])


def scenario_text(name: str) -> str:
    """Return the file of a bundled scenario, comments and all.

    name: one of `scenario_names()`; InputError otherwise.
    """
    check_types({"name": (name, str, "the name of a scenario")})
    if name not in scenario_names():
        raise InputError([_unknown_scenario(name)])
    return (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load_problem(name_or_path: str | os.PathLike[str], *, faults: Faults | None = None) -> Problem:
    """Read a problem from a file, or a bundled scenario by name.

    name_or_path: what has a folder in it or ends in .yaml, .yml or .json is a file. Raises InputError with every
    fault, each with its line; warnings go to `faults` if given. A problem without a name is called after its file, and
    the paths in it are relative to it.
    """
    from opaq.spec import build_problem  # brings NumPy, which the list of scenarios does without

    check_path("name_or_path", name_or_path, "a file or a scenario")
    check_types({"faults": (faults, Faults, "an opaq.errors.Faults")}, optional=("faults",))
    source = os.fspath(name_or_path)
    _refuse_other_kind(source, expected="a problem")
    document = parse_yaml(problem_text(source), source=source)
    _refuse_other_format(document.data, source, expected="a problem")
    with locate_faults(document, source, faults) as collected:
        problem = build_problem(_check_mapping(document), sources=FolderSources(Path(source).parent), faults=collected)
    if problem.name:
        return problem
    # Bytes of a file name that are no UTF-8 are spelt out: the name is written to files.
    return dataclasses.replace(problem, name=Path(source).stem.encode("utf-8", "backslashreplace").decode())


def as_problem(problem: object) -> Problem:
    """Return the problem itself, or that of a file or of a bundled scenario by name.

    problem: an opaq.Problem, or what `load_problem` takes.
    Raises InputError for anything else, and as `load_problem` does.
    """
    from opaq.model.problem import Problem

    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, str | os.PathLike):
        return load_problem(problem)
    finding = f"is of the type {type(problem).__name__}"
    raise InputError([Fault("problem", finding, "give a Problem, the name of a file, or the name of a scenario")])


def problem_text(name_or_path: str | os.PathLike[str]) -> str:
    """Return the text of a problem file, or of a bundled scenario by name, comments and all.

    name_or_path: as for `load_problem`. Raises InputError when it cannot be read or there is no such scenario.
    """
    source = os.fspath(name_or_path)
    return read_text(source) if _is_path(source) else scenario_text(source)


def _is_path(source: str) -> bool:
    """Return whether a name is that of a file rather than of a scenario.

    A bundled name is a bare word; anything else, and any other word that is a file here, is a path.
    """
    separated = os.sep in source or bool(os.altsep and os.altsep in source)
    return (
        separated or source.lower().endswith(_SUFFIXES) or (source not in scenario_names() and os.path.exists(source))
    )


def _check_mapping(document: Document) -> Mapping[str, object]:
    """Return the mapping of a document. Raises InputError when it holds anything else."""
    if not isinstance(document.data, Mapping):
        finding = "a list" if isinstance(document.data, list) else f"'{document.data}'"
        raise InputError([Fault("", f"expected keys such as model, observer, secret and horizon, found {finding}")])
    return document.data


def _unknown_scenario(name: str) -> Fault:
    """Return the fault for a name that no scenario has, with the nearest one and the list."""
    near = difflib.get_close_matches(name, scenario_names(), n=1)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return Fault(
        "", f"no scenario is called '{name}'", f"{guess}There are {', '.join(scenario_names())}; files end in .yaml"
    )


def load_policy(
    path: str | os.PathLike[str], problem: Problem, *, ignore_model_mismatch: bool = False, faults: Faults | None = None
) -> Policy:
    """Read a policy for a problem from the file at `path`.

    path: YAML or JSON, a table (.csv), a scheduler of Storm (.json), or what `opaq solve --json` printed.
    problem: what the policy is for.
    ignore_model_mismatch: read a file that says it is for another model all the same.
    faults: gets warnings. InputError lists every fault, each with its line.
    """
    check_types(
        {
            "path": (path, str | os.PathLike, "the name of a file"),
            "problem": (problem, Problem, "an opaq.Problem"),
            "ignore_model_mismatch": (ignore_model_mismatch, is_flag, "True or False"),
            "faults": (faults, Faults, "an opaq.errors.Faults"),
        },
        optional=("faults",),
    )
    _refuse_other_kind(path, expected="a policy")
    source = os.fspath(path)
    document = _policy_document(source, problem, faults)
    _refuse_other_format(document.data, source, expected="a policy")
    if not isinstance(document.data, Mapping):
        raise InputError([Fault("", "expected the keys format, version and rows")], source)
    with locate_faults(document, source, faults) as collected:
        return policy_from_dict(document.data, problem, ignore_model_mismatch=ignore_model_mismatch, faults=collected)


def _policy_document(source: str, problem: Problem, faults: Faults | None) -> Document:
    """Return the mapping of a policy file, in whatever format it is written.

    source: the file. problem: what the policy is for. faults: gets warnings. Raises InputError that names the file.
    """
    text, format = read_text(source), format_of(source)
    reader = None if format is None else format.policy_reader
    if reader is None:
        document = parse_yaml(text, source=source)
        if not is_scheduler(document.data):
            return _policy_of_answer(document)
        reader = parse_scheduler
    try:
        return reader(text, problem, Faults() if faults is None else faults)
    except InputError as error:
        raise InputError(error.faults, source) from None


def _policy_of_answer(document: Document) -> Document:
    """Return the policy in the answer of a solve; any other document as it is."""
    data = document.data
    if kind_of(data) is None or not isinstance(data.get("policy"), Mapping):
        return document
    lines = {path.removeprefix("policy."): line for path, line in document.lines.items() if path.startswith("policy.")}
    return Document(data["policy"], lines)


def save_policy(
    policy: Policy, path: str | os.PathLike[str], *, problem: Problem | None = None, overwrite: bool = False
) -> None:
    """Write a policy to the file at `path` in one step; an existing file stays unless `overwrite`.

    path: its ending names the format: .csv is a table, .storm.json a scheduler of Storm; .json, .yaml and any that is
        not known hold every policy.
    problem: what the policy is for. Given it, the file says its model and tells a memory machine as rules; schedulers
        need it.
    """
    check_types(
        {
            "policy": (policy, Policy, "an opaq.Policy"),
            "path": (path, str | os.PathLike, "the name of a file"),
            "problem": (problem, Problem, "an opaq.Problem"),
            "overwrite": (overwrite, is_flag, "True or False"),
        },
        optional=("problem",),
    )
    check_policy_ending(path)
    _write(policy, path, problem, overwrite=overwrite, unknown=".json")


def check_policy_ending(path: str | os.PathLike[str]) -> None:
    """Raise InputError where the ending of a file names a format that holds no policies."""
    if format_of(path) is not None:
        _writer_of("policy", path, source=os.fspath(path))


def save_problem(problem: Problem, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a problem to the file at `path` in one step, whatever it was made from; an existing file stays.

    problem: what to write. Its model is written out: the file needs no other.
    path: .yaml or .json, which `load_problem` reads, or another format that holds a problem.
    overwrite: replace an existing file. Raises InputError where the file cannot be written, or holds no problem.
    """
    check_types(
        {
            "problem": (problem, Problem, "an opaq.Problem"),
            "path": (path, str | os.PathLike, "the name of a file"),
            "overwrite": (overwrite, is_flag, "True or False"),
        }
    )
    _write(problem, path, None, overwrite=overwrite)


@dataclass(frozen=True, slots=True)
class FolderSources:
    """Reads the files that a problem file names, relative to its folder, in every registered format."""

    folder: Path

    def __post_init__(self) -> None:
        """Let problem files name the models of formats that were registered later."""
        for format in formats_of("model"):
            if format.name not in IMPORTED.kinds:
                add_imported(format.name, f"The file of {format.title}.", format.options)

    def model(self, cursor: Cursor, kind: str, options: Mapping[str, Any]) -> Imported | None:
        """Return the model named at a cursor, where the faults and warnings of its file are noted; None after a fault.

        cursor: the name of the file, relative to `folder`, or the id of an environment.
        kind: the name of the format; options: keyword arguments of its reader.
        """
        format, source = FORMATS[kind], str(cursor.value)
        path = str(self.folder / source) if format.is_file else source
        imported: Imported | None = _collect_faults(cursor, lambda: format.read(path, **options))
        for fault in () if imported is None else imported.warnings:
            cursor.warn(_format_fault(fault, source), fault.advice)
        return imported

    def automaton(self, cursor: Cursor) -> Automaton | None:
        """Return the automaton in the file named at a cursor, where the faults in it are noted; None after a fault.

        cursor: the name of the file, relative to `folder`; its ending names the format.
        """
        source = cursor.name()
        format = None if source is None else format_of(source)
        if source is None:
            return None
        if format is None or format not in formats_of("automaton"):
            known = f"one of {', '.join(endings(formats_of('automaton')))}"
            return cursor.error(f"the ending '{ending_of(source)}' is unknown", known)
        automaton: Automaton | None = _collect_faults(cursor, lambda: format.read(str(self.folder / source)))
        return automaton

    def policy(self, cursor: Cursor, problem: Problem) -> Policy | None:
        """Return the policy in the file named at a cursor, where the faults in it are noted; None after a fault.

        cursor: the name of the file, relative to `folder`. problem: what the policy is for.
        """
        source = cursor.name()
        path = None if source is None else self.folder / source
        policy: Policy | None = None if path is None else _collect_faults(cursor, lambda: load_policy(path, problem))
        return policy


def _collect_faults(cursor: Cursor, read: Callable[[], Any]) -> Any:
    """Return what `read` returns; None, and the faults noted at the cursor, when it raises InputError.

    cursor: holds the name of the other file; read: reads it.
    """
    try:
        return read()
    except InputError as error:
        for fault in error.faults:
            cursor.error(_format_fault(fault, str(cursor.value)), fault.advice)
        return None


def _format_fault(fault: Fault, source: str) -> str:
    """Return a fault inside another file as one line of the problem file: "robot.prism: where: message"."""
    return f"{source}: {Fault(fault.where, fault.message, line=fault.line)}"


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
    source_name = os.fspath(source)
    thing = _read(source_name, problem, constants or {}, Faults() if faults is None else faults)
    return _write(thing, target, problem, overwrite=overwrite, source=source_name)


def _write(
    thing: Problem | Imported | Automaton | Policy,
    target: str | os.PathLike[str],
    problem: Problem | None,
    *,
    overwrite: bool,
    source: str = "",
    unknown: str = "",
) -> tuple[str, ...]:
    """Write a thing in the format that the ending of a file names, and return what is lost on the way, in sentences.

    problem: what a policy is for, if known. overwrite: True replaces a file that is there. source: where the thing is
    from, for errors. unknown: the ending whose format is written where the file's own names none.
    Raises InputError where the format does not hold such a thing.
    """
    named = target if format_of(target) is not None or not unknown else f"{os.fspath(target)}{unknown}"
    kind, export = _KINDS[type(thing)], Export(problem)
    content = _writer_of(kind, named, source=source or os.fspath(target))(thing, export)
    write_bytes(target, content.encode() if isinstance(content, str) else content, overwrite=overwrite)
    return tuple(export.notes)


def _writer_of(kind: str, path: str | os.PathLike[str], *, source: str) -> Writer:
    """Return the function that writes a kind of thing in the format that the ending of a file names.

    kind: problem, model, automaton or policy. source: what InputError names where the format holds no such thing.
    """
    formats, ending = writable(kind), ending_of(path)
    if ending not in formats:
        article = "an" if kind == "automaton" else "a"
        finding = f"{article} {kind} cannot become '{ending}'"
        raise InputError([Fault("", finding, f"it can become {', '.join(formats)}")], source)
    return formats[ending].writers[kind]


def _read(
    source: str, problem: Problem | None, constants: Mapping[str, Any], faults: Faults
) -> Problem | Imported | Automaton | Policy:
    """Return the problem, model, automaton or policy in a file, by its ending and content; else a scenario by name.

    source: the name of the file or the scenario.
    problem: the problem that a policy is for; None is an InputError where the file is one.
    constants: for formats that take them. faults: gets the warnings.
    """
    format = format_of(source)
    if format is not None and format.reader is not None:
        options = {"constants": constants} if "constants" in format.options else {}
        thing = format.read(source, **options)
        faults.warnings.extend(thing.warnings if isinstance(thing, Imported) else ())
        return thing
    if format is not None and format.holds in ("problem", "policy") and Path(source).is_file() and is_policy(source):
        if problem is None:
            raise InputError([Fault("", "is a policy", "give the problem it is for with --problem")], source)
        return load_policy(source, problem, faults=faults)
    return load_problem(source, faults=faults)


def is_policy(source: str) -> bool:
    """Return whether a file holds a policy: by its format, or by what it says."""
    format = format_of(source)
    if format is not None and format.holds == "policy":
        return True
    data = load_yaml(source).data
    answer = kind_of(data) is not None and isinstance(data.get("policy"), Mapping)
    return answer or is_scheduler(data) or (isinstance(data, Mapping) and data.get("format") == POLICY_FORMAT)
