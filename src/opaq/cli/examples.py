"""`opaq examples`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opaq.cli.shell import print_answer, print_note
from opaq.cli.terminal_tables import on_terminal, render_page


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The scenario to show; without it, all are listed.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", help="Write it to this file or into this folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """List the bundled scenarios, show one, or copy it out to change it."""
    from opaq import load
    from opaq.files import write_text

    if name is None:
        if to is not None:
            raise typer.BadParameter("name the scenario to copy", param_hint="--to")
        print_answer(_listing({known: load.describe_scenario(known) for known in load.scenario_names()}))
        return
    text = load.scenario_text(name)
    if to is None:
        print_answer(text)
        return
    target = to / f"{name}.yaml" if to.is_dir() else to
    write_text(target, text, overwrite=force)
    print_note(f"wrote {target}")


def _listing(descriptions: dict[str, str]) -> str:
    if on_terminal():
        from opaq.reports.layout import Page, TextTable

        return render_page(Page("", (TextTable(("scenario", "what it is about"), tuple(descriptions.items())),)))
    width = max(map(len, descriptions))
    return "\n".join(f"{name:<{width}}  {description}" for name, description in descriptions.items())
