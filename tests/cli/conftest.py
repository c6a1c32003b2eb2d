"""Commands as users run them: in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def opaq(tmp_path: Path) -> Run:
    """Run the installed `opaq` in an empty folder."""
    program = Path(sys.executable).parent / "opaq"

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
            timeout=300,
            check=False,
        )

    return run
