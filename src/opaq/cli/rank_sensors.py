"""`opaq sensors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shell import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    expect_answer,
    faults_in,
    print_answer,
    print_faults,
    print_note,
)
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from opaq.model.problem import Problem
    from opaq.study.sensors import SensorRanking, SensorTrial


def command(
    problem: shared.ProblemName,
    policy: Annotated[
        Path | None, typer.Option(help="A policy file: the fixed one, or where the search begins.")
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Measure the same policy (uniform without a file) with every change.")
    ] = False,
    change: Annotated[
        str | None,
        typer.Option(help='Rates to try where a sensor covers: "x0.5" halves, "1" sets (default: x0.5,1).'),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(help="The observation when no sensor fires, if no sensors are stated."),
    ] = None,
    conditions: shared.Conditions = None,
    seed: shared.Seed = None,
    time: Annotated[float | None, shared.time_limit("Seconds after which the trials so far are the answer.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="At most so many trials at a time.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the costs to this file (.pdf, .svg or .png).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the picture.")] = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Tell which sensor costs the most opacity: each one removed, each one's rate changed.

    The problem is solved again for every change, beginning at the best policy so far; with --fixed the policy stays the
    same. Ctrl-C, and --time when it is over, end the work with the trials so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 trials are missing, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.inputs import read_inputs
    from opaq.cli.progress import ProgressPrinter

    expect_answer()
    if fixed and conditions is not None:
        raise InputError([Fault("--conditions", "has no effect with --fixed", "it belongs to a search")])
    if plot is not None:
        _check_plot(plot, overwrite=force)
    stated, chosen = read_inputs(problem, policy, quiet=quiet)
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.reports.numbers import amount_cell
        from opaq.study.sensors import CHANGES, sensors

        compile_kernels(derivatives=True)

    def done(trial: SensorTrial) -> None:
        if not (quiet or fixed):
            progress.note(f"{trial.sensor} {trial.change}: {amount_cell(trial.gain, sign='+')} ({trial.seconds:.1f} s)")

    with interrupts.computing() as stop, ProgressPrinter("the sensors", quiet=quiet) as progress, faults_in(problem):
        ranking = sensors(
            stated,
            chosen,
            fixed=fixed,
            changes=CHANGES if change is None else [word for word in change.split(",") if word.strip()],
            null=null,
            conditions=conditions,
            seed=seed,
            time=time,
            processes=processes,
            stop=stop,
            on_trial=done,
            on_progress=progress.show,
        )
    failed = plot is not None and not _draw_figure(ranking, stated, plot, overwrite=force)
    _show(ranking, as_json=as_json)
    raise typer.Exit(BAD_INPUT if failed else _code(ranking))


def _check_plot(path: Path, *, overwrite: bool) -> None:
    from opaq.files import check_writable
    from opaq.reports.figures.style import ending_of, require_matplotlib

    require_matplotlib()
    ending_of(path)
    check_writable(path, overwrite=overwrite)


def _draw_figure(ranking: SensorRanking, problem: Problem, path: Path, *, overwrite: bool) -> bool:
    """Whether the picture could be written; what went wrong is said."""
    from opaq.reports.figures.sensors import plot_sensors
    from opaq.reports.figures.style import save_figure

    try:
        save_figure(plot_sensors(ranking, problem), path, overwrite=overwrite)
    except InputError as error:
        print_faults(error)
        return False
    print_note(f"drew the costs to {path}")
    return True


def _show(ranking: SensorRanking, *, as_json: bool) -> None:
    import json

    from opaq.cli.terminal_tables import render_page
    from opaq.reports.text.sensors import ranking_page

    print_answer(json.dumps(ranking.to_dict(), indent=2) if as_json else render_page(ranking_page(ranking)))


def _code(ranking: SensorRanking) -> int:
    if ranking.interrupted:
        return INTERRUPTED
    if not ranking.base.feasible and not ranking.fixed:
        return MISSES_TASK
    return DONE if ranking.complete else NOT_CONVERGED
