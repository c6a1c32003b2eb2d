"""Reading arrays: shapes, finite entries, rows that sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.checks import MASKED, is_masked
from opaq.model.distributions import SLACK, normalise_rows, probability_fault, sum_fault
from opaq.spec.cursor import Cursor

MAX_ENTRIES = 200_000_000


class Entries(NamedTuple):
    """The non-zero entries of a matrix, and its shape."""

    rows: IntArray
    columns: IntArray
    values: FloatArray
    shape: tuple[int, int]


def is_sparse(value: object) -> bool:
    """Whether the value is a SciPy sparse matrix or array (asked without importing SciPy)."""
    return type(value).__module__.startswith("scipy.sparse")


def is_array(value: object) -> bool:
    """Whether the value is an array: NumPy, SciPy sparse, or nested lists."""
    return isinstance(value, np.ndarray | list | tuple) or is_sparse(value)


def dense(cursor: Cursor, *, axes: tuple[str, ...]) -> FloatArray | None:
    """An array of finite numbers with these axes."""
    if isinstance(cursor.value, np.ndarray) and too_large(cursor, cursor.value.size):
        return None
    if is_masked(cursor.value):
        return cursor.error(*MASKED)
    try:
        table = np.asarray(cursor.value)
    except ValueError:
        return cursor.error("is ragged: its rows differ in length")
    if table.dtype.kind not in "fiu":
        return cursor.error("holds something other than numbers", "every entry must be a number")
    if too_large(cursor, table.size):
        return None
    if table.ndim != len(axes):
        return cursor.error(f"has {table.ndim} axes, not {len(axes)}", f"the axes are [{', '.join(axes)}]")
    broken = np.argwhere(~np.isfinite(table))
    for index in broken:
        cursor.item(*index.tolist()).error(f"is {table[tuple(index)]}, not a finite number")
    return None if broken.size else table.astype(np.float64)


def matrix_entries(cursor: Cursor, *, axes: tuple[str, str]) -> Entries | None:
    """The non-zero entries of a dense or sparse matrix."""
    if is_sparse(cursor.value):
        return _sparse_entries(cursor)
    matrix = dense(cursor, axes=axes)
    if matrix is None:
        return None
    rows, columns = np.nonzero(matrix)
    return Entries(rows, columns, matrix[rows, columns], (matrix.shape[0], matrix.shape[1]))


def right_shape(cursor: Cursor, shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Whether the shape is the expected one."""
    if shape == expected:
        return True
    if len(shape) == 1:
        cursor.error(f"has {shape[0]:,} entries, not {expected[0]:,}")
    else:
        cursor.error(f"has shape {_times(shape)}, not {_times(expected)}")
    return False


def too_large(cursor: Cursor, entries: int) -> bool:
    """Whether an array has more entries than opaq reads."""
    finding = f"has {entries:,} entries, more than {MAX_ENTRIES:,}"
    return cursor.beyond(entries, MAX_ENTRIES, finding, "use a sparse array or a smaller model")


def scaled_rows(
    cursor: Cursor, rows: IntArray, values: FloatArray, *, num_rows: int, spell: Callable[[int, int | None], Cursor]
) -> FloatArray | None:
    """The values with every non-zero row scaled to sum to 1; rows that are all zero stay so.

    `spell` gives the cursor of a row and, if it is not None, of one of the entries.
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


def scaled_table(cursor: Cursor, table: FloatArray) -> FloatArray | None:
    """The table with every row of its last axis scaled to sum to 1."""
    flat = table.reshape(-1, table.shape[-1])
    rows, columns = np.nonzero(flat)

    def spell(row: int, entry: int | None) -> Cursor:
        index = [int(position) for position in np.unravel_index(row, table.shape[:-1])]
        return cursor.item(*index) if entry is None else cursor.item(*index, int(columns[entry]))

    values = scaled_rows(cursor, rows, flat[rows, columns], num_rows=flat.shape[0], spell=spell)
    if values is None:
        return None
    scaled = np.zeros_like(flat)
    scaled[rows, columns] = values
    return scaled.reshape(table.shape)


def _sparse_entries(cursor: Cursor) -> Entries | None:
    from scipy.sparse import csr_array

    if too_large(cursor, cursor.value.nnz):
        return None
    summed: Any = csr_array(cursor.value, copy=True, dtype=np.float64)
    summed.sum_duplicates()
    entries = summed.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    broken = np.flatnonzero(~np.isfinite(entries.data))
    for entry in broken.tolist():
        cursor.item(rows[entry], columns[entry]).error(f"is {entries.data[entry]}, not a finite number")
    return None if broken.size else Entries(rows, columns, entries.data, summed.shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
