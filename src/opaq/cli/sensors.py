"""`opaq sensors`: a problem -> its sensors ranked by what they cost, as a page or as JSON, and a figure.

Checks the file of the figure before the work, calls `opaq.sensors`, draws, then prints the answer. A signal, and the
time limit, end the work with the trials so far.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.output import OutputFiles, check_figure, print_json, print_page
from opaq.cli.session import compute, prepare, read_inputs
from opaq.cli.shell import (
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    expect_answer,
    print_note,
)
from opaq.errors import Fault, InputError

if TYPE_CHECKING:
    from opaq.model.problem import Problem
    from opaq.study.sensors import SensorRanking, SensorTrial


@shared.takes_solve_options("conditions", "seed")
def command(
    source: shared.ProblemName,
    policy_file: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar=shared.POLICY,
            help="The policy that --fixed measures: uniform (default), return-optimal or a file.",
        ),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Measure the same policy with every change, in place of searches.")
    ] = False,
    initial_policy: shared.InitialPolicy = None,
    change: Annotated[
        str | None,
        typer.Option(help='Rates to try where a sensor covers: "x0.5" halves, "1" sets (default: x0.5,1).'),
    ] = None,
    null: Annotated[
        str | None,
        typer.Option(help="The observation when no sensor fires, if no sensors are stated."),
    ] = None,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds after which the trials so far are the answer.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="At most so many trials at a time.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the costs to this file (.pdf, .svg, .eps or .png).")] = None,
    overwrite: shared.Overwrite = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
    **options: Any,
) -> None:
    """Tell which sensor costs the most opacity: each one removed, each one's rate changed.

    The problem is solved again for every change, beginning at the best policy so far; with --fixed the policy stays the
    same. Ctrl-C, and --time-limit when it is over, end the work with the trials so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 trials are missing, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    expect_answer()
    idle = []
    if fixed and options["conditions"] is not None:
        idle.append(Fault("--conditions", "has no effect with --fixed", "it belongs to a search"))
    if initial_policy is not None and (fixed or policy_file is not None):
        finding = "has no effect with --fixed" if fixed else "and --policy both say where the search begins"
        idle.append(Fault("--initial-policy", finding, "give one of them"))
    checks = Checks(*([InputError(idle)] if idle else []))
    if plot is not None:
        checks.run(check_figure, plot, overwrite=overwrite)
    problem, policy = checks.read(read_inputs, source, policy_file or initial_policy, quiet=quiet)
    checks.raise_if_any()
    with prepare(derivatives=True, quiet=quiet):
        from opaq.reports.numbers import amount_cell
        from opaq.reports.text.sensors import ranking_page
        from opaq.study.sensors import CHANGES, sensors

    def note_trial(trial: SensorTrial) -> None:
        """Print a line for a trial that is done; nothing where the policy is fixed, or progress is not wanted."""
        if not (quiet or fixed):
            gain = amount_cell(trial.gain, sign="+")
            work.progress.note(f"{trial.sensor} {trial.change}: {gain} ({trial.seconds:.1f} s)")

    with compute("the sensors", source, quiet=quiet) as work:
        ranking = sensors(
            problem,
            policy,
            fixed=fixed,
            changes=CHANGES if change is None else [word for word in change.split(",") if word.strip()],
            null=null,
            **options,
            time_limit=time_limit,
            workers=workers,
            stop=work.stop,
            on_trial=note_trial,
            on_progress=work.progress.show,
        )
    files = OutputFiles()
    if plot is not None and files.write(_draw, ranking, problem, plot, overwrite=overwrite):
        print_note(f"drew the costs to {plot}")
    if as_json:
        print_json(ranking.to_dict())
    else:
        print_page(ranking_page(ranking))
    raise typer.Exit(files.exit_code(_exit_code(ranking)))


def _draw(ranking: SensorRanking, problem: Problem, path: Path, *, overwrite: bool) -> None:
    """Draw the costs to a file; path: its ending says the format. Raises InputError where it cannot be written."""
    from opaq.reports.figures.sensors import plot_sensors
    from opaq.reports.figures.style import save_figure

    save_figure(plot_sensors(ranking, problem), path, overwrite=overwrite)


def _exit_code(ranking: SensorRanking) -> int:
    """Return the exit code of a ranking.

    130 if it was interrupted, 1 if the search found no policy for the task, 0 if all trials were made, 3 otherwise.
    """
    if ranking.interrupted:
        return INTERRUPTED
    if not ranking.base.feasible and not ranking.fixed:
        return MISSES_TASK
    return DONE if ranking.complete else NOT_CONVERGED
