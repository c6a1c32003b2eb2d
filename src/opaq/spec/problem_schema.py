"""The JSON Schema of problem files, for editors and checks."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def problem_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of a problem file: its shape and what every key means."""
    file = resources.files("opaq.spec") / "problem.schema.json"
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema
