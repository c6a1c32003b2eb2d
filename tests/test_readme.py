"""What the README promises is there; what it shows is run by test_docs.py."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_package_promises_what_there_is() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    done = subprocess.run([sys.executable, "-m", "opaq", "--help"], check=True, capture_output=True, text=True)
    for promise in ("measure", "maximise", "certify"):
        command = {"maximise": "solve"}.get(promise, promise)
        assert (promise in told["description"].lower()) == bool(re.search(rf"^  {command} ", done.stdout, re.MULTILINE))
    named = set(re.findall(r"`\.\[(\w+)\]`", TEXT))
    assert named == {"storm", "gym", "dataframes", "ray"}
    assert named <= set(told["optional-dependencies"])


def test_examples_are_counted() -> None:
    files = list((ROOT / "examples").glob("*.yaml"))
    assert len(files) == 8
    assert "holds eight more problems" in " ".join(TEXT.split())
