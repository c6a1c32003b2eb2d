"""The verdict on a policy: exact values only, and a last small step into the feasible side where that is needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.beliefs.returns import return_gradient, secret_distribution
from opaq.model.arrays import ContentEq, FloatArray
from opaq.model.uncertainty import entropy
from opaq.opacity.exact import evaluate
from opaq.opacity.sampled import estimate
from opaq.product.process import LARGEST_LOGIT, HiddenProcess
from opaq.solvers.objective import Objective
from opaq.stop import Stop

_MARGIN = 1e-12  # aimed at beyond the threshold, so that rounding does not undo the repair
NO_SECRET = 1e-6  # bits of H(Z) up to which a policy has nothing to hide
_JUDGING_SEED, _JUDGING_RUNS = 0x0BAC, 1000
_MAX_DEFICIT = 1e-2  # a policy that misses by more of the scale than this is not repaired


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Candidate(ContentEq):
    """A policy and its exact (or certified lower) score; only one with every slack >= 0 is feasible.

    slack: in units of max(1, |threshold|), what counts as rounding added where a threshold is missed.
    """

    theta: FloatArray
    score: float
    slack: FloatArray
    error: float = 0.0  # the standard error of a score that is an estimate (sampled gradients), in its unit

    @property
    def feasible(self) -> bool:
        """Whether every requirement holds, up to rounding."""
        return bool((self.slack >= 0.0).all())

    def beats(self, other: Candidate | None) -> bool:
        """Feasible before infeasible, then the higher score, then the smaller violation."""
        if other is None or self.feasible != other.feasible:
            return other is None or self.feasible
        if self.feasible:
            return self.score > other.score
        return float(self.slack.min()) > float(other.slack.min())


def has_no_secret(process: HiddenProcess, theta: FloatArray) -> bool:
    """Whether (nearly) all runs of a policy have one value of the secret, so that it has nothing to hide."""
    return entropy(secret_distribution(process, process.softmax(theta))) <= NO_SECRET


def judge(objective: Objective, theta: FloatArray) -> Candidate:
    """Repair a small violation, then evaluate. Raises StoppedError when there is no time for it."""
    theta = repair(objective, theta)
    score, error = _score(objective, objective.process.softmax(theta))
    return Candidate(theta, score, _scaled_slack(objective, theta), error)


def _score(objective: Objective, pi: FloatArray) -> tuple[float, float]:
    """The certain side of the uncertainty as a score; an estimate and its standard error where gradients are sampled.

    Estimates of all policies use the same random numbers.
    """
    if objective.gradients == "sampled":
        rng = np.random.default_rng(_JUDGING_SEED)
        leaf = objective.leaf
        estimated = estimate(objective.process, pi, samples=_JUDGING_RUNS, rng=rng, leaves=(leaf,), stop=objective.stop)
        objective.stop.check()
        mean, error = estimated.means[leaf.name]
        return objective.sign * mean / leaf.scale, error / leaf.scale
    score = _certain_score(objective, pi, objective.stop)
    objective.stop.check()
    return score, 0.0


def _certain_score(objective: Objective, pi: FloatArray, stop: Stop) -> float:
    """The certain side of the uncertainty; what has not been looked at when `stop` is requested counts as nothing."""
    leaf = objective.leaf
    evaluation = evaluate(objective.process, pi, leaves=(leaf,), budget=objective.budget, stop=stop)
    amount = evaluation.figures[leaf.name]
    return (amount.lower if objective.sign > 0 else -amount.upper) / leaf.scale


def evaluate_briefly(objective: Objective, theta: FloatArray, *, stop: Stop) -> Candidate:
    """The same in the time that `stop` leaves."""
    theta = repair(objective, theta)
    score = _certain_score(objective, objective.process.softmax(theta), stop)
    return Candidate(theta, score, _scaled_slack(objective, theta))


def _scaled_slack(objective: Objective, theta: FloatArray) -> FloatArray:
    slack = objective.slack(theta)
    if (slack < 0.0).any():
        slack = slack + np.where(slack < 0.0, objective.tolerances(objective.process.softmax(theta)), 0.0)
    return np.asarray(slack / np.maximum(1.0, np.abs(objective.thresholds())))


def repair(objective: Objective, theta: FloatArray) -> FloatArray:
    """The nearest policy along the gradients of the violated requirements that meets them, if a small step does."""
    first, scales = theta, objective.scales
    for _ in range(12):
        slack = objective.slack(theta)
        if not slack.size or slack.min() >= 0.0:
            return theta
        if (slack / scales).min() < -_MAX_DEFICIT:
            return first
        wanted = slack < 1e-9 * scales
        slopes = [
            return_gradient(objective.process, theta, payoff)[1]
            for payoff, asked in zip(objective.requirements(), wanted, strict=True)
            if asked
        ]
        aim = np.maximum(-slack[wanted], 0.0) * (1.0 + 1e-6) + _MARGIN * scales[wanted]
        step = np.linalg.lstsq(np.array(slopes), aim, rcond=None)[0]
        theta = np.clip(theta + step, -LARGEST_LOGIT, LARGEST_LOGIT)
    return theta
