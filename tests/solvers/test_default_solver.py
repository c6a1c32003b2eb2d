"""The default solver on problems between small and large: classes, cut belief graphs, secrets and settling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import opaq
import opaq.solvers.solve as solve_module
from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import secret_distribution
from opaq.opacity.exact import evaluate
from opaq.product.compile import compile_problem
from opaq.solvers import natural as natural_module
from opaq.solvers import starts as starts_module
from opaq.solvers.compare import compare
from opaq.solvers.loop import judge
from opaq.solvers.natural import NaturalGradient, refine
from opaq.solvers.objective import Objective
from opaq.solvers.options import SolveOptions
from opaq.solvers.policy_classes import class_name, coarser_classes, contains, parse_class
from opaq.solvers.solve import Search, solve, solve_class
from opaq.solvers.starts import approach_policy, find_feasible_policy, make_starts, plan_cuts
from opaq.solvers.strategy import PlanRequest, Status
from opaq.stop import Deadline, Stop
from random_problems import random_problem
from trials import long


def value(solution: opaq.Solution) -> float:
    return solution.measurement.uncertainty.value


CHAINS = {
    "state": [],
    "state,time": ["state"],
    "last_states:3": ["state", "last_states:2"],
    "state,memory:3": ["state", "state, memory:2"],
    "last_states:2,time": ["state", "last_states:2", "state, time"],
}


@pytest.mark.parametrize(("name", "expected"), CHAINS.items())
def test_coarser_classes_are_all_contained_and_keep_the_state(name: str, expected: list[str]) -> None:
    problem = opaq.load_problem("two-sink")
    fine = parse_class(name, problem)
    coarser = coarser_classes(fine, problem)
    assert sorted(class_name(each) for each in coarser) == sorted(expected)
    assert all(contains(fine, each) and not contains(each, fine) for each in coarser)


@pytest.mark.parametrize("seed", range(4))
def test_no_class_is_below_a_coarser_one_and_compare_agrees_with_solve(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), conditions=("state",), horizon=3)
    names = ["state", "state,time", "last_states:2,time"]
    options = {"starts": 1, "seed": seed, "workers": 1, "sequences": 0}
    found = {name: solve(problem, conditions=name, **options) for name in names}
    values = [value(found[name]) for name in names]
    assert values[0] <= values[1] + 1e-9
    assert values[1] <= values[2] + 1e-9
    compared = compare(problem, classes=[names[2]], **options)
    assert [rung.name for rung in compared.rungs] == ["last_states:2, time"]
    assert compared.rungs[0].measurement.uncertainty.value == values[2]
    assert compared.rungs[0].policy.rows == found[names[2]].policy.rows


def test_a_class_alone_is_not_worse_than_the_policies_it_begins_from() -> None:
    problem = opaq.load_problem("two-sink")
    options, stop = SolveOptions(starts=1, start="uniform"), Stop()
    coarse = solve_class(problem, parse_class("state", problem), options, stop=stop)
    fine = parse_class("state,time", problem)
    found = solve_class(problem, fine, options, warm=[coarse.policy], stop=stop)
    assert [start.kind for start in found.starts] == ["uniform", "lifted", "perturbed"]
    assert value(found) >= value(coarse)
    again = solve_class(problem, fine, options, warm=[found.policy], stop=stop)
    assert [start.kind for start in again.starts] == ["uniform", "warm"]
    assert value(again) >= value(found) - 1e-12
    with pytest.raises(opaq.InputError, match="conditions on state, time"):
        solve_class(problem, parse_class("state", problem), options, warm=[found.policy], stop=stop)


def test_warm_policies_are_the_answer_when_there_is_no_time() -> None:
    problem = opaq.load_problem("two-sink")
    best = solve(problem, conditions="state,time")
    stop = Stop()
    steps: list[int] = []

    def end(progress: object) -> None:
        steps.append(1)
        stop.request()

    policy_class = parse_class("state,time", problem)
    options = SolveOptions(start="uniform")
    found = solve_class(problem, policy_class, options, warm=[best.policy], stop=stop, on_step=end)
    assert steps
    assert value(found) >= value(best) - 1e-9
    assert found.status is Status.INTERRUPTED


def small_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts_module, "_CHEAP_BELIEFS", 20)
    monkeypatch.setattr(starts_module, "_CUT_BELIEFS", 4000)


def test_a_large_graph_is_climbed_cut_by_cut_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    usual = solve(problem, conditions="state", sequences=0)
    small_cuts(monkeypatch)
    process = compile_problem(problem, parse_class("state", problem)).process
    count = plan_cuts(process, budget=Budget(nodes=200_000), stop=Stop())
    assert count.whole
    assert [cut.nodes for cut in count.cuts] == sorted(cut.nodes for cut in count.cuts)
    assert count.cuts[-1].nodes == 200_000
    found = solve(problem, conditions="state", sequences=0)
    assert found.gradients == "exact"
    assert value(found) == pytest.approx(value(usual), abs=2e-3)


def lossy_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts_module, "_CHEAP_BELIEFS", 20)
    monkeypatch.setattr(starts_module, "_CUT_BELIEFS", 50)  # four beliefs per level: most of any policy is left out


@long
def test_a_graph_whose_beliefs_weigh_alike_is_sampled_and_then_climbed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    process = compile_problem(problem, parse_class("state", problem)).process
    lossy_cuts(monkeypatch)
    budget = Budget(nodes=200_000)
    whole = plan_cuts(process, budget=budget, stop=Stop())
    assert whole.whole
    assert not whole.thin
    assert whole.cuts == (None, None, budget)
    few = plan_cuts(process, budget=Budget(nodes=100), stop=Stop())
    assert not few.whole
    assert few.thin
    usual = solve(problem, conditions="state", sequences=0, starts=3)
    assert usual.gradients == "exact"
    assert usual.measurement.opacity.method == "exact"
    assert {start.standard_error is None for start in usual.starts} == {True, False}  # some ended on samples
    assert value(usual) >= 0.92


def test_a_search_that_ends_on_samples_proves_nothing_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lossy_cuts(monkeypatch)
    stop, steps = Stop(), list[int]()

    def count(progress: opaq.Progress) -> None:
        steps.append(progress.index)
        if len(steps) == 3:
            stop.request()

    problem = opaq.load_problem("grid-last-state-4")
    found = solve(problem, conditions="state", sequences=0, stop=stop, on_step=count)
    assert found.gradients == "sampled"
    exact = opaq.measure(problem, found.policy).opacity
    assert found.measurement.opacity.lower <= exact.value + 1e-9
    assert found.measurement.opacity.upper >= exact.value - 1e-9
    assert found.optimality is None


def test_a_policy_that_misses_the_task_is_approached_from_one_that_meets_it() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    product = compile_problem(problem, parse_class("state", problem))
    objective = Objective(product, samples=100, budget=Budget(), stop=Stop())
    aim = product.process.softmax(np.random.default_rng(1).normal(size=product.process.num_slots))
    meets = find_feasible_policy(objective).pi
    assert objective.slack_at(aim).min() < 0.0
    near = approach_policy(objective, aim)
    assert objective.slack_at(near).min() >= -1e-9
    assert np.abs(near - aim).sum() < 0.9 * np.abs(meets - aim).sum()
    past = aim + 0.99 * (near - aim)  # a little nearer it is missed
    assert objective.slack_at(past).min() < 0.0


def test_a_graph_that_does_not_fit_is_climbed_on_its_heaviest_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = opaq.load_problem("grid-last-state-4")
    small_cuts(monkeypatch)
    found = solve(problem, conditions="state", max_beliefs=1200, sequences=0, seed=1)
    assert found.gradients == "cut"
    assert found.status is Status.COMPLETED
    assert "gradients on the heaviest " in found.status_text
    assert " of the probability" in found.status_text
    product = compile_problem(problem, found.policy.policy_class)
    exact = evaluate(product.process, found.pi).opacity.value
    best = max(start.value for start in found.starts if start.value is not None)
    own = max(found.starts, key=lambda start: start.value or 0.0).result.best
    assert own is not None
    assert 0.0 < own.dropped < 0.1
    assert best <= exact + 1e-9  # a certain lower bound of the same policy
    assert found.measurement.opacity.lower >= best - 1e-9


def test_a_search_on_samples_leaves_time_to_measure_its_answer_for_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_module, "_PROVING_SHARE", 0.5)  # enough on the slowest machine
    problem = opaq.load_problem("grid-last-state-4")
    found = solve(problem, conditions="state", max_beliefs=1, sequences=0, starts=1, time_limit=3)
    assert found.gradients == "sampled"  # where a cut says little
    assert found.status is Status.TIME_LIMIT
    assert found.measurement.opacity.method == "exact"
    assert found.seconds < 2.5


def hidden_corridor() -> opaq.Problem:
    """A secret that uniform and return-optimal policies nearly always and never keep: wait ten times, then run."""
    return opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["home", "yard", "road", "goal"],
                "actions": ["stay", "go"],
                "start": "home",
                "transitions": {
                    "home": {"stay": "home", "go": "yard"},
                    "yard": {"stay": "home", "go": "road"},
                    "road": {"stay": "home", "go": "goal"},
                    "goal": {"stay": "goal", "go": "goal"},
                },
                "labels": {"left": ["yard", "road", "goal"]},
                "rewards": {"goal": 1},
            },
            "observer": {"sensors": {"camera": {"covers": ["goal"], "detects": 0.0}}},
            "secret": {"visited": "left"},
            "horizon": 16,
            "task": {"requirements": [{"reach": ["goal"], "probability_at_least": 0.45}]},
            "policy": {"conditions_on": ["state", "time"]},
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_secret_that_usual_starts_do_not_have_is_found(seed: int) -> None:
    problem = hidden_corridor()
    objective = Objective(compile_problem(problem))
    process = objective.process
    begins = make_starts(objective, count=3, seed=seed)
    rare = [secret_distribution(process, process.softmax(begin.theta)).min() for begin in begins]
    assert [begin.kind for begin in begins] == ["uniform", "return-optimal", "secret"]
    assert max(rare[:2]) < 0.03  # the one by its noise
    assert rare[2] > 0.3
    assert value(solve(problem, seed=seed)) > 0.99


def test_a_step_that_still_gains_or_swings_is_not_settled() -> None:
    objective = Objective(compile_problem(opaq.load_problem("two-sink")))
    solver = NaturalGradient(max_steps=10_000)
    begin = replace(solver.init(objective, np.zeros(objective.process.num_slots)), violation=0.0)
    here = objective.near(begin.theta).slopes(begin.theta)

    def ends(scores: list[float], noise: float = 0.0) -> int | None:
        state = begin
        for number, score in enumerate(scores, start=1):
            state = replace(state, iteration=number)
            state = solver._watch(state, replace(here, score=score), objective.scales, noise)
            if solver.done(state) is Status.SETTLED:
                return number
        return None

    assert ends([0.5] * 40) == 16  # two windows of eight
    assert ends([0.5 + 1e-4 * k for k in range(200)]) is None
    assert ends([0.5 + 0.01 * (k % 2) for k in range(200)]) is None
    assert ends([0.5 + 0.01 * (k % 2) for k in range(200)], noise=0.01) == 16
    assert refine(replace(begin, calm=True, idle=9)).calm is False


def test_the_last_round_has_no_small_limit_and_a_time_limit_makes_it_go_on() -> None:
    plain, timed = (natural_module.FACTORY.plan(PlanRequest("exact", 500, timed=each)) for each in (False, True))
    assert plain.rounds[-1].max_steps >= 1000
    assert timed.rounds[-1].calm_gain < plain.rounds[-1].calm_gain


def test_starts_that_take_turns_share_the_time() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    found = solve(problem, solver="primal-dual", starts=3, workers=1, iterations=10**6, time_limit=3.0, sequences=0)
    steps = [start.iterations for start in found.starts]
    assert found.status is Status.TIME_LIMIT
    assert min(steps) >= 0.1 * max(steps) > 0  # the first would have had it all


def test_an_estimate_is_one_even_where_all_its_draws_agree() -> None:
    product = compile_problem(opaq.load_problem("two-sink"))
    theta = np.zeros(product.process.num_slots)
    theta[product.process.row_start[:-1]] = 50.0  # the first action of each row, always: nothing is drawn
    for logits in (np.zeros_like(theta), theta):
        assert judge(Objective(product, gradients="sampled"), logits).is_estimate
        assert not judge(Objective(product), logits).is_estimate


def test_a_policy_that_is_known_to_be_good_is_not_led_away_by_few_runs() -> None:
    problem = replace(opaq.load_problem("grid-last-state-4"), task=opaq.Task())
    good = solve(problem, sequences=0)
    product = compile_problem(problem)
    objective = Objective(product, gradients="sampled")
    theta = product.process.logits(product.policy_vector(good.policy))
    plan, ends = natural_module.FACTORY.plan(PlanRequest("sampled", 500)), []
    assert plan.warm is not None
    for solver in (plan.rounds[0], plan.warm(plan.rounds[0])):
        state, rng = solver.init(objective, theta), np.random.default_rng(0)
        for _ in range(4):
            state, _ = solver.step(objective, state, rng)
        ends.append(judge(Objective(product), state.theta).score)
    assert ends[0] < ends[1] - 1e-3
    assert ends[1] > value(good) - 3e-3


def test_a_winner_that_is_an_estimate_stays_one_when_time_ends_its_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, stop = opaq.load_problem("grid-last-state-4"), Stop()
    options = SolveOptions(gradients="sampled", sequences=0)
    search = Search.prepare(problem, problem.policy_class, natural_module.FACTORY, options, warm=None, stop=stop)
    candidate = judge(search.objective, np.zeros(search.product.process.num_slots))
    measured = solve_module.measure_product

    def measure(*given: object, **named: object) -> object:
        if named["stop"] is stop:
            stop.request()  # in the middle of it
        return measured(*given, **named)

    monkeypatch.setattr(solve_module, "measure_product", measure)
    opacity = solve_module.measure_winner(search, candidate, deadline=Deadline())[1].opacity
    exact = opaq.measure(problem).opacity.value
    assert opacity.method == "sampled"
    assert opacity.lower <= exact <= opacity.upper
    assert opacity.value == pytest.approx(exact, abs=6 * opacity.standard_error + 1e-3)
