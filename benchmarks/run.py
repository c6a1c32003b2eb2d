"""opaq against its peers on the paper's grid, as ratios of one run, and what doubling a model costs.

`python benchmarks/run.py`; needs the extra `opaq[bench]`. Every peer file, run by itself, checks itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # products this small gain nothing from a second thread, and it may wait

import jax
import jax.numpy as jnp
import numpy as np
import peer_jax
import peer_jax_plain
import peer_loops
import peer_numpy
from scaling import doublings
from scenario import Scenario, last_state_grid, random_theta, sample_observations
from timing import machine, medians

import opaq
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import Budget
from opaq.opacity import exact, sampled
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess

SAMPLES = 2_000
LOOPED = 20  # runs the loops are timed on; their cost is linear in runs
ROUNDS = 9
GROWTH = 2.3

EXACT = "opaq exact"
FROZEN = "opaq exact, frozen graph, policy changes"
SAMPLED = f"opaq sampled, {SAMPLES:,} runs"
GRAPH = "NumPy belief graph"
JAX_GIVEN = f"JAX, {SAMPLES:,} runs given"
JAX = f"JAX scan + vmap + grad, {SAMPLES:,} runs"
TUNED = f"JAX batched by hand, {SAMPLES:,} runs"
LOOPS = f"loops, {SAMPLES:,} runs (scaled from {LOOPED})"


def main() -> None:
    scenario = last_state_grid()
    process = compile_problem(opaq.load_problem("grid-last-state")).process
    agree(scenario, process)
    print(f"grid, last-state, 5 actions, horizon 12; value and gradient; {machine()}")
    times = race(scenario, process)
    show_times(times)
    show_goals(times)
    show_scaling()
    print(f"at the end: {machine()}")


def agree(scenario: Scenario, process: HiddenProcess) -> None:
    """Raise unless opaq and the NumPy graph tell the same of the same policy, here the uniform one.

    Gradients are compared sorted, because the two number cells and actions as they like.
    """
    value, slope = exact.gradient(process, np.zeros(process.num_slots))
    expected, peer_slope = peer_numpy.gradient(scenario, np.zeros((scenario.num_states, scenario.num_actions)))
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(np.sort(slope), np.sort(peer_slope.ravel()), rtol=0, atol=1e-10)


def race(scenario: Scenario, process: HiddenProcess) -> dict[str, float]:
    """The median seconds of every contestant."""
    theta = random_theta(scenario)
    times = medians({**_opaq(process, theta.ravel()), **_peers(scenario, theta)}, rounds=ROUNDS)
    times[LOOPS] *= SAMPLES / LOOPED
    return times


def _opaq(process: HiddenProcess, theta: np.ndarray) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(1)
    budget = Budget()
    graph = FrozenGraph.of(process, process.softmax(theta), budget=budget)
    buffers = graph.buffers()

    def swept() -> object:
        pi = process.softmax(theta + 0.1 * rng.normal(size=theta.size))
        found = graph.sweep(pi, buffers)
        if found is None:
            raise AssertionError("the frozen shape does not fit")
        return found[0], process.pull_back(pi, found[1])

    return {
        EXACT: lambda: exact.gradient(process, theta),
        FROZEN: swept,
        SAMPLED: lambda: sampled.gradient(process, theta, samples=SAMPLES, rng=rng),
    }


def _peers(scenario: Scenario, theta: np.ndarray) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(1)
    compiled = peer_jax.estimator(scenario, samples=SAMPLES)
    plain = peer_jax_plain.sampled_gradient(scenario, samples=SAMPLES)
    given = jnp.asarray(sample_observations(scenario, theta, samples=SAMPLES, rng=rng).T)
    on_device, key = jnp.asarray(theta), jax.random.key(1)
    return {
        GRAPH: functools.partial(peer_numpy.gradient, scenario, theta),
        JAX_GIVEN: lambda: jax.block_until_ready(compiled.gradient(on_device, given)),
        JAX: lambda: jax.block_until_ready(plain(on_device, key)),
        TUNED: lambda: jax.block_until_ready(compiled.sampled_gradient(on_device, key)),
        LOOPS: functools.partial(peer_loops.sampled_gradient, scenario, theta, samples=LOOPED, rng=rng),
    }


def show_times(times: dict[str, float]) -> None:
    print(f"\n{'':42}{'ms':>10}{'/ exact':>10}{'/ sampled':>11}")
    for name, time in times.items():
        print(f"{name:42}{1e3 * time:10.2f}{time / times[EXACT]:10.2f}{time / times[SAMPLED]:11.1f}")


def show_goals(times: dict[str, float]) -> None:
    print()
    show_goal("NumPy belief graph / opaq exact", times[GRAPH] / times[EXACT], at_least=1)
    show_goal("JAX scan + vmap + grad / opaq exact", times[JAX] / times[EXACT], at_least=1)
    show_goal("JAX scan + vmap + grad / opaq sampled", times[JAX] / times[SAMPLED], at_least=5)
    show_goal("JAX batched by hand / opaq exact", times[TUNED] / times[EXACT], at_least=1)
    show_goal("JAX batched by hand / opaq sampled", times[TUNED] / times[SAMPLED], at_least=5)
    show_goal("loops / opaq sampled", times[LOOPS] / times[SAMPLED], at_least=1_000)
    show_goal("JAX batched by hand / opaq frozen", times[TUNED] / times[FROZEN], at_least=1 / 0.45)
    show_goal("opaq exact / opaq frozen", times[EXACT] / times[FROZEN], at_least=1 / 0.35)


def show_goal(what: str, ratio: float, *, at_least: float) -> None:
    print(f"{what:42}{ratio:10.2f}  at least {at_least:,.3g}: {'PASS' if ratio >= at_least else 'MISS'}")


def show_scaling() -> None:
    print(f"\ndoubling a ring of two-state beliefs; each factor at most {GROWTH}")
    print(f"{'':22}{'ms':>10}{'time x':>9}{'':6}{'MB':>10}{'memory x':>10}")
    for found in doublings():
        print(
            f"{found.what:22}{1e3 * found.seconds:10.1f}{found.time_ratio:9.2f}{mark(found.time_ratio):>6}"
            f"{found.megabytes:10.1f}{found.memory_ratio:10.2f}{mark(found.memory_ratio):>6}"
        )


def mark(factor: float) -> str:
    return "PASS" if factor <= GROWTH else "MISS"


if __name__ == "__main__":
    main()
