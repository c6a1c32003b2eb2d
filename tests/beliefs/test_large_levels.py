"""Levels that are worked on in parts are the same levels: nodes, arcs, figures, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from beliefs.prefix_oracle import ordinary
from beliefs.test_unroll import check_graph
from opaq.beliefs import expansion, graph, large_levels, leaves
from opaq.beliefs import unroll as unrolling
from opaq.beliefs.expansion import Expansion, expand
from opaq.beliefs.graph import Budget, Chain, Graph, Nodes, Room
from opaq.beliefs.large_levels import expand_level
from opaq.beliefs.unroll import unroll
from opaq.load import load_problem
from opaq.model.uncertainty import Guesswork
from opaq.opacity.exact import evaluate, gradient, hessian_vector
from opaq.product.compile import Product, compile_problem

SplitLevels = Callable[[int], None]


@pytest.fixture
def split_levels(monkeypatch: pytest.MonkeyPatch) -> SplitLevels:
    """Have levels worked on in parts of so many nodes."""

    def split(nodes: int) -> None:
        for module in (graph, large_levels, leaves, unrolling):
            monkeypatch.setattr(module, "PART_NODES", nodes)

    return split


@cache
def grid(horizon: int = 9) -> Product:
    """The paper's grid, whose levels have up to 716 nodes."""
    return compile_problem(replace(load_problem("grid-last-state"), horizon=horizon))


def make_chain(*, workers: int = 1) -> Chain:
    """The grid under a random policy."""
    process = grid().process
    return Chain.of(process, process.softmax(np.random.default_rng(1).normal(size=process.num_slots)), workers=workers)


def build(*, workers: int = 1, **options: object) -> Graph:
    """The graph of the grid, with every level."""
    chain = make_chain(workers=workers)
    return unroll(chain, steps=chain.process.horizon, keep=True, **options)


def arrays(made: Graph) -> list[np.ndarray]:
    """All numbers of a graph."""
    return [array for level in made.levels for part in (level.nodes, level.arcs, level.known) for array in part]


def test_every_prefix_leads_to_its_belief_in_parts(split_levels: SplitLevels) -> None:
    split_levels(1)
    assert sum(check_graph(*ordinary(number)) for number in range(15)) > 20


@pytest.mark.parametrize("samples", [0, 300])
def test_parts_make_the_nodes_that_one_part_makes(split_levels: SplitLevels, samples: int) -> None:
    """Only masses, which are added up in another order, may differ, by rounding."""
    graphs = []
    for nodes, workers in ((10**9, 1), (16, 1), (16, 2), (16, 3)):
        split_levels(nodes)
        graphs.append(build(workers=workers, samples=samples, rng=np.random.default_rng(2) if samples else None))
    one, parts = graphs[0], graphs[1:]
    assert one.last.mass.size > 50
    for single, *others in zip(*map(arrays, graphs), strict=True):
        assert all(np.array_equal(others[0], other) for other in others)
        assert single.dtype == others[0].dtype
        np.testing.assert_allclose(others[0], single, rtol=1e-14)
    for level, split in zip(one.levels, parts[0].levels, strict=True):
        for name in ("start", "pair", "belief", "best", "parent", "observation", "runs"):
            assert np.array_equal(getattr(level.nodes, name), getattr(split.nodes, name)), name


@pytest.mark.parametrize("samples", [0, 300])
def test_small_levels_are_the_same_one_by_one_together_and_in_too_little_room(
    monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    """Runs that are settled draw no more numbers, and leave the generator as it would have been."""
    process, graphs, drawn = compile_problem(load_problem("grid-initial-state-4")).process, list[Graph](), list[float]()
    for nodes, least in ((0, 2048), (10**9, 2048), (10**9, 0)):  # a part of no nodes: no level is small
        monkeypatch.setattr(unrolling, "PART_NODES", nodes)
        monkeypatch.setattr(expansion, "_LEAST_KEPT_NODES", least)
        monkeypatch.setattr(expansion, "_LEAST_KEPT_ENTRIES", least)
        chain, rng = Chain.of(process, process.uniform()), np.random.default_rng(4)
        graphs.append(
            unroll(chain, steps=process.horizon, early=True, keep=True, samples=samples, rng=rng if samples else None)
        )
        drawn.append(rng.random())
    assert all(number == drawn[0] for number in drawn)
    assert all(made.settled_mass == pytest.approx(graphs[0].settled_mass, rel=1e-14) for made in graphs)
    assert sum(level.known.mass.sum() for level in graphs[0].levels[:-1]) > 0.0
    for single, *others in zip(*map(arrays, graphs), strict=True):
        assert all(np.array_equal(single, other) and single.dtype == other.dtype for other in others)


@pytest.mark.parametrize("samples", [0, 40])
def test_levels_that_fill_their_room_to_the_last_node_are_the_same(
    monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    process = compile_problem(load_problem("grid-last-state-4")).process
    pi = process.softmax(np.random.default_rng(0).normal(size=process.num_slots))

    def make() -> Graph:
        rng = np.random.default_rng(4) if samples else None
        return unroll(Chain.of(process, pi), steps=8, early=True, keep=True, samples=samples, rng=rng)

    usual = make()
    for room in range(sum(level.nodes.mass.size for level in usual.levels)):  # some of which are filled to the end
        monkeypatch.setattr(expansion, "_LEAST_KEPT_NODES", room)
        for single, other in zip(arrays(usual), arrays(make()), strict=True):
            assert np.array_equal(single, other), room


def test_figures_and_slopes_do_not_depend_on_threads(split_levels: SplitLevels) -> None:
    process, rng = grid().process, np.random.default_rng(3)
    theta, direction = rng.normal(size=(2, process.num_slots))
    guesswork, answers = Guesswork().over(grid().secret_values), []
    for nodes, workers in ((10**9, 1), (16, 1), (16, 2), (16, 3)):
        split_levels(nodes)
        budget = Budget(workers=workers)
        figures = evaluate(process, process.softmax(theta), leaves=[guesswork], budget=budget).figures
        slopes = [gradient(process, theta, budget=budget, leaf=leaf) for leaf in (None, guesswork)]
        curvature = hessian_vector(process, theta, direction, budget=budget)
        values = [*(amount.value for amount in figures.values()), *(value for value, _ in slopes)]
        answers.append(np.concatenate([values, *(slope for _, slope in slopes), curvature]))
    assert all(np.array_equal(answers[1], answer) for answer in answers[2:])
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-12)


def test_a_level_beyond_its_memory_is_made_in_one(split_levels: SplitLevels) -> None:
    """Nodes that are not reached must be the last ones, whatever the parts."""
    chain, level = make_chain(workers=2), build().levels[-2]
    split_levels(16)
    for memory, fits in ((10**9, True), (200 * level.num_nodes, False)):
        options = {"draws": np.zeros(0), "keep_arcs": True, "room": Room(memory, 48, 256)}
        single = expand(chain, level.nodes, **options)
        made, reached, settled = expand_level(chain, level.nodes, **options)
        assert reached == single.reached
        assert (reached == level.num_nodes) == fits
        assert settled == pytest.approx(single.settled_mass, rel=1e-14)
        np.testing.assert_allclose(made.nodes.mass, single.nodes.mass, rtol=1e-14)
        assert np.array_equal(made.arcs.start, single.arcs.start)
        assert np.array_equal(made.arcs.child, single.arcs.child)


@pytest.mark.parametrize("parts", [1, 7])
def test_what_a_stop_leaves_out_counts_as_dropped(
    split_levels: SplitLevels, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    """Asked to stop in some part of a level, it keeps the parts before, and the masses still sum to 1."""
    whole = build()
    split_levels(16)
    chain, calls = make_chain(), list[Chain]()

    def expand_until_stopped(apart: Chain, nodes: Nodes, **options: Any) -> Expansion:
        calls.append(apart)
        if sum(each is not chain for each in calls) == parts:  # those of small levels have the chain itself
            chain.stop.request()
        return expand(apart, nodes, **options)

    monkeypatch.setattr(large_levels, "expand", expand_until_stopped)
    made = unroll(chain, steps=chain.process.horizon, keep=True)
    assert chain.stop.requested
    assert made.dropped_mass > 0.0
    assert len(made.levels) < len(whole.levels)
    settled = sum(level.known.mass.sum() for level in made.levels)
    assert settled + made.last.mass.sum() + made.dropped_mass == pytest.approx(1.0, abs=1e-12)
    for before, level in pairwise(made.levels):
        assert level.arcs.start.size == before.num_nodes + 1
