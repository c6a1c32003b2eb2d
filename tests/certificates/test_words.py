"""Agents that never see the observations: words of emissions show what an enumeration of sequences says."""

from __future__ import annotations

import numpy as np
import pytest

import opaq
from opaq.certificates.decoder import sweeps, words
from opaq.certificates.decoder.ascent import Ascent
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.forget import forget_observations
from opaq.certificates.decoder.layers import TooLargeError, build_layers, charge_bits, count_bits
from opaq.certificates.decoder.machines import ObservationWindow
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.certificates.gap import larger_classes
from opaq.certificates.history import program
from opaq.certificates.payoffs import largest_payoffs, payoff_scales
from opaq.model.conditions import CurrentState, LastStates
from opaq.model.policy import PolicyClass
from opaq.model.uncertainty import Cells, Shannon, Smoothing
from opaq.opacity.measure import measure_product
from opaq.product.compile import Product, compile_problem
from opaq.solvers.strategy import Status
from opaq.stop import Stop
from random_problems import random_problem
from trials import part_of

SEEDS = part_of(range(24), 4)


def compiled(seed: int, *, horizon: int | None = None) -> Product:
    rng = np.random.default_rng(seed)
    horizon = int(rng.integers(0, 4)) if horizon is None else horizon
    return compile_problem(
        random_problem(rng, conditions=("state",), horizon=horizon, budget=800), PolicyClass(("state",))
    )


def sweep_words(product: Product, *, memory: int = 1 << 28, workers: int = 1) -> Sweeper:
    decisions = Decisions.of(product.process, unseen=True)
    machine = ObservationWindow(product.process.horizon + 1, decisions.process.num_observations)
    return Sweeper.of(decisions, build_layers(decisions, machine, memory=memory, stop=Stop()), Stop(), workers=workers)


def begin(product: Product, sweeper: Sweeper) -> Ascent:
    largest = largest_payoffs(Decisions.of(product.process), stop=Stop())
    return Ascent.of(
        sweeper,
        product.problem.task.of.over(product.secret_values),
        multipliers=np.zeros(len(sweeper.decisions.names)),
        scales=payoff_scales(product.process, largest),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_words_show_the_opacity_and_payoffs_that_a_measurement_has(seed: int) -> None:
    product = compiled(seed)
    sweeper, uncertainty = sweep_words(product), product.problem.task.of.over(product.secret_values)
    flow, measured = sweeper.flow(), measure_product(product, product.process.uniform(), sequences=0)
    assert flow.masses.sum() == pytest.approx(1.0)
    assert sweeper.total(uncertainty, flow.masses) == pytest.approx(measured.uncertainty.value, abs=1e-10)
    required = [met.value for met in measured.requirements if met.threshold is not None]
    assert flow.payoffs == pytest.approx(required, abs=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_close_in_on_the_optimum_from_above(seed: int) -> None:
    product = compiled(seed)
    optimum = opaq.history_program(product.problem, gap=1e-5).value
    if optimum is None:
        pytest.skip("the task of this problem is not met by any policy")
    ascent = begin(product, sweep_words(product))
    least = min(ascent.round().bound for _ in range(400))
    assert optimum.lower - 1e-9 <= least <= optimum.upper + 2e-2


@pytest.mark.parametrize("seed", SEEDS)
def test_the_policy_of_the_agent_reaches_what_the_agent_does(seed: int) -> None:
    product = compiled(seed)
    sweeper, horizon = sweep_words(product), product.process.horizon
    ascent = begin(product, sweeper)
    for _ in range(40):
        ascent.round()
    known = next(iter(larger_classes(product.problem, aware=False))).conditions[1:]
    fine = compile_problem(product.problem, PolicyClass((LastStates(horizon + 1), *known)))
    pi = forget_observations(sweeper, product, fine)
    if pi is None:
        assert product.problem.observer.action_emission is not None, "else the model's state tells the product's"
        return
    measured = measure_product(fine, pi, sequences=0)
    assert measured.uncertainty.value == pytest.approx(ascent.value, abs=1e-6)
    required = [met.value for met in measured.requirements if met.threshold is not None]
    assert ascent.average.payoffs == pytest.approx(required, abs=1e-6)
    coarse = compile_problem(product.problem, PolicyClass((CurrentState(), *known)))
    assert forget_observations(sweeper, product, coarse) is not None


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    product = compile_problem(opaq.load_problem("graph"), PolicyClass(("state",)))
    monkeypatch.setattr(words, "_LONG", 1)
    monkeypatch.setattr(sweeps, "_CELLS_PER_THREAD", 100)
    alone = begin(product, sweep_words(product))
    bounds = [alone.round().bound for _ in range(10)]
    shared = begin(product, sweep_words(product, workers=3))
    assert [shared.round().bound for _ in range(10)] == bounds
    assert (shared.flow.masses == alone.flow.masses).all()


def test_what_does_not_fit_is_refused_before_it_is_built() -> None:
    product = compile_problem(opaq.load_problem("grid-last-state-4"), PolicyClass(("state",)))
    with pytest.raises(TooLargeError):
        sweep_words(product, memory=1 << 30)


def test_compiled_costs_are_those_of_shannon() -> None:
    rng = np.random.default_rng(7)
    start = np.concatenate(([0], np.cumsum(rng.integers(1, 5, size=200))))
    masses = rng.random(start[-1]) * 10.0 ** rng.integers(-300, 1, size=start[-1])
    masses[rng.random(masses.size) < 0.2] = 0.0
    secret = np.concatenate([np.arange(count) for count in np.diff(start)])
    settled = rng.random(start.size - 1) < 0.2
    shannon, cells = Shannon().over(["a", "b", "c", "d"]), Cells.of(start, secret, settled)
    for smoothing in (Smoothing(uniform=0.03, floor=1e-4), Smoothing(uniform=1e-9)):
        costs = np.empty(masses.size)
        charge_bits(start, settled, masses, smoothing.uniform, smoothing.floor, costs, 0, start.size - 1)
        assert costs == pytest.approx(shannon.decoder_costs(masses, cells, smoothing), rel=1e-13, abs=1e-14)
    assert count_bits(start, settled, masses, 0, start.size - 1) == pytest.approx(shannon.total(masses, cells))


def test_a_search_to_a_gap_takes_the_policy_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in ("_FEW_HISTORIES", "_MOST_HISTORIES"):  # which would have the optimum at once
        monkeypatch.setattr(program, most, 1)
    answer = opaq.solve("graph-published", gap="0.5%", time_limit=60)
    assert answer.solution.status is Status.PROVEN
    assert answer.certificate.machine == "full observation tree, never seen"
    measured = opaq.measure("graph-published", answer.solution.policy)
    assert measured.feasible
    assert measured.opacity.value == pytest.approx(answer.solution.measurement.opacity.value, abs=1e-9)
    assert answer.certificate.bound >= 1.1366 - 1e-4, "the optimum, by the history program"
