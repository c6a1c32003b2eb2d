"""The history program against closed forms, enumeration and every policy at hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import opaq
from certificates.history_oracle import RunTable
from opaq.certificates.history import program as module
from opaq.certificates.history.cone import ConeAnswer
from opaq.certificates.history.program import HistoryStatus, history_program
from opaq.certificates.history.tree import HistoryChoices, count_histories, grow_tree
from opaq.model.arrays import SparseRows
from opaq.model.policy import PolicyClass
from opaq.model.problem import Task
from opaq.product.compile import compile_problem
from opaq.stop import Stop, StoppedError
from random_problems import random_policy, random_problem, with_emission
from stress.extremes import bounded_model, largest_exact_return
from trials import part_of


def binary_entropy(share: float) -> float:
    return float(-share * np.log2(share) - (1 - share) * np.log2(1 - share))


def test_two_sinks_reach_the_closed_form() -> None:
    # Moving on at once reveals nothing with probability 1/4, moving on late 1/2; b is how often the agent is late.
    shares = np.linspace(1e-6, 1, 200_001)
    inner = (shares / 4) / (1 - shares / 2)
    best = max((1 - shares / 2) * (-inner * np.log2(inner) - (1 - inner) * np.log2(1 - inner)))
    optimum = history_program(opaq.load_problem("two-sink"))
    assert optimum.value.lower == pytest.approx(best, abs=1e-8)
    assert optimum.value.upper == pytest.approx(best, abs=1e-8)
    assert best == pytest.approx(0.551463, abs=1e-6)
    assert history_program("two-sink", uncertainty="guess_error").value.upper == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("scenario", "value", "rows"), [("graph-published", 1.136579479, 36), ("graph", 1.185045462, 105)]
)
def test_the_graphs_are_solved(scenario: str, value: float, rows: int) -> None:
    problem = opaq.load_problem(scenario)
    optimum = history_program(problem)
    assert optimum.status is HistoryStatus.OPTIMAL
    assert optimum.value.width < 1e-6
    assert optimum.value.lower <= value + 1e-8
    assert optimum.value.upper >= value - 1e-8
    assert len(optimum.policy.rows) == rows
    assert optimum.measurement.feasible
    assert optimum.measurement.opacity.value == pytest.approx(optimum.value.lower, abs=1e-9)
    assert optimum.returns["return"] == pytest.approx(optimum.measurement.expected_return, abs=1e-12)
    assert f"opacity [{optimum.value.lower:.6f}, {optimum.value.upper:.6f}], optimal" in repr(optimum)


def test_the_timed_policy_of_the_published_graph_is_optimal() -> None:
    problem = opaq.load_problem("graph-published")
    timed = opaq.solve(problem, policy_class=PolicyClass(("state", "automaton", "time")), seed=1)
    optimum = history_program(problem)
    assert timed.measurement.opacity.value <= optimum.value.upper + 1e-9
    assert timed.measurement.opacity.value == pytest.approx(optimum.value.upper, abs=1e-4)


@pytest.mark.parametrize("first", part_of(range(0, 60, 15), 1))
@pytest.mark.parametrize("uncertainty", ["opacity", "guess_error"])
def test_no_random_policy_does_better(first: int, uncertainty: str) -> None:
    for number in range(first, first + 15):
        rng = np.random.default_rng(number)
        problem = random_problem(rng)
        optimum = history_program(problem, uncertainty=uncertainty)
        if optimum.status is HistoryStatus.INFEASIBLE:
            assert not any(opaq.measure(problem, random_policy(rng, problem)).feasible for _ in range(3))
            continue
        assert optimum.status is HistoryStatus.OPTIMAL, number
        assert optimum.measurement.feasible, number  # the program has compared the values by then
        for _ in range(3):
            measured = opaq.measure(problem, random_policy(rng, problem), sequences=0)
            reached = measured.opacity if uncertainty == "opacity" else measured.guess_error
            assert not measured.feasible or reached.value <= optimum.value.upper + 1e-9, number


@pytest.mark.parametrize("number", range(16))
def test_extreme_probabilities_and_payments_that_cancel(number: int) -> None:
    problem, policy = bounded_model(number)
    try:
        with np.errstate(invalid="raise", divide="raise", over="raise"):
            optimum = history_program(problem, max_histories=300, time_limit=0.2)
    except (opaq.BudgetError, StoppedError):
        return
    asked = problem.task.return_at_least
    if asked is None or asked <= largest_exact_return(problem):
        assert optimum.value is not None
        assert math.isfinite(optimum.value.lower)
    measurement = opaq.measure(problem, policy, sequences=0)
    assert not measurement.feasible or optimum.value.upper >= measurement.opacity.lower - 1e-12


def test_a_share_too_small_for_a_number_hides_nothing() -> None:
    """A secret value whose probability is 1e-320 of the sequence's: 0 bits, not infinitely many."""
    emission = SparseRows.from_dense([[1.0, 0.0], [1e-320, 1.0], [1e-320, 1.0]])
    problem = opaq.load_problem("two-sink")
    seen = replace(problem.observer, observations=("N", "R"), emission=emission)
    optimum = history_program(replace(problem, observer=seen, task=Task()), time_limit=5.0)
    assert 0.0 <= optimum.value.lower <= optimum.value.upper <= 1.001


def test_no_solved_policy_does_better() -> None:
    for number in range(12):
        problem = random_problem(np.random.default_rng(number), conditions=("state",), horizon=2)
        optimum = history_program(problem)
        solved = opaq.solve(problem, policy_class=PolicyClass(("state", "time")), seed=number, starts=2)
        if optimum.value is None:
            assert not solved.measurement.feasible
        elif solved.measurement.feasible:
            assert solved.measurement.opacity.value <= optimum.value.upper + 1e-9, number


@pytest.mark.parametrize("watched", [False, True])
def test_enumeration_finds_the_same_optimum(watched: bool) -> None:
    # At the optimal prices the unconstrained maximum of H + price (V - threshold) is the constrained one of H.
    compared = 0
    for number in range(12):
        rng = np.random.default_rng([number, 7])
        problem = random_problem(rng, watches_actions=watched, horizon=1 + number % 2, budget=300)
        optimum = history_program(problem, gap=1e-8)
        if optimum.value is None or max([0.0, *optimum.prices.values()]) > 50:
            continue
        best = RunTable(problem, dict(optimum.prices)).best(rng)
        assert best <= optimum.value.upper + 1e-9, number
        assert best == pytest.approx(optimum.value.upper, abs=1e-5), number
        compared += 1
    assert compared >= 8


def test_an_observer_of_actions_needs_a_memory(tmp_path: Path) -> None:
    carried = 0
    for number in range(8):
        problem = random_problem(np.random.default_rng([number, 9]), watches_actions=True, horizon=2)
        problem = replace(problem, task=Task())
        optimum = history_program(problem)
        if optimum.policy.policy_class.memory is None:
            continue
        carried += 1
        path = tmp_path / f"{number}.json"
        opaq.save_policy(optimum.policy, path, problem=problem)
        loaded = opaq.measure(problem, opaq.load_policy(path, problem))
        assert loaded.opacity.value == pytest.approx(optimum.value.lower, abs=1e-9)
    assert carried > 0


def test_a_machine_of_too_many_nodes_costs_the_policy_and_not_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(np.random.default_rng([0, 9]), watches_actions=True, horizon=2)
    problem = replace(problem, task=Task())
    whole = history_program(problem)
    assert whole.policy.policy_class.memory is not None
    monkeypatch.setattr("opaq.certificates.history.policy.MAX_NODES", 2)
    bare = history_program(problem)
    assert bare.policy is None
    assert (bare.value, bare.status) == (whole.value, HistoryStatus.OPTIMAL)


def test_the_policy_is_saved_measured_and_followed(tmp_path: Path) -> None:
    problem = opaq.load_problem("graph")
    optimum = history_program(problem)
    opaq.save_policy(optimum.policy, tmp_path / "best.json", problem=problem)
    loaded = opaq.load_policy(tmp_path / "best.json", problem)
    assert opaq.measure(problem, loaded).opacity.value == pytest.approx(optimum.value.lower, abs=1e-9)
    agent = opaq.Agent(problem, loaded)
    rng = np.random.default_rng(0)
    agent.start("0", rng)
    assert agent.act("0", rng) in problem.mdp.actions


@pytest.mark.parametrize("honest", [False, True])
def test_what_a_solver_says_is_not_believed(monkeypatch: pytest.MonkeyPatch, honest: bool) -> None:
    def broken(problem: object, attempt: object, **_: object) -> ConeAnswer | None:
        if honest:
            return None
        rng, tree, cells = np.random.default_rng(0), problem.tree, problem.cells.secret.size
        multipliers = rng.normal(size=tree.thresholds.size)
        return ConeAnswer(
            rng.random(tree.num_choices), rng.random(cells), rng.normal(size=cells), multipliers, "optimal"
        )

    monkeypatch.setattr(module, "solve_cone", broken)
    monkeypatch.setattr(module, "_ASCENT_STEPS", 400)
    optimum = history_program(opaq.load_problem("graph"), gap=1e-6)
    assert optimum.status is HistoryStatus.BRACKET
    assert optimum.value.lower <= 1.185045462 <= optimum.value.upper
    assert optimum.value.width < 5e-3  # mirror ascent alone comes this close
    assert optimum.measurement.feasible


def test_blind_and_all_seeing_observers() -> None:
    problem = replace(opaq.load_problem("two-sink"), task=Task())
    blind = history_program(with_emission(problem, np.ones((3, 1)), ("nothing",)))
    assert blind.value.lower == pytest.approx(1.0, abs=1e-6)  # H(Z): q1 with probability 1/2
    seeing = history_program(with_emission(problem, np.eye(3), ("o0", "o1", "o2")))
    assert seeing.value.upper == pytest.approx(0.0, abs=1e-9)


def test_horizon_zero_and_a_single_action() -> None:
    graph = replace(opaq.load_problem("graph"), horizon=0, task=Task())
    assert history_program(graph).value.upper == pytest.approx(0.0, abs=1e-9)
    single = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["a", "b"],
                "actions": ["go"],
                "start": {"a": 1},
                "transitions": {"a": {"go": {"a": 0.75, "b": 0.25}}, "b": {"go": {"b": 1}}},
            },
            "observer": {"emissions": {"a": {"x": 1}, "b": {"x": 1}}},
            "secret": {"last_state": ["b"]},
            "horizon": 1,
        }
    )
    optimum = history_program(single)
    assert optimum.value.lower == pytest.approx(binary_entropy(0.25), abs=1e-12)
    assert optimum.value.upper == pytest.approx(binary_entropy(0.25), abs=1e-6)


def test_the_count_is_the_size_of_the_tree() -> None:
    for number in range(30):
        process = compile_problem(random_problem(np.random.default_rng(number)), PolicyClass()).process
        moves = HistoryChoices.of(process, ())
        tree = grow_tree(process, moves, (), max_histories=10**6, stop=Stop())
        assert count_histories(process, moves, most=10**6) == (tree.num_nodes, True)


def test_too_many_histories_are_counted_and_refused() -> None:
    with pytest.raises(opaq.BudgetError, match="106,550 histories of states, more than the 20,000 allowed"):
        history_program(opaq.load_problem("grid-last-state-4"))


def test_a_count_of_histories_of_a_long_run_ends_and_can_be_written() -> None:
    """At horizon 20,000 it has some 9,500 digits."""
    problem = replace(opaq.load_problem("grid-last-state-4"), horizon=20_000)
    with pytest.raises(opaq.BudgetError, match=r"more than [0-9,]{19,40} histories of states"):
        history_program(problem)
    process = compile_problem(problem, PolicyClass(("state",))).process
    stop = Stop()
    stop.request()
    with pytest.raises(StoppedError):
        count_histories(process, HistoryChoices.of(process, ()), most=10, stop=stop)


def test_what_the_program_cannot_do_is_refused() -> None:
    problem = opaq.load_problem("graph")
    with pytest.raises(opaq.InputError, match=r"task\.objective: is minimise.*not a convex program"):
        history_program(replace(problem, task=Task(0.2, minimise=True)))
    with pytest.raises(opaq.InputError, match=r"task\.over: histories end at the horizon"):
        history_program(replace(problem, task=Task(0.2, over="forever"), discount=0.9))
    with pytest.raises(opaq.InputError, match="'opacty' is not a choice; did you mean 'opacity'"):
        history_program(problem, uncertainty="opacty")


def test_a_stop_before_anything_is_known() -> None:
    stop = Stop()
    stop.request()
    with pytest.raises(StoppedError):
        history_program(opaq.load_problem("graph"), stop=stop)


def test_a_stop_while_solving_gives_the_interval_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop()
    monkeypatch.setattr(module, "solve_cone", lambda *_, **__: stop.request())
    optimum = history_program(opaq.load_problem("graph"), stop=stop)
    assert optimum.status is HistoryStatus.STOPPED
    assert optimum.value.lower <= 1.185045462 <= optimum.value.upper <= 2.0 + 1e-9
    assert optimum.measurement.opacity.value == pytest.approx(optimum.value.lower, abs=1e-9)


def test_clarabel_ends_when_asked_and_its_numbers_are_only_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, solve_cone = Stop(), module.solve_cone
    answers = []

    def stopped(*parts: object, **named: object) -> ConeAnswer | None:
        stop.request()
        answers.append(solve_cone(*parts, **named))
        return answers[-1]

    monkeypatch.setattr(module, "solve_cone", stopped)
    optimum = history_program(opaq.load_problem("graph"), stop=stop)
    assert [answer.status for answer in answers] == ["CallbackTerminated"]
    assert optimum.status is HistoryStatus.STOPPED
    assert optimum.value.lower <= 1.185045462 <= optimum.value.upper <= 2.0 + 1e-9


def test_with_a_time_limit_the_answer_is_the_same() -> None:
    limited, free = (history_program(opaq.load_problem("graph"), time_limit=one) for one in (600.0, None))
    assert limited.status is HistoryStatus.OPTIMAL
    assert limited.value.value == pytest.approx(free.value.value, abs=1e-4)


def test_a_policy_that_cannot_be_measured_exactly_in_time_is_not_an_error(monkeypatch) -> None:
    measure = module.measure
    monkeypatch.setattr(module, "measure", lambda *parts, **named: measure(*parts, **named | {"mode": "sampled"}))
    optimum = history_program(opaq.load_problem("graph-published"))
    assert optimum.status is HistoryStatus.OPTIMAL
    assert optimum.measurement is None
