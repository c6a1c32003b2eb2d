"""Numbers of what is distinct, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.certificates.decoder.numbering import number_distinct, number_within
from opaq.model.arrays import distinct, ints


def draw_parts(rng: np.random.Generator, num_cases: int) -> list[np.ndarray]:
    """Return parts of few values: near 0, too large to share a key with others, or read-only."""
    scales = rng.choice([1, 7, 2**40, 2**61], size=int(rng.integers(1, 5)))
    return [ints(rng.integers(-2, 3, num_cases) * scale) for scale in scales]


@pytest.mark.parametrize("num_cases", [0, 1, 20, 3000])
def test_numbers_are_those_of_a_dictionary(num_cases: int) -> None:
    for seed in range(20):
        parts = draw_parts(np.random.default_rng(seed), num_cases)
        rows = list(zip(*(part.tolist() for part in parts), strict=True))
        numbers = dict[tuple[int, ...], int]()
        wanted = [numbers.setdefault(row, len(numbers)) for row in rows]
        number, example = number_distinct(*parts)
        assert number.tolist() == wanted
        assert example.tolist() == [rows.index(row) for row in numbers]


def test_many_distinct_values_fit_the_table_as_it_grows() -> None:
    values = np.random.default_rng(0).permutation(50_000) * 2**20
    number, example = number_distinct(values)
    assert np.array_equal(number, np.arange(values.size))
    assert np.array_equal(example, number)


@pytest.mark.parametrize("seed", range(10))
def test_numbers_within_groups_ascend_with_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, group = draw_parts(rng, 200), rng.integers(0, 9, 200)
    number, example = number_within(group, *parts)
    assert np.all(np.diff(group[example]) >= 0)
    assert all(np.array_equal(part[example][number], part) for part in (group, *parts))
    assert example.size == len(set(zip(group.tolist(), *(part.tolist() for part in parts), strict=True)))
    assert np.array_equal(distinct(group), np.unique(group))
