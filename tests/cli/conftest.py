"""Commands in this process, and the installed program where a process of its own is the point."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from opaq.cli import measure, solve
from opaq.cli.main import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def opaq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Run:
    """Run a command line in this process, in an empty folder."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for command in (measure, solve):
                patch.setattr(command, "BEGUN", monotonic())  # the user has not waited since this process began
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(arguments)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(list(arguments), code, shown.out, shown.err)

    return run


@pytest.fixture
def program(tmp_path: Path) -> Run:
    """Run opaq in a process of its own, in an empty folder."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "opaq", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
            timeout=300,
            check=False,
        )

    return run
