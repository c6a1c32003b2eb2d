"""What a page of many points is made from: a sweep or a front, with the problem and the policy of every point."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from opaq.errors import Fault, InputError
from opaq.files import read_bytes
from opaq.formats.plain import yaml_text
from opaq.load import FolderSources, load_policy, load_problem, scenario_names
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.frontier_text import frontier_to_dict
from opaq.reports.given_answers import certificate_in
from opaq.reports.study_data import front_page_data, sweep_page_data
from opaq.solvers.options import SolveOptions
from opaq.spec.policy_table import policy_from_dict
from opaq.spec.problem_part import build_problem
from opaq.spec.yaml import parse_yaml
from opaq.study.front.frontier import Frontier
from opaq.study.front.search import payoff_index, with_threshold
from opaq.study.front_json import Front
from opaq.study.sweep.files import PROBLEM_COPY
from opaq.study.sweep.journal import BASE, Journal
from opaq.study.sweep.points import options_with, spec_with
from opaq.study.sweep.study import Study, load_study
from opaq.study.workers.task import refuse_changed

_MAX_PROBLEM = 256 << 20


@dataclass(frozen=True, slots=True)
class PointInputs:
    """What the report of one point shows."""

    problem: Problem
    policy: Policy
    text: str | None = None  # of its problem file
    solution: Any = None
    certificate: Any = None


class StudySource(Protocol):
    """A study as pages need it."""

    def data(self) -> dict[str, Any]:
        """What its page shows."""

    def with_policy(self) -> list[int]:
        """The points of which reports can be made."""

    def inputs(self, index: int) -> PointInputs:
        """What the report of a point shows. Raises InputError where files are missing or do not fit."""


@dataclass(frozen=True, slots=True)
class SweepSource:
    """A sweep: everything is in its folder."""

    study: Study

    def data(self) -> dict[str, Any]:
        """What its page shows."""
        usable = self.with_policy()
        answer = self.study.answer(self.study.points[usable[0]]) if usable else None
        objective = (answer or {}).get("objective", {})
        minimise = objective.get("direction") == "minimise"
        return sweep_page_data(self.study, minimise=minimise)

    def with_policy(self) -> list[int]:
        """The points of which reports can be made."""
        return [index for index, point in enumerate(self.study.points) if point.policy_file is not None]

    def inputs(self, index: int) -> PointInputs:
        """What the report of a point shows."""
        point = self.study.points[index]
        spec, folder, solve, fingerprints = self._stated()
        spec = spec_with(spec, point.parameters)
        problem = build_problem(spec, sources=FolderSources(folder))
        refuse_changed(problem, SolveOptions.from_dict(options_with(solve, point.parameters)), fingerprints[point.name])
        policy = policy_from_dict(self.study.policy(point), problem)
        answer = self.study.answer(point)
        certificate = None if answer is None else certificate_in(answer)
        return PointInputs(problem, policy, yaml_text(spec), answer, certificate)

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
            plan, fingerprints = journal.plan(), {point.name: point.fingerprint for point in journal.points()}
        folder = Path(plan.get(BASE, str(self.study.folder)))
        return {"name": Path(self.study.problem).stem, **spec}, folder, plan["solve"], fingerprints


@dataclass(frozen=True, slots=True)
class FrontierSource:
    """A front in memory: problem and policies are there."""

    front: Frontier

    def data(self) -> dict[str, Any]:
        """What its page shows."""
        return front_page_data(frontier_to_dict(self.front))

    def with_policy(self) -> list[int]:
        """The points of which reports can be made."""
        return [] if self.front.stated is None else list(range(len(self.front.points)))

    def inputs(self, index: int) -> PointInputs:
        """What the report of a point shows."""
        point, problem = self.front.points[index], self.front.stated
        assert problem is not None  # else no point has a report
        asked = with_threshold(problem, payoff_index(problem, self.front.against), point.threshold)
        return PointInputs(asked, point.policy, certificate=point.certificate)


@dataclass(frozen=True, slots=True)
class FrontFileSource:
    """A front that a command has printed: problem and policies are in the files that it names."""

    front: Front

    def data(self) -> dict[str, Any]:
        """What its page shows."""
        return front_page_data(self.front.data)

    def with_policy(self) -> list[int]:
        """The points of which reports can be made."""
        if self.front.data.get("problem_file") is None:
            return []
        return [index for index in range(len(self.front.data["points"])) if self.front.policy_file(index) is not None]

    def inputs(self, index: int) -> PointInputs:
        """What the report of a point shows."""
        data, point = self.front.data, self.front.data["points"][index]
        stated = str(data["problem_file"])
        problem = load_problem(stated if stated in scenario_names() else self.front.path_of(stated))
        asked = with_threshold(problem, payoff_index(problem, data["against"]), point["threshold"])
        return PointInputs(asked, load_policy(self.front.policy_file(index) or "", asked))


def source_of(
    study: object, *, policies: str | os.PathLike[str] | None = None
) -> SweepSource | FrontierSource | FrontFileSource | None:
    """What a page of many points is made from; None for anything that is neither a sweep nor a front.

    study: an object, the folder of a sweep, or a file that holds a front, recognised by what is in it.
    policies: the folder with the policies of a front that is in a file, in place of those that it names.
    """
    if isinstance(study, Study):
        return SweepSource(study)
    if isinstance(study, Frontier):
        return FrontierSource(study)
    if not isinstance(study, str | os.PathLike) or os.fspath(study) in scenario_names():
        return None
    if os.path.isdir(study):
        return SweepSource(load_study(study))
    front = Front.in_file(study, policies=policies)
    return None if front is None else FrontFileSource(front)
