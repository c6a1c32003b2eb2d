"""Grids and policies as pictures see them."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import opaq
from opaq.reports.grid import GridView, PolicyView
from opaq.simulation.runs import compile_for_policy, simulate_product


def test_the_grid_of_the_paper() -> None:
    problem = opaq.load_problem("grid-last-state")
    view = GridView.of(problem)
    assert view is not None
    assert (view.width, view.height, len(view.cells)) == (6, 6, 34)
    assert view.walls == ((5, 2), (1, 3))
    assert {view.cells[state] for state in view.traps} == {(1, 1), (3, 2), (1, 4)}
    assert {view.cells[state] for state in view.coverage["B"]} == {(3, 3), (4, 3), (3, 4), (4, 4)}
    assert set(view.coverage["B"].values()) == {0.7}
    assert "null" not in view.coverage
    assert {view.cells[state] for state in view.starts} == {(0, row) for row in range(6)}


GRID = {
    "opaq": 1,
    "grid": {"size": [3, 1], "start": [[0, 0]]},
    "secret": {"last_state": [[2, 0]]},
    "horizon": 2,
}


def seen(observer: dict) -> dict[str, dict[int, float]]:
    view = GridView.of(opaq.build_problem(GRID | {"observer": observer}))
    assert view is not None
    return {
        name: {state: pytest.approx(chance) for state, chance in row.items()} for name, row in view.coverage.items()
    }


def test_sensors_are_shown_where_they_cover() -> None:
    sensors = {
        "A": {"covers": [[0, 0]], "detects": 0.7},
        "B": {"covers": [[0, 0], [1, 0]], "detects": 0.6, "false_alarm": 0.05},
    }
    assert seen({"sensors": sensors}) == {"A": {0: 0.7}, "B": {0: 0.6, 1: 0.6}}
    assert seen({"sensors": sensors, "null": "quiet"}) == {"A": {0: 0.7}, "B": {0: 0.6, 1: 0.6}}


def test_stated_sensors_are_shown_as_they_are_stated() -> None:
    everywhere = [[0, 0], [1, 0], [2, 0]]
    sensors = {"A": {"covers": everywhere, "detects": 1}, "B": {"covers": [[1, 0]], "detects": 1}}
    assert seen({"sensors": sensors}) == {"A": {0: 1, 1: 1, 2: 1}, "B": {1: 1}}
    assert seen({"sensors": {"A": {"covers": [[1, 0], [2, 0]], "detects": 1}}, "null": "quiet"}) == {"A": {1: 1, 2: 1}}
    rarer = {"A": {"covers": [[0, 0]], "detects": 0.1, "false_alarm": 0.4}}
    assert seen({"sensors": rarer}) == {"A": {0: 0.1}}


def test_observations_that_are_no_sensors_stand_for_themselves() -> None:
    cells = ("(0,0)", "(1,0)", "(2,0)")
    assert seen({"emissions": dict(zip(cells, ("o", "o", "x+y"), strict=True))}) == {"o": {0: 1, 1: 1}, "x+y": {2: 1}}
    noisy = {"(0,0)": {"n": 0.9, "r": 0.1}, "*": {"n": 0.5, "r": 0.5}}
    assert seen({"emissions": noisy}) == {"r": {1: 0.5, 2: 0.5}}


def test_other_models_are_no_grid() -> None:
    assert GridView.of(opaq.load_problem("two-sink")) is None


@pytest.mark.parametrize("conditions", [("state",), ("state", "time"), ("state", "memory")])
def test_shares_are_those_of_sampled_runs(conditions: tuple[str, ...]) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    memory = opaq.free_memory(problem.mdp, 2) if "memory" in conditions else None
    product = opaq.compile_problem(problem, opaq.PolicyClass(conditions, memory=memory))
    rng = np.random.default_rng(3)
    pi = product.process.softmax(rng.normal(size=product.process.num_slots))
    view = PolicyView(product, pi)
    assert view.changes_with_time == (conditions != ("state",))
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for run in simulate_product(product, pi, count=20_000, rng=rng):
        for time, (state, action) in enumerate(zip(run.states, run.actions, strict=True)):
            counts[time, state][action.partition(">")[0]] += 1
            counts[-1, state][action.partition(">")[0]] += 1
    shares = [*view.by_time(), view.average()]
    mdp = problem.mdp
    compared = 0
    for (time, state), drawn in counts.items():
        total = drawn.total()
        for action, share in shares[time][mdp.states.index(state)].items():
            error = 5 * np.sqrt(0.25 / total)
            assert abs(drawn[mdp.actions[action]] / total - share) < error
            compared += 1
    assert compared > 100
    assert all(abs(sum(row.values()) - 1) < 1e-12 for time in shares for row in time.values())


def test_states_that_cannot_occur_have_no_arrows() -> None:
    product, pi = compile_for_policy("two-sink", None)
    first = next(PolicyView(product, pi).by_time())
    assert {product.problem.mdp.states[state] for state in first} == {"q0"}
