"""`opaq simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.interrupts import BEGUN
from opaq.cli.shell import about, answer, expect_answer, page_width


def command(
    problem: shared.ProblemName,
    policy: shared.PolicyFile = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="How many runs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Makes the runs repeatable.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of runs.")] = False,
) -> None:
    """Sample runs, with what the observer sees and comes to believe."""
    import json

    from opaq.cli.inputs import read_inputs
    from opaq.cli.progress import ProgressPrinter

    expect_answer()
    stated, chosen = read_inputs(problem, policy, quiet=False)
    with ProgressPrinter("simulating", since=BEGUN), about(problem if policy is None else str(policy)):
        from opaq.reports.run_text import render_runs, runs_to_dict
        from opaq.simulation.replay import replay

        replays = replay(stated, chosen, runs=runs, seed=seed)
    answer(json.dumps(runs_to_dict(replays), indent=1) if as_json else render_runs(replays, width=page_width()))
