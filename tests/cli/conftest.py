"""Commands in this process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import NO_PROGRESS
from opaq.cli import progress
from opaq.cli.main import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def opaq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Run:
    """Run a command line in this process, in an empty folder."""
    monkeypatch.setattr(progress, "_FIRST", NO_PROGRESS)

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name, value in environment.items():
                patch.setenv(name, value)
            code = main(arguments)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(list(arguments), code, shown.out, shown.err)

    return run
