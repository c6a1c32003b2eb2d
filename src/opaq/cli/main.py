"""Find the command that a command line names and run it.

Comes in: the arguments after the program's name. Goes out: an exit code. Heavy imports stay inside commands, so that
--help is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from opaq.cli.shell import print_answer, run_guarded
from opaq.commands import COMMANDS
from opaq.version import __version__

# Plain help: the same text in a terminal, a pipe and a log, and no colour codes in any of them.
_STYLE: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}


class _Commands(TyperGroup):
    """The commands, each loaded when it is needed: to run it, or to list what there is."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help; ctx: of click, not used."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command and return it as click takes it; None if there is no such command.

        ctx: of click, not used. cmd_name: as it is written on the command line.
        """
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        if isinstance(command, str):
            module, _, name = command.partition(":")
            command = getattr(import_module(module), name)
        alone = typer.Typer(**_STYLE)
        alone.command(name=cmd_name)(command)
        return typer.main.get_command(alone)


app = typer.Typer(
    name="opaq",
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **_STYLE,
)


def _show_version(wanted: bool) -> None:
    """Print the version and end the command, if that is `wanted`."""
    if wanted:
        print_answer(f"opaq {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Measure, maximise and certify opacity: how little an eavesdropper learns about a secret of a Markov process.

    PROBLEM is a YAML or JSON file, or the name of a bundled scenario (see `opaq examples`).
    """


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    arguments: those after the program's name. Whatever a command raises is explained on stderr; nothing is raised here.
    """
    return run_guarded(lambda kept: app(args=kept, prog_name="opaq"), arguments)
