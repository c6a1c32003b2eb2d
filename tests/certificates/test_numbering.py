"""Numbers of what is distinct, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from opaq.certificates.decoder.numbering import number_distinct, number_within, split_points
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


def spread_of(points: np.ndarray, weight: np.ndarray, groups: list[np.ndarray]) -> float:
    """Return the weighted squares of the points about the means of their groups."""
    means = [np.average(points[group], axis=0, weights=weight[group]) for group in groups]
    return sum(
        float(weight[group] @ ((points[group] - mean) ** 2).sum(axis=1))
        for group, mean in zip(groups, means, strict=True)
    )


@pytest.mark.parametrize("seed", range(10))
def test_points_are_split_where_they_vary_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.random((6, 4)) * 100.0
    points, weight = np.repeat(centres, 30, axis=0) + 0.01 * rng.random((180, 4)), rng.random(180) + 0.1
    spreads = []
    for most in (1, 2, 6, 40, 300):
        order, bounds, cuts = np.arange(180), np.zeros((most, 3), dtype=np.int64), np.zeros((most, 2))
        count = split_points(points, weight, order, bounds, cuts, np.zeros((2, 4)))
        groups = [order[first:end] for first, end in bounds[:count, :2]]
        assert count == min(most, 180)
        assert sorted(np.concatenate(groups).tolist()) == list(range(180))
        spreads.append(spread_of(points, weight, groups))
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[2] < 1e-4 * spreads[0]  # as many groups as centres tell these apart
    assert spreads[-1] == pytest.approx(0.0, abs=1e-12)


def test_points_that_are_equal_are_not_split() -> None:
    order, bounds = np.arange(50), np.zeros((20, 3), dtype=np.int64)
    assert split_points(np.ones((50, 3)) / 3, np.ones(50), order, bounds, np.zeros((20, 2)), np.zeros((2, 3))) == 1
