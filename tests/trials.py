"""How many cases of a random trial the tests run: a part of them, or all, which `python -m tests.stress tests` does."""

from __future__ import annotations

import os

ALL = "OPAQ_ALL_TRIALS"  # an environment variable


def part_of(cases: range, count: int) -> range:
    """The first cases of a trial, so many; all of them where the environment asks for all."""
    return cases if os.environ.get(ALL) else cases[:count]
