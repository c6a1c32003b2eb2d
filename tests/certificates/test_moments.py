"""Bounds on trajectories and on every moment: never below any policy, and close to the optimum of small models."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from itertools import product as combinations

import numpy as np
import pytest

import oracles
from opaq.beliefs.graph import Budget
from opaq.certificates.certify import CertificateStatus, certify
from opaq.certificates.decoder.machines import ObservationWindow
from opaq.model.conditions import Observations
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, Task
from opaq.model.secret import LastState, StateClasses, Trajectory
from opaq.opacity.targets import target_of
from opaq.product.compile import compile_problem
from opaq.spec import build_problem
from opaq.stop import Stop
from random_problems import enabled_at, possible_keys, random_policy, random_problem


def figure_of(problem: Problem, policy: Policy) -> float:
    """The figure of a problem by enumeration."""
    class_of = problem.secret.classes.of_state
    if isinstance(problem.secret, Trajectory):
        joint = oracles.run_joint(problem, policy, lambda states: tuple(class_of[list(states)].tolist()))
        return oracles.entropy_of(joint) - oracles.entropy_of(oracles.sequence_probabilities(joint))
    moments = oracles.moment_opacities(problem, policy, class_of)
    if problem.task.when == "least":
        return min(moments)
    return sum(problem.discount**time * moment for time, moment in enumerate(moments))


def some_problem(rng: np.random.Generator, kind: str, budget: int = 300) -> Problem:
    drawn = random_problem(rng, secret="last_state", conditions=("state", "time"), budget=budget)
    classes = drawn.secret.classes
    if kind == "trajectory":
        return replace(drawn, secret=Trajectory(classes), task=Task())
    return replace(drawn, secret=LastState(classes), task=Task(when=kind))


def deterministic_policies(problem: Problem, most: int = 200) -> list[Policy]:
    keys = possible_keys(problem)
    menus = [enabled_at(problem, key) for key in keys]
    rows = (dict(zip(keys, choice, strict=True)) for choice in islice(combinations(*menus), most))
    return [Policy(problem.policy_class, {key: {action: 1.0} for key, action in row.items()}) for row in rows]


@pytest.mark.parametrize("kind", ["trajectory", "every", "least"])
def test_no_enumerated_policy_exceeds_the_bound(kind: str) -> None:
    rng = np.random.default_rng([61, len(kind)])
    for _ in range(4):
        problem = some_problem(rng, kind)
        bound = certify(problem, gap=1e-3, time_limit=0.4).upper_bound
        policies = [*deterministic_policies(problem, 12), *(random_policy(rng, problem) for _ in range(4))]
        assert max(figure_of(problem, policy) for policy in policies) <= bound + 1e-9


def test_policies_that_see_the_observations_are_bounded_too() -> None:
    rng = np.random.default_rng(62)
    for kind in ("trajectory", "every", "least", "trajectory"):
        problem = some_problem(rng, kind)
        bound = certify(problem, gap=1e-3, time_limit=0.4).upper_bound
        product = compile_problem(problem, PolicyClass(("state", "time", Observations("all"))))
        figure, process = target_of(product), product.process
        for _ in range(8):
            pi = process.softmax(3.0 * rng.normal(size=process.num_slots))
            assert figure.evaluate(pi, budget=Budget(), stop=Stop()).amount.value <= bound + 1e-9


BITS = {
    "opaq": 1,
    "model": {
        "states": ["zero", "one"],
        "actions": ["flip", "keep"],
        "start": {"zero": 0.5, "one": 0.5},
        "transitions": {
            "zero": {"flip": {"zero": 0.5, "one": 0.5}, "keep": {"zero": 1}},
            "one": {"flip": {"zero": 0.5, "one": 0.5}, "keep": {"one": 1}},
        },
        "rewards": {"zero": 1},
    },
    "observer": {"emissions": {"zero": {"0": 0.9, "1": 0.1}, "one": {"0": 0.1, "1": 0.9}}},
    "secret": {"trajectory": True},
    "horizon": 4,
}
WINDOW = (ObservationWindow(1, 2),)
NOISE = -(0.1 * np.log2(0.1) + 0.9 * np.log2(0.9))


def test_the_bound_of_fair_bits_is_their_optimum() -> None:
    """Whatever the policy, each of five bits hides at most the noise of the channel."""
    certificate = certify(build_problem(BITS), gap=0.02, time_limit=120.0, machines=WINDOW)
    assert 5 * NOISE - 1e-9 <= certificate.upper_bound <= 5 * NOISE + 2e-3


def test_requirements_lower_the_bound_and_impossible_ones_are_refuted() -> None:
    held = build_problem({**BITS, "task": {"return_at_least": 2.6}})
    certificate = certify(held, gap=0.04, time_limit=120.0, machines=WINDOW)
    assert 2.338 <= certificate.upper_bound <= 2.345
    refuted = certify(build_problem({**BITS, "task": {"return_at_least": 4.9}}), time_limit=5.0)
    assert refuted.status is CertificateStatus.INFEASIBLE


def test_tasks_that_minimise_have_the_bound_that_needs_no_search() -> None:
    certificate = certify(build_problem({**BITS, "task": {"objective": "minimise"}}), time_limit=5.0)
    assert certificate.lower_bound == 0.0
    assert certificate.upper_bound is None


def test_a_single_class_has_nothing_to_hide() -> None:
    problem = build_problem(BITS)
    one = replace(problem, secret=Trajectory(StateClasses(("all",), np.zeros(2, dtype=np.int64))))
    assert certify(one, time_limit=2.0).upper_bound == pytest.approx(0.0, abs=1e-9)
