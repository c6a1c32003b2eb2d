"""The objective of a solver: opacity (or what the task is about) and requirements of a softmax policy, with gradients.

    maximise   score(theta) = sign H(Z | Y; theta) / scale   subject to   slack_i(theta) = V_i(theta) - zeta_i >= 0,

with pi(a | u) = exp theta(u, a) / sum_b exp theta(u, b) for every policy row u. Sign is -1 and the score is to be read
as minus the uncertainty where as little as possible is asked for; scale is 1 for opacity in bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from opaq.beliefs.evaluation import PolicyEvaluator
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import STEP, Budget
from opaq.beliefs.returns import (
    absolute_payoff,
    expected_return,
    return_gradient,
    return_slope,
    secret_distribution,
    secret_slope,
    threshold_tolerance,
)
from opaq.errors import InvariantError
from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import Uncertainty
from opaq.opacity import exact, sampled
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess, Payoff
from opaq.simulation.sampling import score_gradients
from opaq.solvers.options import Gradients, default_of
from opaq.stop import Stop

_FIRST_SOFTNESS, _COOLING = 0.1, 0.6
LEAST_SOFTNESS = 1e-3  # of the scale
_LEAST_PRIOR = 2.0**-40  # probability of a value of the secret, in its logarithm


@dataclass(frozen=True, slots=True)
class Point:
    """The score and the slack of every requirement at one policy, with gradients."""

    theta: FloatArray  # [slot], logits
    score: float  # the uncertainty in units of its scale, negative when as little as possible is asked for
    score_slope: FloatArray  # [slot], by logits
    slack: FloatArray  # [requirement]
    slack_slope: FloatArray  # [requirement, slot], by logits


@dataclass(frozen=True, slots=True)
class Slopes:
    """Score and slack at one policy with their derivatives by the policy vector, and the visits of every row."""

    pi: FloatArray  # [slot], probabilities
    score: float
    score_slope: FloatArray  # [slot], by probabilities
    slack: FloatArray  # [requirement]
    slack_slope: FloatArray  # [requirement, slot], by probabilities
    visits: FloatArray  # [row]: D(u), expected


@dataclass(frozen=True, slots=True)
class Merit:
    """The augmented Lagrangian of an objective, which solvers maximise for fixed multipliers l and penalty rho.

        score - sum_i (max(0, l_i - rho s_i)^2 - l_i^2) / (2 rho),   s_i = slack_i / scale_i.

    Its slope is that of the Lagrangian with the multipliers max(0, l_i - rho s_i): the `pressure` of the requirements.
    """

    multipliers: FloatArray  # [requirement], in units of score per scaled slack
    penalty: float
    scales: FloatArray  # [requirement]

    def pressure(self, slack: FloatArray) -> FloatArray:
        """Return [requirement]: the multipliers that the penalty amounts to at a slack [requirement]."""
        return np.asarray(np.maximum(0.0, self.multipliers - self.penalty * slack / self.scales))

    def value(self, at: Point | Slopes) -> float:
        """Return the merit at a policy."""
        pressure = self.pressure(at.slack)
        return at.score - float((pressure**2 - self.multipliers**2).sum()) / (2.0 * self.penalty)

    def slope(self, at: Point | Slopes) -> FloatArray:
        """Return [slot]: its derivative, by what the slopes of score and slack are taken."""
        return np.asarray(at.score_slope + (self.pressure(at.slack) / self.scales) @ at.slack_slope)


@dataclass(frozen=True, slots=True)
class Objective:
    """Maximise the score, sign x uncertainty / scale, subject to slack >= 0.

    gradients: "exact" on the belief graph (cut to `budget` if it does not fit: then the score is what the budget
    keeps, a lower bound), or "sampled" from `samples` runs, as in the paper.
    """

    product: Product
    gradients: Gradients = "exact"
    samples: int = 2000
    budget: Budget = field(default_factory=lambda: Budget(nodes=default_of("max_beliefs")))
    stop: Stop = field(default_factory=Stop)  # when requested, evaluations raise StoppedError
    sizes: FloatArray | None = None  # [requirement]: how far its return can vary; None: 1 for each

    @property
    def process(self) -> HiddenProcess:
        """Return the hidden process that is climbed."""
        return self.product.process

    @property
    def sign(self) -> float:
        """Return +1 where as much as possible is asked for, -1 for as little."""
        return -1.0 if self.product.problem.task.minimise else 1.0

    @property
    def leaf(self) -> Uncertainty:
        """Return the uncertainty that the task is about, over the values of the secret."""
        return self.product.problem.task.of.over(self.product.secret_values)

    @property
    def scale(self) -> float:
        """Return the uncertainty per unit of score: 1 for opacity."""
        return self.leaf.scale

    def softness(self, iteration: int) -> float:
        """Return how smooth an uncertainty with kinks is made after some iterations, as a share of its scale.

        Less and less; 0 where it has no kinks.
        """
        return 0.0 if self.leaf.smooth else max(_FIRST_SOFTNESS * _COOLING**iteration, LEAST_SOFTNESS)

    def requirements(self) -> tuple[Payoff, ...]:
        """Return the payoffs that have a threshold, in the order of every [requirement] axis."""
        return tuple(payoff for payoff in self.process.payoffs if payoff.threshold is not None)

    def thresholds(self) -> FloatArray:
        """Return [requirement]: zeta, the thresholds."""
        return np.array([payoff.threshold for payoff in self.requirements()], dtype=np.float64)

    @property
    def scales(self) -> FloatArray:
        """Return [requirement]: what slacks are divided by to compare requirements of any size."""
        return np.ones(len(self.requirements())) if self.sizes is None else self.sizes

    def at(self, theta: FloatArray, rng: np.random.Generator | None = None, *, softness: float = 0.0) -> Point:
        """Evaluate score, slack and gradients at one policy.

        theta: [slot], logits. rng: what sampled gradients draw from; without it they are exact.
        softness: how smooth an uncertainty with kinks is made.
        Raises StoppedError when the stop is requested meanwhile.
        """
        leaf = self._soften(softness)
        if self.gradients == "sampled" and rng is not None:
            return self._sample(theta, rng, leaf)
        value, slope = exact.gradient(self.process, theta, leaf=leaf, budget=self.budget, stop=self.stop)
        returns = [return_gradient(self.process, theta, payoff) for payoff in self.requirements()]
        return self._point(theta, value, slope, returns)

    def near(self, theta: FloatArray, *, seed: int = 0, runs: int = 0, softness: float = 0.0) -> LocalObjective:
        """Return the objective near one policy: on a belief graph whose shape is built once, or from sampled runs.

        theta: [slot], logits. seed, runs: of sampled runs, whose number `samples` limits (0: all of these).
        softness: how smooth an uncertainty with kinks is made.
        """
        leaf = self._soften(softness)
        if self.gradients == "sampled":
            return _SampledObjective(self, seed, min(runs or self.samples, self.samples), leaf)
        return _FrozenObjective(self, theta, leaf)

    def _soften(self, softness: float) -> Uncertainty:
        """Return the uncertainty made smooth where it has kinks; as it is for a softness of 0."""
        return self.leaf.soften(softness) if softness else self.leaf

    def hessian_products(self, theta: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the Hessian of the score at one policy as a function of a direction [slot], by a complex step.

        The graph's shape is built once. Beliefs that are merged at this policy may move apart along a direction; then
        that product is made by hashing.
        """
        process, leaf, factor = self.process, self.leaf, self.sign / self.scale
        graph = FrozenGraph.of(process, process.softmax(theta), budget=self.budget, leaf=leaf, stop=self.stop)
        buffers = graph.buffers(np.complex128)

        def product(direction: FloatArray) -> FloatArray:
            pi = process.softmax(theta + 1j * STEP * direction)
            swept = graph.sweep(pi, buffers, stop=self.stop)
            if swept is None:
                return factor * exact.hessian_vector(
                    process, theta, direction, leaf=leaf, budget=self.budget, stop=self.stop
                )
            return np.asarray(factor * np.imag(process.pull_back(pi, swept[1])) / STEP)

        return product

    def slack(self, theta: FloatArray) -> FloatArray:
        """Return [requirement]: V_i - zeta_i of some logits, exactly."""
        pi = self.process.softmax(theta)
        values = [expected_return(self.process, pi, payoff) for payoff in self.requirements()]
        return np.array(values, dtype=np.float64) - self.thresholds()

    def tolerances(self, pi: FloatArray) -> FloatArray:
        """Return [requirement]: how far below 0 a slack may be and count as met, half of what measurements allow.

        pi: [slot], the policy vector.
        """
        process = self.process
        paid = [(payoff, absolute_payoff(process, pi, payoff)) for payoff in self.requirements()]
        return np.array([0.5 * threshold_tolerance(process, payoff, size) for payoff, size in paid], dtype=np.float64)

    def _sample(self, theta: FloatArray, rng: np.random.Generator, leaf: Uncertainty) -> Point:
        """Estimate score, slack and gradients from `samples` runs each, as in the paper.

        The gradients are likelihood-ratio ones: its equations HMM_approx_gradient_entropy and
        estimation_gradient_value_function.
        """
        value, _, slope = sampled.gradient(
            self.process, theta, samples=self.samples, rng=rng, leaf=leaf, stop=self.stop
        )
        returns = score_gradients(self.process, theta, self.requirements(), samples=self.samples, rng=rng)
        return self._point(theta, value, slope, returns)

    def _point(self, theta: FloatArray, value: float, slope: FloatArray, returns: list[tuple[Any, Any]]) -> Point:
        """Return an uncertainty, its slope and the returns with theirs as scores and slacks."""
        values = np.array([value for value, _ in returns], dtype=np.float64)
        slopes = np.array([slope for _, slope in returns], dtype=np.float64).reshape(len(returns), theta.size)
        factor = self.sign / self.scale
        return Point(theta, factor * value, factor * slope, values - self.thresholds(), slopes)


class LocalObjective(Protocol):
    """An objective near one policy, evaluated at many."""

    @property
    def noise(self) -> float:
        """The standard error of the scores, 0 where they are exact."""

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return values and derivatives by the policy vector at some logits [slot]."""


_NO_FIT = "a belief graph does not fit the policy that it was built for"


class _FrozenObjective:
    """Evaluates an objective exactly at many policies near one.

    The belief graph of the first is built once; which beliefs are equal rarely changes with the policy, so that a sweep
    over the same shape gives value and slope of others. It is built anew only where the shape does not fit.
    """

    noise = 0.0
    _evaluator: PolicyEvaluator | None  # None where numpy evaluates the uncertainty

    def __init__(self, objective: Objective, theta: FloatArray, leaf: Uncertainty) -> None:
        self._objective, self._leaf = objective, leaf
        self._requirements, self._thresholds = objective.requirements(), objective.thresholds()
        self._build(objective.process.softmax(theta))

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return exact values and derivatives (of what the budget keeps)."""
        pi = self._objective.process.softmax(theta)
        if self._evaluator is None:
            return with_returns(self._objective, pi, *self._sweep(pi))
        at = self._evaluator.evaluate(pi, stop=self._objective.stop)
        if at is None:
            self._build(pi)
            at = self._evaluator.evaluate(pi, stop=self._objective.stop)
        if at is None:
            raise InvariantError(_NO_FIT)
        factor, count = self._objective.sign / self._objective.scale, len(self._requirements)
        return Slopes(
            pi=pi,
            score=factor * at.opacity,
            score_slope=factor * at.slope,
            slack=at.payoffs[:count] - self._thresholds,
            slack_slope=at.payoff_slopes[:count],
            visits=at.visits,
        )

    def _sweep(self, pi: FloatArray) -> tuple[float, FloatArray]:
        """Return the uncertainty and its slope; builds the graph anew where beliefs that were merged move apart."""
        swept = self._graph.sweep(pi, self._buffers, stop=self._objective.stop)
        if swept is None:
            self._build(pi)
            swept = self._graph.sweep(pi, self._buffers, stop=self._objective.stop)
        if swept is None:
            raise InvariantError(_NO_FIT)
        return swept

    def _build(self, pi: FloatArray) -> None:
        """Build the belief graph of a policy vector, and buffers for its sweeps."""
        objective = self._objective
        self._graph = FrozenGraph.of(
            objective.process, pi, budget=objective.budget, leaf=self._leaf, stop=objective.stop
        )
        self._evaluator = None
        if self._leaf.compiled == "opacity":
            self._evaluator = PolicyEvaluator(self._graph, self._requirements or objective.process.payoffs[:1])
        else:
            self._buffers = self._graph.buffers()


class _SampledObjective:
    """Evaluates an objective from sampled runs: opacity is estimated, with the same random numbers at every policy.

    Returns and visits are exact.
    """

    def __init__(self, objective: Objective, seed: int, runs: int, leaf: Uncertainty) -> None:
        self._objective, self._seed, self._runs, self._leaf = objective, seed, runs, leaf
        self.noise = 0.0

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return an estimated score with its slope, and exact slacks and visits."""
        objective, rng = self._objective, np.random.default_rng(self._seed)
        pi = objective.process.softmax(theta)
        value, noise, slope = sampled.policy_slope(
            objective.process, pi, samples=self._runs, rng=rng, leaf=self._leaf, stop=objective.stop
        )
        self.noise = noise / objective.scale
        return with_returns(objective, pi, value, slope)


class PriorObjective:
    """Evaluates the entropy H(Z) of the secret before anything is observed, in place of the score: no belief graph.

    It is what a policy has to hide at most. Values of the secret that no run has are worth 40 bits each, not infinitely
    many.
    """

    noise = 0.0

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return H(Z) with its slope, exact slacks and visits."""
        process = self._objective.process
        pi = process.softmax(theta)
        prior = secret_distribution(process, pi, stop=self._objective.stop)
        entropy, slope = secret_slope(process, pi, -np.log2(np.maximum(prior, _LEAST_PRIOR)))
        size = self._objective.sign * self._objective.scale  # undone by `with_returns`: H(Z) is the score
        return with_returns(self._objective, pi, size * float(entropy), size * slope)


def with_returns(objective: Objective, pi: FloatArray, value: float, slope: FloatArray) -> Slopes:
    """Add slacks and visits to an uncertainty and its slope."""
    process, payoffs, factor = objective.process, objective.requirements(), objective.sign / objective.scale
    returns = [return_slope(process, pi, payoff) for payoff in payoffs or process.payoffs[:1]]
    return Slopes(
        pi=pi,
        score=factor * value,
        score_slope=factor * slope,
        slack=np.array([value for value, _, _ in returns][: len(payoffs)]) - objective.thresholds(),
        slack_slope=np.array([slope for _, slope, _ in returns][: len(payoffs)]).reshape(len(payoffs), pi.size),
        visits=returns[0][2],
    )
