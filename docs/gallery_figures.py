"""How the gallery writes figures."""

from __future__ import annotations

import math

_NOISE = 1e-6  # in units of the last digit: a bound of 1 bit and some rounding is one of 1 bit


def bits(value: float) -> str:
    """Four decimals, as on every page."""
    return f"{value:.4f}"


def bits_above(value: float | None) -> str:
    """A bound in four decimals, rounded up: it still holds as it is printed."""
    return "-" if value is None else f"{math.ceil(value * 1e4 - _NOISE) / 1e4:.4f}"
