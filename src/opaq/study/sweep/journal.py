"""The journal of a sweep: one SQLite file in which every result is durable before it counts. One process writes it.

Every row carries a checksum of its content: SQLite itself notices a damaged structure, but not another digit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import time
from typing import Any

from opaq.errors import Fault, InputError

FILE = "journal.sqlite"
_APPLICATION = 0x6F706171  # "opaq", by which SQLite files are told apart
_FORMAT = 2
_TABLES = """
CREATE TABLE plan (part TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT) STRICT;
CREATE TABLE points (point INTEGER PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL,
                     fingerprint TEXT NOT NULL, warm_from INTEGER, checksum TEXT) STRICT;
CREATE TABLE sessions (session INTEGER PRIMARY KEY, begun REAL NOT NULL, executor TEXT NOT NULL,
                       opaq TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, checksum TEXT) STRICT;
CREATE TABLE attempts (attempt INTEGER PRIMARY KEY, point INTEGER NOT NULL, session INTEGER NOT NULL,
                       begun REAL NOT NULL, ended REAL, ending TEXT NOT NULL, checksum TEXT) STRICT;
CREATE TABLE results (point INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, status TEXT NOT NULL,
                      record TEXT NOT NULL, answer TEXT, policy TEXT, checksum TEXT) STRICT;
"""
_TABLE_NAMES = ("plan", "points", "sessions", "attempts", "results")
_SYSTEM_ERRORS = ("BUSY", "CANTOPEN", "FULL", "INTERRUPT", "IOERR", "LOCKED", "NOLFS", "NOMEM", "PERM", "READONLY")
_RESTORE = (
    "nothing was changed; restore the file from a copy, or run the sweep again in another folder "
    "(results.csv, answers/ and policies/ still hold what was done)"
)
FAILED = "failed"
BASE = "folder"  # the part of the plan that says what paths in the problem file are relative to


@dataclass(frozen=True, slots=True)
class PointRecord:
    """What is recorded of one point: all but the policy and the full answer, which are asked for one by one."""

    point: int
    status: str
    record: Mapping[str, Any]


class Journal:
    """An open journal. Every method is one transaction, durable when it returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection

    @classmethod
    def create(cls, folder: Path, plan: Mapping[str, Any], points: list[tuple[int, str, str, str, int | None]]) -> None:
        """A new journal with its plan and its points (index, name, parameters, fingerprint, warm from).

        It is made under another name and renamed: a journal that is there is whole.
        """
        path, new = folder / FILE, folder / f"{FILE}.new"
        with _sqlite_errors(path):
            for leftover in folder.glob(f"{FILE}.new*"):
                leftover.unlink()
            connection = sqlite3.connect(new, isolation_level=None)
            try:
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
                connection.executescript(f"PRAGMA synchronous = FULL; BEGIN; {_TABLES}")
                parts = [(part, json.dumps(value)) for part, value in plan.items()]
                connection.executemany("INSERT INTO plan VALUES (?, ?, ?)", _sealed("plan", parts))
                connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", _sealed("points", points))
                connection.execute("COMMIT")
            finally:
                connection.close()
            new.rename(path)

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, write: bool = True) -> Iterator[Journal]:
        """The journal of a folder. Raises InputError when it is none, damaged, or of another version."""
        path = folder / FILE
        with _sqlite_errors(path):
            mode = "rw" if write else "ro"
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)
        try:
            with _sqlite_errors(path):
                _check(path, connection)
                if write:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = FULL")
            yield cls(path, connection)
            if write:  # at rest it is one plain file, which can be read where nothing can be written
                with suppress(sqlite3.OperationalError):  # somebody reads it
                    connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()

    def plan(self) -> dict[str, Any]:
        """The plan, part by part."""
        return {part: json.loads(value) for part, value in self._rows("SELECT part, value FROM plan")}

    def points(self) -> list[tuple[int, str, dict[str, Any], str, int | None]]:
        """The points: index, name, parameters, fingerprint, and the point whose policy they begin from."""
        rows = self._rows("SELECT point, name, parameters, fingerprint, warm_from FROM points ORDER BY point")
        return [(point, name, json.loads(parameters), mark, warm) for point, name, parameters, mark, warm in rows]

    def results(self) -> dict[int, PointRecord]:
        """What is recorded, by point."""
        rows = self._rows("SELECT point, status, record FROM results ORDER BY point")
        return {point: PointRecord(point, status, json.loads(record)) for point, status, record in rows}

    def policy(self, point: int) -> Any:
        """The policy of a point, as the content of a policy file; None if there is none."""
        return self._text("policy", point)

    def answer(self, point: int) -> Any:
        """The full answer of a point; None if there is none."""
        return self._text("answer", point)

    def begin_session(self, executor: str, opaq: str, host: str, pid: int) -> int:
        """Note that a process goes to work; its number."""
        with self._transaction():
            statement = "INSERT INTO sessions (begun, executor, opaq, host, pid) VALUES (?, ?, ?, ?, ?)"
            session = self._connection.execute(statement, (time(), executor, opaq, host, pid)).lastrowid or 0
            self._seal("sessions", session)
        return session

    def begin(self, point: int, session: int) -> int:
        """Note that a point is begun; the number of the attempt."""
        with self._transaction():
            statement = "INSERT INTO attempts (point, session, begun, ending) VALUES (?, ?, ?, 'running')"
            attempt = self._connection.execute(statement, (point, session, time())).lastrowid or 0
            self._seal("attempts", attempt)
        return attempt

    def end(self, attempt: int, ending: str) -> None:
        """Note that an attempt came to nothing: lost, late or interrupted."""
        with self._transaction():
            self._end(attempt, ending)

    def record(
        self,
        point: int,
        attempt: int,
        record: Mapping[str, Any],
        *,
        answer: Any,
        policy: Any,
        outdated: Iterable[int] = (),
    ) -> None:
        """Record the result of a point, all of it or nothing; one that is done is never recorded again.

        outdated: points whose results go at the same time, because they would have begun from this one.
        """
        status = str(record["status"])
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in (answer, policy)]
        with self._transaction():
            self._connection.execute("DELETE FROM results WHERE point = ? AND status = ?", (point, FAILED))
            self._connection.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, NULL)",
                (point, attempt, status, json.dumps(record), *texts),
            )
            self._seal("results", point)
            self._end(attempt, FAILED if status == FAILED else "done")
            for other in outdated:
                for (done,) in self._rows("SELECT attempt FROM results WHERE point = ?", (other,)):
                    self._end(done, "outdated")
                self._connection.execute("DELETE FROM results WHERE point = ?", (other,))

    def _text(self, column: str, point: int) -> Any:
        rows = self._rows(f"SELECT {column} FROM results WHERE point = ?", (point,))
        return json.loads(rows[0][0]) if rows and rows[0][0] is not None else None

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with _sqlite_errors(self._path):
            return list(self._connection.execute(query, values))

    def _end(self, attempt: int, ending: str) -> None:
        statement = "UPDATE attempts SET ended = ?, ending = ? WHERE attempt = ?"
        self._connection.execute(statement, (time(), ending, attempt))
        self._seal("attempts", attempt)

    def _seal(self, table: str, row: int) -> None:
        """Give a row that is new or has changed the checksum of what it holds."""
        (values,) = self._rows(f"SELECT * FROM {table} WHERE rowid = ?", (row,))
        update = f"UPDATE {table} SET checksum = ? WHERE rowid = ?"
        self._connection.execute(update, (_checksum(table, values[:-1]), row))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _sqlite_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _check(path: Path, connection: sqlite3.Connection) -> None:
    """Raise InputError for a journal of another program or version, or a damaged one."""
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application != _APPLICATION or version != _FORMAT:
        found = f"is damaged, or is not the journal of a sweep that this version reads (format {version})"
        raise InputError([Fault("", found, _RESTORE)], str(path))
    with path.open("rb") as file:
        versions = file.read(20)[18:]
    if not {*versions} <= {1, 2}:  # SQLite would take it for a file that may not be written
        raise InputError([_damaged_journal("its head is not one of SQLite's")], str(path))
    faults = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
    if faults != ["ok"]:
        raise InputError([_damaged_journal(faults[0])], str(path))
    if _schema(connection) != _expected_schema():
        raise InputError([_damaged_journal("its tables are not those of a journal")], str(path))
    for table in _TABLE_NAMES:
        for *values, checksum in connection.execute(f"SELECT * FROM {table}"):
            if checksum != _checksum(table, values):
                raise InputError([_damaged_journal(f"a row of {table} does not match its checksum")], str(path))


def _schema(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return list(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"))


@cache
def _expected_schema() -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _schema(connection)


def _checksum(table: str, values: Iterable[Any]) -> str:
    """Return the checksum of a row of a table, without the checksum itself."""
    return hashlib.sha256(repr((table, *values)).encode("utf-8", "surrogatepass")).hexdigest()


def _sealed(table: str, rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(*row, _checksum(table, row)) for row in rows]


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """What SQLite and the system say against it becomes an InputError."""
    try:
        yield
    except sqlite3.Error as error:
        if not getattr(error, "sqlite_errorname", "").removeprefix("SQLITE_").startswith(_SYSTEM_ERRORS):
            raise InputError([_damaged_journal(str(error))], str(path)) from None
        advice = "results recorded before are kept; when this is mended, run the same sweep again to go on"
        raise InputError([Fault("", f"cannot be read or written: {error}", advice)], str(path)) from None
    except UnicodeDecodeError as error:  # a message of SQLite's that quotes what is damaged
        raise InputError([_damaged_journal(str(error))], str(path)) from None
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        raise InputError([Fault("", found, "use a folder you may write to")], str(path)) from None


def _damaged_journal(reason: str) -> Fault:
    return Fault("", f"the journal is damaged ({' '.join(reason.split())})", _RESTORE)
