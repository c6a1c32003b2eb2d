"""An augmented Lagrangian with a quasi-Newton inner solver on exact gradients.

Each step maximises the augmented Lagrangian (`Merit`) over logits by L-BFGS-B, and then sets the multipliers to
l_i <- max(0, l_i - rho s_i), s_i the slacks in units of the objective's scales. The penalty rho grows while violations
do not shrink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.product.process import LARGEST_LOGIT
from opaq.solvers.objective import Merit, Objective, Point
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
        """Run one inner solve by L-BFGS-B, then update multipliers and penalty.

        rng: gives the seed of the evaluations of the step.
        Raises StoppedError when the objective's stop is requested meanwhile.
        """
        from scipy.optimize import minimize

        seed = int(rng.integers(2**62))
        softness = objective.softness(state.iteration)
        inner = _InnerObjective(objective, state, seed, softness)
        before = -inner.merit.value(inner.at(state.theta))
        bounds = [(-LARGEST_LOGIT, LARGEST_LOGIT)] * state.theta.size
        options = {"maxiter": self.max_inner, "maxcor": 20, "ftol": 1e-12, "gtol": self.tolerance * 0.1}
        solved = minimize(inner, state.theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        point = inner.best if inner.best is not None else inner.at(state.theta)
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
        """Return the state after an inner solve that ended at a point with this scaled slack [requirement].

        l_i <- max(0, l_i - rho s_i); rho is four times as large, up to 1e7, where the largest violation is still above
        0.3 times the one before. gain: of the merit. evaluations: of the inner solve.
        """
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


class _InnerObjective:
    """Minus the merit, to be minimised by the inner solver; remembers the best point evaluated."""

    def __init__(self, objective: Objective, state: LagrangianState, seed: int, softness: float) -> None:
        self._objective, self._seed, self._softness = objective, seed, softness
        self.merit = Merit(state.multipliers, state.penalty, objective.scales)
        self._lowest = np.inf
        self.best: Point | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the merit and its derivative [slot] at some logits [slot]."""
        point = self.at(theta.copy())
        value = -self.merit.value(point)
        if value < self._lowest:
            self._lowest, self.best = value, point
        return value, -self.merit.slope(point)

    def at(self, theta: FloatArray) -> Point:
        """Evaluate the objective at some logits, with the same random numbers each time."""
        return self._objective.at(theta, np.random.default_rng(self._seed), softness=self._softness)


def _plan(request: PlanRequest) -> Plan:
    """Plan many starts for a few steps, a third of them on, two to the end."""
    many = request.many_starts
    rounds = tuple(AugmentedLagrangian(max_steps=steps) for steps in (6, 25, 100))
    return Plan(rounds, (many, max(2, (many + 2) // 3), 2), (many,))


FACTORY = SolverFactory(AugmentedLagrangian.name, _plan, needs_exact=True)
