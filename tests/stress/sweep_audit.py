"""What the journal of a sweep must hold, whatever was killed meanwhile. Reads the file itself, not by opaq."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

_LAST = "(SELECT *, max(pass) FROM results WHERE answer NOTNULL GROUP BY point)"  # the results that count


def audit(folder: Path, reference: Path | None = None) -> list[str]:
    """Everything that is wrong: points lost or repeated, files that differ from the journal, other results."""
    with closing(sqlite3.connect(f"{(folder / 'journal.sqlite').absolute().as_uri()}?mode=ro", uri=True)) as journal:
        complaints = [*_lost(journal), *_repeated(journal), *_files(folder, journal)]
    if reference is not None:
        complaints += _different(results(folder), results(reference))
    return complaints


def results(folder: Path) -> dict[str, Any]:
    """Every result with its policy and its full answer, but for times."""
    columns = "name || ' ' || pass, parameters, answer, policy, versions, json_quote(results.warm_from)"
    query = f"SELECT {columns} FROM results JOIN points USING (point) ORDER BY point, pass"
    with closing(sqlite3.connect(f"{(folder / 'journal.sqlite').absolute().as_uri()}?mode=ro", uri=True)) as journal:
        rows = list(journal.execute(query))
    return {name: [_timeless(json.loads(text or "null")) for text in texts] for name, *texts in rows}


def counts(folder: Path) -> dict[str, int]:
    """How many attempts ended how, and how many processes ran the sweep."""
    with closing(sqlite3.connect(f"{(folder / 'journal.sqlite').absolute().as_uri()}?mode=ro", uri=True)) as journal:
        endings = dict(journal.execute("SELECT ending, count(*) FROM attempts GROUP BY ending ORDER BY ending"))
        return {"sessions": journal.execute("SELECT count(*) FROM sessions").fetchone()[0], **endings}


def attempts(folder: Path) -> int:
    """How many attempts were begun so far."""
    try:
        with closing(
            sqlite3.connect(f"{(folder / 'journal.sqlite').absolute().as_uri()}?mode=ro", uri=True)
        ) as journal:
            return int(journal.execute("SELECT count(*) FROM attempts").fetchone()[0])
    except sqlite3.Error:
        return 0  # it is being made


def share_done(folder: Path) -> float:
    """Which share of the points has a result."""
    query = "SELECT (SELECT count(*) FROM results WHERE pass = 1) * 1.0 / count(*) FROM points"
    try:
        with closing(
            sqlite3.connect(f"{(folder / 'journal.sqlite').absolute().as_uri()}?mode=ro", uri=True)
        ) as journal:
            return float(journal.execute(query).fetchone()[0])
    except sqlite3.Error:
        return 0.0


def _lost(journal: sqlite3.Connection) -> list[str]:
    missing = journal.execute("SELECT name FROM points WHERE point NOT IN (SELECT point FROM results)")
    failed = journal.execute("SELECT name, error FROM results JOIN points USING (point) WHERE status = 'failed'")
    return [*(f"point {name} has no result" for (name,) in missing), *(f"point {name}: {why}" for name, why in failed)]


def _repeated(journal: sqlite3.Connection) -> list[str]:
    twice = journal.execute("SELECT point FROM attempts WHERE ending = 'done' GROUP BY point, pass HAVING count(*) > 1")
    again = journal.execute(
        "SELECT late.point FROM attempts AS late JOIN attempts AS done USING (point, pass) "
        "WHERE done.ending = 'done' AND late.attempt > done.attempt"
    )
    other = journal.execute(
        "SELECT results.point FROM results JOIN attempts USING (attempt) "
        "WHERE attempts.ending != 'done' OR (attempts.point, attempts.pass) != (results.point, results.pass)"
    )
    return [
        *(f"point {point} was done twice" for (point,) in twice),
        *(f"point {point} was begun again after it was done" for (point,) in again),
        *(f"the result of point {point} is of an attempt that was not done" for (point,) in other),
    ]


def _files(folder: Path, journal: sqlite3.Connection) -> list[str]:
    rows = list(journal.execute(f"SELECT name, answer, policy FROM {_LAST} JOIN points USING (point) ORDER BY point"))
    complaints = [
        f"policies/{name}.json differs from the journal"
        for name, _, policy in rows
        if json.loads((folder / "policies" / f"{name}.json").read_text()) != json.loads(policy)
    ]
    with open(folder / "results.csv", newline="") as file:
        table = {row["point"]: (float(row["opacity"] or "nan"), row["status"]) for row in csv.DictReader(file)}
    answers = {name: json.loads(answer) for name, answer, _ in rows}
    wanted = {name: (answer["opacity"]["value"], answer["status"]) for name, answer in answers.items()}
    return complaints if table == wanted else [*complaints, "results.csv differs from the journal"]


def _different(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    names = sorted({*mine, *theirs})
    return [f"point {name} differs from the run left alone" for name in names if mine.get(name) != theirs.get(name)]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key != "seconds"}
    return [_timeless(part) for part in value] if isinstance(value, list) else value
