"""The end of `opaq solve`: files first, then the answer, which is never lost to a file that cannot be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from opaq.certificates.certify import Certificate, CertifiedSolution
from opaq.cli.grid_option import with_grid
from opaq.cli.interrupts import interrupts
from opaq.cli.progress import ProgressPrinter
from opaq.cli.run_folder import RunFolder
from opaq.cli.shell import BAD_INPUT, INTERRUPTED, code_of_status, page_width, print_answer, print_faults, print_note
from opaq.cli.terminal_tables import render_page
from opaq.errors import Fault, InputError, OpaqError
from opaq.load import problem_text, save_policy
from opaq.model.problem import Problem
from opaq.reports.text.solution import solution_page
from opaq.solvers.solve import Solution
from opaq.solvers.strategy import UNPROVEN
from opaq.spec.policy_table import policy_to_dict

_REPORT_SECONDS = 60.0  # after which a report leaves out what is not done
_CERTIFIED = "the certificate says how good"


def deliver(
    solution: Solution,
    problem: Problem,
    *,
    certificate: Certificate | None,
    interrupted: bool,
    folder: RunFolder,
    policy_out: Path | None,
    report_out: Path | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    grid: bool = False,
    grid_time: int | None = None,
) -> int:
    """Write the policy and the run's result, print the answer, then write the report; return the exit code.

    interrupted: whether the certificate was, after a search that was not.
    A policy that could not be written is printed with the answer, as JSON: under "policy", or below the text. A report
    that could not be written only changes the exit code: `opaq report` makes it again.
    """
    if certificate is not None:
        solution = replace(solution, status_text=solution.status_text.replace(UNPROVEN, _CERTIFIED))
    result = solution if certificate is None else CertifiedSolution(solution, certificate)
    answer = result.to_dict()
    answer["interrupted"] = answer["interrupted"] or interrupted
    unwritten = policy_out is not None and _write_failed(
        lambda: save_policy(solution.policy, policy_out, problem=problem, overwrite=overwrite)
    )
    unkept = _write_failed(lambda: folder.finish(answer, solution.policy, problem))
    if policy_out is not None:
        wrote = f"wrote the policy to {policy_out}"
        print_note("the policy could not be written; it is printed with the answer" if unwritten else wrote)
    if folder.path is not None and not unkept:
        print_note(f"the run is kept in {folder.path}")
    policy = {"policy": policy_to_dict(solution.policy, problem=problem)} if unwritten else {}
    if as_json:
        print_answer(json.dumps(answer | policy, indent=2))
    else:
        page = solution_page(solution, certificate, width=page_width())
        drawn = grid or grid_time is not None
        print_answer(render_page(with_grid(page, solution.product, solution.pi, time=grid_time) if drawn else page))
        if unwritten:
            print_answer(json.dumps(policy["policy"]))
    unshown = report_out is not None and _write_failed(
        lambda: _report(solution, problem, certificate, folder.source, report_out, overwrite=overwrite, quiet=quiet)
    )
    if unwritten or unkept or unshown:
        return BAD_INPUT
    return INTERRUPTED if interrupted else code_of_status(solution.status)


def _report(
    solution: Solution,
    problem: Problem,
    certificate: Certificate | None,
    source: str,
    path: Path,
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the report of a solution; Ctrl-C and the time limit leave out what takes long."""
    from opaq.reports.policy_report import make_report

    try:
        with interrupts.computing() as stop, ProgressPrinter("reporting", quiet=quiet):
            made = make_report(
                problem,
                text=_text(source),
                solution=solution,
                certificate=certificate,
                time=_REPORT_SECONDS,
                stop=stop,
            )
        made.save(path, overwrite=overwrite)
    except (OpaqError, MemoryError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError([Fault("", f"the report could not be made: {error}")], str(path)) from error
    print_note(f"wrote the report to {path}")


def _text(source: str) -> str | None:
    """The problem's file, if it is still there."""
    try:
        return problem_text(source)
    except InputError:
        return None


def _write_failed(write: Callable[[], None]) -> bool:
    """Whether writing failed; what went wrong is said."""
    try:
        write()
    except InputError as error:
        print_faults(error)
        return True
    return False
