"""The points of a sweep: each a problem with its options, checked before any runs, and the task of a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.load import FolderSources
from opaq.model.fingerprint import digest, problem_parts
from opaq.model.problem import Problem
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import chosen_class
from opaq.spec.problem_part import build_problem
from opaq.spec.yaml import line_of
from opaq.stop import Stop
from opaq.study.sweep.plan import (
    MOST_POINTS,
    SweepPlan,
    change_at_path,
    is_threshold,
    normal_path,
    overlap,
    with_sensor,
)

_LONGEST_LINK = 8  # points along a threshold that begin from each other; also how many have to run one by one
_MOST_FAULTS = 50  # different ones
_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point: what is varied there, and what it is solved with."""

    index: int
    name: str
    parameters: Mapping[str, Any]  # path -> value
    options: Mapping[str, Any]  # of the solve
    fingerprint: str = ""  # of all that decides the answer
    warm_from: int | None = None  # the point whose policy it begins from

    @property
    def words(self) -> str:
        """What is varied, in words."""
        return ", ".join(f"{path} {abbreviate(value)}" for path, value in self.parameters.items())


def abbreviate(value: Any) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def spec_of(plan: SweepPlan, parameters: Mapping[str, Any]) -> Any:
    """What the problem file says at a point. Raises InputError where a path leads nowhere."""
    return spec_with(plan.problem, parameters)


def spec_with(spec: Any, parameters: Mapping[str, Any]) -> Any:
    """What a problem file says with the parameters of a point in it."""
    for path, value in parameters.items():
        if path.startswith("sensors."):
            spec = with_sensor(spec, path.removeprefix("sensors."), value)
        elif not normal_path(path).startswith("solve."):
            spec = change_at_path(spec, path, value)
    return spec


def problem_of(plan: SweepPlan, point: SweepPoint) -> Problem:
    """The problem of a point."""
    return build_problem(spec_of(plan, point.parameters), sources=FolderSources(plan.folder))


def sweep_points(plan: SweepPlan, *, stop: Stop | None = None, faults: Faults | None = None) -> list[SweepPoint]:
    """Every point, with its problem built and its options checked.

    Raises InputError with the faults of all points, each said once with the first point it is in; warnings go to
    `faults`. Problems are built once however many options they are solved with, and none is kept.
    """
    parameters = plan.parameters()
    if len(parameters) > MOST_POINTS:
        raise InputError([Fault("over", f"has {len(parameters):,} points, more than {MOST_POINTS:,}")], plan.source)
    digits = max(4, len(str(len(parameters))))
    points = [
        SweepPoint(index, f"{index + 1:0{digits}}", each, options_with(plan.solve, each))
        for index, each in enumerate(parameters)
    ]
    checks = _Checks(plan)
    for point in points:
        if stop is not None:
            stop.check()
        if len(checks.errors) >= _MOST_FAULTS:
            break
        checks.check(point)
    if checks.errors:
        raise InputError(list(_describe_faults(checks.errors, plan)), plan.source)
    if faults is not None:
        faults.warnings.extend(_describe_faults(checks.warnings, plan))
    checked = [replace(point, fingerprint=checks.fingerprints[point.index]) for point in points]
    return _link_points(checked) if plan.warm else checked


def options_with(solve: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The options of every solve with those that a point states in place of them."""
    own = {normal_path(path): value for path, value in parameters.items()}
    varied = {path.removeprefix("solve."): value for path, value in own.items() if path.startswith("solve.")}
    return {**solve, **varied}


_Noted = dict[Fault, list[SweepPoint]]


class _Checks:
    """Builds the problem of each point, once per problem, and notes what is wrong with it."""

    def __init__(self, plan: SweepPlan) -> None:
        self._plan = plan
        self._sources = FolderSources(plan.folder)
        self._parts: dict[Any, str] = {}  # what is varied in the problem and its policy class -> its fingerprint
        self.errors: _Noted = {}
        self.warnings: _Noted = {}
        self.fingerprints: dict[int, str] = {}

    def check(self, point: SweepPoint) -> None:
        """Note the faults of one point, or its fingerprint."""
        faults = Faults()
        try:
            self._check(point, faults)
        except InputError as error:
            faults.errors.extend(error.faults)
        for noted, listed in ((faults.errors, self.errors), (faults.warnings, self.warnings)):
            for fault in noted:
                listed.setdefault(fault, []).append(point)

    def _check(self, point: SweepPoint, faults: Faults) -> None:
        try:
            options = SolveOptions.from_dict(point.options)
        except InputError as error:
            faults.errors.extend(replace(fault, where=f"solve.{fault.where}") for fault in error.faults)
            options = SolveOptions()
        varied = {path: each for path, each in point.parameters.items() if not normal_path(path).startswith("solve.")}
        key = (json.dumps(varied, sort_keys=True, default=str), options.conditions, options.memory_nodes)
        if key not in self._parts:
            self._parts[key] = self._built(point, options, faults)
        self.fingerprints[point.index] = _fingerprint(self._parts[key], options)

    def _built(self, point: SweepPoint, options: SolveOptions, faults: Faults) -> str:
        """The fingerprint of the problem of a point; empty where it is unusable."""
        problem: Problem | None = build_problem(
            spec_of(self._plan, point.parameters), sources=self._sources, faults=faults
        )
        if problem is None:
            return ""
        _check_solvable(problem, options, certify=self._plan.certify > 0)
        return digest(problem_parts(problem))


def refuse_changed(problem: Problem, options: SolveOptions, fingerprint: str) -> None:
    """Raise InputError when a problem and its options are not those that a point of a sweep was checked with."""
    if _fingerprint(digest(problem_parts(problem)), options) != fingerprint:
        found = "is not as it was when the sweep was begun: a file that it names has changed since, or differs here"
        raise InputError(
            [Fault("problem", found, "restore the file; points that failed for it are solved again on request")]
        )


def _fingerprint(problem: str, options: SolveOptions) -> str:
    """The fingerprint of all that decides the answer of a point; `problem` is that of its problem."""
    decided = {name: value for name, value in options.to_dict().items() if name not in ("time", "processes")}
    return digest({"problem": problem, "options": decided})


def _check_solvable(problem: Problem, options: SolveOptions, *, certify: bool) -> None:
    """Raise InputError for what a solve would refuse."""
    if problem.task.over == "forever":
        found = "solving needs a return over the horizon"
        raise InputError([Fault("task.over", found, "write 'over: horizon'")])
    chosen_class(problem, conditions=options.conditions, memory_nodes=options.memory_nodes)
    if certify:
        from opaq.certificates.certify import check_certifiable  # brings the compiled kernels

        check_certifiable(problem)


def _describe_faults(noted: _Noted, plan: SweepPlan) -> Iterator[Fault]:
    """Each fault with the first point that has it, how many others do, and the line of the plan that leads there."""
    for fault, points in noted.items():
        count, first = len(points) - 1, points[0]
        others = f" (and in {count:,} other point{'' if count == 1 else 's'})" if count else ""
        stated = next((path for path in first.parameters if normal_path(path) == fault.where), fault.where)
        where = f"point {first.name} ({first.words}): {stated}".removesuffix(": ")
        yield Fault(where, f"{fault.found}{others}", _advice(fault, first, plan), _line(fault, first, plan))


def _advice(fault: Fault, point: SweepPoint, plan: SweepPlan) -> str:
    """What to do; a path that makes a new key was probably meant to name one that the problem file has."""
    if fault.found != "unknown key" or fault.where not in map(normal_path, point.parameters):
        return fault.advice
    *parents, key = fault.where.split(".")
    holder: Any = plan.problem
    for parent in parents:
        holder = holder.get(parent) if isinstance(holder, Mapping) else None
    near = get_close_matches(key, [str(name) for name in holder], n=1) if isinstance(holder, Mapping) else []
    return f"did you mean '{'.'.join([*parents, *near])}'?" if near else fault.advice


def _line(fault: Fault, point: SweepPoint, plan: SweepPlan) -> int | None:
    for path in point.parameters:
        stated = normal_path(path).replace("sensors.", "observer.sensors.", path.startswith("sensors."))
        if fault.where and overlap(stated, fault.where):
            return line_of(path if path.startswith("sensors.") else f"over.{path}", plan.lines)
    return None


def _link_points(points: list[SweepPoint]) -> list[SweepPoint]:
    """The points, each with the neighbour that it begins from.

    Points that differ in a threshold alone are ordered from the highest down: what meets a task meets every easier
    one. The order is cut into links of at most a few points, two links at least, so that they can run side by side;
    this depends on the plan alone, and so do the results.
    """
    linked = {point.index: point for point in points}
    varied = [(key, point) for point in points if (key := _front(point)) is not None]
    for _, front in groupby(sorted(varied, key=lambda pair: (pair[0][0], -pair[0][1])), key=lambda pair: pair[0][0]):
        ordered = [point for _, point in front]
        count = max(2, -(-len(ordered) // _LONGEST_LINK))
        size = -(-len(ordered) // count)
        for index, point in enumerate(ordered):
            if index % size:
                linked[point.index] = replace(point, warm_from=ordered[index - 1].index)
    return [linked[point.index] for point in points]


def _front(point: SweepPoint) -> tuple[str, float] | None:
    """All that is varied but the first threshold, and that threshold."""
    for path, value in point.parameters.items():
        if is_threshold(path) and isinstance(value, int | float) and not isinstance(value, bool):
            others = {other: each for other, each in point.parameters.items() if other != path}
            return f"{path} {json.dumps(others, sort_keys=True, default=str)}", float(value)
    return None


GRACE = 5.0  # seconds beyond its limit that a point has to come to its end, before its worker is ended


def task_of(plan: SweepPlan, point: SweepPoint, *, time: float | None, warm: Any) -> dict[str, Any]:
    """All that solving a point takes, as plain data; `warm` is the content of a policy file, or None."""
    options = {**point.options, "processes": 1}
    limits = [limit for limit in (time, options.get("time")) if limit is not None]
    return {
        "kind": "point",
        "problem": spec_of(plan, point.parameters),
        "fingerprint": point.fingerprint,
        "folder": str(plan.folder.absolute()),
        "options": options | {"time": min(limits, default=None)},
        "certify": plan.certify,
        "warm": warm,
    }


def limit_of(task: Mapping[str, Any]) -> float | None:
    """Seconds after which the worker of a task is ended; None: never."""
    time = task["options"]["time"]
    return None if time is None else time + task["certify"] + GRACE


def solve_point(task: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one point: plain data in, plain data out, and nothing else.

    Raises InputError when its problem is not the one that was checked before the sweep began.
    """
    from opaq.load import FolderSources
    from opaq.solvers.options import SolveOptions
    from opaq.solvers.solve import solve
    from opaq.spec.policy_table import policy_from_dict, policy_to_dict
    from opaq.spec.problem_part import build_problem
    from opaq.stop import Stop

    problem = build_problem(task["problem"], sources=FolderSources(Path(task["folder"])))
    options = SolveOptions.from_dict(task["options"])
    refuse_changed(problem, options, task["fingerprint"])
    warm = None if task["warm"] is None else policy_from_dict(task["warm"], problem)
    solution = solve(problem, options=options, warm=warm, stop=Stop())
    answer = solution.to_dict()
    if task["certify"] > 0 and solution.measurement.feasible:
        from opaq.certificates.certify import CertifiedSolution, certify

        certificate = certify(problem, solution.policy, time=task["certify"], stop=Stop())
        answer = CertifiedSolution(solution, certificate).to_dict()
    return {
        "answer": answer,
        "policy": policy_to_dict(solution.policy, problem=problem),
    }
