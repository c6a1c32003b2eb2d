"""`opaq certify`: a problem, and a policy where one is named -> the proven bound, as a page or as JSON.

Reads the inputs, calls `opaq.certify`, and names the next command on stderr. A signal, and the time limit, end the
work with the best bound so far.
"""

from __future__ import annotations

from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.options import drop_unset
from opaq.cli.output import print_json, print_page
from opaq.cli.session import compute, prepare, read_inputs
from opaq.cli.shell import INTERRUPTED, MISSES_TASK, expect_answer, page_width


def command(
    source: shared.ProblemName,
    policy_file: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar=shared.POLICY,
            help="A policy to compare with the bound: uniform, return-optimal or a file.",
        ),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(min=0, help="Stop when bound and policy are this close (default: 0.01)."),
    ] = None,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds after which the best bound so far is the answer (default: 60).")
    ] = None,
    max_memory: shared.MaxMemory = None,
    observation_aware: Annotated[
        bool, typer.Option("--observation-aware", help="Bound policies that see the observations, too.")
    ] = False,
    ignore_model_mismatch: shared.IgnoreModelMismatch = False,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Prove how much any policy could hide, whatever it remembers (or how little, where the task minimises).

    With a policy, the answer says how far it is at most from the best possible. Ctrl-C, and --time-limit
    when it is over, end the work with the best bound so far.
    Exit codes: 0 done, 1 no policy meets the task, 2 bad input, 74 no stdout, 130 interrupted, 143 by SIGTERM.
    """
    expect_answer()
    problem, policy = read_inputs(source, policy_file, ignore_model_mismatch=ignore_model_mismatch, quiet=quiet)
    with prepare(quiet=quiet):
        from opaq.certificates.certify import DEFAULT_TIME, certify
        from opaq.cli.next_step import after_certify, print_next_command
        from opaq.cli.progress import bound_progress
        from opaq.reports.text.certificate import certificate_page
    limits = {"time_limit": time_limit, "max_memory": max_memory}
    limit = DEFAULT_TIME if time_limit is None else time_limit
    with compute("certifying", source, limit=limit, quiet=quiet) as work:
        certificate = certify(
            problem,
            policy,
            observation_aware=observation_aware,
            stop=work.stop,
            on_progress=bound_progress(work.progress),
            **drop_unset({"gap": gap, **limits}),
        )
    if as_json:
        print_json(certificate.to_dict())
    else:
        print_page(certificate_page(certificate, width=page_width()))
    if work.stop.interrupted:
        raise typer.Exit(INTERRUPTED)
    if certificate.status.name == "INFEASIBLE":
        raise typer.Exit(MISSES_TASK)
    if not (quiet or as_json):
        print_next_command(after_certify(source, certificate, policy=policy_file, limits=limits))
