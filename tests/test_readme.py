"""What the README shows works."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import opaq

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("code", [code for language, code in BLOCKS if language == "python"])
def test_python(code: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)


@pytest.mark.parametrize("code", [code for language, code in BLOCKS if language == "yaml"])
def test_problems(code: str, tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(code)
    assert opaq.load_problem(tmp_path / "problem.yaml").horizon == 2


def test_commands(tmp_path: Path) -> None:
    lines = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines()]
    commands = [line.partition("#")[0].split() for line in lines if line.startswith("opaq ")]
    assert len(commands) >= 4
    for command in commands:
        program = str(Path(sys.executable).parent / command[0])
        subprocess.run([program, *command[1:]], check=True, cwd=tmp_path, capture_output=True, timeout=300)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_package_promises_what_there_is() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    done = subprocess.run([sys.executable, "-m", "opaq", "--help"], check=True, capture_output=True, text=True)
    for promise in ("measure", "maximise", "certify"):
        command = {"maximise": "solve"}.get(promise, promise)
        assert (promise in told["description"].lower()) == bool(re.search(rf"^  {command} ", done.stdout, re.MULTILINE))
    named = set(re.findall(r"`\.\[(\w+)\]`", TEXT))
    assert named == {"storm", "gym", "convex"}
    assert named <= set(told["optional-dependencies"])


def test_examples_are_counted() -> None:
    files = list((ROOT / "examples").glob("*.yaml"))
    assert len(files) == 8
    assert "holds eight more problems" in " ".join(TEXT.split())
