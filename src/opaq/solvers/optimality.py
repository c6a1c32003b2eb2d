"""The evidence for a local optimum: first- and second-order measures at the policy found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opaq.beliefs import kernels
from opaq.beliefs.leaf_rows import largest_excess
from opaq.beliefs.returns import expected_return, return_gradient
from opaq.model.arrays import ContentEq, FloatArray
from opaq.opacity import exact
from opaq.product.process import HiddenProcess
from opaq.solvers.objective import Objective, Point

TOLERANCE = 1e-4  # of the most bits a secret can have (1 at least): what counts as no gain
LEAST_PROBABILITY = 1e-12  # gains are measured where every action has at least this probability
_NEAR_ACTIVE = 1e-3  # a requirement with less slack than this share of its threshold may have a multiplier
_PROBE, _MOST_PROBES = 1e-5, 40  # probability moved in a trial, and how many trials there may be
MAX_HESSIAN = 400  # parameters; beyond this the full Hessian is not formed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Optimality(ContentEq):
    """At a local maximum gradient norm and residual are 0 and the curvature is not positive.

    gradient_norm: the largest entry of the Lagrangian's gradient with respect to logits.
    residual: bits gained per unit of probability moved to the best other action; also what unused slack costs.
    multipliers: what one more unit of each threshold would cost, in bits.
    curvature: the largest eigenvalue of the Lagrangian's Hessian along the active requirements; null: not computed.
    tolerance: what counts as none of these.
    """

    gradient_norm: float
    residual: float
    multipliers: FloatArray  # [requirement]
    curvature: float | None
    tolerance: float = TOLERANCE

    def in_units(self, scale: float) -> Optimality:
        """The same for scores multiplied by the scale."""
        curvature = None if self.curvature is None else scale * self.curvature
        measures = (scale * self.gradient_norm, scale * self.residual, scale * self.multipliers)
        return Optimality(*measures, curvature, scale * self.tolerance)

    @property
    def stationary(self) -> bool:
        """Whether no first-order gain is left."""
        return self.residual <= self.tolerance and self.gradient_norm <= self.tolerance

    @property
    def holds(self) -> bool:
        """Whether all that was measured speaks for a local maximum."""
        return self.stationary and (self.curvature is None or self.curvature <= self.tolerance)


@dataclass(frozen=True, slots=True)
class FirstOrder:
    """First-order measures with what they were made from."""

    optimality: Optimality
    point: Point
    gains: FloatArray  # [slot]: bits per unit of probability moved there
    active: Any = field(default_factory=lambda: np.zeros(0, dtype=bool))  # [requirement]


def optimality(objective: Objective, theta: FloatArray, *, second_order: bool = True) -> Optimality:
    """Measures at one policy; the multipliers are the non-negative ones that explain the gradient best."""
    first = first_order(objective, theta)
    if not second_order or theta.size > MAX_HESSIAN:
        return first.optimality
    return with_curvature(objective, first)[0]


def first_order(objective: Objective, theta: FloatArray) -> FirstOrder:
    """The gain of moving probability to an action, D(u) A(u, a), for every action of every row.

    A gradient with respect to logits is pi D A: it vanishes with pi, and so says nothing of actions that are hardly
    ever taken. D A is the gradient on the simplex: at a local optimum none is positive. Where an uncertainty has a
    kink, the slope is a supergradient: no direction gains more than it says, so that a maximum may be confirmed by it
    but not refuted, and single moves that do not gain prove nothing. Hence no probing there.
    """
    process = objective.process
    theta = with_least(process, theta, LEAST_PROBABILITY)
    pi = process.softmax(theta)
    point = objective.at(theta)
    size = np.maximum(1.0, np.abs(objective.thresholds()))
    active = np.abs(point.slack) <= _NEAR_ACTIVE * size
    by_score, by_slack = point.score_slope / pi, point.slack_slope / pi
    best = None
    for multipliers in _multipliers(point, by_score, by_slack, active):
        gains = by_score + multipliers @ by_slack
        unused = float(multipliers @ np.maximum(point.slack, 0.0))
        residual = max(float(gains.max(initial=0.0)), unused)
        if best is None or residual < best[0]:
            best = residual, multipliers, gains
    assert best is not None
    residual, multipliers, gains = best
    if residual > tolerance(objective) and objective.leaf.smooth:
        residual = max(
            _probe_gains(objective, pi, multipliers, gains), float(multipliers @ np.maximum(point.slack, 0.0))
        )
    norm = float(np.abs(pi * gains).max(initial=0.0))
    found = Optimality(norm, residual, multipliers, None, tolerance(objective))
    return FirstOrder(found, point, gains, active)


def _probe_gains(objective: Objective, pi: FloatArray, multipliers: FloatArray, gains: FloatArray) -> float:
    """The largest gain per unit of a small move to one action, measured, of the actions whose slope promises one.

    Next to a boundary of the simplex a slope may hold only for moves far smaller than any that matters: an action that
    is seen and never taken is a new observation, and the opacity has a kink there.
    """
    promising = np.flatnonzero(gains > tolerance(objective))
    if promising.size > _MOST_PROBES:
        return float(gains.max())
    process = objective.process
    here = _lagrangian(objective, pi, multipliers)
    rows = process.row_of_slot()
    largest = 0.0
    for slot in promising:
        moved = np.where(rows == rows[slot], (1.0 - _PROBE) * pi, pi)
        moved[slot] += _PROBE
        largest = max(largest, (_lagrangian(objective, moved, multipliers) - here) / _PROBE)
    return largest


def _lagrangian(objective: Objective, pi: FloatArray, multipliers: FloatArray) -> float:
    leaf = objective.leaf
    evaluation = exact.evaluate(
        objective.process, pi, leaves=exact.further_leaves(leaf), budget=objective.budget, stop=objective.stop
    )
    value = evaluation.of(leaf).lower / leaf.scale
    objective.stop.check()
    returns = [expected_return(objective.process, pi, payoff) for payoff in objective.requirements()]
    return objective.sign * value + float(multipliers @ np.array(returns, dtype=np.float64))


def tolerance(objective: Objective) -> float:
    """What counts as no gain: a share of the most that can be uncertain (opacity: the most bits a secret can have)."""
    leaf = objective.leaf
    return TOLERANCE * max(1.0, largest_excess(leaf) / leaf.scale)


def with_least(process: HiddenProcess, theta: FloatArray, least: float) -> FloatArray:
    """Logits of the same policy with every probability at least (nearly) `least`."""
    return np.asarray(np.log(np.maximum(process.softmax(theta), least)))


def with_curvature(objective: Objective, first: FirstOrder) -> tuple[Optimality, FloatArray]:
    """The measures with the largest curvature added, and the direction that has it."""
    theta, multipliers = first.point.theta, first.optimality.multipliers
    score = objective.hessian_products(theta)
    columns = [score(unit) + _requirements_product(objective, theta, multipliers, unit) for unit in np.eye(theta.size)]
    matrix = np.stack(columns, axis=1)
    normal = first.point.slack_slope[first.active & (multipliers > 0)]
    normals = np.linalg.svd(normal)[2][: np.linalg.matrix_rank(normal)] if normal.size else np.zeros((0, theta.size))
    onto = np.eye(theta.size) - normals.T @ normals
    values, vectors = np.linalg.eigh(onto @ (0.5 * (matrix + matrix.T)) @ onto)
    found = first.optimality
    measured = Optimality(found.gradient_norm, found.residual, multipliers, float(values[-1]), found.tolerance)
    return measured, np.asarray(vectors[:, -1])


def _multipliers(point: Point, by_score: FloatArray, by_slack: FloatArray, active: Any) -> list[FloatArray]:
    """Two guesses: least squares on logits (right inside the simplex), and the least largest gain (on its boundary)."""
    from scipy.optimize import linprog, nnls

    least_squares = np.zeros(point.slack.size)
    if not active.any():
        return [least_squares]
    least_squares[active] = nnls(point.slack_slope[active].T, -point.score_slope)[0]
    count = int(active.sum())
    # minimise r subject to by_score + multipliers @ by_slack <= r, r >= unused slack, all >= 0
    limits = np.vstack((np.column_stack((by_slack[active].T, -np.ones(by_score.size))), [*point.slack[active], -1.0]))
    solved = linprog([0.0] * count + [1.0], A_ub=limits, b_ub=np.append(-by_score, 0.0), bounds=(0, None))
    if solved.x is None:
        return [least_squares]
    least_gain = np.zeros(point.slack.size)
    least_gain[active] = solved.x[:count]
    return [least_squares, least_gain]


def _requirements_product(objective: Objective, theta: FloatArray, multipliers: FloatArray, unit: FloatArray) -> Any:
    """The part of the Lagrangian's Hessian that the requirements have, times a direction."""
    total: Any = 0.0
    for multiplier, payoff in zip(multipliers, objective.requirements(), strict=True):
        if multiplier > 0:
            _, slope = return_gradient(objective.process, theta + 1j * kernels.STEP * unit, payoff)
            total = total + multiplier * np.imag(slope) / kernels.STEP
    return total
