"""The objective of a solver: opacity (or what the task is about) and requirements of a softmax policy, with gradients.

    maximise   score(theta) = sign H(Z | Y; theta) / scale   subject to   slack_i(theta) >= 0 for every requirement i,

with pi(a | u) = exp theta(u, a) / sum_b exp theta(u, b) for every policy row u. Sign is -1 and the score is to be read
as minus the uncertainty where as little as possible is asked for; scale is 1 for opacity in bits. What is maximised is
any figure (`opaq.opacity.functionals`). Requirements are payoffs with thresholds, slack = V - zeta, followed by limits
of figures, slack = figure - limit or limit - figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from opaq.beliefs.evaluation import PolicyEvaluator
from opaq.beliefs.frozen import FrozenGraph
from opaq.beliefs.graph import STEP, Budget
from opaq.beliefs.returns import (
    EQUAL,
    absolute_payoff,
    expected_return,
    return_gradient,
    return_slope,
    threshold_tolerance,
)
from opaq.errors import InvariantError
from opaq.model.arrays import FloatArray
from opaq.opacity.functionals import Combination, Functional, Leaf, Limit, Sweep
from opaq.opacity.targets import limits_of, target_of
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess, Payoff
from opaq.simulation.sampling import score_gradients
from opaq.solvers.options import Gradients, default_of
from opaq.stop import Stop

_FIRST_SOFTNESS, _COOLING = 0.1, 0.6
LEAST_SOFTNESS = 1e-3  # of the scale
_TIE = 1e-5  # of the scale


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
    target: Functional = field(init=False)  # the figure that is maximised or minimised
    limits: tuple[Limit, ...] = field(init=False)  # requirements on figures, after those of payoffs

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", target_of(self.product))
        object.__setattr__(self, "limits", limits_of(self.product))

    @property
    def process(self) -> HiddenProcess:
        """Return the hidden process that is climbed."""
        return self.product.process

    @property
    def sign(self) -> float:
        """Return +1 where as much as possible is asked for, -1 for as little."""
        return -1.0 if self.product.problem.task.minimise else 1.0

    @property
    def scale(self) -> float:
        """Return the uncertainty per unit of score: 1 for opacity."""
        return self.target.scale

    @property
    def figures(self) -> tuple[Functional, ...]:
        """Return the figure that is maximised or minimised, followed by those of the limits."""
        return (self.target, *(limit.figure for limit in self.limits))

    @property
    def smooth(self) -> bool:
        """Return whether neither what is maximised nor a requirement has kinks."""
        return all(figure.smooth for figure in self.figures)

    @property
    def tie(self) -> float:
        """Return the softness at which the least of several figures is tested: those that are equal share the slope."""
        return 0.0 if self.target.smooth or not isinstance(self.target, Combination) else _TIE

    def softness(self, iteration: int) -> float:
        """Return how smooth figures with kinks are made after some iterations, as a share of their scale.

        Less and less; 0 where there are no kinks.
        """
        return 0.0 if self.smooth else max(_FIRST_SOFTNESS * _COOLING**iteration, LEAST_SOFTNESS)

    def requirements(self) -> tuple[Payoff, ...]:
        """Return the payoffs that have a threshold: the first of every [requirement] axis, before the limits."""
        return tuple(payoff for payoff in self.process.payoffs if payoff.threshold is not None)

    def thresholds(self) -> FloatArray:
        """Return [requirement]: zeta, the thresholds of payoffs and of limits."""
        thresholds = [payoff.threshold for payoff in self.requirements()]
        return np.array([*thresholds, *(limit.threshold for limit in self.limits)], dtype=np.float64)

    @property
    def scales(self) -> FloatArray:
        """Return [requirement]: what slacks are divided by to compare requirements of any size."""
        return np.ones(len(self.requirements()) + len(self.limits)) if self.sizes is None else self.sizes

    def at(self, theta: FloatArray, rng: np.random.Generator | None = None, *, softness: float = 0.0) -> Point:
        """Evaluate score, slack and gradients at one policy.

        theta: [slot], logits. rng: what sampled gradients draw from; without it they are exact.
        softness: how smooth an uncertainty with kinks is made.
        Raises StoppedError when the stop is requested meanwhile.
        """
        target, pi = self.target.soften(softness), self.process.softmax(theta)
        if self.gradients == "sampled" and rng is not None:
            return self._sample(theta, rng, target)
        value, slope = target.slope(pi, budget=self.budget, stop=self.stop)
        return self._point(theta, value, self.process.pull_back(pi, slope), *self.slack_gradients(theta))

    def near(self, theta: FloatArray, *, seed: int = 0, runs: int = 0, softness: float = 0.0) -> LocalObjective:
        """Return the objective near one policy: on a belief graph whose shape is built once, or from sampled runs.

        theta: [slot], logits. seed, runs: of sampled runs, whose number `samples` limits (0: all of these).
        softness: how smooth an uncertainty with kinks is made.
        """
        if self.gradients == "sampled":
            return _SampledObjective(self, seed, min(runs or self.samples, self.samples), softness)
        return _FrozenObjective(self, theta, softness)

    def hessian_products(
        self, theta: FloatArray, multipliers: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray]:
        """Return the Hessian of the Lagrangian at one policy as a function of a direction [slot], by a complex step.

        Belief graphs are built once. Beliefs that are merged at this policy may move apart along a direction; then
        that product is made by hashing. multipliers: [requirement], of the slacks; none unless given.
        """
        process, factor, pi = self.process, self.sign / self.scale, self.process.softmax(theta)
        score = self.target.freeze(pi, budget=self.budget, stop=self.stop)
        payoffs, prices = self.requirements(), np.zeros(self.scales.size) if multipliers is None else multipliers
        paid = [(price, payoff) for price, payoff in zip(prices, payoffs, strict=False) if price > 0]
        limited = [
            (price * limit.sign, limit.figure.freeze(pi, budget=self.budget, stop=self.stop))
            for price, limit in zip(prices[len(payoffs) :], self.limits, strict=True)
            if price > 0
        ]

        def product(direction: FloatArray) -> FloatArray:
            moved = theta + 1j * STEP * direction
            pi = process.softmax(moved)
            total = factor * np.imag(process.pull_back(pi, score(pi)[1])) / STEP
            for price, payoff in paid:
                total = total + price * np.imag(return_gradient(process, moved, payoff)[1]) / STEP
            for price, figure in limited:
                total = total + price * np.imag(process.pull_back(pi, figure(pi)[1])) / STEP
            return np.asarray(total)

        return product

    def slack(self, theta: FloatArray) -> FloatArray:
        """Return [requirement]: the slacks of some logits, exactly."""
        return self.slack_at(self.process.softmax(theta))

    def slack_at(self, pi: FloatArray) -> FloatArray:
        """Return [requirement]: the slacks of a policy vector [slot], exactly; those of limits by their worse end.

        After a request to stop what has not been looked at makes that end as bad as can be.
        """
        values = [expected_return(self.process, pi, payoff) for payoff in self.requirements()]
        slacks = np.array(values, dtype=np.float64) - self.thresholds()[: len(values)]
        if not self.limits:
            return slacks
        amounts = [limit.figure.evaluate(pi, budget=self.budget, stop=self.stop).amount for limit in self.limits]
        limited = [limit.slack(amount) for limit, amount in zip(self.limits, amounts, strict=True)]
        return np.concatenate((slacks, limited))

    def slack_gradients(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slacks [requirement] of some logits and their gradients [requirement, slot] by them."""
        pi, count = self.process.softmax(theta), len(self.requirements())
        returns = [return_gradient(self.process, theta, payoff) for payoff in self.requirements()]
        values = np.array([value for value, _ in returns], dtype=np.float64) - self.thresholds()[:count]
        slopes = np.array([slope for _, slope in returns], dtype=np.float64).reshape(count, theta.size)
        if not self.limits:
            return values, slopes
        swept = [limit.figure.slope(pi, budget=self.budget, stop=self.stop) for limit in self.limits]
        more, more_slopes = _limit_slacks(self.limits, swept)
        pulled = [self.process.pull_back(pi, slope) for slope in more_slopes]
        return np.concatenate((values, more)), np.vstack((slopes, *pulled))

    def tolerances(self, pi: FloatArray) -> FloatArray:
        """Return [requirement]: how far below 0 a slack may be and count as met, half of what measurements allow.

        pi: [slot], the policy vector.
        """
        process = self.process
        paid = [(payoff, absolute_payoff(process, pi, payoff)) for payoff in self.requirements()]
        tolerances = [0.5 * threshold_tolerance(process, payoff, size) for payoff, size in paid]
        tolerances += [0.5 * EQUAL * max(1.0, abs(limit.threshold)) for limit in self.limits]
        return np.array(tolerances, dtype=np.float64)

    def _sample(self, theta: FloatArray, rng: np.random.Generator, target: Functional) -> Point:
        """Estimate score, slack and gradients from `samples` runs each, as in the paper.

        The gradients are likelihood-ratio ones: its equations HMM_approx_gradient_entropy and
        estimation_gradient_value_function.
        """
        process, pi, count = self.process, self.process.softmax(theta), len(self.requirements())
        value, _, slope = target.sample(pi, samples=self.samples, rng=rng, stop=self.stop)
        returns = score_gradients(process, theta, self.requirements(), samples=self.samples, rng=rng)
        slack = np.array([value for value, _ in returns], dtype=np.float64) - self.thresholds()[:count]
        slack_slope = np.array([slope for _, slope in returns], dtype=np.float64).reshape(count, theta.size)
        for limit in self.limits:
            amount, _, by_pi = limit.figure.sample(pi, samples=self.samples, rng=rng, stop=self.stop)
            slack = np.append(slack, limit.sign * (amount - limit.threshold))
            slack_slope = np.vstack((slack_slope, limit.sign * process.pull_back(pi, by_pi)))
        return self._point(theta, value, process.pull_back(pi, slope), slack, slack_slope)

    def _point(
        self, theta: FloatArray, value: float, slope: FloatArray, slack: FloatArray, slack_slope: FloatArray
    ) -> Point:
        """Return a figure with its slope as a score, beside the slacks."""
        factor = self.sign / self.scale
        return Point(theta, factor * value, factor * slope, slack, slack_slope)


def _limit_slacks(limits: Sequence[Limit], swept: Sequence[tuple[float, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return slacks [limit] and their slopes [limit, slot] from values and slopes of the figures."""
    slacks = [limit.sign * (value - limit.threshold) for limit, (value, _) in zip(limits, swept, strict=True)]
    slopes = [limit.sign * slope for limit, (_, slope) in zip(limits, swept, strict=True)]
    return np.array(slacks, dtype=np.float64), np.array(slopes, dtype=np.float64)


class LocalObjective(Protocol):
    """An objective near one policy, evaluated at many."""

    @property
    def noise(self) -> float:
        """The standard error of the scores, 0 where they are exact."""

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return values and derivatives by the policy vector at some logits [slot]."""


class _FrozenObjective:
    """Evaluates an objective exactly at many policies near one.

    The belief graph of the first is built once; which beliefs are equal rarely changes with the policy, so that a sweep
    over the same shape gives value and slope of others. It is built anew only where the shape does not fit. Opacity
    alone, with payoffs, is evaluated in one compiled call.
    """

    noise = 0.0

    def __init__(self, objective: Objective, theta: FloatArray, softness: float) -> None:
        self._objective, self._thresholds = objective, objective.thresholds()
        self._count, pi = len(objective.requirements()), objective.process.softmax(theta)
        target = objective.target.soften(softness)
        self._compiled = isinstance(target, Leaf) and target.uncertainty.compiled == "opacity"
        self._target: Sweep | None = None
        if self._compiled:
            self._build(pi)
        else:
            self._target = target.freeze(pi, budget=objective.budget, stop=objective.stop)
        figures = [limit.figure.soften(softness) for limit in objective.limits]
        self._limits = [figure.freeze(pi, budget=objective.budget, stop=objective.stop) for figure in figures]

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return exact values and derivatives (of what the budget keeps)."""
        pi = self._objective.process.softmax(theta)
        limited = [sweep(pi) for sweep in self._limits]
        if self._target is not None:
            return with_returns(self._objective, pi, *self._target(pi), limited)
        at = self._evaluator.evaluate(pi, stop=self._objective.stop)
        if at is None:
            self._build(pi)
            at = self._evaluator.evaluate(pi, stop=self._objective.stop)
        if at is None:
            raise InvariantError("a belief graph does not fit the policy that it was built for")
        factor, count = self._objective.sign / self._objective.scale, self._count
        slopes = Slopes(
            pi=pi,
            score=factor * at.opacity,
            score_slope=factor * at.slope,
            slack=at.payoffs[:count] - self._thresholds[:count],
            slack_slope=at.payoff_slopes[:count],
            visits=at.visits,
        )
        return _with_limits(self._objective, slopes, limited)

    def _build(self, pi: FloatArray) -> None:
        """Build the belief graph of a policy vector, and what sweeps over it with all payoffs."""
        objective, target = self._objective, self._objective.target
        assert isinstance(target, Leaf)
        graph = FrozenGraph.of(
            target.process, pi, budget=objective.budget, leaf=target.uncertainty, stop=objective.stop
        )
        self._evaluator = PolicyEvaluator(graph, objective.requirements() or objective.process.payoffs[:1])


class _SampledObjective:
    """Evaluates an objective from sampled runs: figures are estimated, with the same random numbers at every policy.

    Returns and visits are exact.
    """

    def __init__(self, objective: Objective, seed: int, runs: int, softness: float) -> None:
        self._objective, self._seed, self._runs = objective, seed, runs
        self._figures = [figure.soften(softness) for figure in objective.figures]
        self.noise = 0.0

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return an estimated score with its slope, and slacks and visits."""
        objective, rng = self._objective, np.random.default_rng(self._seed)
        pi = objective.process.softmax(theta)
        each = [figure.sample(pi, samples=self._runs, rng=rng, stop=objective.stop) for figure in self._figures]
        self.noise = max(error for _, error, _ in each) / objective.scale
        (value, _, slope), *limited = each
        return with_returns(objective, pi, value, slope, [(value, slope) for value, _, slope in limited])


class PriorObjective:
    """Evaluates the entropy H(Z) of the secret before anything is observed, in place of the score: no belief graph.

    It is what a policy has to hide at most. Of limits only those from below ask for it.
    """

    noise = 0.0

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def slopes(self, theta: FloatArray) -> Slopes:
        """Return H(Z) with its slope, exact slacks of payoffs, and visits."""
        objective = self._objective
        pi = objective.process.softmax(theta)
        entropy, slope = objective.target.prior(pi, stop=objective.stop)
        limited = [
            limit.figure.prior(pi, stop=objective.stop) if limit.sign > 0 else (limit.threshold, np.zeros_like(pi))
            for limit in objective.limits
        ]
        size = objective.sign * objective.scale  # undone by `with_returns`: H(Z) is the score
        return with_returns(objective, pi, size * entropy, size * slope, limited)


def with_returns(
    objective: Objective,
    pi: FloatArray,
    value: float,
    slope: FloatArray,
    limited: Sequence[tuple[float, FloatArray]] = (),
) -> Slopes:
    """Add slacks and visits to a figure and its slope; limited: value and slope of every limit's figure."""
    process, payoffs, factor = objective.process, objective.requirements(), objective.sign / objective.scale
    count, returns = len(payoffs), [return_slope(process, pi, payoff) for payoff in payoffs or process.payoffs[:1]]
    slopes = Slopes(
        pi=pi,
        score=factor * value,
        score_slope=factor * slope,
        slack=np.array([value for value, _, _ in returns][:count]) - objective.thresholds()[:count],
        slack_slope=np.array([slope for _, slope, _ in returns][:count]).reshape(count, pi.size),
        visits=returns[0][2],
    )
    return _with_limits(objective, slopes, limited)


def _with_limits(objective: Objective, slopes: Slopes, limited: Sequence[tuple[float, FloatArray]]) -> Slopes:
    """Add the slacks of limits, from values and slopes of their figures."""
    if not limited:
        return slopes
    slack, slack_slope = _limit_slacks(objective.limits, limited)
    return replace(
        slopes,
        slack=np.concatenate((slopes.slack, slack)),
        slack_slope=np.vstack((slopes.slack_slope, slack_slope)),
    )
