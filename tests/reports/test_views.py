"""Grids and policies as pictures see them."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import opaq
from opaq.opacity.policies import compile_for_policy
from opaq.reports.grid import GridView, PolicyView, directions
from opaq.reports.model_picture import model_to_dict
from opaq.simulation.runs import simulate_product
from reports.page_examples import carrier_example


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


def placed(positions: dict[str, list[float]], moves: dict[str, str]) -> opaq.Problem:
    """A model of states with positions; "go" leads from state to state."""
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": list(positions),
                "actions": ["go"],
                "start": next(iter(positions)),
                "transitions": {state: {"go": moves.get(state, state)} for state in positions},
                "positions": positions,
            },
            "observer": {"emissions": {"*": "dark"}},
            "secret": {"initial_state": True},
            "horizon": 2,
        }
    )


def test_positions_on_a_grid_are_a_board_with_y_up() -> None:
    view = GridView.of(placed({"a": [10, 5], "b": [20, 5], "c": [20, 6], "d": [20, 6]}, {"a": "b", "b": "c", "c": "d"}))
    assert view is not None
    assert (view.width, view.height, view.cells) == (2, 2, ((0, 1), (1, 1), (1, 0), (1, 0)))
    assert (view.columns, view.rows, view.walls) == ((10, 20), (6, 5), ((0, 0),))
    assert view.first.tolist() == [0, 1, 2, 2]
    assert view.traps == ()  # c leads to d, in the same cell
    down = GridView.of(placed({"a": [0, 0], "b": [0, -1], "c": [1, -1]}, {"a": "b", "b": "c"}))
    assert down is not None
    assert (down.cells, down.rows) == (((0, 0), (0, 1), (1, 1)), (0, 1))  # rows count down


@pytest.mark.parametrize(
    ("positions", "moves"),
    [
        ({"a": [0, 0], "b": [1, 0.3], "c": [2, 1]}, {"a": "b", "b": "c"}),  # no grid
        ({"a": [0, 0], "b": [9, 9], "c": [8, 9]}, {"b": "c"}),  # mostly empty
        ({"a": [0, 1], "b": [1, 0], "c": [2, 1], "d": [1, 2]}, {"a": "b", "b": "c", "c": "d", "d": "a"}),  # aslant
    ],
)
def test_other_positions_are_those_of_a_graph(positions: dict[str, list[float]], moves: dict[str, str]) -> None:
    problem = placed(positions, moves)
    assert GridView.of(problem) is None
    product, pi = compile_for_policy(problem, None)
    drawn = np.array(model_to_dict(product, PolicyView(product, pi).average())["graph"]["positions"])
    stated = np.array(list(positions.values())) * [1, -1]
    scale = np.ptp(stated, axis=0).max()
    assert drawn - drawn[0] == pytest.approx((stated - stated[0]) / scale, abs=1e-3)


def test_directions_are_those_of_expected_steps() -> None:
    pytest.importorskip("gymnasium")
    lake = opaq.read_gymnasium("FrozenLake-v1")  # slips to both sides as often as it goes ahead
    parts = {"observer": {"emissions": {"*": "dark"}}, "secret": {"initial_state": True}, "horizon": 2}
    problem = opaq.build_problem({"opaq": 1, "model": lake.mdp} | parts)
    view = GridView.of(problem)
    assert view is not None
    assert (view.cells[1], view.cells[4]) == ((1, 0), (0, 1))  # row by row, row 0 on top
    assert directions(lake.mdp, view) == [(-1, 0), (0, 1), (1, 0), (0, -1)]  # left, down, right, up


def test_occupation_is_the_expected_number_of_visits() -> None:
    problem = opaq.load_problem("grid-last-state")
    product, pi = compile_for_policy(problem, None)
    mdp, view = problem.mdp, PolicyView(product, pi)
    step = np.zeros((mdp.num_states, mdp.num_states))
    for choice, state in enumerate(mdp.choice_state()):
        columns, values = mdp.transitions.row(choice)
        step[state, columns] += values / 5
    now, total = mdp.start, np.zeros(mdp.num_states)
    for occupied in view.occupation_by_time():
        assert occupied == pytest.approx(now)
        total, now = total + now, now @ step
    assert view.occupation() == pytest.approx(total)
    assert total.sum() == pytest.approx(problem.horizon + 1)


def test_cells_with_several_states_average_their_actions() -> None:
    example = carrier_example()
    product, pi = compile_for_policy(example.problem, None)
    rng = np.random.default_rng(1)
    starts = product.process.row_start
    pi = np.concatenate([rng.dirichlet(np.ones(size)) for size in np.diff(starts)])
    view, policy = GridView.of(example.problem), PolicyView(product, pi)
    assert view is not None
    runs = simulate_product(product, pi, count=40_000, rng=rng)
    index = example.problem.mdp.state_index()
    counts: dict[tuple[int, str], int] = Counter()
    for run in runs:
        counts.update(zip((int(view.first[index[state]]) for state in run.states), run.actions, strict=True))
    shares = policy.average(view.first)
    assert set(shares) <= set(view.first.tolist())
    for state, row in shares.items():
        total = sum(counts[state, action] for action in example.problem.mdp.actions)
        if total > 5_000:
            seen = [counts[state, action] / total for action in example.problem.mdp.actions]
            assert list(row.values()) == pytest.approx(seen, abs=0.03)
