"""Laws of information that hold for every problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import opaq
from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.secret import InitialState, LastState, StateClasses, Visited
from opaq.opacity.measure import Measurement, measure
from random_problems import random_policy, random_problem, with_emission
from stress.extremes import bounded_model, exact_return


def drawn(seed: int, count: int, **wanted: object) -> Iterator[tuple[np.random.Generator, Problem, Policy]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        problem = random_problem(rng, **wanted)
        yield rng, problem, random_policy(rng, problem)


def exact(problem: Problem, policy: Policy) -> Measurement:
    return measure(problem, policy, mode="exact")


def opacity(problem: Problem, policy: Policy) -> float:
    return exact(problem, policy).opacity.value


def test_opacity_lies_between_nothing_and_the_entropy_of_the_secret() -> None:
    for _, problem, policy in drawn(30, 40):
        measurement = exact(problem, policy)
        assert 0 <= measurement.opacity.value <= measurement.secret_entropy + 1e-12
        assert measurement.leakage.value >= -1e-12
        assert 0 <= measurement.guess_error.value <= 1
        assert measurement.fano_bound <= measurement.guess_error.value + 1e-12


def test_a_blind_observer_learns_nothing() -> None:
    for _, problem, policy in drawn(31, 20):
        blind = Observer(("o",), SparseRows.from_dense(np.ones((problem.mdp.num_states, 1))))
        measurement = exact(replace(problem, observer=blind), policy)
        assert measurement.leakage.value == pytest.approx(0, abs=1e-12)


def test_one_who_sees_everything_leaves_no_doubt_about_states() -> None:
    for secret in ("last_state", "initial_state", "state_at", "steps_ago", "visited", "progress", "acceptance"):
        for _, problem, policy in drawn(32, 3, secret=secret):
            seen = Observer(problem.mdp.states, SparseRows.from_dense(np.eye(problem.mdp.num_states)))
            measurement = exact(replace(problem, observer=seen), policy)
            assert measurement.opacity.value == pytest.approx(0, abs=1e-12)
            assert measurement.guess_error.value == pytest.approx(0, abs=1e-12)


def test_merging_two_observations_never_lowers_opacity() -> None:
    for rng, problem, policy in drawn(33, 25):
        emission = problem.observer.emission.dense()
        kept, gone = rng.permutation(emission.shape[1])[:2]
        emission[:, kept] += emission[:, gone]
        emission[:, gone] = 0
        merged = with_emission(problem, emission)
        assert opacity(merged, policy) >= opacity(problem, policy) - 1e-12


def test_noise_on_the_observations_never_lowers_opacity() -> None:
    for rng, problem, policy in drawn(34, 25, budget=1000):
        size = len(problem.observer.observations)
        noise = rng.dirichlet(np.ones(3), size=size)
        noisy = with_emission(problem, problem.observer.emission.dense() @ noise, ("n0", "n1", "n2"))
        before, after = exact(problem, policy), exact(noisy, policy)
        assert after.opacity.value >= before.opacity.value - 1e-12
        assert after.guess_error.value >= before.guess_error.value - 1e-12


def test_watching_actions_never_raises_opacity() -> None:
    for _, problem, policy in drawn(35, 25, watches_actions=True):
        unwatched = replace(problem.observer, action_signs=(), action_emission=None)
        assert opacity(replace(problem, observer=unwatched), policy) >= opacity(problem, policy) - 1e-12


def test_a_coarser_secret_is_less_uncertain() -> None:
    for rng, problem, policy in drawn(36, 20, secret="last_state"):
        of_state = problem.secret.classes.of_state
        merged = ints(rng.integers(2, size=of_state.max() + 1)[of_state])
        coarse = replace(problem, secret=LastState(StateClasses(("u", "v"), merged)))
        assert opacity(coarse, policy) <= opacity(problem, policy) + 1e-12


def test_a_longer_look_never_hides_the_start_better() -> None:
    for _, problem, policy in drawn(37, 20, secret="initial_state", horizon=3):
        found = [opacity(replace(problem, horizon=horizon), policy) for horizon in range(4)]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(found))


def test_observations_in_another_order_under_other_names() -> None:
    for rng, problem, policy in drawn(38, 20):
        order = rng.permutation(len(problem.observer.observations))
        emission = problem.observer.emission.dense()[:, order]
        renamed = with_emission(problem, emission, tuple(f"new{i}" for i in order))
        assert opacity(renamed, policy) == pytest.approx(opacity(problem, policy), abs=1e-12)


def test_states_in_another_order() -> None:
    for kind in ("last_state", "initial_state", "visited", "progress", "acceptance"):
        for rng, problem, policy in drawn(39, 8, secret=kind):
            if problem.policy_class.memory is None:
                order = rng.permutation(problem.mdp.num_states)
                before, after = exact(problem, policy), exact(reordered(problem, order), policy)
                assert after.opacity.value == pytest.approx(before.opacity.value, abs=1e-12)
                assert after.guess_error.value == pytest.approx(before.guess_error.value, abs=1e-12)
                assert after.expected_return == pytest.approx(before.expected_return, abs=1e-12)


def reordered(problem: Problem, order: np.ndarray) -> Problem:
    """The same problem with its states listed in another order; names stay, so policies stay."""
    observer = replace(problem.observer, emission=SparseRows.from_dense(problem.observer.emission.dense()[order]))
    return replace(
        problem, mdp=_reordered_mdp(problem.mdp, order), observer=observer, secret=_reordered_secret(problem, order)
    )


def _reordered_mdp(mdp: MDP, order: np.ndarray) -> MDP:
    choices = [np.arange(mdp.choice_start[s], mdp.choice_start[s + 1]) for s in order]
    flat = np.concatenate(choices)
    place = np.argsort(order)
    return MDP(
        states=tuple(mdp.states[s] for s in order),
        actions=mdp.actions,
        start=floats(mdp.start[order]),
        choice_start=ints(np.cumsum([0, *map(len, choices)])),
        choice_action=ints(mdp.choice_action[flat]),
        transitions=SparseRows.from_dense(mdp.transitions.dense()[flat][:, order]),
        rewards=floats(mdp.rewards[flat]),
        labels={label: ints(np.sort(place[states])) for label, states in mdp.labels.items()},
    )


def _reordered_secret(problem: Problem, order: np.ndarray) -> object:
    secret = problem.secret
    if isinstance(secret, LastState | InitialState):
        return replace(secret, classes=replace(secret.classes, of_state=ints(secret.classes.of_state[order])))
    if isinstance(secret, Visited):
        return replace(secret, states=ints(np.sort(np.argsort(order)[secret.states])))
    return secret


def test_leaving_out_unreachable_rows_changes_nothing() -> None:
    for _, problem, policy in drawn(40, 20, conditions=("state",)):
        reachable = {(name,) for name in _reachable(problem)}
        rows = {key: row for key, row in policy.rows.items() if key in reachable}
        assert opacity(problem, replace(policy, rows=rows)) == opacity(problem, policy)


def _reachable(problem: Problem) -> set[str]:
    mdp = problem.mdp
    found = set(np.flatnonzero(mdp.start).tolist())
    for _ in range(problem.horizon):
        choices = [c for s in found for c in range(mdp.choice_start[s], mdp.choice_start[s + 1])]
        found |= {int(after) for choice in choices for after in mdp.transitions.row(choice)[0]}
    return {mdp.states[state] for state in found}


@pytest.mark.parametrize(("asked", "met"), [(0.0, True), (1e-13, False), (1e-300, False), (-1e-13, True)])
def test_a_return_of_0_meets_no_positive_threshold_however_small(asked: float, met: bool) -> None:
    problem = opaq.load_problem("two-sink")
    stays = Policy(PolicyClass(("state",)), {("q0",): {"a": 1.0}, ("q1",): {"a": 1.0}, ("q2",): {"a": 1.0}})
    measurement = measure(replace(problem, task=Task(asked)), stays)
    assert measurement.expected_return == 0.0
    assert measurement.feasible == met


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_tolerances_are_relative(size: float) -> None:
    """A return of 2 / 3 in any unit: met from below within 1e-12 of it, and not within 1e-11."""
    problem = opaq.load_problem("two-sink")
    rich = replace(problem, mdp=replace(problem.mdp, rewards=floats(problem.mdp.rewards * size)))
    earned = measure(rich).expected_return
    for beyond, met in ((5e-13, True), (1e-11, False)):
        assert measure(replace(rich, task=Task(earned * (1 + beyond)))).feasible == met


@pytest.mark.parametrize("number", range(2, 80, 4))
def test_payments_that_cancel_meet_what_they_meet_exactly(number: int) -> None:
    problem, policy = bounded_model(number)
    problem = replace(problem, task=Task(float(exact_return(problem, policy))))
    assert measure(problem, policy, sequences=0).feasible
    assert not measure(replace(problem, task=Task(float(exact_return(problem, policy)) + 1.0)), policy).feasible
