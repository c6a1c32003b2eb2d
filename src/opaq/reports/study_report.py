"""Write the pages of a sweep or a front: one with all points, and one for each of them that is asked for.

Comes in: a study, or the folder or file that holds one. Goes out: a `Report`, and the files of its points.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from opaq.certificates.certify import Certificate
from opaq.codec import kind_of
from opaq.errors import Fault, InputError, OpaqError, check_numbers
from opaq.files import check_writable, read_bytes, write_text
from opaq.formats.plain import yaml_text
from opaq.load import FolderSources, load_policy, load_problem, scenario_names
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.reports.page.render import render_study
from opaq.reports.policy_report import Report, make_report
from opaq.reports.study_page import ReportCount, StudyPage
from opaq.solvers.options import SolveOptions
from opaq.spec.policy_table import policy_from_dict
from opaq.spec.problem_part import build_problem
from opaq.stop import Deadline, Stop, StoppedError, interruptible
from opaq.study.front.frontier import Frontier, policy_file_name
from opaq.study.front.search import payoff_index, with_threshold
from opaq.study.sweep.files import read_problem_copy
from opaq.study.sweep.journal import BASE, Journal
from opaq.study.sweep.points import options_with, spec_with
from opaq.study.sweep.study import Study, load_study
from opaq.study.workers.task import refuse_changed

Points = Literal["all", "none"] | int | None

_USUAL_POINTS = 40  # reports of single points where nothing else is asked for
_USUAL_SECONDS = 600.0  # for all of them
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_MOST_REASONS = 3  # of reports that could not be made
_MAX_FRONT = 64 << 20
_MARK = f'"{Frontier.RESULT}"'.encode()  # what holds no such text is not parsed


@dataclass(frozen=True, slots=True)
class PointInputs:
    """The inputs of the report of one point; None where the study does not keep them."""

    problem: Problem
    policy: Policy
    text: str | None = None  # of its problem file
    solution: Mapping[str, Any] | None = None  # as JSON has it
    certificate: Certificate | None = None


class StudySource(Protocol):
    """A study as pages need it: its page, and the problem and policy of every point."""

    def page(self) -> StudyPage:
        """Return the data of its page."""

    def with_policy(self) -> list[int]:
        """Return the indices of the points that have a policy, and so may have a report."""

    def inputs(self, index: int) -> PointInputs:
        """Return the inputs of the report of a point; index: in the study. Raises InputError where files do not fit."""


@dataclass(frozen=True, slots=True)
class SweepSource:
    """A sweep: problem, options, answers and policies are in its folder."""

    study: Study

    def page(self) -> StudyPage:
        """Return the data of its page."""
        return StudyPage.of_sweep(self.study)

    def with_policy(self) -> list[int]:
        """Return the indices of the points that have a policy file."""
        return [index for index, point in enumerate(self.study.points) if point.policy_file is not None]

    def inputs(self, index: int) -> PointInputs:
        """Return the inputs of the report of a point; index: in the study.

        Raises InputError where a file of the sweep is missing, or the problem is no longer the one that was solved.
        """
        point = self.study.points[index]
        spec, folder, solve, fingerprints = self._read_record()
        spec = spec_with(spec, point.parameters)
        problem = build_problem(spec, sources=FolderSources(folder))
        refuse_changed(problem, SolveOptions.from_dict(options_with(solve, point.parameters)), fingerprints[point.name])
        policy = policy_from_dict(self.study.policy(point), problem)
        return PointInputs(problem, policy, yaml_text(spec), self.study.answer(point))

    def _read_record(self) -> tuple[Mapping[str, Any], Path, Mapping[str, Any], dict[str, str]]:
        """Return the inputs that the sweep was begun with.

        They are the content of the problem file, the folder its paths are relative to, the options of every solve, and
        the fingerprint of each point by its name. Raises InputError where the copy of the problem is no problem file.
        """
        spec = read_problem_copy(self.study.folder)
        with Journal.open(self.study.folder, write=False) as journal:
            plan, fingerprints = journal.plan(), {point.name: point.fingerprint for point in journal.points()}
        folder = Path(plan.get(BASE, str(self.study.folder)))
        return {"name": Path(self.study.problem).stem, **spec}, folder, plan["solve"], fingerprints


@dataclass(frozen=True, slots=True)
class _FrontierSource:
    """A front in memory, which holds its problem and policies."""

    front: Frontier

    def page(self) -> StudyPage:
        """Return the data of its page."""
        return StudyPage.of_front(self.front)

    def with_policy(self) -> list[int]:
        """Return the indices of all points; none where the front has no problem, having been read from a file."""
        return [] if self.front.stated is None else list(range(len(self.front.points)))

    def inputs(self, index: int) -> PointInputs:
        """Return the inputs of the report of a point: the problem with its threshold, its policy and certificate."""
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
        """Return the data of its page."""
        return StudyPage.of_front(self.front)

    def with_policy(self) -> list[int]:
        """Return the indices of the points whose policy file is there; none where the front names no problem."""
        if self.front.problem_file is None:
            return []
        return [index for index in range(len(self.front.points)) if self._policy_file(index) is not None]

    def inputs(self, index: int) -> PointInputs:
        """Return the inputs of the report of a point: the problem with its threshold, and its policy.

        Raises InputError where a file is missing or does not fit.
        """
        name = self.front.problem_file or ""
        problem = load_problem(name if name in scenario_names() else self._path_of(name))
        payoff = payoff_index(problem, self.front.against)
        varied = with_threshold(problem, payoff, self.front.points[index].threshold)
        return PointInputs(varied, load_policy(self._policy_file(index) or "", varied))

    def _path_of(self, name: str) -> Path:
        """Return the path of a file that the front names: beside the front if it is there, else from here."""
        beside = self.folder / name
        return beside if beside.exists() else Path(name)

    def _policy_file(self, index: int) -> Path | None:
        """Return the file with the policy of a point, in `policies` or as the front names it; None if missing."""
        named = self.front.points[index].policy_file
        if self.policies is not None:
            path = self.policies / policy_file_name(index + 1)
        elif named is not None:
            path = self._path_of(named)
        else:
            return None
        return path if path.is_file() else None


def front_in_file(path: str | os.PathLike[str]) -> Frontier | None:
    """Return the front in a file; None where the file is not there, has more than 64 MB or holds something else.

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
    """Return the source of a page of many points; None for anything that is neither a sweep nor a front.

    study: an object, the folder of a sweep, or a file that holds a front, recognised by what is in it.
    policies: the folder with the policies of a front that is in a file, in place of those that it names.

    Raises InputError for a folder that holds no sweep, or a front that lacks what a front has.
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


def study_report(
    source: StudySource,
    *,
    output: str | os.PathLike[str] | None = None,
    points: Points = None,
    runs: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    time_limit: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Report:
    """Return the page of a study, written to a file together with the reports of its points.

    source: the study. output: the file of the page; None writes nothing, and makes no reports of points.
    points: "all", "none", or how many reports; None is 40. They go to a folder beside the file, NAME-points.
    runs, seed: of the reports of points, as in `report`.
    overwrite: True replaces the page, and files in a folder that is not empty.
    time_limit: seconds for the reports of points; None is 600. Those that are made count, whatever ends the work.
    stop: ends the work early; the page is written all the same. on_progress: called with words.

    Raises InputError when an argument does not fit, or the file or the folder cannot be written.
    """
    wanted = _number_of_reports(points)
    check_numbers({"time_limit": (time_limit, 0, math.inf)}, optional=("time_limit",))
    page = source.page()
    if output is None:
        return _make_page(page, {}, "")
    file = Path(output)
    check_writable(file, overwrite=overwrite)
    chosen = _choose_points(page, source.with_policy(), wanted)
    folder = _points_folder(file)
    if chosen:
        _make_folder(folder, overwrite=overwrite)
    with interruptible(stop, keep_answer=False) as stopper:
        maker = _Reports(source, page, folder, runs, seed, stopper, on_progress or (lambda words: None))
        files = maker.make(chosen, _USUAL_SECONDS if time_limit is None else time_limit)
        report = _make_page(page, files, _words(page, source.with_policy(), chosen, files, maker.reasons))
        report.save(file, overwrite=overwrite)
    return report


def _points_folder(page: Path) -> Path:
    """Return the folder for the reports of the points of a page: study-points for study.html."""
    return page.with_name(f"{page.stem}-points")


class _Reports:
    """Makes the reports of points, one after the other, and keeps the reasons why points have none."""

    def __init__(
        self,
        source: StudySource,
        page: StudyPage,
        folder: Path,
        runs: int | None,
        seed: int,
        stop: Stop,
        tell: Callable[[str], None],
    ) -> None:
        """Take what all reports share.

        source, page: the study and its page. folder: for the reports. runs, seed: as in `report`.
        stop: ends the work between points and within them. tell: called with words before every point.
        """
        self._source, self._points, self._folder = source, page.points, folder
        self._runs, self._seed, self._stop, self._tell = runs, seed, stop, tell
        self.reasons: dict[int, str] = {}  # point -> why it has no report

    def make(self, chosen: Sequence[int], seconds: float) -> dict[int, str]:
        """Write the reports, and return index of a point -> its file, relative to the page.

        chosen: indices of points. seconds: for all of them; those that are left then get a reason.
        """
        deadline, files = Deadline(seconds), {}
        for number, index in enumerate(chosen):
            left = deadline.left or 0.0
            if self._stop.requested or left <= 0:
                why = "the work was interrupted" if self._stop.requested else "the time was up"
                self.reasons |= dict.fromkeys(chosen[number:], why)
                break
            self._tell(f"point {number + 1} of {len(chosen)}")
            name = _file_name(self._points[index].name, index)
            if self._write_report(index, self._folder / name, left):
                files[index] = f"{self._folder.name}/{name}"
        return files

    def _write_report(self, index: int, file: Path, left: float) -> bool:
        """Write the report of a point to a file, and return whether that was possible.

        left: seconds. A fault of one point becomes its reason, and does not stop the others.
        """
        try:
            with self._stop.part() as stop:
                inputs = self._source.inputs(index)
                report = make_report(
                    inputs.problem,
                    inputs.policy,
                    text=inputs.text,
                    solution=inputs.solution,
                    certificate=inputs.certificate,
                    runs=self._runs,
                    seed=self._seed,
                    time_limit=left,
                    stop=stop,
                )
        except StoppedError:
            self.reasons[index] = "the time was up"
        except (OpaqError, MemoryError) as error:
            self.reasons[index] = " ".join(str(error).split())[:300] or type(error).__name__
        else:
            write_text(file, report.html, overwrite=True)
            return True
        return False


def _make_page(page: StudyPage, files: dict[int, str], text: str) -> Report:
    """Return the page with the links to the reports of single points.

    files: index of a point -> its report, relative to the page. text: which points have none, and why.
    """
    points = tuple(replace(point, report=files.get(index)) for index, point in enumerate(page.points))
    data = replace(page, points=points, reports=ReportCount(len(files), text)).to_dict()
    return Report(data, render_study(data))


def _number_of_reports(points: Points) -> float:
    """Return how many reports of points are made at most, infinity for "all".

    Raises InputError for anything but "all", "none", None (40) and whole numbers from 0 on.
    """
    if points is None or points in ("all", "none"):
        return {"all": math.inf, "none": 0, None: _USUAL_POINTS}[points]
    if isinstance(points, int) and not isinstance(points, bool) and points >= 0:
        return points
    raise InputError([Fault("points", f"is {str(points)[:40]!r}", "give 'all', 'none', or how many")])


def _choose_points(page: StudyPage, usable: Sequence[int], wanted: float) -> list[int]:
    """Return the points with reports: all or, where they are too many, those that meet their task and hide most.

    usable: indices of points with a policy. wanted: how many at most.
    """
    if len(usable) <= wanted:
        return list(usable)
    sign = 1.0 if page.minimise else -1.0

    def rank(index: int) -> tuple[bool, float, int]:
        """Return a key by which points that meet their task come first, those that hide most before the others."""
        point = page.points[index]
        value = 0.0 if point.hidden is None else sign * point.hidden_value(minimise=page.minimise)
        return point.outcome != "feasible", value, index

    return sorted(usable, key=rank)[: int(wanted)]


def _make_folder(folder: Path, *, overwrite: bool) -> None:
    """Make the folder of the reports; one that holds something stays as it is unless it may be overwritten.

    Raises InputError where it cannot be made or written to, or is not empty and may not be overwritten.
    """
    try:
        folder.mkdir(exist_ok=True)
        filled = next(folder.iterdir(), None) is not None
    except OSError as error:
        finding = f"cannot be made a folder: {error.strerror or error}"
        raise InputError([Fault("", finding, "write the page elsewhere")], str(folder)) from None
    if filled and not overwrite:
        raise InputError(
            [Fault("", "exists already and is not empty", "allow overwriting, or name another file")], str(folder)
        )
    check_writable(folder / ".probe", overwrite=True)


def _file_name(name: str, index: int) -> str:
    """Return the name of the file of a report: that of the point, where it is safe in a path, else its number."""
    return f"{name if _PLAIN_NAME.fullmatch(name) else f'point-{index + 1}'}.html"


def _words(
    page: StudyPage, usable: Sequence[int], chosen: Sequence[int], files: dict[int, str], reasons: dict[int, str]
) -> str:
    """Return which points have a report, and why the others have none, in one sentence.

    usable: points with a policy. chosen: those that were to have a report. files: those that have one.
    reasons: point -> why it could not be made.
    """
    if len(files) == len(page.points):
        return "Every point has a report of its own."
    if not chosen:
        return "" if usable else "No point has a report of its own: there are no policies to show."
    parts = [f"{len(files):,} of {len(page.points):,} points have a report of their own"]
    kind = f"{'lowest' if page.minimise else 'highest'} {page.objective.of.title}"
    if len(chosen) < len(usable):
        parts.append(f"those with the {kind} were chosen, {len(usable) - len(chosen):,} left out")
    without = len(page.points) - len(usable)
    parts += [f"{without:,} have no policy"] if without else []
    counted = {reason: list(reasons.values()).count(reason) for reason in reasons.values()}
    parts += [f"{times:,} could not be made ({reason})" for reason, times in list(counted.items())[:_MOST_REASONS]]
    return "; ".join(parts) + "."
