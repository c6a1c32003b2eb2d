"""A part of `python -m tests.stress run`: random trajectories and moments agree with brute force."""

from __future__ import annotations

import pytest

from stress.running import try_run
from trials import part_of


@pytest.mark.parametrize("first", part_of(range(0, 16, 8), 1))
def test_random_trajectories_and_moments(first: int) -> None:
    failures = [failure for number in range(first, first + 8) for failure in try_run(number).failures]
    assert failures == []
