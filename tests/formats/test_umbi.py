"""UMB files go both ways between opaq and umbi, the format's own library.

Not covered, because umbi 0.2.5 does not do it: observations drawn by chance (it raises NotImplementedError), names of
states and of observations and a start that is not uniform (members of our own, which it passes over).
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from opaq.formats.umb.reader import read_umb, write_umb
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer

umbi = pytest.importorskip("umbi")
ats = umbi.ats

ROOMS = MDP(
    states=("hall", "vault", "exit"),
    actions=("go", "wait"),
    start=floats([0, 1, 0]),
    choice_start=ints([0, 2, 4, 5]),
    choice_action=ints([0, 1, 0, 1, 1]),
    transitions=SparseRows.from_dense([[0, 0.5, 0.5], [1, 0, 0], [0.1, 0.2, 0.7], [0, 1, 0], [0, 0, 1]]),
    rewards=floats([1, -2, 3, 0.5, 0]),
    labels={"secret": ints([1]), "two words": ints([0, 2])},
)
SEEN = Observer(observations=("dark", "bright"), emission=SparseRows.from_dense([[1, 0], [0, 1], [0, 1]]))
VARIABLES = {"x": np.array([1, -5, 2**40]), "on": np.array([True, False, True]), "heat": np.array([0.5, -1.25, 3])}


def dense(system) -> list[list[float]]:
    """The branches of every choice, as a row over states."""
    rows = [[0.0] * system.num_states for _ in range(system.num_choices)]
    for choice in system.choices:
        for branch in choice.branches:
            rows[choice.index][branch.target] += float(branch.prob)
    return rows


@pytest.mark.parametrize("compressed", [True, False])
def test_umbi_reads_what_we_write(tmp_path: Path, compressed: bool) -> None:
    file = tmp_path / "rooms.umb"
    write_umb(file, ROOMS, observer=SEEN, variables=VARIABLES, compressed=compressed)
    system = ats.read(file)
    system.validate()
    assert system.initial_states == [1]
    assert [choice.state for choice in system.choices] == [0, 0, 1, 1, 2]
    actions = [system.choice_action_to_name[choice.action] for choice in system.choices]
    assert actions == ["go", "wait", "go", "wait", "wait"]
    assert dense(system) == ROOMS.transitions.dense().tolist()
    # umbi's `ats` keeps the last label only, its plain `umb` all of them, by the names of their folders
    labels = umbi.umb.read(file).annotations["aps"]
    assert labels == {"secret": {"states": [False, True, False]}, "label.1": {"states": [True, False, True]}}
    assert system.get_ap_annotation("label.1").alias == "two words"
    assert system.get_reward_annotation("reward").choice_values == [1, -2, 3, 0.5, 0]
    assert system.get_observation_annotation().values == [0, 1, 1]
    valuations = system.variable_valuations.state_valuations
    told = {variable.name: valuations.get_variable_valuations(variable).values for variable in valuations.variables}
    assert told == {name: values.tolist() for name, values in VARIABLES.items()}


def written_by_umbi(file: Path):
    """A walk along five states, with everything that umbi writes and opaq reads."""
    system = ats.ExplicitAts()
    system.num_players, system.state_to_player = 1, [0] * 5
    system.num_choice_actions, system.choice_action_to_name = 2, ["left", "right"]
    values = ats.EntityValuations()
    for state in range(5):
        system.add_state()
        for action, target in enumerate((max(0, state - 1), min(4, state + 1))):
            choice = system.add_state_choice(state=state)
            choice.action = action
            choice.add_branch(target=target, prob=Fraction(9, 10))
            choice.add_branch(target=2, prob=Fraction(1, 10))
    system.num_initial_states = 1
    system.set_initial_states([2])
    for name in ("x", "even"):
        values.add_variable(name)
    values.ensure_capacity(5)
    for state in range(5):
        valuation = {values.get_variable("x"): state - 2, values.get_variable("even"): state % 2 == 0}
        values.set_entity_valuation(state, valuation)
    values.sync_domains()
    system.variable_valuations = ats.EntityClassValuations()
    system.variable_valuations.set_state_valuations(values)
    system.add_ap_annotation(name="edge", alias="at an edge").set_state_values([True, False, False, False, True])
    system.add_reward_annotation(name="cost").set_state_values([-1] * 5)
    system.add_observation_annotation(num_observations=3).set_state_values([state % 3 for state in range(5)])
    system.validate()
    ats.write(system, file)
    return system


def test_we_read_what_umbi_writes(tmp_path: Path) -> None:
    system = written_by_umbi(tmp_path / "walk.umb")
    imported = read_umb(tmp_path / "walk.umb")
    mdp = imported.mdp
    assert mdp.actions == ("left", "right")
    assert mdp.start.tolist() == [0, 0, 1, 0, 0]
    np.testing.assert_allclose(mdp.transitions.dense(), dense(system), rtol=0, atol=1e-15)
    assert mdp.states[:2] == ("x=-2,even=true", "x=-1,even=false")
    assert imported.variables["x"].tolist() == [-2, -1, 0, 1, 2]
    assert {label: states.tolist() for label, states in mdp.labels.items()} == {"at an edge": [0, 4]}
    assert imported.rewards["cost"].tolist() == [-1] * 10
    assert imported.observer is not None
    assert imported.observer.emission.columns.tolist() == [0, 1, 2, 0, 1]
    assert imported.warnings == ()


def test_there_and_back(tmp_path: Path) -> None:
    written_by_umbi(tmp_path / "walk.umb")
    first = read_umb(tmp_path / "walk.umb")
    write_umb(tmp_path / "ours.umb", first.mdp, variables=first.variables, rewards=first.rewards)
    ats.write(ats.read(tmp_path / "ours.umb"), tmp_path / "again.umb")
    again = read_umb(tmp_path / "again.umb")
    assert again.mdp.states == first.mdp.states
    assert (again.mdp.transitions.dense() == first.mdp.transitions.dense()).all()
    assert again.rewards["cost"].tolist() == first.rewards["cost"].tolist()
