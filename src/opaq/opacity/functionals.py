"""Figures as functions of the policy vector: what tasks are about and what they limit, each with value and slope.

A figure is a functional of pi on one view of the product: an uncertainty of the observer (`Leaf`), an expected payoff
(`Linear`), a weighted sum of others (`Mix`) or the smallest of them (`Least`). Solvers ask all of them by the same
methods: exactly on the belief graph, on a graph whose shape is kept while pi moves, or from sampled runs.

Slopes are by the policy vector, not by logits; within a row only differences have a meaning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from opaq.beliefs.frozen import Buffers, FrozenGraph
from opaq.beliefs.graph import IMPOSSIBLE, Budget
from opaq.beliefs.returns import (
    expected_return,
    largest_absolute_payoff,
    return_slope,
    secret_distribution,
    secret_slope,
)
from opaq.errors import InvariantError
from opaq.model.arrays import FloatArray, floats
from opaq.model.problem import Task
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import Uncertainty
from opaq.opacity import exact, sampled
from opaq.opacity.amount import Amount
from opaq.opacity.sampled import Mean
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess, Payoff
from opaq.stop import Stop

_LEAST_PRIOR = 2.0**-40  # probability of a value of the secret, in its logarithm
_PRIOR_SOFTNESS = 0.1  # of the smallest of several priors

Sweep = Callable[[Any], tuple[float, Any]]  # pi [slot] -> value and slope [slot]; complex pi carry a direction


class Evaluated(NamedTuple):
    """The exact value of a figure, or its interval, and the belief graph that it rests on."""

    amount: Amount
    num_nodes: int = 0
    dropped_mass: float = 0.0


class Functional(Protocol):
    """Protocol of a figure. `budget` limits belief graphs: what they drop makes values lower ends of an interval.

    Methods that take a `stop` raise StoppedError when it is requested meanwhile, except `evaluate`.
    """

    @property
    def smooth(self) -> bool:
        """Whether it has no kinks: then slopes are derivatives, and complex policy vectors give second ones."""

    @property
    def scale(self) -> float:
        """The size of a large difference; solvers divide by it."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers that it is never below, and never above, for any policy."""

    @property
    def views(self) -> tuple[HiddenProcess, ...]:
        """The processes whose belief graphs it needs."""

    def soften(self, softness: float) -> Functional:
        """Return a smooth one near it; `softness` is a share of the scale, and 0 gives the figure itself."""

    def evaluate(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Evaluated:
        """Return its exact value, or an interval; after a request to stop the interval is wide, and right."""

    def estimate(self, pi: FloatArray, *, nodes: int, rng: np.random.Generator, stop: Stop) -> Mean:
        """Estimate its value from belief graphs that are thinned out to so many nodes per level."""

    def sample(
        self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop
    ) -> tuple[float, float, FloatArray]:
        """Estimate value, its standard error, and slope [slot] from sampled runs."""

    def slope(self, pi: Any, *, budget: Budget, stop: Stop) -> tuple[float, Any]:
        """Return value and slope [slot] of what the budget keeps; a supergradient at a kink."""

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Sweep:
        """Return a function that gives value and slope near one policy vector, again and again.

        Belief graphs are built once, and anew where their shape does not fit.
        """

    def prior(self, pi: FloatArray, *, stop: Stop) -> tuple[float, FloatArray]:
        """Return what it would be if nothing were observed, and its slope [slot]: no belief graph is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An uncertainty of the observer about the secret of one view: opacity, guess error or another."""

    process: HiddenProcess
    uncertainty: Uncertainty  # over the secret's values

    @property
    def smooth(self) -> bool:
        """Whether the uncertainty has no kinks."""
        return self.uncertainty.smooth

    @property
    def scale(self) -> float:
        """The uncertainty's own scale."""
        return self.uncertainty.scale

    @property
    def bounds(self) -> tuple[float, float]:
        """What a known secret leaves at least, and the uncertainty's highest value."""
        highest = self.uncertainty.highest
        return float(self.uncertainty.certain.min(initial=highest)), highest

    @property
    def views(self) -> tuple[HiddenProcess, ...]:
        """Its process."""
        return (self.process,)

    def soften(self, softness: float) -> Leaf:
        """Soften the uncertainty."""
        return replace(self, uncertainty=self.uncertainty.soften(softness)) if softness else self

    def evaluate(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Evaluated:
        """Evaluate the leaf on the belief graph."""
        leaf = self.uncertainty
        evaluation = exact.evaluate(self.process, pi, leaves=(leaf,), budget=budget, stop=stop)
        return Evaluated(evaluation.figures[leaf.name], evaluation.num_nodes, evaluation.dropped_mass)

    def estimate(self, pi: FloatArray, *, nodes: int, rng: np.random.Generator, stop: Stop) -> Mean:
        """Estimate the leaf on thinned belief graphs."""
        return sampled.estimate_thinned(self.process, pi, nodes=nodes, rng=rng, leaf=self.uncertainty, stop=stop)

    def sample(
        self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop
    ) -> tuple[float, float, FloatArray]:
        """Estimate the leaf and its slope from sampled runs."""
        return sampled.policy_slope(self.process, pi, samples=samples, rng=rng, leaf=self.uncertainty, stop=stop)

    def slope(self, pi: Any, *, budget: Budget, stop: Stop) -> tuple[float, Any]:
        """Sweep forward and back over a graph that is built for it."""
        return exact.policy_slope(self.process, pi, leaf=self.uncertainty, budget=budget, stop=stop)

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Sweep:
        """Freeze the belief graph of a policy vector."""
        return _FrozenLeaf(self, pi, budget, stop)

    def prior(self, pi: FloatArray, *, stop: Stop) -> tuple[float, FloatArray]:
        """Return the entropy H(Z) of the secret, whatever the uncertainty is: what there is to hide.

        Values of the secret that no run has are worth 40 bits each, not infinitely many.
        """
        prior = secret_distribution(self.process, pi, stop=stop)
        value, slope = secret_slope(self.process, pi, -np.log2(np.maximum(prior, _LEAST_PRIOR)))
        return float(value), slope


class FrozenFigure(ABC):
    """Base of sweeps over one belief graph, which is built anew where beliefs that were merged move apart."""

    def __init__(self, figure: Functional, pi: FloatArray, budget: Budget, stop: Stop) -> None:
        self._figure, self._budget, self._stop = figure, budget, stop
        self.build(pi)

    def __call__(self, pi: Any) -> tuple[float, Any]:
        """Return value and slope; along a direction on which merged beliefs move apart, by hashing."""
        swept = self.sweep(pi)
        if swept is None and np.iscomplexobj(pi):
            return self._figure.slope(pi, budget=self._budget, stop=self._stop)
        if swept is None:
            self.build(pi)
            swept = self.sweep(pi)
        if swept is None:
            raise InvariantError("a belief graph does not fit the policy that it was built for")
        return swept

    @abstractmethod
    def build(self, pi: FloatArray) -> None:
        """Build the belief graph of a policy vector."""

    @abstractmethod
    def sweep(self, pi: Any) -> tuple[float, Any] | None:
        """Return value and slope; None where the shape does not fit."""


class _FrozenLeaf(FrozenFigure):
    """Sweeps over the belief graph of a leaf."""

    _figure: Leaf

    def build(self, pi: FloatArray) -> None:
        """Build the belief graph of a policy vector."""
        leaf, self._buffers = self._figure, dict[Any, Buffers]()
        self._graph = FrozenGraph.of(leaf.process, pi, budget=self._budget, leaf=leaf.uncertainty, stop=self._stop)

    def sweep(self, pi: Any) -> tuple[float, Any] | None:
        """Return value and slope; None where the shape does not fit."""
        if pi.dtype not in self._buffers:
            self._buffers[pi.dtype] = self._graph.buffers(pi.dtype)
        return self._graph.sweep(pi, self._buffers[pi.dtype], stop=self._stop)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """An expected payoff: linear in the law of runs, exact without any belief graph."""

    process: HiddenProcess
    payoff: Payoff
    infinite: Payoff | None = None  # unless its expectation is next to 0 the figure is infinite; slopes are of less
    smooth = True
    scale = 1.0
    views = ()

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest payment at the end, or what all payments together cannot exceed in size."""
        if not self.payoff.slots.columns.size:
            return float(self.payoff.final.min(initial=0.0)), float(self.payoff.final.max(initial=0.0))
        most = largest_absolute_payoff(self.process, self.payoff)
        return -most, most

    def soften(self, softness: float) -> Linear:
        """Return itself."""
        return self

    def evaluate(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Evaluated:
        """Return the expected payoff."""
        if self.infinite is not None and expected_return(self.process, pi, self.infinite) >= IMPOSSIBLE:
            return Evaluated(Amount.exact(np.inf))
        return Evaluated(Amount.exact(expected_return(self.process, pi, self.payoff)))

    def estimate(self, pi: FloatArray, *, nodes: int, rng: np.random.Generator, stop: Stop) -> Mean:
        """Return the expected payoff, without an error."""
        return Mean(expected_return(self.process, pi, self.payoff, stop=stop), 0.0)

    def sample(
        self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop
    ) -> tuple[float, float, FloatArray]:
        """Return the expected payoff and its slope, without an error."""
        value, slope = self.prior(pi, stop=stop)
        return value, 0.0, slope

    def slope(self, pi: Any, *, budget: Budget, stop: Stop) -> tuple[float, Any]:
        """Return the expected payoff and its slope."""
        return self.prior(pi, stop=stop)

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Sweep:
        """Return the function that evaluates the payoff."""
        return lambda moved: self.prior(moved, stop=stop)

    def prior(self, pi: Any, *, stop: Stop) -> tuple[float, Any]:
        """Return the expected payoff and its slope: nothing is observed in it."""
        stop.check()
        value, slope, _ = return_slope(self.process, pi, self.payoff)
        return float(np.real(value)), slope


class Combination(ABC):
    """Base of figures that follow from others: the value of `combine`, with its weights as the chain rule."""

    __slots__ = ()
    parts: tuple[Functional, ...]

    @abstractmethod
    def combine(self, values: FloatArray) -> tuple[float, FloatArray]:
        """Return the value from those of the parts, and its derivative [part] by them."""

    @abstractmethod
    def enclose(self, lower: FloatArray, upper: FloatArray) -> tuple[float, float]:
        """Return the least and the largest value where each part lies between two numbers [part]."""

    @abstractmethod
    def soften(self, softness: float) -> Functional:
        """Return a smooth one near it."""

    @property
    def scale(self) -> float:
        """The largest scale of the parts."""
        return max(part.scale for part in self.parts)

    @property
    def bounds(self) -> tuple[float, float]:
        """What follows from the bounds of the parts."""
        lower, upper = np.array([part.bounds for part in self.parts]).T
        return self.enclose(lower, upper)

    @property
    def views(self) -> tuple[HiddenProcess, ...]:
        """The views of all parts."""
        return tuple({id(view): view for part in self.parts for view in part.views}.values())

    def evaluate(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Evaluated:
        """Evaluate every part; an interval if one of them is."""
        each = [part.evaluate(pi, budget=budget, stop=stop) for part in self.parts]
        lower, upper = np.array([(one.amount.lower, one.amount.upper) for one in each]).T
        dropped = max(one.dropped_mass for one in each)
        return Evaluated(Amount.between(*self.enclose(lower, upper)), sum(one.num_nodes for one in each), dropped)

    def estimate(self, pi: FloatArray, *, nodes: int, rng: np.random.Generator, stop: Stop) -> Mean:
        """Estimate every part; errors add as those of independent estimates."""
        each = [part.estimate(pi, nodes=nodes, rng=rng, stop=stop) for part in self.parts]
        value, weights = self.combine(np.array([mean.value for mean in each]))
        return Mean(value, float(np.linalg.norm(weights * [mean.standard_error for mean in each])))

    def sample(
        self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop
    ) -> tuple[float, float, FloatArray]:
        """Estimate every part from runs of its own."""
        each = [part.sample(pi, samples=samples, rng=rng, stop=stop) for part in self.parts]
        value, weights = self.combine(np.array([mean for mean, _, _ in each]))
        error = float(np.linalg.norm(weights * [error for _, error, _ in each]))
        return value, error, weights @ np.array([slope for _, _, slope in each])

    def slope(self, pi: Any, *, budget: Budget, stop: Stop) -> tuple[float, Any]:
        """Apply the chain rule."""
        return self._chain([part.slope(pi, budget=budget, stop=stop) for part in self.parts])

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Sweep:
        """Freeze every part."""
        sweeps = [part.freeze(pi, budget=budget, stop=stop) for part in self.parts]
        return lambda moved: self._chain([sweep(moved) for sweep in sweeps])

    def prior(self, pi: FloatArray, *, stop: Stop) -> tuple[float, FloatArray]:
        """Combine the priors of the parts, smoothly."""
        smooth = self.soften(_PRIOR_SOFTNESS)
        assert isinstance(smooth, Combination)
        return smooth._chain([part.prior(pi, stop=stop) for part in self.parts])

    def _chain(self, each: Sequence[tuple[float, Any]]) -> tuple[float, Any]:
        """Return value and slope from those of the parts."""
        value, weights = self.combine(np.array([value for value, _ in each]))
        return value, weights @ np.array([slope for _, slope in each])


@dataclass(frozen=True, slots=True, eq=False)
class Mix(Combination):
    """A weighted sum of figures; weights may be negative."""

    parts: tuple[Functional, ...]
    weights: FloatArray  # [part]

    @property
    def smooth(self) -> bool:
        """Whether every part is."""
        return all(part.smooth for part in self.parts)

    def soften(self, softness: float) -> Mix:
        """Soften the parts."""
        return replace(self, parts=tuple(part.soften(softness) for part in self.parts)) if softness else self

    def combine(self, values: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted sum."""
        return float(self.weights @ values), self.weights

    def enclose(self, lower: FloatArray, upper: FloatArray) -> tuple[float, float]:
        """Add the ends up; those of parts with a negative weight change places."""
        ends = np.sort(self.weights * np.stack((lower, upper)), axis=0).sum(axis=1)
        return float(ends[0]), float(ends[1])


@dataclass(frozen=True, slots=True, eq=False)
class Least(Combination):
    """The smallest of several figures: min_i H_i or, softened by t, -t log(mean_i exp(-H_i / t)), t in their unit.

    The weights of the chain rule, exp(-H_i / t) / sum, are the multipliers of the parts; without softness all weight
    lies on the smallest one, a supergradient.
    """

    parts: tuple[Functional, ...]
    softness: float = 0.0  # t
    smooth = False

    def soften(self, softness: float) -> Least:
        """Soften the minimum, and the parts."""
        parts = tuple(part.soften(softness) for part in self.parts)
        return Least(parts, softness * self.scale) if softness else self

    def combine(self, values: FloatArray) -> tuple[float, FloatArray]:
        """Return the smallest value, softened, and the weight of every part."""
        least = float(values.min())
        if not self.softness:
            return least, (np.arange(values.size) == values.argmin()).astype(np.float64)
        weights = np.exp((least - values) / self.softness)
        return least - self.softness * float(np.log(weights.mean())), weights / weights.sum()

    def enclose(self, lower: FloatArray, upper: FloatArray) -> tuple[float, float]:
        """Take the smallest of each end."""
        return float(lower.min()), float(upper.min())


def may_cut(figure: Functional) -> bool:
    """Return whether what a cut belief graph leaves out only lowers a figure, so that no search can gain by it.

    A difference of two entropies, such as that of a trajectory, grows where the graph of the second one is cut.
    """
    if isinstance(figure, Mix):
        parts = zip(figure.parts, figure.weights, strict=True)
        return all(may_cut(part) and (weight >= 0.0 or not part.views) for part, weight in parts)
    return all(map(may_cut, figure.parts)) if isinstance(figure, Least) else True


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A requirement on a figure: at least a threshold (sign 1) or at most (sign -1), slack = sign (figure - threshold).

    name: as it is reported.
    """

    name: str
    figure: Functional
    threshold: float
    sign: float

    @property
    def most_slack(self) -> float:
        """What no policy's slack exceeds."""
        least, most = self.figure.bounds
        return self.sign * ((most if self.sign > 0 else least) - self.threshold)

    def slack(self, amount: Amount) -> float:
        """Return how far the worse end of an amount is on the right side of the threshold."""
        return self.sign * ((amount.lower if self.sign > 0 else amount.upper) - self.threshold)


def figure_of(product: Product, task: Task) -> Functional:
    """Return the figure of a compiled problem's secret and observer that a task asks for."""
    from opaq.opacity.levels import Levels, trajectory_figure  # figures of the same kind, made of those here

    process, problem = product.process, product.problem
    if isinstance(problem.secret, Trajectory):
        return trajectory_figure(process)
    leaf = task.of.over(product.secret_values)
    if task.when == "end":
        return Leaf(process, leaf)
    if task.when == "least":
        return Levels.present(process, leaf, np.ones(process.horizon + 1), least=0.0)
    return Levels.present(process, leaf, floats(problem.discount ** np.arange(process.horizon + 1)))
