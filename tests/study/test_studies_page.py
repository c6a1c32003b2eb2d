"""What docs/studies.md shows works."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from opaq.study.sweep.files import FIGURES
from opaq.study.sweep.plan import PLAN, plan_schema, read_plan
from opaq.study.sweep.points import check_points

PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", re.findall(r"```yaml [\w.]+\n(.*?)```", PAGE, flags=re.DOTALL))
def test_plans(text: str, tmp_path: Path) -> None:
    jsonschema.Draft202012Validator(plan_schema()).validate(yaml.safe_load(text))
    (tmp_path / "plan.yaml").write_text(text)
    assert len(check_points(read_plan(tmp_path / "plan.yaml"))) == 6


def test_every_key_and_every_column_is_explained() -> None:
    assert [key.name for key in PLAN.keys[1:] if f"| `{key.name}` |" not in PAGE] == []
    assert [name for name in FIGURES if f"`{name}`" not in PAGE] == []
