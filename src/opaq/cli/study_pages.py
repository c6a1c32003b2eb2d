"""`opaq report` for a sweep or a front: its page, and the reports of its points."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError

_FRONT, _HEAD = b'"frontier"', 4096  # what stands at the head of a file with a front, and how much is read of it
KEPT = ("title", "problem", "question", "answer", "counts", "reports")


def is_study(name: str) -> bool:
    """Return whether a name is that of a folder, or of a file that holds a front."""
    from opaq.load import scenario_names

    if name in scenario_names() or not (os.path.isdir(name) or os.path.isfile(name)):
        return False
    if os.path.isdir(name):
        return True
    try:
        with open(name, "rb") as file:
            head = file.read(_HEAD)
    except OSError:  # whoever reads it as a problem says so
        return False
    if _FRONT not in head:
        return False
    from opaq.reports.study_report import front_in_file  # takes long to load

    return front_in_file(name) is not None


def refuse(options: Mapping[str, object], *, chosen: str, advice: str) -> None:
    """Raise InputError for every option that was given."""
    faults = [Fault(flag, f"has no effect for {chosen}", advice) for flag, value in options.items() if value]
    if faults:
        raise InputError(faults)


def refuse_unknown(name: str) -> None:
    """Raise InputError for what is neither there nor the name of a scenario."""
    from difflib import get_close_matches

    from opaq.load import scenario_names

    if name in scenario_names() or os.path.lexists(name):
        return
    near = get_close_matches(name, scenario_names(), n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    kinds = "a problem file, the folder of a sweep, what frontier --json printed, or a scenario"
    advice = f"{meant}give {kinds}: {', '.join(scenario_names())}"
    raise InputError([Fault("", "there is no such file, folder or scenario", advice)], name)


def number_of_points(text: str | None) -> Any:
    """Return what `--points` says: all, none, or how many."""
    if text is None or text in ("all", "none"):
        return text
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise InputError([Fault("--points", f"is {text[:40]!r}", "write all, none, or how many")])


def write_study(
    name: str, to: Path, *, points: Any, policies: Path | None, overwrite: bool, quiet: bool, **options: Any
) -> tuple[Mapping[str, Any], bool]:
    """Write the pages; the data of the first, and whether the work was interrupted."""
    from opaq.cli.interrupts import PROCESS_START, interrupts
    from opaq.cli.progress import ProgressPrinter
    from opaq.cli.shell import faults_in, print_note

    with ProgressPrinter("preparing", quiet=quiet, since=PROCESS_START):
        from opaq.opacity.kernel_warmup import compile_kernels
        from opaq.reports.study_report import source_of, study_report

        source = source_of(name, policies=policies)
        assert source is not None  # it is a study
        if points not in ("none", 0):
            compile_kernels()
    with interrupts.computing() as stop, ProgressPrinter("reporting", quiet=quiet) as progress, faults_in(str(to)):
        made = study_report(
            source, output=to, points=points, overwrite=overwrite, stop=stop, on_progress=progress.show, **options
        )
    if made.data["reports"]["text"] and not quiet:
        print_note(made.data["reports"]["text"])
    return made.data, stop.interrupted
