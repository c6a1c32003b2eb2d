"""Entropies and bounds on plain distributions, in bits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

from opaq.model.arrays import FloatArray

# Fano's inequality: 1e-12 in the guess error takes 1e-24 in the entropy where its slope is 0.
_DIGITS = 40
_MARGIN = Decimal("1e-7")  # more than doubles can be wrong by
_NEGLIGIBLE = Decimal("1e-17")
_STEPS = 60


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
    """The least guess error e that Fano's inequality allows: h(e) + e log2(num_values - 1) >= opacity.

    Tighter than the paper's (H - 1) / log2(num_values - 1), which follows from it, and valid for two values as well.
    The left side is flat at e = 1 - 1/num_values, where doubles lose half of their digits, so that the root is
    polished in decimals: the answer is within 1e-15 of it and never above.
    """
    if num_values < 2 or opacity <= 0.0:
        return 0.0
    rough = _rough_fano_root(opacity, num_values)
    with localcontext() as context:
        context.prec = _DIGITS
        nats = Decimal(opacity) * Decimal(2).ln()
        if nats >= Decimal(num_values).ln():
            return _rounded_down(1 - 1 / Decimal(num_values))
        return _rounded_down(_polished_fano_root(nats, num_values, Decimal(rough) * (1 - _MARGIN)))


def _rough_fano_root(opacity: float, num_values: int) -> float:
    """The root by bisection in doubles, good to about 1e-8 where the left side is flat."""
    low, high = 0.0, 1.0 - 1.0 / num_values
    for _ in range(60):
        middle = 0.5 * (low + high)
        if binary_entropy(middle) + middle * math.log2(num_values - 1) < opacity:
            low = middle
        else:
            high = middle
    return low


def _polished_fano_root(nats: Decimal, num_values: int, guess: Decimal) -> Decimal:
    """The root by Newton's method: the left side is concave, so that every step ends at or below the root."""
    spread = Decimal(num_values - 1).ln()
    for _ in range(_STEPS):
        if guess <= 0:
            return Decimal(0)
        log_wrong, log_right = guess.ln(), (1 - guess).ln()
        missing = nats + guess * log_wrong + (1 - guess) * log_right - guess * spread
        step = missing / (log_right - log_wrong + spread)
        guess += step
        if abs(step) < _NEGLIGIBLE:
            break
    return guess


def _rounded_down(value: Decimal) -> float:
    """The largest double that is not above the value."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Decimal(nearest) > value else nearest
