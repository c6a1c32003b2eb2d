"""Every experiment of the paper by name, and their results as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from opaq.errors import Fault, InputError
from opaq.files import check_writable, write_text
from opaq.opacity.kernel_warmup import compile_kernels
from opaq.paper import regularised as baseline
from opaq.paper import solved, two_sink
from opaq.paper.outcomes import ExperimentResult, outcomes_to_dict, render_outcomes
from opaq.paper.settings import EXPERIMENTS, ReproductionSettings
from opaq.reports.figures.style import ENDINGS, require_matplotlib, save_figure
from opaq.version import __version__

_SOLVED = {experiment.scenario: experiment for experiment in EXPERIMENTS}
NAMES = ("two-sink", *_SOLVED, "baseline")


def names_of(name: str) -> tuple[str, ...]:
    """The experiments a name stands for: itself, or all of them. Raises InputError for a name there is not."""
    if name != "all" and name not in NAMES:
        raise InputError([Fault("", f"no experiment is called '{name}'", f"there are {', '.join(NAMES)}, and all")])
    return NAMES if name == "all" else (name,)


def reproduce(name: str, effort: ReproductionSettings) -> ExperimentResult:
    """One experiment by its name."""
    if name == "two-sink":
        return two_sink.run(effort)
    if name == "baseline":
        return baseline.run(effort)
    return solved.run(_SOLVED[name], effort)


def reproduce_into(
    folder: Path,
    names: Sequence[str],
    effort: ReproductionSettings,
    *,
    overwrite: bool = False,
    on_failure: Callable[[InputError], None] | None = None,
) -> list[ExperimentResult]:
    """Run the experiments; results and pictures are written after each, so that an interrupted run keeps its part.

    The kernels are compiled before, so that the times in the results are those of the experiments.
    Raises InputError before any work when matplotlib is not installed, or when a file cannot be written, or is there
    already and may not be overwritten.
    If writing fails later (a disk that has filled up), `on_failure` is called and the work goes on; without it the
    error is raised.
    """
    require_matplotlib()
    _prepare(folder, names, overwrite)
    compile_kernels(derivatives=True)
    outcomes: list[ExperimentResult] = []
    for name in names:
        outcomes.append(reproduce(name, effort))
        try:
            _write_pictures(folder, outcomes[-1])
            _write_results(folder, outcomes, effort)
        except InputError as error:
            if on_failure is None:
                raise
            on_failure(error)
    return outcomes


def results_json(outcomes: Sequence[ExperimentResult], effort: ReproductionSettings) -> str:
    """The results as one JSON object."""
    found = outcomes_to_dict(outcomes, version=__version__, seed=effort.seed, quick=effort.quick)
    return json.dumps(found, indent=2) + "\n"


def _prepare(folder: Path, names: Sequence[str], overwrite: bool) -> None:
    stems = [stem for name in names for stem in (name, f"{name}-policy")]
    planned = ["results.md", "results.json", *(f"{stem}{ending}" for stem in stems for ending in ENDINGS)]
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


def _write_pictures(folder: Path, outcome: ExperimentResult) -> None:
    for stem, figure in outcome.figures.items():
        for ending in ENDINGS:
            save_figure(figure, folder / f"{stem}{ending}", overwrite=True)


def _write_results(folder: Path, outcomes: Sequence[ExperimentResult], effort: ReproductionSettings) -> None:
    how = "quick: fewer iterations and starts" if effort.quick else "the paper's settings in full"
    head = f"# The paper's experiments\n\nopaq {__version__}, seed {effort.seed}, {how}.\n\n"
    write_text(folder / "results.md", head + render_outcomes(outcomes), overwrite=True)
    write_text(folder / "results.json", results_json(outcomes, effort), overwrite=True)
