"""Array types (plain NumPy, read-only in a model), equality by content, sparse rows and normalisation.

Axes are written in brackets everywhere in opaq: [state, observation] is a table with a row per state. Distributions
that come from files or other tools rarely sum to 1 exactly: sums within EXACT are left alone, within SLACK they are
scaled (with a warning beyond SILENT), and others are faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_FEW_ENTRIES = 10_000  # of a matrix: products with fewer take less time than to import SciPy's
_LONGEST = 160  # characters of a repr
_LONGEST_PART = 40


class ShortRepr:
    """Base of dataclasses (repr=False) whose repr is one line: arrays by shape, long parts abbreviated."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={_brief(getattr(self, name))}" for name in _names(self))
        return _abbreviate(f"{type(self).__name__}({parts})", _LONGEST)


class ContentEq(ShortRepr):
    """Base of frozen dataclasses (eq=False, repr=False) that hold arrays or mappings: equal if their content is.

    The hash leaves out the entries of arrays and mappings, so that it stays cheap.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in _names(self))

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_hash_value(getattr(self, name)) for name in _names(self))))


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal: arrays entry by entry, mappings key by key, sequences item by item."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _brief(value: Any) -> str:
    """Return a value in a few words, for a repr."""
    if isinstance(value, np.ndarray):
        return f"array[{'x'.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}" if value else "{}"
    if isinstance(value, tuple | list | frozenset):
        text = f"({', '.join(map(_brief, value))})" if len(value) <= 4 else ""
        return text if text and len(text) <= _LONGEST_PART else f"({len(value)} items)"
    if is_dataclass(value):
        text = repr(value)
        return text if len(text) <= _LONGEST_PART else f"{type(value).__name__}(...)"
    return _abbreviate(repr(value), _LONGEST_PART)


def _names(value: Any) -> list[str]:
    """Return the names of the fields that make up the content of an instance: those with compare=False do not."""
    return [field.name for field in fields(value) if field.compare]


def _hash_value(value: Any) -> Any:
    """Return something hashable that is equal for equal values, without the entries of arrays and mappings."""
    if isinstance(value, np.ndarray | list):
        return np.shape(value)[:1]
    if isinstance(value, tuple):
        return (len(value),)
    return len(value) if isinstance(value, Mapping) else hash(value)


def _abbreviate(text: str, most: int) -> str:
    """Return a text of at most `most` characters, with "..." where it was cut."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.uint32]  # for compiled code, which need not ask whether an index counts from the end


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Close an array for writing and return it."""
    array.flags.writeable = False
    return array


def floats(values: Any) -> FloatArray:
    """Return a read-only copy as float64."""
    return frozen(np.array(values, dtype=np.float64))


def indices(values: Any) -> IndexArray:
    """Return a read-only copy as uint32, for compiled code; at most 4 billion things are numbered."""
    return frozen(np.array(values, dtype=np.uint32))


def ints(values: Any) -> IntArray:
    """Return a read-only copy as int64."""
    return frozen(np.array(values, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseRows(ContentEq):
    """A sparse matrix by rows (CSR): row i holds columns[starts[i]:starts[i + 1]], with the values beside them.

    Columns ascend within a row. Used for every table of probabilities: transitions [choice, state], emission [state,
    observation], memory updates [update, node].
    """

    starts: IntArray  # [row + 1]
    columns: IntArray  # [entry]
    values: FloatArray  # [entry]
    num_columns: int

    def __repr__(self) -> str:
        return f"<SparseRows: {self.num_rows} x {self.num_columns}, {self.values.size} entries>"

    @classmethod
    def from_entries(cls, rows: Any, columns: Any, values: Any, *, shape: tuple[int, int]) -> SparseRows:
        """Build a matrix from (row, column, value) triples; equal positions are summed, zeros are dropped.

        shape: (number of rows, number of columns).
        """
        rows = np.asarray(rows, dtype=np.int64)
        columns = np.asarray(columns, dtype=np.int64)
        values = np.asarray(values, dtype=np.float64)
        kept = values != 0
        codes = rows[kept] * shape[1] + columns[kept]
        order = np.argsort(codes, kind="stable")  # quick where entries come in order, as they mostly do
        codes = codes[order]
        first = np.concatenate((np.ones(min(codes.size, 1), dtype=np.bool_), codes[1:] != codes[:-1]))
        positions = codes[first]
        summed = np.bincount(np.cumsum(first) - 1, weights=values[kept][order], minlength=positions.size)
        counts = np.bincount(positions // max(shape[1], 1), minlength=shape[0])
        starts = np.concatenate(([0], np.cumsum(counts)))
        return cls(ints(starts), ints(positions % max(shape[1], 1)), floats(summed), shape[1])

    @classmethod
    def from_dense(cls, matrix: Any) -> SparseRows:
        """Build a matrix from a two-dimensional array; zeros are dropped."""
        matrix = np.asarray(matrix, dtype=np.float64)
        rows, columns = np.nonzero(matrix)
        return cls.from_entries(rows, columns, matrix[rows, columns], shape=matrix.shape)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.starts.size - 1)

    def row(self, index: int) -> tuple[IntArray, FloatArray]:
        """Return the columns and values of one row."""
        entries = slice(int(self.starts[index]), int(self.starts[index + 1]))
        return self.columns[entries], self.values[entries]

    def row_of_entry(self) -> IntArray:
        """Return [entry] -> row."""
        return np.arange(self.num_rows).repeat(self.starts[1:] - self.starts[:-1])

    def row_sums(self) -> FloatArray:
        """Return [row]: the sum of every row."""
        return np.bincount(self.row_of_entry(), weights=self.values, minlength=self.num_rows).astype(np.float64)

    def dense(self) -> FloatArray:
        """Return a two-dimensional array [row, column], for small matrices."""
        matrix = np.zeros((self.num_rows, self.num_columns))
        matrix[self.row_of_entry(), self.columns] = self.values
        return matrix

    def take(self, chosen: IntArray) -> SparseRows:
        """Return the matrix of the chosen rows, in any order and with repetitions."""
        owner, entry = expand_rows(self.starts, chosen)
        counts = np.bincount(owner, minlength=chosen.size)
        starts = np.concatenate(([0], np.cumsum(counts)))
        return SparseRows(ints(starts), ints(self.columns[entry]), floats(self.values[entry]), self.num_columns)

    def __matmul__(self, vector: Any) -> Any:
        """Return [row]: the sum over its entries of value times vector [column], added up in their order."""
        return _add_up(self.row_of_entry(), self.values * vector[self.columns], self.num_rows)

    def multiplier(self) -> SparseRows | csr_array:
        """Return what multiplies many vectors fastest, with the same sums: this, or SciPy's matrix if it is large."""
        return self if self.values.size <= _FEW_ENTRIES else self.scipy()

    @property
    def T(self) -> TransposedRows:  # noqa: N802, as NumPy and SciPy call it
        """The transposed matrix, to be multiplied by a vector."""
        return TransposedRows(self)

    def scipy(self) -> csr_array:
        """Return a SciPy csr_array that shares the arrays."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.starts), shape=(self.num_rows, self.num_columns))


class TransposedRows(NamedTuple):
    """A sparse matrix by columns, for products with vectors."""

    rows: SparseRows

    def __matmul__(self, vector: Any) -> Any:
        """Return [column]: the sum over its entries of value times vector [row], row after row."""
        rows = self.rows
        return _add_up(rows.columns, rows.values * vector[rows.row_of_entry()], rows.num_columns)


def _add_up(position: IntArray, values: Any, size: int) -> Any:
    """Return [position]: the sum of its values, in their order; complex where they are."""
    if np.iscomplexobj(values):
        return _add_up(position, values.real, size) + 1j * _add_up(position, values.imag, size)
    return np.bincount(position, weights=values, minlength=size).astype(np.float64)


def inner_product(one: FloatArray, other: FloatArray) -> float:
    """Return the sum of the products of two long vectors, the same whatever the number of cores.

    `@` leaves it to a linear algebra library, which shares long vectors among threads: it rounds by their number, and
    they keep cores busy for milliseconds after it.
    """
    return float((one * other).sum())


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values, ascending: `np.unique`, which takes thirty times as long for whole numbers.

    values: one axis. Its first call would also import numpy.ma, which takes as long as reading a small problem.
    """
    ordered = np.sort(values)
    first = np.ones(ordered.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def expand_rows(starts: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return (position in `chosen`, entry) for all entries of the chosen rows, one row after the other.

    The vectorised form of

        for position, row in enumerate(chosen):
            for entry in range(starts[row], starts[row + 1]): ...

    starts: [row + 1]. chosen: [position] -> row, in any order and with repetitions.
    """
    counts = starts[chosen + 1] - starts[chosen]
    owner = np.repeat(np.arange(chosen.size), counts)
    first = np.repeat(starts[chosen] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return owner, first + np.arange(owner.size)


EXACT = 1e-12  # sums this close to 1 are left alone, so that reading twice changes nothing
SILENT = 1e-9  # sums this close to 1 are rounding and are scaled without a word
SLACK = 1e-5  # sums this close to 1 are scaled with a warning (files print six digits); others are faults
_NONE = ints([])


class NormalisedRows(NamedTuple):
    """Result of scaling rows to sum 1: the new values, and which old ones must be refused or warned about."""

    values: FloatArray  # [entry], scaled where the row's sum is within SLACK of 1, else as it was
    sums: FloatArray  # [row], before scaling
    off: IntArray  # rows beyond SLACK, which must be refused
    scaled: IntArray  # rows beyond SILENT (and not off), worth a warning

    def worst_gap(self) -> float:
        """Return how far the sum of the worst row of `scaled` is from 1; 0 when there is none."""
        return float(np.abs(self.sums[self.scaled] - 1).max()) if self.scaled.size else 0.0


def normalise_rows(rows: IntArray, values: FloatArray, num_rows: int) -> NormalisedRows:
    """Scale every row to sum to 1, where its sum is within SLACK of 1.

    rows: [entry] -> row, below num_rows. values: [entry], finite and not negative.
    Nothing is raised: rows that are too far off are listed in `off`, and keep their values.
    """
    sums = np.bincount(rows, weights=values, minlength=num_rows).astype(np.float64, copy=False)
    gaps = np.abs(sums - 1)
    if (gaps <= EXACT).all():
        return NormalisedRows(values, sums, _NONE, _NONE)
    divisors = np.where((gaps > EXACT) & (gaps <= SLACK), sums, 1.0)
    off, scaled = np.flatnonzero(~(gaps <= SLACK)), np.flatnonzero((gaps > SILENT) & (gaps <= SLACK))
    return NormalisedRows(values / divisors[rows], sums, off, scaled)


def normalise(values: FloatArray) -> NormalisedRows:
    """Scale one distribution to sum to 1; in the result, row 0 is the only one."""
    return normalise_rows(np.zeros(values.size, dtype=np.int64), values, 1)


def find_improbable(values: FloatArray) -> IntArray:
    """Return the entries that are no probabilities: below 0, above 1 by more than SLACK, or NaN."""
    if not values.size or (values.min() >= 0 and values.max() <= 1 + SLACK):  # both are False for NaN
        return _NONE
    return np.flatnonzero(~((values >= 0) & (values <= 1 + SLACK)))


def divisor(total: float) -> float | None:
    """Return what to divide probabilities of this sum by: 1 for rounding errors below EXACT, None beyond SLACK."""
    gap = abs(total - 1)
    if gap <= EXACT:
        return 1.0
    return total if gap <= SLACK else None


def probability_fault(share: float) -> tuple[str, str]:
    """Return the message and the advice for a number that is no probability."""
    side = "is negative" if share < 0 else "is above 1"
    return f"probability {share:.7g} {side}", "use a number from 0 to 1"


def sum_fault(total: float) -> tuple[str, str]:
    """Return the message and the advice for probabilities of this sum."""
    return f"probabilities sum to {total:.7g}, not 1", "make them sum to 1"
