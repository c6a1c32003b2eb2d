"""End a command: files first, then a page or JSON, then an exit code.

Comes in: an answer, and the files that it goes to. Goes out: what is on stdout, and a code. An answer is never lost to
a file that cannot be written: the fault is shown, and the exit code tells of it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from opaq.cli.options import Format
from opaq.cli.shell import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    page_width,
    print_answer,
    print_faults,
)
from opaq.errors import Fault, Faults, InputError

if TYPE_CHECKING:
    from opaq.model.arrays import FloatArray
    from opaq.model.policy import Policy
    from opaq.model.problem import Problem
    from opaq.product.compile import Product
    from opaq.reports.layout import Page
    from opaq.solvers.strategy import Status

_P = ParamSpec("_P")
_UNFINISHED = ("SETTLED", "STOPPED", "EDGE", "TIME_LIMIT")  # names of Status
_MISSED = ("INFEASIBLE", "NOT_FOUND")


@dataclass(slots=True)
class OutputFiles:
    """The files of one answer; failed: True once one of them could not be written."""

    failed: bool = False

    def write(self, write: Callable[_P, None], *arguments: _P.args, **options: _P.kwargs) -> bool:
        """Call a function that writes a file, and return whether it could; its faults are shown.

        write: raises InputError where it cannot. arguments, options: what it is called with.
        """
        try:
            write(*arguments, **options)
        except InputError as error:
            print_faults(error)
            self.failed = True
            return False
        return True

    def exit_code(self, code: int) -> int:
        """Return `code`, which is right if all files were written, or that of bad input if one was not."""
        return BAD_INPUT if self.failed else code


def keep_policy(policy: Policy, problem: Problem, source: str) -> Path | None:
    """Write a policy to a file of its own in the working folder, and return it; None where it cannot be written.

    problem: what the policy is for. source: the problem as the user named it, after which the file is called:
    NAME.policy.json, then NAME.policy-2.json and so on. No file is ever replaced; one that holds this very policy is
    taken as it is.
    """
    from opaq.files import write_text
    from opaq.formats.plain import json_text
    from opaq.spec.policy_table import policy_to_dict

    text = json_text(policy_to_dict(policy, problem=problem))
    name = re.sub(r"\.(ya?ml|json)$", "", Path(source).name).lstrip("-") or "problem"
    for file in chain([Path(f"{name}.policy.json")], (Path(f"{name}.policy-{number}.json") for number in count(2))):
        try:
            if not file.exists():
                write_text(file, text)
                return file
            if file.is_file() and file.read_bytes() == text.encode():
                return file
        except (InputError, OSError):
            return None
    raise AssertionError("there is always a free name")


def check_folder(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Make a folder and try every file that is to go there, before any work.

    names: of the files. overwrite: True where those that are there may be replaced.
    Raises InputError where it cannot be made, else with all files that cannot be written.
    """
    from opaq.files import check_writable

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError([Fault("", f"cannot be made a folder ({error.strerror})")], str(folder)) from None
    faults = Faults()
    for name in names:
        try:
            check_writable(folder / name, overwrite=overwrite)
        except InputError as error:
            faults.errors += [replace(fault, where=name) for fault in error.faults]
    faults.raise_if_any(str(folder))


def check_figure(path: Path, *, overwrite: bool) -> None:
    """Raise InputError unless a figure can be drawn to the file: its ending, the folder, and matplotlib.

    overwrite: True where a file that is there may be replaced.
    """
    from opaq.files import check_writable
    from opaq.reports.figures.style import ending_of, require_matplotlib

    require_matplotlib()
    ending_of(path)
    check_writable(path, overwrite=overwrite)


def check_grid(problem: Problem, source: str, *, grid: bool, time: int | None = None, as_json: bool) -> None:
    """Refuse what `--grid` and `--grid-time` cannot draw, before any work.

    problem, source: what was read, and its name for messages. grid, time: the two options; neither given is fine.
    as_json: True where the answer is JSON, which has no pictures.

    Raises InputError where there is no grid, for a time after the horizon, and for a picture in JSON.
    """
    option = "--grid" if grid else "--grid-time"
    if not grid and time is None:
        return
    if as_json:
        raise InputError([Fault(option, "has no effect with --json", "leave one of them out")])
    from opaq.reports.grid import GridView

    if GridView.of(problem) is None:
        finding = "the problem is no grid: its states are not cells called (column,row)"
        raise InputError([Fault(option, finding, f"leave {option} out")], source)
    if time is not None and time > problem.horizon:
        raise InputError([Fault("--grid-time", f"is {time}", f"give a time up to {problem.horizon}")], source)


def add_grid(page: Page, product: Product, pi: FloatArray, *, time: int | None) -> Page:
    """Return the page with the policy as arrows on the grid as its last part.

    product, pi: the compiled problem and the policy as a vector. time: of the arrows; None averages over the run.
    Arrows are ASCII where the encoding of stdout has no others.
    """
    from opaq.reports.grid import PolicyView, Symbols, policy_lines

    symbols = Symbols.for_encoding(sys.stdout.encoding)
    lines = policy_lines(PolicyView(product, pi), time=time, symbols=symbols, width=page_width())
    return replace(page, parts=(*page.parts, lines))


def print_page(page: Page, form: Format = Format.TEXT) -> bool:
    """Print a page as it suits stdout: with looks on a terminal, plain elsewhere, or its tables as LaTeX.

    Returns whether it is still read. Raises OutputError where stdout cannot be written.
    """
    if form is Format.LATEX:
        from opaq.reports.latex import render_latex

        return print_answer(render_latex(page).removesuffix("\n"))
    return print_answer(render_page(page))


def print_json(data: object) -> None:
    """Print data as JSON, indented by two; raises OutputError where stdout cannot be written."""
    print_answer(json.dumps(data, indent=2))


def code_of_status(status: Status) -> int:
    """Return the exit code of a solve by how it ended.

    0 done, 1 infeasible or no policy found for the task, 3 not converged, 130 interrupted.
    """
    if status.name == "INTERRUPTED":
        return INTERRUPTED
    return NOT_CONVERGED if status.name in _UNFINISHED else MISSES_TASK if status.name in _MISSED else DONE


def name_policy_file(class_name: str) -> str:
    """Return the file for the policy of a class: "state, memory:2" goes to state-memory-2.json."""
    return re.sub(r"[^a-z0-9_]+", "-", class_name) + ".json"


def on_terminal() -> bool:
    """Return whether the answer goes to a terminal, where a page may have looks; pipes and files get plain text.

    A terminal that calls itself "dumb" counts as none.
    """
    there = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    return there and os.environ.get("TERM") != "dumb"


def render_page(page: Page) -> str:
    """Return the page as it suits stdout, as wide as its terminal or 100 columns.

    Heads stand out on a terminal unless NO_COLOR is set.
    """
    from opaq.reports.layout import render_terminal, render_text

    if not on_terminal():
        return render_text(page, width=page_width())
    return render_terminal(page, width=page_width(), styled=not os.environ.get("NO_COLOR"))
