"""Figures that are sums over all moments of a run: the entropy of what is seen, trajectories, secrets of the present.

`Levels` is a functional as those of `functionals`. With one cell per observation it is H(O_0 .. O_T), the entropy of
all that the observer sees; with the cells of (observation, secret value) the uncertainty about the secret's value at
every moment, given what was seen by then, summed up or the least of all. A trajectory W_0 .. W_T has

    H(W | Y) = H(W, Y) - H(Y),

both of them entropies of what is seen, the first by an observer who is shown W beside Y. `beliefs.levels` has the
mathematics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs.frozen import Buffers
from opaq.beliefs.graph import Budget, Limit
from opaq.beliefs.leaves import slope_of_levels
from opaq.beliefs.levels import FrozenLevels, chain_with_cells, level_means, output_cells, show
from opaq.beliefs.unroll import OnLevel, unroll
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats
from opaq.model.uncertainty import Shannon, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.functionals import Evaluated, FrozenFigure, Least, Mix, Sweep
from opaq.opacity.sampled import Mean
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop

BATCHES = 20  # of sampled runs: their values give the standard error of the mean
_SLOPE_BATCHES = 4  # the same, of a search, which asks again and again
_DRAWS = 4  # thinned graphs, whose values give the standard error of their mean
_PRIOR_BUDGET = Budget(nodes=2_000)


@dataclass(frozen=True, slots=True)
class Moments:
    """The uncertainty of every moment with its certified interval, and what was kept of the graph."""

    amounts: tuple[Amount, ...]  # [time]
    num_nodes: int
    dropped_mass: float  # the most that is missing of a level
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Sum over t of weights[t] times the mean of an uncertainty after o_0 .. o_t, or the least of them.

    process: with nothing settled. leaf: over the cells' values, the same for all of them once the secret is known.
    cells: what it is a function of. weights: those that are 0 leave a moment out, also of the least.
    least: None for the sum, else how soft the minimum is, in the unit of the leaf (0: the minimum itself).
    unseen: what takes the place of the figure where nothing is observed; None: 0.
    """

    process: HiddenProcess
    leaf: Uncertainty
    cells: Pairs
    weights: FloatArray  # [time]
    most: float  # of the excess, per unit of probability
    least: float | None = None
    unseen: Levels | None = None

    @classmethod
    def outputs(cls, process: HiddenProcess, *, unseen: Levels | None = None) -> Levels:
        """Return H(O_0 .. O_T) of a process: the entropy of what is seen, by the observations' own names."""
        seen = show(process, process.emission, np.zeros(process.num_states, dtype=np.int64))
        cells, weights = output_cells(seen), floats(np.ones(process.horizon + 1))
        most = math.log2(max(cells.cell_observation.size, 1))
        return cls(seen, Shannon(), cells, weights, most, unseen=unseen)

    @classmethod
    def present(
        cls, process: HiddenProcess, leaf: Uncertainty, weights: FloatArray, *, least: float | None = None
    ) -> Levels:
        """Return sum over t of weights[t] f(Z_t | o_0 .. o_t), or the least, Z_t being the value of the state at t.

        leaf: over the secret's values, with the same value for all of them once the secret is known.
        """
        now, weights = show(process, process.emission, process.secret), floats(weights)
        rows, ones = np.arange(process.num_states), np.ones(process.num_states)
        nothing = SparseRows.from_entries(rows, np.zeros_like(rows), ones, shape=(process.num_states, 1))
        blind = show(process, nothing, process.secret)
        entropy = Shannon().over(leaf.secret_values)
        before = cls(blind, entropy, blind.pairs, weights, entropy.largest_excess, least)
        return cls(now, leaf, now.pairs, weights, leaf.largest_excess, least, before)

    @property
    def smooth(self) -> bool:
        """Whether neither the uncertainty nor the minimum has kinks."""
        return self.leaf.smooth and self.least is None

    @property
    def scale(self) -> float:
        """The uncertainty's own scale."""
        return self.leaf.scale

    @property
    def bounds(self) -> tuple[float, float]:
        """What known secrets leave, and the most that all moments together can have."""
        low, high = np.full(self.weights.size, self.certain), np.full(self.weights.size, self.certain + self.most)
        return self.combine(low)[0], self.combine(high)[0]

    @property
    def views(self) -> tuple[HiddenProcess, ...]:
        """Its process."""
        return (self.process,)

    @property
    def certain(self) -> float:
        """Return what the uncertainty is where the secret is known."""
        return float(self.leaf.certain[0]) if self.leaf.certain.size else 0.0

    def soften(self, softness: float) -> Levels:
        """Soften the uncertainty and the minimum."""
        if not softness:
            return self
        least = None if self.least is None else softness * self.scale
        return replace(self, leaf=self.leaf.soften(softness), least=least)

    def combine(self, values: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum or the least of the moments [time], and its derivative [time] by them."""
        if self.least is None:
            return float(self.weights @ values), self.weights
        chosen = np.flatnonzero(self.weights)
        value, weights = Least((), self.least).combine(values[chosen])
        spread = np.zeros(values.size)
        spread[chosen] = weights
        return value, spread

    def evaluate(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Evaluated:
        """Evaluate every moment, and combine them."""
        at = self.moments(pi, budget=budget, stop=stop)
        return Evaluated(self.amount(at), at.num_nodes, at.dropped_mass)

    def amount(self, at: Moments) -> Amount:
        """Return the figure from the amounts of all moments."""
        lower, upper = np.array([(one.lower, one.upper) for one in at.amounts]).T
        return Amount.between(*sorted((self.combine(lower)[0], self.combine(upper)[0])))

    def moments(
        self,
        pi: FloatArray,
        *,
        budget: Budget | None = None,
        whole: bool = False,
        stop: Stop | None = None,
        on_level: OnLevel | None = None,
    ) -> Moments:
        """Return the uncertainty of every moment at a policy vector [slot].

        whole: end at the first level that does not fit the budget, with intervals that say nothing.
        stop: when it is requested, what has not been looked at counts as dropped.
        on_level: called with the number of levels done and of beliefs so far.
        """
        budget, steps = budget or Budget(), self.process.horizon
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop, workers=budget.workers)
        graph = unroll(chain, steps=steps, budget=budget, keep=True, whole=whole, on_level=on_level)
        means = level_means(chain, graph, self.leaf, self.cells)
        known = graph.limit is None
        lower = self.certain + (means.kept if known else np.zeros_like(means.kept))
        missing = means.missing if known else np.ones_like(means.missing)
        ends = zip(lower.tolist(), (lower + missing * self.most).tolist(), strict=True)
        amounts = tuple(Amount.between(low, high) for low, high in ends)
        return Moments(amounts, graph.num_nodes, float(missing.max()), graph.limit)

    def estimate(self, pi: FloatArray, *, nodes: int, rng: np.random.Generator, stop: Stop) -> Mean:
        """Estimate the figure on thinned belief graphs."""
        values, chain = list[float](), chain_with_cells(self.process, pi, self.cells, stop=stop)
        while len(values) < _DRAWS:
            graph = unroll(chain, steps=self.process.horizon, budget=Budget(nodes=nodes), keep=True, rng=rng, thin=True)
            means = level_means(chain, graph, self.leaf, self.cells)
            stop.check()
            values.append(self.combine(self.certain + means.kept)[0])
            if not graph.thinned:
                return Mean(values[-1], 0.0)
        return _mean(np.array(values))

    def sample_moments(
        self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop | None = None
    ) -> FloatArray:
        """Return [batch, time] the means of the uncertainty of every moment over batches of sampled runs.

        stop: when it is requested, the batches that are complete count; StoppedError is raised if they are none or one.
        """
        return self._sample(pi, samples, rng, stop, None)[0]

    def sample(
        self, pi: Any, *, samples: int, rng: np.random.Generator, stop: Stop | None = None
    ) -> tuple[float, float, Any]:
        """Estimate the figure, its standard error, and its slope [slot] from sampled runs.

        Where the beliefs of no level are more than the states, the whole graph costs less, and the error is 0.
        """
        chain, few = chain_with_cells(self.process, pi, self.cells, stop=stop), Budget(nodes=self.process.num_states)
        graph = unroll(chain, steps=self.process.horizon, budget=few, keep=True, whole=True)
        chain.stop.check()
        if graph.whole:
            value, slope = self.slope(pi, budget=few, stop=stop)
            return value, 0.0, slope
        weights = self.weights
        if self.least is not None:
            values, _ = self._sample(pi, samples, np.random.default_rng(rng.integers(2**62)), stop, None)
            _, weights = self.combine(values.mean(axis=0))
        values, slope = self._sample(pi, samples, rng, stop, weights)
        return self.combine(values.mean(axis=0))[0], _mean(values @ weights).standard_error, slope

    def slope(self, pi: Any, *, budget: Budget | None = None, stop: Stop | None = None) -> tuple[float, Any]:
        """Return the figure and its slope [slot] by the policy vector, complex for a complex vector.

        budget: the value is the part that it keeps. Raises StoppedError when `stop` is requested meanwhile.
        """
        values, slope = self._slope(pi, budget, stop, self.weights if self.least is None else None)
        return self.combine(values)[0], slope

    def _slope(
        self, pi: Any, budget: Budget | None, stop: Stop | None, weights: FloatArray | None
    ) -> tuple[FloatArray, Any]:
        """Return [time] the moments, and the slope of their sum with these weights, or with those of the least."""
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop)
        graph = unroll(chain, steps=self.process.horizon, budget=budget, keep=True)
        chain.stop.check()
        values = self.certain + level_means(chain, graph, self.leaf, self.cells).kept
        weights = self.combine(values)[1] if weights is None else weights
        _, slope = slope_of_levels(chain, graph, self.leaf, weights, cells=self.cells)
        return values, self.process.edge_slots.T @ slope

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop) -> Sweep:
        """Freeze the belief graph of a policy vector; what is not opacity is evaluated on a new graph each time."""
        if self.leaf.compiled != "opacity":
            return lambda moved: self.slope(moved, budget=budget, stop=stop)
        return _FrozenSum(self, pi, budget, stop)

    def prior(self, pi: FloatArray, *, stop: Stop) -> tuple[float, FloatArray]:
        """Return what there is to hide, whatever is observed, and its slope [slot]."""
        if self.unseen is None:
            return 0.0, np.zeros(self.process.num_slots)
        return self.unseen.slope(pi, budget=_PRIOR_BUDGET, stop=stop)

    def _sample(
        self, pi: Any, samples: int, rng: np.random.Generator, stop: Stop | None, weights: FloatArray | None
    ) -> tuple[FloatArray, Any]:
        """Return [batch, time] means over batches of runs, and the mean slope [slot] of their sum with some weights.

        weights: [time]; None: no slope.
        """
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop)
        count = max(1, samples // (BATCHES if weights is None else _SLOPE_BATCHES))
        values, total = list[FloatArray](), np.zeros(self.process.num_slots, chain.moves.flow.dtype)
        for _ in range(max(2, samples // count)):
            graph = unroll(chain, steps=self.process.horizon, keep=True, samples=count, rng=rng)
            means = level_means(chain, graph, self.leaf, self.cells)
            if chain.stop.requested and len(values) > 1 and weights is None:
                break  # the batches that are complete count
            chain.stop.check()
            values.append(means.kept)
            if weights is not None:
                _, slope = slope_of_levels(chain, graph, self.leaf, weights, cells=self.cells)
                total += self.process.edge_slots.T @ slope
        return self.certain + np.array(values), total / len(values)


def _mean(values: FloatArray) -> Mean:
    """Return the mean over batches [batch], at least two, and its standard error."""
    return Mean(float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)))


class _FrozenSum(FrozenFigure):
    """Sweeps over all levels of one belief graph."""

    _figure: Levels

    def build(self, pi: FloatArray) -> None:
        """Build the belief graph of a policy vector."""
        levels, self._buffers = self._figure, dict[Any, Buffers]()
        self._frozen = FrozenLevels.of(levels.process, pi, levels.cells, budget=self._budget, stop=self._stop)

    def sweep(self, pi: Any) -> tuple[float, Any] | None:
        """Return value and slope; None where the shape does not fit. The weights of a least follow from the values."""
        kind, levels = np.asarray(pi).dtype, self._figure
        if kind not in self._buffers:
            self._buffers[kind] = self._frozen.graph.buffers(kind)
        weights = levels.weights
        if levels.least is not None:
            first = self._frozen.sweep(pi, weights, self._buffers[kind], stop=self._stop)
            if first is None:
                return None
            weights = levels.combine(first[0])[1]
        swept = self._frozen.sweep(pi, weights, self._buffers[kind], stop=self._stop)
        return None if swept is None else (levels.combine(levels.certain + swept[0])[0], swept[1])


def show_words(process: HiddenProcess, words: IntArray, *, beside: bool) -> HiddenProcess:
    """Return the process whose observer is shown a word at every moment, alone or beside what it sees.

    words: [state] -> word.
    """
    emission = process.emission
    rows = emission.row_of_entry() if beside else np.arange(process.num_states)
    seen, values = (emission.columns, emission.values) if beside else (np.zeros_like(rows), np.ones(rows.size))
    codes, column = np.unique(words[rows] * emission.num_columns + seen, return_inverse=True)
    shown = SparseRows.from_entries(rows, column.reshape(-1), values, shape=(process.num_states, codes.size))
    return show(process, shown, words)


def trajectory_figure(process: HiddenProcess) -> Mix:
    """Return H(W_0 .. W_T | o_0 .. o_T), W_t the secret's value of the state at time t."""
    words = Levels.outputs(show_words(process, process.secret, beside=False))
    joint = Levels.outputs(show_words(process, process.secret, beside=True), unseen=words)
    return Mix((joint, Levels.outputs(process)), np.array([1.0, -1.0]))
