"""`opaq simulate`: a problem and a policy -> sampled runs with beliefs, as tables or as JSON.

Reads the inputs, calls `opaq.replay`, and names the next command on stderr; with a grid every run is also a path.
"""

from __future__ import annotations

from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.interrupts import PROCESS_START
from opaq.cli.output import check_grid, print_page
from opaq.cli.progress import ProgressPrinter
from opaq.cli.session import read_inputs
from opaq.cli.shell import expect_answer, faults_in, page_width, print_answer


def command(
    source: shared.ProblemName,
    policy_file: shared.PolicyFile = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="How many runs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Makes the runs repeatable.")] = 0,
    grid: Annotated[bool, typer.Option("--grid", help="Draw the path of every run on the grid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of runs.")] = False,
    quiet: shared.Quiet = False,
) -> None:
    """Sample runs, with what the observer sees and comes to believe."""
    import json

    expect_answer()
    problem, policy = read_inputs(source, policy_file, quiet=quiet)
    check_grid(problem, source, grid=grid, as_json=as_json)
    with ProgressPrinter("simulating", quiet=quiet, since=PROCESS_START), faults_in(str(policy_file or source)):
        from opaq.cli.next_step import after_simulate, print_next_command
        from opaq.reports.text.runs import paths_page, runs_page
        from opaq.simulation.replay import replay

        replays = replay(problem, policy, runs=runs, seed=seed)
    if as_json:
        print_answer(json.dumps([replay.to_dict() for replay in replays], indent=1))
        return
    width = page_width()
    print_page(paths_page(problem, replays, width=width) if grid else runs_page(replays, width=width))
    if not quiet:
        print_next_command(after_simulate(source, policy=policy_file))
