"""`opaq frontier`: a problem -> the Pareto front, as a page or as JSON, with policy files and a figure.

Checks every file before the work, calls `opaq.frontier`, writes policies and figure, then prints the answer. A signal,
and the time limit, end the work with the points so far.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.output import OutputFiles, check_figure, check_folder, code_of_status, print_json, print_page
from opaq.cli.session import compute, prepare, read_inputs
from opaq.cli.shell import (
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    expect_answer,
    print_note,
)

if TYPE_CHECKING:
    from opaq.study.front.frontier import Frontier, FrontierPoint


@shared.takes_solve_options("conditions", "seed")
def command(
    source: shared.ProblemName,
    against: Annotated[
        str | None, typer.Option(help="The requirement whose threshold varies (default: the one that the task has).")
    ] = None,
    initial_policy: shared.InitialPolicy = None,
    points: Annotated[int, typer.Option(min=2, max=1000, help="How many points, the ends included.")] = 12,
    certify: Annotated[
        bool, typer.Option("--certify", help="Prove at every point what no policy exceeds (up to 60 s each).")
    ] = False,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds after which the points so far are the answer.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="At most so many points at a time.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the front to this file (.pdf, .svg, .eps or .png).")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--save-policies", metavar="FOLDER", help="Write the policy of every point to this folder."),
    ] = None,
    overwrite: shared.Overwrite = False,
    form: shared.TableFormat = shared.Format.TEXT,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
    **options: Any,
) -> None:
    """Tell how much can be hidden for how much return: the Pareto front.

    Points go where the front bends. Ctrl-C, and --time-limit when it is over, end the work with the points so far.
    Exit codes: 0 done, 1 no policy meets the other requirements, 2 bad input, 3 not all points are there and
    converged, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    expect_answer()
    checks = Checks()
    checks.run(shared.refuse_two_formats, form, as_json=as_json)
    if plot is not None:
        checks.run(check_figure, plot, overwrite=overwrite)
    problem, policy = checks.read(read_inputs, source, initial_policy, quiet=quiet)
    with prepare(derivatives=True, quiet=quiet):
        from opaq.load import save_policy
        from opaq.reports.numbers import page_amount
        from opaq.study.front.frontier import frontier, policy_file_name

        if folder is not None:
            checks.run(check_folder, folder, map(policy_file_name, range(1, points + 1)), overwrite=overwrite)
        checks.raise_if_any()

    def note_point(point: FrontierPoint) -> None:
        """Print a line for a point that is done, unless that is not wanted."""
        if not quiet:
            reached = page_amount(point.measurement.uncertainty, "{:z.4f}".format)
            hidden = f"{reached} {problem.task.of.unit}".rstrip()
            work.progress.note(f"{point.value:.4g}: {hidden}, {point.seconds:.1f} s")

    with compute("the front", source, quiet=quiet) as work:
        front = frontier(
            problem,
            against=against,
            initial_policy=policy,
            points=points,
            certify=certify,
            **options,
            time_limit=time_limit,
            workers=workers,
            stop=work.stop,
            on_point=note_point,
            on_progress=work.progress.show,
        )
    files = OutputFiles()
    policy_files: list[Path] = []
    if folder is not None:
        for number, point in enumerate(front.points, start=1):
            policy_files.append(folder / policy_file_name(number))
            files.write(save_policy, point.policy, policy_files[-1], problem=problem, overwrite=overwrite)
    if plot is not None and front.points:
        files.write(_draw, front, plot, overwrite=overwrite)
    if folder is not None:
        print_note(f"wrote {len(front.points)} policies to {folder}")
    if plot is not None and front.points:
        print_note(f"drew the front to {plot}")

    from opaq.reports.text.frontier import frontier_page

    if as_json:
        named = front.points
        if folder is not None:
            named = tuple(replace(one, policy_file=str(file)) for one, file in zip(named, policy_files, strict=True))
        print_json(replace(front, points=named, problem_file=source).to_dict())
    else:
        print_page(frontier_page(front), form)
    raise typer.Exit(files.exit_code(_exit_code(front)))


def _draw(front: Frontier, path: Path, *, overwrite: bool) -> None:
    """Draw the front to a file; path: its ending says the format. Raises InputError where it cannot be written."""
    from opaq.reports.figures.frontier import plot_frontier
    from opaq.reports.figures.style import save_figure

    save_figure(plot_frontier(front), path, overwrite=overwrite)


def _exit_code(front: Frontier) -> int:
    """Return the exit code of a front.

    130 if it was interrupted, 1 without any point, 0 if all points are there and have converged, 3 otherwise.
    """
    if front.interrupted:
        return INTERRUPTED
    if not front.points:
        return MISSES_TASK
    codes = {code_of_status(point.status) for point in front.points}
    return DONE if front.complete and codes <= {DONE} else NOT_CONVERGED
