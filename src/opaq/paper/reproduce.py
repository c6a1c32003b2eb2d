"""Run every experiment of the paper by name, and write the results as files: the calls behind `opaq reproduce`.

Comes in: names of experiments and their settings. Goes out: `ExperimentResult`s, tables (results.md, results.tex,
results.json) and pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from opaq.errors import Fault, InputError
from opaq.files import check_writable, write_text
from opaq.opacity.kernel_warmup import compile_kernels
from opaq.paper.experiments import SCENARIOS, ReproductionSettings, run_baseline, run_scenario, run_two_sink
from opaq.paper.outcomes import ExperimentResult, latex_outcomes, outcomes_to_dict, render_outcomes
from opaq.reports.figures.style import ENDINGS, require_matplotlib, save_figure
from opaq.version import __version__

_SCENARIOS = {experiment.scenario: experiment for experiment in SCENARIOS}
NAMES = ("two-sink", *_SCENARIOS, "baseline")


def choose_experiments(name: str) -> tuple[str, ...]:
    """Return the experiments that a name stands for: itself or, for "all", every one.

    Raises InputError for other names, with those there are.
    """
    if name != "all" and name not in NAMES:
        raise InputError([Fault("", f"no experiment is called '{name}'", f"there are {', '.join(NAMES)}, and all")])
    return NAMES if name == "all" else (name,)


def reproduce(name: str, settings: ReproductionSettings) -> ExperimentResult:
    """Return the result of one experiment.

    name: one of NAMES. settings: seed, effort, and who hears of progress.
    """
    if name == "two-sink":
        return run_two_sink(settings)
    return run_baseline(settings) if name == "baseline" else run_scenario(_SCENARIOS[name], settings)


def reproduce_into(
    folder: Path,
    names: Sequence[str],
    settings: ReproductionSettings,
    *,
    overwrite: bool = False,
    on_failure: Callable[[InputError], None] | None = None,
) -> list[ExperimentResult]:
    """Run experiments and write their results to a folder: a table, the same as JSON, and every picture in each format.

    folder: where; it is made if need be. names: of the experiments. settings: of all of them.
    overwrite: whether files that are there may be replaced.
    on_failure: called when writing fails in the middle (a disk that has filled up), and the work goes on; without it
    the error is raised.

    Files are written after each experiment, so that an interrupted run keeps its part. The kernels are compiled before,
    so that the times in the results are those of the experiments. Raises InputError before any work when matplotlib is
    not installed, or when a file cannot be written, or is there already and may not be overwritten.
    """
    require_matplotlib()
    _prepare(folder, names, overwrite)
    compile_kernels(derivatives=True)
    outcomes: list[ExperimentResult] = []
    for name in names:
        outcomes.append(reproduce(name, settings))
        try:
            for stem, figure in outcomes[-1].figures.items():
                for ending in ENDINGS:
                    save_figure(figure, folder / f"{stem}{ending}", overwrite=True)
            _write_results(folder, outcomes, settings)
        except InputError as error:
            if on_failure is None:
                raise
            on_failure(error)
    return outcomes


def results_json(outcomes: Sequence[ExperimentResult], settings: ReproductionSettings) -> str:
    """Return the results as the text of one JSON object."""
    results = outcomes_to_dict(outcomes, version=__version__, seed=settings.seed, quick=settings.quick)
    return json.dumps(results, indent=2) + "\n"


def _prepare(folder: Path, names: Sequence[str], overwrite: bool) -> None:
    """Make the folder. Raises InputError where a file cannot be written, or is there and may not be overwritten."""
    stems = [stem for name in names for stem in (name, f"{name}-policy")]
    planned = [
        "results.md",
        "results.tex",
        "results.json",
        *(f"{stem}{ending}" for stem in stems for ending in ENDINGS),
    ]
    there = [file for file in planned if (folder / file).exists()]
    if there and not overwrite:
        faults = [Fault(file, "exists already", "use --overwrite, or --output another folder") for file in there]
        raise InputError(faults, str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError([Fault("", f"cannot be made a folder ({error.strerror})")], str(folder)) from None
    for file in {"results.md", *there}:
        check_writable(folder / file, overwrite=True)


def _write_results(folder: Path, outcomes: Sequence[ExperimentResult], settings: ReproductionSettings) -> None:
    """Write results.md for people, results.tex for papers, results.json for programs, with all experiments so far."""
    how = "quick: fewer iterations and starts" if settings.quick else "the paper's settings in full"
    head = f"# The paper's experiments\n\nopaq {__version__}, seed {settings.seed}, {how}.\n\n"
    write_text(folder / "results.md", head + render_outcomes(outcomes), overwrite=True)
    write_text(folder / "results.tex", latex_outcomes(outcomes), overwrite=True)
    write_text(folder / "results.json", results_json(outcomes, settings), overwrite=True)
