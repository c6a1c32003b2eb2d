"""Ladders of policy classes: lifting changes nothing, a larger class is never below, a stop keeps what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import opaq
from opaq.cli.compare import code_of_comparison
from opaq.errors import InputError
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Task
from opaq.opacity.measure import measure_product
from opaq.product.compile import compile_problem
from opaq.solvers.compare import ClassResult, Comparison, compare
from opaq.solvers.policy_classes import (
    class_name,
    contains,
    default_classes,
    lift,
    parse_class,
    parse_classes,
    sort_classes,
)
from opaq.solvers.solve import solve_with
from opaq.solvers.strategy import SolverFactory, Status
from random_problems import random_policy, random_problem
from trials import long, part_of

PAIRS = [  # coarse, fine
    ("state", "state,time"),
    ("state", "state,start"),
    ("state", "time,state"),
    ("state", "last_states:2"),
    ("state", "memory:2"),
    ("state,time", "time,state,start"),
    ("state,time", "state,time,memory:2"),
    ("last_states:2", "last_states:3"),
    ("last_states:2", "time,last_states:2"),
    ("memory:1", "memory:2"),
    ("memory:2", "memory:3"),
    ("memory:2", "state,memory:5"),
    ("memory:2", "state,start,memory:2"),
]


def rising(comparison: Comparison, *, minimise: bool = False) -> None:
    """Along every inclusion opacity does not fall and a task that is met stays met."""
    sign = -1.0 if minimise else 1.0
    for fine in comparison.rungs:
        for coarse in comparison.rungs:
            if contains(fine.policy.policy_class, coarse.policy.policy_class):
                assert fine.measurement.feasible >= coarse.measurement.feasible
                if coarse.measurement.feasible:
                    gain = sign * (fine.measurement.opacity.value - coarse.measurement.opacity.value)
                    assert gain >= -1e-9, (fine.name, coarse.name)


def is_as_told(problem: Problem, rung: ClassResult) -> None:
    """The policy of a rung has the figures of its line."""
    again = opaq.measure(problem, rung.policy, sequences=0)
    assert again.opacity.value == pytest.approx(rung.measurement.opacity.value, abs=1e-9)
    assert again.expected_return == pytest.approx(rung.measurement.expected_return, abs=1e-9)
    assert again.feasible == rung.measurement.feasible


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
@pytest.mark.parametrize("seed", range(3))
def test_a_lifted_policy_behaves_the_same(coarse: str, fine: str, seed: int) -> None:
    rng = np.random.default_rng([seed, PAIRS.index((coarse, fine))])
    problem = random_problem(rng, conditions=("state",), horizon=3, budget=500)
    problem = replace(problem, policy_class=parse_class(coarse, problem))
    policy = random_policy(rng, problem)
    product = compile_problem(problem, parse_class(fine, problem))
    vector = lift(policy, product, rng=rng)
    assert np.add.reduceat(vector, product.process.row_start[:-1]) == pytest.approx(1.0)
    lifted, plain = measure_product(product, vector, sequences=0), opaq.measure(problem, policy, sequences=0)
    assert lifted.opacity.value == pytest.approx(plain.opacity.value, abs=1e-10)
    assert lifted.guess_error.value == pytest.approx(plain.guess_error.value, abs=1e-10)
    assert lifted.expected_return == pytest.approx(plain.expected_return, abs=1e-10)


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
def test_inclusion_goes_one_way(coarse: str, fine: str) -> None:
    problem = opaq.load_problem("graph")
    small, large = parse_class(coarse, problem), parse_class(fine, problem)
    assert contains(large, small)
    assert contains(large, large)
    assert contains(small, large) == ({*small.conditions_on} == {*large.conditions_on} and coarse.count(":") == 0)
    if not contains(small, large):
        fine = compile_problem(problem, large)
        policy = fine.policy(fine.process.uniform())
        with pytest.raises(InputError, match="are not policies on"):
            lift(policy, compile_problem(problem, small), rng=np.random.default_rng(0))


def test_a_given_memory_is_contained_only_where_it_is_the_same() -> None:
    mdp = opaq.load_problem("graph").mdp
    one = opaq.build_memory(mdp, nodes=2, update=[{"from": "0", "to": "1", "action": "a1"}])
    other = opaq.build_memory(mdp, nodes=2, update=[{"from": "0", "to": "1", "action": "a2"}])
    with_one, with_other = (PolicyClass(("state", "memory"), memory=memory) for memory in (one, other))
    assert contains(with_one, with_one)
    assert not contains(with_one, with_other)
    assert contains(with_one, PolicyClass(("state",)))
    assert not contains(PolicyClass(("state", "memory"), memory=opaq.free_memory(mdp, 2)), with_one)


def test_coarser_classes_come_first() -> None:
    problem = opaq.load_problem("graph")
    wanted = parse_classes(["memory:3", "state,time,automaton", "memory:2", "state,time", "state"], problem)
    names = [class_name(policy_class) for policy_class in wanted]
    assert names.index("state") < names.index("state, memory:2") < names.index("state, memory:3")
    assert names.index("state") < names.index("state, time") < names.index("state, time, automaton")


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("two-sink", ["state", "state, time", "state, memory:2", "state, memory:3"]),
        (
            "graph",
            [
                "state",
                "state, automaton",
                "state, time",
                "state, automaton, time",
                "state, memory:2",
                "state, memory:3",
            ],
        ),
        (
            "grid-initial-state-4",
            ["state", "state, start", "state, time", "state, start, time", "state, memory:2", "state, memory:3"],
        ),
    ],
)
def test_the_default_ladder_is_what_applies(scenario: str, expected: list[str]) -> None:
    assert [class_name(policy_class) for policy_class in default_classes(opaq.load_problem(scenario))] == expected


def test_the_problems_own_class_is_a_rung() -> None:
    problem = replace(opaq.load_problem("two-sink"), policy_class=PolicyClass(("last_states",), last_states=2))
    names = [class_name(policy_class) for policy_class in default_classes(problem)]
    assert names.index("last_states:2") > names.index("state")
    assert class_name(sort_classes(default_classes(problem))[0]) == "state"


@pytest.mark.parametrize("seed", part_of(range(12), 3))
def test_a_larger_class_is_never_below(seed: int) -> None:
    """With one start a search often ends low; the ladder keeps the coarser policy then."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, secret=["progress", "last_state", "initial_state"][seed % 3], budget=400)
    if seed % 4 == 3:
        problem = replace(problem, task=Task(minimise=True))
    found = compare(problem, starts=1, seed=seed)
    assert not found.unreached
    rising(found, minimise=problem.task.minimise)
    for rung in found.rungs:
        is_as_told(problem, rung)


@pytest.mark.parametrize("scenario", part_of(["two-sink", "graph-published", "graph"], 1))
def test_bundled_scenarios_rise(scenario: str) -> None:
    problem = opaq.load_problem(scenario)
    found = compare(problem)
    rising(found)
    assert code_of_comparison(found) in (0, 3)
    assert all(rung.measurement.feasible for rung in found.rungs)
    assert found.rungs[-1].measurement.opacity.value > found.rungs[0].measurement.opacity.value + 0.005
    assert found.rungs[0].warm_from is None
    assert all(rung.warm_from for rung in found.rungs[1:])
    for rung in found.rungs:
        is_as_told(problem, rung)


def test_free_memory_leaves_the_symmetric_start() -> None:
    """Warm start alone: nodes that all begin as copies of one row must come to differ."""
    found = compare(opaq.load_problem("two-sink"), classes=["state", "memory:2"], starts=1)
    assert [rung.name for rung in found.rungs] == ["state", "state, memory:2"]
    assert found.rungs[1].measurement.opacity.value == pytest.approx(0.551463, abs=1e-5)


def test_the_same_seed_gives_the_same_ladder() -> None:
    problem, classes = opaq.load_problem("graph-published"), ["state", "memory:2"]
    one, two = (compare(problem, classes=classes, starts=2, seed=3, workers=count) for count in (1, 2))
    assert [rung.policy.rows for rung in one.rungs] == [rung.policy.rows for rung in two.rungs]


def test_infeasible_tasks_are_told_for_every_class() -> None:
    problem = replace(opaq.load_problem("graph"), task=Task(return_at_least=100.0))
    found = compare(problem, classes=["state", "state,time"])
    assert [rung.status for rung in found.rungs] == [Status.INFEASIBLE] * 2
    assert code_of_comparison(found) == 1


def test_a_stop_in_the_middle_keeps_what_is_done() -> None:
    stop, seen = opaq.Stop(), []

    def done(rung: ClassResult) -> None:
        seen.append(rung.name)
        stop.request()

    found = compare(opaq.load_problem("graph"), stop=stop, on_rung=done)
    assert seen == ["state"]
    assert [rung.name for rung in found.rungs] == ["state"]
    assert len(found.unreached) == 5
    assert (found.interrupted, code_of_comparison(found)) == (True, 130)


def test_a_stop_within_a_class_keeps_its_best_policy_or_the_coarser_one() -> None:
    stop = opaq.Stop()

    def step(name: str, progress: object) -> None:
        if name == "state, time":
            stop.request()

    found = compare(opaq.load_problem("graph"), classes=["state", "state,time", "memory:2"], stop=stop, on_step=step)
    assert [rung.name for rung in found.rungs] == ["state", "state, time"]
    assert found.rungs[1].status is Status.INTERRUPTED
    assert found.rungs[1].measurement.opacity.value >= found.rungs[0].measurement.opacity.value
    assert [missed.name for missed in found.unreached] == ["state, memory:2"]


def test_a_stop_before_the_first_policy_is_an_error() -> None:
    stop = opaq.Stop()
    stop.request()
    with pytest.raises(opaq.StoppedError):
        compare(opaq.load_problem("graph"), stop=stop)


@long
def test_time_is_shared_among_the_classes() -> None:
    found = compare(opaq.load_problem("grid-last-state-4"), classes=["state", "state,time"], time_limit=3.0)
    assert [rung.name for rung in found.rungs] == ["state", "state, time"]
    assert not found.interrupted
    rising(found)


def test_a_class_that_is_too_large_does_not_end_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    from opaq.solvers import compare as module

    def refuse(factory: SolverFactory, problem: Problem, policy_class: PolicyClass, *rest: Any, **options: Any) -> Any:
        if policy_class.conditions_on == ("state", "time"):
            raise opaq.BudgetError("too large")
        return solve_with(factory, problem, policy_class, *rest, **options)

    monkeypatch.setattr(module, "solve_with", refuse)
    found = compare(opaq.load_problem("two-sink"), classes=["state", "state,time", "memory:2"], starts=1)
    assert [rung.name for rung in found.rungs] == ["state", "state, memory:2"]
    assert [(missed.name, missed.reason) for missed in found.unreached] == [("state, time", "too large")]
    assert code_of_comparison(found) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("state,tme", "unknown condition 'tme'; did you mean 'time'"),
        ("state,automaton", "'automaton' needs a secret with an automaton"),
        ("state,state", "'state' is listed twice"),
        ("memory", "'memory' needs a number; say how many nodes, 1 to 64: memory:2"),
        ("memory:0", "'memory:0' needs a number"),
        ("last_states:x", "'last_states:x' needs a number; say how many states, 1 to 3"),
        (" , ", "names no condition"),
    ],
)
def test_names_of_classes_are_checked(text: str, reason: str) -> None:
    with pytest.raises(InputError) as error:
        compare(opaq.load_problem("two-sink"), classes=["state", text])
    assert reason in str(error.value)
    assert str(error.value).startswith(f"policy class '{text.strip()}'")


def test_a_class_whose_rows_do_not_fit_is_refused_before_the_work() -> None:
    draws = (random_problem(np.random.default_rng(seed), conditions=("state",)) for seed in range(100))
    problem = next(one for one in draws if np.ptp(np.diff(one.mdp.choice_start)) > 0 and one.horizon > 0)
    with pytest.raises(InputError, match="enable different actions"):
        compare(problem, classes=["state", "time"], on_rung=lambda rung: pytest.fail("the work began"))
    with pytest.raises(InputError, match="is empty"):
        compare(problem, classes=[])
