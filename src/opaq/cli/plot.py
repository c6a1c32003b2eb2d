"""`opaq plot`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import shared_options as shared
from opaq.cli.shared_options import drop_unset, flag
from opaq.cli.shell import expect_answer, faults_in, print_answer
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class What(StrEnum):
    """What is drawn."""

    POLICY = "policy"
    BELIEFS = "beliefs"
    TRACE = "trace"
    LADDER = "ladder"
    FRONTIER = "frontier"


class Over(StrEnum):
    """What beliefs are about."""

    SECRET = "secret"
    STATES = "states"


class Width(StrEnum):
    """The width of a figure."""

    SINGLE = "single"
    DOUBLE = "double"


_USED = {
    What.POLICY: {"policy", "time"},
    What.BELIEFS: {"policy", "time", "run", "seed", "over"},
    What.TRACE: {"from"},
    What.LADDER: {"from"},
    What.FRONTIER: {"from"},
}
_SOURCE = {What.TRACE: "solve", What.LADDER: "compare", What.FRONTIER: "frontier"}  # whose answer is drawn


def command(
    what: Annotated[What, typer.Argument(metavar="WHAT", help="policy, beliefs, trace, ladder or frontier.")],
    problem: Annotated[
        str | None,
        typer.Argument(
            metavar="PROBLEM",
            help="A problem file or the name of a scenario; beside --from, its name is the title.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write: .pdf, .svg or .png.")
    ] = ...,  # type: ignore[assignment]  # required
    policy: shared.PolicyFile = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="What --json printed, or the folder of a run (solve --run)."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="T[,T...]", help="The times to show, such as 3 or 0,4,8: a panel each.")
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Which sampled run, as `opaq simulate` counts them.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the sampled runs.")] = None,
    over: Annotated[Over | None, typer.Option(help="Beliefs over the secret (default), or over the states.")] = None,
    column: Annotated[
        Width, typer.Option(help="The width: one column of a paper (3.4 in) or two (7 in).")
    ] = Width.SINGLE,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="A line above the figure.")] = None,
    dpi: Annotated[int | None, typer.Option(min=30, max=2400, help="Pixels per inch of a .png (default: 300).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    quiet: shared.Quiet = False,
) -> None:
    """Draw a figure for a paper, and print the name of its file.

    policy: what it does, as arrows on a grid or as a table. beliefs: what the observer believes during one run.
    trace, ladder, frontier: the answer of solve, compare or frontier, from the file that --json was sent to.
    """
    from opaq.cli.progress import ProgressPrinter
    from opaq.files import check_writable
    from opaq.reports.figures.style import ending_of, save_figure

    options = {"policy": policy, "from": from_, "time": time, "run": run, "seed": seed, "over": over}
    _check(what, problem, options)
    expect_answer()
    ending = ending_of(output)
    if dpi is not None and ending != ".png":
        raise InputError([Fault("--dpi", f"has no effect on {ending}", "it belongs to .png")])
    check_writable(output, overwrite=force)
    shape = {"column": column.value, "title": title}
    if from_ is not None:
        figure = _of_answer(what, from_, problem, shape)
    else:
        figure = _of_problem(what, str(problem), policy, drop_unset(options | {"policy": None}), shape, quiet=quiet)
    with ProgressPrinter("drawing", quiet=quiet):
        save_figure(figure, output, dpi=dpi, overwrite=force)
    print_answer(str(output))


def _check(what: What, problem: str | None, options: Mapping[str, Any]) -> None:
    """Options that the figure ignores are refused, and those it needs are asked for."""
    users = {name: ", ".join(each for each, used in _USED.items() if name in used) for name in options}
    faults = [
        Fault(flag(name), f"has no effect with {what}", f"it belongs to {users[name]}")
        for name, value in options.items()
        if value is not None and name not in _USED[what]
    ]
    if what in _SOURCE and options["from"] is None:
        faults.append(
            Fault("--from", "is missing", f"make the file first: opaq {_SOURCE[what]} PROBLEM --json > answer.json")
        )
    if what not in _SOURCE and problem is None:
        faults.append(Fault("PROBLEM", "is missing", "give a problem file or the name of a scenario"))
    if faults:
        raise InputError(faults)


def _of_problem(
    what: What, problem: str, policy: Path | None, options: dict[str, Any], shape: Mapping[str, Any], *, quiet: bool
) -> Figure:
    """A figure that the problem and the policy give."""
    from opaq.cli.inputs import read_inputs
    from opaq.cli.progress import ProgressPrinter

    if "time" in options:
        options["time"] = _times(options["time"])
    stated, chosen = read_inputs(problem, policy, quiet=quiet)
    source = problem if policy is None else str(policy)
    with ProgressPrinter("drawing", quiet=quiet), _naming_times(), faults_in(source):
        from opaq.reports.figures.beliefs import plot_beliefs
        from opaq.reports.figures.policy import plot_policy

        draw = plot_policy if what is What.POLICY else plot_beliefs
        return draw(stated, chosen, **options, **shape)


@contextmanager
def _naming_times() -> Iterator[None]:
    """Times that do not fit are a fault of the option, not of a file."""
    try:
        yield
    except InputError as error:
        if not all(fault.where.startswith(("time", "number of times")) for fault in error.faults):
            raise
        raise InputError([replace(fault, where="--time") for fault in error.faults]) from None


def _of_answer(what: What, path: Path, problem: str | None, shape: dict[str, Any]) -> Figure:
    """A figure of an answer; the problem, where it is named, gives the title."""
    from opaq.certificates.certify import CertifiedSolution
    from opaq.load import load_problem
    from opaq.reports.answers import read_answer
    from opaq.reports.figures.comparison import plot_comparison
    from opaq.reports.figures.frontier import plot_frontier
    from opaq.reports.figures.trace import plot_trace
    from opaq.solvers.compare import Comparison
    from opaq.solvers.solve import Solution
    from opaq.study.front.frontier import Frontier

    if problem is not None:
        name = load_problem(problem).name
        shape = shape | {"title": shape["title"] or name}
    answer = read_answer(path)
    answer = answer.solution if isinstance(answer, CertifiedSolution) else answer
    with faults_in(str(path)):
        if what is What.TRACE and isinstance(answer, Solution):
            return plot_trace(answer, **shape)
        if what is What.LADDER and isinstance(answer, Comparison):
            return plot_comparison(answer, **shape)
        if what is What.FRONTIER and isinstance(answer, Frontier):
            return plot_frontier(answer, **shape)
        finding = f"is the answer of {answer.PRINTED_BY}, not of {_SOURCE[what]}"
        raise InputError([Fault("", finding, f"make the file with opaq {_SOURCE[what]} PROBLEM --json")])


def _times(text: str) -> list[int]:
    """Times between commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError([Fault("--time", f"'{text}' is no list of times", "write them as 3 or 0,4,8")]) from None
