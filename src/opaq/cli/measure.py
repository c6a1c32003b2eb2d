"""`opaq measure`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from opaq.cli.shell import about, answer, warn
from opaq.errors import Faults


class Mode(StrEnum):
    """How opacity is measured."""

    AUTO = "auto"
    EXACT = "exact"
    INTERVAL = "interval"
    SAMPLED = "sampled"


def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")],
    policy: Annotated[Path | None, typer.Option(help="A policy file; uniform without it.")] = None,
    mode: Annotated[Mode, typer.Option(help="How to measure; auto takes exact if it is affordable.")] = Mode.AUTO,
    width: Annotated[float | None, typer.Option(min=0, help="The widest interval to accept, in bits.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many runs to sample.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="The most beliefs to keep at a time.")] = None,
    mass: Annotated[float | None, typer.Option(min=0, max=1, help="The most probability to drop on purpose.")] = None,
    memory: Annotated[float | None, typer.Option(min=0.001, help="The most memory to use, in GiB.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes sampling repeatable.")] = None,
    sequences: Annotated[int | None, typer.Option(min=0, help="How many telling sequences to show.")] = None,
    any_model: Annotated[bool, typer.Option("--any-model", help="Take a policy made for another model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell the opacity and the return of a policy."""
    import json

    from opaq.io.policy_file import load_policy
    from opaq.io.scenarios import load_problem

    faults = Faults()
    stated = load_problem(problem, faults=faults)
    warn(faults.warnings, problem)
    faults = Faults()
    chosen = None if policy is None else load_policy(policy, stated, any_model=any_model, faults=faults)
    warn(faults.warnings, str(policy))

    from opaq.opacity.measure import measure  # slow to import: a fault in a file is told before
    from opaq.report.text import measurement_to_dict, render_measurement

    asked = {"width": width, "samples": samples, "nodes": nodes, "mass": mass, "seed": seed, "sequences": sequences}
    asked["memory"] = None if memory is None else round(memory * 2**30)
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    with about(problem if policy is None else str(policy)):
        measurement = measure(stated, chosen, mode=mode.value, **given)
    answer(json.dumps(measurement_to_dict(measurement), indent=2) if as_json else render_measurement(measurement))
