"""Damaged files either load or are refused: nothing else, in little time and memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corruption import KINDS, corrupted, trial


@pytest.mark.parametrize("kind", KINDS)
def test_every_corruption_loads_or_is_refused(tmp_path: Path, kind: str) -> None:
    ends = trial(kind, 60, seed=1, folder=tmp_path, limit_memory=True)
    assert sum(ends.values()) == 60
    assert ends["InputError"] > 20


def test_corruptions_repeat_with_their_seed() -> None:
    data = bytes(range(256))
    one, other = (corrupted(data, np.random.default_rng(7)) for _ in range(2))
    assert one == other != data
