"""Sections to docs/benchmarks.md and its picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import Curve, Section, Settings, Table
from opaq.files import write_bytes, write_text

DOCUMENT = "benchmarks.md"
PICTURE = "pictures/benchmarks-scaling.svg"
BUSY_NOTE = """
The machine was **busy** with other work when the run began. Spreads are wide then, and ratios are skewed: a call that
is shorter than a time slice of the system is rarely interrupted, a longer one always is, and one on several threads
waits for the slowest. Ratios of such a run are not to be quoted.
"""
INTRODUCTION = """# Benchmarks

Written by `make bench` (`python -m benchmarks`); do not edit it by hand.

How to read it: every contestant takes its turn in the same run, opaq and peer one after the other, in {repeats}
repeats. A figure is the ratio of the two within a repeat: the median over the repeats, and its range. More than 1
means that opaq is the quicker one. Before anything is timed the two answers are compared, and the run fails if they
are not the same number. Times stand beside the ratios as context: they belong to this machine and this load, and are
no claim. A goal that is not met says **missed**; where there was no goal and opaq is slower, it says **slower**.
"""


def write_document(
    folder: Path, sections: Mapping[str, Section], note: Mapping[str, str], settings: Settings, *, seconds: float
) -> Path:
    """Write the document and, if there are curves, its picture; the path of the document."""
    curves = [curve for section in sections.values() for curve in section.curves]
    if curves:
        (folder / PICTURE).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / PICTURE, scaling_picture(curves), overwrite=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / DOCUMENT, document(sections, note, settings, seconds=seconds), overwrite=True)
    return folder / DOCUMENT


def document(sections: Mapping[str, Section], note: Mapping[str, str], settings: Settings, *, seconds: float) -> str:
    """The whole text."""
    parts = [INTRODUCTION.format(repeats=settings.repeats), machine_part(note, settings, seconds=seconds)]
    parts += [section_part(name, section) for name, section in sections.items()]
    return "\n".join(parts)


def machine_part(note: Mapping[str, str], settings: Settings, *, seconds: float) -> str:
    """The machine note, and what makes this run weaker than it could be."""
    rows = [
        *note.items(),
        ("load at the end", f"{os.getloadavg()[0]:.2f}"),
        ("the run took", f"{seconds / 60:.1f} minutes"),
    ]
    text = "## The run\n\n" + markdown(Table(("", ""), tuple(rows)))
    if settings.quick:
        text += "\nThis was a **quick run** on small sizes (`--quick`): it shows that all works, not how fast it is.\n"
    if settings.busy:
        text += BUSY_NOTE
    if not settings.judged:
        text += "\nGoals are judged by a full run on an idle machine only.\n"
    return text


def section_part(name: str, section: Section) -> str:
    """One benchmark."""
    parts = [f"## {section.title}\n", section.explanation.strip() + "\n"]
    parts += [markdown(table) for table in section.tables]
    if section.curves:
        parts.append(f"![Time against size, both relative to the smallest size]({PICTURE})\n")
    parts += [f"Skipped: {reason}\n" for reason in section.skipped]
    parts.append(f"Alone: `python -m benchmarks --only {name}`.\n")
    return "\n".join(parts)


def markdown(table: Table) -> str:
    """A table of Markdown, its note below."""
    lines = [table.header, tuple("---" for _ in table.header), *table.rows]
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return f"{text}\n{table.note}\n" if table.note else text


def scaling_picture(curves: Sequence[Curve]) -> bytes:
    """Time against size in log-log scale, relative to the smallest size; the grey line is proportional growth."""
    import io

    import matplotlib
    from matplotlib.figure import Figure

    modes = list(dict.fromkeys(curve.mode for curve in curves))
    with matplotlib.rc_context({"svg.hashsalt": "opaq", "svg.fonttype": "none"}):
        figure = Figure(figsize=(4 * len(modes), 3.6), layout="constrained")
        for axes, mode in zip(figure.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
            _draw(axes, [curve for curve in curves if curve.mode == mode], mode)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def _draw(axes: Any, curves: Sequence[Curve], mode: str) -> None:
    import numpy as np

    largest = max(curve.sizes[-1] / curve.sizes[0] for curve in curves)
    axes.loglog([1, largest], [1, largest], color="0.8", linewidth=4, label="proportional")
    for curve in curves:
        factors = np.array(curve.seconds) / np.array(curve.seconds[0])
        middle = np.median(factors, axis=1)
        spread = [middle - factors.min(axis=1), factors.max(axis=1) - middle]
        sizes = np.array(curve.sizes) / curve.sizes[0]
        axes.errorbar(sizes, middle, yerr=spread, marker="o", markersize=4, capsize=2, label=curve.what)
    axes.set(title=mode, xlabel="size / smallest size", ylabel="time / time of the smallest")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(fontsize="small")
