"""Rows of probabilities: the one tolerance for sums that miss 1, and the one way they are scaled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opaq.model.arrays import FloatArray, IntArray

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
