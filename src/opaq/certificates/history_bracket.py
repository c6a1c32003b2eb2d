"""The best lower and upper end found so far, from candidates of any origin: only what is recomputed here counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opaq.certificates.history_cone import ConeAnswer
from opaq.certificates.history_sweeps import PRESSURES, HistoryProblem, choice_values, policy_of, weights_of
from opaq.certificates.history_task import InnerPoint, meets, repaired
from opaq.model.arrays import FloatArray
from opaq.stop import Stop

_SMALLEST = (0.0, 1e-7, 1e-4)  # probabilities below this may count as 0, if that does better
_MIXED = (1e-3, 1e-6, 1e-9)  # shares of guessing blindly in a decoder
_PENALTY, _STEP, _LONGEST = 3.0, 0.3, 10.0  # of the mirror ascent


class Bracket:
    """Between the value of a policy that meets the task and a bound that no such policy exceeds."""

    def __init__(self, problem: HistoryProblem, inner: InnerPoint) -> None:
        self._problem, self._inner = problem, inner
        self.lower, self.upper = -np.inf, np.inf
        self.weights, self.multipliers = inner.weights, np.zeros(inner.wanted.size)

    @property
    def gap(self) -> float:
        """The width of the bracket."""
        return self.upper - self.lower

    def try_policy(self, policy: FloatArray) -> None:
        """Keep a policy, moved into the task where it misses it by a little, if it does better."""
        weights = repaired(self._problem, weights_of(self._problem.tree, policy), self._inner)
        value = self._problem.value(weights)
        if meets(self._problem, weights) and value > self.lower:
            self.lower, self.weights = value, weights

    def try_bound(self, costs: FloatArray, multipliers: FloatArray) -> None:
        """Keep a bound if it is lower."""
        for pressure in PRESSURES if self._inner.faces else (0.0,):
            held = self._inner.pressed(np.maximum(multipliers, 0.0), pressure)
            bound = self._problem.upper_bound(costs, held)
            if bound < self.upper:
                self.upper, self.multipliers = bound, held

    def try_answer(self, answer: ConeAnswer) -> None:
        """All that a solver's numbers give, whatever the solver says of them."""
        problem = self._problem
        for least in _SMALLEST:
            self.try_policy(policy_of(problem.tree, answer.weights, least=least))
        uncertainty, sequences = problem.uncertainty, problem.sequences
        self.try_bound(uncertainty.nearest_costs(sequences, answer.slopes), answer.multipliers)
        self.try_posterior(answer.cells, answer.multipliers)

    def try_posterior(self, cells: FloatArray, multipliers: FloatArray) -> None:
        """The bounds of decoders that fit given joint weights."""
        for mixed in _MIXED:
            costs = self._problem.uncertainty.posterior_costs(self._problem.sequences, cells, mixed=mixed)
            self.try_bound(costs, multipliers)


def ascend(bracket: Bracket, problem: HistoryProblem, inner: InnerPoint, *, steps: int, stop: Stop) -> Iterator[float]:
    """Narrow a bracket by mirror ascent on the tree, pi <- pi exp(step Q); yields the gap after every step.

    Slower than a cone solver and needs none. Q are the values of choices for the costs of the present posterior and the
    multipliers of an augmented Lagrangian.
    """
    tree = problem.tree
    policy = _inside(problem, inner, bracket.weights)
    multipliers = bracket.multipliers.copy()
    for count in range(steps):
        if stop.requested:
            return
        weights = weights_of(tree, policy)
        pressure = np.maximum(multipliers - _PENALTY * problem.slack(weights), 0.0)
        cells = problem.cells(weights)
        bracket.try_policy(policy)
        bracket.try_posterior(cells, pressure)
        yield bracket.gap
        costs = problem.leaf_costs(problem.uncertainty.posterior_costs(problem.sequences, cells, mixed=1e-6))
        values, node = choice_values(tree, costs, pressure, policy)
        advantage = np.clip(values - np.repeat(node, np.diff(tree.choice_start)), -_LONGEST, _LONGEST)
        step = _STEP / (1.0 + count / 200.0)
        policy = policy_of(tree, policy * np.exp(step * advantage))
        multipliers += 0.05 * (pressure - multipliers)


def _inside(problem: HistoryProblem, inner: InnerPoint, weights: FloatArray) -> FloatArray:
    """[choice]: the policy of given weights with a little of every allowed choice."""
    tree = problem.tree
    even = policy_of(tree, inner.allowed.astype(np.float64))
    return 0.99 * policy_of(tree, weights) + 0.01 * even
