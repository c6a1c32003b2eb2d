"""`opaq sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shell import DONE, INTERRUPTED, NOT_CONVERGED, expect_answer, page_width, print_answer, print_note, warn
from opaq.errors import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from opaq.cli.progress import ProgressPrinter
    from opaq.study.sweep.run import SweepProgress
    from opaq.study.sweep.study import Study


def command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan: a problem, and what is varied in it.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go; a sweep that was begun there goes on.")],
    on: Annotated[str, typer.Option(metavar="local|ray|ray://HOST:PORT", help="Where points are solved.")] = "local",
    processes: Annotated[
        int | None, typer.Option(min=1, help="At most so many points side by side (default: one per core).")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Solve points again that failed before.")] = False,
    time: Annotated[float | None, shared.time_limit("Seconds per point (default: as the plan says).")] = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Solve a problem for many values of its parameters, and keep every result.

    Points that are done are never solved again: after Ctrl-C, a crash or a power cut, the same command goes on.
    A point whose task is infeasible is done. FOLDER gets results.csv, the policies and one journal.
    Exit codes: 0 done, 2 bad input, 3 some points failed, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.progress import ProgressPrinter

    expect_answer()
    faults = Faults()
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN) as progress:
        from opaq.study.sweep.run import sweep

        try:
            with interrupts.computing() as stop:
                study = sweep(
                    plan,
                    to=to,
                    on=on,
                    processes=processes,
                    retry=retry,
                    time=time,
                    on_progress=_sweep_progress(progress),
                    stop=stop,
                    faults=faults,
                )
        finally:
            warn(faults.warnings, str(plan))
    _deliver(study, as_json=as_json)
    if study.interrupted:
        print_note(_left(len(study.unfinished)))
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(NOT_CONVERGED if study.failed or study.unfinished else DONE)


def _sweep_progress(printer: ProgressPrinter) -> Callable[[SweepProgress], None]:
    """What a sweep calls when something has happened; failed points get a line that stays."""

    def show(progress: SweepProgress) -> None:
        if progress.message:
            printer.note(progress.message)
        words = [f"{progress.done} of {progress.total} done", f"{progress.running} running"]
        words += [f"{progress.failed} failed"] if progress.failed else []
        words += [] if progress.seconds_left is None else [f"about {_duration(progress.seconds_left)} left"]
        printer.show(", ".join(words), label="sweeping")

    return show


def _left(count: int) -> str:
    """Return the sentence about points without a result."""
    if count == 1:
        return "1 point is left; the same command goes on with it"
    return f"{count:,} points are left; the same command goes on with them"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _deliver(study: Study, *, as_json: bool) -> None:
    import json

    from opaq.cli.terminal_tables import render_page
    from opaq.reports.text.study import study_page

    page = study_page(study, width=page_width())
    print_answer(json.dumps(study.to_dict(), indent=2) if as_json else render_page(page))
