"""Find the command that a command line names and run it.

Comes in: the arguments after the program's name. Goes out: an exit code. Heavy imports stay inside commands, so that
--help is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from opaq.cli.arguments import drop_unknown, make_command, settle_flags
from opaq.cli.shell import help_width, print_answer, run_guarded
from opaq.commands import COMMANDS
from opaq.errors import Fault, InputError, nearest
from opaq.version import __version__

# Plain help: the same text in a terminal, a pipe and a log, and no colour codes in any of them.
_STYLE: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


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
        return make_command(cmd_name, command, **_STYLE)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what stands before the name of the command; ctx: click's. Raises InputError for unknown options."""
        settle_flags(self, ctx)
        kept, faults = (args, []) if ctx.resilient_parsing else drop_unknown(self, ctx, args)
        rest: list[str] = super().parse_args(ctx, kept) if kept or not faults else []
        if faults:
            raise InputError(faults)
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command, the command, and the words after it; ctx: click's.

        Raises InputError, with the nearest name, where there is no such command.
        """
        name = args[0]
        if name in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = nearest(name, list(COMMANDS))
        advice = f"did you mean 'opaq {near[0]}'?" if near else "opaq --help lists them"
        if Path(name).is_file():
            advice = f"name one before the file, such as opaq measure {name}"
        raise InputError([Fault("", f"'{name}' is not a command", advice)])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its first sentence, to click's formatter; ctx: click's."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str()) for name in COMMANDS])


app = typer.Typer(
    name="opaq",
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": help_width()},
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
