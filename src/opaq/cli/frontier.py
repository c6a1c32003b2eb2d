"""`opaq frontier`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shell import expect_answer, faults_in, print_note

if TYPE_CHECKING:
    from opaq.study.front.frontier import FrontierPoint


def command(
    problem: shared.ProblemName,
    against: Annotated[
        str | None, typer.Option(help="The requirement whose threshold varies (default: the return).")
    ] = None,
    points: Annotated[int, typer.Option(min=2, max=1000, help="How many points, the ends included.")] = 12,
    conditions: shared.Conditions = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Prove at every point what no policy exceeds (up to 60 s each).")
    ] = False,
    seed: shared.Seed = None,
    time: Annotated[float | None, shared.time_limit("Seconds after which the points so far are the answer.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="At most so many points at a time.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the front to this file (.pdf, .svg or .png).")] = None,
    policies: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the policy of every point to this folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Tell how much can be hidden for how much return: the Pareto front.

    Points go where the front bends. Ctrl-C, and --time when it is over, end the work with the points so far.
    Exit codes: 0 done, 1 no policy meets the other requirements, 2 bad input, 3 not all points are there and
    converged, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.inputs import read_inputs
    from opaq.cli.progress import ProgressPrinter

    expect_answer()
    stated, _ = read_inputs(problem, None, quiet=quiet)
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.cli.front_files import FrontFiles, deliver
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.study.front.frontier import frontier

        files = FrontFiles.prepare(plot, policies, stated, source=problem, count=points, overwrite=force)
        compile_kernels(derivatives=True)

    def done(point: FrontierPoint) -> None:
        if not quiet:
            hidden = f"{point.measurement.uncertainty.value:.4f} {stated.task.of.unit}".rstrip()
            progress.note(f"{point.value:.4g}: {hidden}, {point.seconds:.1f} s")

    with interrupts.computing() as stop, ProgressPrinter("the front", quiet=quiet) as progress, faults_in(problem):
        front = frontier(
            stated,
            against=against or "return",
            points=points,
            conditions=conditions,
            certify=certify,
            seed=seed,
            time=time,
            processes=processes,
            stop=stop,
            on_point=done,
            on_progress=progress.show,
        )
    files.write(front)
    for line in files.notes:
        print_note(line)
    raise typer.Exit(deliver(front, files, as_json=as_json))
