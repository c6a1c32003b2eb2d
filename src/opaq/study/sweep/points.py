"""The points of a sweep: each a problem with its options, checked before any is solved, and who begins from whom."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from opaq.errors import Fault, Faults, InputError
from opaq.load import FolderSources, load_policy
from opaq.model.fingerprint import digest, problem_parts
from opaq.model.problem import Problem
from opaq.opacity.policies import RETURN_OPTIMAL, UNIFORM
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import choose_class
from opaq.spec.policy_table import policy_to_dict
from opaq.spec.problem_part import build_problem
from opaq.spec.yaml import line_of
from opaq.stop import Stop
from opaq.study.sweep.plan import (
    MOST_POINTS,
    SweepPlan,
    SweepPoint,
    change_at_path,
    is_axis,
    is_threshold,
    normal_path,
    overlap,
    read_plan,
    read_rest,
    with_sensor,
)
from opaq.study.workers.task import point_fingerprint

_LONGEST_LINK = 8  # points along an axis that begin from each other; also how many have to run one by one
_INITIAL = "initial policy"  # its name among those of neighbours
_MOST_FAULTS = 50  # different ones

_Checked = tuple[str, str]  # digests of a problem: of all of it, and of the names of its states and actions
_FaultPoints = dict[Fault, list[SweepPoint]]  # a fault -> the points that have it


def spec_with(spec: Any, parameters: Mapping[str, Any]) -> Any:
    """Return the content of a problem file with the parameters of a point in it.

    spec: the content of the problem file, which stays as it is. parameters: path -> value; options of the solve are
    passed over. Raises InputError where a path leads nowhere.
    """
    for path, value in parameters.items():
        if path.startswith("sensors."):
            spec = with_sensor(spec, path.removeprefix("sensors."), value)
        elif not normal_path(path).startswith("solve."):
            spec = change_at_path(spec, path, value)
    return spec


def options_with(solve: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the solve of a point, by the names of `SolveOptions`.

    solve: the options of every solve. parameters: path -> value; `seed` and `solve.OPTION` take precedence over them.
    """
    own = {normal_path(path): value for path, value in parameters.items()}
    varied = {path.removeprefix("solve."): value for path, value in own.items() if path.startswith("solve.")}
    return {**solve, **varied}


def read_initial_policy(plan: SweepPlan, points: Sequence[SweepPoint]) -> dict[str, Any]:
    """Return the policy that points begin from under the name "initial policy"; {} where the plan has none.

    A word for a policy stays a word, since every point has its own; a file is read for the problem of the first point.
    Raises InputError where it cannot be.
    """
    if plan.initial_policy in (None, UNIFORM, RETURN_OPTIMAL):
        return {} if plan.initial_policy is None else {_INITIAL: plan.initial_policy}
    spec = spec_with(plan.problem, points[0].parameters)
    problem = build_problem(spec, sources=FolderSources(plan.folder))
    file = Path(plan.source).parent / str(plan.initial_policy)
    return {_INITIAL: policy_to_dict(load_policy(file, problem, ignore_model_mismatch=True))}


def check_plan(
    plan: object, *, stop: Stop | None = None, faults: Faults | None = None
) -> tuple[SweepPlan, list[SweepPoint]]:
    """Return a plan and all its points, checked without solving any.

    plan: as in `read_plan`. stop, faults: as in `check_points`. Raises InputError with every fault of the plan and,
    where something is left of it without those, of its points.
    """
    try:
        checked = read_plan(plan, faults=faults)
    except InputError as error:
        rest, more = read_rest(plan, error), list[Fault]()
        try:
            if rest is not None:
                check_points(rest, stop=stop)
        except InputError as further:
            more = [fault for fault in further.faults if fault not in error.faults]
        raise InputError([*error.faults, *more], error.source, example=error.example) from None
    return checked, check_points(checked, stop=stop, faults=faults)


def check_points(plan: SweepPlan, *, stop: Stop | None = None, faults: Faults | None = None) -> list[SweepPoint]:
    """Return every point of a plan, after its problem was built and its options were checked.

    plan: what is varied. stop: ends the checks when it is requested, with StoppedError. faults: collects the warnings.
    Raises InputError with the faults of all points, each said once with the first point it is in. Problems are built
    once however many options they are solved with, and none is kept: a point has the fingerprint of its own.
    """
    parameters = plan.parameters()
    if len(parameters) > MOST_POINTS:
        raise InputError([Fault("over", f"has {len(parameters):,} points, more than {MOST_POINTS:,}")], plan.source)
    digits = max(4, len(str(len(parameters))))
    sources, points, problems = FolderSources(plan.folder), list[SweepPoint](), dict[Any, _Checked]()
    names: dict[int, str] = {}  # point -> digest of its states and actions
    errors, warnings = _FaultPoints(), _FaultPoints()
    for index, each in enumerate(parameters):
        if stop is not None:
            stop.check()
        if len(errors) >= _MOST_FAULTS:
            break
        point, noted = SweepPoint(index, f"{index + 1:0{digits}}", each), Faults()
        try:
            fingerprint, names[index] = _check_point(point, plan, sources, problems, noted)
            point = replace(point, fingerprint=fingerprint)
        except InputError as error:
            noted.errors.extend(error.faults)
        points.append(point)
        for listed, kept in ((noted.errors, errors), (noted.warnings, warnings)):
            for fault in listed:
                kept.setdefault(fault, []).append(point)
    if errors:
        raise InputError(list(_describe_faults(errors, plan)), plan.source)
    if faults is not None:
        faults.warnings.extend(_describe_faults(warnings, plan))
    return _link_points(points, names, tuple(plan.together[0]) if plan.together else ()) if plan.warm else points


def _check_point(
    point: SweepPoint, plan: SweepPlan, sources: FolderSources, problems: dict[Any, _Checked], faults: Faults
) -> _Checked:
    """Return the fingerprint of a point, and the digest of the names of its states and actions.

    problems: what is varied in the problem, and its policy class -> the digests of that problem, for points that differ
    in other options alone. faults: collects what is wrong; raises InputError with what else a solve would refuse.
    """
    try:
        options = SolveOptions.from_dict(options_with(plan.solve, point.parameters))
    except InputError as error:
        faults.errors.extend(replace(fault, where=f"solve.{fault.where}") for fault in error.faults)
        options = SolveOptions()
    varied = {path: each for path, each in point.parameters.items() if not normal_path(path).startswith("solve.")}
    key = (json.dumps(varied, sort_keys=True, default=str), options.conditions, options.memory_nodes)
    if key not in problems:
        spec = spec_with(plan.problem, point.parameters)
        problem: Problem | None = build_problem(spec, sources=sources, faults=faults)
        if problem is not None:
            if problem.task.over == "forever":
                reason = "solving needs a return over the horizon"
                raise InputError([Fault("task.over", reason, "write 'over: horizon'")])
            choose_class(problem, conditions=options.conditions, memory_nodes=options.memory_nodes)
        problems[key] = ("", "")
        if problem is not None:
            names = {"states": problem.mdp.states, "actions": problem.mdp.actions}
            problems[key] = (digest(problem_parts(problem)), digest(names))
    whole, names_alone = problems[key]
    return point_fingerprint(whole, options), names_alone


def _describe_faults(noted: _FaultPoints, plan: SweepPlan) -> Iterator[Fault]:
    """Yield each fault with the first point that has it, how many others do, and the line of the plan it is from."""
    for fault, points in noted.items():
        count, first = len(points) - 1, points[0]
        others = f" (and in {count:,} other point{'' if count == 1 else 's'})" if count else ""
        where = next((path for path in first.parameters if normal_path(path) == fault.where), fault.where)
        where = f"point {first.name} ({first.words}): {where}".removesuffix(": ")
        yield Fault(where, f"{fault.message}{others}", _advice(fault, first, plan), _line(fault, first, plan))


def _advice(fault: Fault, point: SweepPoint, plan: SweepPlan) -> str:
    """Return what to do; a path that makes a new key was probably meant to name one that the problem file has."""
    if fault.message != "unknown key" or fault.where not in map(normal_path, point.parameters):
        return fault.advice
    *parents, key = fault.where.split(".")
    holder: Any = plan.problem
    for parent in parents:
        holder = holder.get(parent) if isinstance(holder, Mapping) else None
    near = get_close_matches(key, [str(name) for name in holder], n=1) if isinstance(holder, Mapping) else []
    return f"did you mean '{'.'.join([*parents, *near])}'?" if near else fault.advice


def _line(fault: Fault, point: SweepPoint, plan: SweepPlan) -> int | None:
    """Return the line of the plan file whose parameter a fault of a point is in; None: of none."""
    for path in point.parameters:
        changed = normal_path(path).replace("sensors.", "observer.sensors.", path.startswith("sensors."))
        if fault.where and overlap(changed, fault.where):
            if plan.together and path in plan.together[0]:
                return line_of("together", plan.lines)
            return line_of(path if path.startswith("sensors.") else f"over.{path}", plan.lines)
    return None


def _link_points(points: list[SweepPoint], names: Mapping[int, str], together: Sequence[str]) -> list[SweepPoint]:
    """Return the points, each with the neighbour that it begins from and all its neighbours one step back.

    names: point -> digest of its states and actions, without which a policy says nothing elsewhere. together: the paths
    that are varied as one. A line is cut into links of at most a few points, two links at least, so that they can run
    side by side; this depends on the plan alone, and so do the results.
    """
    warm, before = dict[int, int](), dict[int, list[int]]()
    for ordered in lines_of(points, together, names):
        size = -(-len(ordered) // max(2, -(-len(ordered) // _LONGEST_LINK)))
        for index, (one, other) in enumerate(pairwise(ordered), start=1):
            before.setdefault(other.index, []).append(one.index)
            if index % size:
                warm.setdefault(other.index, one.index)
    return [
        replace(point, warm_from=warm.get(point.index), before=tuple(before.get(point.index, ()))) for point in points
    ]


def lines_of(
    points: Sequence[SweepPoint], together: Sequence[str], names: Mapping[int, str] | None = None
) -> Iterator[list[SweepPoint]]:
    """Yield the lines of a sweep: points that differ in one axis alone, in their order along it.

    An axis is a path, or the paths that are varied together. Thresholds come first, ordered from the highest down: what
    meets a task meets every easier one. Other numbers rise, and all else has the order of the plan.

    names: point -> what points of a line must share; None: nothing.
    """
    paths = dict.fromkeys(path for point in points for path in point.parameters)
    axes = [(path,) for path in paths if path not in together] + ([tuple(together)] if together else [])
    axes = [axis for axis in axes if all(map(is_axis, axis))]
    for axis in sorted(axes, key=lambda axis: not all(map(is_threshold, axis))):
        lines: dict[str, list[SweepPoint]] = {}
        for point in points:
            if all(path in point.parameters for path in axis):
                others = {path: value for path, value in point.parameters.items() if path not in axis}
                shared = [names[point.index] if names else "", others]
                lines.setdefault(json.dumps(shared, sort_keys=True, default=str), []).append(point)
        yield from (_order(line, axis[0]) if len(axis) == 1 else line for line in lines.values())


def _order(line: list[SweepPoint], axis: str) -> list[SweepPoint]:
    """Return the points of a line in their order along its axis."""
    values = [point.parameters[axis] for point in line]
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return line
    return sorted(line, key=lambda point: point.parameters[axis], reverse=is_threshold(axis))
