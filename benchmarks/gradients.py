"""Value and gradient of opacity on the paper's grid: exact and sampled, against loops, NumPy and two forms of JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

import opaq
from benchmarks.optional import load
from benchmarks.peers import loops, numpy_graph
from benchmarks.peers.paper_grid import Scenario, last_state_grid, random_theta, sample_observations
from benchmarks.rows import Comparison, Section, Settings, Table, closeness, comparison_table, number
from benchmarks.timing import in_turns
from opaq.beliefs.frozen import FrozenGraph
from opaq.opacity import exact, sampled
from opaq.product.compile import compile_problem
from opaq.product.process import HiddenProcess

TITLE = "Gradients"
EXPLANATION = """
The value of opacity and its gradient by all policy parameters, for one random policy on the paper's 6 x 6 grid
(secret: the last state, 5 actions, 170 parameters). *Exact* builds the graph of all beliefs; *exact, frozen* sweeps a
graph that was built before for another policy, which is what the solver does in most steps; *sampled* is the paper's
estimator from sampled runs. Peers, all on arrays of their own: *loops* is the paper's estimator as it reads, one run
at a time in Python with NumPy for each operator (timed on a few runs and scaled: its cost is proportional to the
runs); *NumPy graph* is the exact gradient by dense products between groups of beliefs; *JAX, plain* is the estimator
as JAX code is usually written (`scan` over time, `vmap` over runs, `grad`, `jit`); *JAX, by hand* is the fastest JAX
form that we know (one batched product per step, unrolled, draws by inversion). JAX uses all cores and 64-bit numbers;
compiling is not timed.

A sampled gradient is noisy and an exact one is not: the last table says by how much one estimate is off.
The goal of *frozen* against *exact* is older than today's *exact*, which takes half the time it took then.
"""
PAIRS: dict[tuple[str, str], float | None] = {  # opaq, peer -> the ratio aimed at
    ("exact, frozen", "exact"): 1 / 0.35,
    ("exact, frozen", "NumPy graph"): None,
    ("exact, frozen", "JAX, by hand"): 1 / 0.45,
    ("exact", "NumPy graph"): 1.0,
    ("exact", "JAX, plain"): 1.0,
    ("exact", "JAX, by hand"): 1.0,
    ("sampled", "loops"): 1_000.0,
    ("sampled", "JAX, plain"): 5.0,
    ("sampled", "JAX, by hand"): 5.0,
}
EXACT_TOLERANCE = 1e-10
GIVEN_TOLERANCE = 1e-8  # of estimators on the same sequences


@dataclass(frozen=True, slots=True)
class Case:
    """The grid as a problem of opaq and as plain arrays, with one policy for both."""

    scenario: Scenario
    process: HiddenProcess
    theta: np.ndarray  # [state, action]
    states: np.ndarray  # [policy row of the process] -> state: cells that no run reaches have no row
    samples: int
    looped: int  # runs that the loops are timed on

    @classmethod
    def of(cls, *, horizon: int, samples: int, looped: int) -> Case:
        """Cells and actions have the same order on both sides, which `check_exact` would notice if it were not so."""
        scenario = last_state_grid(horizon=horizon)
        product = compile_problem(replace(opaq.load_problem("grid-last-state"), horizon=horizon))
        states = np.zeros(product.process.num_rows, dtype=int)
        states[product.process.row] = product.state_of
        return cls(scenario, product.process, random_theta(scenario), states, samples, looped)

    @property
    def logits(self) -> np.ndarray:
        """The same policy as a vector of logits of the process."""
        return self.theta[self.states].ravel()

    def of_process(self, slope: np.ndarray) -> np.ndarray:
        """A peer's gradient [state, action] as a vector of the process."""
        return np.asarray(slope)[self.states].ravel()


def run(settings: Settings) -> Section:
    """Check that the numbers are the same, then time them in turns."""
    case = (
        Case.of(horizon=8, samples=500, looped=5) if settings.quick else Case.of(horizon=12, samples=2_000, looped=20)
    )
    estimators, skipped = jax_estimators(case)
    apart = check_exact(case)
    given = max((check_given(case, each) for each in estimators.values()), default=0.0)
    calls = {**our_calls(case), **peer_calls(case, estimators)}
    times = in_turns(calls, repeats=settings.repeats)
    times["loops"] = tuple(case.samples / case.looped * each for each in times["loops"])
    name = f"grid, horizon {case.scenario.horizon}; {case.samples:,} runs if sampled"
    rows = tuple(
        Comparison(name, ours, peer, times[ours], times[peer], _same(ours, peer, apart, given), goal)
        for (ours, peer), goal in PAIRS.items()
        if peer in times
    )
    return Section(TITLE, EXPLANATION, (comparison_table(rows, settings), noise(case, calls)), rows, skipped=skipped)


def _same(ours: str, peer: str, apart: float, given: float) -> str:
    if peer in ("NumPy graph", "exact"):
        return closeness(apart)
    return f"peers to {given:.0e} on the same runs" if ours == "sampled" else "exact against noisy"


def check_exact(case: Case) -> float:
    """The largest difference between the exact gradients of opaq, hashed and frozen, and of NumPy. Raises if large."""
    value, slope = exact.gradient(case.process, case.logits)
    expected, peer_slope = numpy_graph.gradient(case.scenario, case.theta)
    swept_value, swept = our_calls(case, move=0.0)["exact, frozen"]()
    unreached = np.delete(peer_slope, case.states, axis=0)
    apart = max(
        abs(value - expected),
        abs(swept_value - expected),
        float(np.abs(slope - case.of_process(peer_slope)).max()),
        float(np.abs(swept - case.of_process(peer_slope)).max()),
        float(np.abs(unreached).max(initial=0.0)),
    )
    if not apart <= EXACT_TOLERANCE:
        raise AssertionError(f"exact gradients differ by {apart:.2g}")
    return apart


def check_given(case: Case, estimator: object) -> float:
    """The largest difference between a JAX estimator and the loops on the same sequences. Raises if large."""
    observations = sample_observations(case.scenario, case.theta, samples=10, rng=np.random.default_rng(2))
    value, direction = estimator.gradient(case.theta, observations.T)  # type: ignore[attr-defined]
    expected, looped = loops.gradient(case.scenario, case.theta, observations)
    apart = max(abs(float(value) - expected), float(np.abs(np.asarray(direction) - looped).max()))
    if not apart <= GIVEN_TOLERANCE:
        raise AssertionError(f"estimates from the same sequences differ by {apart:.2g}")
    return apart


def jax_estimators(case: Case) -> tuple[dict[str, object], tuple[str, ...]]:
    """The two forms of JAX by name, or why they are left out."""
    modules = {"JAX, plain": load("jax_plain"), "JAX, by hand": load("jax_batched")}
    there = {name: each for name, each in modules.items() if isinstance(each, ModuleType)}
    skipped = tuple(f"{name}: {reason}" for name, reason in modules.items() if isinstance(reason, str))
    return {name: each.estimator(case.scenario, samples=case.samples) for name, each in there.items()}, skipped


def our_calls(case: Case, *, move: float = 0.1) -> dict[str, Callable[[], tuple[float, np.ndarray]]]:
    """Value and gradient by opaq; the frozen graph is swept for a policy moved a little at every call."""
    process, theta, rng = case.process, case.logits, np.random.default_rng(1)
    graph = FrozenGraph.of(process, process.softmax(theta), budget=opaq.Budget())
    buffers = graph.buffers()

    def swept() -> tuple[float, np.ndarray]:
        pi = process.softmax(theta + move * rng.normal(size=theta.size))
        answer = graph.sweep(pi, buffers)
        if answer is None:
            raise AssertionError("the frozen shape does not fit")
        return float(answer[0]), process.pull_back(pi, answer[1])

    def estimated() -> tuple[float, np.ndarray]:
        value, _, slope = sampled.gradient(process, theta, samples=case.samples, rng=rng)
        return value, slope

    return {"exact, frozen": swept, "exact": lambda: exact.gradient(process, theta), "sampled": estimated}


def peer_calls(case: Case, estimators: dict[str, object]) -> dict[str, Callable[[], tuple[float, np.ndarray]]]:
    """Value and gradient by the peers, fresh runs at every call."""
    rng = np.random.default_rng(1)
    calls: dict[str, Callable[[], tuple[float, np.ndarray]]] = {
        "NumPy graph": lambda: numpy_graph.gradient(case.scenario, case.theta),
        "loops": lambda: loops.sampled_gradient(case.scenario, case.theta, samples=case.looped, rng=rng),
    }
    return calls | {name: _jax_call(case, each) for name, each in estimators.items()}


def _jax_call(case: Case, estimator: object) -> Callable[[], tuple[float, np.ndarray]]:
    import jax

    keys = itertools.cycle(list(jax.random.split(jax.random.key(1), 50)))
    theta = jax.numpy.asarray(case.theta)

    def call() -> tuple[float, np.ndarray]:
        value, direction = jax.block_until_ready(estimator.sampled_gradient(theta, next(keys)))  # type: ignore[attr-defined]
        return float(value), case.of_process(direction)

    return call


def noise(case: Case, calls: dict[str, Callable[[], tuple[float, np.ndarray]]], *, estimates: int = 20) -> Table:
    """How far one sampled gradient is from the exact one, and that the mean of many is not."""
    _, true = exact.gradient(case.process, case.logits)
    rows = []
    for name in ("sampled", "JAX, plain", "JAX, by hand"):
        if name in calls:
            slopes = np.array([calls[name]()[1] for _ in range(estimates)])
            off = np.linalg.norm(slopes - true, axis=1) / np.linalg.norm(true)
            along = slopes @ true / (true @ true)  # 1 on average if the estimate is unbiased
            error = along.std(ddof=1) / np.sqrt(estimates)
            shares = f"{along.mean():.3f} ± {error:.3f}"
            rows.append(
                (name, f"{100 * np.median(off):.1f}% ({number(100 * off.min())}% to {100 * off.max():.1f}%)", shares)
            )
    header = ("estimate", f"off by, median (range) of {estimates}", "mean along the exact gradient (1: unbiased)")
    return Table(header, tuple(rows))
