"""Console transcripts of the pages: commands after `$`, with what they printed when the page was made.

An output that ends with a line `...` is cut after as many lines as it had.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from opaq.cli import progress
from opaq.cli.main import main

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
_BLOCK = re.compile(r"(?<=\n)```console\n(.*?)```", flags=re.DOTALL)


def refreshed(text: str) -> str:
    """The page with the outputs that its commands have now; all commands of a page share one folder."""
    if not _BLOCK.search(text):
        return text
    with TemporaryDirectory() as folder, chdir(folder):
        shutil.copytree(EXAMPLES, "examples")
        return _BLOCK.sub(lambda match: "```console\n" + "".join(_commands(match[1])) + "```", text)


def _commands(block: str) -> Iterator[str]:
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        if not part:
            continue
        command, *before = part.rstrip("\n").splitlines()
        now = output(command.removeprefix("$ opaq ")).splitlines()
        if before and before[-1] == "...":
            now = [*now[: len(before) - 1], "..."]
        yield "\n".join([command, *now]) + "\n"


def output(arguments: str) -> str:
    """What a command prints, without progress: stderr, then stdout."""
    out, err = StringIO(), StringIO()
    with patch.object(progress, "_FIRST", 1e6), redirect_stdout(out), redirect_stderr(err):
        main(shlex.split(arguments, comments=True))
    return err.getvalue() + out.getvalue()
