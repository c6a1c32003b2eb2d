"""Opacity estimated from sampled runs, on the same belief graph (paper, eqs. HMM_approx_*).

Runs are followed up to the last but one observation; the last one is averaged over exactly, which only lowers the
variance. A node weighs count / (samples P(y)), so the gradient of log P(y) is divided by P(y) as it must be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.graph import STEP, Chain, Graph
from opaq.beliefs.leaves import evaluate_leaves, slope_of_leaf
from opaq.beliefs.returns import secret_slope
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import EntropyLeaf, Leaf
from opaq.opacity.exact import certain_values
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

BATCH = 1000  # runs followed together: bounds the memory, and the time until a request to stop is seen


@dataclass(frozen=True, slots=True)
class Estimate:
    """Means over sampled runs and their standard errors."""

    opacity: float
    opacity_error: float
    guess_error: float
    guess_error_error: float
    further: tuple[tuple[float, float], ...]  # [leaf]: mean and standard error
    samples: int

    def of(self, leaf: Leaf) -> float:
        """The mean of a leaf that is always estimated, or else of the first further one."""
        compiled = {"opacity": self.opacity, "guess_error": self.guess_error}
        return compiled[leaf.compiled] if leaf.compiled else self.further[0][0]

    def error_of(self, leaf: Leaf) -> float:
        """The standard error of the same."""
        compiled = {"opacity": self.opacity_error, "guess_error": self.guess_error_error}
        return compiled[leaf.compiled] if leaf.compiled else self.further[0][1]


def estimate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    leaves: Sequence[Leaf] = (),
    stop: Stop | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Estimate:
    """Opacity, guess error and further leaves of a policy vector from sampled observation sequences.

    When `stop` is requested, from the batches that are complete; raises StoppedError if there is none. `on_batch` is
    told how many runs are done.
    """
    stop = stop or Stop()
    chain = Chain.of(process, pi, stop=stop)
    sums, done = np.zeros((2 + len(leaves), 2)), 0
    while done < samples:
        count = min(BATCH, samples - done)
        graph = unroll(chain, steps=process.horizon, samples=count, rng=rng)
        end = evaluate_leaves(chain, graph, leaves=leaves)
        if stop.requested:
            break
        runs = graph.last.runs
        sums += [[values**power @ runs for power in (1, 2)] for values in (end.entropy, end.error, *end.further)]
        done += count
        if on_batch is not None:
            on_batch(done)
    if done == 0:
        stop.check()
    opacity, error, *further = (_mean(total, squares, done) for total, squares in sums)
    known = certain_values(process, pi, leaves)  # exact; only the excess is estimated
    further = [(first + mean, spread) for first, (mean, spread) in zip(known, further, strict=True)]
    return Estimate(*opacity, *error, tuple(further), done)


def gradient(
    process: HiddenProcess,
    theta: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    leaf: Leaf | None = None,
    stop: Stop | None = None,
) -> tuple[float, float, FloatArray]:
    """Estimated opacity, its standard error, and the estimated gradient (paper, eq. HMM_approx_gradient_entropy)."""
    pi = process.softmax(theta)
    mean, error, slope = policy_slope(process, pi, samples=samples, rng=rng, leaf=leaf, stop=stop)
    return mean, error, process.pull_back(pi, slope)


def policy_slope(
    process: HiddenProcess,
    pi: Any,
    *,
    samples: int,
    rng: np.random.Generator,
    leaf: Leaf | None = None,
    stop: Stop | None = None,
) -> tuple[float, float, Any]:
    """Estimated opacity (or leaf), its standard error, and its estimated derivative by the policy vector."""
    leaf = leaf or EntropyLeaf(process.num_secrets)
    chain = Chain.of(process, pi, stop=stop)
    graph: Graph = unroll(chain, steps=process.horizon, keep=True, samples=samples, rng=rng)
    chain.stop.check()
    amounts, flow_slope = slope_of_leaf(chain, graph, leaf)
    runs = graph.last.runs
    mean, error = _mean(float(amounts @ runs), float(amounts**2 @ runs), samples)
    slope = process.edge_slots.T @ flow_slope
    if leaf.certain.any():
        known, known_slope = secret_slope(process, pi, leaf.certain)
        mean, slope = mean + float(np.real(known)), slope + known_slope
    return mean, error, slope


def hessian_vector(
    process: HiddenProcess, theta: FloatArray, direction: FloatArray, *, samples: int, rng: np.random.Generator
) -> FloatArray:
    """An unbiased estimate of the Hessian times a direction (paper, eq. HMM_hessian_posterior_entropy)."""
    pi = process.softmax(theta + 1j * STEP * np.asarray(direction))
    _, _, slope = policy_slope(process, pi, samples=samples, rng=rng)
    return np.asarray(np.imag(process.pull_back(pi, slope)) / STEP)


def _mean(total: float, squares: float, samples: int) -> tuple[float, float]:
    """Mean and standard error; runs that ended where the secret is settled count as 0."""
    mean = total / samples
    variance = max(squares / samples - mean**2, 0.0) * samples / max(samples - 1, 1)
    return float(mean), float(np.sqrt(variance / samples))
