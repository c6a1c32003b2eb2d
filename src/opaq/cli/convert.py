"""`opaq convert`: a file of one format -> a file of another.

Reads by the ending and content of IN, writes by the ending of OUT; sentences on what is lost on the way, warnings and
the name of the file go to stderr, nothing to stdout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.interrupts import PROCESS_START
from opaq.cli.progress import ProgressPrinter
from opaq.cli.shell import print_note, warn
from opaq.errors import Fault, Faults, InputError


def command(
    source: Annotated[str, typer.Argument(metavar="IN", help="A problem, model, automaton or policy.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its ending names the format.")],
    problem_file: Annotated[str | None, typer.Option("--problem", help="The problem a policy is for.")] = None,
    constant: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A constant of a PRISM or JANI model.")
    ] = None,
    overwrite: shared.Overwrite = False,
) -> None:
    """Turn files into other formats: yaml, json, umb, dot, hoa; policies into csv, txt, storm.json, drn."""
    from opaq.files import check_writable
    from opaq.formats.registry import format_of
    from opaq.load import convert, load_problem

    constants = dict(_parse_constant(text) for text in constant or [])
    format = format_of(source)
    if constants and (format is None or "constants" not in format.options):
        raise InputError([Fault("--constant", "only PRISM and JANI models have constants", "leave it out")])
    check_writable(target, overwrite=overwrite)
    faults = Faults()
    with ProgressPrinter("converting", since=PROCESS_START):
        problem = None if problem_file is None else load_problem(problem_file)
        notes = convert(source, target, problem=problem, constants=constants, overwrite=overwrite, faults=faults)
    warn(faults.warnings, source)
    for line in (*notes, f"wrote {target}"):
        print_note(line)


def _parse_constant(text: str) -> tuple[str, bool | int | float]:
    """Return the name and the value of a constant that is written as NAME=VALUE.

    The value is true, false or a number; anything else raises InputError.
    """
    name, _, value = text.partition("=")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, int(value) if value.lstrip("-").isdigit() else float(value)
    except ValueError:
        raise InputError([Fault("--constant", f"is '{text}'", "write NAME=VALUE, such as N=5")]) from None
