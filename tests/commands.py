"""Command lines in this process, for tests in which a process of its own is not the point."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from subprocess import CompletedProcess

from opaq.cli.main import main


def opaq_command(*arguments: object) -> CompletedProcess[str]:
    """Run a command line; what it printed and its exit code."""
    given, out, err = [str(argument) for argument in arguments], StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(given)
    return CompletedProcess(given, code, out.getvalue(), err.getvalue())
