"""Read the plan of a sweep: one problem, values for paths into its file and for options of the solve.

Comes in: a plan file, or a mapping with its keys. Goes out: a `SweepPlan`, which lists the parameters of every point.
A path names a value in the problem file by the keys on the way, `task.requirements.0.probability_at_least`; `seed` and
`solve.OPTION` name options of the solve, and `sensors.NAME` a sensor. The first half of this file changes the content
of a problem file at such paths, the second reads plans.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import or_
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError, cut_middle, describe_value, is_flag
from opaq.load import problem_text, scenario_names
from opaq.model.problem import Problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.registry import SOLVERS
from opaq.spec.cursor import Cursor, Scope, read_with_faults
from opaq.spec.grammar import (
    FLAG,
    TEXT,
    Fields,
    Key,
    Plain,
    Record,
    ValueType,
    all_or_none,
    list_schema,
    mapping_schema,
    number,
    raw_value,
)
from opaq.spec.problem_part import problem_to_dict
from opaq.spec.yaml import Document, load_yaml, locate_faults, parse_yaml

_INDEX = re.compile(r"\[(\d+)\]")
_THRESHOLD = re.compile(r"task\.(requirements\.\d+\.)?(return_at_least|probability_at_least)")
_REQUIREMENTS = "task.requirements"
KEEP = "keep"  # a sensor as the problem file has it


def normal_path(path: str) -> str:
    """Return a path in one spelling: `requirements[0]` is `requirements.0`, and `seed` an option of the solve."""
    spelled = _INDEX.sub(r".\1", path)
    return "solve.seed" if spelled == "seed" else spelled


def is_threshold(path: str) -> bool:
    """Return whether a path names the threshold of a task: points that differ in it alone lie on one front."""
    return _THRESHOLD.fullmatch(normal_path(path)) is not None


def is_axis(path: str) -> bool:
    """Return whether points that differ in a path alone hand each other their policies.

    Seeds and options of the solve are varied to compare searches, which must then not know of each other; the policy
    class is the exception.
    """
    option = normal_path(path).removeprefix("solve.")
    return option == normal_path(path) or option in ("conditions", "memory_nodes")


def overlap(one: str, other: str) -> bool:
    """Return whether a change at one path would undo a change at the other: one leads to a part of the other."""
    first, second = f"{normal_path(one)}.", f"{normal_path(other)}."
    return first.startswith(second) or second.startswith(first)


def change_at_path(spec: Any, path: str, value: Any) -> Any:
    """Return the content of a problem file with another value at a path.

    spec: mappings, lists and values as YAML gives them; nothing of it is changed, and what differs is copied.
    path: the keys on the way; keys may hold dots, of which the longest that is there counts. Mappings that are missing
    on the way are made. value: None takes out what is there.
    Raises InputError where the path leads nowhere: into a number or a text, or beyond the end of a list.
    """
    return _put_at_path(spec, normal_path(path), value, "")


def with_sensor(spec: Any, name: str, change: Any) -> Any:
    """Return the content of a problem file with another sensor.

    change: KEEP leaves the sensor called `name` as it is, None takes it out, a mapping replaces some of its keys, or
    makes a new one. Raises InputError where there is no such sensor to take out.
    """
    path = f"observer.sensors.{name}"
    if change == KEEP:
        return spec
    before = spec
    for key in ("observer", "sensors", name):
        before = before.get(key) if isinstance(before, Mapping) else None
    if isinstance(before, Mapping) and isinstance(change, Mapping):
        return change_at_path(spec, path, {**before, **change})
    if before is None and change is None:
        raise InputError([Fault(path, "there is no such sensor to remove")])
    return change_at_path(spec, path, change)


def _put_at_path(holder: Any, rest: str, value: Any, before: str) -> Any:
    """Return a mapping or list with another value inside; what differs is copied.

    holder: what the value is put into. rest: the path from there on. value: None takes out what is there.
    before: the path to the holder, for messages; empty at the top.

    Raises InputError where the holder has no keys, or a list of requirements is to be entered that is not there.
    """
    if isinstance(holder, list):
        return _put_item(holder, rest, value, before)
    if not isinstance(holder, Mapping):
        raise InputError([Fault(f"{before}.{rest}", f"{before} is {describe_value(holder)}, which has no keys")])
    key, rest = _key(holder, rest)
    path = f"{before}.{key}" if before else str(key)
    if rest:
        inner = holder.get(key)
        if inner is None and path == _REQUIREMENTS and rest.split(".")[0].isdigit():
            reason = f"the problem file has no {path}, and so no entry '{rest.split('.')[0]}'"
            raise InputError([Fault(f"{path}.{rest}", reason, "add the requirement there, or vary the whole list")])
        return {**holder, key: _put_at_path({} if inner is None else inner, rest, value, path)}
    return {**holder, key: value} if value is not None else {name: held for name, held in holder.items() if name != key}


def _put_item(holder: list[Any], rest: str, value: Any, before: str) -> list[Any]:
    """Return a list with another value in, or in place of, the entry that a path begins with.

    rest: the path, which begins with the entry's number from 0. value: None takes the entry out.
    before: the path to the list, for messages. Raises InputError where the list has no such entry.
    """
    key, _, rest = rest.partition(".")
    if not key.isdigit() or int(key) >= len(holder):
        reason = f"{before} is a list of {len(holder)}, which has no entry '{key}'"
        raise InputError([Fault(f"{before}.{key}", reason, "entries count from 0")])
    index = int(key)
    new = [_put_at_path(holder[index], rest, value, f"{before}.{key}")] if rest else [] if value is None else [value]
    return [*holder[:index], *new, *holder[index + 1 :]]


def _key(holder: Mapping[Any, Any], rest: str) -> tuple[Any, str]:
    """Return the key that a path begins with, as it is spelled in a mapping, and the rest of the path.

    Keys may hold dots: the longest beginning of the path that is a key counts, else all up to the first dot.
    """
    names = {str(key): key for key in holder}
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in names:
            return names[name], ".".join(parts[count:])
    return parts[0], ".".join(parts[1:])


_VERSION = 1
MOST_POINTS = 100_000
_CERTIFY_SECONDS = 60.0  # of a certificate, where the plan does not say
_RUN_OPTIONS = ("workers",)  # options of a solve that belong to the run of a sweep
_BY_NAME = ("over", "sensors", "solve")  # mappings of which one entry may be wrong and the others right
_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point of a sweep as it is to be solved; what comes out of it is a `StudyPoint`."""

    index: int  # its position among all points, from 0
    name: str  # its position from 1, with leading zeros: the name of its files
    parameters: Mapping[str, Any]  # path -> value
    fingerprint: str = ""  # of all that decides the answer; empty until its problem is checked
    warm_from: int | None = None  # the index of the point whose policy it begins from, if that meets its task
    before: tuple[int, ...] = ()  # the indices of the points next to it, one step back along an axis

    @property
    def words(self) -> str:
        """The paths that are varied and their values, for messages; long values are cut in the middle."""
        texts = {
            path: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            for path, value in self.parameters.items()
        }
        return ", ".join(f"{path} {cut_middle(text, _SHOWN, mark='...')}" for path, text in texts.items())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SweepPlan:
    """A checked plan: what is solved at every point. Made by `read_plan`; `parameters` lists the points."""

    problem: Mapping[str, Any]  # the content of the problem file
    problem_name: str  # as the plan names it
    folder: Path  # what paths in the problem file are relative to
    text: str  # of the problem file; empty where the plan holds the problem itself
    over: Mapping[str, tuple[Any, ...]]  # path -> values
    sensors: Mapping[str, tuple[Any, ...]]  # sensor -> changes
    together: tuple[Mapping[str, Any], ...]  # values of several paths that are varied as one: path -> value
    listed: tuple[Mapping[str, Any], ...]  # further points, path -> value
    solve: Mapping[str, Any]  # options of every solve
    certify: float  # seconds for a certificate per point; 0: none
    time_limit: float | None  # seconds per point
    warm: bool  # whether points hand their policies to their neighbours
    initial_policy: str | None  # a file, relative to the plan, or a name: where points begin that have no neighbour yet
    lines: Mapping[str, int]  # of the plan file
    source: str  # its name

    def parameters(self) -> list[dict[str, Any]]:
        """Return the parameters of every point, path -> value: the product of all values, then the listed points."""
        varied = {**self.over, **{f"sensors.{name}": changes for name, changes in self.sensors.items()}}
        axes = [[{path: value} for value in values] for path, values in varied.items()]
        axes += [[dict(values) for values in self.together]] if self.together else []
        points = [reduce(or_, values) for values in product(*axes)] if axes else []
        return points + [dict(point) for point in self.listed if dict(point) not in points]

    def to_dict(self) -> Plain:
        """Return all that decides the answers, as plain data, part by part; time limits are not among it."""
        return {
            "problem": self.problem_name,
            "over": {path: list(values) for path, values in self.over.items()},
            "sensors": {name: list(changes) for name, changes in self.sensors.items()},
            **({"together": [dict(values) for values in self.together]} if self.together else {}),
            "points": [dict(point) for point in self.listed],
            "solve": dict(self.solve),
            "certify": self.certify,
            "warm": self.warm,
            "initial_policy": self.initial_policy,
        }


def read_plan(plan: object, *, faults: Faults | None = None) -> SweepPlan:
    """Return the plan in a file or in a mapping.

    plan: the name of a file, or a mapping with the same keys, whose problem may also be a Problem or the mapping of a
    problem file. faults: collects the warnings; None drops them.

    Raises InputError with every fault, each with its line, and for a file that is a problem and no plan.
    """
    if isinstance(plan, Mapping):
        return _read(Document(dict(plan), {}), "", Path(), faults)
    if not isinstance(plan, str | os.PathLike):
        reason = f"is of the type {type(plan).__name__}"
        raise InputError([Fault("plan", reason, "give the name of a plan file, or a mapping with its keys")])
    source, document = os.fspath(plan), load_yaml(plan)
    if isinstance(document.data, Mapping) and "opaq-sweep" not in document.data and "opaq" in document.data:
        advice = f"a plan names it: {{opaq-sweep: {_VERSION}, problem: {Path(source).name}, over: {{...}}}}"
        raise InputError([Fault("", "is a problem, not the plan of a sweep", advice)], source)
    return _read(document, source, Path(source).parent, faults)


def read_rest(plan: object, error: InputError) -> SweepPlan | None:
    """Return a plan without the entries that have faults, so that the points of the others can be checked, too.

    plan: as in `read_plan`. error: what it raised. None where nothing is left, or it has faults still.
    """
    document, source, folder = Document(plan, {}), "", Path()
    if isinstance(plan, str | os.PathLike):
        document, source, folder = load_yaml(plan), os.fspath(plan), Path(plan).parent
    if not isinstance(document.data, Mapping):
        return None
    rest = dict(document.data)
    for fault in error.faults:
        key = re.split(r"[.\[]", fault.where)[0]
        inner = rest.pop(key, None)
        if key in _BY_NAME and isinstance(inner, Mapping):
            rest[key] = {name: value for name, value in inner.items() if not fault.where.startswith(f"{key}.{name}")}
    try:
        return _read(Document({"opaq-sweep": _VERSION, **rest}, document.lines), source, folder, None)
    except InputError:
        return None


def plan_schema() -> Plain:
    """Return the JSON schema (draft 2020-12) of a plan, as plain data."""
    definitions: Plain = {}
    schema = PLAN.schema(definitions)
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "opaq sweep"}
    return title | schema | ({"$defs": definitions} if definitions else {})


def _read(document: Document, source: str, folder: Path, faults: Faults | None) -> SweepPlan:
    """Return the plan in a document.

    document: the content and its lines. source: the name of the file, empty for a mapping. faults: collects warnings.
    folder: what paths in the plan are relative to. Raises InputError with every fault, each with its line.
    """

    def read(cursor: Cursor) -> SweepPlan | None:
        """Return the plan at the cursor; None where it is no mapping or something in it is unusable."""
        fields = PLAN.open(cursor)
        return None if fields is None else _make(fields, folder, document.lines, source)

    with locate_faults(document, source, faults) as noted:
        return read_with_faults(read, Scope().cursor(document.data, ""), noted)


def _make(fields: Fields, folder: Path, lines: Mapping[str, int], source: str) -> SweepPlan | None:
    """Return the plan that a mapping states; None where something in it is unusable, which is noted as a fault.

    fields: the keys of the plan. folder: of the plan. lines: path -> line of the plan file. source: its name.
    """
    version = fields.at("opaq-sweep")
    if "opaq-sweep" in fields and (version.value is True or version.value != _VERSION):
        version.error(f"is {describe_value(version.value)}, a format this version does not read", f"write {_VERSION}")
    problem = _problem(fields.at("problem"), folder) if "problem" in fields else None
    over, sensors, together, listed = (fields.read(name) for name in ("over", "sensors", "together", "points"))
    solve, certify, time_limit, warm = (fields.read(name) for name in ("solve", "certify", "time_limit", "warm"))
    _check_paths(fields)
    if not any(fields.at(name).value for name in ("over", "sensors", "together", "points")):
        fields.cursor.error("has no points", "give values under 'over', or a list of points under 'points'")
    usable = all(part is not None for part in (problem, over, sensors, together, listed, solve, certify, warm))
    if problem is None or not usable or fields.cursor.faults.errors:
        return None
    content, name, base, text = problem
    return SweepPlan(
        problem=content,
        problem_name=name,
        folder=base,
        text=text,
        over=over,
        sensors=sensors,
        together=tuple(together),
        listed=tuple(listed),
        solve=solve,
        certify=certify,
        time_limit=time_limit,
        warm=warm,
        initial_policy=fields.read("initial_policy"),
        lines=lines,
        source=source,
    )


def _problem(cursor: Cursor, folder: Path) -> tuple[Mapping[str, Any], str, Path, str] | None:
    """Return the content of the problem file, its name, the folder that its paths are relative to, and its text.

    folder: of the plan, which the name of the problem file is relative to. None: its faults are noted.
    """
    value = cursor.value
    if isinstance(value, Problem):
        return problem_to_dict(value), value.name or "the problem", Path(), ""
    if isinstance(value, Mapping):
        return dict(value), str(value.get("name", "the problem")), folder, ""
    name = cursor.name()
    if name is None:
        return None
    path = name if name in scenario_names() and not (folder / name).exists() else str(folder / name)
    try:
        text = problem_text(path)
        data = parse_yaml(text, source=path).data
    except InputError as error:
        for fault in error.faults:
            cursor.error(f"{path}: {Fault(fault.where, fault.message, line=fault.line)}", fault.advice)
        return None
    if not isinstance(data, Mapping) or "opaq-sweep" in data:
        return cursor.error(f"{path}: is no problem file")  # type: ignore[func-returns-value]
    return {"name": Path(path).stem, **data}, name, Path(path).parent, text


def _values(cursor: Cursor) -> dict[str, tuple[Any, ...]] | None:
    """Return a mapping from paths to lists of values, none of which may be empty or name a value twice.

    None where an entry is no such list; the faults are noted at the cursor.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    lists = all_or_none([_distinct(entry) for entry in entries.values()])
    return None if lists is None else dict(zip(entries, lists, strict=True))


def _distinct(cursor: Cursor) -> tuple[Any, ...] | None:
    """Return a list of at least one value; None where it is empty or no list.

    A value that is listed twice is noted as a fault; 1 and true are two values.
    """
    items = cursor.items()
    if items is None:
        return None
    if not items:
        return cursor.error("is empty", "list at least one value")  # type: ignore[func-returns-value]
    values = [item.value for item in items]
    for index, item in enumerate(items):
        if any(_same(item.value, earlier) for earlier in values[:index]):
            item.error(f"{describe_value(item.value)} is listed twice", "keep one of them")
    return tuple(values)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _sensor_changes(cursor: Cursor) -> dict[str, tuple[Any, ...]] | None:
    """Return a mapping from sensors to lists of changes; None where it is no such mapping.

    Changes that `with_sensor` does not take are noted as faults.
    """
    changes = _values(cursor)
    for name, listed in (changes or {}).items():
        for index, change in enumerate(listed):
            if change is not None and change != KEEP and not isinstance(change, Mapping):
                item = cursor.child(name, None).item(index, value=change)
                item.wrong(f"'{KEEP}', null (without it) or a mapping of what changes")
    return changes


def _read_list(cursor: Cursor) -> list[dict[str, Any]] | None:
    """Return a list of points, each a mapping from paths to values; None where one of them is empty or no mapping."""
    items = cursor.items()
    if items is None:
        return None
    points = []
    for item in items:
        entries = item.entries()
        if entries is not None and not entries:
            item.error("is empty", "give at least one path and its value")
        points.append(None if not entries else {path: entry.value for path, entry in entries.items()})
    return all_or_none(points)


def _read_together(cursor: Cursor) -> list[dict[str, Any]] | None:
    """Return a list of mappings with the same paths, which are varied as one; None where it is no such list."""
    points = _read_list(cursor)
    for index, values in enumerate(points or ()):
        item = cursor.item(index, value=values)
        for path in (points or [{}])[0].keys() ^ values.keys():
            item.error(f"{'lacks' if path not in values else 'has'} '{path}', unlike the others", "name the same paths")
        if any(_same(values, earlier) for earlier in (points or [])[:index]):
            item.error(f"{describe_value(values)} is listed twice", "keep one of them")
    return points


def _solve(cursor: Cursor) -> dict[str, Any] | None:
    """Return the options of every solve; None where they are no mapping.

    Options that belong to the run, such as the number of workers, and those that suit no solver are noted as faults.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    for name in _RUN_OPTIONS:
        if name in entries:
            entries[name].error("belongs to the run, not to the plan", "say it where the sweep is run")
    options = {name: entry.value for name, entry in entries.items() if name not in _RUN_OPTIONS}
    for fault in _faults_with_any_solver(options):
        cursor.child(fault.where, None).error(fault.message, fault.advice)
    return options


def _faults_with_any_solver(options: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the options; nothing if they suit some solver, where points may name their own.

    options: name -> value. Where they name a solver, they must suit that one.
    """
    faults: list[Fault] = []
    for named in [{}] if "solver" in options else [{}, *({"solver": name} for name in SOLVERS)]:
        try:
            SolveOptions.from_dict({**options, **named})
        except InputError as error:
            faults = faults or list(error.faults)
        else:
            return []
    return faults


def _seconds(cursor: Cursor) -> float | None:
    """Return the seconds for a certificate: 60 for true, 0 (none) for false; None where it is neither, nor a number."""
    if is_flag(cursor.value):
        return _CERTIFY_SECONDS if cursor.value else 0.0
    if isinstance(cursor.value, str):
        return cursor.wrong("true, false or seconds")  # type: ignore[func-returns-value]
    return cursor.number(low=0.0, high=1e8)


def _check_paths(fields: Fields) -> None:
    """Note paths that name options of the run, and those that undo each other, as faults.

    fields: the keys of the plan; only `over`, `sensors` and `together` are looked at.
    """
    over, sensors, together = (fields.at(name).value for name in ("over", "sensors", "together"))
    cursors = [fields.at("over").child(path, None) for path in over] if isinstance(over, Mapping) else []
    paths = {cursor.path.removeprefix("over."): cursor for cursor in cursors}
    first = together[0] if isinstance(together, list) and together and isinstance(together[0], Mapping) else {}
    for path in first:
        spelled = f"observer.{path}" if str(path).startswith("sensors.") else str(path)
        cursor = fields.at("together").item(0, value=first).child(path, None)
        if spelled in paths:
            cursor.error(f"changes what '{spelled}' changes", "keep one of them")
        paths[spelled] = cursor
    for path, cursor in paths.items():
        if normal_path(path) in {f"solve.{name}" for name in _RUN_OPTIONS}:
            cursor.error("belongs to the run, not to the plan", "say it where the sweep is run")
    if isinstance(sensors, Mapping):
        paths |= {f"observer.sensors.{name}": fields.at("sensors").child(name, None) for name in sensors}
    for (one, _), (other, cursor) in combinations(paths.items(), 2):
        if overlap(one, other):
            cursor.error(f"changes what '{one}' changes", "keep one of them")


_ANY: ValueType[Any] = raw_value("any value", {})
_LISTS: ValueType[Any] = ValueType(
    "a mapping from paths to lists of values",
    _values,
    mapping_schema(list_schema({}) | {"minItems": 1, "uniqueItems": True}),
)
_CHANGES = list_schema(({"enum": [KEEP, None]}, {"type": "object"})) | {"minItems": 1}
_SECONDS = ({"type": "boolean"}, {"type": "number", "minimum": 0})
_PATHS = "Paths into the problem file, `seed`, or `solve.OPTION`, each with its values; all combinations are solved."
PLAN: Record[Any] = Record(
    "sweep",
    "A problem, and what is varied in it.",
    (
        Key(
            "opaq-sweep",
            raw_value(f"`{_VERSION}`", {"const": _VERSION}),
            "The version of the format.",
            required="write 1",
        ),
        Key("problem", _ANY, "A problem file, relative to the plan, or a scenario.", required="name a problem"),
        Key("over", _LISTS, _PATHS, default={}),
        Key(
            "sensors",
            ValueType("a mapping from sensors to lists of changes", _sensor_changes, mapping_schema(_CHANGES)),
            "Sensors by name: `keep`, null (without it), or keys that change, all of them for a new one.",
            default={},
        ),
        Key(
            "together",
            ValueType(
                "a list of mappings from the same paths to values",
                _read_together,
                list_schema({"type": "object", "minProperties": 1}),
            ),
            "Values of several paths that are varied as one, combined with those of `over` and `sensors`.",
            default=(),
        ),
        Key(
            "points",
            ValueType(
                "a list of mappings from paths to values",
                _read_list,
                list_schema({"type": "object", "minProperties": 1}),
            ),
            "Further points, each with its own paths and values.",
            default=(),
        ),
        Key("solve", ValueType("a mapping", _solve, {"type": "object"}), "Options of every solve.", default={}),
        Key("certify", ValueType("`true`, `false` or seconds", _seconds, _SECONDS), "A bound per point.", default=0.0),
        Key(
            "time_limit", number(0.001, 1e8), "Seconds per point; what takes much longer is ended and counts as failed."
        ),
        Key("warm", FLAG, "Whether points hand their policies to their neighbours.", default=True),
        Key("initial_policy", TEXT, "A policy to begin from: a file beside the plan, `uniform` or `return-optimal`."),
    ),
    example="{opaq-sweep: 1, problem: two-sink, over: {horizon: [2, 3], seed: [0, 1]}}",
)
