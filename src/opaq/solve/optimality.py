"""How good a local optimum is: first- and second-order measures at the policy found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.opacity import exact, kernels
from opaq.opacity.returns import return_gradient
from opaq.solve.objective import Objective

_MAX_SLOTS = 400  # beyond this the full Hessian is not formed
_ACTIVE = 1e-6


@dataclass(frozen=True, slots=True)
class Optimality:
    """At a local maximum the gradient norm is 0 and the curvature is not positive."""

    gradient_norm: float  # largest entry of the Lagrangian's gradient
    multipliers: FloatArray  # [requirement]: what one more unit of threshold would cost, in bits
    curvature: float | None  # largest eigenvalue of the Lagrangian's Hessian along the active requirements


def optimality(objective: Objective, theta: FloatArray, *, second_order: bool = True) -> Optimality:
    """Measures at one policy; the multipliers are the non-negative ones that explain the gradient best."""
    from scipy.optimize import nnls

    point = objective.at(theta)
    active = np.abs(point.slack) <= _ACTIVE * np.maximum(1.0, np.abs(objective.thresholds()))
    multipliers = np.zeros(point.slack.size)
    if active.any():
        multipliers[active] = nnls(point.slack_slope[active].T, -point.score_slope)[0]
    gradient = point.score_slope + multipliers @ point.slack_slope
    small = second_order and theta.size <= _MAX_SLOTS
    curvature = _curvature(objective, theta, multipliers, point.slack_slope[active]) if small else None
    return Optimality(float(np.abs(gradient).max(initial=0.0)), multipliers, curvature)


def _curvature(objective: Objective, theta: FloatArray, multipliers: FloatArray, active: FloatArray) -> float:
    """The largest eigenvalue of the Lagrangian's Hessian on the tangent space of the active requirements."""
    columns = [_lagrangian_product(objective, theta, multipliers, unit) for unit in np.eye(theta.size)]
    matrix = np.stack(columns, axis=1)
    normals = np.linalg.svd(active)[2][: np.linalg.matrix_rank(active)] if active.size else np.zeros((0, theta.size))
    onto = np.eye(theta.size) - normals.T @ normals
    return float(np.linalg.eigvalsh(onto @ (0.5 * (matrix + matrix.T)) @ onto)[-1])


def _lagrangian_product(objective: Objective, theta: FloatArray, multipliers: FloatArray, unit: FloatArray) -> Any:
    total = objective.sign * exact.hessian_vector(
        objective.process, theta, unit, budget=objective.budget, stop=objective.stop
    )
    for multiplier, payoff in zip(multipliers, objective.requirements(), strict=True):
        if multiplier > 0:
            _, slope = return_gradient(objective.process, theta + 1j * kernels.STEP * unit, payoff)
            total = total + multiplier * np.imag(slope) / kernels.STEP
    return total
