"""P(secret | belief), moved on to the horizon or predicted back from it, against enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from beliefs.prefix_oracle import enumerate_prefixes, extreme, named_pairs, ordinary, walk
from opaq.beliefs import secret_prediction
from opaq.beliefs.graph import Chain, Graph
from opaq.beliefs.secret_prediction import SecretPredictions, backward_cost, forward_cost, predict_secret
from opaq.beliefs.unroll import unroll
from opaq.product.compile import Product, compile_problem


def beliefs_of(product: Product, graph: Graph) -> list[csr_array]:
    """For every time but the last a matrix [node, product state]."""
    matrices = []
    for level in graph.levels[1:]:
        states = named_pairs(product).state[level.nodes.pair]
        shape = (level.num_nodes, product.process.num_states)
        matrices.append(csr_array((level.nodes.belief, states, level.nodes.start), shape=shape))
    return matrices


@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("model", [ordinary, extreme])
def test_the_secret_is_predicted_as_enumeration_says(model, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    num_compared = 0
    for number in range(40):
        problem, policy = model(number)
        product = compile_problem(problem)
        pi = product.policy_vector(policy)
        graph = unroll(Chain.of(product.process, pi, named=True), steps=problem.horizon, keep=True)
        if number % 2:  # small blocks give the same
            monkeypatch.setattr(secret_prediction, "_CELLS_AT_ONCE", 2 * max(product.process.num_states, 2))
        outlook = {
            (time + 1, first + row): shares
            for time, first, block in predict_secret(
                product.process, pi, beliefs_of(product, graph), backwards=backwards
            )
            for row, shares in enumerate(block)
        }
        monkeypatch.undo()
        assert len(outlook) == graph.num_nodes - 1
        believed = enumerate_prefixes(problem, policy)
        for prefix, node in walk(product, graph).node.items():
            total = believed[prefix].probability if prefix in believed else 0.0
            if not prefix or total < 1e-250:
                continue
            expected = [believed[prefix].secret.get(value, 0.0) / total for value in product.secret_values]
            assert outlook[node] == pytest.approx(np.array(expected), abs=1e-9), (number, prefix)
            num_compared += 1
    assert num_compared > 200


def test_what_bounds_a_dropped_node_is_the_entropy_of_its_secret() -> None:
    for number in range(20):
        problem, policy = ordinary(number)
        product = compile_problem(problem)
        pi = product.policy_vector(policy)
        graph = unroll(Chain.of(product.process, pi, named=True), steps=problem.horizon, keep=True)
        futures = SecretPredictions.of(product.process, product.process.flow(pi))
        believed = enumerate_prefixes(problem, policy)
        for prefix, (level, node) in walk(product, graph).node.items():
            if not prefix:
                continue
            masses = np.array([*believed[prefix].secret.values()]) / believed[prefix].probability
            nodes, chosen = graph.levels[level].nodes, np.array([node])
            entropy, error = futures.uncertainty(nodes, level - 1, chosen, pair_state=named_pairs(product).state)
            assert entropy[0] == pytest.approx(-(masses @ np.log2(masses)), abs=1e-9)
            assert error[0] == pytest.approx(1.0 - masses.max(), abs=1e-9)


def test_the_cheaper_way_depends_on_beliefs_and_values() -> None:
    process = next(compile_problem(problem).process for problem, _ in map(ordinary, range(20)) if problem.horizon >= 2)
    assert forward_cost(process, 1) < forward_cost(process, 100)
    assert backward_cost(process) < backward_cost(replace(process, num_secrets=process.num_secrets + 1))
    assert backward_cost(replace(process, num_secrets=10**9)) == np.inf
