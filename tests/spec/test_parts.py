"""Observers, secrets, automata, memories and policy classes, and problems made of finished parts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.model.problem import Task
from opaq.model.secret import InitialState, Language, LastState, StateAt, StepsAgo, Visited
from opaq.spec import (
    build_automaton,
    build_mdp,
    build_memory,
    build_observer,
    build_policy_class,
    build_problem,
    build_secret,
)
from problem_examples import EXAMPLES, GRAPH, TWO_SINK, alike, check_faults, edited, findings

MDP = build_mdp(**TWO_SINK["model"])


def test_observations_keep_their_order() -> None:
    observer = build_observer(MDP, **TWO_SINK["observer"])
    assert observer.observations == ("N", "R", "B")
    assert observer.emission.dense().tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]]
    assert observer.action_emission is None
    array = build_observer(MDP, emissions=observer.emission.dense(), observations=["N", "R", "B"])
    assert alike(array, observer)
    assert build_observer(MDP, emissions=np.ones((3, 1))).observations == ("0",)


def test_overlapping_sensors_fire_independently() -> None:
    sensors = {
        "A": {"covers": ["q0", "q1"], "detects": 0.8},
        "B": {"covers": "goal", "detects": 0.5, "false_alarm": 0.25},
        "C": {"covers": "q2", "detects": 1},
    }
    observer = build_observer(MDP, sensors=sensors, null="quiet")
    assert observer.observations == ("quiet", "A", "B", "C", "A+B", "B+C")
    rows = [[0.15, 0.6, 0.05, 0, 0.2, 0], [0.1, 0.4, 0.1, 0, 0.4, 0], [0, 0, 0, 0.5, 0, 0.5]]
    assert np.allclose(observer.emission.dense(), rows, atol=1e-15)


def test_actions_are_seen_exactly_or_by_signs() -> None:
    exact = build_observer(MDP, emissions={"*": "N"}, actions=True)
    assert exact.action_signs == ("a", "b")
    assert exact.action_emission is not None
    assert exact.action_emission.dense().tolist() == [[1, 0], [0, 1]]
    noisy = build_observer(MDP, emissions={"*": "N"}, actions={"a": {"hum": 0.5, "hush": 0.5}, "*": "hush"})
    assert noisy.action_emission is not None
    assert (noisy.action_signs, noisy.action_emission.dense().tolist()) == (("hum", "hush"), [[0.5, 0.5], [0, 1]])


@pytest.mark.parametrize(
    ("value", "names", "of_state"),
    [
        (True, ("q0", "q1", "q2"), [0, 1, 2]),
        ("secret", ("no", "yes"), [0, 1, 0]),
        ("q2", ("no", "yes"), [0, 0, 1]),
        (["secret", "q0"], ("no", "yes"), [1, 1, 0]),
        ({"left": "q1", "right": ["q2"]}, ("left", "right", "other"), [2, 0, 1]),
        ({"home": ["q0"], "away": "goal"}, ("home", "away"), [0, 1, 1]),
        ({"other": ["q1", "q2"], "x": ["q0"]}, ("other", "x"), [1, 0, 0]),
    ],
)
def test_what_about_a_state_is_secret(value: Any, names: tuple[str, ...], of_state: list[int]) -> None:
    secrets = [
        build_secret({"last_state": value}, MDP),
        build_secret({"initial_state": value}, MDP),
        build_secret({"state_at": {"time": 1, "states": value}}, MDP, horizon=2),
        build_secret({"steps_ago": {"steps": 2, "states": value}}, MDP, horizon=2),
    ]
    assert [type(secret) for secret in secrets] == [LastState, InitialState, StateAt, StepsAgo]
    for secret in secrets:
        assert not isinstance(secret, Visited | Language)
        assert (secret.classes.names, secret.classes.of_state.tolist()) == (names, of_state)


def test_visited_is_named_after_its_label() -> None:
    named = build_secret({"visited": "goal"}, MDP)
    listed = build_secret({"visited": ["q0", "q1"]}, MDP)
    assert isinstance(named, Visited)
    assert isinstance(listed, Visited)
    assert (named.name, named.states.tolist()) == ("goal", [1, 2])
    assert (listed.name, listed.states.tolist()) == ("visited", [0, 1])


def test_automaton() -> None:
    automaton = build_automaton(GRAPH["secret"]["automaton"], labels=["pg", "ps"])
    assert (automaton.states, automaton.initial, automaton.accepting) == (("x", "y"), 0, frozenset([1]))
    assert automaton.reads == "left"
    assert automaton.step(0, frozenset(["pg"])) == 1
    assert automaton.step(0, frozenset(["pg", "ps"])) == 0
    with pytest.raises(InputError, match="unknown label 'ps'; the labels are pg"):
        build_automaton(GRAPH["secret"]["automaton"], labels=["pg"])


def test_memory_rules_are_tried_in_order() -> None:
    update = [
        {"from": "m", "to": "n", "state": "secret", "action": "a"},
        {"from": "m", "to": {"m": 0.2, "n": 0.8}, "state": "goal"},
    ]
    memory = build_memory(MDP, nodes=["m", "n"], start_in={"q2": "n"}, update=update)
    told = memory.updates.dense()[memory.update_of]  # [node, state, action, node]
    assert told[0].tolist() == [[[1, 0], [1, 0]], [[0, 1], [0.2, 0.8]], [[0.2, 0.8], [0.2, 0.8]]]
    assert told[1].tolist() == [[[0, 1], [0, 1]]] * 3
    assert memory.start.dense().tolist() == [[1, 0], [1, 0], [0, 1]]
    assert alike(build_memory(MDP, nodes=["m", "n"], start=memory.start.dense(), update=told), memory)


def test_numbered_memory_stays_without_rules() -> None:
    memory = build_memory(MDP, nodes=3, start={"0": 0.5, 2: 0.5})
    assert memory.nodes == ("0", "1", "2")
    assert memory.update_of.tolist() == [[[node] * 2] * 3 for node in range(3)]
    assert memory.start.dense().tolist() == [[0.5, 0, 0.5]] * 3
    kept = build_memory(MDP, nodes=3, start={"0": 0.5, 2: 0.5}, update=np.zeros((3, 3, 2, 3)))
    assert alike(kept, memory)


def test_policy_class() -> None:
    language = build_secret({"automaton": GRAPH["secret"]["automaton"]}, build_mdp(**GRAPH["model"]))
    conditions = ["time", {"last_states": 3}, {"memory": {"nodes": 2}}, "automaton"]
    policy_class = build_policy_class(conditions, MDP, secret=language)
    assert policy_class.conditions_on == ("time", "last_states", "memory", "automaton")
    assert policy_class.last_states == 3
    assert policy_class.memory is not None


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_no_fault(name: str) -> None:
    errors, warnings = findings(EXAMPLES[name])
    assert (errors, warnings) == ([], [])
    pickle.dumps(build_problem(EXAMPLES[name]))


def test_finished_parts_may_stand_for_mappings() -> None:
    problem = build_problem(GRAPH)
    parts = {
        "model": problem.mdp,
        "observer": problem.observer,
        "secret": problem.secret,
        "task": problem.task,
        "policy": problem.policy_class,
    }
    assert alike(build_problem(GRAPH | parts), problem)


def test_finished_parts_are_checked_against_each_other() -> None:
    graph, two_sink = build_problem(GRAPH), build_problem(TWO_SINK)
    small = build_mdp(transitions=np.ones((1, 1, 1)), start=0)
    mixed = edited(TWO_SINK, {"model": small, "observer": graph.observer, "secret": graph.secret})
    mixed |= {"policy": graph.policy_class, "task": Task(1, "forever")}
    errors, _ = findings(mixed)
    expected = [
        ("observer", "emits in 3 states"),
        ("secret.automaton.edges[0].when", "unknown label 'pg'"),
        ("secret.automaton.edges[0].when", "unknown label 'ps'"),
        ("task.over", "needs a discount"),
        ("policy.update", "has shape 2 x 3 x 1"),
        ("policy.start", "has 3 entries"),
    ]
    check_faults(errors, expected)
    sized = edited(TWO_SINK, {"model": small, "secret": two_sink.secret, "observer": {"emissions": [[1]]}})
    check_faults(findings(sized)[0], [("secret", "classes 3 states")])


def test_defaults() -> None:
    spec = {key: TWO_SINK[key] for key in ("model", "observer", "secret", "horizon")}
    problem = build_problem(spec)
    assert (problem.discount, problem.task, problem.policy_class.conditions_on) == (1.0, Task(), ("state",))
