"""`opaq solve`: a problem, or the folder of a run -> a policy and its figures, as a page or as JSON, and files.

Checks every file before the work, calls `opaq.solve` and, where asked for, `opaq.certify`; then come the policy file,
the run folder, the answer on stdout and the report, in this order, and last the next command on stderr. The policy is
always kept: in the file that is named, in the run's folder, in the JSON, or in PROBLEM.policy.json; one that cannot be
written to the file that was named is printed with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, filterwarnings

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.options import drop_unset, find_idle_options, flag, name_option
from opaq.cli.output import OutputFiles, add_grid, check_grid, code_of_status, keep_policy, print_json, print_page
from opaq.cli.session import compute, prepare, read_problem, warn_of_known_secret
from opaq.cli.shell import INTERRUPTED, MISSES_TASK, expect_answer, page_width, print_answer, print_note
from opaq.errors import BudgetError, Fault, InputError, OpaqError
from opaq.solvers.options import OPTIONS, default_of

if TYPE_CHECKING:
    from opaq.certificates.certify import Certificate
    from opaq.model.problem import Problem
    from opaq.solvers.solve import Solution

_REPORT_SECONDS = 60.0  # after which a report leaves out what is not done


@shared.takes_solve_options(
    "conditions", "memory_nodes", "solver", "gradients", "samples", "starts", "start", "iterations", "eta", "kappa",
    "exponent", "seed", "time_limit", "max_beliefs", "max_memory", "workers",
)  # fmt: skip
def command(
    source: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")
    ] = None,
    policy_out: Annotated[
        Path | None,
        typer.Option(
            "--save-policy",
            metavar="FILE",
            help="Write the policy to this file: .json, .csv, or .storm.json (default: PROBLEM.policy.json).",
        ),
    ] = None,
    report_out: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a report of the policy to this HTML file.")
    ] = None,
    initial_policy: shared.InitialPolicy = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Prove how far from the best possible the policy is at most (up to 60 s).")
    ] = False,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="BITS or PERCENT",
            help="Search all policies until the answer is proven this close to the best, such as 1% (up to 60 s).",
        ),
    ] = None,
    observation_aware: Annotated[
        bool, typer.Option("--observation-aware", help="With --gap: policies that see the observations, too.")
    ] = False,
    run_folder: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep checkpoints in this folder.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Go on with the run in this folder.")] = None,
    overwrite: shared.Overwrite = False,
    grid: shared.Grid = False,
    grid_time: shared.GridTime = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
    **options: Any,
) -> None:
    """Find the most opaque policy that does the task.

    Progress goes to stderr. Ctrl-C ends the search and tells the best policy so far.
    Exit codes: 0 done, 1 the task is infeasible, 2 bad input, 3 not converged, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    workers, time_limit = options.pop("workers"), options.pop("time_limit")  # these may differ when a run goes on
    options["initial_policy"] = initial_policy
    if (source is None) == (resume is None):
        raise InputError([Fault("PROBLEM", "give a problem, or --resume a run, not both or neither")])
    expect_answer()

    from opaq.files import check_writable
    from opaq.load import check_policy_ending

    checks = Checks()
    if resume is None:
        checks.run(_refuse_idle_options, options)
    elif run_folder is not None and run_folder.absolute() != resume.absolute():
        raise InputError([Fault("--run-folder", "a resumed run keeps its own folder", "leave --run-folder out")])
    checks.run(_check_gap, gap, observation_aware=observation_aware, certify=certify, run_folder=run_folder or resume)
    if policy_out is not None:
        checks.run(check_policy_ending, policy_out)
    for file in (policy_out, report_out):
        if file is not None:
            checks.run(check_writable, file, overwrite=overwrite)
    if resume is not None:
        run_folder = resume
        source, options = checks.read(_open_run, resume, options)
    assert source is not None
    problem = checks.read(_read_problem, source, resume, quiet=quiet)
    checks.run(check_grid, problem, source, grid=grid, time=grid_time, as_json=as_json)
    checks.raise_if_any()
    if run_folder is not None and resume is None:
        from opaq.solvers.runs import begin_run

        begin_run(run_folder, source, options)

    from opaq.cli.progress import solver_progress

    with prepare(derivatives=True, quiet=quiet):
        from opaq.solvers.runs import POLICY_FILE, finish_run, options_of_record
        from opaq.solvers.solve import solve
    certificate, interrupted = None, False
    if gap is not None:
        solution, certificate, interrupted = _solve_to_gap(
            problem, source, gap, options, time_limit, workers, observation_aware=observation_aware, quiet=quiet
        )
    elif options["conditions"] == "belief":  # which has a program of its own, and no search
        from opaq.certificates.gap import solve as solve_any

        with compute("solving", source, limit=time_limit, quiet=quiet) as work:
            solution = solve_any(
                problem,
                options=options_of_record(options),
                time_limit=time_limit,
                run_folder=run_folder,
                stop=work.stop,
            )
    else:
        with compute("solving", source, limit=time_limit, quiet=quiet) as work, catch_warnings():
            # The library keeps the answer at once; below it is kept with the certificate, and a failure is told there.
            filterwarnings("ignore", message="the answer of the run could not be kept", category=RuntimeWarning)
            solution = solve(
                problem,
                options=options_of_record(options),
                initial_policy=options["initial_policy"],
                workers=workers,
                time_limit=time_limit,
                run_folder=run_folder,
                on_step=solver_progress(work.progress, problem),
                stop=work.stop,
            )
    if solution.measurement.constant_secret is not None:
        warn_of_known_secret(solution.product, source)
    code = INTERRUPTED if interrupted else code_of_status(solution.status)
    if certify and code not in (MISSES_TASK, INTERRUPTED):
        solution, certificate, interrupted = _certify(problem, solution, source, quiet=quiet)
        code = INTERRUPTED if interrupted else code

    from opaq.load import save_policy
    from opaq.reports.text.solution import solution_page
    from opaq.spec.policy_table import policy_to_dict

    answer = solution.to_dict()
    if certificate is not None:
        from opaq.certificates.certify import CertifiedSolution

        answer = CertifiedSolution(solution, certificate).to_dict()
    answer["interrupted"] = answer["interrupted"] or interrupted
    files, table = OutputFiles(), policy_to_dict(solution.policy, problem=problem)
    policy_file, lost = policy_out, False
    if policy_out is not None and not files.write(
        save_policy, solution.policy, policy_out, problem=problem, overwrite=overwrite
    ):
        policy_file, lost = None, True
    if policy_out is not None:
        written = f"wrote the policy to {policy_out}"
        print_note("the policy could not be written; it is printed with the answer" if lost else written)
    if run_folder is not None and files.write(finish_run, run_folder, answer, solution.policy, problem=problem):
        print_note(f"the run is kept in {run_folder}")
        policy_file = policy_file or run_folder / POLICY_FILE
    if policy_file is None and not (lost or as_json):
        policy_file = keep_policy(solution.policy, problem, source)
        advice = "the policy could not be kept in this folder: name a file with --save-policy"
        print_note(advice if policy_file is None else f"the policy is kept in {policy_file}")
    if as_json:
        print_json(answer | {"policy": table})
    else:
        page = solution_page(solution, certificate, width=page_width())
        drawn = grid or grid_time is not None
        print_page(add_grid(page, solution.product, solution.pi, time=grid_time) if drawn else page)
        if lost:
            print_answer(json.dumps(table))
    if report_out is not None:
        files.write(_write_report, solution, problem, certificate, source, report_out, overwrite=overwrite, quiet=quiet)
    if not (quiet or as_json or code in (MISSES_TASK, INTERRUPTED)):
        from opaq.cli.next_step import after_solve, cannot_improve, print_next_command, suggest_clock

        limits = {"time_limit": time_limit, "workers": workers, **options}
        clock = suggest_clock(source, problem.horizon, solution.policy.policy_class, limits)
        if clock and not cannot_improve(problem, solution.measurement):
            print_note(clock)
        print_next_command(
            after_solve(source, policy_file=policy_file, options=options, limits=limits, certificate=certificate)
        )
    raise typer.Exit(files.exit_code(code))


def _check_gap(gap: str | None, *, observation_aware: bool, certify: bool, run_folder: Path | None) -> None:
    """Refuse a gap that cannot be read, and options that do not go with one, or without. Raises InputError."""
    faults = []
    if gap is None:
        if observation_aware:
            faults.append(Fault("--observation-aware", "has no effect without --gap", "give --gap, e.g. --gap 1%"))
    else:
        if certify:
            faults.append(Fault("--certify", "a search to a gap has its certificate", "leave --certify out"))
        if run_folder is not None:
            faults.append(Fault("--run-folder", "a search to a gap keeps no run", "leave --run-folder out"))
    if faults:
        raise InputError(faults)
    if gap is not None:
        from opaq.certificates.gap import Gap

        with name_option("gap"):
            Gap.of(gap)


def _solve_to_gap(
    problem: Problem,
    source: str,
    gap: str,
    options: Mapping[str, Any],
    time_limit: float | None,
    workers: int | None,
    *,
    observation_aware: bool,
    quiet: bool,
) -> tuple[Solution, Certificate, bool]:
    """Return a policy, its certificate and whether the search was interrupted: `opaq.solve` with a gap.

    problem, source: what to solve, and its name. gap: as it was written. options: of the solve, None where not given.
    time_limit: seconds, None for 60. workers: the most threads. quiet: True shows no progress.
    """
    from opaq.certificates.certify import DEFAULT_TIME
    from opaq.certificates.gap import solve_to_gap
    from opaq.cli.progress import gap_progress
    from opaq.solvers.runs import options_of_record

    limit = DEFAULT_TIME if time_limit is None else time_limit
    with compute("solving", source, limit=limit, quiet=quiet) as work:
        answer = solve_to_gap(
            problem,
            gap=gap,
            options=options_of_record(options),
            initial_policy=options["initial_policy"],
            workers=workers,
            time_limit=limit,
            observation_aware=observation_aware,
            on_gap=gap_progress(work.progress),
            stop=work.stop,
        )
    return answer.solution, answer.certificate, work.stop.interrupted


def _refuse_idle_options(options: Mapping[str, Any]) -> None:
    """Refuse options that the solver ignores or cannot use, as they are written on the command line.

    options: name -> value, None where not given. Raises InputError with all of them.
    """
    from opaq.solvers.registry import SOLVERS, factory_of

    chosen = factory_of(options["solver"] or default_of("solver"))
    gradients = options["gradients"] or default_of("gradients")
    faults: list[Fault] = []
    for other in SOLVERS.values():
        if other.name != chosen.name:
            belongs_to = dict.fromkeys(other.options, f"--solver {other.name}")
            faults += find_idle_options(options, belongs_to=belongs_to, chosen=f"--solver {chosen.name}")
    if gradients == "sampled" and chosen.needs_exact:
        finding = f"sampled gradients do not suit --solver {chosen.name}, which needs exact ones"
        able = " or ".join(each.name for each in SOLVERS.values() if not each.needs_exact)
        faults.append(Fault(flag("gradients"), finding, f"use --solver {able}"))
    if gradients == "exact" or (gradients == "auto" and not chosen.cuts_if_large):
        belongs_to = {"samples": "--gradients sampled"}
        faults += find_idle_options(options, belongs_to=belongs_to, chosen="exact gradients")
    if faults:
        raise InputError(faults)


def _open_run(folder: Path, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the problem's source and the options of a run.

    folder: of the run. given: options on the command line, None where not given; they must be those of the run.
    Raises InputError with every option that differs; another version of opaq gives a note.
    """
    from opaq.opacity.policies import locate_policy
    from opaq.solvers.runs import RECORDED_OPTIONS, read_run
    from opaq.version import __version__

    source, recorded, version = read_run(folder)
    given = {**given, "initial_policy": locate_policy(given["initial_policy"])}
    defaults = {name: default_of(name) for name in RECORDED_OPTIONS if name in OPTIONS}
    before = defaults | drop_unset(recorded)

    def word(value: object) -> str:
        """Return a value as it stands in a message."""
        return "not given" if value is None else str(value)

    faults = [
        Fault(
            flag(name),
            f"{word(before.get(name))} in the run, {word(value)} now",
            "leave it out to go on with the run, or begin a new one with --run-folder",
        )
        for name, value in drop_unset(given).items()
        if before.get(name) != value
    ]
    if faults:
        raise InputError(faults, str(folder))
    if version != __version__:
        print_note(f"{folder}: the run was begun with opaq {version}, this is {__version__}")
    return source, dict(recorded)


def _read_problem(source: str, resumed: Path | None, *, quiet: bool) -> Problem:
    """Return the problem; where it is that of a run and cannot be read any more, name the copy in the run's folder.

    source: a file or the name of a scenario. resumed: the folder of the run, None for a new search.
    quiet: True shows no progress. Raises InputError with every fault.
    """
    try:
        return read_problem(source, quiet=quiet)
    except InputError as error:
        from opaq.solvers.runs import PROBLEM_FILE

        if resumed is None or not (resumed / PROBLEM_FILE).exists():
            raise
        kept = Fault("", "the run needs the problem as it was", f"a copy is in {resumed / PROBLEM_FILE}")
        raise InputError([*error.faults, kept], error.source) from None


def _certify(
    problem: Problem, solution: Solution, source: str, *, quiet: bool
) -> tuple[Solution, Certificate | None, bool]:
    """Return the solution, whose status then says so, its certificate, and whether that work was interrupted.

    problem, solution: what was solved, and its policy. source: the problem as the user named it.
    quiet: True shows no progress. The work takes 60 s at most, and Ctrl-C ends it with the best bound so far. The
    certificate is None where no bound is known by then; a note says why.
    """
    from opaq.certificates.certify import DEFAULT_TIME, certify
    from opaq.cli.progress import bound_progress
    from opaq.solvers.policy_classes import has_many_optima
    from opaq.solvers.strategy import Status
    from opaq.solvers.verdict import describe_certified
    from opaq.stop import StoppedError

    certificate = None
    with compute("certifying", source, limit=DEFAULT_TIME, quiet=quiet) as work:
        try:
            certificate = certify(problem, solution, stop=work.stop, on_progress=bound_progress(work.progress))
        except (BudgetError, StoppedError) as error:  # the policy is worth showing without
            work.progress.note(f"the certificate is left out: {error}")
    if certificate is not None and solution.status is Status.CONVERGED and solution.optimality is not None:
        text = describe_certified(
            solution.optimality,
            solution.measurement,
            many_optima=has_many_optima(solution.product.policy_class),
            minimise=problem.task.minimise,
        )
        solution = replace(solution, status_text=text)
    return solution, certificate, work.stop.interrupted


def _write_report(
    solution: Solution,
    problem: Problem,
    certificate: Certificate | None,
    source: str,
    path: Path,
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the report of a solution; Ctrl-C and a limit of 60 s leave out what takes long.

    certificate: shown where it is not None. source: the problem as the user named it, whose text is shown.
    path: the HTML file. overwrite: True replaces one that is there. quiet: True shows no progress.

    Raises InputError where the report cannot be made or written.
    """
    from opaq.load import problem_text
    from opaq.reports.policy_report import make_report

    try:
        text = problem_text(source)
    except InputError:
        text = None  # the file has gone meanwhile
    try:
        with compute("reporting", source, quiet=quiet) as work:
            report = make_report(
                problem,
                text=text,
                solution=solution,
                certificate=certificate,
                time_limit=_REPORT_SECONDS,
                stop=work.stop,
            )
        report.save(path, overwrite=overwrite)
    except InputError:
        raise
    except (OpaqError, MemoryError, OSError) as error:
        raise InputError([Fault("", f"the report could not be made: {error}")], str(path)) from error
    print_note(f"wrote the report to {path}")
