"""Every fault a problem can have, by its path and its kind; none brings others along. The sentences are golden."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.spec import build_problem
from problem_examples import EXAMPLES, GONE, TWO_SINK, edited, findings
from trials import part_of

INF = math.inf
A = "model/transitions/q0/a"
EMIT = {"emissions": {"*": "N"}}


def conditions(*entries: Any) -> dict[str, Any]:
    return {"policy": {"conditions_on": list(entries)}}


def machine(**spec: Any) -> dict[str, Any]:
    return conditions({"memory": {"nodes": ["m", "n"]} | spec})


def automaton(**spec: Any) -> dict[str, Any]:
    plain = {"states": ["x", "y"], "initial": "x", "edges": []} | spec
    return {"secret": {"automaton": {key: value for key, value in plain.items() if value is not GONE}}}


def edge(**spec: Any) -> dict[str, Any]:
    plain = {"from": "x", "to": "y", "when": "goal"} | spec
    return automaton(edges=[{key: value for key, value in plain.items() if value is not GONE}])


def required(*requirements: Any) -> dict[str, Any]:
    return {"task": {"requirements": list(requirements)}}


Case = tuple[dict[str, Any], str, str]  # what is changed, the path of the fault, words that tell its kind

ONE_FAULT: list[Case] = [
    # distributions
    ({A: {"q0": 0.8}}, "model.transitions.q0.a", "sum to"),
    ({A: {"q0": 0.9999}}, "model.transitions.q0.a", "sum to"),
    ({A: {"q0": "1"}}, "model.transitions.q0.a.q0", "is text"),
    ({A: {"q0": "1e-3"}}, "model.transitions.q0.a.q0", "is text"),
    ({A: {"q0": "1/2"}}, "model.transitions.q0.a.q0", "is text"),
    ({A: {"q0": math.nan}}, "model.transitions.q0.a.q0", "not a finite"),
    ({A: {"q0": True}}, "model.transitions.q0.a.q0", "not a number"),
    ({A: {"q0": 1.5}}, "model.transitions.q0.a.q0", "above 1"),
    ({A: {"q0": -0.5, "q1": 1}}, "model.transitions.q0.a.q0", "is negative"),
    ({A: {"q0": 10**400}}, "model.transitions.q0.a.q0", "too large"),
    ({A: {"q9": 1}}, "model.transitions.q0.a.q9", "unknown"),
    ({A: {}}, "model.transitions.q0.a", "is empty"),
    ({A: [1]}, "model.transitions.q0.a", "not a mapping"),
    ({A: None}, "model.transitions.q0.a", "is empty"),
    ({A: "q9"}, "model.transitions.q0.a", "unknown"),
    ({A: {None: 1}}, "model.transitions.q0.a", "not a name"),
    ({A: {True: 0.5, "q0": 0.5}}, "model.transitions.q0.a", "not a name"),
    ({A: {1.5: 1}}, "model.transitions.q0.a", "not a name"),
    # states and actions
    ({"model/states": ["q0", "q0", "q1", "q2"]}, "model.states[1]", "listed twice"),
    ({"model/states": ["q0", True, "q2"]}, "model.states[1]", "not a name"),
    ({"model/states": ["q0", "", "q2"]}, "model.states[1]", "not a name"),
    ({"model/states": ["q0", None, "q2"]}, "model.states[1]", "not a name"),
    ({"model/states": "q0"}, "model.states", "not a list"),
    ({"model/states": []}, "model.states", "is empty"),
    ({"model/states": GONE}, "model.states", "is missing"),
    ({"model/actions": ["a", "b", "*"]}, "model.actions[2]", "not a name"),
    ({"model/actions": GONE}, "model.actions", "is missing"),
    # transitions
    ({"model/transitions": GONE}, "model.transitions", "is missing"),
    ({"model/transitions": GONE, "model/transitons": {}}, "model.transitons", "unknown key"),
    ({"model/transitions": "x"}, "model.transitions", "not a mapping"),
    ({"model/transitions/q1": GONE}, "model.transitions.q1", "is missing"),
    ({"model/transitions/q1": {}}, "model.transitions.q1", "no action"),
    ({"model/transitions/q1": None}, "model.transitions.q1", "is empty"),
    ({"model/transitions/qq": {"a": "q0"}}, "model.transitions.qq", "unknown"),
    ({"model/transitions/q0/c": "q0"}, "model.transitions.q0.c", "unknown"),
    # start
    ({"model/start": GONE}, "model.start", "is missing"),
    ({"model/start": "q9"}, "model.start", "unknown"),
    ({"model/start": ["q0", "q0"]}, "model.start[1]", "listed twice"),
    ({"model/start": []}, "model.start", "is empty"),
    ({"model/start": {"q0": 0.5}}, "model.start", "sum to"),
    ({"model/start": 0.5}, "model.start", "not a state"),
    ({"model/start": [0.5, 0.4, 0]}, "model.start", "sum to"),
    ({"model/start": np.array([1.0, 0.0])}, "model.start", "entries"),
    ({"model/start": np.array([1.5, -0.5, 0])[::2]}, "model.start", "entries"),
    ({"model/start": np.array([1.0, -0.5, 0.5])}, "model.start[1]", "not a probability"),
    # rewards
    ({"model/rewards": {"q0": "x"}}, "model.rewards.q0", "is text"),
    ({"model/rewards": {"q0": {"c": 2}}}, "model.rewards.q0.c", "unknown"),
    ({"model/rewards": {"q9": 2}}, "model.rewards.q9", "unknown"),
    ({"model/rewards": {"q0": INF}}, "model.rewards.q0", "not a finite"),
    ({"model/rewards": [1, 2]}, "model.rewards", "entries"),
    ({"model/rewards": [[1, 2], [3]]}, "model.rewards", "ragged"),
    ({"model/rewards": [[1], [2], [3]]}, "model.rewards", "has shape"),
    ({"model/rewards": ["x", 1, 2]}, "model.rewards", "other than numbers"),
    # labels
    ({"model/labels/p": "q9"}, "model.labels.p", "unknown"),
    ({"model/labels/p": {"q0": 1}}, "model.labels.p", "not a name"),
    ({'model/labels/p"': []}, 'model.labels.p"', 'cannot name'),
    ({"model/labels/true": []}, "model.labels.true", "cannot name"),
    ({"model/labels": []}, "model.labels", "not a mapping"),
    ({"model/labels/secret": ["q9"]}, "model.labels.secret[0]", "unknown"),
    # observer
    ({"observer": GONE}, "observer", "is missing"),
    ({"observer": 5}, "observer", "not a mapping"),
    ({"observer": {}}, "observer", "has none of"),
    ({"observer": {"emisions": {}}}, "observer.emisions", "unknown key"),
    ({"observer": EMIT | {"sensors": {}}}, "observer", "has 'emissions' and 'sensors'"),
    ({"observer": EMIT | {"null": "x"}}, "observer.null", "does not go with"),
    ({"observer/emissions/q1": GONE}, "observer.emissions.q1", "is missing"),
    ({"observer/emissions/q1": {"R": 0.5}}, "observer.emissions.q1", "sum to"),
    ({"observer/emissions/q1": {"R": 0.5, None: 0.5}}, "observer.emissions.q1", "not a name"),
    ({"observer/emissions/q9": "R"}, "observer.emissions.q9", "unknown"),
    ({"observer/observations": ["N", "R"]}, "observer.emissions.q2.B", "unknown"),
    ({"observer": EMIT | {"actions": {"a": "x"}}}, "observer.actions.b", "is missing"),
    ({"observer": EMIT | {"actions": {"*": "x", "c": "y"}}}, "observer.actions.c", "unknown"),
    ({"observer": EMIT | {"actions": 3}}, "observer.actions", "not a mapping"),
    ({"observer": {"emissions": np.eye(2)}}, "observer.emissions", "has shape"),
    ({"observer": {"emissions": [[1], [1], [0]]}}, "observer.emissions[2]", "not a distribution"),
    ({"observer": {"emissions": [[1], [0.9], [1]]}}, "observer.emissions[1]", "sum to"),
    # sensors
    ({"observer": {"sensors": {}}}, "observer.sensors", "is empty"),
    ({"observer": {"sensors": {"A": {"covers": "goal", "detect": 1}}}}, "observer.sensors.A.detect", "unknown key"),
    ({"observer": {"sensors": {"A": {"detects": 1}}}}, "observer.sensors.A.covers", "is missing"),
    ({"observer": {"sensors": {"A": {"covers": ["gaol"], "detects": 1}}}}, "observer.sensors.A.covers[0]", "unknown"),
    ({"observer": {"sensors": {"A": {"covers": "goal", "detects": 2}}}}, "observer.sensors.A.detects", "above 1"),
    ({"observer": {"sensors": {"A+B": {"covers": "goal", "detects": 1}}}}, "observer.sensors.A+B", "cannot name"),
    ({"observer": {"sensors": {"null": {"covers": "q0", "detects": 1}}}}, "observer.sensors.null", "no sensor at all"),
    ({"observer": {"sensors": {"A": {"covers": "q0", "detects": 0.5}, "B": {"covers": "q0", "detects": 0.5}}, "null": "A+B"}}, "observer.null", "cannot name"),
    ({"observer": {"sensors": {f"s{i}": {"covers": ["q0"], "detects": 0.5} for i in range(11)}}}, "observer.sensors", "joint outcomes"),
    # secret
    ({"secret": GONE}, "secret", "is missing"),
    ({"secret": "goal"}, "secret", "not a mapping"),
    ({"secret": {}}, "secret", "has none of"),
    ({"secret": {"last_state": {"other": ["q1"], "x": ["q0"]}}}, "secret.last_state.other", "too"),
    ({"secret": {"last_states": "goal"}}, "secret.last_states", "unknown key"),
    ({"secret": {"last_state": "q0", "visited": "q1"}}, "secret", "has 'last_state' and 'visited'"),
    ({"secret": {"last_state": False}}, "secret.last_state", "not true"),
    ({"secret": {"last_state": "gaol"}}, "secret.last_state", "unknown"),
    ({"secret": {"initial_state": {}}}, "secret.initial_state", "is empty"),
    ({"secret": {"initial_state": {"x": ["q0"], "y": ["q0", "q1"]}}}, "secret.initial_state.y", "too"),
    ({"secret": {"visited": True}}, "secret.visited", "not a label"),
    ({"secret": {"visited": "goal", "reveal": "progress"}}, "secret.reveal", "does not go with"),
    ({"secret": {"state_at": {"time": 3, "states": "goal"}}}, "secret.state_at.time", "not a whole number"),
    ({"secret": {"state_at": {"time": 1}}}, "secret.state_at.states", "is missing"),
    ({"secret": {"steps_ago": {"steps": -1, "states": True}}}, "secret.steps_ago.steps", "not a whole number"),
    ({"secret": {"ltlf": "F p"}}, "secret.ltlf", "unknown"),
    ({"secret": {"regex": "a*"}}, "secret.regex", "unknown"),
    ({"secret": {"ltlf": "F ("}}, "secret.ltlf", "cannot be read"),
    ({"secret": {"regex": 3}}, "secret.regex", "not text"),
    ({"secret": {"ltlf": "F goal", "minimal": "no"}}, "secret.minimal", "not true or false"),
    ({"secret": {"visited": "goal", "minimal": False}}, "secret.minimal", "does not go with"),
    ({"secret": {"ltlf": "F goal", "reveal": "all"}}, "secret.reveal", "not 'progress' or 'acceptance'"),
    # automaton
    (automaton(initial="z"), "secret.automaton.initial", "unknown"),
    (automaton(edges=GONE), "secret.automaton.edges", "is missing"),
    (automaton(accepting=["z"]), "secret.automaton.accepting[0]", "unknown"),
    (automaton(reads="leaving"), "secret.automaton.reads", "not 'entered' or 'left'"),
    (automaton() | {"secret/reveal": "acceptance"}, "secret.automaton.accepting", "is missing"),
    (automaton() | {"secret/reveal": "all"}, "secret.reveal", "not 'progress' or 'acceptance'"),
    (edge(to=GONE), "secret.automaton.edges[0].to", "is missing"),
    (edge(when=3), "secret.automaton.edges[0].when", "not a guard"),
    (edge(when="gaol"), "secret.automaton.edges[0].when", "unknown"),
    (edge(when="goal &"), "secret.automaton.edges[0].when", "not a guard"),
    # policy
    (conditions(), "policy.conditions_on", "is empty"),
    (conditions("state", "tim"), "policy.conditions_on[1]", "unknown"),
    (conditions("state", "state"), "policy.conditions_on[1]", "listed twice"),
    (conditions("automaton"), "policy.conditions_on[0]", "needs"),
    (conditions("last_states"), "policy.conditions_on[0]", "needs a value"),
    (conditions({"last_states": 0}), "policy.conditions_on[0].last_states", "not a whole number"),
    (conditions({"foo": 1}), "policy.conditions_on[0].foo", "unknown key"),
    (conditions(3), "policy.conditions_on[0]", "not a condition"),
    ({"policy": {"conditions_on": "state"}}, "policy.conditions_on", "not a list"),
    # memory
    (machine(nodes=0), "policy.conditions_on[0].memory.nodes", "not a whole number"),
    (machine(start="x"), "policy.conditions_on[0].memory.start", "unknown"),
    (machine(start_in={"q9": "m"}), "policy.conditions_on[0].memory.start_in.q9", "unknown"),
    (machine(start=[[1, 0], [0, 0], [1, 0]]), "policy.conditions_on[0].memory.start[1]", "all zero"),
    (machine(update=[{"from": "m"}]), "policy.conditions_on[0].memory.update[0].to", "is missing"),
    (machine(update=[{"from": "m", "to": {"n": 0.5}}]), "policy.conditions_on[0].memory.update[0].to", "sum to"),
    (machine(update=[{"from": "m", "to": "n", "action": ["c"]}]), "policy.conditions_on[0].memory.update[0].action[0]", "unknown"),
    (machine(update=np.zeros((2, 2, 2, 2))), "policy.conditions_on[0].memory.update", "has shape"),
    # the rest
    ({"horizon": GONE}, "horizon", "is missing"),
    ({"horizon": -1}, "horizon", "not a whole number"),
    ({"horizon": 2.5}, "horizon", "not a whole number"),
    ({"horizon": True}, "horizon", "not a whole number"),
    ({"horizon": "3"}, "horizon", "is text"),
    ({"discount": 0}, "discount", "not a number above"),
    ({"discount": 1.5}, "discount", "not a number above"),
    ({"task": {"return_at_least": "much"}}, "task.return_at_least", "is text"),
    ({"task": {"over": "ever"}}, "task.over", "not 'horizon' or 'forever'"),
    ({"task": {"over": "forever"}}, "task.over", "needs"),
    # trajectories and moments
    ({"secret": {"trajectory": False}}, "secret.trajectory", "not true"),
    ({"secret": {"trajectory": {"labels": ["gaol"]}}}, "secret.trajectory.labels[0]", "unknown label"),
    ({"secret": {"trajectory": {"labels": []}}}, "secret.trajectory.labels", "is empty"),
    ({"secret": {"trajectory": {"labels": "goal"}}}, "secret.trajectory.labels", "not a list"),
    ({"secret": {"trajectory": {"variable": "x"}}}, "secret.trajectory.variable", "no state variables"),
    ({"secret": {"trajectory": {"variable": 3}}}, "secret.trajectory.variable", "not the name"),
    ({"secret": {"trajectory": {"here": ["q9"]}}}, "secret.trajectory.here[0]", "unknown state"),
    ({"secret": {"trajectory": True}, "task": {"when": "every"}}, "task.when", "all moments"),
    ({"secret": {"trajectory": True}, "task": {"of": "guess_error"}}, "task.of", "not known"),
    ({"secret": {"state_at": {"time": 1, "states": "goal"}}, "task": {"when": "least"}}, "task.when", "about one time"),
    ({"task": {"when": "every", "of": {"loss": {"guess": {"yes": 1}}}}}, "task.when", "expected losses"),
    ({"task": {"when": "often"}}, "task.when", "not 'end'"),
    # requirements
    ({"task": {"objective": "hide"}}, "task.objective", "not 'maximise' or 'minimise'"),
    ({"task": {"reach": "goal"}}, "task.probability_at_least", "is missing"),
    ({"task": {"reach": "gaol", "probability_at_least": 1}}, "task.reach", "unknown"),
    ({"task": {"reach": True, "probability_at_least": 1}}, "task.reach", "not a label"),
    ({"task": {"reach": "goal", "ltlf": "F goal", "probability_at_least": 1}}, "task", "has 'reach' and 'ltlf'"),
    ({"task": {"probability_at_least": 1}}, "task", "has none of"),
    ({"task": {"ltlf": "F gaol", "probability_at_least": 1}}, "task.ltlf", "unknown"),
    ({"task": {"ltlf": "F goal", "probability_at_least": 2}}, "task.probability_at_least", "above 1"),
    ({"task": {"reach": "goal", "probability_at_least": 1, "minimal": True}}, "task.minimal", "does not go with"),
    (required(3), "task.requirements[0]", "not a mapping"),
    (required({"reward": "fuel", "return_at_least": 1}), "task.requirements[0].reward", "unknown"),
    (required({"return_at_least": 1}), "task.requirements[0].reward", "is missing"),
    (required({"reward": "fuel", "return_at_least": 1}) | {"model/named_rewards": {"full": {"q0": 1}}}, "task.requirements[0].reward", "unknown"),
    (required({"reach": "goal", "probability_at_last": 1}), "task.requirements[0].probability_at_last", "unknown key"),
    ({"model/named_rewards": {"fuel": {"q9": 1}}}, "model.named_rewards.fuel.q9", "unknown"),
    ({"model/named_rewards": []}, "model.named_rewards", "not a mapping"),
    # what is seen after actions
    ({"observer": EMIT | {"after_action": {"c": EMIT["emissions"]}}}, "observer.after_action.c", "unknown"),
    ({"observer": EMIT | {"after_action": {"a": {"q9": "x", "*": "x"}}}}, "observer.after_action.a.q9", "unknown"),
    ({"opaq": 2}, "opaq", "a format this version"),
    ({"name": True}, "name", "not a name"),
    ({"description": 3}, "description", "not text"),
    ({"colour": 3}, "colour", "unknown key"),
    ({"model": GONE}, "model", "is missing"),
    ({"model": GONE, "modle": {}}, "modle", "unknown key"),
    ({"model": 5}, "model", "not a mapping"),
    ({"model": {"prism": "x"}}, "model.prism", "is read by"),
    ({"model": GONE, "umb": "x"}, "umb", "is read by"),
    ({"grid": {}}, "", "has 'model' and 'grid'"),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "path", "kind"), ONE_FAULT)
def test_one_fault(edits: dict[str, Any], path: str, kind: str) -> None:
    [fault], _ = findings(edited(TWO_SINK, edits))
    assert fault.where == path
    assert kind in fault.message


WARNED: list[Case] = [
    ({A: {"q0": 0.333333, "q1": 0.333333, "q2": 0.333333}}, "model.transitions.q0.a", "sum to"),
    ({"model/transitions/q0": {"a": "q0"}}, "model.states", "never reached"),
    ({"secret": {"last_state": []}}, "secret.last_state", "holds no state"),
    ({"opaq": GONE}, "opaq", "is missing"),
    ({"model/labels/q0": ["q1"], "secret/last_state": "q0"}, "secret.last_state", "is a state and a label"),
    ({"model/transitions/q1": {"a": "q1"}, "model/rewards": {"q1": {"b": 1}}}, "model.rewards.q1.b", "not enabled there"),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "path", "kind"), WARNED)
def test_warnings(edits: dict[str, Any], path: str, kind: str) -> None:
    errors, [warning] = findings(edited(TWO_SINK, edits))
    assert (errors, warning.where) == ([], path)
    assert kind in warning.message


def test_sentences(golden: Callable[[str, Iterable[str]], None]) -> None:
    spoilt = [findings(edited(TWO_SINK, edits)) for edits, *_ in (*ONE_FAULT, *WARNED)]
    golden("problem files", [str(fault) for errors, warnings in spoilt for fault in (*errors, *warnings)])


def test_ten_faults_are_reported_together() -> None:
    spec = edited(
        TWO_SINK,
        {
            "model/transitions/q0/a": {"q0": 0.8},
            "model/transitions/q0/b": {"q1": "0.5", "q2": 0.5},
            "model/transitions/q1": {"*": {"q7": 1}},
            "model/start": {"q0": -1},
            "model/rewards": {"q1": "one"},
            "observer/emissions/q1": GONE,
            "secret": {"last_state": "secrte"},
            "horizon": -2,
            "discount": 2,
            "task": {"return_at_lest": 1},
        },
    )
    with pytest.raises(InputError) as caught:
        build_problem(spec)
    assert [fault.where for fault in caught.value.faults] == [
        "model.transitions.q0.a",
        "model.transitions.q0.b.q1",
        "model.transitions.q1.*.q7",
        "model.start.q0",
        "model.rewards.q1",
        "horizon",
        "discount",
        "observer.emissions.q1",
        "secret.last_state",
        "task.return_at_lest",
    ]


@pytest.mark.parametrize("spec", [None, 3, "x", [], [1], {"model": {"transitions": {"a": [[1]]}}}, {1: 2}, {None: 1}])
def test_nonsense_is_refused_not_crashed_on(spec: Any) -> None:
    errors, _ = findings(spec)
    assert errors


VALUES: list[Any] = [None, True, 3, -1.5, math.nan, "x", "", [], [1], [[1, 2]], ["x"], {}, {"x": 1}, {1: {2: 3}}]


def _places(spec: Any, path: str = "") -> list[str]:
    keys = list(spec) if isinstance(spec, dict) else []
    below = [place for key in keys if isinstance(key, str) for place in _places(spec[key], f"{path}/{key}".lstrip("/"))]
    return [path, *below]


CASES = [(name, place) for name, spec in EXAMPLES.items() for place in _places(spec) if place]


@pytest.mark.parametrize(("number", "name", "place"), [(number, *case) for number, case in enumerate(CASES)])
def test_any_value_anywhere_never_crashes(number: int, name: str, place: str) -> None:
    first = number % len(VALUES)  # so that neighbouring places meet other values
    for value in part_of([*VALUES[first:], *VALUES[:first]], 5):
        findings(edited(EXAMPLES[name], {place: value}))
