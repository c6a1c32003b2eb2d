"""Frozen belief graphs against hashed ones, and the natural-gradient solver against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import opaq
from opaq.beliefs.dynamic_program import greedy_policy, largest_return
from opaq.beliefs.graph import Budget
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Task
from opaq.opacity import exact
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess
from opaq.solvers.natural import NaturalGradient, NaturalState, clamp_logits
from opaq.solvers.objective import Objective, Slopes
from opaq.solvers.solve import solve
from opaq.spec import build_problem
from opaq.stop import Stop
from problem_examples import TWO_SINK, edited
from random_problems import CONDITIONS, random_problem
from stress.solving import random_task
from trials import part_of

BUDGET = Budget()


def some_processes(conditions: tuple[str, ...], count: int = 4) -> list[HiddenProcess]:
    rng = np.random.default_rng([7, CONDITIONS.index(conditions)])
    return [compile_problem(random_problem(rng, conditions=conditions, budget=1500)).process for _ in range(count)]


def tasks(numbers: range) -> list[Problem]:
    return [random_task(number)[0] for number in numbers]


def merit(objective: Objective, state: NaturalState, theta: np.ndarray) -> float:
    """The augmented Lagrangian with the multipliers and the penalty of a state."""
    point = objective.at(theta)
    pressure = np.maximum(0.0, state.multipliers - state.penalty * point.slack / objective.scales)
    return point.score - float((pressure**2 - state.multipliers**2).sum()) / (2.0 * state.penalty)


def visits_by_enumeration(process: HiddenProcess, pi: np.ndarray) -> np.ndarray:
    """Expected visits of every row: powers of the dense transition matrix."""
    size = process.num_states
    matrix = np.zeros((size + 1, size))
    flow = process.flow(pi)
    for state in range(size + 1):
        for edge in range(process.edge_start[state], process.edge_start[state + 1]):
            matrix[state, process.edge_target[edge]] += flow[edge]
    now = total = matrix[size]
    for _ in range(process.horizon):
        now = now @ matrix[:size]
        total = total + now
    return np.bincount(process.row, weights=total, minlength=process.num_rows)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_the_first_step_follows_the_gradient_by_visits_and_probability(first: int) -> None:
    rng, rate = np.random.default_rng(5), 1e-5
    for problem in tasks(range(first, first + 6)):
        objective = Objective(compile_problem(problem))
        process = objective.process
        solver = NaturalGradient(iterations=1, first_rate=rate)
        state = solver.init(objective, clamp_logits(process, rng.normal(size=process.num_slots)))
        after, _ = solver.step(objective, state, rng)
        pi = process.softmax(state.theta)
        weight = np.repeat(visits_by_enumeration(process, pi), np.diff(process.row_start)) * pi
        unit = np.eye(pi.size)
        slope = np.array(
            [
                (merit(objective, state, state.theta + 1e-5 * one) - merit(objective, state, state.theta - 1e-5 * one))
                / 2e-5
                for one in unit
            ]
        )
        wanted = np.divide(slope, weight, out=np.zeros_like(slope), where=weight > 1e-6)
        checked = (weight > 1e-6) & (np.abs(wanted) < 9.0)
        moved = (after.theta - state.theta) / rate
        # Logits mean the same policy when a row is shifted.
        moved -= np.repeat(np.add.reduceat(pi * moved, process.row_start[:-1]), np.diff(process.row_start))
        whole = np.repeat(np.logical_and.reduceat(checked, process.row_start[:-1]), np.diff(process.row_start))
        assert moved[whole] == pytest.approx(wanted[whole], rel=1e-4, abs=1e-4)


def test_settle_keeps_the_policy() -> None:
    rng = np.random.default_rng(6)
    for conditions in CONDITIONS:
        for process in some_processes(conditions, count=2):
            for spread in (1.0, 8.0, 300.0):
                theta = spread * rng.normal(size=process.num_slots) + 50.0
                after = clamp_logits(process, theta)
                assert np.maximum.reduceat(after, process.row_start[:-1]) == pytest.approx(0.0, abs=0.0)
                assert process.softmax(after) == pytest.approx(process.softmax(theta), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("first", part_of(range(30, 54, 6), 1))
def test_merit_never_falls(first: int) -> None:
    rng = np.random.default_rng(7)
    for problem in tasks(range(first, first + 6)):
        objective = Objective(compile_problem(problem))
        solver = NaturalGradient(iterations=1)
        state = solver.init(objective, clamp_logits(objective.process, rng.normal(size=objective.process.num_slots)))
        for _ in range(40):
            after, _ = solver.step(objective, state, rng)
            before = merit(objective, state, state.theta)
            assert merit(objective, state, after.theta) >= before - 1e-10 * max(1.0, abs(before))
            state = after


def two_ways(**edits: object) -> Problem:
    """From s, a leads to u and b to v (and w is never reached); u earns 1 at the horizon, and nothing shows."""
    spec = {
        "opaq": 1,
        "model": {
            "states": ["s", "u", "v", "w"],
            "actions": ["a", "b"],
            "start": "s",
            "transitions": {"s": {"a": "u", "b": "v"}, "u": {"*": "u"}, "v": {"*": "v"}, "w": {"a": "u", "b": "w"}},
            "rewards": {"u": 1},
            "labels": {"secret": ["u"]},
        },
        "observer": {"emissions": {"*": "null"}},
        "secret": {"last_state": "secret"},
        "horizon": 1,
    }
    return build_problem(edited(spec, edits))


def binary_entropy(share: float) -> float:
    return float(-sum(p * np.log2(p) for p in (share, 1 - share) if p > 0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("threshold", "share"), [(0.0, 0.5), (0.3, 0.5), (0.8, 0.8), (0.999, 0.999), (1.0, 1.0)])
def test_blind_observer_leaves_the_entropy_that_the_task_allows(seed: int, threshold: float, share: float) -> None:
    problem = two_ways(task={"return_at_least": threshold})
    found = solve(problem, starts=1, start="random", seed=seed)
    assert found.measurement.feasible
    assert found.measurement.opacity.value == pytest.approx(binary_entropy(share), abs=1e-6)


def test_fully_seeing_observer_leaves_nothing() -> None:
    seen = {"observer": {"emissions": {"s": "s", "u": "u", "v": "v", "w": "w"}}}
    found = solve(two_ways(**seen, task={"return_at_least": 0.5}))
    assert found.measurement.feasible
    assert found.measurement.opacity.value == pytest.approx(0.0, abs=1e-12)


def test_horizon_zero() -> None:
    problem = two_ways(horizon=0, **{"model/start": {"u": 0.25, "v": 0.75}, "task": {"return_at_least": 0.2}})
    found = solve(problem)
    assert found.measurement.feasible
    assert found.measurement.opacity.value == pytest.approx(binary_entropy(0.25), abs=1e-12)


def test_one_action() -> None:
    moves = {"s": {"a": {"u": 0.3, "v": 0.7}}, "u": {"a": "u"}, "v": {"a": "v"}, "w": {"a": "u"}}
    problem = two_ways(**{"model/actions": ["a"], "model/transitions": moves})
    found = solve(problem)
    assert found.measurement.opacity.value == pytest.approx(binary_entropy(0.3), abs=1e-12)


@pytest.mark.parametrize("minimise", [False, True])
def test_unreachable_rows_do_not_matter(minimise: bool) -> None:
    # From s only a is possible; u and v are reached, w never is and its row has no visits.
    moves = {
        "s": {"a": "u", "b": "v"},
        "u": {"a": "u", "b": "v"},
        "v": {"a": "v", "b": "u"},
        "w": {"a": "u", "b": "w"},
    }
    task = {"objective": "minimise"} if minimise else {}
    problem = two_ways(horizon=3, task=task, **{"model/transitions": moves})
    found = solve(problem, policy_class=PolicyClass(("state", "time")))
    assert found.measurement.opacity.value == pytest.approx(0.0 if minimise else 1.0, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9])
def test_rewards_of_any_size_give_the_same_policy(scale: float) -> None:
    problem = two_ways(task={"return_at_least": 0.8 * scale}, **{"model/rewards": {"u": scale}})
    found = solve(problem)
    assert found.measurement.feasible
    assert found.measurement.expected_return / scale == pytest.approx(0.8, abs=1e-6)
    assert found.measurement.expected_return / scale >= 0.8 * (1 - 1e-9)
    assert found.measurement.opacity.value == pytest.approx(binary_entropy(0.8), abs=1e-5)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rewards_of_any_size_on_the_graph(scale: float) -> None:
    problem = opaq.load_problem("graph")
    threshold = problem.task.return_at_least
    assert threshold is not None
    scaled = replace(
        problem,
        mdp=replace(problem.mdp, rewards=problem.mdp.rewards * scale),
        task=Task(return_at_least=threshold * scale),
    )
    usual, found = solve(problem), solve(scaled)
    assert found.measurement.feasible
    assert found.measurement.expected_return / scale >= threshold * (1 - 1e-9)
    assert found.measurement.opacity.value == pytest.approx(usual.measurement.opacity.value, abs=1e-4)


@pytest.mark.parametrize("number", part_of(range(12), 3))
def test_threshold_at_the_attainable_maximum(number: int) -> None:
    rng = np.random.default_rng([8, number])
    problem = random_problem(rng, conditions=("state", "time"), budget=600)
    process = compile_problem(problem).process
    most = largest_return(process)
    found = solve(replace(problem, task=Task(return_at_least=most)))
    assert found.measurement.feasible
    earning = exact.evaluate(
        process, greedy_policy(process, process.payoffs[0], weighting="visits", stop=Stop())
    ).opacity.value
    assert found.measurement.opacity.value >= earning - 1e-6


def test_two_sink_from_every_single_start() -> None:
    problem = build_problem(TWO_SINK)
    found = [solve(problem, starts=1, start="random", seed=seed).measurement.opacity.value for seed in range(5)]
    assert max(found) - min(found) < 1e-6


def test_noisy_steps_propose_the_mean_of_their_policies() -> None:
    """Step j of n weighs j (j + 1) (j + 2): what later steps wander about is proposed, not where they stand."""
    objective = Objective(compile_problem(build_problem(TWO_SINK)), gradients="sampled", samples=200)
    solver, rng = NaturalGradient(iterations=3), np.random.default_rng(1)
    state = solver.init(objective, np.random.default_rng(2).normal(size=objective.process.num_slots))
    visited = []
    for _ in range(6):
        state, info = solver.step(objective, state, rng)
        visited.append(objective.process.softmax(state.theta))
    number = np.arange(1.0, 7.0)
    weights = number * (number + 1) * (number + 2)
    mean = (weights / weights.sum()) @ np.array(visited)
    assert objective.process.softmax(info.theta) == pytest.approx(mean, abs=1e-4)  # runs are whole numbers
    assert np.ptp(visited, axis=0).max() > 1e-3, "the steps moved"


class _Noisy:
    """An objective near a policy whose scores are said to have an error."""

    def __init__(self, objective: Objective, theta: np.ndarray, noise: float) -> None:
        self._exact, self.noise = objective.near(theta), noise

    def slopes(self, theta: np.ndarray) -> Slopes:
        return self._exact.slopes(theta)


@pytest.mark.parametrize(("noise", "grows"), [(0.0, True), (5.0, False)])
def test_a_violation_worth_less_than_the_noise_raises_no_penalty(noise: float, grows: bool) -> None:
    """The threshold is out of reach, so that the task is violated after every step."""
    objective = Objective(compile_problem(two_ways(task={"return_at_least": 1.05})))
    solver = NaturalGradient(iterations=1)
    state = solver.init(objective, np.zeros(objective.process.num_slots))
    for _ in range(30):
        state, info = solver.ascend(objective, _Noisy(objective, state.theta, noise), state)
        assert info.trace.slack.min() < 0.0
    assert (state.penalty > solver.first_penalty) is grows
    assert (state.violation > 0.0) is grows
