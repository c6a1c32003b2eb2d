"""`opaq measure`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from opaq.cli import shared_options as shared
from opaq.cli.grid_option import Grid, GridTime, check_grid, with_grid
from opaq.cli.interrupts import BEGUN, interrupts
from opaq.cli.shared_options import drop_unset, in_bytes, without_effect
from opaq.cli.shell import INTERRUPTED, expect_answer, faults_in, page_width, print_answer
from opaq.errors import InputError


class Mode(StrEnum):
    """How opacity is measured."""

    AUTO = "auto"
    EXACT = "exact"
    INTERVAL = "interval"
    SAMPLED = "sampled"


_BELONGS_TO = {
    "samples": "--mode sampled and --mode auto",
    "seed": "--mode sampled and --mode auto",
    "width": "--mode interval and --mode auto",
    "mass": "--mode interval and --mode auto",
}
_USED: dict[Mode, set[str]] = {
    Mode.AUTO: set(_BELONGS_TO),
    Mode.EXACT: set(),
    Mode.INTERVAL: {"width", "mass"},
    Mode.SAMPLED: {"samples", "seed"},
}


def command(
    problem: shared.ProblemName,
    policy: shared.PolicyFile = None,
    mode: Annotated[
        Mode | None, typer.Option(help="How to measure; auto (the default) takes exact if it is affordable.")
    ] = None,
    width: Annotated[float | None, typer.Option(min=0, help="The widest interval to accept, in bits.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many runs to sample.")] = None,
    nodes: shared.Nodes = None,
    mass: Annotated[float | None, typer.Option(min=0, max=1, help="The most probability to drop on purpose.")] = None,
    memory: shared.Memory = None,
    time: Annotated[float | None, shared.time_limit("Seconds after which to tell what is certain by then.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes sampling repeatable.")] = None,
    sequences: Annotated[int | None, typer.Option(min=0, help="How many telling sequences to show.")] = None,
    any_model: Annotated[bool, typer.Option("--any-model", help="Take a policy made for another model.")] = False,
    grid: Grid = False,
    grid_time: GridTime = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Tell the opacity and the return of a policy.

    Ctrl-C, and --time when it is over, end the work with what is certain by then: an interval, or an estimate from
    fewer runs.
    """
    import json

    from opaq.cli.inputs import read_inputs, warn_of_known_secret
    from opaq.cli.next_step import after_measure, print_next_command
    from opaq.cli.progress import ProgressPrinter
    from opaq.cli.terminal_tables import render_page

    options = {"width": width, "samples": samples, "nodes": nodes, "mass": mass, "seed": seed, "sequences": sequences}
    options |= {"memory": None if memory is None else in_bytes(memory), "time": time}
    _check(mode, options)
    expect_answer()
    stated, chosen = read_inputs(problem, policy, any_model=any_model, quiet=quiet)
    check_grid(stated, problem, grid=grid, time=grid_time, as_json=as_json)
    with ProgressPrinter("preparing", quiet=quiet, since=BEGUN):
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.opacity.measure import measure  # slow to import: a fault in a file is told before
        from opaq.product.compile import compile_problem
        from opaq.reports.text.measurement import measurement_page
        from opaq.simulation.runs import compile_for_policy

        compile_kernels()
    with (
        interrupts.computing() as stop,
        ProgressPrinter("measuring", quiet=quiet, limit=time) as progress,
        faults_in(problem if policy is None else str(policy)),
    ):
        measurement = measure(
            stated, chosen, stop=stop, on_progress=progress.show, **drop_unset({"mode": mode, **options})
        )
    if measurement.constant_secret is not None:
        warn_of_known_secret(compile_problem(stated), problem)
    if as_json:
        print_answer(json.dumps(measurement.to_dict(), indent=2))
    else:
        page = measurement_page(measurement, width=page_width())
        drawn = grid or grid_time is not None
        print_answer(
            render_page(with_grid(page, *compile_for_policy(stated, chosen), time=grid_time) if drawn else page)
        )
    if stop.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not (quiet or as_json):
        print_next_command(after_measure(problem, stated, measurement, policy=policy, any_model=any_model))


def _check(mode: Mode | None, options: Mapping[str, Any]) -> None:
    """Options that the mode ignores are refused."""
    idle = without_effect(options, belongs_to=_BELONGS_TO, chosen=f"--mode {mode}", used=_USED[mode or Mode.AUTO])
    if idle:
        raise InputError(idle)
