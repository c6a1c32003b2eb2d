"""`opaq reproduce`: the name of an experiment of the paper -> tables and pictures in a folder, the table on stdout.

Experiments run one after the other; the files are written after each, and a failure to write one does not end the work
but gives exit code 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opaq.cli import options as shared
from opaq.cli.shell import BAD_INPUT, DONE, expect_answer, print_answer, print_faults, print_note
from opaq.errors import InputError


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME|all]",
            help="two-sink, grid-last-state, grid-last-state-4, grid-initial-state, grid-initial-state-4, graph, "
            "graph-published, baseline, or all.",
        ),
    ] = "all",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for results and pictures.")
    ] = Path("reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the paper's iterations, two starts of lagrangian.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Makes the runs repeatable.")] = 0,
    overwrite: shared.Overwrite = False,
    form: shared.TableFormat = shared.Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the paper's experiments again: published figures, the paper's algorithm, lagrangian, the default solver."""
    from opaq.paper.experiments import ReproductionSettings
    from opaq.paper.outcomes import latex_outcomes, render_outcomes
    from opaq.paper.reproduce import choose_experiments, reproduce_into, results_json

    shared.refuse_two_formats(form, as_json=as_json)
    expect_answer()
    code = DONE

    def note_failure(error: InputError) -> None:
        """Show why a file could not be written, and let the command end with the code of bad input."""
        nonlocal code
        code = BAD_INPUT
        print_faults(error)

    settings = ReproductionSettings(seed=seed, quick=quick, on_progress=print_note)
    outcomes = reproduce_into(output, choose_experiments(name), settings, overwrite=overwrite, on_failure=note_failure)
    print_note(f"wrote results and pictures to {output}" if code == DONE else "not all results could be written")
    render = latex_outcomes if form is shared.Format.LATEX else render_outcomes
    print_answer(results_json(outcomes, settings) if as_json else render(outcomes))
    raise typer.Exit(code)
