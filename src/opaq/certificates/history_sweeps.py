"""Sweeps over a history tree: forwards, what a policy reaches; backwards, what no policy exceeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.beliefs.returns import EQUAL
from opaq.certificates.history_sequences import Sequences
from opaq.certificates.history_tree import HistoryTree
from opaq.certificates.history_uncertainty import LeafUncertainty
from opaq.model.arrays import BoolArray, FloatArray

_UNIT = 2.0**-52
PRESSURES = (1.0, 1e2, 1e4, 1e6)  # of multipliers that hold policies to a task that leaves them no room


@dataclass(frozen=True, slots=True, eq=False)
class HistoryProblem:
    """Weights over the tree's choices in; uncertainty and slacks out."""

    tree: HistoryTree
    sequences: Sequences
    uncertainty: LeafUncertainty

    def cells(self, weights: FloatArray) -> FloatArray:
        """[cell]: P(y, z) under a weight vector."""
        leaves = inflow(self.tree, weights)[self.tree.leaves]
        return np.asarray(self.sequences.likelihood @ leaves)

    def value(self, weights: FloatArray) -> float:
        """The uncertainty of a weight vector."""
        return self.uncertainty.value(self.sequences, self.cells(weights))

    def slack(self, weights: FloatArray) -> FloatArray:
        """[requirement]: how far above its threshold."""
        return np.asarray(weights @ self.tree.rewards - self.tree.thresholds)

    def tolerances(self, paid: FloatArray) -> FloatArray:
        """[requirement]: how far below its threshold a return meets it. paid: the size of all that is added up."""
        return EQUAL * np.abs(self.tree.thresholds) + min(EQUAL, 4.0 * self.tree.rounding) * paid

    def paid(self, weights: FloatArray) -> FloatArray:
        """[requirement]: the expected sum of |payments|."""
        return np.asarray(weights @ np.abs(self.tree.rewards))

    def most_paid(self) -> FloatArray:
        """[requirement]: the same at most, for any policy."""
        tree = self.tree
        sizes = [np.abs(tree.rewards[tree.choices_at(time)]).max(axis=0, initial=0.0) for time in tree.times]
        return np.asarray(np.sum(sizes, axis=0))

    def leaf_costs(self, costs: FloatArray) -> FloatArray:
        """[leaf]: the expected cost of ending there, given costs of cells."""
        return np.asarray(self.sequences.likelihood.T @ costs)

    def upper_bound(self, costs: FloatArray, multipliers: FloatArray) -> float:
        """No policy with every slack >= 0 exceeds this, whatever the (valid) costs and the multipliers >= 0 are.

        f(q) <= costs . q for every q, and multipliers . slack >= 0 for every feasible policy; the maximum of the sum
        over all policies is a dynamic program. What rounding can lose in it is added, and what policies may gain that
        miss a threshold by no more than counts as rounding.
        """
        tree, most = self.tree, self.most_paid()
        leaf_costs = self.leaf_costs(costs)
        _, node = choice_values(tree, leaf_costs, multipliers)
        size = 1.0 + float(np.abs(leaf_costs).max(initial=0.0)) + float(multipliers @ (most + np.abs(tree.thresholds)))
        steps = 4 * (tree.level.size + 8) * (2 + tree.branching) + self.sequences.sequence.size + int(tree.level[1])
        missed = float(multipliers @ (self.tolerances(most) + tree.rounding * most))
        return float(tree.start @ node) - float(multipliers @ tree.thresholds) + missed + steps * _UNIT * size


def inflow(tree: HistoryTree, weights: FloatArray) -> FloatArray:
    """[node]: the sum of its choices' weights."""
    return np.asarray(np.add.reduceat(weights, tree.choice_start[:-1]))


def policy_of(tree: HistoryTree, weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """[choice]: the probability of a choice at its node; even where the node has no weight.

    least: smaller probabilities count as 0.
    """
    counts = np.diff(tree.choice_start)
    kept = np.maximum(weights, 0.0)
    for _ in range(2):  # the second time without what is too small
        totals = np.repeat(inflow(tree, kept), counts)
        shares = np.where(totals > 0, kept / np.where(totals > 0, totals, 1.0), np.repeat(1.0 / counts, counts))
        kept = np.where(shares >= least, shares, 0.0)
    return shares


def weights_of(tree: HistoryTree, policy: FloatArray) -> FloatArray:
    """[choice]: the probability that a history occurs and the choice is made there."""
    node, weights = tree.start.copy(), np.zeros(tree.num_choices)
    counts = np.diff(tree.choice_start)
    for time in tree.times:
        nodes, choices = tree.nodes_at(time), tree.choices_at(time)
        weights[choices] = np.repeat(node[nodes], counts[nodes]) * policy[choices]
        if time < tree.times[-1]:
            node[tree.nodes_at(time + 1)] = tree.steps[time].T @ weights[choices]
    return weights


def choice_values(
    tree: HistoryTree,
    leaf_costs: FloatArray,
    multipliers: FloatArray,
    policy: FloatArray | None = None,
    *,
    allowed: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """[choice], [node]: leaf costs and multiplied rewards still to come, by the best policy or by a given one.

    allowed: [choice]: what the best policy may choose, at least one choice per node; everything unless given.
    """
    values = np.asarray(tree.rewards @ multipliers)
    if allowed is not None:
        values[~allowed] = -np.inf
    values[tree.choices_at(tree.times[-1])] += np.repeat(leaf_costs, np.diff(tree.choice_start)[tree.leaves])
    node = np.zeros(tree.num_nodes)
    for time in reversed(tree.times):
        nodes, choices = tree.nodes_at(time), tree.choices_at(time)
        if time < tree.times[-1]:
            values[choices] += tree.steps[time] @ node[tree.nodes_at(time + 1)]
        heads = tree.choice_start[nodes] - choices.start
        own = values[choices]
        node[nodes] = (
            np.maximum.reduceat(own, heads) if policy is None else np.add.reduceat(policy[choices] * own, heads)
        )
    return values, node
