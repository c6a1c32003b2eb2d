"""The paper's algorithm as written: primal-dual gradient ascent-descent (eq. primal_dual_algorithm).

    max over theta, min over lambda >= 0 of  L(theta, lambda) = H(Z | Y; theta) + lambda (V(theta) - zeta),
    theta_{k+1} = clip(theta_k + eta_k dL/dtheta),   lambda_{k+1} = clip(lambda_k - kappa_k (V(theta_k) - zeta)),

with one multiplier per requirement. It has no test for convergence: it takes the iterations it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.product.process import LARGEST_LOGIT
from opaq.solvers.objective import Objective
from opaq.solvers.options import default_of
from opaq.solvers.strategy import Plan, PlanRequest, SolverFactory, Status, StepInfo, Trace, single_round


@dataclass(frozen=True, slots=True)
class PrimalDualState:
    """Policy and multipliers after some iterations."""

    theta: FloatArray  # [slot], logits
    multipliers: FloatArray  # [requirement], in bits per unit of the requirement
    iteration: int


@dataclass(frozen=True, slots=True)
class PrimalDual:
    """theta += eta_k grad L, multipliers -= kappa_k slack, each projected onto its range.

    With `exponent` 0 the steps are constant; otherwise eta_k = eta k^-exponent and kappa_k = kappa / k, which
    satisfies the paper's assumption on step sizes (step_size) for 0.5 < exponent < 1.
    """

    eta: float = default_of("eta")  # step size of the policy
    kappa: float = default_of("kappa")  # step size of the multipliers
    exponent: float = default_of("exponent")
    largest_multiplier: float = 1e6  # lambda_max
    iterations: int = default_of("iterations")

    name = "primal-dual"
    judge_every = 100

    @property
    def max_steps(self) -> int:
        """Every start takes all iterations."""
        return self.iterations

    def init(self, objective: Objective, theta: FloatArray, *, index: int = 0) -> PrimalDualState:
        """Begin at the logits given with multipliers 0."""
        return PrimalDualState(theta, np.zeros(objective.scales.size), 0)

    def step(
        self, objective: Objective, state: PrimalDualState, rng: np.random.Generator
    ) -> tuple[PrimalDualState, StepInfo]:
        """Take one step up in the policy and one down in the multipliers, both by the gradient at the same point."""
        point = objective.at(state.theta, rng)
        count = state.iteration + 1
        eta = self.eta * count**-self.exponent
        kappa = self.kappa / count if self.exponent > 0 else self.kappa
        ascent = point.score_slope + state.multipliers @ point.slack_slope
        after = replace(
            state,
            theta=np.clip(state.theta + eta * ascent, -LARGEST_LOGIT, LARGEST_LOGIT),
            multipliers=np.clip(state.multipliers - kappa * point.slack, 0.0, self.largest_multiplier),
            iteration=count,
        )
        trace = Trace(count, point.score, point.slack, state.multipliers)
        return after, StepInfo(iteration=count, theta=after.theta, trace=trace)

    def done(self, state: PrimalDualState) -> Status | None:
        """Return COMPLETED after the given number of iterations: convergence is not tested."""
        return Status.COMPLETED if state.iteration >= self.iterations else None


def _plan(request: PlanRequest) -> Plan:
    """Plan many starts that all run to their end: none is given up, as in the paper."""
    return single_round(PrimalDual(**request.settings), request)


FACTORY = SolverFactory(PrimalDual.name, _plan, options=("iterations", "eta", "kappa", "exponent"))
