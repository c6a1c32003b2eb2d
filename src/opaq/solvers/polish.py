"""The last part of a solve: improve the winner while it gains, on exact gradients, and measure what is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.model.arrays import FloatArray
from opaq.product.process import LARGEST_LOGIT
from opaq.solvers.feasible import row_visits
from opaq.solvers.judge import Candidate, judge
from opaq.solvers.objective import Objective, Slopes
from opaq.solvers.optimality import FirstOrder, Optimality, first_order, with_curvature, with_least

_STEPS_A_ROUND = 30
_PENALTY = 100.0
_LEAST = (1e-4, 1e-6, 1e-8)  # actions are given this probability back when a round begins; later rounds less
_GAIN = 1e-8  # a round that gains less has stopped gaining
_MAX_IDLE = 3  # rounds without a gain, after which there is none
_MAX_SADDLES = 3
_SOFTNESS = (1e-2, 1e-3, 1e-4, 1e-5)  # of uncertainties with kinks, round by round


@dataclass(frozen=True, slots=True)
class Polished:
    """A policy, the evidence for it, and whether the search was stopped while it still gained."""

    candidate: Candidate
    optimality: Optimality
    gaining: bool


def polish(
    objective: Objective,
    candidate: Candidate,
    *,
    evaluations: int,
    second_order: bool,
) -> Polished:
    """Climb from a feasible policy until no gain is left, it stops gaining, or `evaluations` gradients were taken.

    Every round is a quasi-Newton solve of the augmented Lagrangian in logits divided by sqrt(D(u) pi(a | u)): steps
    as of the natural gradient, which do not slow down in rows that are rarely visited and for actions that are rarely
    taken. From a saddle it goes on along the direction of positive curvature.
    """
    with threadpool_limits(1):  # sums over several threads round differently
        return _Polish(objective, evaluations, second_order).run(candidate)


class _Polish:
    """One polish: counts what it spends."""

    def __init__(
        self,
        objective: Objective,
        evaluations: int,
        second_order: bool,
    ) -> None:
        self._objective, self._scales = objective, objective.scales
        self._left = evaluations
        self._second_order = second_order

    def run(self, candidate: Candidate) -> Polished:
        best, evidence = candidate, first_order(self._objective, candidate.theta)
        saddles = 0
        while True:
            if not evidence.optimality.stationary:
                best, evidence, gaining = self._climb(best, evidence)
                if not evidence.optimality.stationary:
                    return Polished(best, evidence.optimality, gaining)
            if not self._second_order:
                return Polished(best, evidence.optimality, False)
            measured, direction = with_curvature(self._objective, evidence)
            saddles += 1
            beyond = None if measured.holds or saddles > _MAX_SADDLES else self._leave_saddle(best, direction)
            if beyond is None:
                return Polished(best, measured, False)
            best, evidence = beyond, first_order(self._objective, beyond.theta)

    def _climb(self, best: Candidate, evidence: FirstOrder) -> tuple[Candidate, FirstOrder, bool]:
        """Rounds until the best judged policy is stationary, no longer gets better, or the evaluations are used up."""
        theta, multipliers = best.theta, evidence.optimality.multipliers * self._scales
        idle, number = 0, 0
        while self._left > 0:
            least = _LEAST[min(number, len(_LEAST) - 1)]
            softness = 0.0 if self._objective.leaf.smooth else _SOFTNESS[min(number, len(_SOFTNESS) - 1)]
            theta, multipliers = self._round(theta, multipliers, least, softness)
            found = judge(self._objective, theta)
            gain = found.score - best.score
            if found.beats(best):
                best, evidence = found, first_order(self._objective, found.theta)
                if evidence.optimality.stationary:
                    return best, evidence, False
            idle = 0 if found.feasible and gain > _GAIN else idle + 1
            number += 1
            if idle >= _MAX_IDLE:
                return best, evidence, False
        return best, evidence, True

    def _round(
        self, theta: FloatArray, multipliers: FloatArray, least: float, softness: float
    ) -> tuple[FloatArray, FloatArray]:
        """One quasi-Newton solve; multipliers are in units of score per scaled slack."""
        from scipy.optimize import minimize

        process = self._objective.process
        theta = with_least(process, theta, least)
        pi = process.softmax(theta)
        weight = np.repeat(row_visits(process, pi), np.diff(process.row_start)) * pi
        stretch = 1.0 / np.sqrt(np.maximum(weight, 1e-8))
        climb = _PolishClimb(self._objective, self._scales, multipliers, theta, stretch, softness)
        options = {"maxiter": _STEPS_A_ROUND, "maxfun": self._left, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-9}
        solved = minimize(climb, np.zeros(theta.size), jac=True, method="L-BFGS-B", options=options)
        self._left -= int(solved.nfev)
        assert climb.best is not None
        return climb.theta, climb.pressure(climb.best)

    def _leave_saddle(self, best: Candidate, direction: FloatArray) -> Candidate | None:
        """The best policy some way along a direction, either way, if it is better."""
        better: Candidate | None = None
        for length in (1.0, 0.3, 0.1, 0.03):
            for sign in (1.0, -1.0):
                theta = np.clip(best.theta + sign * length * direction, -LARGEST_LOGIT, LARGEST_LOGIT)
                found = judge(self._objective, theta)
                self._left -= 1
                if found.feasible and found.score > best.score + _GAIN and found.beats(better):
                    better = found
            if better is not None:
                return better
        return None


class _PolishClimb:
    """Minus the augmented Lagrangian in stretched logits; remembers the best point it was asked for."""

    def __init__(
        self,
        objective: Objective,
        scales: FloatArray,
        multipliers: FloatArray,
        theta: FloatArray,
        stretch: FloatArray,
        softness: float,
    ) -> None:
        self._objective, self._scales, self._multipliers = objective, scales, multipliers
        self._theta, self._stretch = theta, stretch
        self._local = objective.near(theta, softness=softness)
        self._lowest = np.inf
        self.theta = theta
        self.best: Slopes | None = None

    def __call__(self, move: FloatArray) -> tuple[float, FloatArray]:
        theta = np.clip(self._theta + self._stretch * move, -LARGEST_LOGIT, LARGEST_LOGIT)
        here = self._local.slopes(theta)
        pressure = self.pressure(here)
        merit = -here.score + float((pressure**2 - self._multipliers**2).sum()) / (2.0 * _PENALTY)
        if merit < self._lowest:
            self._lowest, self.theta, self.best = merit, theta, here
        slope = here.score_slope + (pressure / self._scales) @ here.slack_slope
        return merit, -self._stretch * self._objective.process.pull_back(here.pi, slope)

    def pressure(self, point: Slopes) -> FloatArray:
        """What a requirement weighs at a point, in units of score per scaled slack."""
        return np.asarray(np.maximum(0.0, self._multipliers - _PENALTY * point.slack / self._scales))
