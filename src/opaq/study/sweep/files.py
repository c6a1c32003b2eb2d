"""The folder of a sweep: begun for one plan; tables, answers and policies made from its journal."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError, spreadsheet_cell
from opaq.files import read_bytes, write_bytes, write_text
from opaq.study.sweep.journal import BASE, FILE, Journal
from opaq.study.sweep.plan import SweepPlan
from opaq.study.sweep.points import SweepPoint

TABLE, PARQUET, PLAN_COPY, PROBLEM_COPY = "results.csv", "results.parquet", "plan.yaml", "problem.yaml"
POLICIES, ANSWERS = "policies", "answers"
FIGURES = (
    "opacity",
    "opacity_lower",
    "opacity_upper",
    "of",
    "objective",
    "objective_lower",
    "objective_upper",
    "return",
    "guess_error",
    "upper_bound",
    "gap",
    "feasible",
    "status",
    "seconds",
    "seed",
    "warm_from",
    "policy_file",
    "version",
    "error",
)


def make_folders(folder: Path) -> None:
    """The folder and those in it; InputError when they cannot be made."""
    try:
        for path in (folder, folder / POLICIES, folder / ANSWERS):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fault = Fault("", f"cannot be made a folder: {error.strerror or error}", "use a folder you may write to")
        raise InputError([fault], str(folder)) from None


def write_point(folder: Path, name: str, journal: Journal, point: int) -> None:
    """The files of one point, unless they are there."""
    for kind, content in ((POLICIES, journal.policy), (ANSWERS, journal.answer)):
        file = folder / kind / f"{name}.json"
        if file.exists():
            continue
        value = content(point)
        if value is not None:
            text = json.dumps(value, indent=1)
            write_text(file, f"{text}\n", overwrite=True)


def remove_point(folder: Path, name: str) -> None:
    """The files of a point that is solved again go."""
    for kind in (POLICIES, ANSWERS):
        (folder / kind / f"{name}.json").unlink(missing_ok=True)


def write_tables(folder: Path, columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """results.csv, one row per point, in one step; values that are no numbers or text are written as JSON.

    Text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    parameters = list(columns)
    names = table_columns(parameters)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["point", *map(spreadsheet_cell, names)])
    writer.writerows(
        [row["point"], *("null" if _is_null(row, name, parameters) else _cell(row.get(name)) for name in names)]
        for row in rows
    )
    write_text(folder / TABLE, text.getvalue(), overwrite=True)


def write_parquet(folder: Path, columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """results.parquet, where pandas and pyarrow are there."""
    if not all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow")):
        return
    content = io.BytesIO()
    dataframe(columns, rows).to_parquet(content, index=False)
    write_bytes(folder / PARQUET, content.getvalue(), overwrite=True)


def dataframe(columns: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    """The table as a pandas DataFrame; columns of parameters that are neither numbers nor text hold JSON."""
    import pandas

    names = table_columns(columns)
    data = {name: [_plain(row.get(name)) for row in rows] for name in ("point", *names)}
    for name in names:
        kinds = {isinstance(value, str) for value in data[name] if value is not None}
        if len(kinds) > 1:  # one type per column
            data[name] = [None if value is None else str(value) for value in data[name]]
    return pandas.DataFrame(data)


def table_columns(parameters: Iterable[str]) -> list[str]:
    """The columns beside the name of the point: what is varied, then the figures."""
    varied = list(parameters)
    return [*varied, *(name for name in FIGURES if name not in varied)]


def _is_null(row: Mapping[str, Any], name: str, parameters: list[str]) -> bool:
    """Whether a point states that something is left out, which is more than that it does not say."""
    return name in parameters and name in row and row[name] is None


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    plain = _plain(value)
    return spreadsheet_cell(plain) if isinstance(plain, str) else plain


_MAX_PLAN = 64 << 20
_MOST_FAULTS = 20
_LONGEST = 100  # characters of a value in a message
_ABSENT = object()


def open_folder(folder: Path, plan: SweepPlan, points: list[SweepPoint], source: Any) -> None:
    """Begin the journal, or see that the one there is of this plan."""
    stated = plan.stated()
    if (folder / FILE).exists():
        with Journal.open(folder) as journal:
            _refuse_other_plan(folder, journal, stated, points)
        return
    if (folder / TABLE).exists():
        found = f"holds {TABLE} but no {FILE}: the results of a sweep that lost its journal"
        raise InputError([Fault("", found, "use another folder")], str(folder))
    text = json.dumps({"opaq-sweep": 1, **stated}, indent=1) if isinstance(source, Mapping) else _text(source)
    write_text(folder / PLAN_COPY, text, overwrite=True)
    write_text(folder / PROBLEM_COPY, plan.text or json.dumps(plan.problem, indent=1), overwrite=True)
    rows = [
        (point.index, point.name, json.dumps(dict(point.parameters)), point.fingerprint, point.warm_from)
        for point in points
    ]
    Journal.create(folder, stated | {BASE: str(plan.folder.absolute())}, rows)


def _text(source: Any) -> str:
    return read_bytes(source, max_bytes=_MAX_PLAN).decode("utf-8-sig")


def _refuse_other_plan(folder: Path, journal: Journal, stated: Mapping[str, Any], points: list[SweepPoint]) -> None:
    """Raise InputError with what differs, when the folder holds a sweep of another plan."""
    before, advice = journal.plan(), "use another folder for another plan"
    now = json.loads(json.dumps(stated))
    differing = [part for part in now if part != "problem" and before.get(part) != now[part]]
    faults = [
        Fault(path, f"{_short(old, new)} in the folder, {_short(new, old)} now", advice)
        for part in differing
        for path, old, new in _differences(part, before.get(part), now[part])
    ][:_MOST_FAULTS]
    recorded = [fingerprint for *_, fingerprint, _ in journal.points()]
    if not faults and recorded != [point.fingerprint for point in points]:
        found = (
            f"is not as it was when the sweep was begun, or a file that it names is not (a copy is in {PROBLEM_COPY})"
        )
        faults.append(Fault("problem", found, advice))
    if faults:
        raise InputError(faults, str(folder))


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where two parts of a plan differ, and how, key by key of mappings."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield path, old, new
        return
    for key in dict.fromkeys((*old, *new)):
        if key not in old or key not in new or old[key] != new[key]:
            yield from _differences(f"{path}.{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))


def _short(value: Any, other: Any) -> str:
    """A value in one short line that shows how it differs from the other one."""
    if value is _ABSENT:
        return "not there"
    text = json.dumps(value)
    if len(text) <= _LONGEST:
        return text
    pairs = zip(text, json.dumps(None if other is _ABSENT else other), strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    begin = max(0, min(same - _LONGEST // 2, len(text) - _LONGEST))
    return f"{'...' if begin else ''}{text[begin : begin + _LONGEST]}{'...' if begin + _LONGEST < len(text) else ''}"
