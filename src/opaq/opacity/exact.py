"""Opacity of a policy on the whole belief graph, or as much of it as a budget allows: values and derivatives.

Every function also takes other uncertainties, as leaves: see opaq.model.uncertainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.graph import STEP, Budget, Chain, Limit
from opaq.beliefs.leaves import evaluate_leaves, slope_of_leaf, unfinished_cost
from opaq.beliefs.returns import secret_distribution, secret_slope
from opaq.beliefs.unroll import OnLevel, unroll
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import EntropyLeaf, Leaf
from opaq.opacity.amount import Amount, check_masses
from opaq.product.process import HiddenProcess
from opaq.stop import Stop


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Opacity, guess error and further leaves with their certified intervals, and what was kept of the graph."""

    opacity: Amount
    guess_error: Amount
    further: tuple[Amount, ...]  # [leaf]
    num_nodes: int
    dropped_mass: float
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped

    @property
    def whole(self) -> bool:
        """Whether nothing was left out: the numbers are exact."""
        return self.dropped_mass == 0.0

    def of(self, leaf: Leaf) -> Amount:
        """Of a leaf that the kernels evaluate always, or else of the first further one."""
        compiled = {"opacity": self.opacity, "guess_error": self.guess_error}
        return compiled.get(leaf.compiled) or self.further[0]


def further_leaves(leaf: Leaf) -> tuple[Leaf, ...]:
    """What must be asked of `evaluate` for `Evaluation.of`."""
    return () if leaf.compiled else (leaf,)


def evaluate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    leaves: Sequence[Leaf] = (),
    budget: Budget | None = None,
    whole: bool = False,
    stop: Stop | None = None,
    on_level: OnLevel | None = None,
) -> Evaluation:
    """H(Z | Y), the guess error P_E (paper, eq. prob_error) and further leaves of a policy vector.

    With `whole`, work ends at the first level that does not fit the budget. When `stop` is requested, what has not
    been looked at counts as dropped: the interval is wide then, and still right.
    """
    budget = budget or Budget()
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon, budget=budget, whole=whole, leaves=leaves, on_level=on_level)
    if graph.limit is not None:  # what is left of the graph was not followed to its end
        least = certain_values(process, pi, leaves)
        ranges = (Amount.between(first, max(first, leaf.highest)) for first, leaf in zip(least, leaves, strict=True))
        unknown = Amount.between(0.0, np.inf), Amount.between(0.0, 1.0), tuple(ranges)
        return Evaluation(*unknown, graph.num_nodes, 1.0, graph.limit)
    end = evaluate_leaves(chain, graph, leaves=leaves)
    dropped = graph.dropped + unfinished_cost(chain, graph, end, budget, leaves=leaves)
    check_masses(graph.last.mass, graph.settled_mass, graph.dropped_mass, horizon=process.horizon)
    kept = [float(graph.last.mass @ amounts) for amounts in (end.entropy, end.error, *end.further)]
    known = [0.0, 0.0, *certain_values(process, pi, leaves)]
    amounts = [
        Amount.between(first + value, first + value + float(most))
        for first, value, most in zip(known, kept, dropped[1:], strict=True)
    ]
    return Evaluation(amounts[0], amounts[1], tuple(amounts[2:]), graph.num_nodes, float(dropped[0]))


def certain_values(process: HiddenProcess, pi: FloatArray, leaves: Sequence[Leaf]) -> list[float]:
    """Return what every leaf would be if the secret were known."""
    if all(np.ptp(leaf.certain) == 0.0 for leaf in leaves):  # the same whatever the secret is
        return [float(leaf.certain[0]) for leaf in leaves]
    prior = secret_distribution(process, pi)
    return [float(leaf.certain @ prior) for leaf in leaves]


def gradient(
    process: HiddenProcess,
    theta: FloatArray,
    *,
    leaf: Leaf | None = None,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> tuple[float, FloatArray]:
    """H(Z | Y), or a leaf, and its gradient with respect to softmax logits (paper, eq. simplified_gradient).

    With a budget it is the part of H that the budget keeps, a lower bound; without one, BudgetError is raised when
    the whole graph does not fit the default budget. Raises StoppedError when `stop` is requested meanwhile.
    """
    return _slope(process, theta, leaf, budget, stop)


def hessian_vector(
    process: HiddenProcess,
    theta: FloatArray,
    direction: FloatArray,
    *,
    leaf: Leaf | None = None,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> FloatArray:
    """The Hessian of H(Z | Y), or of a smooth leaf, times a direction: one forward and one backward sweep along it.

    The direction rides in the imaginary part of the logits; every operation is analytic, so the imaginary part of
    the gradient is the derivative along it, without cancellation.
    """
    moved = theta + 1j * STEP * np.asarray(direction, dtype=np.float64)
    _, slope = _slope(process, moved, leaf, budget, stop)
    return np.asarray(np.imag(slope) / STEP)


def hessian(process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None) -> FloatArray:
    """The full Hessian of H(Z | Y) (paper, eq. simplified_hessian), one product per column: for small problems."""
    columns = [hessian_vector(process, theta, unit, budget=budget) for unit in np.eye(process.num_slots)]
    matrix = np.stack(columns, axis=1)
    return 0.5 * (matrix + matrix.T)


def policy_slope(
    process: HiddenProcess,
    pi: Any,
    *,
    leaf: Leaf | None = None,
    budget: Budget | None = None,
    whole: bool = False,
    stop: Stop | None = None,
) -> tuple[float, Any]:
    """H(Z | Y), or a leaf, and its derivative by the policy vector: as `gradient`, but not by logits.

    With `whole`, BudgetError is raised where a given budget does not hold the whole graph.
    """
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon, budget=budget, keep=True, whole=whole)
    chain.stop.check()
    if budget is None and not graph.whole:
        raise BudgetError("the belief graph does not fit the default budget; pass a Budget or use sampled gradients")
    if whole and not graph.whole:
        raise BudgetError("the belief graph does not fit the budget; allow a larger one")
    leaf = leaf or EntropyLeaf(process.num_secrets)
    amounts, flow_slope = slope_of_leaf(chain, graph, leaf)
    value, slope = float(np.real(graph.last.mass) @ amounts), process.edge_slots.T @ flow_slope
    if leaf.certain.any():
        mean, mean_slope = secret_slope(process, pi, leaf.certain)
        value, slope = value + float(np.real(mean)), slope + mean_slope
    return value, slope


def _slope(
    process: HiddenProcess, theta: Any, leaf: Leaf | None, budget: Budget | None, stop: Stop | None
) -> tuple[float, Any]:
    pi = process.softmax(theta)
    value, slope = policy_slope(process, pi, leaf=leaf, budget=budget, stop=stop)
    return value, process.pull_back(pi, slope)
