"""Reading arrays: shapes, finite entries, rows that sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray
from opaq.spec.cursor import SILENT_SLACK, SLACK, item, sum_fault

MAX_ENTRIES = 200_000_000


def is_sparse(value: object) -> bool:
    """Whether the value is a SciPy sparse matrix or array (asked without importing SciPy)."""
    return type(value).__module__.startswith("scipy.sparse")


def is_array(value: object) -> bool:
    """Whether the value is an array: NumPy, SciPy sparse, or nested lists."""
    return isinstance(value, np.ndarray | list | tuple) or is_sparse(value)


def dense(value: Any, path: str, faults: Faults, *, axes: tuple[str, ...]) -> FloatArray | None:
    """An array of finite numbers with these axes."""
    if isinstance(value, np.ndarray) and too_large(value.size, path, faults):
        return None
    found = _plain(value, path, faults)
    if found is None:
        return None
    if found.ndim != len(axes):
        faults.error(path, f"has {found.ndim} axes, not {len(axes)}", f"the axes are [{', '.join(axes)}]")
        return None
    broken = np.argwhere(~np.isfinite(found))
    for place in broken:
        faults.error(item(path, *place.tolist()), f"is {found[tuple(place)]}, not a finite number")
    return None if broken.size else found


def matrix_entries(
    value: Any, path: str, faults: Faults, *, axes: tuple[str, str]
) -> tuple[IntArray, IntArray, FloatArray, tuple[int, int]] | None:
    """The non-zero entries of a dense or sparse matrix: rows, columns, values; and its shape."""
    if is_sparse(value):
        return _sparse_entries(value, path, faults)
    matrix = dense(value, path, faults, axes=axes)
    if matrix is None:
        return None
    rows, columns = np.nonzero(matrix)
    return rows, columns, matrix[rows, columns], (matrix.shape[0], matrix.shape[1])


def check_shape(found: tuple[int, ...], expected: tuple[int, ...], path: str, faults: Faults) -> bool:
    """Whether the shape is the expected one."""
    if found == expected:
        return True
    if len(found) == 1:
        faults.error(path, f"has {found[0]:,} entries, not {expected[0]:,}")
    else:
        faults.error(path, f"has shape {_times(found)}, not {_times(expected)}")
    return False


def too_large(entries: int, path: str, faults: Faults) -> bool:
    """Whether an array has more entries than opaq reads."""
    if entries <= MAX_ENTRIES:
        return False
    faults.error(path, f"has {entries:,} entries, more than {MAX_ENTRIES:,}", "use a sparse array or a smaller model")
    return True


def scaled_rows(
    rows: IntArray,
    values: FloatArray,
    *,
    num_rows: int,
    entry_path: Callable[[int], str],
    row_path: Callable[[int], str],
    path: str,
    faults: Faults,
) -> FloatArray | None:
    """The values with every non-zero row scaled to sum to 1; rows that are all zero stay so."""
    broken = np.flatnonzero((values < 0) | (values > 1 + SLACK))
    for entry in broken.tolist():
        side = "is negative" if values[entry] < 0 else "is above 1"
        faults.error(entry_path(entry), f"probability {values[entry]:.7g} {side}", "use a number from 0 to 1")
    sums = np.bincount(rows, weights=values, minlength=num_rows)
    used = np.bincount(rows[values != 0], minlength=num_rows) > 0
    used[rows[broken]] = False
    gaps = np.where(used, np.abs(sums - 1), 0)
    off = np.flatnonzero(gaps > SLACK)
    for row in off.tolist():
        faults.error(row_path(row), sum_fault(sums[row]), "make them sum to 1")
    if broken.size or off.size:
        return None
    slightly = int(np.count_nonzero(gaps > SILENT_SLACK))
    if slightly:
        rows_are = "row sums" if slightly == 1 else "rows sum"
        faults.warn(path, f"{slightly:,} {rows_are} to 1 only within {gaps.max():.2g}", "scaled to sum to 1")
    scale = np.where(gaps > 1e-12, 1 / np.where(used, sums, 1), 1.0)
    return values * scale[rows]


def _plain(value: Any, path: str, faults: Faults) -> FloatArray | None:
    try:
        found = np.asarray(value)
    except ValueError:
        faults.error(path, "is ragged: its rows differ in length")
        return None
    if found.dtype.kind not in "fiu":
        faults.error(path, "holds something other than numbers", "every entry must be a number")
        return None
    return None if too_large(found.size, path, faults) else found.astype(np.float64)


def _sparse_entries(
    value: Any, path: str, faults: Faults
) -> tuple[IntArray, IntArray, FloatArray, tuple[int, int]] | None:
    from scipy.sparse import csr_array

    if too_large(value.nnz, path, faults):
        return None
    summed = csr_array(value, copy=True, dtype=np.float64)
    summed.sum_duplicates()
    entries = summed.tocoo()
    rows, columns = entries.row.astype(np.int64), entries.col.astype(np.int64)
    broken = np.flatnonzero(~np.isfinite(entries.data))
    for entry in broken.tolist():
        faults.error(item(path, rows[entry], columns[entry]), f"is {entries.data[entry]}, not a finite number")
    return None if broken.size else (rows, columns, entries.data, summed.shape)


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
