"""`opaq certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shared_options import drop_unset, in_bytes
from opaq.cli.shell import INTERRUPTED, MISSES_TASK, expect_answer, faults_in, page_width, print_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from opaq.certificates.decoder.search import BoundStep
    from opaq.cli.progress import ProgressPrinter


def command(
    problem: shared.ProblemName,
    policy: Annotated[Path | None, typer.Option(help="A policy file, to be compared with the bound.")] = None,
    gap: Annotated[
        float | None,
        typer.Option(min=0, help="Stop when bound and policy are this close (default: 0.01)."),
    ] = None,
    time: Annotated[
        float | None, shared.time_limit("Seconds after which the best bound so far is the answer (default: 60).")
    ] = None,
    memory: shared.Memory = None,
    aware: Annotated[bool, typer.Option("--aware", help="Bound policies that see the observations, too.")] = False,
    any_model: Annotated[bool, typer.Option("--any-model", help="Take a policy made for another model.")] = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Prove how much any policy could hide, whatever it remembers.

    With a policy, the answer says how far it is at most from the best possible. Ctrl-C, and --time when it is over, end
    the work with the best bound so far.
    Exit codes: 0 done, 1 no policy meets the task, 2 bad input, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    import json

    from opaq.cli.inputs import read_inputs
    from opaq.cli.next_step import after_certify, print_next_command
    from opaq.cli.progress import ProgressPrinter
    from opaq.cli.terminal_tables import render_page

    expect_answer()
    stated, chosen = read_inputs(problem, policy, any_model=any_model, quiet=quiet)
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.beliefs.graph import Budget
        from opaq.certificates.certify import DEFAULT_TIME, certify
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.reports.text.certificate import certificate_page

        compile_kernels()
    budget = None if memory is None else Budget(memory=in_bytes(memory))
    limit = DEFAULT_TIME if time is None else time
    with (
        interrupts.computing() as stop,
        ProgressPrinter("certifying", quiet=quiet, limit=limit) as progress,
        faults_in(problem),
    ):
        certificate = certify(
            stated,
            chosen,
            aware=aware,
            stop=stop,
            on_progress=rung_progress(progress),
            **drop_unset({"gap": gap, "time": time, "budget": budget}),
        )
    if as_json:
        print_answer(json.dumps(certificate.to_dict(), indent=2))
    else:
        print_answer(render_page(certificate_page(certificate, width=page_width())))
    if stop.interrupted:
        raise typer.Exit(INTERRUPTED)
    if certificate.status.name == "INFEASIBLE":
        raise typer.Exit(MISSES_TASK)
    if not (quiet or as_json):
        print_next_command(after_certify(problem, certificate, policy=policy))


def rung_progress(printer: ProgressPrinter) -> Callable[[BoundStep], None]:
    """Shows where the search for a bound is."""
    return lambda rung: printer.show(f"bound {rung.bound:.5f}, {rung.machine}, round {rung.rounds:,}")
