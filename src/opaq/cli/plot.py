"""`opaq plot`: a problem with a policy, the file of an answer, or the folder of a sweep -> a figure in a file.

Checks options and file before the work; policies and beliefs are computed here, the other figures show an answer that
was computed before. The name of the file is the answer on stdout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.options import drop_unset, find_idle_options, name_option
from opaq.cli.progress import ProgressPrinter
from opaq.cli.session import read_inputs
from opaq.cli.shell import expect_answer, faults_in, print_answer
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from opaq.model.policy import Policy
    from opaq.model.problem import Problem


class What(StrEnum):
    """The figures there are, as WHAT names them.

    policy: the actions in every state. beliefs: those of the observer along one run. Both are computed from a problem.
    trace, ladder, frontier: the answers of solve, compare and frontier, drawn from a file.
    study: the points of a sweep, drawn from its folder.
    """

    POLICY = "policy"
    BELIEFS = "beliefs"
    TRACE = "trace"
    LADDER = "ladder"
    FRONTIER = "frontier"
    STUDY = "study"


class Over(StrEnum):
    """The values that beliefs are over, as `--over` names them: those of the secret, or the states of the model."""

    SECRET = "secret"
    STATES = "states"


class Width(StrEnum):
    """The widths of a figure, as `--column` names them: 3.4 inches or 7."""

    SINGLE = "single"
    DOUBLE = "double"


_USED = {
    What.POLICY: {"policy", "time"},
    What.BELIEFS: {"policy", "time", "run", "seed", "over", "of", "for"},
    What.TRACE: {"answer"},
    What.LADDER: {"answer"},
    What.FRONTIER: {"answer"},
    What.STUDY: {"across"},
}
_SOURCE = {What.TRACE: "solve", What.LADDER: "compare", What.FRONTIER: "frontier"}  # whose answer is drawn


def command(
    what: Annotated[What, typer.Argument(metavar="WHAT", help="The figure.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="PROBLEM",
            help="A problem file, a scenario (beside --answer, the title), or of a study the folder of the sweep.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write: .pdf, .svg, .eps or .png.")
    ] = ...,  # type: ignore[assignment]  # required
    policy_file: shared.PolicyName = None,
    of: shared.OfSecret = None,
    for_: shared.ForObserver = None,
    answer: Annotated[
        Path | None,
        typer.Option(
            "--answer", metavar="FILE", help="What --json printed, or the folder of a run (solve --run-folder)."
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="T[,T...]", help="The times to show, such as 3 or 0,4,8: a panel each.")
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Which sampled run, as `opaq simulate` counts them.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of the sampled runs.")] = None,
    over: Annotated[Over | None, typer.Option(help="Beliefs over the secret (default), or over the states.")] = None,
    across: Annotated[
        str | None, typer.Option(metavar="PATH", help="The horizontal axis of a study (default: what varies).")
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(metavar="NAME or FILE", help="A style of matplotlib, its file, or user: your matplotlibrc."),
    ] = None,
    column: Annotated[
        Width, typer.Option(help="The width: one column of a paper (3.4 in) or two (7 in).")
    ] = Width.SINGLE,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="A line above the figure.")] = None,
    dpi: Annotated[int | None, typer.Option(min=30, max=2400, help="Pixels per inch of a .png (default: 300).")] = None,
    overwrite: shared.Overwrite = False,
    quiet: shared.Quiet = False,
) -> None:
    """Draw a figure for a paper, and print the name of its file.

    policy: what it does, as arrows on a grid or as a table. beliefs: what the observer believes during one run.
    trace, ladder, frontier: the answer of solve, compare or frontier, from the file that --json was sent to.
    study: what a sweep found by what was varied, from its folder.
    """
    from opaq.reports.figures.style import figure_style, save_figure

    options = {"policy": policy_file, "answer": answer, "time": time, "run": run, "seed": seed, "over": over}
    options |= {"across": across, "of": of, "for": for_}
    expect_answer()
    checks = Checks()
    checks.run(_check, what, source, options)
    checks.run(_check_output, output, dpi=dpi, overwrite=overwrite)
    if time is not None:
        checks.run(_parse_times, time)
    if source is not None and what in (What.POLICY, What.BELIEFS):
        problem, policy = checks.read(read_inputs, source, policy_file, of=of, for_=for_, quiet=quiet)
    checks.raise_if_any()
    shape = {"column": column.value, "title": title}
    with name_option("style"), ExitStack() as looks:
        if style is not None:
            looks.enter_context(figure_style(style))
        if answer is not None:
            figure = _draw_answer(what, answer, source, shape)
        elif what is What.STUDY:
            figure = _draw_study(str(source), across, shape)
        else:
            chosen = drop_unset(options | {"policy": None, "of": None, "for": None})
            with _name_times(), faults_in(str(policy_file or source)):
                figure = _draw_policy(what, problem, policy, chosen, shape, quiet=quiet)
        with ProgressPrinter("drawing", quiet=quiet):
            save_figure(figure, output, dpi=dpi, overwrite=overwrite)
    print_answer(str(output))


def _check(what: What, source: str | None, options: Mapping[str, Any]) -> None:
    """Refuse options that the figure ignores, and ask for those that it needs: InputError with all of them.

    what: the figure. source: the problem, None where not given. options: name -> value, None where not given.
    """
    users = {name: ", ".join(each for each, used in _USED.items() if name in used) for name in options}
    faults = find_idle_options(options, belongs_to=users, chosen=what, used=_USED[what])
    if what in _SOURCE and options["answer"] is None:
        faults.append(
            Fault("--answer", "is missing", f"make the file first: opaq {_SOURCE[what]} PROBLEM --json > answer.json")
        )
    if what is What.STUDY and source is None:
        faults.append(Fault("FOLDER", "is missing", "give the folder of a sweep: opaq plot study FOLDER"))
    elif what not in _SOURCE and source is None:
        faults.append(Fault("PROBLEM", "is missing", "give a problem file or the name of a scenario"))
    if faults:
        raise InputError(faults)


def _check_output(path: Path, *, dpi: int | None, overwrite: bool) -> None:
    """Raise InputError unless the figure can be written to the file; dpi: pixels per inch, None where not given."""
    from opaq.files import check_writable
    from opaq.reports.figures.style import ending_of

    ending = ending_of(path)
    if dpi is not None and ending != ".png":
        raise InputError([Fault("--dpi", f"has no effect on {ending}", "it belongs to .png")])
    check_writable(path, overwrite=overwrite)


def _draw_policy(
    what: What,
    problem: Problem,
    policy: Policy | str | None,
    options: dict[str, Any],
    shape: Mapping[str, Any],
    *,
    quiet: bool,
) -> Figure:
    """Draw what the policy does, or what the observer believes.

    what: POLICY or BELIEFS. problem, policy: what is drawn; None for the uniform policy.
    options: those given for the figure; a text of times is parsed here. shape: column and title. quiet: no progress.
    """
    if "time" in options:
        options["time"] = _parse_times(options["time"])
    with ProgressPrinter("drawing", quiet=quiet):
        from opaq.reports.figures.beliefs import plot_beliefs
        from opaq.reports.figures.policy import plot_policy

        draw = plot_policy if what is What.POLICY else plot_beliefs
        return draw(problem, policy, **options, **shape)


def _draw_study(folder: str, across: str | None, shape: Mapping[str, Any]) -> Figure:
    """Draw the points of a sweep; folder: where its results are. across: the path on the horizontal axis."""
    from opaq.reports.figures.study import plot_study
    from opaq.study.sweep.study import load_study

    study = load_study(folder)
    with name_option("across"), faults_in(folder):
        return plot_study(study, across=across, **shape)


@contextmanager
def _name_times() -> Iterator[None]:
    """Name the option `--time` in faults of the block that are about times: they are no fault of a file."""
    try:
        yield
    except InputError as error:
        if not all(fault.where.startswith(("time", "number of times")) for fault in error.faults):
            raise
        raise InputError([replace(fault, where="--time") for fault in error.faults]) from None


def _draw_answer(what: What, path: Path, source: str | None, shape: dict[str, Any]) -> Figure:
    """Draw an answer from its file.

    what: TRACE, LADDER or FRONTIER. path: what --json printed, or the folder of a run.
    source: the problem, whose name is then the title where none is given; None for no title. shape: column and title.

    Raises InputError where the file holds no answer, or that of another command.
    """
    from opaq.certificates.certify import CertifiedSolution
    from opaq.load import load_problem
    from opaq.reports.answers import read_answer
    from opaq.reports.figures.comparison import plot_comparison
    from opaq.reports.figures.frontier import plot_frontier
    from opaq.reports.figures.trace import plot_trace
    from opaq.solvers.compare import Comparison
    from opaq.solvers.solve import Solution
    from opaq.study.front.frontier import Frontier

    if source is not None:
        name = load_problem(source).name
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


def _parse_times(text: str) -> list[int]:
    """Return the times between commas. Raises InputError where one is no whole number."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError([Fault("--time", f"'{text}' is no list of times", "write them as 3 or 0,4,8")]) from None
