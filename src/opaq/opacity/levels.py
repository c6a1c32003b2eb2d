"""Figures that are sums over all moments of a run, as functionals of a policy: outputs, and secrets of the present.

`Levels.outputs` is H(O_0 .. O_T), the entropy of all that the observer sees; `Levels.present` the weighted sum over t
of an uncertainty of the secret's value at time t, given o_0 .. o_t. Both are exact where the belief graph fits,
intervals where a part of it is kept, and estimates from sampled runs; `beliefs.levels` has the mathematics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opaq.beliefs.frozen import Buffers
from opaq.beliefs.graph import Budget, Limit
from opaq.beliefs.leaves import slope_of_levels
from opaq.beliefs.levels import FrozenLevels, chain_with_cells, level_means, output_cells, show
from opaq.beliefs.unroll import OnLevel, unroll
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, floats
from opaq.model.uncertainty import Shannon, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.sampled import Mean
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop

_BATCHES = 20  # of sampled runs: their values give the standard error of the mean


@dataclass(frozen=True, slots=True)
class LevelsEvaluation:
    """The uncertainty of every moment with its certified interval, and what was kept of the graph."""

    total: Amount  # their weighted sum
    moments: tuple[Amount, ...]  # [time]
    num_nodes: int
    dropped_mass: float  # the most that is missing of a level
    limit: Limit | None = None  # what stopped a graph of which nothing was to be dropped


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Sum over t of weights[t] times the mean of an uncertainty after o_0 .. o_t.

    process: with nothing settled. leaf: over the cells' values. cells: what it is a function of.
    """

    process: HiddenProcess
    leaf: Uncertainty
    cells: Pairs
    weights: FloatArray  # [time]
    most: float  # of the excess, per unit of probability

    @classmethod
    def outputs(cls, process: HiddenProcess) -> Levels:
        """Return H(O_0 .. O_T) of a process: the entropy of what is seen, by the observations' own names."""
        seen = show(process, process.emission, np.zeros(process.num_states, dtype=np.int64))
        cells = output_cells(seen)
        most = math.log2(max(cells.cell_observation.size, 1))
        return cls(seen, Shannon(), cells, floats(np.ones(process.horizon + 1)), most)

    @classmethod
    def present(cls, process: HiddenProcess, leaf: Uncertainty, weights: FloatArray) -> Levels:
        """Return sum over t of weights[t] f(Z_t | o_0 .. o_t), Z_t being the value of the state at time t.

        leaf: over the secret's values, with the same value for all of them once the secret is known.
        """
        now = show(process, process.emission, process.secret)
        return cls(now, leaf, now.pairs, floats(weights), leaf.largest_excess)

    @property
    def certain(self) -> float:
        """Return what the uncertainty is where the secret is known."""
        return float(self.leaf.certain[0]) if self.leaf.certain.size else 0.0

    def evaluate(self, pi: FloatArray, *, budget: Budget | None = None, stop: Stop | None = None) -> Amount:
        """Return the sum at a policy vector [slot]: exact, or an interval where the budget drops something."""
        return self.evaluate_moments(pi, budget=budget, stop=stop).total

    def evaluate_moments(
        self,
        pi: FloatArray,
        *,
        budget: Budget | None = None,
        whole: bool = False,
        stop: Stop | None = None,
        on_level: OnLevel | None = None,
    ) -> LevelsEvaluation:
        """Return the uncertainty of every moment and their weighted sum, at a policy vector [slot].

        whole: end at the first level that does not fit the budget, with intervals that say nothing.
        stop: when it is requested, what has not been looked at counts as dropped.
        on_level: called with the number of levels done and of beliefs so far.
        """
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop)
        steps = self.process.horizon
        graph = unroll(chain, steps=steps, budget=budget, keep=True, whole=whole, on_level=on_level)
        means = level_means(chain, graph, self.leaf, self.cells)
        missing = means.missing if graph.limit is None else np.ones_like(means.missing)
        kept = means.kept if graph.limit is None else np.zeros_like(means.kept)
        lower = self.certain + kept
        upper = lower + missing * self.most
        ends = [self.weights @ lower, self.weights @ upper]
        return LevelsEvaluation(
            total=Amount.between(float(min(ends)), float(max(ends))),
            moments=tuple(Amount.between(float(low), float(high)) for low, high in zip(lower, upper, strict=True)),
            num_nodes=graph.num_nodes,
            dropped_mass=float(missing.max()),
            limit=graph.limit,
        )

    def estimate(self, pi: FloatArray, *, samples: int, rng: np.random.Generator, stop: Stop | None = None) -> Mean:
        """Estimate the sum from sampled runs; raises StoppedError when `stop` is requested meanwhile."""
        values, _ = self._sample(pi, samples, rng, stop, slopes=False)
        return _mean(values @ self.weights)

    def slope(self, pi: Any, *, budget: Budget | None = None, stop: Stop | None = None) -> tuple[float, Any]:
        """Return the sum and its derivative [slot] by the policy vector, complex for a complex vector.

        budget: the value is the part that it keeps. Without one, BudgetError is raised when the whole graph does not
            fit. Raises StoppedError when `stop` is requested meanwhile.
        """
        values, slope = self.slope_of_moments(pi, budget=budget, stop=stop)
        return float(self.weights @ values), slope

    def slope_of_moments(
        self, pi: Any, *, budget: Budget | None = None, stop: Stop | None = None
    ) -> tuple[FloatArray, Any]:
        """Return the uncertainty of every moment [time], and the derivative of their weighted sum: as `slope`."""
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop)
        graph = unroll(chain, steps=self.process.horizon, budget=budget, keep=True)
        chain.stop.check()
        if budget is None and not graph.whole:
            raise BudgetError("the belief graph does not fit the default budget; allow a larger one")
        amounts, slope = slope_of_levels(chain, graph, self.leaf, self.weights, cells=self.cells)
        parts = zip(graph.levels, amounts, strict=True)
        means = [float(np.real(level.nodes.mass[: part.size]) @ part) for level, part in parts]
        return self.certain + np.array(means), self.process.edge_slots.T @ slope

    def sampled_slope(
        self, pi: Any, *, samples: int, rng: np.random.Generator, stop: Stop | None = None
    ) -> tuple[float, float, Any]:
        """Return an estimate of the sum, its standard error, and an estimate of its derivative [slot]."""
        values, slope = self._sample(pi, samples, rng, stop, slopes=True)
        return *_mean(values @ self.weights), slope

    def freeze(self, pi: FloatArray, *, budget: Budget, stop: Stop | None = None) -> FrozenSum:
        """Keep the shape of the belief graph at a policy vector, for sweeps at others near it."""
        if self.leaf.compiled != "opacity":
            return FrozenSum(self, budget, None, {})
        frozen = FrozenLevels.of(self.process, pi, self.cells, budget=budget, stop=stop)
        return FrozenSum(self, budget, frozen, {})

    def _sample(
        self, pi: Any, samples: int, rng: np.random.Generator, stop: Stop | None, *, slopes: bool
    ) -> tuple[FloatArray, Any]:
        """Return [batch, time] means over batches of runs, and the mean derivative [slot] (0 without `slopes`)."""
        chain = chain_with_cells(self.process, pi, self.cells, stop=stop)
        count = max(1, samples // _BATCHES)
        values, total = list[Any](), np.zeros(self.process.num_slots, chain.moves.flow.dtype)
        for _ in range(max(2, samples // count)):
            graph = unroll(chain, steps=self.process.horizon, keep=True, samples=count, rng=rng)
            chain.stop.check()
            if slopes:
                amounts, slope = slope_of_levels(chain, graph, self.leaf, self.weights, cells=self.cells)
                total += self.process.edge_slots.T @ slope
                runs = [level.nodes.runs[: part.size] for level, part in zip(graph.levels, amounts, strict=True)]
                values.append([seen @ part / count for seen, part in zip(runs, amounts, strict=True)])
            else:
                values.append(level_means(chain, graph, self.leaf, self.cells).kept)
        chain.stop.check()
        return self.certain + np.array(values), total / len(values)


def _mean(values: FloatArray) -> Mean:
    """Return the mean over batches [batch], at least two, and its standard error."""
    return Mean(float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)))


@dataclass(frozen=True, slots=True, eq=False)
class FrozenSum:
    """A sum over levels near one policy; without a frozen graph every sweep builds one."""

    levels: Levels
    budget: Budget
    frozen: FrozenLevels | None
    buffers: dict[Any, Buffers] = field(repr=False)

    def sweep(self, pi: Any, *, stop: Stop | None = None) -> tuple[float, Any] | None:
        """Return the sum and its derivative [slot] at a policy vector; None where the shape does not fit it."""
        swept = self.sweep_moments(pi, self.levels.weights, stop=stop)
        return None if swept is None else (float(self.levels.weights @ swept[0]), swept[1])

    def sweep_moments(self, pi: Any, weights: FloatArray, *, stop: Stop | None = None) -> tuple[FloatArray, Any] | None:
        """Return the uncertainty of every moment [time] and the derivative of their sum with these weights [time]."""
        if self.frozen is None:
            return replace(self.levels, weights=weights).slope_of_moments(pi, budget=self.budget, stop=stop)
        kind = np.asarray(pi).dtype
        if kind not in self.buffers:
            self.buffers[kind] = self.frozen.graph.buffers(kind)
        swept = self.frozen.sweep(pi, weights, self.buffers[kind], stop=stop)
        return None if swept is None else (self.levels.certain + swept[0], swept[1])
