"""The oracle itself, against published figures, closed forms and an independent package."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import log2

import numpy as np
import pytest

import oracles
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.automaton import Automaton, Edge, parse_guard
from opaq.model.conditions import Memory
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Reach, ReturnAtLeast, Satisfy, Task
from opaq.model.secret import Language, LastState, StateClasses
from random_problems import CONDITIONS, SECRETS, random_policy, random_problem

Moves = dict[tuple[str, str], dict[str, float]]


def build(states: list[str], moves: Moves, rewards: dict[str, float], labels: dict[str, list[str]]) -> MDP:
    """An MDP that starts in its first state and whose rewards depend on the state alone."""
    actions = sorted({action for _, action in moves})
    choices = [(s, a) for s in states for a in actions if (s, a) in moves]
    matrix = [[moves[choice].get(after, 0.0) for after in states] for choice in choices]
    return MDP(
        states=tuple(states),
        actions=tuple(actions),
        start=floats(np.eye(len(states))[0]),
        choice_start=ints(np.cumsum([0, *(sum(s == state for s, _ in choices) for state in states)])),
        choice_action=ints([actions.index(action) for _, action in choices]),
        transitions=SparseRows.from_dense(matrix),
        rewards=floats([rewards.get(state, 0.0) for state, _ in choices]),
        labels={label: ints([states.index(state) for state in carriers]) for label, carriers in labels.items()},
    )


def two_sink_problem() -> Problem:
    """REFERENCE section 1."""
    stay = {(sink, action): {sink: 1.0} for sink in ("q1", "q2") for action in "ab"}
    mdp = build(["q0", "q1", "q2"], {("q0", "a"): {"q0": 1.0}, ("q0", "b"): {"q1": 0.5, "q2": 0.5}, **stay}, {}, {})
    emission = SparseRows.from_dense([[0, 0, 1], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    classes = StateClasses(("no", "yes"), ints([0, 1, 0]))
    return Problem(mdp, Observer(("R", "B", "N"), emission), LastState(classes), 2)


def graph_problem() -> Problem:
    """REFERENCE section 3, the paper's text."""
    half = lambda first, second: {first: 0.5, second: 0.5}  # noqa: E731
    moves: Moves = {
        ("0", "a1"): {"h1": 1.0},
        ("0", "a2"): {"1": 1.0},
        ("1", "a1"): half("3", "4"),
        ("1", "a2"): {"h2": 1.0},
        ("2", "a1"): {"3": 1.0},
        ("2", "a2"): {"h1": 1.0},
        ("3", "a1"): half("1", "h2"),
        ("3", "a2"): {"2": 1.0},
        ("4", "a1"): half("1", "h2"),
        ("4", "a2"): {"3": 1.0},
        **{("h1", action): {"2": 1.0} for action in ("a1", "a2")},
        **{("h2", action): half("3", "4") for action in ("a1", "a2")},
    }
    states = ["0", "1", "2", "3", "4", "h1", "h2"]
    mdp = build(states, moves, {"2": 1.0, "4": 0.1}, {"pg": ["2", "4"], "ps": ["h1", "h2"]})
    shown = {"0": {"0": 1}, "h1": {"h1": 1}, "2": {"2": 1}}
    shown |= {s: {"r": 0.5, "null": 0.5} for s in ("1", "4")} | {s: {"b": 0.5, "null": 0.5} for s in ("3", "h2")}
    observations = ("0", "h1", "2", "r", "b", "null")
    emission = SparseRows.from_dense([[shown[s].get(o, 0) for o in observations] for s in states])
    edges = tuple(Edge(i, j, parse_guard(guard)) for i, j, guard in [(0, 1, "pg"), (0, 2, "ps"), (2, 3, "pg")])
    secret = Language(Automaton(("q0", "q1", "q2", "q3"), 0, frozenset({1, 3}), edges))
    return Problem(mdp, Observer(observations, emission), secret, 5, task=Task(0.2))


def test_graph_under_the_uniform_policy() -> None:
    problem = graph_problem()
    joint = oracles.joint(problem)
    assert oracles.opacity(joint) == pytest.approx(0.36687189913094, abs=1e-10)
    assert oracles.guess_error(joint) == pytest.approx(0.1220703125, abs=1e-10)
    assert oracles.expected_return(problem) == pytest.approx(1.174609375, abs=1e-10)


def two_sink_policy(chance: float) -> Policy:
    sinks = {(sink,): {"a": 1.0} for sink in ("q1", "q2")}
    return Policy(PolicyClass(), {("q0",): {"a": chance, "b": 1 - chance}, **sinks})


@pytest.mark.parametrize("chance", np.linspace(0, 1, 50))
def test_two_sink_closed_form(chance: float) -> None:
    a = float(chance)
    red, other = -(a**2) / 4 + a / 8 + 1 / 8, 3 * a**2 / 4 + a / 8 + 1 / 8
    plogp = [p * log2(p) if p > 0 else 0.0 for p in (red, other, red + other)]
    joint = oracles.joint(two_sink_problem(), two_sink_policy(a))
    assert oracles.opacity(joint) == pytest.approx(plogp[2] - plogp[0] - plogp[1], abs=1e-12)


def test_a_first_then_b_with_memory_hides_half_a_bit() -> None:
    to_second = SparseRows.from_dense([[0, 1]])
    memory = Memory(("first", "later"), SparseRows.from_dense([[1, 0]] * 3), ints(np.zeros((2, 3, 2))), to_second)
    rows = {("first",): {"a": 1.0}, ("later",): {"b": 1.0}}
    policy = Policy(PolicyClass(("memory",), memory=memory), rows)
    assert oracles.opacity(oracles.joint(two_sink_problem(), policy)) == pytest.approx(0.5, abs=1e-15)


def test_a_first_then_b_by_the_clock_hides_half_a_bit() -> None:
    rows = {(0,): {"a": 1.0}, (1,): {"b": 1.0}, (2,): {"a": 1.0}}
    policy = Policy(PolicyClass(("time",)), rows)
    assert oracles.opacity(oracles.joint(two_sink_problem(), policy)) == pytest.approx(0.5, abs=1e-15)


def free_memory(states: int, actions: int) -> Memory:
    """Two nodes, starting in the first; the update given is not used."""
    stay = SparseRows.from_dense(np.eye(2))
    update_of = np.broadcast_to(np.arange(2)[:, None, None], (2, states, actions))
    return Memory(("first", "later"), SparseRows.from_dense([[1, 0]] * states), update_of, stay, free=True)


def test_a_policy_that_chooses_its_memory_hides_what_the_clock_hides() -> None:
    rows = {("first",): {"a>later": 1.0}, ("later",): {"b>later": 0.25, "b>first": 0.75}}
    policy = Policy(PolicyClass(("memory",), memory=free_memory(3, 2)), rows)
    # The node after the last action that matters is of no consequence, and q1 and q2 do not care for actions.
    assert oracles.opacity(oracles.joint(two_sink_problem(), policy)) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_a_memory_chosen_at_random_is_averaged_over(chance: float) -> None:
    # "a" first, then "b" or "a" by the node drawn with the first action: the timed policy that draws the second action.
    rows = {("first",): {"a>later": chance, "a>first": 1 - chance}, ("later",): {"b>later": 1.0}}
    free = Policy(PolicyClass(("memory",), memory=free_memory(3, 2)), rows)
    even = {"a": 1.0}
    timed = Policy(PolicyClass(("time",)), {(0,): even, (1,): {"a": 1 - chance, "b": chance}, (2,): even})
    problem = two_sink_problem()
    assert oracles.opacity(oracles.joint(problem, free)) == pytest.approx(
        oracles.opacity(oracles.joint(problem, timed)), abs=1e-15
    )


def coin_with_two_sensors(after: list[list[float]]) -> Problem:
    """x or y is drawn afresh by either action; after action a the first sensor speaks, after b the second."""
    half = {"x": 0.5, "y": 0.5}
    mdp = build(["x", "y"], {(s, a): half for s in "xy" for a in "ab"}, {}, {})
    blind = SparseRows.from_dense([[1.0, 0.0], [1.0, 0.0]])
    observer = Observer(("u", "v"), blind, after_action=SparseRows.from_dense(after))
    return Problem(mdp, observer, LastState(StateClasses(("x", "y"), ints([0, 1]))), 1)


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
def test_what_is_seen_after_an_action(chance: float) -> None:
    # After a the state is seen, after b nothing (always "u"): H = P(u) h(P(x | u)), P(u, x) = 1/2, P(u, y) = P(b) / 2.
    problem = coin_with_two_sensors([[1, 0], [0, 1], [1, 0], [1, 0]])
    rows = {(state,): {"a": 1 - chance, "b": chance} for state in "xy"}
    joint = oracles.joint(problem, Policy(PolicyClass(), rows))
    parts = [0.5, chance / 2]
    expected = -sum(part * log2(part / sum(parts)) for part in parts if part > 0)
    assert oracles.opacity(joint) == pytest.approx(expected, abs=1e-15)
    assert {sequence[0] for _, sequence in joint} == {("u",)}


def test_after_action_alike_for_every_action_is_plain_emission() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        problem = random_problem(rng, budget=300)
        copies = SparseRows.from_dense(np.tile(problem.observer.emission.dense(), (len(problem.mdp.actions), 1)))
        policy = random_policy(rng, problem)
        watched = replace(problem, observer=replace(problem.observer, after_action=copies))
        assert oracles.joint(watched, policy) == oracles.joint(problem, policy)


def walk_problem(*requirements: object) -> Problem:
    """x stays or moves to y with even chances, y stays: after two steps y is reached with probability 3/4."""
    mdp = build(["x", "y"], {("x", "a"): {"x": 0.5, "y": 0.5}, ("y", "a"): {"y": 1.0}}, {}, {"p": ["y"]})
    mdp = replace(mdp, named_rewards={"fuel": floats([-1.0, -3.0])})
    blind = Observer(("o",), SparseRows.from_dense([[1.0], [1.0]]))
    secret = LastState(StateClasses(("one",), ints([0, 0])))
    return Problem(mdp, blind, secret, 2, discount=0.5, task=Task(requirements=requirements))


def test_requirements_by_hand() -> None:
    once = Automaton(("no", "yes"), 0, frozenset({1}), (Edge(0, 1, parse_guard("p")),))
    late = replace(once, reads="left")
    problem = walk_problem(Reach(ints([1]), 0.5), Satisfy(once, 0.5), Satisfy(late, 0.5), ReturnAtLeast("fuel", 0.0))
    truth = oracles.enumerate_truth(problem)
    # fuel: 1 at time 0, then half of (1 + 3) / 2, then a quarter of 1/4 + 3 * 3/4.
    assert truth.requirements == pytest.approx((0.75, 0.75, 0.5, -(1 + 0.5 * 2 + 0.25 * 2.5)), abs=1e-15)
    assert sum(truth.joint.values()) == pytest.approx(1, abs=1e-15)


def test_truth_is_the_parts() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        problem = random_problem(rng, budget=300)
        policy = random_policy(rng, problem)
        truth = oracles.enumerate_truth(problem, policy)
        assert truth.joint == oracles.joint(problem, policy)
        assert truth.expected_return == oracles.expected_return(problem, policy)


@pytest.mark.parametrize("seed", range(10))
def test_no_policy_leaves_the_range_that_backward_induction_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_problem(rng, conditions=("state", "time"), budget=300)
    automaton = Automaton(("no", "yes"), 0, frozenset({1}), (Edge(0, 1, parse_guard("p & !q")),), reads="left")
    problem = replace(drawn, task=Task(requirements=(Reach(ints([0]), 0.5), Satisfy(automaton, 0.5))))
    ranges = [
        (oracles.smallest_value(problem, r), oracles.largest_value(problem, r)) for r in problem.task.requirements
    ]
    returns = oracles.smallest_value(problem), oracles.largest_value(problem)
    for _ in range(20):
        truth = oracles.enumerate_truth(problem, random_policy(rng, problem))
        for (low, high), value in zip((returns, *ranges), (truth.expected_return, *truth.requirements), strict=True):
            assert low - 1e-12 <= value <= high + 1e-12


def test_backward_induction_by_hand() -> None:
    mdp = build(
        ["x", "y"], {("x", "a"): {"x": 1.0}, ("x", "b"): {"y": 0.5, "x": 0.5}, ("y", "a"): {"y": 1.0}}, {"y": 1}, {}
    )
    blind = Observer(("o",), SparseRows.from_dense([[1.0], [1.0]]))
    problem = Problem(mdp, blind, LastState(StateClasses(("one",), ints([0, 0]))), 2)
    assert oracles.largest_value(problem) == pytest.approx(0.5 * 2 + 0.25 * 1, abs=1e-15)
    assert oracles.smallest_value(problem) == 0.0
    assert oracles.largest_value(problem, Reach(ints([1]), 1.0)) == pytest.approx(0.75, abs=1e-15)


def test_infinite_return_is_the_limit_of_longer_horizons() -> None:
    mdp = build(["x", "y"], {("x", "a"): {"x": 0.5, "y": 0.5}, ("y", "a"): {"x": 1.0}}, {"x": 1.0, "y": -2.0}, {})
    secret = LastState(StateClasses(("one",), ints([0, 0])))
    blind = Observer(("o",), SparseRows.from_dense([[1.0], [1.0]]))
    problem = Problem(mdp, blind, secret, 9, discount=0.05)
    assert oracles.expected_return(problem) == pytest.approx(oracles.infinite_return(problem), abs=1e-11)


@pytest.mark.parametrize("seed", range(20))
def test_opacity_agrees_with_dit(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dit

    rng = np.random.default_rng(seed)
    problem = random_problem(rng, budget=500)
    joint = oracles.joint(problem, random_policy(rng, problem))
    outcomes = [(value, repr(sequence)) for value, sequence in joint]
    distribution = dit.Distribution(outcomes, list(joint.values()))
    entropy = dit.shannon.conditional_entropy(distribution, [0], [1])
    assert oracles.opacity(joint) == pytest.approx(float(entropy), abs=1e-10)


@pytest.mark.parametrize("conditions", CONDITIONS, ids="-".join)
def test_random_policies_give_a_distribution(conditions: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len(conditions))
    for _ in range(5):
        problem = random_problem(rng, conditions=conditions, budget=500)
        joint = oracles.joint(problem, random_policy(rng, problem))
        assert sum(joint.values()) == pytest.approx(1, abs=1e-12)


def test_random_problems_cover_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    problems = [random_problem(rng, budget=500) for _ in range(300)]
    assert {problem.horizon for problem in problems} == {0, 1, 2, 3, 4}
    assert {problem.mdp.num_states for problem in problems} == {2, 3, 4, 5}
    assert {problem.policy_class.conditions_on for problem in problems} == set(CONDITIONS)
    assert {type(problem.secret).__name__ for problem in problems} >= {"StateAt", "StepsAgo", "Visited", "Language"}
    assert any(problem.observer.action_emission is not None for problem in problems)
    assert any((problem.mdp.start == 0).any() for problem in problems)
    assert any(np.ptp(np.diff(problem.mdp.choice_start)) > 0 for problem in problems)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_blind_observer_learns_nothing(kind: str) -> None:
    rng = np.random.default_rng(1)
    problem = random_problem(rng, secret=kind, watches_actions=False, budget=500)
    blind = Observer(("o",), SparseRows.from_dense(np.ones((problem.mdp.num_states, 1))))
    joint = oracles.joint(replace(problem, observer=blind))
    assert oracles.opacity(joint) == pytest.approx(oracles.secret_entropy(joint), abs=1e-12)
