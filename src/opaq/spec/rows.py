"""Read rows of probabilities as users state them: by name for every state or action, or as arrays.

Both forms end in a `SparseRows` whose rows sum to 1. Sums that miss 1 slightly are scaled, with a warning; larger gaps,
negative numbers, wrong shapes and arrays beyond the limits are faults.

    {q0: {red: 0.9, blue: 0.1}, "*": blue}      by name; "*" is every row not listed, one name has probability 1
    [[0.9, 0.1], [0, 1]]                        as nested lists, a NumPy array or a SciPy sparse matrix
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from opaq.errors import is_int
from opaq.model.arrays import SLACK, FloatArray, IntArray, SparseRows, normalise_rows, probability_fault, sum_fault
from opaq.model.checks import MASKED, is_masked
from opaq.spec.cursor import Cursor, NameTable
from opaq.spec.grammar import ARRAY, NAME, PROBABILITY, Plain, ValueType, all_or_none, mapping_schema, raw_value

MAX_MATRIX_ENTRIES = 200_000_000


class _MatrixEntries(NamedTuple):
    """The non-zero entries of a matrix, and its shape."""

    rows: IntArray
    columns: IntArray
    values: FloatArray
    shape: tuple[int, int]


def _is_sparse(value: object) -> bool:
    """Return whether a value is a SciPy sparse matrix or array; SciPy is not imported to find out."""
    return type(value).__module__.startswith("scipy.sparse")


def is_array(value: object) -> bool:
    """Return whether a value is an array: NumPy, SciPy sparse, or nested lists."""
    return isinstance(value, np.ndarray | list | tuple) or _is_sparse(value)


def read_array(cursor: Cursor, *, axes: tuple[str, ...]) -> FloatArray | None:
    """Return an array of finite numbers as float64.

    cursor: a NumPy array or nested lists.
    axes: what each axis stands for, in messages; their number must be that of the array's.
    Returns None after noting masked, ragged, too large or non-numeric arrays, and each entry that is not finite.
    """
    if isinstance(cursor.value, np.ndarray) and exceeds_array_limit(cursor, cursor.value.size):
        return None
    if is_masked(cursor.value):
        return cursor.error(*MASKED)
    try:
        table = np.asarray(cursor.value)
    except ValueError:
        return cursor.error("is ragged: its rows differ in length")
    if table.dtype.kind not in "fiu":
        return cursor.error("holds something other than numbers", "every entry must be a number")
    if exceeds_array_limit(cursor, table.size):
        return None
    if table.ndim != len(axes):
        return cursor.error(f"has {table.ndim} axes, not {len(axes)}", f"the axes are [{', '.join(axes)}]")
    broken = np.argwhere(~np.isfinite(table))
    for index in broken:
        cursor.item(*index.tolist()).error(f"is {table[tuple(index)]}, not a finite number")
    return None if broken.size else table.astype(np.float64)


def read_matrix(cursor: Cursor, *, axes: tuple[str, str]) -> _MatrixEntries | None:
    """Return the non-zero entries of a dense or SciPy sparse matrix; None after a fault.

    cursor: the matrix; axes: what its two axes stand for, as for `read_array`.
    """
    if _is_sparse(cursor.value):
        return _sparse_entries(cursor)
    matrix = read_array(cursor, axes=axes)
    if matrix is None:
        return None
    rows, columns = np.nonzero(matrix)
    return _MatrixEntries(rows, columns, matrix[rows, columns], (matrix.shape[0], matrix.shape[1]))


def check_shape(cursor: Cursor, shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Return whether an array has the expected shape, and note it otherwise.

    shape, expected: sizes along the axes; of one axis, the message counts entries.
    """
    if shape == expected:
        return True
    if len(shape) == 1:
        cursor.error(f"has {shape[0]:,} entries, not {expected[0]:,}")
    else:
        cursor.error(f"has shape {_times(shape)}, not {_times(expected)}")
    return False


def exceeds_array_limit(cursor: Cursor, entries: int) -> bool:
    """Return whether an array has more entries than opaq reads (MAX_MATRIX_ENTRIES), which is noted."""
    finding = f"has {entries:,} entries, more than {MAX_MATRIX_ENTRIES:,}"
    return cursor.exceeds(entries, MAX_MATRIX_ENTRIES, finding, "use a sparse array or a smaller model")


def scale_rows(
    cursor: Cursor, rows: IntArray, values: FloatArray, *, num_rows: int, spell: Callable[[int, int | None], Cursor]
) -> FloatArray | None:
    """Return the values with every non-zero row scaled to sum to 1; rows that are all zero stay so.

    rows, values: the row and the value of every entry.
    num_rows: how many rows there are.
    spell: gives the cursor of a row and, if it is not None, of one of the entries, for faults.
    Returns None when an entry is no probability or a row misses 1 by too much.
    """
    broken = np.flatnonzero((values < 0) | (values > 1 + SLACK))
    for entry in broken.tolist():
        spell(int(rows[entry]), entry).error(*probability_fault(values[entry]))
    scaled = normalise_rows(rows, values, num_rows)
    used = np.bincount(rows[values != 0], minlength=num_rows) > 0
    used[rows[broken]] = False
    off = scaled.off[used[scaled.off]]
    for row in off.tolist():
        spell(row, None).error(*sum_fault(scaled.sums[row]))
    if broken.size or off.size:
        return None
    if scaled.scaled.size:
        rows_are = "row sums" if scaled.scaled.size == 1 else "rows sum"
        finding = f"{scaled.scaled.size:,} {rows_are} to 1 only within {scaled.worst_gap():.2g}"
        cursor.warn(finding, "scaled to sum to 1")
    return scaled.values


def scale_table(cursor: Cursor, table: FloatArray) -> FloatArray | None:
    """Return a table with every row of its last axis scaled to sum to 1; None after a fault.

    cursor: where faults are noted, each with the index of its row; table: any number of axes. Rows of zeros stay so.
    """
    flat = table.reshape(-1, table.shape[-1])
    rows, columns = np.nonzero(flat)

    def spell(row: int, entry: int | None) -> Cursor:
        """Return the cursor of a row of the table, or of one of its entries."""
        index = [int(position) for position in np.unravel_index(row, table.shape[:-1])]
        return cursor.item(*index) if entry is None else cursor.item(*index, int(columns[entry]))

    values = scale_rows(cursor, rows, flat[rows, columns], num_rows=flat.shape[0], spell=spell)
    if values is None:
        return None
    scaled = np.zeros_like(flat)
    scaled[rows, columns] = values
    return scaled.reshape(table.shape)


def _sparse_entries(cursor: Cursor) -> _MatrixEntries | None:
    """Return the entries of a SciPy sparse matrix, duplicates summed; None after noting entries that are not finite."""
    from scipy.sparse import csr_array

    if exceeds_array_limit(cursor, cursor.value.nnz):
        return None
    summed: Any = csr_array(cursor.value, copy=True, dtype=np.float64)
    summed.sum_duplicates()
    entries = summed.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    broken = np.flatnonzero(~np.isfinite(entries.data))
    for entry in broken.tolist():
        cursor.item(rows[entry], columns[entry]).error(f"is {entries.data[entry]}, not a finite number")
    return None if broken.size else _MatrixEntries(rows, columns, entries.data, summed.shape)


def _times(shape: tuple[int, ...]) -> str:
    """Return a shape in words, as in "3 x 4"."""
    return " x ".join(str(size) for size in shape)


T = TypeVar("T")
MAX_ENTRIES = 20_000_000  # of a table of probabilities


class NamedRows(NamedTuple):
    """One distribution over names for every state or action: the names, and a table [state or action, name]."""

    names: tuple[str, ...]
    table: SparseRows


def read_distribution(cursor: Cursor, names: NameTable) -> dict[int, float] | None:
    """Return a distribution as position -> probability.

    cursor: {name: probability}, or one name for probability 1.
    names: those it may use; a name written in two ways counts as repeated.
    Returns None after a fault; probabilities are scaled to sum to 1 as `Cursor.scale_to_one` allows.
    """
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
    cursor: Cursor, given: NameTable, columns: NameTable, *, rest: Mapping[int, dict[int, float] | None] | None = None
) -> SparseRows | None:
    """Return {row: distribution} as a table [row, column]; None after a fault.

    cursor: the mapping; its key "*" stands for every row that is not listed.
    given, columns: the names of the rows and of the columns.
    rest: the distributions of rows that are not listed and that no "*" stands for; None makes such rows a fault.
    """
    distributions = read_by_name(cursor, given, lambda entry: read_distribution(entry, columns))
    if distributions is None or given.index is None:
        return None
    for name, index in given.index.items():
        if index not in distributions and rest is None:
            cursor.child(name, None).error("is missing", "say what is seen there, or add '*' for all others")
    rows = {index: distributions.get(index, (rest or {}).get(index)) for index in given.index.values()}
    entries = all_or_none(list(rows.values()))
    if exceeds_table_limit(cursor, sum(len(shares or ()) for shares in rows.values())) or not entries:
        return None
    return SparseRows.from_entries(*flatten_rows(list(rows), entries), shape=(len(given), len(columns)))


def read_by_name(cursor: Cursor, given: NameTable, read: Callable[[Cursor], T]) -> dict[int, T] | None:
    """Return the value of each name in a mapping, by position.

    given: the names; the key "*" stands for those that are not there.
    read: reads one value. A name that is there twice, spelled differently, is noted.
    """
    entries = cursor.entries()
    if entries is None:
        return None
    others = [read(entries.pop("*"))] if "*" in entries else []
    values: dict[int, T] = {}
    for key, entry in entries.items():
        value, index = read(entry), given.find(cursor.child(key, key))
        if index is not None and index in values:
            entry.error(f"the same {given.kind} is there twice", "keep one of them")
        if index is not None:
            values[index] = value
    return {index: other for other in others for index in range(len(given))} | values


def flatten_rows(owners: Any, rows: Sequence[Mapping[int, float]]) -> tuple[Any, IntArray, FloatArray]:
    """Return rows of probabilities as three arrays: the owner (along the first axis), the column and the value of each.

    owners: one entry per row, of any shape; rows: column -> value.
    """
    columns, values = array("q"), array("d")
    for row in rows:
        columns.extend(row.keys())
        values.extend(row.values())
    return np.repeat(owners, [len(row) for row in rows], axis=0), np.array(columns), np.array(values)


def exceeds_table_limit(cursor: Cursor, entries: int) -> bool:
    """Return whether a table of probabilities has more entries than opaq reads (MAX_ENTRIES), which is noted."""
    finding = f"has {entries:,} entries, '*' written out; the limit is {MAX_ENTRIES:,}"
    return cursor.exceeds(entries, MAX_ENTRIES, finding, "let states show fewer observations")


def read_rows(
    cursor: Cursor, *, given: NameTable, listed: NameTable | None, kind: str = "observation"
) -> NamedRows | None:
    """Return a distribution for every state or action; None after a fault.

    cursor: {given: {name: probability}}, or an array [given, name].
    given: the names of the rows; every one needs a distribution, its own or that of "*".
    listed: the names of the columns; None takes those that are mentioned, in order, which messages call a `kind`.
    """
    if is_array(cursor.value):
        return read_array_rows(cursor, given=given, listed=listed)
    rows = cursor.value.values() if isinstance(cursor.value, Mapping) else ()
    seen = listed or NameTable.of(kind, collect_names(rows))
    table = rows_by_name(cursor, given, seen)
    return None if table is None else NamedRows(seen.listed, table)


def collect_names(entries: Iterable[Any]) -> tuple[str, ...]:
    """Return every name that some distributions mention, in order.

    Anything else is left for the reader of its row to note.
    """
    keys = (key for entry in entries for key in (entry if isinstance(entry, Mapping) else [entry]))
    return tuple(dict.fromkeys(str(key) for key in keys if isinstance(key, str) or is_int(key)))


def read_array_rows(
    cursor: Cursor, *, given: NameTable, listed: NameTable | None, blank: str = "is 0, not a distribution"
) -> NamedRows | None:
    """Return a distribution for every state or action from an array; None after a fault.

    cursor: an array [given, listed], dense or SciPy sparse.
    given, listed: the names of rows and columns; without `listed` columns are numbered from 0.
    blank: what is wrong with a row of zeros, in words.
    """
    entries = read_matrix(cursor, axes=(given.kind, "observation" if listed is None else listed.kind))
    if entries is None:
        return None
    rows, columns, values, shape = entries
    names = tuple(str(index) for index in range(shape[1])) if listed is None else listed.listed
    if given.index is None or not check_shape(cursor, shape, (len(given), len(names))):
        return None

    def spell(row: int, entry: int | None) -> Cursor:
        """Return the cursor of a row of the array, or of one of its entries."""
        return cursor.item(row) if entry is None else cursor.item(row, int(columns[entry]))

    scaled = scale_rows(cursor, rows, values, num_rows=shape[0], spell=spell)
    zero = sorted(set(range(shape[0])) - set(rows.tolist()))
    for row in zero:
        cursor.item(row).error(blank, "make the row sum to 1")
    if scaled is None or zero:
        return None
    return NamedRows(names, SparseRows.from_entries(rows, columns, scaled, shape=shape))


def write_shares(columns: Any, values: Any, names: tuple[str, ...]) -> dict[str, float]:
    """Return a row of probabilities by name, as `read_distribution` reads it.

    columns, values: the entries of the row; names: those of the columns.
    """
    return {names[column]: float(value) for column, value in zip(columns.tolist(), values.tolist(), strict=True)}


def write_rows(table: SparseRows, given: Iterable[str], columns: tuple[str, ...], *, first: int = 0) -> Plain:
    """Return rows of probabilities by name.

    given, columns: the names of the rows and of the columns.
    first: the row of the first name, where the table has several blocks.
    """
    return {name: write_shares(*table.row(index), columns) for index, name in enumerate(given, first)}


def distribution_of(kind: str, words: str) -> ValueType[dict[int, float]]:
    """Return the type of a distribution over the names of one kind, read as position -> probability.

    kind: the field of Scope that has the names, e.g. "actions"; words: what the reference page says of it.
    """
    return ValueType(words, lambda cursor: read_distribution(cursor, getattr(cursor.scope, kind)), DISTRIBUTION)


SHARES = mapping_schema(PROBABILITY, least=1)
DISTRIBUTION = raw_value(
    "`{name: probability}`, or one name for probability 1",
    {"anyOf": [NAME, SHARES], "description": "Probabilities that sum to 1, or one name."},
    ref="distribution",
)
TABLE = (mapping_schema(DISTRIBUTION, least=1), ARRAY)  # the schema of rows by name or as an array
