"""Fronts against closed forms, grids of policies and the laws that every front obeys."""

from __future__ import annotations

import dataclasses
from itertools import pairwise, product

import numpy as np
import pytest

import opaq
import oracles
from opaq.model.conditions import CurrentState, LastStates, Observations
from opaq.model.policy import PolicyClass
from opaq.opacity.exact import evaluate
from opaq.opacity.measure import evaluate_requirements
from opaq.paper.experiments import closed_form
from opaq.product.compile import compile_problem
from opaq.reports.layout import render_text
from opaq.reports.text.frontier import frontier_page
from opaq.solvers.options import SolveOptions
from opaq.study.front.placement import is_closed_under_mixing
from opaq.study.front.search import FrontSearch, payoff_index
from random_problems import random_problem
from trials import long, part_of

ALPHAS = np.linspace(0.0, 1.0, 20_001)


def two_sink_return(alpha: np.ndarray) -> np.ndarray:
    """A sink pays 1 on every step: b leaves at once, a leaves with probability 1/2 or not at all."""
    product_ = compile_problem(opaq.load_problem("two-sink"))
    process, actions = product_.process, product_.problem.mdp.actions
    a = [actions[action] == "a" for action in product_.slot_action]
    in_q0 = [product_.rows[row] == ("q0",) for row in process.row_of_slot()]
    ends = []
    for share in (0.0, 0.5, 1.0):  # a polynomial of degree 2: two decisions matter
        pi = np.where(in_q0, np.where(a, share, 1 - share), process.uniform())
        ends.append(evaluate_requirements(product_, pi)[0].value)
    return np.polyval(np.polyfit([0.0, 0.5, 1.0], ends, 2), alpha)


@pytest.fixture(scope="module")
def two_sink() -> opaq.Frontier:
    return opaq.frontier("two-sink", points=7)


def test_two_sink_is_the_closed_form(two_sink: opaq.Frontier) -> None:
    hidden, earned = closed_form(ALPHAS), two_sink_return(ALPHAS)
    assert len(two_sink.points) == 7
    assert two_sink.complete
    assert two_sink.largest == pytest.approx(earned.max())
    for point in two_sink.points:
        reached = earned >= (-np.inf if point.threshold is None else point.threshold - 1e-9)
        assert point.opacity.value == pytest.approx(hidden[reached].max(), abs=3e-5)  # of the grid


def test_slopes_are_those_of_the_closed_form(two_sink: opaq.Frontier) -> None:
    hidden, earned = closed_form(ALPHAS), two_sink_return(ALPHAS)
    slopes = np.gradient(hidden, ALPHAS) / np.gradient(earned, ALPHAS)
    for point in two_sink.points[1:-1]:
        (near,) = [np.abs(earned - point.value).argmin()]
        assert point.slope == pytest.approx(slopes[near], abs=2e-3)


def test_slopes_lie_between_those_of_the_chords(two_sink: opaq.Frontier) -> None:
    chords = [
        (right.opacity.value - left.opacity.value) / (right.value - left.value)
        for left, right in pairwise(two_sink.points)
    ]
    inner = two_sink.points[1:-2]  # the front of the last interval is not concave
    for point, before, after in zip(inner, chords, chords[1:], strict=False):
        assert after <= point.slope <= before


def small(rng: np.random.Generator) -> opaq.Problem:
    """Two states with two actions each, and two in which nothing is chosen."""
    states, actions = ["s", "t", "u", "v"], ["a", "b"]

    def row(size: int) -> list[float]:
        weights = rng.random(size) * (rng.random(size) < 0.7)
        weights[rng.integers(size)] += 0.5
        return (weights / weights.sum()).tolist()

    def moves(state: str) -> dict[str, dict[str, float]]:
        return {action: dict(zip(states, row(4), strict=True)) for action in (actions if state in "st" else ["a"])}

    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": states,
                "actions": actions,
                "start": {"s": 0.6, "t": 0.4},
                "transitions": {state: moves(state) for state in states},
                "rewards": dict(zip(states, rng.random(4).tolist(), strict=True)),
                "labels": {"secret": ["t", "u"]},
            },
            "observer": {"emissions": {state: dict(zip("xyz", row(3), strict=True)) for state in states}},
            "secret": {"last_state": "secret"},
            "horizon": 3,
        }
    )


@long
@pytest.mark.parametrize("seed", [8])
def test_no_policy_of_a_grid_is_beyond_the_front(seed: int) -> None:
    problem = small(np.random.default_rng(seed))
    front = opaq.frontier(problem, points=5)
    compiled = compile_problem(problem)
    process = compiled.process
    figures = []
    for first, second in product(np.linspace(0, 1, 21), repeat=2):
        shares = {("s",): [first, 1 - first], ("t",): [second, 1 - second]}
        pi = np.concatenate([shares.get(row, [1.0]) for row in compiled.rows])
        figures.append((evaluate_requirements(compiled, pi)[0].value, evaluate(process, pi).opacity.value))
    earned, hidden = np.array(figures).T
    for point in front.points:
        reached = earned >= (-np.inf if point.threshold is None else point.threshold)
        best = hidden[reached].max(initial=0.0)
        assert best - 1e-5 <= point.opacity.value
        truth = oracles.joint(problem, point.policy)
        assert point.opacity.value == pytest.approx(oracles.opacity(truth), abs=1e-9)
        assert point.value == pytest.approx(oracles.expected_return(problem, point.policy), abs=1e-9)
    assert front.points[-1].value >= earned.max() - 1e-5


@pytest.mark.parametrize("seed", part_of(range(4), 1))
def test_every_front_falls_and_meets_its_thresholds(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    problem = random_problem(rng, horizon=2, budget=400)
    front = opaq.frontier(problem, points=4)
    for point in front.points:
        assert point.threshold is None or point.value >= point.threshold - 1e-9 * max(1, abs(point.threshold))
        assert point.measurement.feasible
        assert point.slope is None or point.slope <= 0
    for left, right in pairwise(front.points):
        assert left.opacity.value >= right.opacity.value
        assert left.value < right.value or left.carried
    values = [point.value for point in front.points]
    assert max(values) <= front.largest + 1e-9


@pytest.mark.parametrize(
    "conditions",
    [
        (LastStates(3),),
        (CurrentState(), Observations("all")),
        (LastStates(3), Observations("all")),
        (LastStates(3), Observations(3)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_classes_said_to_be_closed_hold_the_mixtures_of_their_policies(seed: int, conditions: tuple) -> None:
    """A coin at the start: the mean of the returns, and at least the mean of what is hidden."""
    rng = np.random.default_rng(seed)
    stated = random_problem(rng, secret="last_state", conditions=("state",), horizon=2, watches_actions=False)
    policy_class = PolicyClass(conditions=conditions)
    assert is_closed_under_mixing(stated, policy_class)
    hidden, mixed, earned = _mix(rng, stated, policy_class)
    assert mixed[1] == pytest.approx(earned, abs=1e-12)
    assert mixed[0] >= hidden - 1e-12


def _mix(
    rng: np.random.Generator, stated: opaq.Problem, policy_class: PolicyClass
) -> tuple[float, tuple[float, float], float]:
    """Of two random policies: the mean of what they hide, (hidden, earned) by their mixture, the mean they earn."""
    search = FrontSearch.prepare(stated, policy_class, SolveOptions(), against="return", stop=opaq.Stop())
    process = search.process

    def taken(pi: np.ndarray) -> tuple[float, float]:
        return evaluate(process, pi).opacity.value, evaluate_requirements(search.search.product, pi)[0].value

    ends = [process.softmax(6 * rng.normal(size=process.num_slots)) for _ in range(2)]
    hidden, earned = zip(*map(taken, ends), strict=True)
    order = np.argsort(earned)
    low, high = (_solved(ends[index], earned[index]) for index in order)
    middle = float(np.mean(earned))
    return float(np.mean(hidden)), taken(search.mixture(low, high, middle)), middle


def test_all_states_and_the_last_observation_promise_nothing() -> None:
    """What was seen earlier tells of the coin: what plays the mixture's actions hides less than its parts do."""
    rng = np.random.default_rng(18)
    stated = random_problem(rng, secret="initial_state", conditions=("state",), horizon=2, watches_actions=False)
    policy_class = PolicyClass(conditions=(LastStates(3), Observations(1)))
    assert not is_closed_under_mixing(stated, policy_class)
    hidden, mixed, _ = _mix(rng, stated, policy_class)
    assert mixed[0] < hidden - 1e-4


def _solved(pi: np.ndarray, value: float):
    from types import SimpleNamespace

    return SimpleNamespace(pi=pi, value=value)


def test_classes_that_are_not_closed_promise_nothing() -> None:
    problem = opaq.load_problem("two-sink")
    for conditions in (("state",), ("state", "time")):
        assert not is_closed_under_mixing(problem, PolicyClass(conditions))
    assert not is_closed_under_mixing(problem, PolicyClass(conditions=(LastStates(2),)))
    minimised = dataclasses.replace(problem, task=dataclasses.replace(problem.task, minimise=True))
    assert not is_closed_under_mixing(minimised, PolicyClass(conditions=(LastStates(3),)))


REACH = {"reach": ["q1"], "probability_at_least": 0.1, "name": "the first sink"}


def with_task(**task: object) -> opaq.Problem:
    stated = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    return opaq.build_problem(stated | {"task": task})


def test_against_another_requirement() -> None:
    problem = with_task(return_at_least=1.3, requirements=[REACH])
    assert payoff_index(problem, "probability of reaching the first sink") == payoff_index(problem, "the first sink")
    front = opaq.frontier(problem, against="the first sink", points=3)
    assert front.against == "probability of reaching the first sink"
    for point in front.points:
        met = {each.name: each.value for each in point.measurement.requirements}
        assert met["return"] >= 1.3 - 1e-9  # what else is asked holds everywhere
        assert point.value == met[front.against]
    assert front.points[0].threshold is None
    alone = opaq.solve(with_task(return_at_least=1.3))
    assert front.points[0].opacity.value == pytest.approx(alone.measurement.opacity.value, abs=1e-6)


def test_what_varies_is_what_the_task_requires() -> None:
    assert payoff_index(with_task(requirements=[REACH]), None) == 1
    assert payoff_index(with_task(return_at_least=1.3, requirements=[REACH]), None) == 0
    assert payoff_index(with_task(), None) == 0
    front = opaq.frontier(with_task(requirements=[REACH]), points=2)
    assert front.against == "probability of reaching the first sink"


@pytest.mark.parametrize("start", ["return-optimal", "a policy"])
def test_a_front_begins_from_a_policy(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    best = opaq.solve("two-sink", conditions="state", starts=4).policy
    begun: list[tuple[str, list[float]]] = []
    race = FrontSearch._warm_race

    def watch(self, search, policies, seed, on_step):
        begun.append(("warm", policies[3].tolist()))
        return race(self, search, policies, seed, on_step)

    monkeypatch.setattr(FrontSearch, "_warm_race", watch)
    front = opaq.frontier("two-sink", points=3, initial_policy=best if start == "a policy" else start)
    product = compile_problem(opaq.load_problem("two-sink"))
    chosen = best if start == "a policy" else opaq.return_optimal_policy(opaq.load_problem("two-sink"))
    assert begun
    assert all(pi == pytest.approx(product.policy_vector(chosen)) for _, pi in begun)
    assert front.points[0].opacity >= opaq.measure("two-sink", best).opacity.value - 1e-6


def test_a_front_as_a_table(two_sink: opaq.Frontier) -> None:
    table = two_sink.to_dataframe()
    assert table["opacity"].tolist() == [point.opacity.value for point in two_sink.points]
    assert table["return"].tolist() == [point.expected_return for point in two_sink.points]
    assert table["threshold"].isna().tolist() == [point.threshold is None for point in two_sink.points]


def test_an_unknown_requirement_is_refused() -> None:
    with pytest.raises(opaq.InputError, match="no requirement is called 'speed'"):
        opaq.frontier("two-sink", against="speed")


def test_nothing_to_earn_is_one_point() -> None:
    stated = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    stated["model"] |= {"rewards": {}}
    front = opaq.frontier(opaq.build_problem(stated))
    assert len(front.points) == 1
    assert front.complete
    assert front.points[0].opacity.value == pytest.approx(0.408835, abs=1e-5)


def test_other_requirements_that_nobody_meets_leave_no_point() -> None:
    front = opaq.frontier(with_task(requirements=[REACH | {"probability_at_least": 0.99}]), against="return")
    assert front.points == ()
    assert not front.complete
    assert "0 points" in repr(front)


def test_bounds_lie_above_the_front_and_fall_with_it() -> None:
    front = opaq.frontier("two-sink", conditions="state,time", points=3, certify=True)
    bounds = [point.upper_bound for point in front.points]
    assert all(point.opacity.value <= point.upper_bound + 1e-9 for point in front.points)
    assert bounds == sorted(bounds, reverse=True)
    assert front.points[0].upper_bound - front.points[0].opacity.value < 0.011  # certificates end at a gap of 0.01


def test_a_request_to_stop_leaves_the_points_so_far() -> None:
    stop, seen = opaq.Stop(), []

    def noted(point: opaq.FrontierPoint) -> None:
        seen.append(point)
        if len(seen) == 4:
            stop.request()

    front = opaq.frontier("two-sink", stop=stop, on_point=noted)
    assert front.interrupted
    assert not front.complete
    assert 4 <= len(front.points) < 12


def test_a_time_limit_leaves_the_points_so_far() -> None:
    front = opaq.frontier("two-sink", points=500, time_limit=2.0)
    assert 1 <= len(front.points) < 500
    assert not front.complete
    assert not front.interrupted


def test_no_time_at_all_is_said() -> None:
    stop = opaq.Stop()
    stop.request()
    with pytest.raises(opaq.StoppedError):
        opaq.frontier("two-sink", stop=stop)


@long
def test_the_number_of_cores_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opaq.study.front.frontier.FEW_BELIEFS", 0)  # threads, though they do not pay here
    problem = small(np.random.default_rng(6))
    one, two = (opaq.frontier(problem, points=4, workers=count) for count in (1, 2))
    assert [point.policy for point in one.points] == [point.policy for point in two.points]


def test_the_least_opaque_policies_have_a_front_too() -> None:
    stated = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    front = opaq.frontier(opaq.build_problem(stated | {"task": {"objective": "minimise"}}), points=4)
    values = [point.opacity.value for point in front.points]
    assert values == sorted(values)
    assert values[0] == pytest.approx(0.0, abs=1e-6) or values[0] < 0.41
    assert "not convex at" in render_text(frontier_page(front))
    smooth = [dataclasses.replace(point, shortfall=0.0) for point in front.points]
    assert "\nconvex up to 1e-3" in render_text(frontier_page(dataclasses.replace(front, points=tuple(smooth))))


def test_a_probability_that_no_policy_raises_above_0_has_a_front() -> None:
    spec = opaq.problem_to_dict(opaq.load_problem("two-sink"))
    model = spec["model"] | {"start": {"q1": 1.0}}
    problem = opaq.build_problem(spec | {"model": model, "task": {"reach": ["q2"], "probability_at_least": 0.5}})
    front = opaq.frontier(problem, points=2)
    assert front.largest == 0
    assert [point.value for point in front.points] == [0]
