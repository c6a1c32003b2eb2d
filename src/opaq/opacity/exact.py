"""Uncertainties of a policy on the whole belief graph, or as much of it as a budget allows: values and derivatives.

    f = sum over kept leaves of m f(posterior)  +  what the settled sequences are worth  +  [0, most for the dropped
    mass].

Settled sequences, after which the secret is known, are not part of the graph: they are worth certain_z each, and all of
them together, with that part of every other leaf, the mean of certain_Z, which needs no graph. Leaves carry the excess
over it. The slope by the policy is one sweep back over the same graph (`beliefs.leaves`), a Hessian product the same in
complex numbers. Opacity and guess error are always evaluated; every function takes other uncertainties too, over the
secret's values.
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
from opaq.model.arrays import FloatArray, inner_product
from opaq.model.uncertainty import GuessError, Shannon, Uncertainty
from opaq.opacity.amount import Amount, Figures, check_masses
from opaq.product.process import HiddenProcess
from opaq.stop import Stop
from opaq.threads import available_cores


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Uncertainties with their certified intervals, and what was kept of the graph."""

    figures: Figures  # opacity, guess error, then those that were asked for
    num_nodes: int
    dropped_mass: float
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped

    @property
    def opacity(self) -> Amount:
        """Return H(Z | Y) in bits."""
        return self.figures[Shannon.name]

    @property
    def whole(self) -> bool:
        """Return whether nothing was left out: the numbers are exact."""
        return self.dropped_mass == 0.0


def evaluate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    leaves: Sequence[Uncertainty] = (),
    budget: Budget | None = None,
    whole: bool = False,
    stop: Stop | None = None,
    on_level: OnLevel | None = None,
) -> Evaluation:
    """Return H(Z | Y), the guess error P_E (paper, eq. prob_error) and other uncertainties of a policy vector.

    process: the compiled problem. pi: [slot] action probabilities of every policy row.
    leaves: other uncertainties; those that the kernels evaluate in any case may be among them.
    budget: how much of the belief graph is kept; the standard budget unless given.
    whole: end at the first level that does not fit the budget, with intervals that say nothing.
    stop: when it is requested, what has not been looked at counts as dropped: the interval is wide then, and right.
    on_level: called with the number of levels done and of beliefs on the last one.
    Raises InvariantError when the probabilities of all sequences do not sum to 1.
    """
    budget, leaves = budget or Budget(), [leaf for leaf in leaves if not leaf.compiled]
    chain = Chain.of(process, pi, stop=stop, workers=budget.workers)
    graph = unroll(
        chain, steps=process.horizon, early=True, budget=budget, whole=whole, leaves=leaves, on_level=on_level
    )
    least = certain_values(process, pi, leaves)
    if graph.limit is not None:  # what is left of the graph was not followed to its end
        figures = {Shannon.name: Amount.between(0.0, np.inf), GuessError.name: Amount.between(0.0, 1.0)}
        for leaf, first in zip(leaves, least, strict=True):
            figures[leaf.name] = Amount.between(first, max(first, leaf.highest))
        return Evaluation(figures, graph.num_nodes, 1.0, graph.limit)
    end = evaluate_leaves(chain, graph, leaves=leaves)
    dropped = graph.dropped + unfinished_cost(chain, graph, end, budget, leaves=leaves)
    check_masses(graph.last.mass, graph.settled_mass, graph.dropped_mass, horizon=process.horizon)
    figures = {}
    for (name, excess), first, most in zip(end.excess.items(), [0.0, 0.0, *least], dropped[1:], strict=True):
        value = first + inner_product(np.real(graph.last.mass), excess)
        figures[name] = Amount.between(value, value + float(most))
    return Evaluation(figures, graph.num_nodes, float(dropped[0]))


def certain_values(process: HiddenProcess, pi: FloatArray, leaves: Sequence[Uncertainty]) -> list[float]:
    """Return what every uncertainty would be if the secret were known: sum_z P(z) certain_z.

    pi: [slot], the policy vector, which is looked at only where the values of some uncertainty differ.
    """
    if all(np.ptp(leaf.certain) == 0.0 for leaf in leaves):  # the same whatever the secret is
        return [float(leaf.certain[0]) for leaf in leaves]
    prior = secret_distribution(process, pi)
    return [float(leaf.certain @ prior) for leaf in leaves]


def gradient(
    process: HiddenProcess,
    theta: FloatArray,
    *,
    leaf: Uncertainty | None = None,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> tuple[float, FloatArray]:
    """Return H(Z | Y) and its gradient with respect to softmax logits (paper, eq. simplified_gradient).

    theta: [slot], logits; pi(a | u) = exp theta(u, a) / sum_b exp theta(u, b). Returns bits, and bits per unit [slot].
    leaf: another uncertainty, over the secret's values; a supergradient where it has kinks.
    budget: the value is the part that the budget keeps, a lower bound. Without one every core works on it, and
        BudgetError is raised when the whole graph does not fit the default budget.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    return _slope(process, theta, leaf, budget, stop)


def hessian_vector(
    process: HiddenProcess,
    theta: FloatArray,
    direction: FloatArray,
    *,
    leaf: Uncertainty | None = None,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> FloatArray:
    """Return the Hessian of H(Z | Y), or of a smooth `leaf`, times a direction: one forward and one backward sweep.

        H v = Im gradient(theta + i h v) / h.

    The direction rides in the imaginary part of the logits; every operation is analytic, so the imaginary part of
    the gradient is the derivative along it, without cancellation.

    theta, direction: [slot]. leaf, budget, stop and what is raised: as in `gradient`.
    """
    moved = theta + 1j * STEP * np.asarray(direction, dtype=np.float64)
    _, slope = _slope(process, moved, leaf, budget, stop)
    return np.asarray(np.imag(slope) / STEP)


def hessian(process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None) -> FloatArray:
    """Return the full Hessian of H(Z | Y) (paper, eq. simplified_hessian), column by column: for small problems."""
    columns = [hessian_vector(process, theta, unit, budget=budget) for unit in np.eye(process.num_slots)]
    matrix = np.stack(columns, axis=1)
    return 0.5 * (matrix + matrix.T)


def policy_slope(
    process: HiddenProcess,
    pi: Any,
    *,
    leaf: Uncertainty | None = None,
    budget: Budget | None = None,
    whole: bool = False,
    stop: Stop | None = None,
) -> tuple[float, Any]:
    """Return H(Z | Y), or a `leaf`, and its derivative by the policy vector: as `gradient`, but not by logits.

    pi: [slot], complex where a derivative along a direction is wanted. Returns the value and [slot] bits per unit of
    probability; within a row only differences have a meaning, since rows of policies sum to 1.
    With `whole`, BudgetError is raised where a given budget does not hold the whole graph.
    """
    chain = Chain.of(process, pi, stop=stop, workers=available_cores() if budget is None else budget.workers)
    graph = unroll(chain, steps=process.horizon, early=True, budget=budget, keep=True, whole=whole)
    chain.stop.check()
    if budget is None and not graph.whole:
        raise BudgetError("the belief graph does not fit the default budget; pass a Budget or use sampled gradients")
    if whole and not graph.whole:
        raise BudgetError("the belief graph does not fit the budget; allow a larger one")
    leaf = leaf or Shannon()
    amounts, flow_slope = slope_of_leaf(chain, graph, leaf)
    value, slope = inner_product(np.real(graph.last.mass), amounts), process.edge_slots.T @ flow_slope
    if leaf.certain.any():
        mean, mean_slope = secret_slope(process, pi, leaf.certain)
        value, slope = value + float(np.real(mean)), slope + mean_slope
    return value, slope


def _slope(
    process: HiddenProcess, theta: Any, leaf: Uncertainty | None, budget: Budget | None, stop: Stop | None
) -> tuple[float, Any]:
    """Return `policy_slope` of the softmax policy of some logits [slot], with the slope pulled back to the logits."""
    pi = process.softmax(theta)
    value, slope = policy_slope(process, pi, leaf=leaf, budget=budget, stop=stop)
    return value, process.pull_back(pi, slope)
