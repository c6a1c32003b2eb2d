"""The `opaq` command. Heavy imports stay inside the commands, so that --help is quick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from opaq.cli import check, compare, convert, examples, measure, reproduce, schema, simulate, solve
from opaq.cli.shell import answer, run_guarded
from opaq.version import __version__

# Plain help: the same text in a terminal, a pipe and a log, and no colour codes in any of them.
app = typer.Typer(
    name="opaq",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="measure")(measure.command)
app.command(name="solve")(solve.command)
app.command(name="compare")(compare.command)
app.command(name="simulate")(simulate.command)
app.command(name="check")(check.command)
app.command(name="convert")(convert.command)
app.command(name="examples")(examples.command)
app.command(name="reproduce")(reproduce.command)
app.command(name="schema")(schema.command)


def _show_version(wanted: bool) -> None:
    if wanted:
        answer(f"opaq {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Measure and maximise opacity: how little an eavesdropper learns about a secret of a Markov decision process.

    PROBLEM is a YAML or JSON file, or the name of a bundled scenario (see `opaq examples`).
    """


def main(arguments: Sequence[str]) -> int:
    """Run the command line; its exit code."""
    return run_guarded(lambda kept: app(args=kept, prog_name="opaq"), arguments)
