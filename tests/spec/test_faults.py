"""Every fault a problem can have, with its exact message; none brings others along."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from opaq.errors import InputError
from opaq.spec import build_problem
from problem_examples import EXAMPLES, GONE, TWO_SINK, edited, findings

INF = math.inf
FORMS = "true, a label, a list of states, or a mapping {class: states}"
STATES = "the states are q0, q1, q2"
NAMES = "the names are secret, goal, q0, q1, q2"
SUM = "make them sum to 1"
RANGE = "use a number from 0 to 1"
A = "model/transitions/q0/a"
AT = "model.transitions.q0.a"
EMIT = {"emissions": {"*": "N"}}
MEMORY = "policy.conditions_on[0].memory"


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


FIRST = "task.requirements[0]"


def required(*requirements: Any) -> dict[str, Any]:
    return {"task": {"requirements": list(requirements)}}


ONE_FAULT: list[tuple[dict[str, Any], str]] = [
    # distributions
    ({A: {"q0": 0.8}}, f"{AT}: probabilities sum to 0.8, not 1; {SUM}"),
    ({A: {"q0": 0.9999}}, f"{AT}: probabilities sum to 0.9999, not 1; {SUM}"),
    ({A: {"q0": "1"}}, f"{AT}.q0: '1' is text, not a number; remove the quotes"),
    ({A: {"q0": "1e-3"}}, f"{AT}.q0: '1e-3' is text, not a number; remove the quotes"),
    ({A: {"q0": "1/2"}}, f"{AT}.q0: '1/2' is text, not a number; write it as a decimal number"),
    ({A: {"q0": math.nan}}, f"{AT}.q0: is nan, not a finite number"),
    ({A: {"q0": True}}, f"{AT}.q0: is true, not a number"),
    ({A: {"q0": 1.5}}, f"{AT}.q0: probability 1.5 is above 1; {RANGE}"),
    ({A: {"q0": -0.5, "q1": 1}}, f"{AT}.q0: probability -0.5 is negative; {RANGE}"),
    ({A: {"q0": 10**400}}, f"{AT}.q0: is too large a number; the largest is 1e300"),
    ({A: {"q9": 1}}, f"{AT}.q9: unknown state 'q9'; {STATES}"),
    ({A: {}}, f"{AT}: is empty; give probabilities that sum to 1"),
    ({A: [1]}, f"{AT}: is a list, not a mapping {{state: probability}}"),
    ({A: None}, f"{AT}: is empty, not a mapping {{state: probability}}"),
    ({A: "q9"}, f"{AT}: unknown state 'q9'; {STATES}"),
    ({A: {None: 1}}, f"{AT}: the key null is not a name; put it in quotes"),
    ({A: {True: 0.5, "q0": 0.5}}, f"{AT}: the key true is not a name; put it in quotes"),
    ({A: {1.5: 1}}, f"{AT}: the key 1.5 is not a name; put it in quotes"),
    # states and actions
    ({"model/states": ["q0", "q0", "q1", "q2"]}, "model.states[1]: 'q0' is listed twice; first at model.states[0]"),
    ({"model/states": ["q0", True, "q2"]}, "model.states[1]: is true, not a name; put it in quotes"),
    ({"model/states": ["q0", "", "q2"]}, "model.states[1]: '' is not a name; a name has at least one character and no space around it"),
    ({"model/states": ["q0", None, "q2"]}, "model.states[1]: is empty, not a name"),
    ({"model/states": "q0"}, "model.states: is 'q0', not a list"),
    ({"model/states": []}, "model.states: is empty; list at least one state"),
    ({"model/states": GONE}, "model.states: is missing; list the states"),
    ({"model/actions": ["a", "b", "*"]}, "model.actions[2]: '*' is not a name; it stands for all of them"),
    ({"model/actions": GONE}, "model.actions: is missing; list the actions"),
    # transitions
    ({"model/transitions": GONE}, "model.transitions: is missing; say where every action leads: {state: {action: {next: probability}}}"),
    ({"model/transitions": GONE, "model/transitons": {}}, "model.transitons: unknown key; did you mean 'transitions'?"),
    ({"model/transitions": "x"}, "model.transitions: is 'x', not a mapping"),
    ({"model/transitions/q1": GONE}, "model.transitions.q1: is missing; say what every enabled action does there"),
    ({"model/transitions/q1": {}}, "model.transitions.q1: no action is enabled; list at least one"),
    ({"model/transitions/q1": None}, "model.transitions.q1: is empty, not a mapping"),
    ({"model/transitions/qq": {"a": "q0"}}, f"model.transitions.qq: unknown state 'qq'; {STATES}"),
    ({"model/transitions/q0/c": "q0"}, "model.transitions.q0.c: unknown action 'c'; the actions are a, b"),
    # start
    ({"model/start": GONE}, "model.start: is missing; say where the run starts: a state, or {state: probability}"),
    ({"model/start": "q9"}, f"model.start: unknown state or label 'q9'; {NAMES}"),
    ({"model/start": ["q0", "q0"]}, "model.start[1]: 'q0' is listed twice; keep one of them"),
    ({"model/start": []}, "model.start: is empty; say where the run starts: a state, or {state: probability}"),
    ({"model/start": {"q0": 0.5}}, f"model.start: probabilities sum to 0.5, not 1; {SUM}"),
    ({"model/start": 0.5}, "model.start: is 0.5, not a state, a list of states or a mapping {state: probability}"),
    ({"model/start": [0.5, 0.4, 0]}, f"model.start: probabilities sum to 0.9, not 1; {SUM}"),
    ({"model/start": np.array([1.0, 0.0])}, "model.start: has 2 entries, not 3"),
    ({"model/start": np.array([1.5, -0.5, 0])[::2]}, "model.start: has 2 entries, not 3"),
    ({"model/start": np.array([1.0, -0.5, 0.5])}, f"model.start[1]: is -0.5, not a probability; {RANGE}"),
    # rewards
    ({"model/rewards": {"q0": "x"}}, "model.rewards.q0: 'x' is text, not a number; write it as a decimal number"),
    ({"model/rewards": {"q0": {"c": 2}}}, "model.rewards.q0.c: unknown action 'c'; the actions are a, b"),
    ({"model/rewards": {"q9": 2}}, f"model.rewards.q9: unknown state 'q9'; {STATES}"),
    ({"model/rewards": {"q0": INF}}, "model.rewards.q0: is inf, not a finite number"),
    ({"model/rewards": [1, 2]}, "model.rewards: has 2 entries, not 3"),
    ({"model/rewards": [[1, 2], [3]]}, "model.rewards: is ragged: its rows differ in length"),
    ({"model/rewards": [[1], [2], [3]]}, "model.rewards: has shape 3 x 1, not 3 x 2"),
    ({"model/rewards": ["x", 1, 2]}, "model.rewards: holds something other than numbers; every entry must be a number"),
    # labels
    ({"model/labels/p": "q9"}, f"model.labels.p: unknown state 'q9'; {STATES}"),
    ({"model/labels/p": {"q0": 1}}, "model.labels.p: is a mapping, not a name"),
    ({'model/labels/p"': []}, "model.labels.p\": 'p\"' cannot name a label; labels stand in guards: leave out \" & | ! ~ ( )"),
    ({"model/labels/true": []}, "model.labels.true: 'true' cannot name a label; it has a meaning of its own"),
    ({"model/labels": []}, "model.labels: is a list, not a mapping"),
    ({"model/labels/secret": ["q9"]}, f"model.labels.secret[0]: unknown state 'q9'; {STATES}"),
    # observer
    ({"observer": GONE}, "observer: is missing; say what the observer sees"),
    ({"observer": 5}, "observer: is 5, not a mapping"),
    ({"observer": {}}, "observer: has none of emissions, sensors; give exactly one"),
    ({"observer": {"emisions": {}}}, "observer.emisions: unknown key; did you mean 'emissions'?"),
    ({"observer": EMIT | {"sensors": {}}}, "observer: has 'emissions' and 'sensors'; keep one of them"),
    ({"observer": EMIT | {"null": "x"}}, "observer.null: does not go with 'emissions'; remove it"),
    ({"observer/emissions/q1": GONE}, "observer.emissions.q1: is missing; say what is seen there, or add '*' for all others"),
    ({"observer/emissions/q1": {"R": 0.5}}, f"observer.emissions.q1: probabilities sum to 0.5, not 1; {SUM}"),
    ({"observer/emissions/q1": {"R": 0.5, None: 0.5}}, "observer.emissions.q1: the key null is not a name; put it in quotes"),
    ({"observer/emissions/q9": "R"}, f"observer.emissions.q9: unknown state 'q9'; {STATES}"),
    ({"observer/observations": ["N", "R"]}, "observer.emissions.q2.B: unknown observation 'B'; the observations are N, R"),
    ({"observer": EMIT | {"actions": {"a": "x"}}}, "observer.actions.b: is missing; say what is seen there, or add '*' for all others"),
    ({"observer": EMIT | {"actions": {"*": "x", "c": "y"}}}, "observer.actions.c: unknown action 'c'; the actions are a, b"),
    ({"observer": EMIT | {"actions": 3}}, "observer.actions: is 3, not a mapping"),
    ({"observer": {"emissions": np.eye(2)}}, "observer.emissions: has shape 2 x 2, not 3 x 2"),
    ({"observer": {"emissions": [[1], [1], [0]]}}, "observer.emissions[2]: is 0, not a distribution; make the row sum to 1"),
    ({"observer": {"emissions": [[1], [0.9], [1]]}}, f"observer.emissions[1]: probabilities sum to 0.9, not 1; {SUM}"),
    # sensors
    ({"observer": {"sensors": {}}}, "observer.sensors: is empty; list at least one sensor"),
    ({"observer": {"sensors": {"A": {"covers": "goal", "detect": 1}}}}, "observer.sensors.A.detect: unknown key; did you mean 'detects'?"),
    ({"observer": {"sensors": {"A": {"detects": 1}}}}, "observer.sensors.A.covers: is missing; list the states, cells or labels in its range"),
    ({"observer": {"sensors": {"A": {"covers": ["gaol"], "detects": 1}}}}, "observer.sensors.A.covers[0]: unknown state or label 'gaol'; did you mean 'goal'?"),
    ({"observer": {"sensors": {"A": {"covers": "goal", "detects": 2}}}}, f"observer.sensors.A.detects: probability 2 is above 1; {RANGE}"),
    ({"observer": {"sensors": {"A+B": {"covers": "goal", "detects": 1}}}}, "observer.sensors.A+B: 'A+B' cannot name a sensor; '+' joins the sensors that fire together"),
    ({"observer": {"sensors": {"null": {"covers": "q0", "detects": 1}}}}, "observer.sensors.null: is also the name for no sensor at all; rename it or set 'null'"),
    ({"observer": {"sensors": {"A": {"covers": "q0", "detects": 0.5}, "B": {"covers": "q0", "detects": 0.5}}, "null": "A+B"}}, "observer.null: 'A+B' cannot name what no sensor shows; '+' joins the sensors that fire together"),
    ({"observer": {"sensors": {f"s{i}": {"covers": ["q0"], "detects": 0.5} for i in range(11)}}}, "observer.sensors: state 'q0' would have 2,048 joint outcomes, more than 1,024; let fewer sensors overlap or give no false alarms"),
    # secret
    ({"secret": GONE}, "secret: is missing; say what must stay hidden"),
    ({"secret": "goal"}, "secret: is 'goal', not a mapping"),
    ({"secret": {}}, "secret: has none of last_state, initial_state, state_at, steps_ago, visited, automaton, ltlf, regex; give exactly one"),
    ({"secret": {"last_state": {"other": ["q1"], "x": ["q0"]}}}, "secret.last_state.other: states in no class are 'other' too: q2; rename it, or list them as well"),
    ({"secret": {"last_states": "goal"}}, "secret.last_states: unknown key; did you mean 'last_state'?"),
    ({"secret": {"last_state": "q0", "visited": "q1"}}, "secret: has 'last_state' and 'visited'; keep one of them"),
    ({"secret": {"last_state": False}}, f"secret.last_state: is false, not {FORMS}"),
    ({"secret": {"last_state": "gaol"}}, "secret.last_state: unknown state or label 'gaol'; did you mean 'goal'?"),
    ({"secret": {"initial_state": {}}}, f"secret.initial_state: is empty; give {FORMS}"),
    ({"secret": {"initial_state": {"x": ["q0"], "y": ["q0", "q1"]}}}, "secret.initial_state.y: state 'q0' is in 'x' too; put it in one class"),
    ({"secret": {"visited": True}}, "secret.visited: is true, not a label or a list of states"),
    ({"secret": {"visited": "goal", "reveal": "progress"}}, "secret.reveal: does not go with 'visited'; only an automaton reveals progress or acceptance"),
    ({"secret": {"state_at": {"time": 3, "states": "goal"}}}, "secret.state_at.time: is 3, not a whole number from 0 to 2"),
    ({"secret": {"state_at": {"time": 1}}}, f"secret.state_at.states: is missing; give {FORMS}"),
    ({"secret": {"steps_ago": {"steps": -1, "states": True}}}, "secret.steps_ago.steps: is -1, not a whole number from 0 to 2"),
    ({"secret": {"ltlf": "F p"}}, "secret.ltlf: unknown label 'p'; the labels are secret, goal"),
    ({"secret": {"regex": "a*"}}, "secret.regex: unknown label 'a'; the labels are secret, goal"),
    ({"secret": {"ltlf": "F ("}}, "secret.ltlf: 'F (' cannot be read: at character 4: expected a label, an operator such as 'F', '!' or '(', found the end"),
    ({"secret": {"regex": 3}}, "secret.regex: is 3, not text; write it in quotes, e.g. \"p .* q\""),
    ({"secret": {"ltlf": "F goal", "minimal": "no"}}, "secret.minimal: is 'no', not true or false"),
    ({"secret": {"visited": "goal", "minimal": False}}, "secret.minimal: does not go with 'visited'; only formulas and expressions become automata"),
    ({"secret": {"ltlf": "F goal", "reveal": "all"}}, "secret.reveal: is 'all', not 'progress' or 'acceptance'"),
    # automaton
    (automaton(initial="z"), "secret.automaton.initial: unknown automaton state 'z'; the automaton states are x, y"),
    (automaton(edges=GONE), "secret.automaton.edges: is missing; list its edges"),
    (automaton(accepting=["z"]), "secret.automaton.accepting[0]: unknown automaton state 'z'; the automaton states are x, y"),
    (automaton(reads="leaving"), "secret.automaton.reads: is 'leaving', not 'entered' or 'left'"),
    (automaton() | {"secret/reveal": "acceptance"}, "secret.automaton.accepting: is missing; list the accepting states"),
    (automaton() | {"secret/reveal": "all"}, "secret.reveal: is 'all', not 'progress' or 'acceptance'"),
    (edge(to=GONE), "secret.automaton.edges[0].to: is missing; name a state"),
    (edge(when=3), "secret.automaton.edges[0].when: is 3, not a guard; write labels with ! & | in quotes"),
    (edge(when="gaol"), "secret.automaton.edges[0].when: unknown label 'gaol'; the labels are secret, goal"),
    (edge(when="goal &"), "secret.automaton.edges[0].when: 'goal &' is not a guard: at character 7: expected a label, '!' or '(', found 'the end'"),
    # policy
    (conditions(), "policy.conditions_on: is empty; list at least one, e.g. [state]"),
    (conditions("state", "tim"), "policy.conditions_on[1]: unknown condition 'tim'; did you mean 'time'?"),
    (conditions("state", "state"), "policy.conditions_on[1]: 'state' is listed twice; keep one of them"),
    (conditions("automaton"), "policy.conditions_on[0]: 'automaton' needs a secret with an automaton; use another condition or another secret"),
    (conditions("last_states"), "policy.conditions_on[0]: 'last_states' needs a value; say how many: {last_states: 2}"),
    (conditions({"last_states": 0}), "policy.conditions_on[0].last_states: is 0, not a whole number from 1 to 1,000"),
    (conditions({"foo": 1}), "policy.conditions_on[0].foo: unknown key; the keys here are last_states, memory, observations"),
    (conditions(3), "policy.conditions_on[0]: is 3, not a condition; the conditions are state, time, automaton, start, last_states, memory, observations"),
    ({"policy": {"conditions_on": "state"}}, "policy.conditions_on: is 'state', not a list"),
    # memory
    (machine(nodes=0), f"{MEMORY}.nodes: is 0, not a whole number from 1 to 10,000"),
    (machine(start="x"), f"{MEMORY}.start: unknown node 'x'; the nodes are m, n"),
    (machine(start_in={"q9": "m"}), f"{MEMORY}.start_in.q9: unknown state 'q9'; {STATES}"),
    (machine(start=[[1, 0], [0, 0], [1, 0]]), f"{MEMORY}.start[1]: is all zero; make the row sum to 1"),
    (machine(update=[{"from": "m"}]), f"{MEMORY}.update[0].to: is missing; name a node, or {{node: probability}}"),
    (machine(update=[{"from": "m", "to": {"n": 0.5}}]), f"{MEMORY}.update[0].to: probabilities sum to 0.5, not 1; {SUM}"),
    (machine(update=[{"from": "m", "to": "n", "action": ["c"]}]), f"{MEMORY}.update[0].action[0]: unknown action 'c'; the actions are a, b"),
    (machine(update=np.zeros((2, 2, 2, 2))), f"{MEMORY}.update: has shape 2 x 2 x 2 x 2, not 2 x 3 x 2 x 2"),
    # the rest
    ({"horizon": GONE}, "horizon: is missing; say how many transitions a run has"),
    ({"horizon": -1}, "horizon: is -1, not a whole number from 0 to 1,000,000"),
    ({"horizon": 2.5}, "horizon: is 2.5, not a whole number"),
    ({"horizon": True}, "horizon: is true, not a whole number"),
    ({"horizon": "3"}, "horizon: '3' is text, not a number; remove the quotes"),
    ({"discount": 0}, "discount: is 0, not a number above 0 and up to 1"),
    ({"discount": 1.5}, "discount: is 1.5, not a number above 0 and up to 1"),
    ({"task": {"return_at_least": "much"}}, "task.return_at_least: 'much' is text, not a number; write it as a decimal number"),
    ({"task": {"over": "ever"}}, "task.over: is 'ever', not 'horizon' or 'forever'"),
    ({"task": {"over": "forever"}}, "task.over: 'forever' needs a discount below 1; the discount is 1"),
    # requirements
    ({"task": {"objective": "hide"}}, "task.objective: is 'hide', not 'maximise' or 'minimise'"),
    ({"task": {"reach": "goal"}}, "task.probability_at_least: is missing; give the threshold, a number from 0 to 1"),
    ({"task": {"reach": "gaol", "probability_at_least": 1}}, "task.reach: unknown state or label 'gaol'; did you mean 'goal'?"),
    ({"task": {"reach": True, "probability_at_least": 1}}, "task.reach: is true, not a label or a list of states"),
    ({"task": {"reach": "goal", "ltlf": "F goal", "probability_at_least": 1}}, "task: has 'reach' and 'ltlf'; keep one of them"),
    ({"task": {"probability_at_least": 1}}, "task: has none of reach, automaton, ltlf, regex; give exactly one"),
    ({"task": {"ltlf": "F gaol", "probability_at_least": 1}}, "task.ltlf: unknown label 'gaol'; the labels are secret, goal"),
    ({"task": {"ltlf": "F goal", "probability_at_least": 2}}, f"task.probability_at_least: probability 2 is above 1; {RANGE}"),
    ({"task": {"reach": "goal", "probability_at_least": 1, "minimal": True}}, "task.minimal: does not go with 'reach'; remove it"),
    (required(3), f"{FIRST}: is 3, not a mapping"),
    (required({"reward": "fuel", "return_at_least": 1}), f"{FIRST}.reward: unknown reward 'fuel'; there are no named rewards"),
    (required({"return_at_least": 1}), f"{FIRST}.reward: is missing; name one of the model's named_rewards"),
    (required({"reward": "fuel", "return_at_least": 1}) | {"model/named_rewards": {"full": {"q0": 1}}}, f"{FIRST}.reward: unknown reward 'fuel'; did you mean 'full'?"),
    (required({"reach": "goal", "probability_at_last": 1}), f"{FIRST}.probability_at_last: unknown key; did you mean 'probability_at_least'?"),
    ({"model/named_rewards": {"fuel": {"q9": 1}}}, f"model.named_rewards.fuel.q9: unknown state 'q9'; {STATES}"),
    ({"model/named_rewards": []}, "model.named_rewards: is a list, not a mapping"),
    # what is seen after actions
    ({"observer": EMIT | {"after_action": {"c": EMIT["emissions"]}}}, "observer.after_action.c: unknown action 'c'; the actions are a, b"),
    ({"observer": EMIT | {"after_action": {"a": {"q9": "x", "*": "x"}}}}, f"observer.after_action.a.q9: unknown state 'q9'; {STATES}"),
    ({"opaq": 2}, "opaq: is 2, a format this version does not read; write 1"),
    ({"name": True}, "name: is true, not a name; put it in quotes"),
    ({"description": 3}, "description: is 3, not text"),
    ({"colour": 3}, "colour: unknown key; the keys here are opaq, name, description, model, grid, observer, secret, horizon, discount, task, policy, prism, jani, drn, umb, pomdp, gymnasium"),
    ({"model": GONE}, "model: is missing; give a model or a grid"),
    ({"model": GONE, "modle": {}}, "modle: unknown key; did you mean 'model'?"),
    ({"model": 5}, "model: is 5, not a mapping"),
    ({"model": {"prism": "x"}}, "model.prism: is read by load_problem only; read it first and give its model as 'model'"),
    ({"model": GONE, "umb": "x"}, "umb: is read by load_problem only; read it first and give its model as 'model'"),
    ({"grid": {}}, "has 'model' and 'grid'; keep one of them"),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "message"), ONE_FAULT)
def test_one_fault_one_message(edits: dict[str, Any], message: str) -> None:
    errors, _ = findings(edited(TWO_SINK, edits))
    assert errors == [message]


WARNED: list[tuple[dict[str, Any], str]] = [
    ({A: {"q0": 0.333333, "q1": 0.333333, "q2": 0.333333}}, f"{AT}: probabilities sum to 0.999999, not 1; they were scaled to sum to 1"),
    ({"model/transitions/q0": {"a": "q0"}}, "model.states: 2 states are never reached from the start: q1, q2"),
    ({"secret": {"last_state": []}}, "secret.last_state: holds no state; there is nothing to hide"),
    ({"opaq": GONE}, "opaq: is missing; it was taken as 1, the version of the file format"),
    ({"model/labels/q0": ["q1"], "secret/last_state": "q0"}, "secret.last_state: 'q0' is a state and a label; it was read as the state; rename one of them"),
    ({"model/transitions/q1": {"a": "q1"}, "model/rewards": {"q1": {"b": 1}}}, "model.rewards.q1.b: action 'b' is not enabled there; it is never earned"),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "message"), WARNED)
def test_warnings(edits: dict[str, Any], message: str) -> None:
    assert findings(edited(TWO_SINK, edits)) == ([], [message])


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
    assert caught.value.lines() == [
        "model.transitions.q0.a: probabilities sum to 0.8, not 1; make them sum to 1",
        "model.transitions.q0.b.q1: '0.5' is text, not a number; remove the quotes",
        "model.transitions.q1.*.q7: unknown state 'q7'; the states are q0, q1, q2",
        "model.start.q0: probability -1 is negative; use a number from 0 to 1",
        "model.rewards.q1: 'one' is text, not a number; write it as a decimal number",
        "horizon: is -2, not a whole number from 0 to 1,000,000",
        "discount: is 2, not a number above 0 and up to 1",
        "observer.emissions.q1: is missing; say what is seen there, or add '*' for all others",
        "secret.last_state: unknown state or label 'secrte'; did you mean 'secret'?",
        "task.return_at_lest: unknown key; did you mean 'return_at_least'?",
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


@pytest.mark.parametrize(("name", "place"), CASES)
def test_any_value_anywhere_never_crashes(name: str, place: str) -> None:
    for value in VALUES:
        findings(edited(EXAMPLES[name], {place: value}))
