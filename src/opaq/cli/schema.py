"""`opaq schema`."""

from __future__ import annotations

from opaq.cli.shell import answer


def command() -> None:
    """Print the JSON Schema of problem files, for editors and checks."""
    import json

    from opaq.spec.problem_part import problem_schema

    answer(json.dumps(problem_schema(), indent=2, ensure_ascii=False))
