"""Tabular Gymnasium environments as models."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.formats.gymnasium import read_gymnasium

gymnasium = pytest.importorskip("gymnasium")


class Corridor(gymnasium.Env):
    """Three cells; walking right out of cell 1 into cell 0 ends the episode, walking left into it does not."""

    def __init__(self, table=None, start=(0, 1, 0)) -> None:
        self.observation_space = gymnasium.spaces.Discrete(3)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.initial_state_distrib = np.array(start)
        self.P = table or {
            0: {0: [(1.0, 0, 0, False)], 1: [(0.5, 1, 2, False), (0.5, 1, 4, False)]},
            1: {0: [(1.0, 0, 0, False)], 1: [(0.75, 0, 8, True), (0.25, 2, 0, True)]},
            2: {0: [(1.0, 1, 5, False)], 1: [(1.0, 1, 5, False)]},
        }


@pytest.fixture
def corridor():
    gymnasium.register("opaq-test/Corridor-v0", entry_point=Corridor)
    yield "opaq-test/Corridor-v0"
    del gymnasium.registry["opaq-test/Corridor-v0"]


def test_frozen_lake() -> None:
    lake = read_gymnasium("FrozenLake-v1")
    mdp = lake.mdp
    assert (mdp.num_states, mdp.actions) == (16, ("LEFT", "DOWN", "RIGHT", "UP"))
    assert mdp.start.tolist() == [1.0] + [0.0] * 15
    assert {name: states.tolist() for name, states in mdp.labels.items()} == {
        "start": [0],
        "frozen": [1, 2, 3, 4, 6, 8, 9, 10, 13, 14],
        "hole": [5, 7, 11, 12],
        "goal": [15],
        "end": [5, 7, 11, 12, 15],
    }
    assert (lake.variables["row"][13], lake.variables["col"][13]) == (3, 1)
    columns, values = mdp.transitions.row(0)  # LEFT in the corner: stay twice, or slide down; the targets are summed
    assert columns.tolist() == [0, 4]
    assert values == pytest.approx([2 / 3, 1 / 3])
    assert mdp.rewards[14 * 4 + 2] == pytest.approx(1 / 3)  # RIGHT before the goal
    assert mdp.rewards[15 * 4 :].tolist() == [0, 0, 0, 0]
    assert mdp.transitions.dense()[15 * 4 :, 15].tolist() == [1, 1, 1, 1]


def test_arguments_reach_the_environment() -> None:
    lake = read_gymnasium("FrozenLake-v1", map_name="8x8", is_slippery=False)
    assert lake.mdp.num_states == 64
    assert set(lake.mdp.transitions.values) == {1.0}


def test_cliff_walking() -> None:
    cliff = read_gymnasium("CliffWalking-v1")
    assert cliff.mdp.actions == ("UP", "RIGHT", "DOWN", "LEFT")
    assert {name: states.tolist() for name, states in cliff.mdp.labels.items()} == {
        "start": [36],
        "cliff": list(range(37, 47)),
        "goal": [47],
        "end": [47],
    }
    columns, values = cliff.mdp.transitions.row(36 * 4 + 1)  # RIGHT from the start: over the cliff and back
    assert (columns.tolist(), values.tolist()) == ([36], [1.0])
    assert cliff.mdp.rewards[36 * 4 + 1] == -100


def test_taxi() -> None:
    taxi = read_gymnasium("Taxi-v4")
    assert taxi.mdp.num_states == 500
    assert taxi.mdp.actions[-2:] == ("PICKUP", "DROPOFF")
    assert taxi.mdp.labels["end"].size == 4
    over = taxi.mdp.labels["end"]
    assert (taxi.variables["passenger"][over] == taxi.variables["destination"][over]).all()
    assert [int(taxi.variables[name][123]) for name in taxi.variables] == [1, 1, 0, 3]


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4"])
def test_rows_are_those_of_the_environment(env_id: str) -> None:
    mdp = read_gymnasium(env_id).mdp
    table = gymnasium.make(env_id).unwrapped.P
    over = set(mdp.labels["end"].tolist())
    for state, actions in table.items():
        for action, outcomes in actions.items():
            expected = np.zeros(mdp.num_states)
            for probability, target, _, _ in outcomes:
                expected[state if state in over else target] += probability
            reward = 0.0 if state in over else sum(probability * paid for probability, _, paid, _ in outcomes)
            row = np.zeros(mdp.num_states)
            columns, values = mdp.transitions.row(state * len(mdp.actions) + action)
            row[columns] = values
            assert np.allclose(row, expected, rtol=0, atol=1e-12)
            assert mdp.rewards[state * len(mdp.actions) + action] == pytest.approx(reward)


def test_a_state_entered_both_ways_gets_a_copy(corridor: str) -> None:
    mdp = read_gymnasium(corridor).mdp
    assert (mdp.states, mdp.actions) == (("0", "1", "2", "0.end"), ("0", "1"))
    dense = mdp.transitions.dense()
    assert dense[3].tolist() == [0, 0, 0.25, 0.75]
    assert dense[4:].tolist() == [[0, 0, 1, 0]] * 2 + [[0, 0, 0, 1]] * 2
    assert mdp.rewards.tolist() == [0, 3, 0, 6, 0, 0, 0, 0]
    assert {name: states.tolist() for name, states in mdp.labels.items()} == {"end": [2, 3]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"table": {0: {0: [(0.5, 0, 0, False)]}}, "start": [1]}, "sums to 0.5"),
        ({"table": {0: {0: [(1.0, 3, 0, False)]}}, "start": [1]}, "states that do not exist"),
        ({"table": {0: {0: [(1.0, 0, float("nan"), False)]}}, "start": [1]}, "not finite"),
        ({"table": {0: {0: [(1.0, 0)]}}, "start": [1]}, "not a table of transitions"),
        ({"table": {1: {0: [(1.0, 0, 0, False)]}}, "start": [1]}, "not numbered"),
        ({"table": {0: {0: []}}, "start": [1]}, "not numbered"),
        ({"start": [1, 1, 1]}, "is not a distribution"),
        ({"start": None}, "is not a distribution"),
    ],
)
def test_wrong_tables_are_told(corridor: str, change: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_gymnasium(corridor, **change)


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("FrozenPond-v1", "cannot be made"),
        ("CartPole-v1", "has no table of transitions 'P'"),
        ("antigravity:FrozenLake-v1", "is not the id of a registered environment"),
        ("", "is not the id"),
        (7, "is no environment"),
    ],
)
def test_other_environments_are_refused(env_id: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_gymnasium(env_id)
    assert "antigravity" not in sys.modules


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be made"):
        read_gymnasium("FrozenLake-v1", depth=3)
    with pytest.raises(InputError, match="'render_mode' does not belong"):
        read_gymnasium("FrozenLake-v1", render_mode="human")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(InputError, match=r"pip install 'gymnasium>=1.0'"):
        read_gymnasium("FrozenLake-v1")


def test_an_environment_is_read_as_it_is() -> None:
    for identifier, options in (("FrozenLake-v1", {"map_name": "8x8"}), ("CliffWalking-v1", {}), ("Taxi-v4", {})):
        environment = gymnasium.make(identifier, **options)
        by_id = read_gymnasium(identifier, **options)
        for given in (environment, environment.unwrapped):  # with its wrappers, and without
            read = read_gymnasium(given)
            assert read.mdp == by_id.mdp
            assert {name: values.tolist() for name, values in read.variables.items()} == {
                name: values.tolist() for name, values in by_id.variables.items()
            }
        environment.reset(seed=0)  # it was not closed
        environment.close()


def test_an_environment_of_ones_own() -> None:
    read = read_gymnasium(Corridor())
    assert read.mdp.states[:3] == ("0", "1", "2")

    class Table:
        """No environment of Gymnasium at all."""

        P = Corridor().P
        initial_state_distrib = (0, 1, 0)

    assert read_gymnasium(Table()).mdp == read.mdp
    with pytest.raises(InputError, match="'map_name' belongs to an id"):
        read_gymnasium(Corridor(), map_name="4x4")
    with pytest.raises(InputError, match="has no table of transitions 'P'"):
        read_gymnasium(gymnasium.make("CartPole-v1"))
    for wrong in (3, None, [1]):
        with pytest.raises(InputError, match="is no environment"):
            read_gymnasium(wrong)


def test_what_is_read_is_the_model_of_a_problem() -> None:
    import opaq

    spec = {"opaq": 1, "observer": {"variables": ["row"]}, "secret": {"last_state": {"where": "col > 1"}}, "horizon": 3}
    problem = opaq.build_problem(spec | {"model": read_gymnasium(gymnasium.make("FrozenLake-v1"))})
    assert problem.mdp.num_states == 16
    assert len(problem.observer.observations) == 4


@pytest.mark.parametrize("seed", range(2))
def test_an_agent_acts_by_the_numbers_of_its_environment(seed: int) -> None:
    import opaq

    environment = gymnasium.make("FrozenLake-v1", is_slippery=True)
    spec = {"opaq": 1, "observer": {"variables": ["row"]}, "secret": {"last_state": "hole"}, "horizon": 8}
    problem = opaq.build_problem(spec | {"model": read_gymnasium(environment)})
    agent, rng = opaq.Agent(problem, "return-optimal"), np.random.default_rng(seed)
    earned, runs = 0.0, 1500
    for run in range(runs):
        state, _ = environment.reset(seed=10_000 * seed + run)
        agent.start(state, rng)
        for _ in range(9):  # the return counts the actions at the times 0 .. 8
            action = agent.act(np.int64(state), rng)
            assert isinstance(action, int)
            state, reward, over, *_ = environment.step(action)
            earned += reward
            if over:
                break
    expected = opaq.measure(problem, "return-optimal").expected_return
    error = np.sqrt(expected * (1 - expected) / runs)
    assert abs(earned / runs - expected) < 4.5 * error
    named = opaq.Agent(problem, "return-optimal")
    assert named.act("0", rng) in problem.mdp.actions  # names in, names out
    for wrong in (99, 1.5, True, None):
        with pytest.raises(InputError, match="unknown state"):
            opaq.Agent(problem, "uniform").act(wrong)


def test_an_environment_that_says_its_shape_has_coordinates(corridor: str) -> None:
    class Shaped(Corridor):
        shape = (1, 3)

    gymnasium.register("opaq-test/Shaped-v0", entry_point=Shaped)
    try:
        model = read_gymnasium("opaq-test/Shaped-v0")
    finally:
        del gymnasium.registry["opaq-test/Shaped-v0"]
    assert model.variables["col"].tolist() == [0, 1, 2, 0]  # the copy of 0 in which the episode is over is there too
    assert model.mdp.positions.tolist() == [[0, 0], [1, 0], [2, 0], [0, 0]]
    assert read_gymnasium(corridor).mdp.positions is None
    cliff = read_gymnasium("CliffWalking-v1")
    assert cliff.mdp.positions[36].tolist() == [0, -3]  # the start, at the bottom on the left
