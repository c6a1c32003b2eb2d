"""How many cases of a random trial the tests run: a part of them, or all, which `python -m tests.stress tests` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

ALL = "OPAQ_ALL_TRIALS"  # an environment variable


Case = TypeVar("Case")


def all_asked() -> bool:
    """Whether the environment asks for all cases."""
    return bool(os.environ.get(ALL))


def part_of(cases: Sequence[Case], count: int) -> Sequence[Case]:
    """The first cases of a trial, so many; all of them where the environment asks for all."""
    return cases if all_asked() else cases[:count]


# A test that takes seconds, of what shorter tests beside it also meet.
long = pytest.mark.skipif(not all_asked(), reason=f"takes long: {ALL}=1 runs it")
