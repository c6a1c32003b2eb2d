"""What the pages of many points are made from: a sweep or a front, with the problem and the policy of every point."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opaq.certificates.certify import Certificate
from opaq.codec import kind_of
from opaq.errors import Fault, InputError
from opaq.files import read_bytes
from opaq.formats.plain import yaml_text
from opaq.load import FolderSources, load_policy, load_problem, scenario_names
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.study_page import StudyPage
from opaq.solvers.options import SolveOptions
from opaq.spec.policy_table import policy_from_dict
from opaq.spec.problem_part import build_problem
from opaq.spec.yaml import parse_yaml
from opaq.study.front.frontier import Frontier, policy_file_name
from opaq.study.front.search import payoff_index, with_threshold
from opaq.study.sweep.files import PROBLEM_COPY
from opaq.study.sweep.journal import BASE, Journal
from opaq.study.sweep.points import options_with, refuse_changed, spec_with
from opaq.study.sweep.study import Study, load_study

_MAX_PROBLEM = 256 << 20
_MAX_FRONT = 64 << 20
_MARK = f'"{Frontier.RESULT}"'.encode()  # what holds no such text is not parsed


@dataclass(frozen=True, slots=True)
class PointInputs:
    """What the report of one point shows."""

    problem: Problem
    policy: Policy
    text: str | None = None  # of its problem file
    solution: Mapping[str, Any] | None = None  # as JSON has it
    certificate: Certificate | None = None


class StudySource(Protocol):
    """A study as pages need it."""

    def page(self) -> StudyPage:
        """Return what its page shows."""

    def with_policy(self) -> list[int]:
        """Return the points of which reports can be made."""

    def inputs(self, index: int) -> PointInputs:
        """Return what the report of a point shows. Raises InputError where files are missing or do not fit."""


@dataclass(frozen=True, slots=True)
class SweepSource:
    """A sweep: everything is in its folder."""

    study: Study

    def page(self) -> StudyPage:
        """Return what its page shows."""
        return StudyPage.of_sweep(self.study)

    def with_policy(self) -> list[int]:
        """Return the points of which reports can be made."""
        return [index for index, point in enumerate(self.study.points) if point.policy_file is not None]

    def inputs(self, index: int) -> PointInputs:
        """Return what the report of a point shows."""
        point = self.study.points[index]
        spec, folder, solve, fingerprints = self._stated()
        spec = spec_with(spec, point.parameters)
        problem = build_problem(spec, sources=FolderSources(folder))
        refuse_changed(problem, SolveOptions.from_dict(options_with(solve, point.parameters)), fingerprints[point.name])
        policy = policy_from_dict(self.study.policy(point), problem)
        return PointInputs(problem, policy, yaml_text(spec), self.study.answer(point))

    def _stated(self) -> tuple[Mapping[str, Any], Path, Mapping[str, Any], dict[str, str]]:
        """Return what the sweep was begun with.

        That is the content of the problem file, what its paths are relative to, the options of every solve, and the
        fingerprint of each point by its name.
        """
        path = self.study.folder / PROBLEM_COPY
        text = read_bytes(path, max_bytes=_MAX_PROBLEM).decode("utf-8-sig", errors="replace")
        spec = parse_yaml(text, source=str(path)).data
        if not isinstance(spec, Mapping):
            raise InputError([Fault("", "is no problem file")], str(path))
        with Journal.open(self.study.folder, write=False) as journal:
            plan, fingerprints = journal.plan(), {name: mark for _, name, _, mark, _ in journal.points()}
        folder = Path(plan.get(BASE, str(self.study.folder)))
        return {"name": Path(self.study.problem).stem, **spec}, folder, plan["solve"], fingerprints


@dataclass(frozen=True, slots=True)
class _FrontierSource:
    """A front in memory: problem and policies are there."""

    front: Frontier

    def page(self) -> StudyPage:
        """Return what its page shows."""
        return StudyPage.of_front(self.front)

    def with_policy(self) -> list[int]:
        """Return the points of which reports can be made."""
        return [] if self.front.stated is None else list(range(len(self.front.points)))

    def inputs(self, index: int) -> PointInputs:
        """Return what the report of a point shows."""
        point, problem = self.front.points[index], self.front.stated
        assert problem is not None  # else no point has a report
        varied = with_threshold(problem, payoff_index(problem, self.front.against), point.threshold)
        return PointInputs(varied, point.policy, certificate=point.certificate)


@dataclass(frozen=True, slots=True)
class _FrontFileSource:
    """A front that a command has printed: problem and policies are in the files that it names."""

    front: Frontier
    folder: Path  # of the file
    policies: Path | None = None  # in place of what the file names

    def page(self) -> StudyPage:
        """Return what its page shows."""
        return StudyPage.of_front(self.front)

    def with_policy(self) -> list[int]:
        """Return the points of which reports can be made."""
        if self.front.problem_file is None:
            return []
        return [index for index in range(len(self.front.points)) if self._policy_file(index) is not None]

    def inputs(self, index: int) -> PointInputs:
        """Return what the report of a point shows."""
        name = self.front.problem_file or ""
        problem = load_problem(name if name in scenario_names() else self._path_of(name))
        payoff = payoff_index(problem, self.front.against)
        varied = with_threshold(problem, payoff, self.front.points[index].threshold)
        return PointInputs(varied, load_policy(self._policy_file(index) or "", varied))

    def _path_of(self, name: str) -> Path:
        """Return a file that the front names: beside the front, else from here."""
        beside = self.folder / name
        return beside if beside.exists() else Path(name)

    def _policy_file(self, index: int) -> Path | None:
        """Return the file with the policy of a point, where there is one."""
        named = self.front.points[index].policy_file
        if self.policies is not None:
            path = self.policies / policy_file_name(index + 1)
        elif named is not None:
            path = self._path_of(named)
        else:
            return None
        return path if path.is_file() else None


def front_in_file(path: str | os.PathLike[str]) -> Frontier | None:
    """Return the front in a file; None where the file is not there or holds something else.

    Raises InputError for a front that lacks what a front has.
    """
    if not os.path.isfile(path) or os.path.getsize(path) > _MAX_FRONT:
        return None
    content = read_bytes(path, max_bytes=_MAX_FRONT)
    if _MARK not in content:
        return None
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return Frontier.from_dict(data, source=os.fspath(path)) if kind_of(data) == Frontier.RESULT else None


def source_of(
    study: object, *, policies: str | os.PathLike[str] | None = None
) -> SweepSource | _FrontierSource | _FrontFileSource | None:
    """Return what a page of many points is made from; None for anything that is neither a sweep nor a front.

    study: an object, the folder of a sweep, or a file that holds a front, recognised by what is in it.
    policies: the folder with the policies of a front that is in a file, in place of those that it names.
    """
    if isinstance(study, Study):
        return SweepSource(study)
    if isinstance(study, Frontier):
        return _FrontierSource(study)
    if not isinstance(study, str | os.PathLike) or os.fspath(study) in scenario_names():
        return None
    if os.path.isdir(study):
        return SweepSource(load_study(study))
    front = front_in_file(study)
    if front is None:
        return None
    return _FrontFileSource(front, Path(study).parent, None if policies is None else Path(policies))
