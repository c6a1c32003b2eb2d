"""Distributions over names: one, or a row of them for every state or action, by name or as an array."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from opaq.choices import is_int
from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.spec.cursor import Cursor
from opaq.spec.grammar import Plain, Shape
from opaq.spec.matrices import is_array, matrix_entries, right_shape, scaled_rows
from opaq.spec.names import Known
from opaq.spec.shapes import ARRAY, NAME, PROBABILITY, complete, mapping_to, unread

T = TypeVar("T")
MAX_ENTRIES = 20_000_000  # of a table of probabilities


class Shown(NamedTuple):
    """What is shown for every state or action: names, and a table [given, name]."""

    names: tuple[str, ...]
    table: SparseRows


def distribution(cursor: Cursor, names: Known) -> dict[int, float] | None:
    """A distribution {name: probability}, or one name for probability 1, as position -> probability."""
    if isinstance(cursor.value, str) or is_int(cursor.value):
        index = names.find(cursor)
        return None if index is None else {index: 1.0}
    if not isinstance(cursor.value, Mapping):
        return cursor.wrong(f"a mapping {{{names.kind}: probability}}")
    if not cursor.value:
        return cursor.error("is empty", "give probabilities that sum to 1")
    entries = cursor.entries() or {}
    shares = [entry.probability() for entry in entries.values()]
    indices = [names.find(cursor.child(key, key)) for key in entries]
    usable = [share for share in shares if share is not None]
    if len(usable) < len(cursor.value):
        return None  # the sum of some of them means nothing
    scale = cursor.scale_to_one(math.fsum(usable))
    if scale is None or None in indices:
        return None
    if len(set(indices)) < len(indices):
        return cursor.error(f"names a {names.kind} twice, spelled differently", "keep one of them")
    return {index: share * scale for index, share in zip(indices, usable, strict=True) if index is not None}


def rows_by_name(
    cursor: Cursor, given: Known, shown: Known, *, rest: Mapping[int, dict[int, float] | None] | None = None
) -> SparseRows | None:
    """{given: distribution over shown} as a table [given, shown]; "*" and then `rest` stand for names not listed."""
    stated = by_name(cursor, given, lambda entry: distribution(entry, shown))
    if stated is None or given.index is None:
        return None
    for name, index in given.index.items():
        if index not in stated and rest is None:
            cursor.child(name, None).error("is missing", "say what is seen there, or add '*' for all others")
    rows = {index: stated.get(index, (rest or {}).get(index)) for index in given.index.values()}
    entries = complete(list(rows.values()))
    if too_many(cursor, sum(len(shares or ()) for shares in rows.values())) or not entries:
        return None
    return SparseRows.from_entries(*flattened(list(rows), entries), shape=(len(given), len(shown)))


def by_name(cursor: Cursor, given: Known, read: Callable[[Cursor], T]) -> dict[int, T] | None:
    """What a mapping states for each name, by position; "*" stands for the names that are not there."""
    entries = cursor.entries()
    if entries is None:
        return None
    others = [read(entries.pop("*"))] if "*" in entries else []
    stated: dict[int, T] = {}
    for key, entry in entries.items():
        value, index = read(entry), given.find(cursor.child(key, key))
        if index is not None and index in stated:
            entry.error(f"the same {given.kind} is there twice", "keep one of them")
        if index is not None:
            stated[index] = value
    return {index: other for other in others for index in range(len(given))} | stated


def flattened(owners: Any, rows: Sequence[Mapping[int, float]]) -> tuple[Any, IntArray, FloatArray]:
    """Rows of probabilities as three arrays: the owner (along the first axis), the column and the value of each."""
    columns, values = array("q"), array("d")
    for row in rows:
        columns.extend(row.keys())
        values.extend(row.values())
    return np.repeat(owners, [len(row) for row in rows], axis=0), np.array(columns), np.array(values)


def too_many(cursor: Cursor, entries: int) -> bool:
    """Whether a table of probabilities is larger than opaq reads."""
    finding = f"has {entries:,} entries, '*' written out; the limit is {MAX_ENTRIES:,}"
    return cursor.beyond(entries, MAX_ENTRIES, finding, "let states show fewer observations")


def read_rows(cursor: Cursor, *, given: Known, listed: Known | None, kind: str = "observation") -> Shown | None:
    """What is shown for every state or action: {given: {shown: probability}}, or an array [given, shown]."""
    if is_array(cursor.value):
        return array_rows(cursor, given=given, listed=listed)
    stated = cursor.value.values() if isinstance(cursor.value, Mapping) else ()
    seen = listed or Known.of(kind, mentioned(stated))
    table = rows_by_name(cursor, given, seen)
    return None if table is None else Shown(seen.listed, table)


def mentioned(entries: Iterable[Any]) -> tuple[str, ...]:
    """Every observation named, in order; what is no name is left for the reader of its row to note."""
    keys = (key for entry in entries for key in (entry if isinstance(entry, Mapping) else [entry]))
    return tuple(dict.fromkeys(str(key) for key in keys if isinstance(key, str) or is_int(key)))


def array_rows(
    cursor: Cursor, *, given: Known, listed: Known | None, blank: str = "is 0, not a distribution"
) -> Shown | None:
    """What is shown for every state or action as an array; `blank` is what is wrong with a row of zeros."""
    entries = matrix_entries(cursor, axes=(given.kind, "observation" if listed is None else listed.kind))
    if entries is None:
        return None
    rows, columns, values, shape = entries
    names = tuple(str(index) for index in range(shape[1])) if listed is None else listed.listed
    if given.index is None or not right_shape(cursor, shape, (len(given), len(names))):
        return None

    def spell(row: int, entry: int | None) -> Cursor:
        return cursor.item(row) if entry is None else cursor.item(row, int(columns[entry]))

    scaled = scaled_rows(cursor, rows, values, num_rows=shape[0], spell=spell)
    zero = sorted(set(range(shape[0])) - set(rows.tolist()))
    for row in zero:
        cursor.item(row).error(blank, "make the row sum to 1")
    if scaled is None or zero:
        return None
    return Shown(names, SparseRows.from_entries(rows, columns, scaled, shape=shape))


def written_shares(columns: Any, values: Any, names: tuple[str, ...]) -> dict[str, float]:
    """A row of probabilities by name."""
    return {names[column]: float(value) for column, value in zip(columns.tolist(), values.tolist(), strict=True)}


def written_rows(table: SparseRows, given: Iterable[str], shown: tuple[str, ...], *, first: int = 0) -> Plain:
    """Rows of probabilities by name, from row `first` on."""
    return {name: written_shares(*table.row(index), shown) for index, name in enumerate(given, first)}


def shares(kind: str, words: str) -> Shape[dict[int, float]]:
    """A distribution over the names of one kind; `kind` is a field of Names."""
    return Shape(words, lambda cursor: distribution(cursor, getattr(cursor.names, kind)), DISTRIBUTION)


SHARES = mapping_to(PROBABILITY, least=1)
DISTRIBUTION = unread(
    "`{name: probability}`, or one name for probability 1",
    {"anyOf": [NAME, SHARES], "description": "Probabilities that sum to 1, or one name."},
    ref="distribution",
)
TABLE = (mapping_to(DISTRIBUTION, least=1), ARRAY)  # the schema of rows by name or as an array
