"""Observations that say the same: columns of the emission that are proportional are one in the belief graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget, Chain, Graph
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import SparseRows
from opaq.model.problem import Problem
from opaq.opacity import exact
from opaq.opacity.measure import measure
from opaq.product.compile import compile_problem
from opaq.product.process import Pairs
from random_problems import random_problem
from trials import part_of

SEEDS = part_of(range(8), 2)


def split(problem: Problem, rng: np.random.Generator) -> Problem:
    """The same problem, every observation of which comes in three variants that mean nothing, in a random order."""
    observer = problem.observer
    num, shares = len(observer.observations), rng.dirichlet(np.ones(3), size=len(observer.observations))
    order = rng.permutation(3 * num)
    emission = observer.emission
    rows = np.repeat(emission.row_of_entry(), 3)
    columns = (3 * emission.columns[:, None] + np.arange(3)).reshape(-1)
    values = (emission.values[:, None] * shares[emission.columns]).reshape(-1)
    names = np.empty(3 * num, dtype=object)
    names[order] = [f"{name} {variant}" for name in observer.observations for variant in "abc"]
    varied = SparseRows.from_entries(rows, order[columns], values, shape=(emission.num_rows, 3 * num))
    return replace(problem, observer=replace(observer, observations=tuple(names), emission=varied))


@pytest.mark.parametrize("seed", SEEDS)
def test_variants_of_observations_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, watches_actions=False, horizon=3)
    plain, varied = compile_problem(problem).process, compile_problem(split(problem, rng)).process
    assert varied.num_observations == 3 * plain.num_observations
    assert varied.pairs.state.size <= plain.pairs.state.size
    theta = rng.standard_normal(plain.num_slots)
    pi = plain.softmax(theta)
    wanted, met = (exact.evaluate(process, pi) for process in (plain, varied))
    for name, amount in wanted.figures.items():
        assert met.figures[name].value == pytest.approx(amount.value, abs=1e-12)
    slopes = [exact.gradient(process, theta)[1] for process in (plain, varied)]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-12)
    graphs = [FrozenGraph.of(process, pi, budget=Budget()) for process in (plain, varied)]
    swept = [graph.sweep(pi, graph.buffers()) for graph in graphs]
    assert swept[0] is not None
    assert swept[1] is not None
    np.testing.assert_allclose(swept[1][1], swept[0][1], atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_and_named_observations_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    process = compile_problem(split(random_problem(rng, horizon=2), rng)).process
    pi = process.softmax(rng.standard_normal(process.num_slots))
    chains = [Chain.of(process, pi, named=named) for named in (False, True)]
    merged, named = (unroll(chain, steps=process.horizon, keep=True) for chain in chains)
    assert merged.num_nodes < named.num_nodes or named.num_nodes == 1
    assert merged.settled_mass == pytest.approx(named.settled_mass, abs=1e-12)
    met, wanted = (masses_of_beliefs(chain, graph) for chain, graph in zip(chains, (merged, named), strict=True))
    assert met.keys() == wanted.keys()
    assert list(met.values()) == pytest.approx([wanted[belief] for belief in met], abs=1e-12)


def masses_of_beliefs(chain: Chain, graph: Graph) -> dict[tuple[tuple[int, float], ...], float]:
    """The belief over states of every leaf -> the probability of all sequences that leave it."""
    leaves, masses = graph.last, dict[tuple[tuple[int, float], ...], float]()
    for leaf, mass in enumerate(leaves.mass.tolist()):
        entries = slice(leaves.start[leaf], leaves.start[leaf + 1])
        states, beliefs = chain.pairs.state[leaves.pair[entries]].tolist(), leaves.belief[entries].tolist()
        belief = tuple(sorted((state, round(share, 9)) for state, share in zip(states, beliefs, strict=True)))
        masses[belief] = masses.get(belief, 0.0) + mass
    return masses


def test_observations_that_differ_a_little_stay_apart() -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(rng, horizon=2, watches_actions=False)
    emission = problem.observer.emission.dense()
    tilted = np.concatenate((emission * (0.5 + 1e-9 * rng.random((len(emission), 1))), emission * 0.5), axis=1)
    tilted /= tilted.sum(axis=1, keepdims=True)
    names = tuple(f"{name}{side}" for side in "ab" for name in problem.observer.observations)
    observer = replace(problem.observer, observations=names, emission=SparseRows.from_dense(tilted))
    process = compile_problem(replace(problem, observer=observer)).process
    several = [column for column in range(len(names)) if np.count_nonzero(tilted[:, column]) > 1]
    assert several
    assert process.pairs.segment.size >= len(several)


def test_sequences_name_the_observations_themselves() -> None:
    rng = np.random.default_rng(3)
    problem = split(random_problem(rng, secret="last_state", horizon=2, watches_actions=False), rng)
    names = set(problem.observer.observations)
    measured = measure(problem)
    for sequence in (*measured.revealing, *measured.confusing):
        assert set(sequence.observations) <= names


def test_columns_with_entries_too_small_to_compare_stay_alone() -> None:
    tiny = 5e-320
    table = np.array([[tiny, 2 * tiny, 1 - 3 * tiny], [tiny, tiny, 1 - 2 * tiny], [0.5, 0.5, 0.0]])
    secret = np.array([0, 1, 0])
    assert Pairs.of(SparseRows.from_dense(table), secret).segment.size == 3
    table[1, :2] = tiny, 2 * tiny
    assert Pairs.of(SparseRows.from_dense(table), secret).segment.size == 3
    table[:, :2] = [[0.1, 0.2], [0.2, 0.4], [0.05, 0.1]]
    assert Pairs.of(SparseRows.from_dense(table), secret).segment.size == 2
