"""Objects made or changed in Python are checked as files are, once, before anything is computed."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import opaq
from counting import count_calls
from opaq.errors import Fault
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.automaton import Edge, parse_guard

PROBLEM = opaq.load_problem("two-sink")
MDP, OBSERVER = PROBLEM.mdp, PROBLEM.observer
CLASSES = opaq.StateClasses(("no", "yes"), ints([0, 1, 0]))
AUTOMATON = opaq.Automaton(("p", "q"), 0, frozenset({1}), (Edge(0, 1, parse_guard("true")),))
POLICY = opaq.compile_problem(PROBLEM).policy(opaq.compile_problem(PROBLEM).process.uniform())
WRONG: tuple[Any, ...] = (-1, 2.5, True, "x", None, math.nan, 10**9, [], object())
OBJECTS: tuple[Any, ...] = (
    PROBLEM,
    MDP,
    OBSERVER,
    CLASSES,
    AUTOMATON,
    POLICY,
    opaq.LastState(CLASSES),
    opaq.StateAt(1, CLASSES),
    opaq.StepsAgo(1, CLASSES),
    opaq.Visited(ints([1])),
    opaq.Language(AUTOMATON),
    opaq.Task(0.5),
    opaq.ReturnAtLeast("fuel", 1.0),
    opaq.Reach(ints([1]), 0.5),
    opaq.Satisfy(AUTOMATON, 0.5),
    opaq.free_memory(MDP, 2),
    opaq.LastStates(2),
    opaq.MemoryNode(opaq.free_memory(MDP, 2)),
    opaq.Observations(2),
    opaq.ExpectedLoss.of({"guess": {"yes": 1.0}}),
    opaq.Budget(),
    opaq.SolveOptions(),
)
# What looks wrong and is not: class -> field -> values.
TEXT, SET = ("x",), ([],)
RIGHT: dict[str, dict[str, tuple[Any, ...]]] = {
    "Problem": {"name": TEXT, "of": TEXT, "for_": TEXT},
    "Automaton": {"edges": SET},
    "Visited": {"states": SET, "name": TEXT},
    "Task": {"return_at_least": (-1, 2.5, None, 10**9), "requirements": SET, "minimise": (True,)},
    "ReturnAtLeast": {"reward": TEXT, "threshold": (-1, 2.5, 10**9)},
    "Reach": {"states": SET, "name": TEXT},
    "Satisfy": {"name": TEXT},
    "Memory": {"free": (True,)},
    "Budget": {"nodes": (10**9,), "memory": (10**9,), "whole_nodes": (10**9,), "whole_work": (2.5, 10**9)},
    "SolveOptions": {
        "conditions": ("x",),
        "seed": (10**9,),
        "max_beliefs": (10**9,),
        "max_memory": (2.5, 10**9),
        "samples": (10**9,),
        "time_limit": (2.5, 10**9),
    },
}


def is_right(made: Any, name: str, value: Any) -> bool:
    default = next(field.default for field in fields(made) if field.name == name)
    listed = RIGHT.get(type(made).__name__, {}).get(name, ())
    return (value is None and default is None) or any(type(value) is type(one) and value == one for one in listed)


@pytest.mark.parametrize("made", OBJECTS, ids=lambda made: type(made).__name__)
def test_a_field_of_another_kind_is_refused(made: Any) -> None:
    taken = []
    for field in fields(made):
        for value in WRONG:
            if is_right(made, field.name, value):
                continue
            try:
                replace(made, **{field.name: value})
            except opaq.InputError:
                continue
            taken.append(f"{field.name}={value!r}")
    assert taken == []


def rows(*values: list[float]) -> SparseRows:
    return SparseRows.from_dense(values)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: replace(PROBLEM, horizon=-4), "horizon: is -4, not a whole number from 0 to 1,000,000"),
    (lambda: replace(PROBLEM, horizon=-1), "horizon: is -1, not a whole number from 0 to 1,000,000"),
    (lambda: replace(PROBLEM, horizon=2.5), "horizon: is 2.5, not a whole number"),  # type: ignore[arg-type]
    (lambda: replace(PROBLEM, horizon=10**9), "horizon: is 1000000000, not a whole number from 0 to 1,000,000"),
    (lambda: replace(PROBLEM, discount=-3), "discount: is -3, not a number above 0 and up to 1"),
    (lambda: replace(PROBLEM, discount=1.5), "discount: is 1.5, not a number above 0 and up to 1"),
    (lambda: replace(PROBLEM, discount=math.nan), "discount: is nan, not a number above 0 and up to 1"),
    (lambda: replace(MDP, start=floats([1.0, 0.0])), "model.start: has shape 2, not 3"),
    (lambda: replace(MDP, start=floats([0.5, 0.0, 0.0])), "model.start: probabilities sum to 0.5, not 1"),
    (lambda: replace(MDP, start=floats([-0.5, 1.0, 0.5])), "model.start[0]: probability -0.5 is negative"),
    (lambda: replace(MDP, start=floats([math.nan, 1, 0])), "model.start[0]: is nan, not a finite number"),
    (lambda: replace(MDP, states=("q0", "q0", "q2")), "model.states: 'q0' is listed twice"),
    (lambda: replace(MDP, states=("q0", " q1", "q2")), "model.states[1]: ' q1' is not a name"),
    (lambda: replace(MDP, states=("q0", "q1", "")), "model.states[2]: '' is not a name"),
    (lambda: replace(MDP, states=("q0", "*", "q2")), "model.states: '*' is not a name"),
    (lambda: replace(MDP, states=("q0", "q1", "q" * 10_001)), "model.states: has a name that is too long"),
    (lambda: replace(MDP, states=("q0", np.str_("q1"), "q2")), "model.states[1]: is 'q1', not a name"),
    (lambda: replace(MDP, states=type(MDP.states)(("q0", "q0", "q2"))), "model.states: 'q0' is listed twice"),
    (lambda: replace(MDP, rewards=floats([0.0])), "model.rewards: has shape 1, not 6"),
    (lambda: replace(MDP, labels={"goal": ints([3])}), "model.labels.goal: names state 3, but there are 3"),
    (lambda: replace(MDP, labels={"goal": None}), "model.labels.goal: holds something other than whole numbers"),
    (lambda: opaq.Visited(np.array(1)), "secret.states: has 0 axes, not 1"),
    (lambda: replace(MDP, named_rewards={"fuel": [1.0]}), "model.named_rewards.fuel: has shape 1, not 6"),
    (lambda: replace(MDP, choice_start=ints([0, 0, 3, 6])), "no action is enabled in state 'q0'"),
    (lambda: replace(MDP, choice_action=ints([0, 0, 0, 1, 0, 1])), "enables an action twice in one state"),
    (lambda: replace(MDP, transitions=scaled(0.8)), "model.transitions.q0.a: probabilities sum to 0.8, not 1"),
    (lambda: replace(MDP, transitions=scaled(math.nan)), "model.transitions.q0.a: is nan, not a finite number"),
    (lambda: replace(MDP, transitions=rows([1.0, 0, 0])), "model.transitions: has shape 1 x 3, not 6 x 3"),
    (lambda: opaq.Observer(("u", "v"), rows([0.5, 0.6])), "observer.emission[0]: probabilities sum to 1.1, not 1"),
    (lambda: opaq.Observer(("u", "v"), rows([1.5, -0.5])), "observer.emission[0]: probability 1.5 is above 1"),
    (lambda: opaq.Observer(("u",), rows([0.5, 0.5])), "observer.emission: has shape 1 x 2, not 1 x 1"),
    (lambda: replace(PROBLEM, observer=opaq.Observer(("u",), rows([1.0]))), "emits in 1 states, but the model has 3"),
    (lambda: opaq.StateClasses(("a", "b"), ints([0, 2, 1])), "names class 2, but there are 2"),
    (lambda: replace(PROBLEM, secret=opaq.Visited(ints([7]))), "secret: names state 7, but the model has 3"),
    (lambda: replace(PROBLEM, secret=opaq.StateAt(9, CLASSES)), "secret: is 9, not a whole number from 0 to 2"),
    (lambda: replace(PROBLEM, task=opaq.Task(over="forever")), "task.over: 'forever' needs a discount below 1"),
    (
        lambda: replace(PROBLEM, task=opaq.Task(requirements=(opaq.ReturnAtLeast("fuel", 1),))),
        "task.requirements[0].reward: unknown reward 'fuel'",
    ),
    (
        lambda: replace(PROBLEM, task=opaq.Task(requirements=(opaq.Reach(ints([5]), 0.5),))),
        "task.requirements[0].reach: names state 5, but the model has 3",
    ),
    (
        lambda: replace(PROBLEM, policy_class=opaq.PolicyClass(("automaton",))),
        "policy: 'automaton' needs a secret with an automaton",
    ),
    (
        lambda: replace(PROBLEM, policy_class=opaq.PolicyClass(("memory",), memory=opaq.free_memory(larger(), 2))),
        "policy.start: has 4 entries, not 3",
    ),
    (lambda: opaq.Policy(opaq.PolicyClass(), {("q0",): {"a": "1"}}), "policy row state=q0: a: is '1', not a number"),
    (lambda: opaq.Policy(opaq.PolicyClass(), {("q0",): {"a": 0.3}}), "policy row state=q0: probabilities sum to 0.3"),
    (lambda: opaq.Policy(opaq.PolicyClass(), {"q0": {"a": 1.0}}), "the key 'q0' is not that of a row"),
    (
        lambda: opaq.measure(PROBLEM, opaq.Policy(POLICY.policy_class, {**POLICY.rows, ("q9",): {"a": 1.0}})),
        "policy row state=q9: unknown state 'q9'",
    ),
    (
        lambda: opaq.measure(PROBLEM, opaq.Policy(POLICY.policy_class, {**POLICY.rows, ("q0",): {"c": 1.0}})),
        "policy row state=q0: 'c' is not enabled there",
    ),
]


def scaled(share: float) -> SparseRows:
    """The transitions with another first probability."""
    table = MDP.transitions
    return SparseRows(table.starts, table.columns, floats([share, *table.values[1:]]), table.num_columns)


def larger() -> opaq.MDP:
    states = [str(state) for state in range(4)]
    moves = {state: {"a": state, "b": state} for state in states}
    return opaq.build_mdp(states=states, actions=["a", "b"], transitions=moves, start="0")


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_a_file_could_not_say_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(opaq.InputError) as refused:
        make()
    assert words in str(refused.value)


def test_every_fault_is_reported() -> None:
    with pytest.raises(opaq.InputError) as refused:
        replace(PROBLEM, horizon=-1, discount=2.0, name=3)  # type: ignore[arg-type]
    assert [fault.where for fault in refused.value.faults] == ["horizon", "discount", "name"]


def test_nothing_can_be_changed_after_it_was_checked() -> None:
    mine = {"goal": np.array([1, 2])}
    amounts = np.ones(MDP.num_choices)
    mdp = replace(MDP, labels=mine, named_rewards={"fuel": amounts})
    problem = replace(PROBLEM, mdp=mdp)
    mine["goal"][0], amounts[0] = 0, 7.0
    mine["more"] = np.array([0])
    assert [states.tolist() for states in problem.mdp.labels.values()] == [[1, 2]]
    assert problem.mdp.named_rewards["fuel"][0] == 1.0
    for copied in (problem, pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert copied == problem
        for mapping in (copied.mdp.labels, copied.mdp.named_rewards, POLICY.rows, POLICY.rows[("q0",)]):
            with pytest.raises(TypeError, match="cannot be changed"):
                mapping["new"] = 1  # type: ignore[index]
            with pytest.raises(TypeError, match="cannot be changed"):
                mapping.clear()  # type: ignore[attr-defined]
        for array in (copied.mdp.start, copied.mdp.labels["goal"], copied.mdp.transitions.values):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    assert pickle.loads(pickle.dumps(POLICY)) == copy.deepcopy(POLICY) == POLICY


def test_sums_that_miss_one_by_rounding_are_scaled() -> None:
    observer = opaq.Observer(("u", "v"), rows([0.3, 0.700001]))
    assert observer.emission.values.sum() == pytest.approx(1.0, abs=1e-15)
    policy = opaq.Policy(opaq.PolicyClass(), {("q0",): {"a": 0.3, "b": 0.700001}})
    assert math.fsum(policy.rows[("q0",)].values()) == pytest.approx(1.0, abs=1e-15)


def test_masked_entries_are_refused() -> None:
    masked = np.ma.masked_array([[0.5, 0.5], [0.5, 0.5]], mask=[[0, 0], [0, 1]])
    whole = np.ma.masked_array([[0.5, 0.5], [0.5, 0.5]], mask=False)
    states = {"states": ["s", "t"], "actions": ["a"], "start": "s"}
    assert opaq.build_mdp(transitions={"a": whole}, **states).num_states == 2
    for stated in ({"transitions": {"a": masked}}, {"transitions": {"a": whole}, "rewards": masked[:, 1]}):
        with pytest.raises(opaq.InputError, match="has masked entries, which have no value; fill them"):
            opaq.build_mdp(**states | stated)
    with pytest.raises(opaq.InputError, match=r"model\.rewards: has masked entries"):
        replace(MDP, rewards=np.ma.masked_array(MDP.rewards, mask=MDP.rewards == MDP.rewards))
    chosen = np.ma.masked_array([True, False, False], mask=[0, 1, 0])
    with pytest.raises(opaq.InputError, match=r"secret\.visited: has masked entries"):
        opaq.build_secret({"visited": chosen}, MDP)


def test_large_models_are_checked_at_once() -> None:
    count = 20_000
    states = np.arange(count)
    ring = SparseRows.from_entries(states, (states + 1) % count, np.ones(count), shape=(count, count))
    names, start = tuple(map(str, states)), floats(states == 0)

    def make() -> opaq.MDP:
        return opaq.MDP(names, ("go",), start, ints(range(count + 1)), ints(states * 0), ring, floats(start), {})

    assert count_calls(make) < 1000


def test_an_error_survives_pickling_and_copying() -> None:
    error = opaq.InputError([Fault("horizon", "is -4"), Fault("discount", "is 2")], "mine.yaml", example="horizon: 4")
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert str(copied) == str(error) == "mine.yaml: horizon: is -4\nmine.yaml: discount: is 2\nhorizon: 4"
        assert (copied.faults, copied.source, copied.example) == (error.faults, error.source, error.example)


def test_names_are_checked_once_and_again_after_copying() -> None:
    assert replace(MDP, labels={}).states is MDP.states
    for copied in (copy.copy(MDP.states), copy.deepcopy(MDP.states), pickle.loads(pickle.dumps(MDP.states))):
        assert copied == MDP.states
        assert type(copied) is tuple
    again = pickle.loads(pickle.dumps(MDP))
    assert again == MDP
    assert type(again.states) is type(MDP.states)
