"""`opaq sweep`: a plan -> a folder with the results of every point, and the table of them as a page or as JSON.

Calls `opaq.sweep`, which goes on where an earlier one ended; warnings about the plan and progress go to stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.interrupts import PROCESS_START, interrupts
from opaq.cli.output import print_json, print_page
from opaq.cli.progress import ProgressPrinter
from opaq.cli.shell import DONE, INTERRUPTED, NOT_CONVERGED, expect_answer, page_width, print_note, warn
from opaq.errors import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from opaq.study.sweep.run import SweepProgress


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan: a problem, and what is varied in it.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Where results go; a sweep that was begun there goes on."
        ),
    ],
    executor: Annotated[
        str, typer.Option(metavar="local|ray|ray://HOST:PORT", help="Where points are solved.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="At most so many points side by side (default: one per core).")
    ] = None,
    initial_policy: shared.InitialPolicy = None,
    retry: Annotated[bool, typer.Option("--retry", help="Solve points again that failed before.")] = False,
    time_limit: Annotated[float | None, shared.time_limit("Seconds per point (default: as the plan says).")] = None,
    form: shared.TableFormat = shared.Format.TEXT,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Solve a problem for many values of its parameters, and keep every result.

    Points that are done are never solved again: after Ctrl-C, a crash or a power cut, the same command goes on.
    A point whose task is infeasible is done. FOLDER gets results.csv, the policies and one journal.
    Exit codes: 0 done, 2 bad input, 3 some points failed, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    shared.refuse_two_formats(form, as_json=as_json)
    expect_answer()
    faults = Faults()
    with ProgressPrinter("preparing", quiet=quiet, since=PROCESS_START) as progress:
        from opaq.study.sweep.run import sweep

        try:
            with interrupts.computing() as stop:
                study = sweep(
                    plan,
                    output=output,
                    executor=executor,
                    workers=workers,
                    initial_policy=initial_policy,
                    retry=retry,
                    time_limit=time_limit,
                    on_progress=_sweep_progress(progress),
                    stop=stop,
                    faults=faults,
                )
        finally:
            warn(faults.warnings, str(plan))

    from opaq.reports.text.study import study_page

    if as_json:
        print_json(study.to_dict())
    else:
        latex = form is shared.Format.LATEX
        print_page(study_page(study, width=None if latex else page_width()), form)
    if study.interrupted:
        left = len(study.unfinished)
        points = "1 point is" if left == 1 else f"{left:,} points are"
        rest = "it" if left == 1 else "them"
        if left == 0:
            points, rest = "trying policies at neighbouring points is", "that"
        print_note(f"{points} left; the same command goes on with {rest}")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(NOT_CONVERGED if study.failed or study.unfinished else DONE)


def _sweep_progress(printer: ProgressPrinter) -> Callable[[SweepProgress], None]:
    """Return a function that a sweep calls when something has happened; failed points get a line that stays."""

    def show(progress: SweepProgress) -> None:
        """Store the counts of points as the line of progress, and print the message, if there is one."""
        if progress.message:
            printer.note(progress.message)
        words = [f"{progress.done} of {progress.total} done", f"{progress.running} running"]
        words += [f"{progress.failed} failed"] if progress.failed else []
        words += [] if progress.seconds_left is None else [f"about {_duration(progress.seconds_left)} left"]
        printer.show(", ".join(words), label="sweeping")

    return show


def _duration(seconds: float) -> str:
    """Return a time, given in seconds, in the unit that suits it: seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
