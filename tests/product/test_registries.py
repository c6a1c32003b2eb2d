"""New kinds of condition, secret, observer and requirement in the product: trackers checked by enumeration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import opaq
import oracles
from opaq.errors import InputError
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.conditions import Condition, CurrentState, LastStates, MemoryNode, StartState, Time, refines
from opaq.model.mdp import MDP
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem, Requirement, Task
from opaq.model.secret import Secret
from opaq.opacity.measure import measure_product
from opaq.product.compile import compile_problem
from opaq.product.machine import VisitFlag
from opaq.product.trackers import RequirementTracker, track_condition, track_observer, track_requirement, track_secret
from opaq.simulation.agent import PolicyExecutor
from opaq.solvers.policy_classes import class_name, contains, lift
from opaq.spec.memory_part import free_memory
from random_problems import random_policy, random_problem
from toys import (
    NOTHING,
    BreakingSensor,
    PreviousState,
    Visits,
    last_but_one,
    sensor_joint,
    track_previous,
    track_sensor,
    track_visits,
    visits_joint,
)

SEEDS = range(12)
track_condition.register(PreviousState, track_previous)
track_secret.register(Visits, track_visits)
track_observer.register(BreakingSensor, track_sensor)


# -- a condition: the state before the current one ------------------------------------------------------------------


def expand(policy: Policy, problem: Problem) -> Policy:
    """The same behaviour as a policy of the last two states, which the oracles can follow."""
    fine = PolicyClass((LastStates(2), Time()))
    names = problem.mdp.states
    pairs = [(name,) for name in names] + [(before, now) for before in names for now in names]
    rows: dict[RowKey, object] = {
        (pair, time): policy.rows[time, last_but_one(pair), pair[-1]]
        for pair in pairs
        for time in range(problem.horizon + 1)
    }
    return Policy(fine, rows)


def previous_policy(rng: np.random.Generator, problem: Problem) -> Policy:
    """A random policy of time, previous state and state, with a row for every key."""
    plain = replace(problem, policy_class=PolicyClass(("state",)))
    rows = {}
    for time in range(problem.horizon + 1):
        for before in (NOTHING, *problem.mdp.states):
            drawn = random_policy(rng, plain, softmax=True).rows
            rows |= {(time, before, name): drawn[(name,)] for name in problem.mdp.states}
    return Policy(PolicyClass((Time(), PreviousState(), CurrentState())), rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_condition_is_measured_as_enumerated(seed: int) -> None:
    rng = np.random.default_rng([60, seed])
    problem = random_problem(rng, conditions=("state",), budget=1000)
    policy = previous_policy(rng, problem)
    truth = oracles.enumerate_truth(problem, expand(policy, problem))
    found = opaq.measure(problem, policy, mode="exact")
    assert found.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-10)
    assert found.expected_return == pytest.approx(truth.expected_return, abs=1e-10)


def test_a_new_condition_is_followed_by_agents() -> None:
    rng = np.random.default_rng(61)
    problem = random_problem(rng, conditions=("state",), horizon=4)
    policy, mdp = previous_policy(rng, problem), problem.mdp
    rules = PolicyExecutor.of(problem, policy)
    for _ in range(20):
        state, before, now = int(rng.choice(mdp.num_states, p=mdp.start)), NOTHING, None
        for time in range(problem.horizon):
            name = mdp.states[state]
            now = rules.begin(name, rng) if now is None else rules.move(now, name, rng)
            assert rules.probabilities(now) == pytest.approx(policy.rows[time, before, name])
            now = rules.choose(now, rng)
            before, state = name, int(rng.choice(*_outcomes(mdp, state, now.action)))


def _outcomes(mdp: MDP, state: int, action: int) -> tuple[IntArray, None, bool, FloatArray]:
    first, last = mdp.choice_start[state : state + 2]
    choice = first + mdp.choice_action[first:last].tolist().index(action)
    columns, values = mdp.transitions.row(int(choice))
    return columns, None, True, values


def test_a_new_condition_has_its_rank_among_classes() -> None:
    coarse, fine = PolicyClass((PreviousState(), CurrentState())), PolicyClass((LastStates(2),))
    assert class_name(coarse) == "previous, state"
    assert refines(LastStates(2), PreviousState())
    assert not refines(LastStates(1), PreviousState())
    assert not refines(PreviousState(), CurrentState())
    assert contains(fine, coarse)
    assert contains(coarse, PolicyClass((CurrentState(),)))
    assert not contains(coarse, fine)


@pytest.mark.parametrize("seed", SEEDS)
def test_policies_on_a_new_condition_are_lifted(seed: int) -> None:
    rng = np.random.default_rng([62, seed])
    problem = random_problem(rng, conditions=("state",), budget=500)
    policy = previous_policy(rng, problem)
    product = compile_problem(problem, PolicyClass((Time(), LastStates(3))))
    lifted = measure_product(product, lift(policy, product, rng=rng), sequences=0)
    truth = oracles.enumerate_truth(problem, expand(policy, problem))
    assert lifted.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-10)
    assert lifted.expected_return == pytest.approx(truth.expected_return, abs=1e-10)


def test_the_order_of_conditions_does_not_change_the_states() -> None:
    problem = random_problem(np.random.default_rng(63), conditions=("state",), horizon=4)
    conditions = (CurrentState(), StartState(), Time(), PreviousState())
    one, other = (compile_problem(problem, PolicyClass(order)) for order in (conditions, conditions[::-1]))
    assert np.array_equal(one.state_of, other.state_of)
    assert np.array_equal(one.process.edge_target, other.process.edge_target)
    assert {key[::-1] for key in one.rows} == set(other.rows)


# -- a secret: how often some states are visited --------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_secret_is_measured_as_enumerated(seed: int) -> None:
    rng = np.random.default_rng([64, seed])
    problem = replace(random_problem(rng, budget=1000, secret="visited"), secret=Visits(np.array([0, 1]), 2))
    policy = random_policy(rng, problem)
    joint, found = visits_joint(problem, policy), opaq.measure(problem, policy, mode="exact")
    assert found.opacity.value == pytest.approx(oracles.opacity(joint), abs=1e-10)
    expected = oracles.secret_distribution(joint)
    assert {z: p for z, p in found.secret_distribution.items() if p > 0} == pytest.approx(expected, abs=1e-10)


def test_a_policy_may_look_at_the_nodes_a_new_secret_names() -> None:
    """The automaton condition follows the secret's machine, whichever that is, without a second copy of it."""
    rng = np.random.default_rng(65)
    problem = random_problem(rng, conditions=("state",), secret="visited", horizon=3)
    problem = replace(problem, secret=Visits(np.array([0]), 3))
    plain, counting = (compile_problem(problem, PolicyClass(names)) for names in (("state",), ("state", "automaton")))
    assert np.array_equal(plain.state_of, counting.state_of)
    counts = [plain.secret_values[value] for value in plain.process.secret]
    reached = {(problem.mdp.states[state], count) for state, count in zip(plain.state_of, counts, strict=True)}
    assert set(counting.rows) == reached


def test_the_automaton_condition_needs_named_nodes() -> None:
    problem = random_problem(np.random.default_rng(66), conditions=("state",), secret="visited")
    with pytest.raises(InputError, match="'automaton' needs a secret with an automaton"):
        compile_problem(problem, PolicyClass(("state", "automaton")))


# -- an observer: a sensor that may break, at random, by what the agent does ----------------------------------------


def with_sensor(rng: np.random.Generator, problem: Problem) -> Problem:
    mdp = problem.mdp
    emission, risk = rng.dirichlet([0.5, 0.5], size=mdp.num_states), rng.uniform(0.1, 0.9, size=len(mdp.actions))
    return replace(problem, observer=BreakingSensor(("dim", "bright"), emission, risk))


@pytest.mark.parametrize("nodes", [0, 1, 2], ids=["own class", "one free node", "two free nodes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_observer_is_measured_as_enumerated(seed: int, nodes: int) -> None:
    """Free memories as well: the sensor reads the action, not the node that is chosen with it."""
    rng = np.random.default_rng([67, seed, nodes])
    problem = random_problem(rng, horizon=int(rng.integers(1, 3)), budget=300, watches_actions=False)
    if nodes:
        conditions = (CurrentState(), MemoryNode(free_memory(problem.mdp, nodes)))
        problem = replace(problem, policy_class=PolicyClass(conditions))
    policy, problem = random_policy(rng, problem), with_sensor(rng, problem)
    joint, found = sensor_joint(problem, policy), opaq.measure(problem, policy, mode="exact")
    assert found.opacity.value == pytest.approx(oracles.opacity(joint), abs=1e-10)
    assert found.guess_error.value == pytest.approx(oracles.guess_error(joint), abs=1e-10)


# -- a requirement: keep away from some states ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeepAway(Requirement):
    """Some states are never visited, with at least this probability."""

    states: IntArray
    threshold: float


@track_requirement.register
def _(requirement: KeepAway, problem: Problem) -> RequirementTracker:
    machine = VisitFlag(problem.mdp.mask(requirement.states))
    return RequirementTracker("probability of keeping away", machine=machine, worth=lambda nodes: 1.0 - nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_requirement_is_measured_as_enumerated(seed: int) -> None:
    rng = np.random.default_rng([68, seed])
    problem = random_problem(rng, budget=1000)
    problem = replace(problem, task=Task(requirements=(KeepAway(np.array([1]), 0.5),)))
    policy = random_policy(rng, problem)
    expected = sum(run.probability for run in oracles.enumerate_runs(problem, policy) if 1 not in run.states)
    _, met = opaq.measure(problem, policy, mode="exact").requirements
    assert (met.name, met.value) == ("probability of keeping away", pytest.approx(expected, abs=1e-10))
    assert met.threshold == 0.5


# -- what is not registered, and short words ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unregistered(Condition, Secret, Requirement):
    key: ClassVar[str] = "unregistered"


def test_kinds_without_a_tracker_are_named() -> None:
    problem = random_problem(np.random.default_rng(69), conditions=("state",))
    with pytest.raises(TypeError, match="conditions of type Unregistered"):
        compile_problem(problem, PolicyClass((Unregistered(),)))
    with pytest.raises(TypeError, match="secrets of type Unregistered"):
        compile_problem(replace(problem, secret=Unregistered()))
    with pytest.raises(InputError, match="observer: is of type Unregistered, not an observer"):
        replace(problem, observer=Unregistered())
    with pytest.raises(TypeError, match="requirements of type Unregistered"):
        compile_problem(replace(problem, task=Task(requirements=(Unregistered(),))))


def test_several_memories_are_refused() -> None:
    problem = random_problem(np.random.default_rng(70), conditions=("state",))
    memories = (MemoryNode(free_memory(problem.mdp, 2)), MemoryNode(free_memory(problem.mdp, 3)))
    with pytest.raises(InputError, match="'memory' is listed twice; keep one of them"):
        PolicyClass((CurrentState(), *memories))


def test_a_product_is_shown_in_one_line() -> None:
    problem = opaq.load_problem("two-sink")
    product = compile_problem(problem, PolicyClass((CurrentState(), MemoryNode(free_memory(problem.mdp, 2)))))
    assert repr(product) == (
        "Product('two-sink': 6 states, 6 policy rows by state, memory:2, 3 observations, 2 secret values)"
    )
    assert product == product
    assert product != compile_problem(problem)


def test_a_class_is_made_from_another() -> None:
    mdp = opaq.load_problem("two-sink").mdp
    one = PolicyClass(("state", "last_states", "memory"), last_states=2, memory=free_memory(mdp, 2))
    again = replace(one)
    assert all(mine is theirs for mine, theirs in zip(again.conditions, one.conditions, strict=True))
    assert replace(one, conditions_on=("time", "last_states")).conditions == (Time(), LastStates(2))
    assert class_name(replace(one, last_states=3)) == "state, last_states:3, memory:2"
    assert class_name(replace(one, memory=free_memory(mdp, 5))) == "state, last_states:2, memory:5"
    assert PolicyClass().conditions == (CurrentState(),)


def test_no_more_last_states_are_kept_than_a_run_has() -> None:
    problem = opaq.load_problem("two-sink")
    enough, more = (
        compile_problem(problem, PolicyClass((LastStates(count),))) for count in (problem.horizon + 1, 1_000)
    )
    assert more.rows == enough.rows
    assert (
        measure_product(more, more.policy_vector(None)).opacity
        == measure_product(enough, enough.policy_vector(None)).opacity
    )
