"""Opacity of a policy on the whole belief graph, or as much of it as a budget allows: values and derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs import kernels
from opaq.beliefs.graph import Budget, Chain, Graph, OnLevel, last_step, unfinished_cost, unroll
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.opacity.amount import Amount
from opaq.opacity.invariants import check_masses
from opaq.product.process import HiddenProcess
from opaq.stop import Stop


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Opacity and guess error with their certified intervals, and what was kept of the graph."""

    opacity: Amount
    guess_error: Amount
    num_nodes: int
    dropped_mass: float

    @property
    def whole(self) -> bool:
        """Whether nothing was left out: the numbers are exact."""
        return self.dropped_mass == 0.0


def evaluate(
    process: HiddenProcess,
    pi: FloatArray,
    *,
    budget: Budget | None = None,
    whole: bool = False,
    stop: Stop | None = None,
    on_level: OnLevel | None = None,
) -> Evaluation:
    """H(Z | Y) and the guess error P_E (paper, eq. prob_error) of a policy vector.

    With `whole`, work ends at the first level that does not fit the budget. When `stop` is requested, what has not
    been looked at counts as dropped: the interval is wide then, and still right.
    """
    budget = budget or Budget()
    chain = Chain.of(process, pi, stop=stop)
    graph = unroll(chain, steps=process.horizon, budget=budget, whole=whole, on_level=on_level)
    dropped = np.array([graph.dropped_mass, graph.dropped_opacity, graph.dropped_error])
    if whole and not graph.whole and not chain.stop.requested:  # what is left of the graph was not followed to its end
        return Evaluation(Amount.between(0.0, np.inf), Amount.between(0.0, 1.0), graph.num_nodes, 1.0)
    end = last_step(chain, graph)
    dropped += unfinished_cost(chain, graph, end, budget)
    check_masses(graph.last.mass, graph.settled_mass, graph.dropped_mass, horizon=process.horizon)
    opacity, error = float(graph.last.mass @ end.entropy), float(graph.last.mass @ end.error)
    return Evaluation(
        Amount.between(opacity, opacity + float(dropped[1])),
        Amount.between(error, error + float(dropped[2])),
        graph.num_nodes,
        float(dropped[0]),
    )


def gradient(
    process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None, stop: Stop | None = None
) -> tuple[float, FloatArray]:
    """H(Z | Y) and its gradient with respect to softmax logits (paper, eq. simplified_gradient).

    With a budget it is the part of H that the budget keeps, a lower bound; without one, BudgetError is raised when
    the whole graph does not fit the default budget. Raises StoppedError when `stop` is requested meanwhile.
    """
    return _slope(process, theta, budget, stop)


def hessian_vector(
    process: HiddenProcess,
    theta: FloatArray,
    direction: FloatArray,
    *,
    budget: Budget | None = None,
    stop: Stop | None = None,
) -> FloatArray:
    """The Hessian of H(Z | Y) times a direction: one forward and one backward sweep along it.

    The direction rides in the imaginary part of the logits; every operation is analytic, so the imaginary part of
    the gradient is the derivative along it, without cancellation.
    """
    _, slope = _slope(process, theta + 1j * kernels.STEP * np.asarray(direction, dtype=np.float64), budget, stop)
    return np.asarray(np.imag(slope) / kernels.STEP)


def hessian(process: HiddenProcess, theta: FloatArray, *, budget: Budget | None = None) -> FloatArray:
    """The full Hessian of H(Z | Y) (paper, eq. simplified_hessian), one product per column: for small problems."""
    columns = [hessian_vector(process, theta, unit, budget=budget) for unit in np.eye(process.num_slots)]
    matrix = np.stack(columns, axis=1)
    return 0.5 * (matrix + matrix.T)


def _slope(process: HiddenProcess, theta: Any, budget: Budget | None, stop: Stop | None) -> tuple[float, Any]:
    pi = process.softmax(theta)
    chain = Chain.of(process, pi, stop=stop)
    graph: Graph = unroll(chain, steps=process.horizon, budget=budget, keep=True)
    chain.stop.check()
    if budget is None and not graph.whole:
        raise BudgetError("the belief graph does not fit the default budget; pass a Budget or use sampled gradients")
    end = last_step(chain, graph, with_slope=True)
    value = float(np.real(graph.last.mass) @ end.entropy)
    return value, process.pull_back(pi, process.edge_slots.T @ end.slope)
