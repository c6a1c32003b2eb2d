"""The pages of a study: one with all points, and one for each of them that is asked for."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Literal

from opaq.errors import Fault, InputError, OpaqError, check_numbers
from opaq.files import check_writable, write_text
from opaq.reports.page.render import render_study
from opaq.reports.policy_report import Report, make_report
from opaq.reports.study_page import ReportCount, StudyPage
from opaq.reports.study_sources import StudySource
from opaq.stop import Stop, StoppedError, interruptible

Points = Literal["all", "none"] | int | None

_USUAL_POINTS = 40  # reports of single points where nothing else is asked for
_USUAL_SECONDS = 600.0  # for all of them
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_MOST_REASONS = 3  # of reports that could not be made


def study_report(
    source: StudySource,
    *,
    to: str | os.PathLike[str] | None = None,
    points: Points = None,
    runs: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    time: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Report:
    """Return the page of a study, written to a file together with the reports of its points.

    The arguments are those of `report`. Reports of points go to a folder beside the file, NAME-points; without a file
    there are none. Those that are made count, whatever ends the work.
    """
    wanted = _number_of_reports(points)
    check_numbers({"time": (time, 0, math.inf)}, optional=("time",))
    page = source.page()
    if to is None:
        return _make_page(page, {}, "")
    file = Path(to)
    check_writable(file, overwrite=overwrite)
    chosen = _choose_points(page, source.with_policy(), wanted)
    folder = _points_folder(file)
    if chosen:
        _make_folder(folder, overwrite=overwrite)
    with interruptible(stop, keep_answer=False) as stopper:
        maker = _Reports(source, page, folder, runs, seed, stopper, on_progress or (lambda words: None))
        files = maker.make(chosen, _USUAL_SECONDS if time is None else time)
        made = _make_page(page, files, _words(page, source.with_policy(), chosen, files, maker.reasons))
        made.save(file, overwrite=overwrite)
    return made


def _points_folder(page: Path) -> Path:
    """Return where the reports of the points of a page are: study-points for study.html."""
    return page.with_name(f"{page.stem}-points")


class _Reports:
    """Makes the reports of points, one after the other."""

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
        self._source, self._points, self._folder = source, page.points, folder
        self._runs, self._seed, self._stop, self._tell = runs, seed, stop, tell
        self.reasons: dict[int, str] = {}  # point -> why it has no report

    def make(self, chosen: Sequence[int], seconds: float) -> dict[int, str]:
        """Write the reports; point -> its file, relative to the page."""
        start, files = perf_counter(), {}
        for number, index in enumerate(chosen):
            left = seconds - (perf_counter() - start)
            if self._stop.requested or left <= 0:
                why = "the work was interrupted" if self._stop.requested else "the time was up"
                self.reasons |= dict.fromkeys(chosen[number:], why)
                break
            self._tell(f"point {number + 1} of {len(chosen)}")
            name = _file_name(self._points[index].name, index)
            if self._made(index, self._folder / name, left):
                files[index] = f"{self._folder.name}/{name}"
        return files

    def _made(self, index: int, file: Path, left: float) -> bool:
        """Return whether the report of a point is there; what is wrong with one point does not stop the others."""
        try:
            with self._stop.part() as stop:
                inputs = self._source.inputs(index)
                made = make_report(
                    inputs.problem,
                    inputs.policy,
                    text=inputs.text,
                    solution=inputs.solution,
                    certificate=inputs.certificate,
                    runs=self._runs,
                    seed=self._seed,
                    time=left,
                    stop=stop,
                )
        except StoppedError:
            self.reasons[index] = "the time was up"
        except (OpaqError, MemoryError) as error:
            self.reasons[index] = " ".join(str(error).split())[:300] or type(error).__name__
        else:
            write_text(file, made.html, overwrite=True)
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
    """Return how many reports of points at most."""
    if points is None or points in ("all", "none"):
        return {"all": math.inf, "none": 0, None: _USUAL_POINTS}[points]
    if isinstance(points, int) and not isinstance(points, bool) and points >= 0:
        return points
    raise InputError([Fault("points", f"is {str(points)[:40]!r}", "give 'all', 'none', or how many")])


def _choose_points(page: StudyPage, usable: Sequence[int], wanted: float) -> list[int]:
    """Return the points with reports: all or, where they are too many, those that meet their task and hide most."""
    if len(usable) <= wanted:
        return list(usable)
    sign = 1.0 if page.minimise else -1.0

    def rank(index: int) -> tuple[bool, float, int]:
        point = page.points[index]
        value = 0.0 if point.hidden is None else sign * point.hidden_value(minimise=page.minimise)
        return point.outcome != "feasible", value, index

    return sorted(usable, key=rank)[: int(wanted)]


def _make_folder(folder: Path, *, overwrite: bool) -> None:
    """The folder of the reports; one that holds something stays as it is unless it may be overwritten."""
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
    """Return the file of a report: the name of the point, where that is safe in a path."""
    return f"{name if _PLAIN_NAME.fullmatch(name) else f'point-{index + 1}'}.html"


def _words(
    page: StudyPage, usable: Sequence[int], chosen: Sequence[int], files: dict[int, str], reasons: dict[int, str]
) -> str:
    """Return which points have a report, and why the others have none."""
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
