"""The folder of a sweep: begun for one plan, and refused to every other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from opaq.errors import Fault, InputError
from opaq.files import read_bytes, write_text
from opaq.study.sweep_files import PLAN_COPY, PROBLEM_COPY, TABLE
from opaq.study.sweep_journal import BASE, FILE, Journal
from opaq.study.sweep_plan import SweepPlan
from opaq.study.sweep_points import SweepPoint

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
