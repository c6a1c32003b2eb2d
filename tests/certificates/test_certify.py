"""Certificates: proven bounds, whatever the problem."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize

import opaq
import oracles
from opaq.certificates.certify import Certificate, CertificateStatus, certify
from opaq.certificates.decoder.ascent import Proof
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.machines import ObservationTree, ObservationWindow
from opaq.certificates.decoder.search import BoundSearch, BoundStep, first_proof
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.problem import Problem, Reach, Task
from opaq.product.compile import compile_problem
from opaq.stop import Stop
from random_problems import SECRETS, random_policy, random_problem, with_emission
from stress.extremes import bounded_model, largest_exact_return
from stress.measuring import thresholds_and_values
from trials import long, part_of

TREE = (ObservationTree(),)


def quick(problem: Problem, **options: object) -> Certificate:
    """On the full observation tree, for a second at most."""
    return certify(problem, **{"gap": 1e-3, "time_limit": 2.0, "machines": TREE, **options})


@pytest.mark.parametrize("seed", part_of(range(30), 8))
def test_no_policy_exceeds_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    certificate = certify(problem, gap=0.02, time_limit=0.5)
    assert not math.isnan(certificate.upper_bound)
    assert certificate.upper_bound_aware is None or certificate.upper_bound <= certificate.upper_bound_aware
    for _ in range(4):
        measurement = opaq.measure(problem, random_policy(rng, problem), sequences=0)
        if measurement.feasible:
            assert certificate.upper_bound >= measurement.opacity.value


@pytest.mark.parametrize("number", part_of(range(24), 6))
def test_extreme_probabilities_and_payments_that_cancel(number: int) -> None:
    """Subnormal probabilities, or payments of which a part in 1e16 is left: a bound still, and a right one."""
    problem, policy = bounded_model(number)
    rng = np.random.default_rng(number)
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        certificate = certify(problem, policy if number % 3 else None, gap=1e-3, time_limit=0.1)
    assert not math.isnan(certificate.upper_bound)
    asked = problem.task.return_at_least
    assert (
        asked is None or asked > largest_exact_return(problem) or certificate.status is not CertificateStatus.INFEASIBLE
    )
    for one in (policy, random_policy(rng, problem), None):
        measurement = opaq.measure(problem, one, sequences=0)
        assert not measurement.feasible or certificate.upper_bound >= measurement.opacity.lower


def test_a_measured_policy_refutes_what_would_be_a_bound_below_it() -> None:
    problem = opaq.load_problem("two-sink")
    product = compile_problem(problem, opaq.PolicyClass(("state",)))
    decisions, known = Decisions.of(product.process), opaq.measure(problem).opacity.value
    opacity = opaq.Shannon().over(product.secret_values)
    first = first_proof(decisions, opacity)
    ladder = BoundSearch(decisions, opacity, np.ones(1), False, known, 0.0, 2**30, Stop(), lambda step: None,
                         first, aware_bound=first.bound, known=known)  # fmt: skip
    ladder.take(Proof(-1.0, first.multipliers), "lost to rounding")
    ladder.take(Proof(math.nan, first.multipliers), "lost altogether")
    assert (ladder.bound, ladder.infeasible) == (first.bound, False)
    ladder.take(Proof(known, first.multipliers), "right")
    assert ladder.bound == known


@pytest.mark.parametrize("seed", range(5))
def test_no_solved_policy_exceeds_the_bound(seed: int) -> None:
    problem = random_problem(np.random.default_rng(100 + seed), conditions=("state", "time"))
    solution = opaq.solve(problem, workers=1, starts=2, time_limit=1.0, seed=0)
    certificate = quick(problem, policy=solution.policy)
    if solution.measurement.feasible:
        assert certificate.upper_bound >= solution.measurement.opacity.value
        assert certificate.gap == certificate.upper_bound - certificate.reached.lower
    else:
        assert certificate.gap is None


def aware_opacity(problem: Problem, tables: dict[tuple[int, int], np.ndarray]) -> float:
    """H(Z | Y) of a policy on (s_0, o_0), for horizon 1: every run and sequence, one at a time."""
    mdp, emission = problem.mdp, problem.observer.emission.dense()
    joint: dict[tuple[str, tuple[int, int]], float] = defaultdict(float)
    for state, seen in product(range(mdp.num_states), range(emission.shape[1])):
        mass = mdp.start[state] * emission[state, seen]
        for rank, choice in enumerate(range(mdp.choice_start[state], mdp.choice_start[state + 1])):
            for after, move in zip(*mdp.transitions.row(choice), strict=True):
                for last in np.flatnonzero(emission[after]):
                    value = oracles.secret_value(problem, (state, int(after)))
                    share = mass * tables[state, seen][rank] * move * emission[after, last]
                    joint[value, (seen, int(last))] += share
    totals: dict[tuple[int, int], float] = defaultdict(float)
    for (_, sequence), mass in joint.items():
        totals[sequence] += mass
    return -sum(mass * math.log2(mass / totals[y]) for (_, y), mass in joint.items() if mass > 0)


def best_aware_opacity(problem: Problem) -> float:
    """The largest over all such policies, by a general optimiser on logits from several starts."""
    mdp, seen = problem.mdp, problem.observer.emission.num_columns
    keys = list(product(range(mdp.num_states), range(seen)))
    ends = np.cumsum([0, *(mdp.choice_start[state + 1] - mdp.choice_start[state] for state, _ in keys)])

    def value(logits: np.ndarray) -> float:
        weights = np.exp(logits - logits.max())
        tables = {key: weights[a:b] / weights[a:b].sum() for key, a, b in zip(keys, ends, ends[1:], strict=False)}
        return -aware_opacity(problem, tables)

    rng = np.random.default_rng(0)
    return max(-minimize(value, rng.normal(size=ends[-1]), method="L-BFGS-B").fun for _ in range(2))


@pytest.mark.parametrize("seed", part_of(range(6), 2))
def test_the_full_tree_gives_the_optimum_of_policies_that_see_the_observations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, horizon=1, watches_actions=False, conditions=("state",), budget=300)
    problem = replace(problem, task=Task())
    certificate = quick(problem, observation_aware=True, time_limit=30.0)
    best = best_aware_opacity(problem)
    assert certificate.upper_bound >= best
    assert certificate.upper_bound == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_states_that_show_the_observation_make_both_bounds_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, watches_actions=False)
    exact = np.eye(problem.observer.emission.num_columns)[rng.integers(2, size=problem.mdp.num_states)]
    certificate = quick(with_emission(problem, exact))
    assert certificate.upper_bound == certificate.upper_bound_aware


@pytest.mark.parametrize("seed", range(4))
def test_a_blind_observer_leaves_the_largest_entropy_of_the_secret(seed: int) -> None:
    drawn = random_problem(np.random.default_rng(seed), horizon=2, watches_actions=False, conditions=("state", "time"))
    problem = with_emission(replace(drawn, task=Task()), np.ones((drawn.mdp.num_states, 1)), ("nothing",))
    certificate = certify(problem, gap=1e-3, time_limit=20.0, machines=(ObservationWindow(1, 1),))
    solution = opaq.solve(problem, workers=1, starts=4, seed=0, time_limit=5.0)
    assert certificate.upper_bound >= solution.measurement.secret_entropy
    assert certificate.upper_bound == pytest.approx(solution.measurement.secret_entropy, abs=2e-4)


def test_an_all_seeing_observer_leaves_nothing() -> None:
    drawn = random_problem(np.random.default_rng(3), horizon=2, watches_actions=False)
    size = drawn.mdp.num_states
    problem = with_emission(replace(drawn, task=Task()), np.eye(size), tuple(f"o{i}" for i in range(size)))
    assert 0.0 <= certify(problem, gap=0.0, time_limit=5.0).upper_bound <= 1e-12


def test_the_bound_falls_as_more_is_asked_and_never_rises_along_the_ladder() -> None:
    graph = opaq.load_problem("graph-published")
    rungs: list[BoundStep] = []
    asked = [0.0, 0.5, 1.9]
    tasks = [replace(graph, task=Task(return_at_least=threshold)) for threshold in asked]
    bounds = [certify(task, gap=0.02, time_limit=4.0, on_progress=rungs.append).upper_bound for task in tasks]
    assert all(later <= earlier + 1e-3 for earlier, later in pairwise(bounds))
    assert bounds[-1] < bounds[0] - 0.5
    ladder = certify(graph, gap=1e-3, time_limit=5.0).ladder
    climbed = certify(
        graph, gap=1e-3, time_limit=5.0, machines=(ObservationWindow(1, 9), ObservationWindow(2, 9), *TREE)
    ).ladder
    for rungs_done in (ladder, climbed):
        steps = [rung.bound for rung in rungs_done]
        assert steps == sorted(steps, reverse=True)
    assert {rung.machine for rung in rungs} == {"last observation", "history program: all state histories"}
    assert len({rung.machine for rung in climbed}) == 3


def test_agents_that_do_not_see_the_observations_are_bounded_more_tightly() -> None:
    # The optimum of the convex program over state histories is 1.1366.
    certificate = certify(opaq.load_problem("graph-published"), gap=1e-3, time_limit=20.0, machines=TREE)
    assert 1.1365 <= certificate.upper_bound <= 1.1370
    assert 1.1474 <= certificate.upper_bound_aware <= 1.1480
    assert certificate.prices["return"] == pytest.approx(0.631, abs=0.01)


def test_names_do_not_matter() -> None:
    problem = random_problem(np.random.default_rng(8), horizon=2)
    mdp = problem.mdp
    renamed = replace(problem, mdp=replace(mdp, states=tuple(f"other {name}" for name in mdp.states)))
    assert quick(problem, gap=0.01).upper_bound == pytest.approx(quick(renamed, gap=0.01).upper_bound, abs=1e-3)


def test_a_task_that_no_policy_meets() -> None:
    problem = replace(opaq.load_problem("graph-published"), task=Task(return_at_least=100.0))
    certificate = certify(problem, time_limit=5.0)
    assert certificate.status is CertificateStatus.INFEASIBLE
    assert certificate.upper_bound == -math.inf
    assert "no policy meets the task" in repr(certificate)


def test_requirements_that_cannot_be_met_together() -> None:
    graph = opaq.load_problem("graph-published")
    names = list(graph.mdp.states)
    goal, other = (np.array([names.index(name)]) for name in ("2", "1"))
    task = Task(requirements=(Reach(goal, 0.9, "2"), Reach(other, 0.9, "1")))
    certificate = certify(replace(graph, task=task, horizon=2), time_limit=5.0)
    assert certificate.status is CertificateStatus.INFEASIBLE


@pytest.mark.parametrize("seed", range(4))
def test_returns_that_count_for_ever(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_problem(rng, conditions=("state",), horizon=2)
    policy = random_policy(rng, drawn)
    threshold = oracles.infinite_return(replace(drawn, discount=0.8), policy)
    problem = replace(drawn, discount=0.8, task=Task(threshold, over="forever"))
    certificate = quick(problem, policy=policy)
    assert certificate.measurement.feasible
    assert certificate.upper_bound >= certificate.reached.value
    hopeless = replace(problem, task=Task(1e3, over="forever"))
    assert quick(hopeless).status is CertificateStatus.INFEASIBLE


@pytest.mark.parametrize("seed", range(6))
def test_horizon_zero_one_action_and_no_rewards(seed: int) -> None:
    drawn = random_problem(np.random.default_rng(seed), horizon=0, conditions=("state",))
    problem = replace(drawn, mdp=replace(drawn.mdp, rewards=floats(np.zeros(drawn.mdp.num_choices))), task=Task(0.0))
    opacity = opaq.measure(problem, sequences=0).opacity.value
    certificate = quick(problem)
    assert opacity <= certificate.upper_bound <= opacity + 2e-3


def test_a_stop_gives_the_best_bound_so_far() -> None:
    stop, problem = Stop(), opaq.load_problem("grid-last-state-4")

    def end(rung: BoundStep) -> None:
        if rung.rounds > 10:
            stop.request()

    certificate = certify(problem, gap=0.0, time_limit=60.0, stop=stop, on_progress=end)
    assert certificate.status is CertificateStatus.INTERRUPTED
    assert 0.97 < certificate.upper_bound < 1.0


def observed(problem: Problem, policy: opaq.Policy) -> np.ndarray:
    """[sequence, secret value]: probabilities, by enumeration; values in the order of the product's."""
    values = opaq.compile_problem(problem).secret_values
    joint = oracles.joint(problem, policy)
    rows: dict[oracles.Sequence, np.ndarray] = defaultdict(lambda: np.zeros(len(values)))
    for (value, sequence), mass in joint.items():
        rows[sequence][values.index(value)] += mass
    return np.array(list(rows.values()))


@pytest.mark.parametrize("seed", part_of(range(8), 2))
def test_every_uncertainty_has_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = replace(random_problem(rng, budget=800), task=Task())
    size = len(opaq.compile_problem(problem).secret_values)
    loss = rng.random((size + 1, size)) - 0.5
    errors, guesses, losses = (
        quick(replace(problem, task=Task(of=of)), gap=0.01).upper_bound
        for of in (opaq.GuessError(), opaq.Guesswork(), losses_of(problem, loss))
    )
    for _ in range(3):
        masses = observed(problem, random_policy(rng, problem))
        ranks = np.arange(1, size + 1)
        assert errors >= 1.0 - masses.max(axis=1).sum()
        assert guesses >= (np.sort(masses, axis=1)[:, ::-1] * ranks).sum()
        assert losses >= (masses @ loss.T).min(axis=1).sum()


@pytest.mark.parametrize("kind", ["error", "guesswork", "loss"])
def test_bounds_of_other_uncertainties_come_close_to_what_policies_reach(kind: str) -> None:
    # One action: every policy has the value of the uniform one, and the bound must come down to it.
    rng = np.random.default_rng(5)
    problem = replace(random_problem(rng, conditions=("state",), horizon=2), task=Task())
    problem = replace(problem, mdp=_one_action(problem))
    size = len(opaq.compile_problem(problem).secret_values)
    loss = rng.random((size, size)) - 0.5
    masses = observed(problem, random_policy(rng, problem))
    of, value = {
        "error": (opaq.GuessError(), 1.0 - masses.max(axis=1).sum()),
        "guesswork": (opaq.Guesswork(), (np.sort(masses, axis=1)[:, ::-1] * np.arange(1, size + 1)).sum()),
        "loss": (losses_of(problem, loss), (masses @ loss.T).min(axis=1).sum()),
    }[kind]
    certificate = quick(replace(problem, task=Task(of=of)), gap=1e-4, time_limit=5.0)
    assert value <= certificate.upper_bound <= value + 2e-3
    assert certificate.reached.value == pytest.approx(value, abs=1e-9)


def losses_of(problem: Problem, loss: np.ndarray) -> opaq.ExpectedLoss:
    """The losses [guess, secret value] by name."""
    values = opaq.compile_problem(problem).secret_values
    rows = {f"guess {index}": dict(zip(values, row.tolist(), strict=True)) for index, row in enumerate(loss)}
    return opaq.ExpectedLoss.of(rows)


def test_policies_that_see_observations_are_bounded_with_their_like() -> None:
    problem = opaq.load_problem("graph-published")
    solution = opaq.solve(problem, conditions="state,time,observations:1", starts=2)
    certificate = certify(problem, solution.policy, gap=1e-3, time_limit=10.0)
    assert certificate.aware
    assert 1.1370 < certificate.reached.value <= certificate.upper_bound <= 1.1490


def binding_problem(seed: int) -> Problem:
    """A tiny problem with one or two requirements that can be met, and mostly cost opacity.

    Secrets of every kind take turns. Under the uniform policy the opacity is not 0, and more of what is required can be
    had; thresholds lie between that and the most. All by enumeration.
    """
    rng, secret = np.random.default_rng([seed, 0x0BDE]), SECRETS[seed % len(SECRETS)]
    conditions = ("state", "time") if seed % 3 else ("state",)
    while True:
        drawn = random_problem(rng, secret=secret, horizon=1 + seed % 2, conditions=conditions, budget=120)
        goal = Reach(ints([rng.integers(drawn.mdp.num_states)]), 0.0, "goal")
        problem = replace(drawn, task=Task(requirements=(goal,)))
        truth = oracles.enumerate_truth(problem)
        least = truth.expected_return, truth.requirements[0]
        most = oracles.largest_value(problem), oracles.largest_value(problem, goal)
        gains = [top - low for top, low in zip(most, least, strict=True)]
        if oracles.opacity(truth.joint) > 0.01 and min(gains) > 0.01:
            break
    share = rng.choice([0.5, 0.8, 0.95])
    if seed % 4 == 0:
        return replace(problem, task=Task(float(least[0] + share * gains[0])))
    if seed % 4 == 1:
        return replace(problem, task=Task(requirements=(replace(goal, threshold=float(least[1] + share * gains[1])),)))
    # Both can be met together, with a little room: one of these policies does.
    truths = [oracles.enumerate_truth(problem, random_policy(rng, problem)) for _ in range(12)]
    chosen = max(truths, key=lambda one: one.expected_return / gains[0] + one.requirements[0] / gains[1])
    asked = replace(goal, threshold=max(chosen.requirements[0] - 0.05 * gains[1], 0.0))
    return replace(problem, task=Task(chosen.expected_return - 0.05 * gains[0], requirements=(asked,)))


@long
@pytest.mark.parametrize("first", part_of(range(0, 60, 10), 1))
def test_bound_history_optimum_and_solved_policy_come_in_this_order(first: int) -> None:
    """No tolerance between the three: upper ends are rounded up, lower ends are measured of policies.

    Only the enumeration is compared with a tolerance, of 1e-12: its sums and those of the measurement, of some hundred
    terms of at most 1 bit, round differently. That the solved policy meets the task is granted 1e-9 by enumeration.
    """
    num_binding = 0
    for seed in range(first, first + 10):
        problem = binding_problem(seed)
        optimum = opaq.history_program(problem)
        solved = opaq.solve(problem, starts=1, workers=1, sequences=0)
        bound = quick(problem, time_limit=0.05).upper_bound
        assert optimum.value is not None, seed
        assert optimum.value.upper - optimum.value.lower < 1e-5, seed
        assert bound >= optimum.value.lower, seed
        assert solved.measurement.feasible, seed
        truth = oracles.enumerate_truth(problem, solved.policy)
        assert all(value >= asked - 1e-9 for asked, value in thresholds_and_values(problem, truth)), seed
        assert solved.measurement.opacity.value == pytest.approx(oracles.opacity(truth.joint), abs=1e-12), seed
        assert bound >= solved.measurement.opacity.lower, seed
        assert optimum.value.upper >= solved.measurement.opacity.lower, seed
        num_binding += max(optimum.prices.values()) > 1e-4
    assert num_binding >= 1  # of the first 200: 124


def _one_action(problem: Problem) -> opaq.MDP:
    mdp = problem.mdp
    first = mdp.choice_start[:-1]
    return replace(
        mdp,
        choice_start=np.arange(mdp.num_states + 1),
        choice_action=mdp.choice_action[first],
        transitions=SparseRows.from_dense(mdp.transitions.dense()[first]),
        rewards=mdp.rewards[first],
        named_rewards={name: rewards[first] for name, rewards in mdp.named_rewards.items()},
    )


@pytest.mark.parametrize("of", ["opacity", "guess_error", "guesswork"])
def test_the_prior_of_a_secret_that_is_settled_at_the_start_is_the_trivial_bound(of: str) -> None:
    """An observer who sees nothing: H(Z) = 1.5219.., the error of the best blind guess 0.6, blind guesswork 1.8."""
    mixed = {state: {"x": 0.5, "y": 0.5} for state in ("a", "b", "c")}
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["a", "b", "c"],
                "actions": ["go", "wait"],
                "start": {"a": 0.4, "b": 0.4, "c": 0.2},
                "transitions": {state: {"go": {"a": 1}, "wait": {state: 1}} for state in ("a", "b", "c")},
            },
            "observer": {"emissions": mixed},
            "secret": {"initial_state": True},
            "horizon": 2,
            "task": {"of": of},
        }
    )
    prior = np.array([0.4, 0.4, 0.2])
    blind = {
        "opacity": float(-(prior * np.log2(prior)).sum()),
        "guess_error": 0.6,
        "guesswork": 0.4 * 1 + 0.4 * 2 + 0.2 * 3,
    }[of]
    certificate = certify(problem, time_limit=2.0)
    assert certificate.trivial_bound == pytest.approx(blind, abs=1e-9)
    assert certificate.trivial_bound >= blind
    assert certificate.upper_bound == pytest.approx(blind, abs=1e-9)  # and it is reached: the observations tell nothing
    assert certificate.is_trivial


@long
def test_a_bound_below_the_prior_is_not_trivial() -> None:
    certificate = certify("grid-initial-state-4", time_limit=5.0)
    assert certificate.trivial_bound == pytest.approx(np.log2(3), abs=1e-9)  # three starts, alike
    assert certificate.upper_bound < np.log2(3) - 1e-3
    assert not certificate.is_trivial
