"""Command lines in this process, for tests in which a process of its own is not the point."""

from __future__ import annotations

import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from subprocess import CompletedProcess
from unittest.mock import patch

from opaq.cli import progress
from opaq.cli.main import main

NO_PROGRESS = 1e6  # seconds to the first line of progress: a busy machine shows none either


def opaq_command(*arguments: object) -> CompletedProcess[str]:
    """Run a command line; what it printed and its exit code."""
    given, out, err = [str(argument) for argument in arguments], StringIO(), StringIO()
    with patch.object(progress, "_FIRST", NO_PROGRESS), redirect_stdout(out), redirect_stderr(err):
        code = main(given)
    return CompletedProcess(given, code, out.getvalue(), err.getvalue())


def without_progress(stderr: str) -> str:
    """What a process of its own said, without the lines of progress that a busy machine shows."""
    return re.sub(r"^opaq: [a-z ]+ \d+ s( \|.*)?\n", "", stderr, flags=re.MULTILINE)
