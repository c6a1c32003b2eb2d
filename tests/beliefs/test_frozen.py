"""Belief graphs of frozen shape: right at every policy that fits, and a misfit is found out and built anew."""

from __future__ import annotations

import numpy as np
import pytest

import oracles
from beliefs.prefix_oracle import extreme
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import STEP, Budget
from opaq.model.problem import Problem
from opaq.model.uncertainty import UNCERTAINTIES
from opaq.opacity import exact
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.solvers.objective import Objective
from opaq.spec import build_problem
from opaq.stop import Stop, StoppedError
from random_problems import CONDITIONS, random_problem
from trials import part_of

BUDGET = Budget()
ORACLES = {"opacity": oracles.opacity, "guess_error": oracles.guess_error, "guesswork": oracles.guesswork}


def some_processes(conditions: tuple[str, ...], count: int = 4) -> list[HiddenProcess]:
    rng = np.random.default_rng([7, CONDITIONS.index(conditions)])
    return [compile_problem(random_problem(rng, conditions=conditions, budget=1500)).process for _ in range(count)]


def swept(graph: FrozenGraph, process: HiddenProcess, theta: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Value and logit gradient on a frozen graph, or None where it does not fit."""
    pi = process.softmax(theta)
    found = graph.sweep(pi, graph.buffers(pi.dtype))
    return None if found is None else (found[0], process.pull_back(pi, found[1]))


def agrees(found: tuple[float, np.ndarray], process: HiddenProcess, theta: np.ndarray) -> bool:
    value, slope = exact.gradient(process, theta)
    return abs(found[0] - value) <= 1e-12 and np.allclose(found[1], slope, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_frozen_graph_equals_the_hashed_one_at_changed_policies(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    for process in some_processes(conditions):
        theta = rng.normal(size=process.num_slots)
        graph = FrozenGraph.of(process, process.softmax(theta), budget=BUDGET)
        for spread in (0.0, 0.1, 3.0):
            there = theta + spread * rng.normal(size=theta.size)
            found = swept(graph, process, there)
            assert found is not None
            assert agrees(found, process, there)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_slopes_by_actions_that_are_never_taken_are_the_same(conditions: tuple[str, ...]) -> None:
    """By the policy vector, not by logits, whose slope is 0 there."""
    for process in some_processes(conditions):
        pi = np.zeros(process.num_slots)
        pi[process.row_start[:-1]] = 1.0
        graph = FrozenGraph.of(process, pi, budget=BUDGET)
        found = graph.sweep(pi, graph.buffers())
        assert found is not None
        value, slope = exact.policy_slope(process, pi, budget=BUDGET)
        assert found[0] == pytest.approx(value, abs=1e-12)
        np.testing.assert_allclose(found[1], slope, atol=1e-12)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_frozen_graph_gives_hessian_products(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    for process in some_processes(conditions):
        theta = rng.normal(size=process.num_slots)
        graph = FrozenGraph.of(process, process.softmax(theta), budget=BUDGET)
        there, direction = theta + rng.normal(size=theta.size), rng.normal(size=theta.size)
        found = swept(graph, process, there + 1j * STEP * direction)
        assert found is not None
        expected = exact.hessian_vector(process, there, direction)
        assert np.imag(found[1]) / STEP == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_merges_that_hold_by_symmetry_never_give_a_wrong_value(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(2)
    for process in some_processes(conditions, count=8):
        graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
        for spread in (1.0, 1e-3, 1e-6):
            theta = spread * rng.normal(size=process.num_slots)
            found = swept(graph, process, theta)
            assert found is None or agrees(found, process, theta)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_merges_that_hold_by_symmetry_never_give_a_wrong_hessian_product(conditions: tuple[str, ...]) -> None:
    # Beliefs that coincide at the uniform policy may move apart along a direction.
    rng = np.random.default_rng(3)
    for process in some_processes(conditions, count=8):
        graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
        direction = rng.normal(size=process.num_slots)
        found = swept(graph, process, 1j * STEP * direction)
        if found is not None:
            expected = exact.hessian_vector(process, np.zeros(process.num_slots), direction)
            assert np.imag(found[1]) / STEP == pytest.approx(expected, rel=1e-9, abs=1e-10)


def coin_problem() -> Problem:
    """The start shows (x or y), u against v does not: two coins whose beliefs are one while both are alike."""
    spec = {
        "opaq": 1,
        "model": {
            "states": ["x", "y", "u", "v"],
            "actions": ["a", "b"],
            "start": {"x": 0.5, "y": 0.5},
            "transitions": {
                "x": {"a": "u", "b": "v"},
                "y": {"a": "u", "b": "v"},
                "u": {"*": "u"},
                "v": {"*": "v"},
            },
            "labels": {"secret": ["v"]},
        },
        "observer": {"emissions": {"x": "x", "y": "y", "*": "null"}},
        "secret": {"last_state": "secret"},
        "horizon": 2,
    }
    return build_problem(spec)


def coin_process() -> HiddenProcess:
    return compile_problem(coin_problem()).process


def test_a_merge_by_coincidence_is_found_out() -> None:
    process = coin_process()
    graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
    theta = np.zeros(process.num_slots)
    assert swept(graph, process, theta) is not None
    for step in (1.0, 1e-3, 1e-6):
        theta[0] = step
        assert swept(graph, process, theta) is None


def test_a_merge_of_beliefs_that_move_apart_is_found_out() -> None:
    # H = (h(p_x) + h(p_y)) / 2: the curvature along the logits of a coin is -1 / (2 ln 2) where both coins are fair.
    process = coin_process()
    graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
    for row in (0, 1):
        direction = np.zeros(process.num_slots)
        direction[2 * row : 2 * row + 2] = 1.0, -1.0
        found = swept(graph, process, 1j * STEP * direction)
        if found is not None:
            product = np.imag(found[1]) / STEP
            assert direction @ product == pytest.approx(-0.5 / np.log(2), rel=1e-9)


def test_new_zeros_and_new_positives_do_not_fit() -> None:
    process = coin_process()
    rng = np.random.default_rng(4)
    inside = process.softmax(rng.normal(size=process.num_slots))
    edge = inside.copy()
    edge[:2] = 0.0, 1.0
    at_inside, at_edge = (FrozenGraph.of(process, pi, budget=BUDGET) for pi in (inside, edge))
    assert at_inside.sweep(edge, at_inside.buffers()) is None
    assert at_edge.sweep(inside, at_edge.buffers()) is None
    again = at_edge.sweep(edge, at_edge.buffers())
    assert again is not None
    assert again[0] == pytest.approx(exact.evaluate(process, edge).opacity.value, abs=1e-12)


def test_buffers_may_be_used_again_after_a_misfit() -> None:
    process = coin_process()
    graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
    buffers = graph.buffers()
    first = graph.sweep(process.uniform(), buffers)
    assert graph.sweep(process.softmax(np.arange(process.num_slots) ** 1.5), buffers) is None
    again = graph.sweep(process.uniform(), buffers)
    assert first is not None
    assert again is not None
    assert again[0] == first[0]
    assert np.array_equal(again[1], first[1])


def enumerated(product: Product, pi: np.ndarray) -> float:
    """Opacity by enumeration."""
    return oracles.opacity(oracles.joint(product.problem, product.policy(pi)))


def symmetric_problem(rng: np.random.Generator, *, copies: int) -> Problem:
    """Starts that show and move alike, each with a policy row of its own; where they move to shows in part."""
    hidden, actions = [f"h{i}" for i in range(3)], ["a", "b", "c"]
    starts = [f"x{i}" for i in range(copies)]

    def shares(names: list[str]) -> dict[str, float]:
        return dict(zip(names, (rng.multinomial(16, np.full(len(names), 1 / len(names))) / 16).tolist(), strict=True))

    ahead = {action: shares(hidden) for action in actions}
    emissions = {name: shares(["dim", "bright"]) for name in hidden}
    return build_problem(
        {
            "opaq": 1,
            "model": {
                "states": starts + hidden,
                "actions": actions,
                "start": dict.fromkeys(starts, 1 / copies),
                "transitions": dict.fromkeys(starts, ahead)
                | {name: {action: shares(hidden) for action in actions} for name in hidden},
            },
            "observer": {"emissions": {name: name for name in starts} | emissions},
            "secret": {"last_state": {name: name for name in hidden}},
            "horizon": 2,
        }
    )


def test_a_sweep_equals_enumeration_and_a_misfit_is_built_anew() -> None:
    # Shapes are built at the uniform policy, where starts that move alike lead to the same beliefs.
    rng = np.random.default_rng(5)
    num_misfits = 0
    for number in range(24):
        product = compile_problem(symmetric_problem(rng, copies=2 + number % 2))
        process = product.process
        graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
        theta, copied = rng.normal(size=process.num_slots), rng.normal(size=3)
        first = [row for row, key in enumerate(product.rows) if key[0].startswith("x")]
        alike = theta.copy()
        for row in first:
            alike[process.row_start[row] : process.row_start[row + 1]] = copied
        for logits in (alike, theta):
            pi = process.softmax(logits)
            found = graph.sweep(pi, graph.buffers())
            assert found is not None or logits is theta  # while the starts act alike, the merges hold
            if found is None:
                num_misfits += 1
                anew = FrozenGraph.of(process, pi, budget=BUDGET)
                assert anew.num_nodes > graph.num_nodes  # what was merged by coincidence is not any more
                found = anew.sweep(pi, anew.buffers())
            assert found is not None
            assert found[0] == pytest.approx(enumerated(product, pi), abs=1e-10)
    assert num_misfits >= 20


def test_an_objective_builds_the_graph_anew_where_beliefs_move_apart() -> None:
    # H = (h(p_x) + h(p_y)) / 2 of the two coins, whose beliefs were one at the start.
    product = compile_problem(coin_problem())
    near = Objective(product).near(np.zeros(product.process.num_slots))
    for step in (0.0, 1e-6, 1e-3, 1.0, 0.0):
        theta = np.zeros(product.process.num_slots)
        theta[0] = step
        pi = product.process.softmax(theta)
        assert near.slopes(theta).score == pytest.approx(enumerated(product, pi), abs=1e-12)


def test_the_slope_of_a_sweep_equals_differences_of_enumerated_opacity() -> None:
    rng, step = np.random.default_rng(6), 1e-5
    for _ in range(12):
        product = compile_problem(random_problem(rng, budget=300))
        process = product.process
        theta, along = rng.normal(size=process.num_slots), rng.normal(size=process.num_slots)
        graph = FrozenGraph.of(process, process.softmax(theta), budget=BUDGET)
        _, slope = swept(graph, process, theta) or (0.0, np.full(theta.size, np.nan))
        ahead, behind = (enumerated(product, process.softmax(theta + sign * step * along)) for sign in (1, -1))
        assert slope @ along == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("first", part_of(range(0, 60, 20), 1))
def test_extreme_probabilities_are_swept_right_or_refused(first: int) -> None:
    for number in range(first, first + 20):
        problem, policy = extreme(number)
        product = compile_problem(problem)
        process, joint = product.process, oracles.joint(problem, policy)
        pi = product.policy_vector(policy)
        for name, oracle in ORACLES.items():
            graph = FrozenGraph.of(process, pi, budget=BUDGET, leaf=UNCERTAINTIES[name].over(product.secret_values))
            found = graph.sweep(pi, graph.buffers())
            assert found is not None, number
            assert np.isfinite(found[1]).all(), number
            assert found[0] == pytest.approx(oracle(joint), abs=1e-9), (number, name)
        roots = np.sqrt(pi)
        elsewhere = roots / np.repeat(np.add.reduceat(roots, process.row_start[:-1]), np.diff(process.row_start))
        graph = FrozenGraph.of(process, pi, budget=BUDGET)
        found = graph.sweep(elsewhere, graph.buffers())
        assert found is None or found[0] == pytest.approx(enumerated(product, elsewhere), abs=1e-9), number


def test_what_the_budget_leaves_out_bounds_the_value() -> None:
    rng = np.random.default_rng(8)
    num_cut = 0
    for _ in range(20):
        product = compile_problem(random_problem(rng, budget=400))
        pi = product.process.softmax(rng.normal(size=product.process.num_slots))
        graph = FrozenGraph.of(product.process, pi, budget=Budget(nodes=1))
        found, truth = graph.sweep(pi, graph.buffers()), enumerated(product, pi)
        assert found is not None
        most = graph.dropped_mass * np.log2(product.process.num_secrets)
        assert found[0] - 1e-10 <= truth <= found[0] + most + 1e-10
        num_cut += graph.dropped_mass > 0
    assert num_cut >= 3


def test_a_stop_ends_a_sweep() -> None:
    process, stop = coin_process(), Stop()
    graph = FrozenGraph.of(process, process.uniform(), budget=BUDGET)
    stop.request()
    with pytest.raises(StoppedError):
        graph.sweep(process.uniform(), graph.buffers(), stop=stop)
    with pytest.raises(StoppedError):
        FrozenGraph.of(process, process.uniform(), budget=BUDGET, stop=stop)
