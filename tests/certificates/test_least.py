"""Lower bounds of tasks that minimise: against every deterministic policy of tiny problems, and in every budget."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import opaq
from least_oracle import least, tiny_problem
from opaq.certificates.certify import OBSERVATIONS_ONLY, Certificate, CertificateStatus, certify, with_bound
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.machines import ObservationTree
from opaq.certificates.least import search as least_search
from opaq.certificates.least.graph import Beliefs, Prescriptions
from opaq.model.conditions import Observations
from opaq.model.policy import PolicyClass
from opaq.model.problem import Problem, Task
from opaq.reports.text.comparison import comparison_sentence
from opaq.stop import Stop
from trials import part_of

ALL = PolicyClass((Observations("all"),))


def of_observations(problem: Problem) -> Problem:
    """The same problem for policies that see nothing but the observations."""
    return replace(problem, policy_class=ALL)


@pytest.mark.parametrize("number", part_of(range(60), 15))
def test_no_policy_gets_below_the_bound(number: int) -> None:
    """Of policies that see observations, without requirements, the bound is the optimum itself."""
    problem = tiny_problem(np.random.default_rng(number), requirements=number % 3, horizon=1 + number // 3 % 2)
    certificate, optimum = certify(of_observations(problem)), least(problem, sees_states=False)
    assert certificate.scope == OBSERVATIONS_ONLY
    assert certificate.lower_bound <= optimum + 1e-9
    if number % 3 == 0:
        assert certificate.status is CertificateStatus.OPTIMUM
        assert certificate.lower_bound == pytest.approx(optimum, abs=1e-9)
    if certificate.status is CertificateStatus.OPTIMUM:
        assert certificate.lower_bound == pytest.approx(optimum, abs=1e-6)
    assert certify(problem).lower_bound <= certificate.lower_bound + 1e-9  # who sees the state too does no worse


def test_a_longer_horizon() -> None:
    problem = tiny_problem(np.random.default_rng(7), horizon=3, states=2)
    bound = certify(of_observations(problem)).lower_bound
    assert bound == pytest.approx(least(problem, sees_states=False), abs=1e-9)


@pytest.mark.parametrize("number", range(12))
def test_prescriptions_are_exact_for_policies_that_see_everything(number: int) -> None:
    problem = tiny_problem(np.random.default_rng(number), requirements=number % 2, horizon=1, states=2)
    certificate, optimum = certify(problem), least(problem, sees_states=True)
    assert certificate.lower_bound <= optimum + 1e-9
    if number % 2 == 0:
        assert certificate.lower_bound == pytest.approx(optimum, abs=1e-9)


def budgeted(problem: Problem, monkeypatch: pytest.MonkeyPatch, *, entries: float) -> Certificate:
    """A certificate whose program from the start expands at most so many entries; programs from known states: all."""
    build = least_search.build_program

    def limited(*arguments, **options):
        most = entries if isinstance(arguments[1], tuple) else options["most_entries"]
        return build(*arguments, **{**options, "most_entries": most})

    with monkeypatch.context() as patch:
        patch.setattr(least_search, "build_program", limited)
        return certify(problem)


@pytest.mark.parametrize("number", part_of(range(24), 6))
def test_beliefs_that_are_left_out_only_lower_the_bound(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(number)
    problem = tiny_problem(rng, requirements=number % 3, horizon=2)
    entries = float(rng.integers(0, 30))
    for asked, sees_states in ((of_observations(problem), False), (problem, None)):
        part, whole = budgeted(asked, monkeypatch, entries=entries), certify(asked)
        assert part.trivial_bound <= part.lower_bound <= whole.lower_bound + 1e-9
        if sees_states is not None:
            assert part.lower_bound <= least(problem, sees_states=sees_states) + 1e-9


def test_known_states_bound_what_the_start_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fair coin is tossed at every step and never seen: one step before the end is enough to know."""
    problem = opaq.build_problem(
        {
            "opaq": 1,
            "model": {
                "states": ["h", "t"],
                "actions": ["a", "b"],
                "start": "h",
                "transitions": {state: {"*": {"h": 0.5, "t": 0.5}} for state in ("h", "t")},
            },
            "observer": {"emissions": {"*": "dark"}},
            "secret": {"last_state": "h"},
            "horizon": 4,
            "task": {"objective": "minimise"},
        }
    )
    certificate = budgeted(problem, monkeypatch, entries=0.0)
    assert certificate.lower_bound == pytest.approx(1.0, abs=1e-9)
    assert certificate.machine == "the state 1 step before the end"
    assert not certificate.is_trivial
    assert certificate.gap == pytest.approx(0.0, abs=1e-9)


def test_a_settled_secret_has_the_trivial_bound() -> None:
    problem = replace(opaq.load_problem("grid-initial-state-4"), task=Task(minimise=True))
    certificate = certify(problem, time_limit=3.0)
    assert certificate.is_trivial
    assert certificate.lower_bound == 0.0


def test_merged_beliefs_say_how_much_they_share() -> None:
    product = opaq.compile_problem(opaq.load_problem("two-sink"))
    decisions = Decisions.of(product.process)
    prescriptions = Prescriptions.of(product, decisions, shared=False)
    near = 0.25 * (1 + 1e-13)
    values = np.array([0.25, 0.75, near, 0.75, 0.5, 0.5])
    merged, share, kept = prescriptions.merge(Beliefs(np.array([0, 2, 4, 6]), np.array([0, 1] * 3), values))
    assert (merged[0] == merged[1], merged[0] != merged[2], kept.size) == (True, True, 2)
    assert 1 - 1e-9 < share.min() <= share.max() == 1.0


def test_a_stop_and_the_time_limit_give_the_best_bound_so_far() -> None:
    base = opaq.load_problem("grid-last-state-4")
    problem, stop = replace(base, task=replace(base.task, minimise=True)), Stop()
    ended = certify(problem, time_limit=60.0, stop=stop, on_progress=lambda step: stop.request())
    assert (ended.status, ended.lower_bound) == (CertificateStatus.INTERRUPTED, 0.0)
    short = certify(problem, time_limit=0.3)
    assert short.status in (CertificateStatus.TIME, CertificateStatus.FINEST)
    assert short.lower_bound >= 0.0
    small = certify(problem, max_memory=1e-4, time_limit=5.0)
    assert small.status in (CertificateStatus.FINEST, CertificateStatus.TIME)


def test_an_unattainable_task_and_the_codec() -> None:
    base = opaq.load_problem("two-sink")
    hard = certify(replace(base, task=Task(9.0, minimise=True)))
    assert (hard.status, hard.lower_bound, hard.upper_bound) == (CertificateStatus.INFEASIBLE, math.inf, None)
    for certificate in (hard, certify(replace(base, task=Task(minimise=True)))):
        written = json.loads(json.dumps(certificate.to_dict()))
        assert "upper_bound" not in written
        again = Certificate.from_dict(written)
        assert (again.to_dict(), again.lower_bound) == (certificate.to_dict(), certificate.lower_bound)
    with pytest.raises(opaq.InputError, match="machines"):
        certify(replace(base, task=Task(minimise=True)), machines=(ObservationTree(),))


def test_the_gap_is_above_the_bound_and_comparisons_have_one() -> None:
    base = opaq.load_problem("graph")
    problem = replace(base, task=Task(0.2, minimise=True))
    solution = opaq.solve(problem, starts=1, seed=1)
    certificate = certify(problem, solution, time_limit=5.0)
    assert certificate.gap == max(0.0, solution.measurement.opacity.upper - certificate.lower_bound)
    assert certificate.lower_bound <= solution.measurement.opacity.value + 1e-9
    comparison = with_bound(opaq.compare(problem, classes=["state", "state,time"], starts=1), problem, time=2.0)
    assert comparison.upper_bound is None
    assert comparison.lower_bound is not None
    assert "gets below" in comparison_sentence(comparison)
