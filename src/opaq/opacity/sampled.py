"""Uncertainties estimated from sampled runs, on the same belief graph (paper, eqs. HMM_approx_*).

Runs are followed up to the last but one observation; the last one is averaged over exactly, which only lowers the
variance. A node weighs count / (samples P(y)), so the gradient of log P(y) is divided by P(y) as it must be:

    H(Z | Y) ~ 1/M sum over runs of H(Z | o_0 .. o_{T-1} of the run, O_T),  standard error sqrt(variance / M).

A process and a policy vector come in; means with standard errors, and slopes, go out. The same `rng` gives the same
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.graph import STEP, Budget, Chain, Graph
from opaq.beliefs.leaves import evaluate_leaves, slope_of_leaf
from opaq.beliefs.returns import secret_slope
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import FloatArray, inner_product
from opaq.model.uncertainty import Shannon, Uncertainty
from opaq.opacity.exact import certain_values
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_DRAWS = 4  # thinned graphs, whose values give the standard error of their mean
_BATCH = 1000  # runs followed together: bounds the memory, and the time until a request to stop is seen


class Mean(NamedTuple):
    """A mean over sampled runs and its standard error, both in the unit of the uncertainty."""

    value: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Uncertainties estimated from sampled runs."""

    means: Mapping[str, Mean]  # name of an uncertainty -> its mean; opacity and guess error first
    samples: int


def estimate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    leaves: Sequence[Uncertainty] = (),
    stop: Stop | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Estimate:
    """Estimate opacity, guess error and other uncertainties of a policy vector from sampled observation sequences.

    pi: [slot], the policy vector. samples: the number of runs. rng: what they are drawn from.
    leaves: other uncertainties, as in `exact.evaluate`.
    stop: when it is requested, the batches that are complete count; StoppedError is raised if there is none.
    on_batch: called with the number of runs that are done.
    """
    stop, leaves = stop or Stop(), [leaf for leaf in leaves if not leaf.compiled]
    chain = Chain.of(process, pi, stop=stop)
    known = [0.0, 0.0, *certain_values(process, pi, leaves)]  # exact; only the excess is estimated
    names, sums, done = list[str](), np.zeros((len(known), 2)), 0
    while done < samples:
        count = min(_BATCH, samples - done)
        graph = unroll(chain, steps=process.horizon, early=True, samples=count, rng=rng)
        end = evaluate_leaves(chain, graph, leaves=leaves)
        if stop.requested:
            break
        runs, names = graph.last.runs, list(end.excess)
        sums += [[values**power @ runs for power in (1, 2)] for values in end.excess.values()]
        done += count
        if on_batch is not None:
            on_batch(done)
    if done == 0:
        stop.check()
    means = {}
    for name, first, (total, squares) in zip(names, known, sums, strict=True):
        mean = _mean(total, squares, done)
        means[name] = mean._replace(value=first + mean.value)
    return Estimate(means, done)


def estimate_thinned(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    nodes: int,
    rng: np.random.Generator,
    leaf: Uncertainty,
    stop: Stop,
) -> Mean:
    """Estimate one uncertainty of a policy vector from belief graphs that are thinned out, four of them.

    The heaviest beliefs are in all of them, and only the others are drawn: the error is a fraction of that of as many
    sampled runs. Where the whole graph fits, the value is exact and its error 0.

    pi: [slot], the policy vector. nodes: the most beliefs on one level. rng: what they are drawn by.
    leaf: over the secret's values. Raises StoppedError when `stop` is requested meanwhile.
    """
    values, chain, name = list[float](), Chain.of(process, pi, stop=stop), leaf.compiled or leaf.name
    while len(values) < _DRAWS:
        graph = unroll(chain, steps=process.horizon, early=True, budget=Budget(nodes=nodes), rng=rng, thin=True)
        excess = evaluate_leaves(chain, graph, leaves=() if leaf.compiled else (leaf,)).excess[name]
        stop.check()
        values.append(inner_product(np.real(graph.last.mass), excess))
        if not graph.thinned:
            break
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Mean(certain_values(process, pi, [leaf])[0] + float(np.mean(values)), error)


def gradient(
    process: HiddenProcess,
    theta: FloatArray,
    *,
    samples: int,
    rng: np.random.Generator,
    leaf: Uncertainty | None = None,
    stop: Stop | None = None,
) -> tuple[float, float, FloatArray]:
    """Return the estimated opacity (or `leaf`), its standard error, and the estimated gradient by logits.

    Paper, eq. HMM_approx_gradient_entropy. theta: [slot], logits. samples: the number of runs. rng: what they are drawn
    from. leaf: another uncertainty, over the secret's values. Raises StoppedError when `stop` is requested meanwhile.
    """
    pi = process.softmax(theta)
    mean, error, slope = policy_slope(process, pi, samples=samples, rng=rng, leaf=leaf, stop=stop)
    return mean, error, process.pull_back(pi, slope)


def policy_slope(
    process: HiddenProcess,
    pi: Any,
    *,
    samples: int,
    rng: np.random.Generator,
    leaf: Uncertainty | None = None,
    stop: Stop | None = None,
) -> tuple[float, float, Any]:
    """Return the estimated opacity (or `leaf`), its standard error, and its estimated slope by the policy vector.

    pi: [slot], complex where a derivative along a direction is wanted. Other arguments as in `gradient`.
    """
    leaf = leaf or Shannon()
    chain = Chain.of(process, pi, stop=stop)
    graph: Graph = unroll(chain, steps=process.horizon, early=True, keep=True, samples=samples, rng=rng)
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
    """Return an unbiased estimate of the Hessian times a direction (paper, eq. HMM_hessian_posterior_entropy).

    theta, direction: [slot], logits. samples, rng: of the runs. By a complex step, as `exact.hessian_vector`.
    """
    pi = process.softmax(theta + 1j * STEP * np.asarray(direction))
    _, _, slope = policy_slope(process, pi, samples=samples, rng=rng)
    return np.asarray(np.imag(process.pull_back(pi, slope)) / STEP)


def _mean(total: float, squares: float, samples: int) -> Mean:
    """Return mean and standard error; runs that ended where the secret is settled count as 0.

    total, squares: sums of the values and of their squares. samples: the number of all runs M; the variance is divided
        by
    M - 1.
    """
    mean = total / samples
    variance = max(squares / samples - mean**2, 0.0) * samples / max(samples - 1, 1)
    return Mean(float(mean), float(np.sqrt(variance / samples)))
