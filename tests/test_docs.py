"""What the documents show works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import opaq
from opaq.product.compile import compile_problem
from opaq.spec.problem_part import problem_schema

DOCS = Path(__file__).parent.parent / "docs"
PROBLEM_FILE = (DOCS / "problem-file.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "problem-file-reference.md").read_text(encoding="utf-8")
GUIDES = ["python.md", "figures.md"]
BLOCKS = re.findall(r"```yaml( \w+)?\n(.*?)```", PROBLEM_FILE, flags=re.DOTALL)
WHOLE = [text for kind, text in BLOCKS if not kind]
PARTS = [(kind.strip(), text) for kind, text in BLOCKS if kind and kind != " skip"]


@pytest.mark.parametrize("text", WHOLE)
def test_whole_problems(text: str, tmp_path: Path) -> None:
    jsonschema.Draft202012Validator(problem_schema()).validate(yaml.safe_load(text))
    (tmp_path / "problem.yaml").write_text(text)
    compile_problem(opaq.load_problem(tmp_path / "problem.yaml"))


@pytest.mark.parametrize(("part", "text"), PARTS)
def test_parts_of_problems(part: str, text: str) -> None:
    spec: dict[str, Any] = yaml.safe_load(WHOLE[0])
    spec["model"]["named_rewards"] = {"fuel": {"*": -1}}
    spec[part] = yaml.safe_load(text)[part]
    jsonschema.Draft202012Validator(problem_schema()).validate(spec)
    assert opaq.build_problem(spec).horizon == 2


def test_every_key_of_the_schema_is_explained() -> None:
    schema = problem_schema()
    kinds = ("model", "grid", "imported", "sensor", "observer", "secret", "memory", "policy", "task")
    keys = {key for kind in kinds for key in schema["$defs"][kind]["properties"]} | set(schema["properties"])
    assert [key for key in sorted(keys) if f"| `{key}` |" not in REFERENCE] == []


@pytest.mark.parametrize("file", GUIDES)
def test_python(file: str, tmp_path: Path) -> None:
    text = (DOCS / file).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=tmp_path, timeout=300)


@pytest.mark.parametrize("file", ["problem-file.md", "problem-file-reference.md", "reproduction.md", *GUIDES])
def test_links_lead_somewhere(file: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", (DOCS / file).read_text(encoding="utf-8"))
    assert [link for link, _ in links if not (DOCS / link).exists()] == []
    assert [(link, part) for link, part in links if part and part not in anchors(DOCS / (link or file))] == []


def anchors(page: Path) -> set[str]:
    """What links may point to within a page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
