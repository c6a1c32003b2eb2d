"""Rows of probabilities are scaled in one place."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.model.arrays import EXACT, SILENT, SLACK, divisor, normalise, normalise_rows

GAPS = {"exact": EXACT / 2, "silent": SILENT / 2, "slight": SLACK / 2, "off": SLACK * 2}


@pytest.mark.parametrize("sign", [1, -1])
def test_each_row_by_how_far_it_is_from_one(sign: int) -> None:
    totals = np.array([1 + sign * gap for gap in GAPS.values()])
    rows, values = np.repeat(np.arange(4), 2), np.repeat(totals / 2, 2)
    done = normalise_rows(rows, values, 5)
    assert done.scaled.tolist() == [2]
    assert done.off.tolist() == [3, 4]  # the last row has no entries
    np.testing.assert_allclose(done.sums, [*totals, 0], rtol=0, atol=1e-15)
    assert (done.values[[0, 1, 6, 7]] == values[[0, 1, 6, 7]]).all()
    np.testing.assert_allclose(done.values[2:6], 0.5, rtol=0, atol=1e-15)
    assert done.worst_gap() == pytest.approx(SLACK / 2, rel=1e-6)


def test_reading_twice_changes_nothing() -> None:
    values = np.random.default_rng(0).dirichlet(np.ones(50), size=200)
    rows = np.repeat(np.arange(200), 50)
    once = normalise_rows(rows, (values * (1 + 1e-7)).reshape(-1), 200)
    assert (normalise_rows(rows, once.values, 200).values == once.values).all()


def test_numbers_that_are_none_are_off() -> None:
    assert normalise(np.array([np.nan, 1.0])).off.tolist() == [0]
    assert normalise(np.array([])).off.tolist() == [0]


@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
def test_one_distribution_agrees_with_rows(gap: float) -> None:
    values = np.array([0.25, 0.75 + gap])
    done, by = normalise(values), divisor(float(values.sum()))
    assert (by is None) == (done.off.size == 1)
    if by is not None:
        np.testing.assert_allclose(done.values, values / by, rtol=0, atol=1e-16)
