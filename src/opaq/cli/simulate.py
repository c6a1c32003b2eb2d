"""`opaq simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

from opaq.cli import shared_options as shared
from opaq.cli.grid_option import check_grid
from opaq.cli.interrupts import BEGUN
from opaq.cli.shell import expect_answer, faults_in, page_width, print_answer


def command(
    problem: shared.ProblemName,
    policy: shared.PolicyFile = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="How many runs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Makes the runs repeatable.")] = 0,
    grid: Annotated[bool, typer.Option("--grid", help="Draw the path of every run on the grid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of runs.")] = False,
    quiet: shared.Quiet = False,
) -> None:
    """Sample runs, with what the observer sees and comes to believe."""
    import json

    from opaq.cli.inputs import read_inputs
    from opaq.cli.progress import ProgressPrinter

    expect_answer()
    stated, chosen = read_inputs(problem, policy, quiet=quiet)
    check_grid(stated, problem, grid=grid, time=None, as_json=as_json)
    with (
        ProgressPrinter("simulating", quiet=quiet, since=BEGUN),
        faults_in(problem if policy is None else str(policy)),
    ):
        from opaq.cli.next_step import after_simulate, print_next_command
        from opaq.cli.terminal_tables import render_page
        from opaq.reports.text.runs import paths_page, runs_page
        from opaq.simulation.replay import replay

        replays = replay(stated, chosen, runs=runs, seed=seed)
    if as_json:
        print_answer(json.dumps([replay.to_dict() for replay in replays], indent=1))
        return
    width = page_width()
    print_answer(render_page(paths_page(stated, replays, width=width) if grid else runs_page(replays, width=width)))
    if not quiet:
        print_next_command(after_simulate(problem, policy=policy))
