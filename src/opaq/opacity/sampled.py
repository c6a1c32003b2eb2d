"""Opacity estimated from sampled runs, on the same belief graph (paper, eqs. HMM_approx_*).

Runs are followed up to the last but one observation; the last one is averaged over exactly, which only lowers the
variance. A node weighs count / (samples P(y)), so the gradient of log P(y) is divided by P(y) as it must be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs import kernels
from opaq.beliefs.graph import Chain, Graph, LastStep, last_step, unroll
from opaq.model.arrays import FloatArray
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
    samples: int


def estimate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Estimate:
    """Opacity and guess error of a policy vector from sampled observation sequences.

    When `stop` is requested, from the batches that are complete; raises StoppedError if there is none. `on_batch` is
    told how many runs are done.
    """
    stop = stop or Stop()
    chain = Chain.of(process, pi, stop=stop)
    sums, done = np.zeros(4), 0
    while done < samples:
        count = min(BATCH, samples - done)
        graph = unroll(chain, steps=process.horizon, samples=count, rng=rng)
        end = last_step(chain, graph)
        if stop.requested:
            break
        runs = graph.last.runs
        sums += [values**power @ runs for values in (end.entropy, end.error) for power in (1, 2)]
        done += count
        if on_batch is not None:
            on_batch(done)
    if done == 0:
        stop.check()
    return Estimate(*_mean(sums[0], sums[1], done), *_mean(sums[2], sums[3], done), done)


def gradient(
    process: HiddenProcess,
    theta: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> tuple[float, float, FloatArray]:
    """Estimated opacity, its standard error, and the estimated gradient (paper, eq. HMM_approx_gradient_entropy)."""
    graph, end, slope = _slope(process, theta, samples, rng, stop)
    runs = graph.last.runs
    return (*_mean(float(end.entropy @ runs), float(end.entropy**2 @ runs), samples), slope)


def policy_slope(
    process: HiddenProcess, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop | None = None
) -> tuple[float, float, FloatArray]:
    """Estimated opacity, its standard error, and its estimated derivative by the policy vector."""
    graph, end = _sweep(process, pi, samples, rng, stop)
    runs = graph.last.runs
    mean, error = _mean(float(end.entropy @ runs), float(end.entropy**2 @ runs), samples)
    return mean, error, process.edge_slots.T @ end.slope


def hessian_vector(
    process: HiddenProcess, theta: FloatArray, direction: FloatArray, *, samples: int, rng: np.random.Generator
) -> FloatArray:
    """An unbiased estimate of the Hessian times a direction (paper, eq. HMM_hessian_posterior_entropy)."""
    _, _, slope = _slope(process, theta + 1j * kernels.STEP * np.asarray(direction), samples, rng, None)
    return np.asarray(np.imag(slope) / kernels.STEP)


def _slope(
    process: HiddenProcess, theta: Any, samples: int, rng: np.random.Generator, stop: Stop | None
) -> tuple[Graph, LastStep, Any]:
    pi = process.softmax(theta)
    graph, end = _sweep(process, pi, samples, rng, stop)
    return graph, end, process.pull_back(pi, process.edge_slots.T @ end.slope)


def _sweep(
    process: HiddenProcess, pi: Any, samples: int, rng: np.random.Generator, stop: Stop | None
) -> tuple[Graph, LastStep]:
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon, keep=True, samples=samples, rng=rng)
    chain.stop.check()
    return graph, last_step(chain, graph, with_slope=True)


def _mean(total: float, squares: float, samples: int) -> tuple[float, float]:
    """Mean and standard error; runs that ended where the secret is settled count as 0."""
    mean = total / samples
    variance = max(squares / samples - mean**2, 0.0) * samples / max(samples - 1, 1)
    return float(mean), float(np.sqrt(variance / samples))
