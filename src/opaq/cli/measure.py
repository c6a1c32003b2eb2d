"""`opaq measure`: a problem and a policy -> opacity and return, as a page or as JSON.

Refuses options that the mode does not use, reads the inputs, calls `opaq.measure`, and names the next command on
stderr. A signal, and the time limit, end the work with what is certain by then.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.arguments import Checks
from opaq.cli.options import drop_unset, find_idle_options
from opaq.cli.output import add_grid, check_grid, print_json, print_page
from opaq.cli.session import compute, prepare, read_inputs, warn_of_known_secret
from opaq.cli.shell import INTERRUPTED, expect_answer, page_width
from opaq.errors import InputError


class Mode(StrEnum):
    """The ways to measure opacity, as `--mode` names them.

    auto: exact where the whole belief graph fits the budget, else an interval or an estimate.
    exact: the whole belief graph, or no answer where it does not fit.
    interval: a part of it, until the certified interval is as narrow as asked for or the budget is used up.
    sampled: an estimate from runs, with its standard error.
    """

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
    source: shared.ProblemName,
    policy_file: shared.PolicyName = None,
    mode: Annotated[
        Mode | None, typer.Option(help="How to measure; auto (the default) takes exact if it is affordable.")
    ] = None,
    width: Annotated[float | None, typer.Option(min=0, help="The widest interval to accept, in bits.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many runs to sample.")] = None,
    max_beliefs: shared.MaxBeliefs = None,
    mass: Annotated[float | None, typer.Option(min=0, max=1, help="The most probability to drop on purpose.")] = None,
    max_memory: shared.MaxMemory = None,
    time_limit: Annotated[
        float | None, shared.time_limit("Seconds after which to tell what is certain by then.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="At most so many threads on a large belief graph (default: one per core).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes sampling repeatable.")] = None,
    sequences: Annotated[int | None, typer.Option(min=0, help="How many telling sequences to show.")] = None,
    of: shared.OfSecret = None,
    for_: shared.ForObserver = None,
    capacity: Annotated[
        bool, typer.Option("--capacity", help="Find the most leakage over all priors of an initial secret.")
    ] = False,
    rate: Annotated[
        bool, typer.Option("--rate", help="Find the bits per step of an endless run, where the secret is a trajectory.")
    ] = False,
    channel: Annotated[
        Path | None, typer.Option(help="Write P(observations | secret), sequence by sequence: .csv or .npz.")
    ] = None,
    ignore_model_mismatch: shared.IgnoreModelMismatch = False,
    overwrite: shared.Overwrite = False,
    grid: shared.Grid = False,
    grid_time: shared.GridTime = None,
    as_json: shared.AsJson = False,
    quiet: shared.Quiet = False,
) -> None:
    """Tell the opacity and the return of a policy.

    Ctrl-C, and --time-limit when it is over, end the work with what is certain by then: an interval, or an estimate
    from fewer runs.
    """
    options = {
        "width": width,
        "samples": samples,
        "max_beliefs": max_beliefs,
        "mass": mass,
        "seed": seed,
        "sequences": sequences,
        "max_memory": max_memory,
        "time_limit": time_limit,
        "workers": workers,
    }
    expect_answer()
    used = _USED[mode or Mode.AUTO]
    idle = find_idle_options(options, belongs_to=_BELONGS_TO, chosen=f"--mode {mode}", used=used)
    checks = Checks(*([InputError(idle)] if idle else []))
    if channel is not None:
        from opaq.files import check_writable
        from opaq.opacity.channel import check_channel_file

        checks.run(check_channel_file, channel)
        checks.run(check_writable, channel, overwrite=overwrite)
    problem, policy = checks.read(
        read_inputs, source, policy_file, ignore_model_mismatch=ignore_model_mismatch, of=of, for_=for_, quiet=quiet
    )
    checks.run(check_grid, problem, source, grid=grid, time=grid_time, as_json=as_json)
    checks.raise_if_any()
    with prepare(quiet=quiet):
        from opaq.cli.next_step import after_measure, print_next_command
        from opaq.opacity.measure import measure  # slow to import: a fault in a file is shown before
        from opaq.reports.text.measurement import measurement_page
    with compute("measuring", str(policy_file or source), limit=time_limit, quiet=quiet) as work:
        measurement = measure(
            problem,
            policy,
            capacity=capacity,
            rate=rate,
            stop=work.stop,
            on_progress=work.progress.show,
            **drop_unset({"mode": mode, **options}),
        )
        assert measurement.compiled is not None  # by `measure`
        product, pi = measurement.compiled
        if channel is not None:
            from opaq.opacity.channel import channel_of_product

            work.progress.show("listing observation sequences")
            channel_of_product(product, pi, stop=work.stop).save(channel, overwrite=overwrite)
    if measurement.constant_secret is not None:
        warn_of_known_secret(product, source)
    if as_json:
        print_json(measurement.to_dict())
    else:
        page = measurement_page(measurement, width=page_width())
        drawn = grid or grid_time is not None
        print_page(add_grid(page, product, pi, time=grid_time) if drawn else page)
    if work.stop.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not (quiet or as_json):
        print_next_command(
            after_measure(
                source,
                problem,
                measurement,
                policy=policy_file,
                limits=options,
                ignore_model_mismatch=ignore_model_mismatch,
            )
        )
