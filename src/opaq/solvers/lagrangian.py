"""An augmented Lagrangian with a quasi-Newton inner solver on exact gradients.

With slacks s_i in units of the objective's scales, multipliers l_i and a penalty rho, each step maximises

    score - sum_i (max(0, l_i - rho s_i)^2 - l_i^2) / (2 rho)

over logits by L-BFGS-B, and then sets l_i <- max(0, l_i - rho s_i). The penalty grows while violations do not shrink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.product.process import LARGEST_LOGIT
from opaq.solvers.objective import Objective, Point
from opaq.solvers.strategy import Plan, PlanRequest, SolverFactory, Status, StepInfo, Trace


@dataclass(frozen=True, slots=True)
class LagrangianState:
    """Where an augmented Lagrangian stands between two inner solves."""

    theta: FloatArray  # [slot], logits
    multipliers: FloatArray  # [requirement], in units of score per scaled slack
    penalty: float
    violation: float  # the largest of the last step, in units of the scales
    gain: float  # what the last step added to the score
    iteration: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class AugmentedLagrangian:
    """Each step is one inner solve of the augmented Lagrangian; then multipliers and penalty are updated.

    Slacks are divided by the objective's scales, so that one penalty suits rewards of any size.
    """

    max_steps: int = 100
    max_inner: int = 15  # short inner solves: the multipliers settle before the policy does
    tolerance: float = 1e-6
    first_penalty: float = 10.0

    name = "lagrangian"
    judge_every = 1

    def init(self, objective: Objective, theta: FloatArray, *, index: int = 0) -> LagrangianState:
        """Begin with multipliers 0 and a penalty that depends on the start: small ones roam, large ones stay near.

        With a small penalty alone, all starts may first run to the same infeasible optimum of opacity.
        """
        penalty = self.first_penalty * 8.0 ** (index % 4)
        return LagrangianState(theta, np.zeros(objective.scales.size), penalty, np.inf, np.inf, 0, 0)

    def step(
        self, objective: Objective, state: LagrangianState, rng: np.random.Generator
    ) -> tuple[LagrangianState, StepInfo]:
        """Run one inner solve by L-BFGS-B, then update multipliers and penalty."""
        from scipy.optimize import minimize

        seed = int(rng.integers(2**62))
        softness = objective.softness(state.iteration)
        merit = _LagrangianMerit(objective, state, seed, softness)
        before = _merit(merit.at(state.theta), state, objective.scales)[0]
        bounds = [(-LARGEST_LOGIT, LARGEST_LOGIT)] * state.theta.size
        options = {"maxiter": self.max_inner, "maxcor": 20, "ftol": 1e-12, "gtol": self.tolerance * 0.1}
        solved = minimize(merit, state.theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        point = merit.best if merit.best is not None else merit.at(state.theta)
        scaled = point.slack / objective.scales
        after = self._update(state, point, scaled, gain=before - float(solved.fun), evaluations=int(solved.nfev))
        trace = Trace(after.iteration, point.score, point.slack, after.multipliers / objective.scales)
        return after, StepInfo(iteration=after.iteration, theta=after.theta, trace=trace)

    def done(self, state: LagrangianState) -> Status | None:
        """Return SETTLED when nothing is violated and the last inner solve gained nothing, STOPPED after all steps.

        Neither is a proof of a local optimum.
        """
        if state.iteration and state.violation <= self.tolerance and abs(state.gain) <= 1e-7:
            return Status.SETTLED
        return Status.STOPPED if state.iteration >= self.max_steps else None

    def _update(
        self, state: LagrangianState, point: Point, slack: FloatArray, *, gain: float, evaluations: int
    ) -> LagrangianState:
        """Return the state after an inner solve that ended at a point with this scaled slack [requirement]."""
        multipliers = np.maximum(0.0, state.multipliers - state.penalty * slack)
        active = np.where(multipliers > 0, np.abs(slack), np.maximum(-slack, 0.0))
        violation = float(active.max(initial=0.0))
        grow = violation > 0.3 * state.violation and violation > self.tolerance
        return replace(
            state,
            theta=point.theta,
            multipliers=multipliers,
            penalty=min(state.penalty * (4.0 if grow else 1.0), 1e7),
            violation=violation,
            gain=gain + float(np.abs(multipliers - state.multipliers).max(initial=0.0)) * violation,
            iteration=state.iteration + 1,
            evaluations=state.evaluations + evaluations,
        )


def _merit(point: Point, state: LagrangianState, scales: FloatArray) -> tuple[float, FloatArray]:
    """Return minus the augmented Lagrangian at a point and its gradient [slot], to be minimised."""
    pressure = np.maximum(0.0, state.multipliers - state.penalty * point.slack / scales)
    merit = -point.score + float((pressure**2 - state.multipliers**2).sum()) / (2.0 * state.penalty)
    return merit, -point.score_slope - (pressure / scales) @ point.slack_slope


class _LagrangianMerit:
    """The merit function for the inner solver, which remembers the best point evaluated."""

    def __init__(self, objective: Objective, state: LagrangianState, seed: int, softness: float) -> None:
        self._objective, self._state, self._seed, self._softness = objective, state, seed, softness
        self._lowest = np.inf
        self.best: Point | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        point = self.at(theta.copy())
        merit, slope = _merit(point, self._state, self._objective.scales)
        if merit < self._lowest:
            self._lowest, self.best = merit, point
        return merit, slope

    def at(self, theta: FloatArray) -> Point:
        """Evaluate the objective at some logits, with the same random numbers each time."""
        return self._objective.at(theta, np.random.default_rng(self._seed), softness=self._softness)


def _plan(request: PlanRequest) -> Plan:
    """Plan many starts for a few steps, a third of them on, two to the end."""
    many = request.many_starts
    rounds = tuple(AugmentedLagrangian(max_steps=steps) for steps in (6, 25, 100))
    return Plan(rounds, (many, max(2, (many + 2) // 3), 2), (many,))


FACTORY = SolverFactory(AugmentedLagrangian.name, _plan, needs_exact=True)
