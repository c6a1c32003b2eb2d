"""Fano's bound against closed forms and its definition in 60 digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from opaq.model.uncertainty import entropy
from opaq.opacity.amount import fano_bound

COUNTS = (2, 3, 4, 7, 10, 100, 1_000, 10**6)


def bits(error: Decimal, num_values: int) -> Decimal:
    """h(e) + e log2(K - 1)."""
    right = 1 - error
    return (-error * error.ln() - right * right.ln() + error * Decimal(num_values - 1).ln()) / Decimal(2).ln()


def opacities(num_values: int) -> list[float]:
    """Spread over the range, and crowded at both ends."""
    most = math.log2(num_values)
    gaps = [2.0**-power for power in range(1, 53, 3)]
    return [*(most * gap for gap in gaps), *(most * (1 - gap) for gap in gaps), math.nextafter(most, 0), 1e-300]


@pytest.mark.parametrize("num_values", COUNTS)
def test_the_root_is_at_most_1e_14_above_and_never_below(num_values: int) -> None:
    with localcontext() as context:
        context.prec = 60
        most = 1 - 1 / Decimal(num_values)
        for opacity in opacities(num_values):
            found = Decimal(fano_bound(opacity, num_values))
            assert found == 0 or bits(found, num_values) <= Decimal(opacity), opacity
            above = found + Decimal("1e-14")
            assert above >= most or bits(above, num_values) >= Decimal(opacity), opacity


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.01, 0.11, 0.25, 0.4, 0.49])
def test_two_values_invert_the_binary_entropy(error: float) -> None:
    opacity = entropy(np.array([error, 1 - error]))
    assert fano_bound(opacity, 2) == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize("num_values", COUNTS)
def test_the_ends(num_values: int) -> None:
    most = math.log2(num_values)
    assert fano_bound(0.0, num_values) == 0.0
    for above in (most * (1 + 1e-15), most + 1.0):  # rounding may leave opacity a little above the largest entropy
        assert fano_bound(above, num_values) == pytest.approx(1 - 1 / num_values, abs=1e-12)
        assert fano_bound(above, num_values) <= 1 - 1 / num_values
    assert fano_bound(1.0, 1) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_no_guess_does_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    p = rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-2, 2)))
    assert fano_bound(entropy(p), size) <= 1 - p.max() + 1e-12
