"""Opacity estimated from sampled runs, on the same belief graph (paper, eqs. HMM_approx_*).

Runs are followed up to the last but one observation; the last one is averaged over exactly, which only lowers the
variance. A node weighs count / (samples P(y)), so the gradient of log P(y) is divided by P(y) as it must be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.opacity import kernels
from opaq.opacity.beliefs import Chain, Conclusion, Graph, conclude, unroll
from opaq.product.process import HiddenProcess


@dataclass(frozen=True, slots=True)
class Estimate:
    """Means over sampled runs and their standard errors."""

    opacity: float
    opacity_error: float
    guess_error: float
    guess_error_error: float


def estimate(process: HiddenProcess, pi: FloatArray, *, samples: int, rng: np.random.Generator) -> Estimate:
    """Opacity and guess error of a policy vector from sampled observation sequences."""
    chain = Chain.of(process, pi)
    graph = unroll(chain, steps=process.horizon, samples=samples, rng=rng)
    end = conclude(chain, graph)
    runs = graph.last.runs
    return Estimate(*_mean(end.entropy, runs, samples), *_mean(end.error, runs, samples))


def gradient(
    process: HiddenProcess, theta: FloatArray, *, samples: int, rng: np.random.Generator
) -> tuple[float, float, FloatArray]:
    """Estimated opacity, its standard error, and the estimated gradient (paper, eq. HMM_approx_gradient_entropy)."""
    graph, end, slope = _slope(process, theta, samples, rng)
    return (*_mean(end.entropy, graph.last.runs, samples), slope)


def hessian_vector(
    process: HiddenProcess, theta: FloatArray, direction: FloatArray, *, samples: int, rng: np.random.Generator
) -> FloatArray:
    """An unbiased estimate of the Hessian times a direction (paper, eq. HMM_hessian_posterior_entropy)."""
    _, _, slope = _slope(process, theta + 1j * kernels.STEP * np.asarray(direction), samples, rng)
    return np.asarray(np.imag(slope) / kernels.STEP)


def _slope(process: HiddenProcess, theta: Any, samples: int, rng: np.random.Generator) -> tuple[Graph, Conclusion, Any]:
    pi = process.softmax(theta)
    chain = Chain.of(process, pi)
    graph = unroll(chain, steps=process.horizon, keep=True, samples=samples, rng=rng)
    end = conclude(chain, graph, with_slope=True)
    return graph, end, process.pull_back(pi, process.edge_slots.T @ end.slope)


def _mean(values: FloatArray, runs: Any, samples: int) -> tuple[float, float]:
    """Mean and standard error; runs that ended where the secret is settled count as 0."""
    mean = float(values @ runs) / samples
    square = float(values**2 @ runs) / samples
    variance = max(square - mean**2, 0.0) * samples / max(samples - 1, 1)
    return mean, float(np.sqrt(variance / samples))
