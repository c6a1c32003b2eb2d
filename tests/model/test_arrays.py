"""Sparse matrices by rows, against SciPy's, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.model.arrays import SparseRows, ints


def random_rows(rng: np.random.Generator, rows: int, columns: int) -> SparseRows:
    dense = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)
    dense[rng.integers(rows)] = 0.0
    return SparseRows.from_dense(dense)


@pytest.mark.parametrize("seed", range(5))
def test_products_and_chosen_rows_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_rows(rng, 9, 30)
    matrix = table.scipy()
    right, left = rng.normal(size=(2, 30)), rng.normal(size=(2, 9))
    assert np.array_equal(table @ right[0], matrix @ right[0])
    assert np.array_equal(table.T @ left[0], matrix.T @ left[0])
    turned = right[0] + 1e-20j * right[1]
    assert np.array_equal(table @ turned, matrix @ turned)
    assert np.array_equal(table.T @ (left[0] + 1e-20j * left[1]), matrix.T @ (left[0] + 1e-20j * left[1]))
    chosen = ints(rng.integers(9, size=14))
    assert np.array_equal(table.take(chosen).dense(), table.dense()[chosen])
    assert table.take(ints([])).num_rows == 0
