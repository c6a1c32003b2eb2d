"""Make the page of a study: its points as a table, and what became of them.

Comes in: a `Study`. Goes out: a `Page`; results.csv in the folder of the study has what a page has no room for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opaq.errors import cut_middle, escape_invisible
from opaq.opacity.amount import Amount
from opaq.reports.layout import WIDTH, Notes, Page, TextTable
from opaq.reports.numbers import number, page_amount, uncertainty_title
from opaq.study.sweep.laws import BrokenLaw
from opaq.study.sweep.study import Study, StudyPoint

_MOST_ROWS = 60  # of a table on a page; results.csv has them all
_MOST_FAILED = 5
_MOST_LAWS = 5
_LONGEST = 24  # characters of a value
_FIGURES = ("opacity", "return", "guess error", "status", "seconds")
_OBJECTIVE = "objective"  # where points are about a pair, or several, of a secret and an observer
_VARIED = "parameters"  # the column of all that is varied, where a column each is too wide
_ENOUGH = 30  # characters of that column; with less, the guess error is left out


def study_page(study: Study, *, width: int | None = WIDTH) -> Page:
    """Return the page of a study: the first 60 points as a table, what became of all, and where their results are.

    width: columns; a table that would be wider puts all that is varied into its last column. None: of a document, where
    the table has all points, and a column for each path that is varied.
    """
    head, rows = study_table(study, width=width)
    numbers = [index for index, name in enumerate(head) if name not in ("point", "status", _VARIED)]
    table = TextTable(head, tuple(rows), numbers if width is None else ())
    return Page("", (table, Notes(_study_summary(study), rest="")), f"Sweep of {study.problem}")


def study_table(study: Study, *, width: int | None = WIDTH) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the head and the first 60 lines of the table.

    What is varied stands in columns of its own, or in one if that is wider than `width` columns. Names, figures and
    statuses stay whole; the one column is the last, which goes on below itself. Without a width there are all lines,
    and paths are called by as many of their last keys as tell them apart.
    """
    points, names = study.points[: None if width is None else _MOST_ROWS], short_names(study.parameters)
    figures = [_cells(point) for point in points]
    columns = _figures_of(study)
    head = ("point", *(study.parameters if width is not None else names.values()), *columns)
    rows = [
        (
            point.name,
            *(_value(point.parameters.get(path, "")) for path in study.parameters),
            *_choose_cells(cells, columns),
        )
        for point, cells in zip(points, figures, strict=True)
    ]
    if width is None or len(study.parameters) < 1 or _width([head, *rows]) <= width:
        return head, rows
    rows = [(point.name, *_choose_cells(cells, columns)) for point, cells in zip(points, figures, strict=True)]
    if _width([("point", *columns), *rows]) + 2 + _ENOUGH > width:
        columns = tuple(name for name in columns if name != "guess error" or study.of == "guess_error")
    rows = [
        (point.name, *_choose_cells(cells, columns), _varied_values(point, names))
        for point, cells in zip(points, figures, strict=True)
    ]
    return ("point", *columns, _VARIED), rows


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return path -> as many of its last keys as tell it from the others."""
    parts = {path: path.split(".") for path in paths}
    names = {}
    for path, keys in parts.items():
        ends = [".".join(keys[-count:]) for count in range(1, len(keys) + 1)]
        alone = [end for end in ends if not any(f".{other}".endswith(f".{end}") for other in paths if other != path)]
        names[path] = alone[0] if alone else path
    return names


def _figures_of(study: Study) -> tuple[str, ...]:
    """Return the titles of the figures that some point has, in the order of the columns."""
    named = any(point.objective is not None and point.objective.figure is not None for point in study.points)
    own = () if study.of in ("opacity", "guess_error") else (uncertainty_title(study.of),)
    own = (_OBJECTIVE,) if named else own
    bound = ("bound",) if any(point.bound is not None for point in study.points) else ()
    return (*own, *_FIGURES[:1], *bound, *_FIGURES[1:])


def _cells(point: StudyPoint) -> dict[str, str]:
    """Return title -> text of every figure of a point, "-" where it is not known."""
    reached = _amount(None if point.objective is None else point.objective.amount)
    return {
        _OBJECTIVE: reached,
        uncertainty_title(point.of or "opacity"): reached,
        "opacity": _amount(point.opacity),
        "bound": _figure(point.bound),
        "return": _figure(point.expected_return),
        "guess error": _figure(None if point.guess_error is None else point.guess_error.value),
        "status": point.status or "-",
        "seconds": "-" if point.seconds is None else f"{point.seconds:.1f}",
    }


def _choose_cells(cells: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of these columns, "-" for a column that the point does not have."""
    return tuple(cells.get(name, "-") for name in names)


def _varied_values(point: StudyPoint, names: Mapping[str, str]) -> str:
    """Return the parameters of a point in one cell; names: path -> its short name."""
    return ", ".join(f"{names[path]} {_value(value)}" for path, value in point.parameters.items())


def _width(table: Sequence[Sequence[str]]) -> int:
    """Return the columns that a table takes, with two between columns."""
    return sum(max(len(escape_invisible(cell)) for cell in column) + 2 for column in zip(*table, strict=True)) - 2


def _study_summary(study: Study) -> tuple[str, ...]:
    """Return notes: what became of the points, where their results are, why the first five failed, and broken laws."""
    counts = study.counts
    words = [f"{counts['done']:,} of {counts['points']:,} {'point' if counts['points'] == 1 else 'points'} done"]
    words += [f"{counts[kind]:,} {kind}" for kind in ("infeasible", "failed", "unfinished") if counts[kind]]
    hidden = len(study.points) - _MOST_ROWS
    more = f" ({hidden:,} more {'point' if hidden == 1 else 'points'} there)" if hidden > 0 else ""
    failed = [f"point {point.name} failed: {point.error}" for point in study.failed[:_MOST_FAILED]]
    laws = law_notes(study.broken_laws, "study")
    return (f"{', '.join(words)}; all results are in {study.folder}/results.csv{more}", *failed, *laws)


def law_notes(laws: Sequence[BrokenLaw], result: str) -> list[str]:
    """Return a note for each of the first broken laws, and how many more there are in the JSON of a result."""
    notes = [f"a law is broken: {law.text}" for law in laws[:_MOST_LAWS]]
    left = len(laws) - _MOST_LAWS
    return notes + ([f"and {left:,} more, in the JSON of the {result}"] if left > 0 else [])


def _value(value: Any) -> str:
    """Return a parameter in at most 24 characters, cut in the middle; what is no text is written as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut_middle(text, _LONGEST, mark="...")


def _amount(amount: Amount | None) -> str:
    """Return a value or, where only an interval is known, its two ends; "-" for None."""
    if amount is None:
        return _figure(None)
    return page_amount(amount, _figure)


def _figure(value: float | None) -> str:
    """Return a number, "-" for None."""
    return "-" if value is None else number(value)
