"""The folder of a sweep: opened for one plan; tables, answers and policies made from its journal.

`journal.sqlite` is the record. All else is made from it for people and other programs, and made again where it is
missing: `results.csv` (and `results.parquet`) for spreadsheets, `policies/` for commands that take a policy file,
`answers/` for those that take the answer of a solve. `plan.yaml` and `problem.yaml` show what was asked.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError, spreadsheet_cell
from opaq.files import read_bytes, write_bytes, write_text
from opaq.spec.yaml import parse_yaml
from opaq.study.sweep.journal import BASE, FILE, Journal
from opaq.study.sweep.plan import SweepPlan, SweepPoint

PROBLEM_COPY, _PLAN_COPY = "problem.yaml", "plan.yaml"
_TABLE, _PARQUET = "results.csv", "results.parquet"
POLICIES, _ANSWERS = "policies", "answers"
_MAX_PLAN = 64 << 20  # bytes
_MAX_PROBLEM = 256 << 20
_MOST_FAULTS = 20
_LONGEST = 100  # characters of a value in a message
_ABSENT = object()
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
    "lower_bound",
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
    """Make the folder of a sweep and those in it, as far as they are missing. Raises InputError when that fails."""
    try:
        for path in (folder, folder / POLICIES, folder / _ANSWERS):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fault = Fault("", f"cannot be made a folder: {error.strerror or error}", "use a folder you may write to")
        raise InputError([fault], str(folder)) from None


@contextmanager
def open_journal(folder: Path, plan: SweepPlan, points: Sequence[SweepPoint], source: Any) -> Iterator[Journal]:
    """Open the journal of a plan for writing: a new one, or the one that is there.

    folder: of the sweep. points: those of the plan, checked. source: the plan as it was given, a file or a mapping; a
    copy of it and of the problem file go beside a new journal.
    Raises InputError when the folder holds the sweep of another plan, with every difference, or results without their
    journal.
    """
    parts = plan.to_dict()
    if not (folder / FILE).exists():
        if (folder / _TABLE).exists():
            reason = f"holds {_TABLE} but no {FILE}: the results of a sweep that lost its journal"
            raise InputError([Fault("", reason, "use another folder")], str(folder))
        if isinstance(source, Mapping):
            text = json.dumps({"opaq-sweep": 1, **parts}, indent=1)
        else:
            text = read_bytes(source, max_bytes=_MAX_PLAN).decode("utf-8-sig")
        write_text(folder / _PLAN_COPY, text, overwrite=True)
        write_text(folder / PROBLEM_COPY, plan.text or json.dumps(plan.problem, indent=1), overwrite=True)
        Journal.create(folder, parts | {BASE: str(plan.folder.absolute())}, points)
    with Journal.open(folder) as journal:
        _refuse_other_plan(folder, journal, parts, points)
        yield journal


def read_problem_copy(folder: Path) -> Mapping[str, Any]:
    """Return the content of the problem file that a sweep was begun with; InputError where the copy is unusable."""
    path = folder / PROBLEM_COPY
    text = read_bytes(path, max_bytes=_MAX_PROBLEM).decode("utf-8-sig", errors="replace")
    spec = parse_yaml(text, source=str(path)).data
    if not isinstance(spec, Mapping):
        raise InputError([Fault("", "is no problem file")], str(path))
    return spec


def _refuse_other_plan(folder: Path, journal: Journal, plan: Mapping[str, Any], points: Sequence[SweepPoint]) -> None:
    """Raise InputError with what differs, when the folder holds a sweep of another plan.

    plan: part -> plain data, of now. Where all parts are the same, the fingerprints of the points tell whether the
    problem file, or a file that it names, has changed.
    """
    before, advice = journal.plan(), "use another folder for another plan"
    now = json.loads(json.dumps(plan))
    differing = [part for part in now if part != "problem" and before.get(part) != now[part]]
    faults = [
        Fault(path, f"{_shorten(old, new)} in the folder, {_shorten(new, old)} now", advice)
        for part in differing
        for path, old, new in _differences(part, before.get(part), now[part])
    ][:_MOST_FAULTS]
    recorded = [point.fingerprint for point in journal.points()]
    if not faults and recorded != [point.fingerprint for point in points]:
        reason = (
            f"is not as it was when the sweep was begun, or a file that it names is not (a copy is in {PROBLEM_COPY})"
        )
        faults.append(Fault("problem", reason, advice))
    if faults:
        raise InputError(faults, str(folder))


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield where two parts of a plan differ, key by key of mappings: the path and both values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield path, old, new
        return
    for key in dict.fromkeys((*old, *new)):
        if key not in old or key not in new or old[key] != new[key]:
            yield from _differences(f"{path}.{key}", old.get(key, _ABSENT), new.get(key, _ABSENT))


def _shorten(value: Any, other: Any) -> str:
    """Return a value in one short line that shows where it differs from the other one."""
    if value is _ABSENT:
        return "not there"
    text = json.dumps(value)
    if len(text) <= _LONGEST:
        return text
    pairs = zip(text, json.dumps(None if other is _ABSENT else other), strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    begin = max(0, min(same - _LONGEST // 2, len(text) - _LONGEST))
    return f"{'...' if begin else ''}{text[begin : begin + _LONGEST]}{'...' if begin + _LONGEST < len(text) else ''}"


def write_point(folder: Path, point: SweepPoint, journal: Journal) -> None:
    """Write the policy and the answer of a point as the journal holds them, unless the files are there.

    A failed point has neither. Files that a kill has left out are made when the sweep goes on.
    """
    for kind, text_of in ((POLICIES, journal.policy_text), (_ANSWERS, journal.answer_text)):
        file = folder / kind / f"{point.name}.json"
        if not file.exists() and (text := text_of(point.index)) is not None:
            write_text(file, f"{text}\n", overwrite=True)


def remove_point(folder: Path, point: SweepPoint) -> None:
    """Remove the files of a point whose result is about to be replaced: a file never outlives what it was made from."""
    for kind in (POLICIES, _ANSWERS):
        (folder / kind / f"{point.name}.json").unlink(missing_ok=True)


def write_table(folder: Path, parameters: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write results.csv, one row per point, in one step: whoever reads it never sees half of it.

    parameters: what is varied. rows: column -> value. Values that are neither numbers nor text are written as JSON;
    text that a spreadsheet would take for a formula begins with an apostrophe. An empty cell: not stated, or no result.
    """
    varied = list(parameters)
    names = _columns(varied)

    def cell(row: Mapping[str, Any], name: str) -> Any:
        """Return the cell of a column in a row; text is made safe for spreadsheets."""
        value = row.get(name)
        if value is None:  # that something is taken out says more than that nothing is said of it
            return "null" if name in varied and name in row else ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return repr(value)
        plain = _plain(value)
        return spreadsheet_cell(plain) if isinstance(plain, str) else plain

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["point", *map(spreadsheet_cell, names)])
    writer.writerows([row["point"], *(cell(row, name) for name in names)] for row in rows)
    write_text(folder / _TABLE, text.getvalue(), overwrite=True)


def write_parquet(folder: Path, parameters: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write results.parquet, the table of `dataframe`, where pandas and pyarrow are installed."""
    if not all(importlib.util.find_spec(name) for name in ("pandas", "pyarrow")):
        return
    content = io.BytesIO()
    dataframe(parameters, rows).to_parquet(content, index=False)
    write_bytes(folder / _PARQUET, content.getvalue(), overwrite=True)


def dataframe(parameters: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the table as a pandas DataFrame; columns of parameters that are neither numbers nor text hold JSON.

    parameters: what is varied. rows: column -> value. Raises ImportError without pandas.
    """
    import pandas

    names = _columns(parameters)
    data = {name: [_plain(row.get(name)) for row in rows] for name in ("point", *names)}
    for name in names:
        kinds = {isinstance(value, str) for value in data[name] if value is not None}
        if len(kinds) > 1:  # one type per column
            data[name] = [None if value is None else str(value) for value in data[name]]
    return pandas.DataFrame(data)


def _columns(parameters: Iterable[str]) -> list[str]:
    """Return the columns beside the name of the point: what is varied, then the figures."""
    varied = list(parameters)
    return [*varied, *(name for name in FIGURES if name not in varied)]


def _plain(value: Any) -> Any:
    """Return lists and mappings as JSON, all else as it is."""
    return json.dumps(value) if isinstance(value, list | dict) else value
