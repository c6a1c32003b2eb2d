"""The files and the answer of `opaq frontier`: an answer is never lost to a file that cannot be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opaq.cli.shell import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    code_of_status,
    print_answer,
    print_faults,
)
from opaq.cli.terminal_tables import render_page
from opaq.errors import Fault, Faults, InputError
from opaq.files import check_writable
from opaq.load import save_policy
from opaq.model.problem import Problem
from opaq.reports.text.frontier import frontier_page
from opaq.study.front.frontier import Frontier, policy_file_name


@dataclass(slots=True)
class FrontFiles:
    """Where the picture and the policies go, if anywhere."""

    plot: Path | None
    policies: Path | None
    problem: Problem
    source: str  # what the problem was read from
    overwrite: bool
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    @classmethod
    def prepare(
        cls, plot: Path | None, policies: Path | None, problem: Problem, *, source: str, count: int, overwrite: bool
    ) -> FrontFiles:
        """Try every file; InputError lists all that cannot be written."""
        if plot is not None:
            from opaq.reports.figures.style import ending_of, require_matplotlib

            require_matplotlib()
            ending_of(plot)
            check_writable(plot, overwrite=overwrite)
        if policies is not None:
            _check_folder(policies, count, overwrite)
        return cls(plot, policies, problem, source, overwrite)

    def write(self, front: Frontier) -> None:
        """Write them; what goes wrong is said."""
        folder, plot = self.policies, self.plot
        if folder is not None:
            for number, point in enumerate(front.points, start=1):
                file = folder / policy_file_name(number)
                self._try(lambda file=file, point=point: save_policy(  # type: ignore[misc]
                    point.policy, file, problem=self.problem, overwrite=self.overwrite))  # fmt: skip
            self.notes.append(f"wrote {len(front.points)} policies to {folder}")
        if plot is not None and front.points:
            self._try(lambda: draw(front, plot, overwrite=self.overwrite))
            self.notes.append(f"drew the front to {plot}")

    def to_dict(self, front: Frontier) -> dict[str, Any]:
        """The front as plain data, with the files that it came from and went to."""
        folder = self.policies
        points = tuple(
            point if folder is None else replace(point, policy_file=str(folder / policy_file_name(number)))
            for number, point in enumerate(front.points, start=1)
        )
        return replace(front, points=points, problem_file=self.source).to_dict()

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except InputError as error:
            print_faults(error)
            self.failed = True


def _check_folder(folder: Path, count: int, overwrite: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError([Fault("", f"cannot be made a folder ({error.strerror})")], str(folder)) from None
    faults = Faults()
    for number in range(1, count + 1):
        try:
            check_writable(folder / policy_file_name(number), overwrite=overwrite)
        except InputError as error:
            faults.errors += [Fault(policy_file_name(number), fault.found, fault.advice) for fault in error.faults]
    faults.raise_if_any(str(folder))


def draw(front: Frontier, path: Path, *, overwrite: bool) -> None:
    """The front as a picture."""
    from opaq.reports.figures.frontier import plot_frontier
    from opaq.reports.figures.style import save_figure

    save_figure(plot_frontier(front), path, overwrite=overwrite)


def deliver(front: Frontier, files: FrontFiles, *, as_json: bool) -> int:
    """Print the answer; the exit code."""
    if as_json:
        print_answer(json.dumps(files.to_dict(front), indent=2))
    else:
        print_answer(render_page(frontier_page(front)))
    return BAD_INPUT if files.failed else _code(front)


def _code(front: Frontier) -> int:
    if front.interrupted:
        return INTERRUPTED
    if not front.points:
        return MISSES_TASK
    codes = {code_of_status(point.status) for point in front.points}
    return DONE if front.complete and codes <= {DONE} else NOT_CONVERGED
