"""`opaq schema`: nothing -> the JSON Schema of problem files, or of plans of sweeps, on stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from opaq.cli.shell import print_answer


def command(
    plan: Annotated[bool, typer.Option("--plan", help="That of the plans of sweeps instead.")] = False,
) -> None:
    """Print the JSON Schema of problem files, for editors and checks."""
    import json

    from opaq.spec.problem_part import problem_schema
    from opaq.study.sweep.plan import plan_schema

    print_answer(json.dumps(plan_schema() if plan else problem_schema(), indent=2, ensure_ascii=False))
