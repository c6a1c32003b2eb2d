"""What the observer may see at the end of a history tree: observation sequences, proportional ones merged.

The joint weight of sequence y and secret value z is linear in the weights of the leaves. Two sequences whose
likelihoods are proportional over all words give proportional joint weights under every policy; every uncertainty is
positively homogeneous, so their rows may be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.certificates.history_moves import Moves
from opaq.certificates.history_tree import HistoryTree
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, IntArray
from opaq.stop import Stop

_MOST_ENTRIES = 20_000_000  # (sequence, word) pairs of positive likelihood
_DIGITS = 13  # of the likelihoods that are compared; merging what differs by less only raises the upper bound by less


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Cells: pairs of a merged observation sequence and a secret value that can occur with it, by sequence."""

    likelihood: Any  # sparse [cell, leaf]: P(y | leaf) where the leaf has the cell's secret value
    sequence: IntArray  # [cell]
    secret: IntArray  # [cell]
    num_sequences: int
    num_secrets: int

    def totals(self, cells: FloatArray) -> FloatArray:
        """[sequence]: the sum over secret values."""
        return np.bincount(self.sequence, weights=cells, minlength=self.num_sequences).astype(np.float64)


def observed(tree: HistoryTree, moves: Moves, *, num_secrets: int, stop: Stop) -> Sequences:
    """The cells of a tree; sequences with which only one secret value can occur are left out: nothing is uncertain."""
    words = _word_likelihoods(tree, moves, stop)
    leaves = words[:, tree.word[tree.leaves]].tocoo()
    keys, cell = np.unique(leaves.row.astype(np.int64) * num_secrets + tree.secret[leaves.col], return_inverse=True)
    cell = cell.reshape(-1)
    sequence, secret = keys // num_secrets, keys % num_secrets
    kept = np.bincount(sequence, minlength=words.shape[0])[sequence] > 1
    return _cells(leaves, cell, kept, sequence=sequence[kept], secret=secret[kept], num_secrets=num_secrets)


def _cells(
    leaves: Any, cell: IntArray, kept: Any, *, sequence: IntArray, secret: IntArray, num_secrets: int
) -> Sequences:
    from scipy.sparse import csr_array

    number = np.cumsum(kept) - 1
    entries = kept[cell]
    place = (number[cell[entries]], leaves.col[entries])
    likelihood = csr_array((leaves.data[entries], place), shape=(int(kept.sum()), leaves.shape[1]))
    distinct, numbered = np.unique(sequence, return_inverse=True)
    return Sequences(likelihood, numbered.reshape(-1), secret, int(distinct.size), num_secrets)


def _word_likelihoods(tree: HistoryTree, moves: Moves, stop: Stop) -> Any:
    """Sparse [merged sequence, word of the last time]: P(y | word), summed over the merged."""
    from scipy.sparse import csr_array

    rows = csr_array(np.ones((1, 1)))
    parents = (np.zeros(tree.classes[0].size, dtype=np.int64), *tree.parents)
    for parent, shown in zip(parents, tree.classes, strict=True):
        stop.check()
        rows = _merged(_extended(rows, parent, moves.emission[shown]))
    return rows


def _extended(rows: Any, parent: IntArray, emission: FloatArray) -> Any:
    """Every sequence followed by every observation, over the words that follow."""
    from scipy.sparse import csr_array, diags_array, vstack

    before = rows.tocsc()[:, parent].tocsr()
    if before.nnz * int((emission > 0).sum(axis=1).max()) > _MOST_ENTRIES:
        raise BudgetError(
            f"the history program would have more than {_MOST_ENTRIES:,} pairs of histories and observations"
        )
    blocks = [csr_array(before @ diags_array(column)) for column in emission.T if column.any()]
    longer = csr_array(vstack(blocks, format="csr"))
    longer.eliminate_zeros()
    return longer[np.diff(longer.indptr) > 0]


def _merged(rows: Any) -> Any:
    """Proportional rows added."""
    from scipy.sparse import csr_array

    rows.sort_indices()
    largest = np.maximum.reduceat(rows.data, rows.indptr[:-1])
    shape = np.round(rows.data / np.repeat(largest, np.diff(rows.indptr)), _DIGITS)
    number: dict[bytes, int] = {}
    group = np.zeros(rows.shape[0], dtype=np.int64)
    for row, (first, end) in enumerate(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)):
        key = rows.indices[first:end].tobytes() + shape[first:end].tobytes()
        group[row] = number.setdefault(key, len(number))
    gather = csr_array((np.ones(group.size), (group, np.arange(group.size))), shape=(len(number), group.size))
    return csr_array(gather @ rows)
