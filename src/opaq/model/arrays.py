"""Array types (plain NumPy, read-only in a model), equality by content, and rows of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_LONGEST = 160  # characters of a repr
_LONGEST_PART = 40


class ShortRepr:
    """Base of dataclasses (repr=False) whose repr is one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={brief(getattr(self, name))}" for name in _names(self))
        return _abbreviate(f"{type(self).__name__}({parts})", _LONGEST)


class ContentEq(ShortRepr):
    """Base of frozen dataclasses (eq=False, repr=False) that hold arrays or mappings: equal if their content is."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in _names(self))

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_hash_value(getattr(self, name)) for name in _names(self))))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal: arrays entry by entry, mappings key by key."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"array[{'x'.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}" if value else "{}"
    if isinstance(value, tuple | list | frozenset):
        text = f"({', '.join(map(brief, value))})" if len(value) <= 4 else ""
        return text if text and len(text) <= _LONGEST_PART else f"({len(value)} items)"
    if is_dataclass(value):
        text = repr(value)
        return text if len(text) <= _LONGEST_PART else f"{type(value).__name__}(...)"
    return _abbreviate(repr(value), _LONGEST_PART)


def _names(value: Any) -> list[str]:
    """The fields that make up the content: those with compare=False do not."""
    return [field.name for field in fields(value) if field.compare]


def _hash_value(value: Any) -> Any:
    """Something hashable that is equal for equal values: cheap, so it leaves out the entries of arrays and mappings."""
    if isinstance(value, np.ndarray | list):
        return np.shape(value)[:1]
    if isinstance(value, tuple):
        return (len(value),)
    return len(value) if isinstance(value, Mapping) else hash(value)


def _abbreviate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


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
class SparseRows(ContentEq):
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


def expand_rows(starts: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of the chosen rows, one after the other: (position in `chosen`, entry) of each."""
    counts = starts[chosen + 1] - starts[chosen]
    owner = np.repeat(np.arange(chosen.size), counts)
    first = np.repeat(starts[chosen] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return owner, first + np.arange(owner.size)


EXACT = 1e-12  # sums this close to 1 are left alone, so that reading twice changes nothing
SILENT = 1e-9  # sums this close to 1 are rounding and are scaled without a word
SLACK = 1e-5  # sums this close to 1 are scaled with a warning (files print six digits); others are faults


class NormalisedRows(NamedTuple):
    """What came of scaling rows: the new values, and what there is to say about the old ones."""

    values: FloatArray  # [entry], scaled where the row's sum is within SLACK of 1, else as it was
    sums: FloatArray  # [row], before scaling
    off: IntArray  # rows beyond SLACK, which must be refused
    scaled: IntArray  # rows beyond SILENT (and not off), worth a warning

    def worst_gap(self) -> float:
        """How far the row of `scaled` that is furthest from 1 misses it; 0 when there is none."""
        return float(np.abs(self.sums[self.scaled] - 1).max(initial=0.0))


def normalise_rows(rows: IntArray, values: FloatArray, num_rows: int) -> NormalisedRows:
    """Scale every row to sum to 1; `rows` holds the row of each of `values`, which are finite and not negative."""
    sums = np.bincount(rows, weights=values, minlength=num_rows).astype(np.float64)
    gaps = np.abs(sums - 1)
    divisors = np.where((gaps > EXACT) & (gaps <= SLACK), sums, 1.0)
    off, scaled = np.flatnonzero(~(gaps <= SLACK)), np.flatnonzero((gaps > SILENT) & (gaps <= SLACK))
    return NormalisedRows(values if (divisors == 1).all() else values / divisors[rows], sums, off, scaled)


def normalise(values: FloatArray) -> NormalisedRows:
    """The same for one distribution: row 0 is the only one."""
    return normalise_rows(np.zeros(values.size, dtype=np.int64), values, 1)


def divisor(total: float) -> float | None:
    """What to divide probabilities of this sum by; None when they are too far from 1."""
    gap = abs(total - 1)
    if gap <= EXACT:
        return 1.0
    return total if gap <= SLACK else None


def probability_fault(share: float) -> tuple[str, str]:
    """What is wrong with a number that is no probability, and what to do."""
    side = "is negative" if share < 0 else "is above 1"
    return f"probability {share:.7g} {side}", "use a number from 0 to 1"


def sum_fault(total: float) -> tuple[str, str]:
    """What is wrong with probabilities of this sum, and what to do."""
    return f"probabilities sum to {total:.7g}, not 1", "make them sum to 1"
