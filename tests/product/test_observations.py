"""Policies that look at what the observer sees: measured against enumeration, and the laws of the class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import opaq
import oracles
from aware_oracles import LazyPolicy, aware_truth
from opaq.errors import BudgetError, InputError
from opaq.model.arrays import SparseRows, ints
from opaq.model.conditions import (
    AutomatonState,
    Condition,
    CurrentState,
    LastStates,
    MemoryNode,
    Observations,
    StartState,
    Time,
    projection,
    refines,
)
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Reach, Task
from opaq.opacity.exact import gradient
from opaq.opacity.measure import measure_product
from opaq.product.compile import Product, compile_problem
from opaq.simulation.replay import replay
from opaq.simulation.sampling import sample_runs
from opaq.solvers.policy_classes import class_name, contains, default_classes, lift, parse_class, sort_classes
from opaq.spec.memory_part import free_memory
from opaq.spec.policy_table import policy_from_dict, policy_to_dict
from random_problems import _memory, random_policy, random_problem
from trials import part_of

Rng = np.random.Generator
COUNTS = (1, 2, 3, "all")
KINDS = ("plain", "signs", "after_action", "both")


def watched_problem(rng: Rng, kind: str, *, horizon: int | None = None, budget: int = 600) -> Problem:
    """A random problem before an observer who sees the state, the last action, both, or a blend of them."""
    signs = kind in ("signs", "both")
    problem = random_problem(rng, conditions=("state",), watches_actions=signs, horizon=horizon, budget=budget)
    if kind in ("after_action", "both"):
        size = len(problem.observer.observations)
        shown = rng.dirichlet(np.full(size, 0.7), size=len(problem.mdp.actions) * problem.mdp.num_states)
        shown[rng.random(len(shown)) < 0.5] = np.eye(size)[0]
        problem = replace(problem, observer=replace(problem.observer, after_action=SparseRows.from_dense(shown)))
    return replace(problem, task=Task(requirements=(Reach(ints([0]), 0.5, "somewhere"),)))


def classes_of(rng: Rng, problem: Problem, count: object) -> list[tuple[Condition, ...]]:
    """Classes with observations beside all else."""
    seen, mdp = Observations(count), problem.mdp
    return [
        (CurrentState(), seen),
        (seen, CurrentState(), Time()),
        (LastStates(2), seen),
        (StartState(), CurrentState(), seen),
        (CurrentState(), MemoryNode(_memory(rng, mdp)), seen),
        (CurrentState(), seen, MemoryNode(free_memory(mdp, 2))),
    ]


def drawn_row(rng: Rng) -> Callable[[int], np.ndarray]:
    """Random probabilities, none of them 0: every case that can occur then does."""

    def draw(size: int) -> np.ndarray:
        weights = np.exp(rng.normal(size=size))
        return weights / weights.sum()

    return draw


def aware_policy(rng: Rng, problem: Problem, conditions: tuple[Condition, ...]) -> tuple[Policy, oracles.Truth]:
    """A random policy with a row for every case that occurs under it, and what it gives away and earns."""
    lazy = LazyPolicy(problem, PolicyClass(conditions), drawn_row(rng))
    truth = aware_truth(problem, lazy)
    return lazy.policy(), truth


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", part_of(range(3), 1))
def test_what_is_measured_is_what_is_enumerated(seed: int, kind: str, count: object) -> None:
    rng = np.random.default_rng([80, seed, KINDS.index(kind), COUNTS.index(count)])
    problem = watched_problem(rng, kind, horizon=int(rng.integers(1, 4)), budget=300)
    for conditions in classes_of(rng, problem, count):
        policy, truth = aware_policy(rng, problem, conditions)
        measured = opaq.measure(problem, policy, mode="exact")
        assert measured.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-10)
        assert measured.guess_error.value == pytest.approx(oracles.guess_error(truth.joint), abs=1e-10)
        assert measured.expected_return == pytest.approx(truth.expected_return, abs=1e-10)
        assert [one.value for one in measured.requirements[1:]] == pytest.approx(list(truth.requirements), abs=1e-10)
        assert set(compile_problem(problem, policy.policy_class).rows) == set(policy.rows)


def test_a_policy_may_look_at_an_automaton_too() -> None:
    for seed in range(6):
        rng = np.random.default_rng([81, seed])
        problem = random_problem(rng, conditions=("state", "automaton"), horizon=3, budget=500)
        policy, truth = aware_policy(rng, problem, (CurrentState(), AutomatonState(), Observations(2)))
        measured = opaq.measure(problem, policy, mode="exact")
        assert measured.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-10)


def test_sensors_are_heard_by_their_names() -> None:
    spec = {
        "opaq": 1,
        "grid": {"width": 3, "height": 2, "start": {"(0,0)": 1}, "slip": 0.2, "stay": False},
        "observer": {"sensors": {"A": {"covers": ["(1,0)", "(1,1)"], "detects": 0.7}}},
        "secret": {"last_state": ["(2,0)"]},
        "horizon": 2,
    }
    problem = opaq.build_problem(spec | {"policy": {"conditions_on": ["state", {"observations": 2}]}})
    policy, truth = aware_policy(np.random.default_rng(82), problem, problem.policy_class.conditions)
    assert opaq.measure(problem, policy, mode="exact").opacity.value == pytest.approx(
        oracles.opacity(truth.joint), abs=1e-10
    )
    assert any(part[-1] == "A" for _, part in policy.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_agree_with_enumerated_differences(kind: str) -> None:
    rng = np.random.default_rng([83, KINDS.index(kind)])
    problem = watched_problem(rng, kind, horizon=2, budget=100)
    product = compile_problem(problem, PolicyClass((CurrentState(), Observations(2))))
    theta, direction = rng.normal(size=(2, product.process.num_slots))

    def enumerated(step: float) -> float:
        rows = dict(product.policy(product.process.softmax(theta + step * direction)).rows)
        lazy = LazyPolicy(problem, product.policy_class, drawn_row(rng), rows)
        return oracles.opacity(aware_truth(problem, lazy).joint)

    value, slope = gradient(product.process, theta)
    assert value == pytest.approx(enumerated(0.0), abs=1e-10)
    assert slope @ direction == pytest.approx((enumerated(1e-5) - enumerated(-1e-5)) / 2e-5, abs=1e-6)


# -- the order of classes -------------------------------------------------------------------------------------------


def test_longer_windows_tell_shorter_ones() -> None:
    assert refines(Observations(3), Observations(2))
    assert refines(Observations("all"), Observations(7))
    assert refines(Observations("all"), Observations("all"))
    assert refines(Observations("all"), Time())
    assert not refines(Observations(2), Observations(3))
    assert not refines(Observations(9), Observations("all"))
    assert not refines(Observations(9), Time())
    assert not refines(LastStates(2), Observations(1))
    assert projection(Observations(3), Observations(2))(("x", "y", "z")) == ("y", "z")
    assert projection(Observations("all"), Time())(("x", "y", "z")) == 2


def test_classes_are_named_and_ordered() -> None:
    problem = opaq.load_problem("two-sink")
    names = ["state,observations:all", "state,observations:2", "state,time", "state, observations:1", "state"]
    classes = [parse_class(name, problem) for name in names]
    assert [class_name(one) for one in sort_classes(classes)] == [
        "state", "state, time", "state, observations:1", "state, observations:2", "state, observations:all",
    ]  # fmt: skip
    assert contains(classes[0], classes[2])
    assert not any("observations" in class_name(one) for one in default_classes(problem))
    with pytest.raises(InputError, match="'observations:9' needs a number; say how many observations, 1 to 3"):
        parse_class("state,observations:9", problem)
    with pytest.raises(InputError, match="'observations' needs a number"):
        parse_class("state,observations", problem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_unaware_policies_are_also_aware_ones(seed: int, kind: str) -> None:
    rng = np.random.default_rng([84, seed, KINDS.index(kind)])
    problem = watched_problem(rng, kind)
    coarse = PolicyClass((CurrentState(), Time()))
    policy = random_policy(rng, replace(problem, policy_class=coarse))
    plain = opaq.measure(problem, policy, mode="exact")
    for conditions in (
        (Time(), CurrentState(), Observations(1)),
        (Observations(2), CurrentState(), Time()),
        (CurrentState(), Observations("all")),
        (CurrentState(), Time(), Observations(2), MemoryNode(free_memory(problem.mdp, 2))),
    ):
        product = compile_problem(problem, PolicyClass(conditions))
        lifted = measure_product(product, lift(policy, product, rng=rng), sequences=0)
        assert lifted.opacity.value == pytest.approx(plain.opacity.value, abs=1e-12)
        assert lifted.expected_return == pytest.approx(plain.expected_return, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_shorter_windows_are_lifted_to_longer_ones(seed: int) -> None:
    rng = np.random.default_rng([85, seed])
    problem = watched_problem(rng, KINDS[seed % 4], horizon=3, budget=1000)
    policy, truth = aware_policy(rng, problem, (CurrentState(), Observations(2)))
    for count in (2, 3, "all"):
        product = compile_problem(problem, PolicyClass((Observations(count), CurrentState())))
        lifted = measure_product(product, lift(policy, product, rng=rng), sequences=0)
        assert lifted.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-12)


# -- returns that are counted for ever ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, "all"])
@pytest.mark.parametrize("seed", range(3))
def test_returns_for_ever(seed: int, count: object) -> None:
    """Uniform rows earn what the uniform policy earns; a longer horizon approaches the return of any policy."""
    rng = np.random.default_rng([86, seed])
    problem = replace(watched_problem(rng, "plain", horizon=1), discount=0.5, task=Task(over="forever"))
    policy_class = PolicyClass((CurrentState(), Observations(count)))
    measured = opaq.measure(replace(problem, policy_class=policy_class), mode="exact")
    assert measured.expected_return == pytest.approx(oracles.infinite_return(problem), abs=1e-10)
    product = compile_problem(problem, policy_class)
    pi = product.process.softmax(rng.normal(size=product.process.num_slots))
    assert measure_product(product, pi, sequences=0).expected_return == pytest.approx(
        _chain_return(product, pi, problem.discount), abs=1e-10
    )


def _chain_return(product: Product, pi: np.ndarray, discount: float) -> float:
    """The return by 60 steps along the edges of the product."""
    process = product.process
    flow, reward = process.flow(pi), process.payoffs[0].slots @ pi
    owner = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    mass, total = np.zeros(process.num_states + 1), 0.0
    mass[-1] = 1.0
    for time in range(60):
        after = np.bincount(process.edge_target, weights=mass[owner] * flow, minlength=process.num_states + 1)
        mass, total = after, total + discount**time * float(after[:-1] @ reward)
    return total


# -- solving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-sink", "graph-published"])
def test_hearing_the_observer_never_hurts(name: str) -> None:
    problem = opaq.load_problem(name)
    timed = (CurrentState(), Time())
    unaware = opaq.solve(problem, policy_class=PolicyClass(timed), starts=2, seed=0, workers=1)
    aware = opaq.solve(problem, policy_class=PolicyClass((*timed, Observations(1))), starts=2, seed=0, workers=1)
    assert aware.measurement.opacity.value >= unaware.measurement.opacity.value - 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_on_the_ladder_hearing_never_hurts(seed: int) -> None:
    problem = watched_problem(np.random.default_rng([89, seed]), KINDS[seed], horizon=2, budget=300)
    classes = ["state,time", "state,time,observations:1", "state,observations:all"]
    free = replace(problem, task=Task())
    rungs = opaq.compare(free, classes=classes, starts=2, seed=0, workers=1).rungs
    values = [rung.measurement.opacity.value for rung in rungs]
    assert [rung.name for rung in rungs] == ["state, time", "state, time, observations:1", "state, observations:all"]
    assert values == pytest.approx(sorted(values), abs=1e-9)
    assert rungs[0].warm_from == "state", "coarser classes are climbed though they are not listed"
    assert rungs[1].warm_from in ("state", "state, time", "state, observations:1")


# -- names ----------------------------------------------------------------------------------------------------------

PARTS = st.text(alphabet="xb/\\", min_size=1, max_size=3)


def named_observer(observations: tuple[str, ...], signs: tuple[str, ...]) -> opaq.Observer:
    """One of two states and two actions, where everything may be seen."""
    seen, heard = (SparseRows.from_dense(np.full((2, len(names)), 1 / len(names))) for names in (observations, signs))
    return opaq.Observer(observations, seen, signs, heard)


@given(st.lists(PARTS, min_size=1, max_size=6, unique=True), st.lists(PARTS, min_size=1, max_size=6, unique=True))
def test_joint_names_are_unambiguous(observations: list[str], signs: list[str]) -> None:
    names = named_observer(tuple(observations), tuple(signs)).seen_names
    assert len(set(names)) == len(names) == len(observations) * (1 + len(signs))


def test_plain_joint_names_are_joined_by_a_slash() -> None:
    observer = named_observer(("o", "p q"), ("a", "b/c"))
    assert observer.seen_names == ("o", "o/a", "o/b/c", "p q", "p q/a", "p q/b/c")
    unseen = replace(observer, observations=("x/b", "x"), action_signs=(), action_emission=None)
    assert unseen.seen_names == ("x/b", "x")


@pytest.mark.parametrize("seed", range(3))
def test_names_with_slashes_change_no_answer(seed: int) -> None:
    """Measuring, replaying, reporting and files, beside the same problem with plain names."""
    rng = np.random.default_rng([88, seed])
    plain = watched_problem(rng, "both", horizon=2)
    seen, signs = len(plain.observer.observations), len(plain.observer.action_signs)
    confusing = ("x", "x/b", "x/b/c", "x\\\\", "x\\\\/b", "/", "//", "x/", "x/b/")
    observer = replace(plain.observer, observations=confusing[:seen], action_signs=("b/c", "c", "b", "/b", "/")[:signs])
    problem = replace(plain, observer=observer)
    policy, _ = aware_policy(rng, plain, (CurrentState(), Observations(2)))
    new_name = dict(zip(plain.observer.seen_names, observer.seen_names, strict=True))
    rows = {(state, tuple(map(new_name.get, names))): row for (state, names), row in policy.rows.items()}
    renamed = Policy(policy.policy_class, rows)
    assert len(rows) == len(policy.rows)
    again = policy_from_dict(json.loads(json.dumps(policy_to_dict(renamed, problem=problem))), problem)
    assert again.rows == renamed.rows
    expected, measured = opaq.measure(plain, policy), opaq.measure(problem, again)
    assert measured.opacity.value == pytest.approx(expected.opacity.value, abs=1e-12)
    for before, after in zip(replay(plain, policy, runs=20), replay(problem, again, runs=20), strict=True):
        assert [new_name[one.observation] for one in before.steps] == [one.observation for one in after.steps]
        for one, other in zip(before.steps, after.steps, strict=True):
            assert other.belief == pytest.approx(one.belief, abs=1e-12)
        seen_run = [moment.observation for moment in after.steps]
        (told,) = replay(problem, again, observations=seen_run)
        assert told.steps[-1].belief == pytest.approx(after.steps[-1].belief, abs=1e-12)
        assert after.steps[-1].belief[after.secret] > 0


def test_a_report_of_names_with_slashes() -> None:
    problem = heard_problem()
    observer = opaq.build_observer(problem.mdp, emissions={"left": "o", "right": "o/low"}, actions=True)
    page = opaq.report(replace(problem, observer=observer))
    assert "o\\\\/low/high" in page.html


# -- too large ------------------------------------------------------------------------------------------------------


def test_windows_that_are_too_long_are_refused() -> None:
    problem = opaq.load_problem("grid-last-state")
    with pytest.raises(BudgetError, match="ask for fewer last_states or observations"):
        compile_problem(replace(problem, horizon=40), PolicyClass((CurrentState(), Observations("all"))))


def test_observations_are_counted_before_they_are_drawn() -> None:
    size, seen = 150, 2_000
    names = [f"s{index}" for index in range(size)]
    everywhere = {name: {"a": dict.fromkeys(names, 1 / size)} for name in names}
    model = {"states": names, "actions": ["a"], "start": dict.fromkeys(names, 1 / size), "transitions": everywhere}
    emissions = {name: {"o0": 1} for name in names}
    spec = {"opaq": 1, "model": model, "observer": {"emissions": emissions}, "secret": {"last_state": ["s1"]}}
    problem = opaq.build_problem(spec | {"horizon": 2})
    observer = replace(
        problem.observer,
        observations=tuple(f"o{index}" for index in range(seen)),
        emission=SparseRows.from_dense(np.eye(1, seen).repeat(size, axis=0)),
        after_action=SparseRows.from_dense(np.full((size, seen), 1 / seen)),
    )
    with pytest.raises(BudgetError, match="the observations that the policy looks at branch into 45,000,000"):
        compile_problem(replace(problem, observer=observer), PolicyClass((CurrentState(), Observations(1))))


# -- runs -----------------------------------------------------------------------------------------------------------


def test_sampled_runs_have_the_right_frequencies() -> None:
    rng, count = np.random.default_rng(87), 20_000
    problem = watched_problem(rng, "both", horizon=2)
    policy, truth = aware_policy(rng, problem, (CurrentState(), Observations(2)))
    product = compile_problem(problem, policy.policy_class)
    runs = sample_runs(product.process, product.policy_vector(policy), count=count, rng=rng)
    secrets = [product.secret_values[value] for value in product.process.secret[runs.states[:, -1]]]
    seen = [tuple(product.observations[one] for one in row) for row in runs.observations]
    frequency = Counter(zip(secrets, seen, strict=True))
    exact = Counter()
    for (value, sequence), chance in truth.joint.items():
        exact[value, tuple("/".join(shown) for shown in sequence)] += chance
    assert set(frequency) <= set(exact)
    for pair, chance in exact.items():
        assert abs(frequency[pair] / count - chance) <= 6 * np.sqrt(chance * (1 - chance) / count) + 1e-12


def test_replayed_actions_follow_the_observations_shown() -> None:
    """A policy that answers every observation with its own action: what is shown is what it heard."""
    problem = heard_problem()
    policy = answering(problem)
    for run in replay(problem, policy, runs=200, seed=5):
        assert [moment.action for moment in run.steps] == [moment.observation for moment in run.steps]
        assert [sum(moment.belief.values()) for moment in run.steps] == pytest.approx([1.0] * 4)


def heard_problem() -> Problem:
    """Two rooms; the action moves, and an alarm with two tones sounds at random."""
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["left", "right"],
                "actions": ["low", "high"],
                "start": {"left": 0.5, "right": 0.5},
                "transitions": {
                    "left": {"low": "left", "high": {"left": 0.5, "right": 0.5}},
                    "right": {"low": "right", "high": {"left": 0.5, "right": 0.5}},
                },
            },
            "observer": {"emissions": {"left": {"low": 0.7, "high": 0.3}, "right": {"low": 0.2, "high": 0.8}}},
            "secret": {"last_state": ["right"]},
            "horizon": 3,
            "policy": {"conditions_on": ["state", {"observations": 1}]},
        }
    )


def answering(problem: Problem) -> Policy:
    """Does what it hears."""
    rows = {(state, (tone,)): {tone: 1.0} for state in problem.mdp.states for tone in ("low", "high")}
    return Policy(PolicyClass((CurrentState(), Observations(1))), rows)
