"""Studies as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from typing import Any

from opaq.escapes import printable
from opaq.reports.layout import WIDTH, number, wrapped

Study = Any  # an opaq.study.sweep_study.Study; reports know no study, only what they are given

_MOST_ROWS = 60  # of a table on a page; results.csv has them all
_MOST_FAILED = 5
_LONGEST = 24  # characters of a value
_FIGURES = ("opacity", "return", "guess error", "status", "seconds")


def study_to_dict(study: Study) -> dict[str, Any]:
    """The study as plain data; its keys are a promise (docs/answers.md)."""
    return {
        "folder": str(study.folder),
        "problem": study.problem,
        "parameters": list(study.parameters),
        "counts": {
            "points": len(study.points),
            "done": len(study.points) - len(study.failed) - len(study.unfinished),
            "infeasible": len(study.infeasible),
            "failed": len(study.failed),
            "unfinished": len(study.unfinished),
        },
        "interrupted": study.interrupted,
        "points": [_point_to_dict(point) for point in study.points],
    }


def _point_to_dict(point: Any) -> dict[str, Any]:
    row = {name: value for name, value in point.row().items() if name not in (*point.parameters, "seed", "version")}
    versions = None if point.versions is None else dict(point.versions)
    return row | {"parameters": dict(point.parameters), "seed": point.seed, "versions": versions}


def study_head(study: Study) -> tuple[str, ...]:
    """The columns of the table."""
    bound = ("bound",) if any(point.upper_bound is not None for point in study.points) else ()
    return ("point", *study.parameters, *_FIGURES[:1], *bound, *_FIGURES[1:])


def study_rows(study: Study) -> list[tuple[str, ...]]:
    """The first lines of the table, each with the cells of its head."""
    with_bound = "bound" in study_head(study)
    rows = []
    for point in study.points[:_MOST_ROWS]:
        bound = (_figure(point.upper_bound),) if with_bound else ()
        opacity = None if point.opacity is None else point.opacity.value
        figures = (_figure(point.expected_return), _figure(point.guess_error), point.status or "-")
        seconds = "-" if point.seconds is None else f"{point.seconds:.1f}"
        varied = (_value(point.parameters.get(path, "")) for path in study.parameters)
        rows.append((point.name, *varied, _figure(opacity), *bound, *figures, seconds))
    return rows


def study_summary(study: Study) -> str:
    """What became of the points, and where their results are."""
    counts = study_to_dict(study)["counts"]
    words = [f"{counts['done']:,} of {counts['points']:,} points done"]
    words += [f"{counts[kind]:,} {kind}" for kind in ("infeasible", "failed", "unfinished") if counts[kind]]
    hidden = len(study.points) - _MOST_ROWS
    more = f" ({hidden:,} more points there)" if hidden > 0 else ""
    lines = [f"{', '.join(words)}; all results are in {study.folder}/results.csv{more}"]
    lines += [f"point {point.name} failed: {point.error}" for point in study.failed[:_MOST_FAILED]]
    return "\n".join(map(printable, lines))


def render_study(study: Study, *, width: int = WIDTH) -> str:
    """The table and the summary, for a page."""
    table = [study_head(study), *study_rows(study)]
    widths = [max(len(printable(row[column])) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(printable(cell).ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in table
    ]
    summary = [line for text in study_summary(study).splitlines() for line in wrapped(text, width=width)]
    return "\n".join([*lines, "", *summary])


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _figure(value: float | None) -> str:
    return "-" if value is None else number(value)
