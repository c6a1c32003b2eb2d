"""The plan of a sweep: one problem, values for paths into its file and for options of the solve."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError, is_flag, shown
from opaq.load import problem_text, scenario_names
from opaq.model.problem import Problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.registry import SOLVERS
from opaq.spec.cursor import Cursor, Scope, read_with_faults
from opaq.spec.grammar import (
    FLAG,
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
    """A path in one spelling: `requirements[0]` becomes `requirements.0`, and `seed` is an option of the solve."""
    spelled = _INDEX.sub(r".\1", path)
    return "solve.seed" if spelled == "seed" else spelled


def is_threshold(path: str) -> bool:
    """Whether a path names the threshold of a task: points that differ in it alone lie on one front."""
    return _THRESHOLD.fullmatch(normal_path(path)) is not None


def overlap(one: str, other: str) -> bool:
    """Whether a change at one path would undo a change at the other."""
    first, second = f"{normal_path(one)}.", f"{normal_path(other)}."
    return first.startswith(second) or second.startswith(first)


def change_at_path(spec: Any, path: str, value: Any) -> Any:
    """A copy of what a problem file says with another value at a path; None takes out what is there.

    Mappings that are missing on the way are made. Raises InputError where the path leads nowhere. Keys may hold dots:
    the longest key that is there counts.
    """
    return _put_at_path(spec, normal_path(path), value, "")


def with_sensor(spec: Any, name: str, change: Any) -> Any:
    """A copy with one sensor as it was ("keep"), without it (None), or with some of its keys changed."""
    path = f"observer.sensors.{name}"
    if change == KEEP:
        return spec
    before = _value_at(spec, ("observer", "sensors", name))
    if isinstance(before, Mapping) and isinstance(change, Mapping):
        return change_at_path(spec, path, {**before, **change})
    if before is None and change is None:
        raise InputError([Fault(path, "there is no such sensor to remove")])
    return change_at_path(spec, path, change)


def _value_at(spec: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        spec = spec.get(key) if isinstance(spec, Mapping) else None
    return spec


def _put_at_path(holder: Any, rest: str, value: Any, before: str) -> Any:
    if isinstance(holder, list):
        return _put_item(holder, rest, value, before)
    if not isinstance(holder, Mapping):
        raise InputError([Fault(f"{before}.{rest}", f"{before} is {shown(holder)}, which has no keys")])
    key, rest = _key(holder, rest)
    path = f"{before}.{key}" if before else str(key)
    if rest:
        inner = holder.get(key)
        if inner is None and path == _REQUIREMENTS and rest.split(".")[0].isdigit():
            found = f"the problem file has no {path}, and so no entry '{rest.split('.')[0]}'"
            raise InputError([Fault(f"{path}.{rest}", found, "add the requirement there, or vary the whole list")])
        return {**holder, key: _put_at_path({} if inner is None else inner, rest, value, path)}
    return {**holder, key: value} if value is not None else {name: held for name, held in holder.items() if name != key}


def _put_item(holder: list[Any], rest: str, value: Any, before: str) -> list[Any]:
    key, _, rest = rest.partition(".")
    if not key.isdigit() or int(key) >= len(holder):
        found = f"{before} is a list of {len(holder)}, which has no entry '{key}'"
        raise InputError([Fault(f"{before}.{key}", found, "entries count from 0")])
    index = int(key)
    new = [_put_at_path(holder[index], rest, value, f"{before}.{key}")] if rest else [] if value is None else [value]
    return [*holder[:index], *new, *holder[index + 1 :]]


def _key(holder: Mapping[Any, Any], rest: str) -> tuple[Any, str]:
    """The key that a path begins with, as it is spelled there, and what is left of the path."""
    names = {str(key): key for key in holder}
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in names:
            return names[name], ".".join(parts[count:])
    return parts[0], ".".join(parts[1:])


VERSION = 1
MOST_POINTS = 100_000
CERTIFY_SECONDS = 60.0  # of a certificate, where the plan does not say
_RUN_OPTIONS = ("processes",)  # options of a solve that belong to the run of a sweep


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SweepPlan:
    """What is solved at every point of a sweep. Made by `read_plan`; `parameters` lists the points."""

    problem: Mapping[str, Any]  # what the problem file says
    problem_name: str  # as the plan names it
    folder: Path  # what paths in the problem file are relative to
    text: str  # of the problem file; empty where the plan holds the problem itself
    over: Mapping[str, tuple[Any, ...]]  # path -> values
    sensors: Mapping[str, tuple[Any, ...]]  # sensor -> changes
    listed: tuple[Mapping[str, Any], ...]  # further points, path -> value
    solve: Mapping[str, Any]  # options of every solve
    certify: float  # seconds for a certificate per point; 0: none
    time: float | None  # seconds per point
    warm: bool  # whether points along a threshold begin from their neighbour's policy
    lines: Mapping[str, int]  # of the plan file
    source: str  # its name

    def parameters(self) -> list[dict[str, Any]]:
        """The parameters of every point, path -> value: the product of all values, then the listed points."""
        axes = {**self.over, **{f"sensors.{name}": changes for name, changes in self.sensors.items()}}
        points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())] if axes else []
        return points + [dict(point) for point in self.listed if dict(point) not in points]

    def stated(self) -> Plain:
        """All that decides the answers, as plain data, part by part."""
        return {
            "problem": self.problem_name,
            "over": {path: list(values) for path, values in self.over.items()},
            "sensors": {name: list(changes) for name, changes in self.sensors.items()},
            "points": [dict(point) for point in self.listed],
            "solve": dict(self.solve),
            "certify": self.certify,
            "warm": self.warm,
        }


def read_plan(plan: object, *, faults: Faults | None = None) -> SweepPlan:
    """The plan in a file, or in a mapping with the same keys, whose problem may also be a Problem or a mapping.

    Raises InputError with every fault, each with its line; warnings go to `faults`.
    """
    if isinstance(plan, Mapping):
        return _read(Document(dict(plan), {}), "", Path(), faults)
    if not isinstance(plan, str | os.PathLike):
        found = f"is of the type {type(plan).__name__}"
        raise InputError([Fault("plan", found, "give the name of a plan file, or a mapping with its keys")])
    source, document = os.fspath(plan), load_yaml(plan)
    if isinstance(document.data, Mapping) and "opaq-sweep" not in document.data and "opaq" in document.data:
        advice = f"a plan names it: {{opaq-sweep: {VERSION}, problem: {Path(source).name}, over: {{...}}}}"
        raise InputError([Fault("", "is a problem, not the plan of a sweep", advice)], source)
    return _read(document, source, Path(source).parent, faults)


def plan_schema() -> Plain:
    """The JSON schema (draft 2020-12) of a plan."""
    definitions: Plain = {}
    stated = PLAN.schema(definitions)
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "opaq sweep"}
    return title | stated | ({"$defs": definitions} if definitions else {})


def _read(document: Document, source: str, folder: Path, faults: Faults | None) -> SweepPlan:
    def read(cursor: Cursor) -> SweepPlan | None:
        fields = PLAN.open(cursor)
        return None if fields is None else _make(fields, folder, document.lines, source)

    with locate_faults(document, source, faults) as noted:
        return read_with_faults(read, Scope().cursor(document.data, ""), noted)


def _make(fields: Fields, folder: Path, lines: Mapping[str, int], source: str) -> SweepPlan | None:
    _check_version(fields)
    problem = _problem(fields.at("problem"), folder) if "problem" in fields else None
    over, sensors, listed = (fields.read(name) for name in ("over", "sensors", "points"))
    solve, certify, time, warm = (fields.read(name) for name in ("solve", "certify", "time", "warm"))
    _check_paths(fields)
    if not any(fields.at(name).value for name in ("over", "sensors", "points")):
        fields.cursor.error("has no points", "give values under 'over', or a list of points under 'points'")
    usable = all(part is not None for part in (problem, over, sensors, listed, solve, certify, warm))
    if problem is None or not usable or fields.cursor.faults.errors:
        return None
    return SweepPlan(*problem, over, sensors, tuple(listed), solve, certify, time, warm, lines, source)


def _check_version(fields: Fields) -> None:
    cursor = fields.at("opaq-sweep")
    if "opaq-sweep" in fields and (cursor.value is True or cursor.value != VERSION):
        cursor.error(f"is {shown(cursor.value)}, a format this version does not read", f"write {VERSION}")


def _problem(cursor: Cursor, folder: Path) -> tuple[Mapping[str, Any], str, Path, str] | None:
    """What the problem file says, its name, its folder and its text."""
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
            cursor.error(f"{path}: {Fault(fault.where, fault.found, line=fault.line)}", fault.advice)
        return None
    if not isinstance(data, Mapping) or "opaq-sweep" in data:
        return cursor.error(f"{path}: is no problem file")  # type: ignore[func-returns-value]
    return {"name": Path(path).stem, **data}, name, Path(path).parent, text


def _values(cursor: Cursor) -> dict[str, tuple[Any, ...]] | None:
    """A mapping to lists of values."""
    entries = cursor.entries()
    if entries is None:
        return None
    lists = all_or_none([_distinct(entry) for entry in entries.values()])
    return None if lists is None else dict(zip(entries, lists, strict=True))


def _distinct(cursor: Cursor) -> tuple[Any, ...] | None:
    items = cursor.items()
    if items is None:
        return None
    if not items:
        return cursor.error("is empty", "list at least one value")  # type: ignore[func-returns-value]
    values = [item.value for item in items]
    for index, item in enumerate(items):
        if any(_same(item.value, earlier) for earlier in values[:index]):
            item.error(f"{shown(item.value)} is listed twice", "keep one of them")
    return tuple(values)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same; 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _sensor_changes(cursor: Cursor) -> dict[str, tuple[Any, ...]] | None:
    changes = _values(cursor)
    for name, listed in (changes or {}).items():
        for index, change in enumerate(listed):
            if change is not None and change != KEEP and not isinstance(change, Mapping):
                item = cursor.child(name, None).item(index, value=change)
                item.wrong(f"'{KEEP}', null (without it) or a mapping of what changes")
    return changes


def _read_list(cursor: Cursor) -> list[dict[str, Any]] | None:
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


def _solve(cursor: Cursor) -> dict[str, Any] | None:
    entries = cursor.entries()
    if entries is None:
        return None
    for name in _RUN_OPTIONS:
        if name in entries:
            entries[name].error("belongs to the run, not to the plan", "say it where the sweep is run")
    options = {name: entry.value for name, entry in entries.items() if name not in _RUN_OPTIONS}
    for fault in _faults_with_any_solver(options):
        cursor.child(fault.where, None).error(fault.found, fault.advice)
    return options


def _faults_with_any_solver(options: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the options; none if they suit some solver, where points may name their own."""
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
    """Seconds for a certificate; true stands for the usual time."""
    if is_flag(cursor.value):
        return CERTIFY_SECONDS if cursor.value else 0.0
    if isinstance(cursor.value, str):
        return cursor.wrong("true, false or seconds")  # type: ignore[func-returns-value]
    return cursor.number(low=0.0, high=1e8)


def _check_paths(fields: Fields) -> None:
    """Note paths that name options of the run, and those that undo each other."""
    over, sensors = (fields.at(name).value for name in ("over", "sensors"))
    places = [fields.at("over").child(path, None) for path in over] if isinstance(over, Mapping) else []
    paths = {cursor.path.removeprefix("over."): cursor for cursor in places}
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
            raw_value(f"`{VERSION}`", {"const": VERSION}),
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
        Key("time", number(0.001, 1e8), "Seconds per point; what takes much longer is ended and counts as failed."),
        Key("warm", FLAG, "Whether points along a threshold begin from their neighbour's policy.", default=True),
    ),
    example="{opaq-sweep: 1, problem: two-sink, over: {horizon: [2, 3], seed: [0, 1]}}",
)
