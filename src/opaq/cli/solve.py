"""`opaq solve`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import shared_options as shared
from opaq.cli.grid_option import Grid, GridTime, check_grid
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shell import INTERRUPTED, MISSES_TASK, code_of_status, expect_answer, faults_in, print_note, warn
from opaq.errors import Fault, Faults, InputError

if TYPE_CHECKING:
    from opaq.certificates.certify import Certificate
    from opaq.cli.run_folder import RunFolder
    from opaq.model.problem import Problem
    from opaq.solvers.solve import Solution


def command(
    context: typer.Context,
    problem: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")
    ] = None,
    policy_out: Annotated[Path | None, typer.Option(help="Write the policy found to this file.")] = None,
    report_out: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a report of the policy to this HTML file.")
    ] = None,
    conditions: shared.Conditions = None,
    memory_nodes: shared.MemoryNodes = None,
    solver: shared.SolverName = None,
    gradients: shared.GradientKind = None,
    samples: shared.Samples = None,
    starts: shared.Starts = None,
    start: shared.StartKind = None,
    warm: Annotated[Path | None, typer.Option(help="A policy file to begin from.")] = None,
    iterations: shared.Iterations = None,
    eta: shared.Eta = None,
    kappa: shared.Kappa = None,
    exponent: shared.Exponent = None,
    seed: shared.Seed = None,
    time: Annotated[
        float | None, shared.time_limit("Seconds after which the best policy so far is the answer.")
    ] = None,
    nodes: shared.Nodes = None,
    memory: shared.Memory = None,
    processes: shared.Processes = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Prove how far from the best possible the policy is at most (up to 60 s).")
    ] = False,
    run: Annotated[Path | None, typer.Option(help="Keep checkpoints in this folder.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the policy file and the report.")] = False,
    grid: Grid = False,
    grid_time: GridTime = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Find the most opaque policy that does the task.

    Progress goes to stderr. Ctrl-C ends the search and tells the best policy so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 not converged, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    from opaq.cli.solving import asked_options
    from opaq.files import check_writable

    asked = asked_options(context.params)
    _check(problem, resume, asked)
    expect_answer()
    if policy_out is not None:
        check_writable(policy_out, overwrite=force)
    if report_out is not None:
        check_writable(report_out, overwrite=force)
    folder = _folder(problem, run, resume, asked)
    stated = _read(folder, quiet=quiet)
    check_grid(stated, folder.source, grid=grid, time=grid_time, as_json=as_json)
    if certify:
        from opaq.certificates.certify import check_certifiable

        check_certifiable(stated)
    folder.begin()
    for line in folder.notes:
        print_note(line)
    solution = _solve(stated, folder, processes=processes, time=time, quiet=quiet)
    _warn(solution, folder.source)
    certificate, interrupted = _certify(stated, solution, folder.source, quiet=quiet) if certify else (None, False)

    from opaq.cli.delivery import deliver

    code = deliver(
        solution,
        stated,
        certificate=certificate,
        interrupted=interrupted,
        folder=folder,
        policy_out=policy_out,
        report_out=report_out,
        overwrite=force,
        as_json=as_json,
        grid=grid,
        grid_time=grid_time,
        quiet=quiet,
    )
    ended_early = interrupted or code_of_status(solution.status) in (MISSES_TASK, INTERRUPTED)
    if not (quiet or as_json or ended_early):
        _hint(context, folder, stated, solution, certificate)
    raise typer.Exit(code)


def _warn(solution: Solution, source: str) -> None:
    """Say where there is nothing to hide."""
    from opaq.cli.inputs import warn_of_known_secret

    if solution.measurement.constant_secret is not None:
        warn_of_known_secret(solution.product, source)


def _hint(
    context: typer.Context,
    folder: RunFolder,
    problem: Problem,
    solution: Solution,
    certificate: Certificate | None,
) -> None:
    """What to do next, and that a clock may help."""
    from opaq.cli.next_step import after_solve, cannot_improve, print_next_command, with_a_clock
    from opaq.cli.solving import FIELD_OF

    clock = with_a_clock(folder.source, problem.horizon, solution.policy.policy_class)
    if clock and not cannot_improve(problem, solution.measurement):
        print_note(clock)
    print_next_command(
        after_solve(
            folder.source,
            problem,
            policy_out=context.params["policy_out"],
            run=folder.path,
            asked={name: context.params[name] for name in FIELD_OF},
            certificate=certificate,
        )
    )


def _check(problem: str | None, resume: Path | None, asked: Mapping[str, Any]) -> None:
    """There is one thing to solve, and every option has an effect on it."""
    from opaq.cli.solving import refuse_idle_options

    if (problem is None) == (resume is None):
        raise InputError([Fault("PROBLEM", "give a problem, or --resume a run, not both or neither")])
    if resume is None:
        refuse_idle_options(asked)


def _folder(problem: str | None, run: Path | None, resume: Path | None, asked: Mapping[str, Any]) -> RunFolder:
    from opaq.cli.run_folder import RunFolder

    if resume is None:
        return RunFolder.create(run, problem or "", asked)
    if run is not None and run.absolute() != resume.absolute():
        raise InputError([Fault("--run", "a resumed run keeps its own folder", "leave --run out")])
    return RunFolder.open(resume, asked)


def _read(folder: RunFolder, *, quiet: bool) -> Problem:
    from opaq.cli.progress import ProgressPrinter

    faults = Faults()
    try:
        with ProgressPrinter("reading", quiet=quiet, since=BEGUN):
            return folder.problem(faults)
    finally:
        warn(faults.warnings, folder.source)


def _solve(
    problem: Problem,
    folder: RunFolder,
    *,
    processes: int | None,
    time: float | None,
    quiet: bool,
) -> Solution:
    from opaq.cli.progress import ProgressPrinter, solver_progress

    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.cli.solving import solve_as_asked
        from opaq.opacity.kernel_warmup import compile_kernels

        compile_kernels(derivatives=True)
    with (
        interrupts.computing() as stop,
        ProgressPrinter("solving", quiet=quiet, limit=time) as progress,
        faults_in(folder.source),
    ):
        return solve_as_asked(
            problem,
            folder.options,
            folder=folder.path,
            processes=processes,
            time=time,
            on_step=solver_progress(progress, problem),
            stop=stop,
        )


def _certify(problem: Problem, solution: Solution, source: str, *, quiet: bool) -> tuple[Certificate | None, bool]:
    """How good the policy is, as far as is known, and whether that work was interrupted.

    There is no certificate where the policy misses the task, the search was interrupted, or no bound is known yet.
    """
    from opaq.certificates.certify import DEFAULT_TIME, certify
    from opaq.cli.certify import rung_progress
    from opaq.cli.progress import ProgressPrinter
    from opaq.stop import StoppedError

    if code_of_status(solution.status) in (MISSES_TASK, INTERRUPTED):
        return None, False
    with (
        interrupts.computing() as stop,
        ProgressPrinter("certifying", quiet=quiet, limit=DEFAULT_TIME) as progress,
        faults_in(source),
    ):
        certificate = None
        try:
            certificate = certify(problem, solution.policy, stop=stop, on_progress=rung_progress(progress))
        except StoppedError as error:
            progress.note(f"the certificate is left out: {error}")
    return certificate, stop.interrupted
