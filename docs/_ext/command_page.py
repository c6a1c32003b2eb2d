"""The page of all commands, made from the code that parses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from opaq.cli.main import app

HEAD = """\
# Commands

This page is made from the commands themselves (`python docs/generate.py`); `opaq COMMAND --help` shows the same.
[Answers](../answers.md) explains what they print, [Errors](errors.md) the exit codes and how faults read.
"""


def page() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_command(app)
    context = group.context_class(group, info_name="opaq")
    names = group.list_commands(context)
    parts = [HEAD, "\n".join(_list(group, context, names)), "\n".join(_command(group, "opaq", heading="opaq"))]
    parts += ["\n".join(_command(group.get_command(context, name), f"opaq {name}")) for name in names]
    return "\n".join(parts)


def _list(group: Any, context: Any, names: list[str]) -> Iterator[str]:
    yield "| command | |"
    yield "|---|---|"
    for name in names:
        first = group.get_command(context, name).help.strip().splitlines()[0]
        yield f"| [`opaq {name}`](#opaq-{name}) | {_cell(first)} |"
    yield ""


def _command(command: Any, name: str, *, heading: str = "") -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    yield f"## {heading or name}"
    yield ""
    yield "```text"
    yield command.get_usage(context).removeprefix("Usage: ")
    yield "```"
    yield ""
    yield from (command.help or "").strip().splitlines()
    yield ""
    records = [
        (parameter.metavar.strip("[]"), parameter.help)
        if parameter.param_type_name == "argument"
        else parameter.get_help_record(context)
        for parameter in command.get_params(context)
    ]
    yield "| argument or option | |"
    yield "|---|---|"
    for left, right in filter(None, records):
        yield f"| `{_cell(left)}` | {_cell(right)} |"
    yield ""


def _cell(text: str) -> str:
    """Text in a table."""
    return " ".join(text.split()).replace("|", "\\|")
