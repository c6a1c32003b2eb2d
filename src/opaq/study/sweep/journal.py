"""The journal of a sweep: one SQLite file in which every result is durable before it counts. One process writes it.

It holds the plan, the points with the fingerprints of their problems, every session and every attempt at a point, and
of every point that has come to an end the answer and the policy, and what the later passes made of them: the last
answer counts. Tables, policy files and answer files are made from it. Every row carries a checksum of its content:
SQLite itself notices a damaged structure, but not another digit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from time import time
from typing import Any

from opaq.errors import Fault, InputError
from opaq.study.sweep.plan import SweepPoint
from opaq.study.workers.task import PointAnswer

FILE = "journal.sqlite"
_APPLICATION = 0x6F706171  # "opaq", by which SQLite files are told apart
_FORMAT = 4
_TABLES = """
CREATE TABLE plan (part TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT) STRICT;
CREATE TABLE points (point INTEGER PRIMARY KEY, name TEXT NOT NULL, parameters TEXT NOT NULL,
                     fingerprint TEXT NOT NULL, warm_from INTEGER, checksum TEXT) STRICT;
CREATE TABLE sessions (session INTEGER PRIMARY KEY, begun REAL NOT NULL, executor TEXT NOT NULL,
                       opaq TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, checksum TEXT) STRICT;
CREATE TABLE attempts (attempt INTEGER PRIMARY KEY, point INTEGER NOT NULL, pass INTEGER NOT NULL,
                       session INTEGER NOT NULL, begun REAL NOT NULL, ended REAL, ending TEXT NOT NULL,
                       checksum TEXT) STRICT;
CREATE TABLE results (point INTEGER NOT NULL, pass INTEGER NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL,
                      answer TEXT, policy TEXT, seconds REAL, versions TEXT, warm_from TEXT, error TEXT, checksum TEXT,
                      PRIMARY KEY (point, pass)) STRICT;
"""
_TABLE_NAMES = ("plan", "points", "sessions", "attempts", "results")
_SYSTEM_ERRORS = ("BUSY", "CANTOPEN", "FULL", "INTERRUPT", "IOERR", "LOCKED", "NOLFS", "NOMEM", "PERM", "READONLY")
_RESTORE = (
    "nothing was changed; restore the file from a copy, or run the sweep again in another folder "
    "(results.csv, answers/ and policies/ still hold what was done)"
)
FAILED = "failed"
_KEPT = "kept"  # of a later pass that changed nothing
BASE = "folder"  # the part of the plan that says what paths in the problem file are relative to


class Journal:
    """An open journal, from `Journal.open`. Every method is one transaction, durable when it returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take a connection that has been checked; path: of the file, for messages."""
        self._path, self._connection = path, connection

    @classmethod
    def create(cls, folder: Path, plan: Mapping[str, Any], points: Sequence[SweepPoint]) -> None:
        """Make a new journal with its plan and its points.

        folder: where; it must be there. plan: part -> plain data. points: as they are checked.
        It is made under another name and renamed: a journal that is there is whole. Raises InputError when it cannot be
        written.
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
                for part, value in plan.items():
                    _insert(connection, "plan", (part, json.dumps(value)))
                for point in points:
                    parameters = json.dumps(dict(point.parameters))
                    row = (point.index, point.name, parameters, point.fingerprint, point.warm_from)
                    _insert(connection, "points", row)
                connection.execute("COMMIT")
            finally:
                connection.close()
            new.rename(path)

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, write: bool = True) -> Iterator[Journal]:
        """Open the journal of a folder, and close it in the end.

        write: whether anything is to be recorded; otherwise also a journal can be read that may not be written, and one
        that another process is writing. Raises InputError when it is none, damaged, or of another version: all of it is
        checked against its checksums first.
        """
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
        """Return the plan: part -> plain data."""
        return {part: json.loads(value) for part, value in self._rows("SELECT part, value FROM plan")}

    def points(self) -> list[SweepPoint]:
        """Return the points in their order, as they were checked when the sweep began."""
        rows = self._rows("SELECT point, name, parameters, fingerprint, warm_from FROM points ORDER BY point")
        return [SweepPoint(index, name, json.loads(parameters), *rest) for index, name, parameters, *rest in rows]

    def answers(self) -> dict[int, PointAnswer]:
        """Return what is recorded of all points that are done or have failed: index -> answer.

        Policies are left out, which may be large: `policy_text` reads them one by one.
        """
        columns = "point, answer, seconds, versions, warm_from, error"
        rows = self._rows(f"SELECT {columns} FROM results WHERE pass = 1 OR answer NOTNULL ORDER BY point, pass")
        return {
            point: PointAnswer(
                answer=_decode(answer),
                seconds=seconds,
                versions=_decode(versions),
                warm_from=warm_from,
                error=error or "",
            )
            for point, answer, seconds, versions, warm_from, error in rows
        }

    def passes(self) -> dict[int, int]:
        """Return the last pass that every point has been through: index -> number, from 1."""
        return dict(self._rows("SELECT point, max(pass) FROM results GROUP BY point"))

    def failed_passes(self) -> set[int]:
        """Return the points that failed in some pass, by their indices."""
        return {point for (point,) in self._rows("SELECT point FROM results WHERE status = ?", (FAILED,))}

    def drop_later_passes(self, points: Iterable[int]) -> None:
        """Forget what later passes made of some points, by their indices; their own answers stay."""
        with self._transaction():
            for point in points:
                self._drop(point, after=1)

    def answer_text(self, point: int) -> str | None:
        """Return the full answer of a point as the JSON that `opaq solve --json` prints; None if there is none.

        point: its index. The text is exactly what was recorded; files are made of it without another conversion.
        """
        return self._text("answer", point)

    def policy_text(self, point: int) -> str | None:
        """Return the policy of a point as the JSON of a policy file; None if there is none. point: its index."""
        return self._text("policy", point)

    def begin_session(self, executor: str, opaq: str, host: str, pid: int) -> int:
        """Note that a process goes to work, and return the number of its session.

        executor: where points are solved, in a word. opaq: its version. host, pid: the machine and the process.
        """
        with self._transaction():
            return _insert(self._connection, "sessions", (None, time(), executor, opaq, host, pid))

    def begin(self, point: int, session: int, *, number: int = 1) -> int:
        """Note that a session begins a pass of a point, by its index and number, and return the number of the attempt.

        An attempt that stays "running" was killed together with its session.
        """
        with self._transaction():
            return _insert(self._connection, "attempts", (None, point, number, session, time(), None, "running"))

    def end(self, attempt: int, ending: str) -> None:
        """Note that an attempt came to nothing: lost, late or interrupted."""
        with self._transaction():
            self._end(attempt, ending)

    def record(
        self, point: int, attempt: int, answer: PointAnswer, *, number: int = 1, outdated: Iterable[int] = ()
    ) -> None:
        """Record the result of a pass of a point, all of it or nothing; one that is done is never recorded again.

        attempt: the one that it is the result of, which ends with it. answer: of the worker; it replaces an earlier
        failure. number: of the pass.
        outdated: points whose results go at the same time, because they would have begun from this one.
        """
        status = _KEPT if answer.kept else FAILED if answer.answer is None else str(answer.answer["status"])
        texts = [_encode(value, indent=1) for value in (answer.answer, answer.policy)]
        rest = (answer.seconds, _encode(answer.versions), answer.warm_from, answer.error or None)
        with self._transaction():
            failed = "DELETE FROM results WHERE point = ? AND pass = ? AND status = ?"
            self._connection.execute(failed, (point, number, FAILED))
            _insert(self._connection, "results", (point, number, attempt, status, *texts, *rest))
            self._end(attempt, FAILED if status == FAILED else "done")
            for other in outdated:
                self._drop(other)

    def _drop(self, point: int, *, after: int = 0) -> None:
        """Delete the results of a point of all passes after one, within a transaction; their attempts are outdated."""
        for (done,) in self._rows("SELECT attempt FROM results WHERE point = ? AND pass > ?", (point, after)):
            self._end(done, "outdated")
        self._connection.execute("DELETE FROM results WHERE point = ? AND pass > ?", (point, after))

    def _end(self, attempt: int, ending: str) -> None:
        """Note the end of an attempt within a transaction."""
        statement = "UPDATE attempts SET ended = ?, ending = ? WHERE attempt = ?"
        self._connection.execute(statement, (time(), ending, attempt))
        _seal(self._connection, "attempts", attempt)

    def _text(self, column: str, point: int) -> str | None:
        """Return one column of the last answer of a point; None where it has no answer."""
        query = f"SELECT {column} FROM results WHERE point = ? AND answer NOTNULL ORDER BY pass DESC LIMIT 1"
        rows = self._rows(query, (point,))
        return rows[0][0] if rows else None

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query; values: for the marks in it."""
        with _sqlite_errors(self._path):
            return list(self._connection.execute(query, values))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Make all changes inside durable together, or none of them."""
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
    """Raise InputError for a journal of another program or version, or a damaged one.

    The head, the structure, the tables and the checksum of every row are looked at, in this order: a flipped bit
    anywhere is refused, or changes nothing that is read.
    """
    (application,), (version,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if application != _APPLICATION or version != _FORMAT:
        reason = f"is damaged, or is not the journal of a sweep that this version reads (format {version})"
        raise InputError([Fault("", reason, _RESTORE)], str(path))
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
    """Return the tables of a journal and the statements that made them."""
    return list(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"))


@cache
def _expected_schema() -> list[tuple[Any, ...]]:
    """Return the schema of a journal that is in order, as SQLite itself writes it down."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _schema(connection)


def _insert(connection: sqlite3.Connection, table: str, values: tuple[Any, ...]) -> int:
    """Add a row with its checksum, and return its number.

    values: all but the checksum, by column; a number that is None is given by SQLite.
    """
    marks = ", ".join("?" * len(values))
    row = connection.execute(f"INSERT INTO {table} VALUES ({marks}, NULL)", values).lastrowid or 0
    _seal(connection, table, row)
    return row


def _seal(connection: sqlite3.Connection, table: str, row: int) -> None:
    """Give a row that is new or has changed the checksum of what it holds."""
    (values,) = connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,))
    checksum = _checksum(table, values[:-1])
    connection.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", (checksum, row))


def _checksum(table: str, values: Iterable[Any]) -> str:
    """Return the checksum of a row of a table, without the checksum itself."""
    return hashlib.sha256(repr((table, *values)).encode("utf-8", "surrogatepass")).hexdigest()


def _encode(value: Mapping[str, Any] | None, *, indent: int | None = None) -> str | None:
    """Return a mapping as JSON text, None for None."""
    return None if value is None else json.dumps(value, ensure_ascii=False, indent=indent)


def _decode(text: str | None) -> Any:
    """Return the data of a JSON text, None for None."""
    return None if text is None else json.loads(text)


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system say against a journal into an InputError with what to do."""
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
        reason = f"cannot be written: {error.strerror or error}"
        raise InputError([Fault("", reason, "use a folder you may write to")], str(path)) from None


def _damaged_journal(reason: str) -> Fault:
    """Return the fault that a journal is damaged, with what may be done; SQLite's reason may span lines."""
    return Fault("", f"the journal is damaged ({' '.join(reason.split())})", _RESTORE)
