"""Observation machines and the layers built on them, against enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

import opaq
from benchmarks.problems import random_problem as benchmark_problem
from opaq.beliefs.graph import Budget
from opaq.certificates.certify import CertificateSearch, CertificateStart, certify
from opaq.certificates.decoder import search as search_module
from opaq.certificates.decoder import sweeps
from opaq.certificates.decoder.ascent import Ascent, Penalties
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.layers import Layers, TooLargeError, build_layers
from opaq.certificates.decoder.machines import (
    Both,
    ObservationMachine,
    ObservationTree,
    ObservationWindow,
    belief_machine,
)
from opaq.certificates.decoder.sweeps import Costs, Sweeper
from opaq.certificates.rounding import outward
from opaq.errors import BudgetError
from opaq.model.policy import PolicyClass
from opaq.stop import Deadline, Stop, StoppedError
from random_problems import random_problem

STATE = PolicyClass(("state",))


def layers_of(problem: opaq.Problem, machine: ObservationMachine) -> tuple[Decisions, Layers]:
    decisions = Decisions.of(opaq.compile_problem(problem, STATE).process)
    return decisions, build_layers(decisions, machine, memory=1 << 28, stop=Stop())


def opacity_of(sweeper: Sweeper, masses: np.ndarray) -> float:
    values = tuple(map(str, range(sweeper.decisions.process.num_secrets)))
    return sweeper.total(opaq.Shannon().over(values), masses)


@pytest.mark.parametrize("seed", range(10))
def test_the_full_tree_measures_opacity_and_payoffs(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), budget=1500)
    decisions, layers = layers_of(problem, ObservationTree())
    sweeper = Sweeper.of(decisions, layers, Stop())
    flow = sweeper.flow()
    product = opaq.compile_problem(problem, STATE)
    measured = opaq.measure(problem, product.policy(product.process.uniform()), sequences=0)
    assert flow.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert opacity_of(sweeper, flow.masses) == pytest.approx(measured.opacity.value, abs=1e-12)
    asked = [met.value for met in measured.requirements if met.threshold is not None]
    assert flow.payoffs == pytest.approx(asked, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_belief_machine_loses_nothing_of_its_own_policy(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), budget=1500)
    process = opaq.compile_problem(problem, STATE).process
    decisions, layers = layers_of(problem, belief_machine(process, process.uniform(), name="uniform"))
    sweeper = Sweeper.of(decisions, layers, Stop())
    tree = Sweeper.of(*layers_of(problem, ObservationTree()), Stop())
    on_graph = opacity_of(sweeper, sweeper.flow().masses)
    assert on_graph == pytest.approx(opacity_of(tree, tree.flow().masses), abs=1e-12)
    assert layers.num_entries <= tree.layers.num_entries


def test_finer_machines_know_more() -> None:
    problem = opaq.load_problem("graph")
    count = len(opaq.compile_problem(problem, STATE).observations)
    machines = [
        ObservationWindow(0, count),
        ObservationWindow(1, count),
        ObservationWindow(2, count),
        ObservationWindow(3, count),
    ]
    values = []
    for machine in [*machines, Both(ObservationWindow(2, count), ObservationWindow(6, count)), ObservationTree()]:
        sweeper = Sweeper.of(*layers_of(problem, machine), Stop())
        values.append(opacity_of(sweeper, sweeper.flow().masses))
    assert values[0] == pytest.approx(values[1], abs=1e-12)  # every node knows its last observation
    assert all(fine <= coarse + 1e-12 for coarse, fine in pairwise(values))
    assert values[-2] == pytest.approx(values[-1], abs=1e-12)  # six observations are all of them
    assert values[-1] < values[0]


@dataclass(frozen=True)
class Alarm:
    """Whether some observation has occurred."""

    observation: int
    name: str = "alarm was raised"

    def begin(self, observations: np.ndarray) -> np.ndarray:
        return (observations == self.observation).astype(np.int64)[:, None]

    def step(self, time: int, codes: np.ndarray, observations: np.ndarray) -> np.ndarray:
        return codes | self.begin(observations)


def test_a_given_automaton_is_a_machine() -> None:
    problem = opaq.load_problem("graph-published")
    names = opaq.compile_problem(problem, STATE).observations
    certificate = certify(problem, gap=1e-3, time_limit=3.0, machines=(Alarm(names.index("r")),))
    assert certificate.machine == "alarm was raised"
    assert 1.1365 < certificate.upper_bound < 2.0


@pytest.mark.parametrize("seed", range(5))
def test_no_policy_exceeds_the_value_of_the_dynamic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decisions, layers = layers_of(random_problem(rng, budget=1500), ObservationWindow(1, 8))
    sweeper = Sweeper.of(decisions, layers, Stop())
    flow = sweeper.flow()
    costs = Costs(rng.random(flow.masses.size), rng.random(len(decisions.names)))
    largest = sweeper.largest(costs)
    assert largest >= flow.masses @ costs.cells + costs.multipliers @ flow.payoffs - 1e-12
    for _ in range(60):
        hard, soft = sweeper.improve(costs, 5.0)
        assert hard == pytest.approx(largest, abs=1e-12)
        flow = sweeper.flow()  # the step's own value lacks what it has moved, which is at least 0
        assert soft <= flow.masses @ costs.cells + costs.multipliers @ flow.payoffs + 1e-12
    assert flow.masses @ costs.cells + costs.multipliers @ flow.payoffs == pytest.approx(largest, abs=1e-2)


@pytest.mark.parametrize("seed", range(5))
def test_penalties_have_mean_zero_for_policies_that_do_not_see_the_observations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decisions, layers = layers_of(random_problem(rng, budget=1500), ObservationTree())
    penalties, sweeper = Penalties.of(decisions), Sweeper.of(decisions, layers, Stop())
    used = sweeper.flow().used
    # A random policy by state and time: the same for all observations, wherever the secret is settled.
    by_choice = rng.random((used.shape[0], penalties.num_choices))[:, penalties.menu_choice]
    sweeper.follow(by_choice, uniform_share=0.0)
    flow = sweeper.flow()
    table = penalties.centre(rng.normal(size=used.shape))
    assert float((table * flow.used).sum()) == pytest.approx(0.0, abs=1e-12)
    assert penalties.violation(flow) == pytest.approx(0.0, abs=1e-12)


def test_machines_that_do_not_fit_are_refused() -> None:
    problem = opaq.load_problem("grid-last-state-4")
    decisions = Decisions.of(opaq.compile_problem(problem, STATE).process)
    with pytest.raises(BudgetError, match="full observation tree"):
        build_layers(decisions, ObservationTree(), memory=1 << 22, stop=Stop())
    with pytest.raises(BudgetError, match="too many"):
        ObservationWindow(20, 12)
    process = decisions.process
    with pytest.raises(BudgetError, match="does not fit"):
        belief_machine(process, process.uniform(), name="uniform", budget=Budget(nodes=100))
    stop = Stop()
    stop.request()
    with pytest.raises(StoppedError):
        build_layers(decisions, ObservationTree(), memory=1 << 22, stop=stop)


def test_what_does_not_fit_foresees_its_size_and_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = Decisions.of(opaq.compile_problem(opaq.load_problem("grid-last-state-4"), STATE).process)
    tree, foreseen, sizes = ObservationTree(), list[float](), iter(1 << power for power in range(21, 31))
    for memory in sizes:  # up to the first that does
        try:
            build_layers(decisions, tree, memory=memory, stop=Stop())
            break
        except TooLargeError as error:
            foreseen.append(error.needed / memory)
    assert min(foreseen) > 1.0
    assert 0.2 * memory < foreseen[0] * (1 << 21) < 20.0 * memory
    built = list[int]()

    def count(*given: object, memory: int, stop: Stop) -> Layers:
        built.append(memory)
        return build_layers(*given, memory=memory, stop=stop)  # type: ignore[arg-type]

    monkeypatch.setattr(search_module, "build_layers", count)
    start = CertificateStart.of(
        opaq.load_problem("grid-last-state-4"), None, None, gap=0.0, deadline=Deadline(10.0), budget=Budget(),
        stop=Stop(), on_progress=lambda step: None,
    )  # fmt: skip
    ladder = CertificateSearch.of(start, aware=True).ladder
    assert [ladder.climb(tree, deadline=Deadline(1.0), tolerance=1.0, memory=size) for size in (1 << 21, 1 << 21)] == [
        False,
        False,
    ]
    assert built == [1 << 21]
    assert ladder.climb(tree, deadline=Deadline(1.0), tolerance=1.0, memory=1 << 30)


@pytest.mark.parametrize("value", [0.1, 1.25, 1 / 3, 1e-9, 0.0, 12.3456789])
def test_printed_bounds_are_rounded_up(value: float) -> None:
    assert value <= outward(value, 4) <= value + 1e-4 + 1e-12


def test_blocks_of_cells_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    product = opaq.compile_problem(opaq.load_problem("graph"), STATE)
    decisions = Decisions.of(product.process, delay=1)
    layers = build_layers(decisions, ObservationTree(), memory=1 << 28, stop=Stop())

    def search() -> tuple[int, float, float]:
        sweeper = Sweeper.of(decisions, layers, Stop())
        uncertainty, count = opaq.Shannon().over(product.secret_values), len(decisions.names)
        ascent = Ascent.of(sweeper, uncertainty, multipliers=np.zeros(count), scales=np.ones(count))
        for _ in range(20):
            ascent.round()
        return len(sweeper.blocks), ascent.least, ascent.reached

    num_blocks, *whole = search()
    monkeypatch.setattr(sweeps, "_CELLS_PER_BLOCK", 5)
    num_small, *in_blocks = search()
    assert num_blocks < num_small
    assert in_blocks == pytest.approx(whole, abs=1e-12)


def test_steps_are_as_long_as_the_slope_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    start = CertificateStart.of(
        benchmark_problem(5), None, None, gap=0.0, deadline=Deadline(60.0), budget=Budget(), stop=Stop(),
        on_progress=lambda step: None,
    )  # fmt: skip  # it tolerates hardly more than safe steps
    decisions = Decisions.of(start.decisions.process, delay=1)
    layers = build_layers(decisions, ObservationTree(), memory=1 << 28, stop=Stop())
    nothing = np.zeros(len(decisions.names))

    def search(longer: float, *, adapts: bool) -> float:
        sweeper = Sweeper.of(decisions, layers, Stop())
        ascent = Ascent.of(sweeper, start.uncertainty, multipliers=nothing, scales=start.scales)
        ascent.longer = longer
        with monkeypatch.context() as patched:
            if not adapts:
                patched.setattr(Ascent, "_adapt", lambda *given: None)
            for _ in range(40):
                ascent.round()
        return ascent.least

    safe, always, adapted = search(1.0, adapts=False), search(4.0, adapts=False), search(4.0, adapts=True)
    assert adapted < safe < always - 0.05
