"""Entropies and bounds on plain distributions, in bits."""

from __future__ import annotations

import math

import numpy as np

from opaq.model.arrays import FloatArray


def plogp(p: FloatArray) -> FloatArray:
    """p log2 p, 0 where p is 0."""
    return p * np.log2(p, out=np.zeros_like(p), where=p > 0)


def entropy(p: FloatArray) -> float:
    """-sum p log2 p of a distribution."""
    return max(0.0, -float(plogp(np.asarray(p, dtype=np.float64)).sum()))


def binary_entropy(p: float) -> float:
    """The entropy of a coin."""
    return entropy(np.array([p, 1.0 - p]))


def fano_bound(opacity: float, num_values: int) -> float:
    """The least guess error that Fano's inequality allows: h(e) + e log2(num_values - 1) >= opacity.

    Tighter than the paper's (H - 1) / log2(num_values - 1), which follows from it, and valid for two values as well.
    """
    if num_values < 2 or opacity <= 0.0:
        return 0.0
    low, high = 0.0, 1.0 - 1.0 / num_values
    for _ in range(60):
        middle = 0.5 * (low + high)
        if binary_entropy(middle) + middle * math.log2(num_values - 1) < opacity:
            low = middle
        else:
            high = middle
    return low
