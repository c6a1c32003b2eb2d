"""The status follows from evidence at the policy returned, and every sentence from what is known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import opaq
from opaq.beliefs.dynamic_program import greedy_policy, largest_return
from opaq.beliefs.returns import expected_return
from opaq.model.arrays import floats
from opaq.model.policy import PolicyClass
from opaq.model.problem import Reach, Task
from opaq.opacity.exact import evaluate
from opaq.product.compile import compile_problem
from opaq.reports.text.solution import search_rows
from opaq.solvers.loop import judge
from opaq.solvers.objective import Objective
from opaq.solvers.policy_classes import has_many_optima
from opaq.solvers.primal_dual import PrimalDual
from opaq.solvers.solve import solve
from opaq.solvers.starts import find_feasible_policy, row_visits
from opaq.solvers.strategy import Status
from opaq.solvers.verdict import measure_first_order, measure_optimality, polish
from opaq.stop import Stop
from random_problems import random_problem
from stress.extremes import bounded_model, largest_exact_return
from trials import part_of


def grid(horizon, conditions=("state",), **task):
    problem = opaq.load_problem("grid-last-state-4")
    return replace(problem, horizon=horizon, policy_class=PolicyClass(conditions), task=Task(**task))


def largest(problem):
    return largest_return(compile_problem(problem).process)


def largest_gain(found, multipliers=(), step=1e-7):
    """Bits per unit of probability moved to one action, by differences; the oracle of the residual."""
    process = found.product.process
    payoffs = [payoff for payoff in process.payoffs if payoff.threshold is not None]

    def lagrangian(pi):
        returns = [expected_return(process, pi, payoff) for payoff in payoffs]
        return evaluate(process, pi).opacity.value + float(np.dot(multipliers, returns) if payoffs else 0.0)

    before, gains = lagrangian(found.pi), [0.0]
    for first, last in pairwise(process.row_start.tolist()):
        for slot in range(first, last):
            pi = found.pi.copy()
            pi[first:last] *= 1.0 - step
            pi[slot] += step
            gains.append((lagrangian(pi) - before) / step)
    return max(gains)


def test_a_small_gradient_in_logits_is_no_proof():
    """An action that is hardly ever taken has no gradient in logits, however much it would gain."""
    problem = opaq.load_problem("two-sink")
    objective = Objective(compile_problem(problem))
    theta = objective.process.logits(objective.process.uniform())
    theta[objective.process.row_start[0]] = -40.0
    found = measure_optimality(objective, theta)
    assert found.gradient_norm < 1e-9
    assert found.residual > 0.1
    assert not found.holds


def test_gains_are_the_derivatives_on_the_simplex():
    rng = np.random.default_rng(0)
    for _ in range(10):
        product = compile_problem(replace(random_problem(rng), task=Task()))
        theta = rng.normal(size=product.process.num_slots)
        gains = measure_first_order(Objective(product), theta).gains
        pi = product.process.softmax(theta)
        slot = int(rng.integers(pi.size))
        first, last = (product.process.row_start[product.process.row_of_slot()[slot] + side] for side in (0, 1))
        moved = pi.copy()
        moved[first:last] *= 1.0 - 1e-6
        moved[slot] += 1e-6
        change = evaluate(product.process, moved).opacity.value - evaluate(product.process, pi).opacity.value
        assert gains[slot] == pytest.approx(change / 1e-6, abs=1e-4)


@pytest.mark.parametrize("seed", part_of(range(15), 4))
def test_converged_means_that_no_move_of_probability_gains(seed):
    rng = np.random.default_rng([seed, 11])
    problem = random_problem(rng)
    process = compile_problem(problem).process
    top, middle = largest_return(process), expected_return(process, process.uniform())
    task = Task(return_at_least=0.4 * middle + 0.6 * top) if seed % 2 else Task()
    found = solve(replace(problem, task=task), starts=2, workers=1)
    if found.status is Status.CONVERGED:
        assert found.optimality.holds
        assert largest_gain(found, found.optimality.multipliers) <= 3 * found.optimality.tolerance
    else:
        assert found.status is not Status.COMPLETED


def test_a_solve_that_stalls_near_the_boundary_does_not_claim_convergence():
    """Before: "converged" with a gradient of 2e-5 in logits, while moving probability gained 8e-3 bits per unit."""
    found = solve(grid(6, return_at_least=0.3), starts=1, workers=1)
    assert found.status in (Status.CONVERGED, Status.SETTLED, Status.STOPPED)
    small = largest_gain(found, found.optimality.multipliers) <= 3 * found.optimality.tolerance
    assert small or found.status is not Status.CONVERGED
    assert f"{found.optimality.residual:.1e}" in found.status_text


def test_polish_leaves_a_saddle():
    """Two ways that nobody sees: going either way alike is the most opaque, and stationary for the least opaque."""
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["s", "left", "right"],
                "actions": ["l", "r"],
                "start": {"s": 1},
                "transitions": {
                    "s": {"l": {"left": 1}, "r": {"right": 1}},
                    "left": {"*": {"left": 1}},
                    "right": {"*": {"right": 1}},
                },
            },
            "observer": {"emissions": {"s": {"n": 1}, "left": {"n": 1}, "right": {"n": 1}}},
            "secret": {"last_state": ["left"]},
            "horizon": 1,
        }
    )
    objective = Objective(compile_problem(replace(problem, task=Task(minimise=True))))
    begun = judge(objective, np.zeros(objective.process.num_slots))
    measured = measure_optimality(objective, begun.theta)
    assert measured.stationary
    assert not measured.holds
    ended = polish(objective, begun, evaluations=500, second_order=True)
    assert begun.score == -1.0
    assert ended.candidate.score > -1e-3


def test_polish_leaves_a_corner():
    """Two-sink, no task: at both ends of the only choice the gradient in logits vanishes."""
    problem = replace(opaq.load_problem("two-sink"), task=Task())
    objective = Objective(compile_problem(problem))
    best = solve(problem, starts=2).measurement.opacity.value
    for theta in (np.array([30.0, -30.0]), np.array([-30.0, 30.0])):
        logits = np.zeros(objective.process.num_slots)
        logits[: theta.size] = theta
        begun = judge(objective, logits)
        assert begun.score < best - 0.01
        ended = polish(objective, begun, evaluations=500, second_order=True)
        assert ended.optimality.holds
        assert ended.candidate.score == pytest.approx(best, abs=1e-6)


def test_polish_never_returns_less_and_never_breaks_the_task():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, conditions=("state",))
        process = compile_problem(problem).process
        value = expected_return(process, process.uniform())
        objective = Objective(compile_problem(replace(problem, task=Task(return_at_least=value - 1e-3))))
        begun = judge(objective, np.zeros(process.num_slots))
        ended = polish(objective, begun, evaluations=200, second_order=True)
        assert ended.candidate.feasible
        assert ended.candidate.score >= begun.score


def test_sampled_gradients_and_cut_graphs_claim_no_convergence():
    problem = opaq.load_problem("graph-published")
    sampled = solve(problem, starts=1, gradients="sampled", samples=100, workers=1)
    assert sampled.status is not Status.CONVERGED
    cut = solve(problem, starts=1, max_beliefs=3, gradients="exact", workers=1)
    assert cut.status is not Status.CONVERGED
    if cut.status is Status.COMPLETED:
        assert "budget" in cut.status_text
    completed = solve(problem, starts=1, solver=PrimalDual(iterations=5))
    assert completed.status is Status.COMPLETED
    assert completed.optimality.gradient_norm >= 0.0
    assert not completed.optimality.holds


def test_a_task_that_asks_for_the_largest_return_is_met():
    """Before: "no policy found that meets the task"."""
    problem = grid(6, ("state", "time"))
    top = largest(problem)
    found = solve(replace(problem, task=Task(return_at_least=top)), starts=2, workers=1)
    assert found.measurement.feasible
    assert found.status is not Status.NOT_FOUND


@pytest.mark.parametrize("seed", range(10))
def test_the_dynamic_programs_policy_earns_the_largest_return_in_a_rich_class(seed):
    problem = random_problem(np.random.default_rng(seed), conditions=("state", "time"))
    process = compile_problem(problem).process
    for payoff in process.payoffs:
        earned = expected_return(process, greedy_policy(process, payoff, weighting="visits", stop=Stop()), payoff)
        assert earned == pytest.approx(largest_return(process, payoff), abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_feasible_policies_meet_what_some_policy_of_the_class_meets(seed):
    """Thresholds are the returns of a random deterministic policy: two at a time, in classes of any kind."""
    rng = np.random.default_rng([seed, 5])
    problem = random_problem(rng)
    states = np.array([int(rng.integers(problem.mdp.num_states))])
    problem = replace(problem, task=Task(return_at_least=0.0, requirements=(Reach(states, 0.0, "there"),)))
    process = compile_problem(problem).process
    pi = process.softmax(3.0 * rng.normal(size=process.num_slots))
    value, reached = (expected_return(process, pi, payoff) for payoff in process.payoffs)
    task = Task(return_at_least=value - 1e-6, requirements=(Reach(states, reached - 1e-6, "there"),))
    objective = Objective(compile_problem(replace(problem, task=task)))
    one, two = (find_feasible_policy(objective, seed=3) for _ in range(2))
    assert one.feasible
    assert np.array_equal(one.pi, two.pi)


@pytest.mark.parametrize("conditions", [("state",), ("state", "time")])
def test_an_infeasible_task_gets_the_policy_that_earns_most_and_says_so(conditions):
    problem = grid(6, conditions, return_at_least=100.0)
    found = solve(problem)
    assert found.status is Status.INFEASIBLE
    top = found.attainable[0].largest
    if conditions == ("state", "time"):
        assert found.measurement.expected_return == pytest.approx(top, abs=1e-9)
        assert "earns the most that is attainable" in found.status_text
    else:
        assert found.measurement.expected_return >= 0.95 * top


def test_a_class_too_weak_for_the_task_is_told_as_such():
    """Return 1 asks for an action that depends on the time, which a state policy does not see."""
    problem = grid(6, ("state", "time"))
    top = largest(problem)
    blind = replace(problem, policy_class=PolicyClass(("state",)), task=Task(return_at_least=top - 1e-7))
    found = solve(blind, starts=2, workers=1)
    if not found.measurement.feasible:
        assert found.status is Status.NOT_FOUND
        assert "in its class" in found.status_text


def test_row_visits_count_every_step():
    process = compile_problem(opaq.load_problem("graph")).process
    assert row_visits(process, process.uniform()).sum() == pytest.approx(process.horizon + 1)


def chain(chance, **parts):
    """Two steps ahead, each of them with some probability if the agent wants it; nobody sees anything."""
    moves = {"s0": {"on": {"s1": chance, "s0": 1 - chance}, "stay": "s0"}, "s2": {"*": "s2"}}
    moves["s1"] = {"on": {"s2": chance, "s1": 1 - chance}, "stay": "s1"}
    model = {"states": ["s0", "s1", "s2"], "actions": ["on", "stay"], "start": "s0", "transitions": moves}
    observer = {"emissions": {"*": {"dark": 1}}}
    spec = {"opaq": 1, "model": model, "observer": observer, "secret": {"last_state": ["s2"]}, "horizon": 2}
    return opaq.build_problem(spec | parts)


def test_a_sampled_search_says_how_far_its_estimates_still_moved():
    # It said "completed: the search came to its end; convergence is not tested" after 6 oscillating steps.
    problem = random_problem(
        np.random.default_rng(1), secret="last_state", conditions=("state", "time"), horizon=8, budget=10**12
    )
    found = solve(replace(problem, task=Task()), gradients="sampled", sequences=0, workers=1)
    values = [step.value for step in found.trace[-5:]]
    assert found.status is Status.COMPLETED
    assert "not known to be an optimum" in found.status_text
    assert f"still moved between {min(values):.4f} and {max(values):.4f}" in found.status_text
    assert "no gain beyond their noise" in found.status_text


def test_a_search_that_runs_the_iterations_asked_for_says_how_far_it_still_moved():
    found = solve("two-sink", starts=1, solver=PrimalDual(iterations=8))
    low, high = (f(step.value for step in found.trace[-5:]) for f in (min, max))
    assert f"in the last 5 of 8 steps the opacity still moved between {low:.4f} and {high:.4f}" in found.status_text


def test_policies_without_a_secret_agree_on_nothing():
    # 1e-400 is 0 in doubles: every policy ends with H(Z) = 0. Four starts were said to agree on 0.0000.
    found = solve(chain(1e-200))
    assert "nothing is secret under this policy" in found.status_text
    starts = dict(search_rows(found))["starts"]
    assert len(found.starts) > 4
    assert "nothing to hide" in starts
    assert "from 0.0000" not in starts


def test_where_no_policy_has_a_secret_the_first_starts_are_enough():
    found = solve(chain(0.5, horizon=1))
    assert len(found.starts) == 4
    assert "nothing is secret under this policy" in found.status_text
    hidden = solve(chain(0.5))
    assert "nothing" not in hidden.status_text + dict(search_rows(hidden))["starts"]


@pytest.mark.parametrize(("conditions", "many"), [("state,memory:2", True), ("state,time", False)])
def test_memories_that_are_free_get_more_starts_and_are_called_local(conditions, many):
    found = solve("two-sink", conditions=conditions)
    fresh = [start for start in found.starts if start.kind not in ("lifted", "perturbed")]  # those of a coarser class
    assert len(fresh) == (8 if many else 4)
    assert "a local optimum" in found.status_text
    assert ("often have other local optima" in found.status_text) == many


def test_memories_that_are_random_too():
    rng = np.random.default_rng(0)
    drawn = random_problem(rng, secret="last_state", conditions=("state", "memory"), horizon=2, budget=300)
    memory = drawn.policy_class.memory
    sure, mixed = ([[1.0, 0.0]] * memory.updates.num_rows, [[0.5, 0.5]] * memory.updates.num_rows)
    many = []
    for rows in (sure, mixed):
        start = opaq.SparseRows.from_dense([[1.0, 0.0]] * drawn.mdp.num_states)
        changed = replace(memory, nodes=("m", "n"), start=start, updates=opaq.SparseRows.from_dense(rows), free=False)
        many.append(has_many_optima(replace(drawn.policy_class, memory=changed)))
    assert many == [False, True]


def test_a_free_memory_is_not_left_at_the_optimum_that_most_starts_end_in():
    # Four starts agreed on 0.8875 bits, where the memory is hardly used; 0.9464 is reached by one random start in ten.
    rng = np.random.default_rng([7, 1028])
    drawn = random_problem(
        rng, secret=str(rng.choice(["last_state", "visited", "initial_state"])), conditions=("state",), horizon=3,
        watches_actions=False, budget=1500,
    )  # fmt: skip
    found = solve(replace(drawn, task=Task()), memory_nodes=2, sequences=0, workers=1)
    assert found.measurement.opacity.value > 0.946


@pytest.mark.parametrize("number", range(2, 42, 4))
def test_infeasible_is_said_only_beyond_rounding(number: int) -> None:
    """Payments that cancel: the most that can be earned is asked for, and then a little more."""
    problem, _ = bounded_model(number)
    most = float(largest_exact_return(problem))
    stated = replace(problem, task=Task(most))
    found = solve(stated, starts=1, workers=1, time_limit=1.0, seed=0)
    assert found.status is not Status.INFEASIBLE
    assert found.measurement.feasible or found.status is Status.NOT_FOUND
    beyond = solve(replace(problem, task=Task(most + 1.0)), starts=1, workers=1, time_limit=1.0, seed=0)
    assert beyond.status is Status.INFEASIBLE


def test_a_threshold_below_all_tolerances_is_out_of_reach_of_nothing() -> None:
    problem = opaq.load_problem("two-sink")
    nothing = replace(problem.mdp, rewards=floats(np.zeros(problem.mdp.num_choices)))
    assert solve(replace(problem, mdp=nothing, task=Task(1e-13)), workers=1).status is Status.INFEASIBLE
    little = replace(problem.mdp, rewards=floats(problem.mdp.rewards * 1e-13))
    found = solve(replace(problem, mdp=little, task=Task(1e-13)), starts=1, workers=1)
    assert found.measurement.feasible
    assert found.measurement.expected_return >= 1e-13 * (1 - 1e-12)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_policy_measured_to_meet_the_task_is_never_called_a_miss(share: float) -> None:
    """Thresholds within the tolerance of measurements, beyond what the search itself asks for."""
    largest = solve(opaq.load_problem("two-sink"), starts=1).attainable[0].largest
    problem = replace(opaq.load_problem("two-sink"), task=Task(return_at_least=largest * (1 + share * 1e-12)))
    solution = solve(problem, starts=1)
    assert solution.measurement.feasible
    assert solution.status not in (Status.NOT_FOUND, Status.INFEASIBLE)
