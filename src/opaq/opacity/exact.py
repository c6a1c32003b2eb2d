"""Opacity of a policy on the whole belief graph, or as much of it as a budget allows: values and derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.opacity import kernels
from opaq.opacity.amount import Amount
from opaq.opacity.beliefs import Budget, Chain, Graph, conclude, unroll
from opaq.product.process import HiddenProcess


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Opacity and guess error with their certified intervals, and the graph they come from."""

    opacity: Amount
    guess_error: Amount
    graph: Graph


def evaluate(process: HiddenProcess, pi: FloatArray, *, budget: Budget | None = None) -> Evaluation:
    """H(Z | Y) and the guess error P_E (paper, eq. prob_error) of a policy vector."""
    chain = Chain.of(process, pi)
    graph = unroll(chain, steps=process.horizon, budget=budget)
    end = conclude(chain, graph)
    opacity, error = float(graph.last.mass @ end.entropy), float(graph.last.mass @ end.error)
    return Evaluation(
        Amount.between(opacity, opacity + graph.dropped_opacity),
        Amount.between(error, error + graph.dropped_error),
        graph,
    )


def gradient(process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None) -> tuple[float, FloatArray]:
    """H(Z | Y) and its gradient with respect to softmax logits (paper, eq. simplified_gradient).

    With a budget it is the part of H that the budget keeps, a lower bound; without one, BudgetError is raised when
    the whole graph does not fit the default budget.
    """
    return _slope(process, theta, budget)


def hessian_vector(
    process: HiddenProcess, theta: FloatArray, direction: FloatArray, *, budget: Budget | None = None
) -> FloatArray:
    """The Hessian of H(Z | Y) times a direction: one forward and one backward sweep along it.

    The direction rides in the imaginary part of the logits; every operation is analytic, so the imaginary part of
    the gradient is the derivative along it, without cancellation.
    """
    _, slope = _slope(process, theta + 1j * kernels.STEP * np.asarray(direction, dtype=np.float64), budget)
    return np.asarray(np.imag(slope) / kernels.STEP)


def hessian(process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None) -> FloatArray:
    """The full Hessian of H(Z | Y) (paper, eq. simplified_hessian), one product a column: for small problems."""
    columns = [hessian_vector(process, theta, unit, budget=budget) for unit in np.eye(process.num_slots)]
    matrix = np.stack(columns, axis=1)
    return 0.5 * (matrix + matrix.T)


def _slope(process: HiddenProcess, theta: Any, budget: Budget | None) -> tuple[float, Any]:
    pi = process.softmax(theta)
    chain = Chain.of(process, pi)
    graph = unroll(chain, steps=process.horizon, budget=budget, keep=True)
    if budget is None and graph.dropped_mass > 0:
        raise BudgetError("the belief graph does not fit the default budget; pass a Budget or use sampled gradients")
    end = conclude(chain, graph, with_slope=True)
    value = float(np.real(graph.last.mass) @ end.entropy)
    return value, process.pull_back(pi, process.edge_slots.T @ end.slope)
