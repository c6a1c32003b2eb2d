"""The array types of opaq: plain NumPy, read-only once they are part of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opaq.model.content import ByContent

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.uint32]  # for compiled code, which need not ask whether an index counts from the end


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, closed for writing."""
    array.flags.writeable = False
    return array


def floats(values: Any) -> FloatArray:
    """A read-only copy as float64."""
    return frozen(np.array(values, dtype=np.float64))


def indices(values: Any) -> IndexArray:
    """A read-only copy as uint32; at most 4 billion things are numbered."""
    return frozen(np.array(values, dtype=np.uint32))


def ints(values: Any) -> IntArray:
    """A read-only copy as int64."""
    return frozen(np.array(values, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseRows(ByContent):
    """A sparse matrix by rows: row i holds columns[starts[i]:starts[i+1]] with the values beside them."""

    starts: IntArray  # [row + 1]
    columns: IntArray  # [entry]
    values: FloatArray  # [entry]
    num_columns: int

    def __repr__(self) -> str:
        return f"<SparseRows: {self.num_rows} x {self.num_columns}, {self.values.size} entries>"

    @classmethod
    def from_entries(cls, rows: Any, columns: Any, values: Any, *, shape: tuple[int, int]) -> SparseRows:
        """From (row, column, value) triples; equal places are summed, zeros are dropped."""
        rows = np.asarray(rows, dtype=np.int64)
        columns = np.asarray(columns, dtype=np.int64)
        values = np.asarray(values, dtype=np.float64)
        kept = values != 0
        places, inverse = np.unique(rows[kept] * shape[1] + columns[kept], return_inverse=True)
        summed = np.bincount(inverse, weights=values[kept], minlength=places.size)
        counts = np.bincount(places // max(shape[1], 1), minlength=shape[0])
        starts = np.concatenate(([0], np.cumsum(counts)))
        return cls(ints(starts), ints(places % max(shape[1], 1)), floats(summed), shape[1])

    @classmethod
    def from_dense(cls, matrix: Any) -> SparseRows:
        """From a two-dimensional array."""
        matrix = np.asarray(matrix, dtype=np.float64)
        rows, columns = np.nonzero(matrix)
        return cls.from_entries(rows, columns, matrix[rows, columns], shape=matrix.shape)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.starts.size - 1)

    def row(self, index: int) -> tuple[IntArray, FloatArray]:
        """The columns and values of one row."""
        place = slice(int(self.starts[index]), int(self.starts[index + 1]))
        return self.columns[place], self.values[place]

    def row_of_entry(self) -> IntArray:
        """The row of every entry."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.starts))

    def row_sums(self) -> FloatArray:
        """The sum of every row."""
        return np.bincount(self.row_of_entry(), weights=self.values, minlength=self.num_rows).astype(np.float64)

    def dense(self) -> FloatArray:
        """As a two-dimensional array, for small matrices."""
        matrix = np.zeros((self.num_rows, self.num_columns))
        matrix[self.row_of_entry(), self.columns] = self.values
        return matrix

    def scipy(self) -> csr_array:
        """As a SciPy sparse array."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=(self.num_rows, self.num_columns))


def spread(starts: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of the chosen rows, one after the other: (position in `chosen`, entry) of each."""
    counts = starts[chosen + 1] - starts[chosen]
    owner = np.repeat(np.arange(chosen.size), counts)
    first = np.repeat(starts[chosen] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return owner, first + np.arange(owner.size)
