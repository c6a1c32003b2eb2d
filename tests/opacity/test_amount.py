"""Amounts are used like numbers, and say what is certain."""

from __future__ import annotations

import numpy as np
import pytest

from opaq import Amount


def test_used_like_its_value() -> None:
    half, wide = Amount.exact(0.5), Amount.between(0.25, 0.5)
    assert float(half) == 0.5
    assert float(wide) == 0.375
    assert f"{half:.3f}" == "0.500"
    assert f"{wide:8.2f}" == "    0.38"
    assert f"{wide}" == str(wide) == "[0.25, 0.5]"
    assert f"{0.2:.1f} {half:.1%}" == "0.2 50.0%"
    assert wide < half
    assert half > wide
    assert half >= 0.5
    assert half <= 0.5
    assert 0.4 < half < 1
    assert max([wide, half]) is half
    assert sorted([half, wide, 0.45]) == [wide, 0.45, half]
    assert np.asarray([half, wide], dtype=float).tolist() == [0.5, 0.375]
    assert np.float64(0.4) < half
    assert abs(float(half) - 0.5) == 0


def test_equal_if_all_they_say_is() -> None:
    assert Amount.exact(0.5) == Amount.exact(0.5)
    assert Amount.exact(0.5) != Amount.between(0.25, 0.75)  # the same value, known less well
    assert Amount.exact(0.5) == 0.5
    assert Amount.exact(0.5) != 0.25
    assert Amount.exact(0.5) != "0.5"
    assert len({Amount.exact(0.5), Amount.exact(0.5), 0.5}) == 1


def test_not_compared_with_what_is_no_number() -> None:
    with pytest.raises(TypeError):
        _ = Amount.exact(0.5) < "1"


def test_two_measurements_of_one_number_say_more_together() -> None:
    sharp = Amount.estimate(0.4, 0.1, 0.9, standard_error=0.01)
    rough = Amount.estimate(0.45, 0.0, 0.7, standard_error=0.05)
    wide, narrow = Amount.between(0.2, 0.8), Amount.between(0.402, 0.404)
    for one, other in [(sharp, rough), (rough, sharp)]:
        assert one.combine(other) == Amount.estimate(0.4, 0.1, 0.7, standard_error=0.01)
    assert sharp.combine(wide) == wide.combine(sharp) == Amount.estimate(0.4, 0.2, 0.8, standard_error=0.01)
    assert sharp.combine(narrow) == narrow.combine(sharp) == narrow  # what is certain is sharper than the estimate
    assert wide.combine(Amount.between(0.1, 0.5)) == Amount.between(0.2, 0.5)
    assert sharp.combine(Amount.exact(0.41)) == Amount.exact(0.41)
    ends = Amount.between(0.1, 0.3).combine(Amount.between(0.3 + 1e-15, 0.5))  # apart by rounding alone
    assert ends.lower == ends.upper == pytest.approx(0.3)
    beyond = Amount.estimate(0.9, 0.0, 1.0, standard_error=0.01).combine(Amount.between(0.2, 0.5))
    assert beyond.value == 0.5  # an estimate is never outside of what is certain
