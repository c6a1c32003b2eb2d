"""`opaq compare`: a problem -> the ladder of policy classes with the bound, as a page or as JSON, and policy files.

Reads the problem, calls `opaq.compare` and, unless that is not wanted or the work was interrupted, proves a bound on
all classes. A policy is written as soon as its class is done; one that cannot be written is printed with the answer.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.output import OutputFiles, check_folder, code_of_status, name_policy_file, print_json, print_page
from opaq.cli.session import compute, prepare, read_problem
from opaq.cli.shell import (
    DONE,
    INTERRUPTED,
    MISSES_TASK,
    NOT_CONVERGED,
    expect_answer,
    print_answer,
    print_note,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from opaq.model.problem import Problem
    from opaq.solvers.compare import Comparison
    from opaq.solvers.loop import Progress

_LAST_SECONDS, _LAST_SHARE = 20.0, 0.2  # for the certificate; of the time where it is limited


@shared.takes_solve_options(
    "solver", "gradients", "samples", "starts", "start", "seed", "max_beliefs", "max_memory", "workers"
)
def command(
    source: shared.ProblemName,
    classes: Annotated[
        str | None,
        typer.Option(help='The classes to compare, e.g. "state; state,time; memory:2" (default: all that apply).'),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--save-policies", metavar="FOLDER", help="Write the policy of every class to this folder."),
    ] = None,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds for all classes together, shared among them.")
    ] = None,
    certify: Annotated[
        bool, typer.Option(help="Prove what no policy of any class exceeds: the last line of the table.")
    ] = True,
    overwrite: shared.Overwrite = False,
    form: shared.TableFormat = shared.Format.TEXT,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
    **options: Any,
) -> None:
    """Compare what policies can hide that look at the state, at the time, or keep a memory.

    Every class begins from the best policy of the classes that it contains, and from fresh starts. Ctrl-C, and --time
    when it is over, end the work with the classes done by then.
    Exit codes: 0 done, 1 no class meets the task, 2 bad input, 3 not all converged, 74 no stdout,
    130 interrupted, 143 by SIGTERM.
    """
    expect_answer()
    checks = Checks()
    checks.run(shared.refuse_two_formats, form, as_json=as_json)
    problem = checks.read(read_problem, source, quiet=quiet)
    with prepare(derivatives=True, quiet=quiet):
        from opaq.cli.next_step import after_compare, print_next_command
        from opaq.cli.progress import solver_progress
        from opaq.load import save_policy
        from opaq.reports.numbers import page_amount
        from opaq.reports.text.comparison import comparison_page
        from opaq.solvers.compare import ClassResult, compare
        from opaq.solvers.policy_classes import class_name, default_classes, parse_classes
        from opaq.spec.policy_table import policy_to_dict

        if classes is None:
            chosen = default_classes(problem)
        else:  # a semicolon after the last may be left out
            parts = [part.strip() for part in classes.strip().removesuffix(";").split(";")]
            chosen = checks.read(parse_classes, parts, problem)
        names = [class_name(policy_class) for policy_class in chosen]
        if folder is not None:
            checks.run(check_folder, folder, map(name_policy_file, names), overwrite=overwrite)
        checks.raise_if_any()

    files, written = OutputFiles(), 0
    unwritten: dict[str, dict[str, Any]] = {}  # class -> its policy as the file's content

    def write_policy(rung: ClassResult) -> None:
        """Note that a class is done, and write its policy where a folder is given, or keep it to be printed."""
        if not quiet:
            reached = page_amount(rung.measurement.uncertainty, "{:.4f}".format)
            hidden = f"{reached} {rung.measurement.of.unit}".rstrip()
            work.progress.note(f"{rung.name}: {hidden}, {rung.seconds:.1f} s")
        if folder is None:
            return
        nonlocal written
        file = folder / name_policy_file(rung.name)
        if files.write(save_policy, rung.policy, file, problem=problem, overwrite=overwrite):
            written += 1
        else:
            unwritten[rung.name] = policy_to_dict(rung.policy, problem=problem)

    steps: dict[str, Callable[[Progress], None]] = {}  # class -> what shows the steps of its search

    def show_step(name: str, progress: Progress) -> None:
        """Show one step of the search of a class; name: of the class."""
        if name not in steps:
            steps[name] = solver_progress(work.progress, problem, part=name, parts=names)
        steps[name](progress)

    with compute("comparing", source, quiet=quiet) as work:
        comparison = compare(
            problem,
            classes=chosen,
            on_step=show_step,
            on_rung=write_policy,
            stop=work.stop,
            time_limit=None if time_limit is None else time_limit * (1.0 - _LAST_SHARE * certify),
            **options,
        )
    if certify and not comparison.interrupted:
        comparison = _add_bound(comparison, problem, source, time_limit, quiet=quiet)
    if folder is not None and written:
        print_note(f"wrote {written} of {len(comparison.rungs)} policies to {folder}")
    if as_json:
        answer = replace(comparison, problem_file=source).to_dict()
        for rung in answer["classes"]:
            if rung["class"] in unwritten:
                rung["policy"] = unwritten[rung["class"]]
        print_json(answer)
    else:
        print_page(comparison_page(comparison), form)
        for policy in unwritten.values():
            print_answer(json.dumps(policy))
        if not (quiet or comparison.interrupted):
            kept = None if unwritten else folder
            limits = {"time_limit": time_limit, **options}
            print_next_command(after_compare(source, problem, comparison, folder=kept, limits=limits))
    raise typer.Exit(files.exit_code(code_of_comparison(comparison)))


def _add_bound(
    comparison: Comparison, problem: Problem, source: str, time_limit: float | None, *, quiet: bool
) -> Comparison:
    """Return the comparison with what no policy of any class exceeds.

    source: the problem as the user named it. quiet: True shows no progress.
    time_limit: seconds of the whole command, of which a fifth is for the bound; None gives it 20 s.
    Ctrl-C gives the best bound so far, if there is one.
    """
    from opaq.certificates.certify import with_bound
    from opaq.cli.progress import bound_progress

    seconds = _LAST_SECONDS if time_limit is None else time_limit * _LAST_SHARE
    with compute("certifying", source, limit=seconds, quiet=quiet) as work:
        bounded = with_bound(
            comparison, problem, time=seconds, stop=work.stop, on_progress=bound_progress(work.progress)
        )
        if bounded.interrupted and bounded.bound is None:
            work.progress.note("the bound is left out: interrupted")
        return bounded


def code_of_comparison(comparison: Comparison) -> int:
    """Return the exit code of a comparison.

    130 if it was interrupted, 1 if no class meets the task, 3 if not all are known to be done, 0 otherwise.
    """
    if comparison.interrupted:
        return INTERRUPTED
    if not any(rung.measurement.feasible for rung in comparison.rungs):
        return MISSES_TASK
    unfinished = comparison.unreached or any(code_of_status(rung.status) for rung in comparison.rungs)
    return NOT_CONVERGED if unfinished else DONE
