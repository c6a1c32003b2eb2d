"""`opaq simulate`: a problem and a policy -> sampled runs with beliefs, as tables or as JSON.

Reads the inputs, replays runs and prints them as they come, and names the next command on stderr; with a grid every
run is also a path. A signal, and a reader that has gone, end it after the runs so far.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.output import check_grid, print_page
from opaq.cli.session import compute, prepare, read_inputs
from opaq.cli.shell import INTERRUPTED, expect_answer, page_width, print_answer


def command(
    source: shared.ProblemName,
    policy_file: shared.PolicyName = None,
    of: shared.OfSecret = None,
    for_: shared.ForObserver = None,
    runs: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many runs.")] = 3,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the runs repeatable (default: 0).")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="Draw the path of every run on the grid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of runs, one per line.")] = False,
    quiet: shared.Quiet = False,
) -> None:
    """Sample runs, with what the observer sees and comes to believe.

    Many runs are printed as they come. Ctrl-C ends the list after those so far.
    """
    expect_answer()
    problem, policy = read_inputs(source, policy_file, of=of, for_=for_, quiet=quiet)
    check_grid(problem, source, grid=grid, as_json=as_json)
    with prepare(kernels=False, quiet=quiet):
        from opaq.cli.next_step import after_simulate, print_next_command
        from opaq.reports.layout import Page
        from opaq.reports.text.runs import RunEnds, paths_page, runs_page
        from opaq.simulation.replay import replay_batches
    width, first, reading = page_width(), 1, True
    ends: RunEnds | None = None
    with compute("simulating", str(policy_file or source), quiet=quiet) as work:
        for batch in replay_batches(problem, policy, runs=runs, seed=seed or 0):
            work.progress.show(f"{first + len(batch) - 1:,} of {runs:,} runs")
            last = first + len(batch) > runs or work.stop.requested
            if as_json:
                lines = ",\n".join(json.dumps(each.to_dict()) for each in batch)
                reading = print_answer(f"{'[' if first == 1 else ''}{lines}{']' if last else ','}")
            else:
                ends = ends or (None if last and first == 1 else RunEnds())
                page = (
                    paths_page(problem, batch, first=first, ends=ends, width=width)
                    if grid
                    else runs_page(batch, first=first, ends=ends, width=width)
                )
                reading = print_page(page) and (last or print_answer(""))
            first += len(batch)
            if last or not reading:
                break
    if ends is not None and reading:
        print_page(Page(ends.sentence()))
    if work.stop.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not (quiet or as_json):
        print_next_command(after_simulate(source, policy=policy_file, limits={"seed": seed}))
