"""`opaq examples`: nothing, or the name of a scenario -> the list of scenarios, or the text of one.

The list is a table on a terminal and plain lines elsewhere; with an output the text goes to a file in place of stdout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.output import on_terminal, render_page
from opaq.cli.shell import print_answer, print_note
from opaq.errors import Fault, InputError


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The scenario to show; without it, all are listed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it to this file or into this folder.")
    ] = None,
    overwrite: shared.Overwrite = False,
) -> None:
    """List the bundled scenarios, show one, or copy it out to change it."""
    from opaq import load
    from opaq.files import write_text

    if name is None:
        if output is not None:
            raise InputError([Fault("--output", "no scenario is named", "name the one to copy before it")])
        descriptions = {known: load.describe_scenario(known) for known in load.scenario_names()}
        if on_terminal():
            from opaq.reports.layout import Page, TextTable

            table = TextTable(("scenario", "what it is about"), tuple(descriptions.items()))
            print_answer(render_page(Page("", (table,))))
        else:
            width = max(map(len, descriptions))
            print_answer("\n".join(f"{known:<{width}}  {text}" for known, text in descriptions.items()))
        return
    text = load.scenario_text(name)
    if output is None:
        print_answer(text)
        return
    target = output / f"{name}.yaml" if output.is_dir() else output
    write_text(target, text, overwrite=overwrite)
    print_note(f"wrote {target}")
