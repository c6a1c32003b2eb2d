"""Bounds for agents that see the observations late: never below an optimum, and the optimum itself at full delay."""

from __future__ import annotations

import numpy as np
import pytest

import opaq
from opaq.certificates.decoder.ascent import Ascent
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.delay import delay_observations
from opaq.certificates.decoder.forget import forget_observations
from opaq.certificates.decoder.layers import build_layers
from opaq.certificates.decoder.machines import ObservationMachine, ObservationTree, rounded_belief_machine
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.certificates.gap import larger_classes
from opaq.certificates.payoffs import largest_payoffs, payoff_scales
from opaq.model.conditions import CurrentState, LastStates, MemoryNode
from opaq.model.policy import PolicyClass
from opaq.opacity.amount import Amount
from opaq.product.compile import Product, compile_problem
from opaq.spec.memory_part import free_memory
from opaq.stop import Stop
from random_problems import random_problem
from trials import part_of

SEEDS = part_of(range(12), 3)


def ascend(product: Product, machine: ObservationMachine, delay: int, *, rounds: int) -> Ascent:
    decisions = Decisions.of(product.process, delay=delay)
    layers = build_layers(decisions, machine, memory=1 << 28, stop=Stop())
    largest = largest_payoffs(Decisions.of(product.process), stop=Stop())
    ascent = Ascent.of(
        Sweeper.of(decisions, layers, Stop()),
        product.problem.task.of.over(product.secret_values),
        multipliers=np.zeros(len(decisions.names)),
        scales=payoff_scales(product.process, largest),
    )
    for _ in range(rounds):
        ascent.round()
    return ascent


def bound(product: Product, machine: ObservationMachine, delay: int, *, rounds: int) -> float:
    return ascend(product, machine, delay, rounds=rounds).least


def solvable(seed: int) -> tuple[Product, Amount]:
    """Return a random problem, compiled, and its optimum; skips the test where no policy meets the task."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, conditions=("state",), horizon=int(rng.integers(1, 4)), budget=800)
    optimum = opaq.history_program(problem, gap=1e-5).value
    if optimum is None:
        pytest.skip("the task of this problem is not met by any policy")
    return compile_problem(problem, PolicyClass(("state",))), optimum


@pytest.mark.parametrize("seed", SEEDS)
def test_no_delay_bounds_below_the_optimum_and_full_delay_reaches_it(seed: int) -> None:
    product, optimum = solvable(seed)
    horizon = product.process.horizon
    bounds = [bound(product, ObservationTree(), delay, rounds=400) for delay in range(horizon + 2)]
    assert min(bounds) >= optimum.lower - 1e-9
    assert bounds[-1] <= optimum.upper + 2e-2
    assert bounds[-1] <= bounds[0] + 2e-3, "seeing less can only make the agent worse"


@pytest.mark.parametrize("seed", SEEDS)
def test_rounded_beliefs_bound_from_above_however_coarse(seed: int) -> None:
    product, optimum = solvable(seed)
    process = product.process
    fine, coarse = (
        rounded_belief_machine(process, process.uniform(), most_nodes=most, name=f"{most}") for most in (10_000, 2)
    )
    for machine in (fine, coarse):
        assert bound(product, machine, 1, rounds=60) >= optimum.lower - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_the_policy_of_an_agent_that_sees_nothing_is_the_optimal_one(seed: int) -> None:
    product, optimum = solvable(seed)
    length = product.process.horizon
    ascent = ascend(product, ObservationTree(), max(length, 1), rounds=400)
    known = next(iter(larger_classes(product.problem, aware=False))).conditions[1:]
    fine = compile_problem(product.problem, PolicyClass((LastStates(max(length, 1)), *known)))
    pi = forget_observations(ascent.sweeper, product, fine)
    if pi is None:
        assert product.problem.observer.action_emission is not None, "else the model's state tells the product's"
        return
    assert np.add.reduceat(pi, fine.process.row_start[:-1]) == pytest.approx(1.0)
    reached = opaq.measure(product.problem, fine.policy(pi))
    assert reached.uncertainty.value >= optimum.lower - 5e-2, "the task may be missed by a little, and so gain"
    coarse = compile_problem(product.problem, PolicyClass((CurrentState(), *known)))
    assert forget_observations(ascent.sweeper, product, coarse) is not None
    free = PolicyClass((CurrentState(), MemoryNode(free_memory(product.problem.mdp, 2))))
    assert forget_observations(ascent.sweeper, product, compile_problem(product.problem, free)) is None


def test_windows_that_wait_alike_are_counted_once() -> None:
    process = compile_problem(opaq.load_problem("grid-last-state-4"), PolicyClass(("state",))).process
    assert np.unique(process.emission.dense(), axis=0).shape[0] < process.num_states / 3
    sizes = [delay_observations(process, delay).newest.size for delay in (1, 2, 3)]
    assert sizes[0] < 4 * process.num_states
    assert sizes[2] < 4 * sizes[1], "where a state emits is known by its kind: windows of states grow by about 9"
    windows = delay_observations(process, 2)
    kept = np.unique(windows.alike)
    assert (windows.alike[kept] == kept).all()
    assert (windows.newest[windows.alike] == windows.newest).all()
    assert (windows.waiting[windows.alike] == windows.waiting).all()


def test_windows_emit_what_their_oldest_state_emits() -> None:
    process = compile_problem(opaq.load_problem("two-sink"), PolicyClass(("state",))).process
    windows = delay_observations(process, 1)
    assert windows.waiting.shape == (windows.newest.size, 1)
    assert (windows.waiting[:, 0] == windows.newest).all()
    silent = windows.process.emission.columns == process.num_observations
    starts = np.isin(windows.process.emission.row_of_entry()[silent], windows.process.edge_target[-1:])
    assert silent.sum() == starts.sum() == 1, "only the first window, of one state, shows nothing yet"
    assert windows.process.emission.row_sums() == pytest.approx(1.0)
    assert delay_observations(process, 0).process is process


def test_too_many_windows_are_refused() -> None:
    process = compile_problem(opaq.load_problem("grid-last-state-4"), PolicyClass(("state",))).process
    with pytest.raises(opaq.BudgetError, match=r"too many to number|more than"):
        delay_observations(process, 12)
