"""`opaq simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opaq.cli.shell import about, answer, expect_answer, page_width, warn
from opaq.errors import Faults


def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="A problem file or the name of a scenario.")],
    policy: Annotated[Path | None, typer.Option(help="A policy file; uniform without it.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="How many runs.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Makes the runs repeatable.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of runs.")] = False,
) -> None:
    """Sample runs, with what the observer sees and comes to believe."""
    import json

    from opaq.loading.policy_files import load_policy
    from opaq.loading.scenarios import load_problem

    expect_answer()
    faults = Faults()
    stated = load_problem(problem, faults=faults)
    warn(faults.warnings, problem)
    chosen = None if policy is None else load_policy(policy, stated)

    import numpy as np

    from opaq.product.compile import compile_problem
    from opaq.reports.run_text import render_runs, runs_to_dict
    from opaq.simulation.replay import replay

    with about(problem if policy is None else str(policy)):
        product = compile_problem(stated, chosen.policy_class if chosen is not None else None)
        told = replay(product, product.policy_vector(chosen), count=runs, rng=np.random.default_rng(seed))
    answer(json.dumps(runs_to_dict(told), indent=1) if as_json else render_runs(told, width=page_width()))
