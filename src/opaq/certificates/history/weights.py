"""Policies on a history tree as weights of its choices: what they reach, what bounds them, how they meet the task.

A weight p(h, a) is the probability that history h occurs and a is chosen there. Weights of policies form a polytope,
P(y, z) and returns are linear in them, and the uncertainty is concave: a convex program. Costs c and multipliers
m >= 0 bound it as in the decoder bound: f(q) <= c . q, so that no feasible policy exceeds the largest value of
c . q + m . slack over all policies, which one backward sweep finds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs.returns import EQUAL
from opaq.certificates.history.tree import HistoryTree
from opaq.certificates.rounding import sum_error
from opaq.model.arrays import BoolArray, FloatArray
from opaq.model.uncertainty import Cells, Smoothing, Uncertainty

PRESSURES = (1.0, 1e2, 1e4, 1e6)  # of multipliers that hold policies to a task that leaves them no room


@dataclass(frozen=True, slots=True, eq=False)
class HistoryProblem:
    """Maximise an uncertainty over the weights of a tree's choices, with every slack at least 0."""

    tree: HistoryTree
    likelihood: Any  # sparse [cell, leaf]: P(y | leaf) where the leaf has the cell's secret value
    cells: Cells
    uncertainty: Uncertainty  # over the secret's values

    def masses(self, weights: FloatArray) -> FloatArray:
        """Return [cell]: P(y, z) under a weight vector [choice], linear in it.

        q(y, z) = sum over leaves h with secret z of P(y | h) sum_a w(h, a).
        """
        leaves = inflow(self.tree, weights)[self.tree.leaves]
        return np.asarray(self.likelihood @ leaves)

    def value(self, weights: FloatArray) -> float:
        """Return f(q) of a weight vector [choice]: a concave function of it."""
        return self.uncertainty.total(self.masses(weights), self.cells)

    def costs(self, masses: FloatArray, *, uniform: float) -> FloatArray:
        """Return [cell]: valid costs that are tight at these masses, but for a share `uniform` of guessing blindly.

        masses: [cell]; negative ones, which solvers return, count as 0. Valid: f(q) <= costs . q for every q >= 0.
        """
        return self.uncertainty.costs(np.maximum(masses, 0.0), self.cells, Smoothing(uniform=uniform))

    def slack(self, weights: FloatArray) -> FloatArray:
        """Return [requirement]: rewards . w - threshold, how far a weight vector is above its threshold."""
        return np.asarray(weights @ self.tree.rewards - self.tree.thresholds)

    def tolerances(self, paid: FloatArray) -> FloatArray:
        """Return [requirement]: how far below its threshold a return meets it.

        paid: the size of all that is added up.
        """
        return EQUAL * np.abs(self.tree.thresholds) + min(EQUAL, 4.0 * self.tree.rounding) * paid

    def paid(self, weights: FloatArray) -> FloatArray:
        """Return [requirement]: the expected sum of |payments| under a weight vector [choice]."""
        return np.asarray(weights @ np.abs(self.tree.rewards))

    def most_paid(self) -> FloatArray:
        """Return [requirement]: the same at most, for any policy: the sum over times of the largest payment."""
        tree = self.tree
        sizes = [np.abs(tree.rewards[tree.choices_at(time)]).max(axis=0, initial=0.0) for time in tree.times]
        return np.asarray(np.sum(sizes, axis=0))

    def leaf_costs(self, costs: FloatArray) -> FloatArray:
        """Return [leaf]: sum over y of P(y | leaf) cost(y, z), the expected cost of ending there. costs: [cell]."""
        return np.asarray(self.likelihood.T @ costs)

    def upper_bound(self, costs: FloatArray, multipliers: FloatArray) -> float:
        """Return a number that no policy with every slack >= 0 exceeds, whatever valid costs and multipliers >= 0 are.

            f(q) <= costs . q <= costs . q + multipliers . slack <= max over all policies of the same,

        the first for every q, the second for every feasible policy; the maximum is a dynamic program over the tree.
        What rounding can lose in it is added, and what policies may gain that miss a threshold by no more than counts
        as rounding.

        costs: [cell]. multipliers: [requirement].
        """
        tree, most = self.tree, self.most_paid()
        leaf_costs = self.leaf_costs(costs)
        _, node = choice_values(tree, leaf_costs, multipliers)
        size = 1.0 + float(np.abs(leaf_costs).max(initial=0.0)) + float(multipliers @ (most + np.abs(tree.thresholds)))
        steps = 4 * (tree.level.size + 8) * (2 + tree.branching) + self.cells.secret.size + int(tree.level[1])
        missed = float(multipliers @ (self.tolerances(most) + tree.rounding * most))
        return float(tree.start @ node) - float(multipliers @ tree.thresholds) + missed + sum_error(2 * steps, size)


def inflow(tree: HistoryTree, weights: FloatArray) -> FloatArray:
    """Return [node]: the sum of its choices' weights, which is the probability that the history occurs."""
    return np.asarray(np.add.reduceat(weights, tree.choice_start[:-1]))


def policy_of(tree: HistoryTree, weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """Return [choice] the probability of a choice at its node, w(h, a) / sum_b w(h, b).

    Even where the node has no weight.

    weights: [choice]; negative ones count as 0. least: smaller probabilities count as 0.
    """
    counts = np.diff(tree.choice_start)
    kept = np.maximum(weights, 0.0)
    for _ in range(2):  # the second time without what is too small
        totals = np.repeat(inflow(tree, kept), counts)
        shares = np.where(totals > 0, kept / np.where(totals > 0, totals, 1.0), np.repeat(1.0 / counts, counts))
        kept = np.where(shares >= least, shares, 0.0)
    return shares


def weights_of(tree: HistoryTree, policy: FloatArray) -> FloatArray:
    """Return [choice] the probability that a history occurs and the choice is made there, by one forward sweep.

        w(h, a) = policy(a | h) (start(h) + sum over (h', a') of w(h', a') P(h | h', a')).

    policy: [choice], probabilities at every node.
    """
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
    """Return [choice], [node] the leaf costs and multiplied rewards still to come, by one backward sweep.

        Q(h, a) = multipliers . rewards(h, a) + sum_h' P(h' | h, a) V(h')   (+ cost of the leaf at the last time),
        V(h) = max_a Q(h, a), or sum_a policy(a | h) Q(h, a).

    leaf_costs: [leaf]. multipliers: [requirement]. policy: [choice], the best one unless given.
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


# -- meeting the task -------------------------------------------------------------------------------------------------

_NO_ROOM = 1e-7  # less slack than this, in units of the requirement's range, is no interior for a solver
_SAME = 1e-11  # choices whose values differ by less of the range, or
_ROUNDED = 1e-14  # by less of the largest value, are equally good


@dataclass(frozen=True, slots=True, eq=False)
class InnerPoint:
    """Weights that meet the task with as much slack as there is, and what holds every policy to the task without any.

    Where the threshold of a requirement is the most that can be reached, every policy that meets it makes only choices
    that are best for it: the others are not `allowed`, and the requirement, which is then met, is not `wanted` from a
    solver. Each such step leaves its multipliers in `faces`. What every policy meets is not wanted either.
    """

    weights: FloatArray  # [choice]
    feasible: bool
    proven_infeasible: bool
    faces: tuple[FloatArray, ...]  # each [requirement], in units of the ranges
    allowed: BoolArray  # [choice]
    wanted: BoolArray  # [requirement]

    def add_faces(self, multipliers: FloatArray, pressure: float) -> FloatArray:
        """Return multipliers + sum_i pressure^(count - i) face_i, i from 0; the first face weighs the most.

        multipliers: [requirement]. pressure: how strongly policies are held to the faces.
        """
        count = len(self.faces)
        return multipliers + sum((pressure ** (count - index) * face for index, face in enumerate(self.faces)), 0.0)


def inner_point(problem: HistoryProblem) -> InnerPoint:
    """Return weights that meet the task with as much slack as there is, to mix with where it is missed by a little.

    While some requirement has no slack to speak of, policies are confined to choices that are best for it, and the
    others are looked at again.
    """
    tree = problem.tree
    least, most = _extremes(problem)
    wanted = least < tree.thresholds - 0.5 * EQUAL * np.abs(tree.thresholds)
    allowed = np.ones(tree.num_choices, dtype=np.bool_)
    finest = np.maximum(problem.tolerances(problem.most_paid()), 1e-200)  # in smaller units numbers would overflow
    ranges = np.maximum(most - least, finest)
    faces = list[FloatArray]()
    weights = weights_of(tree, policy_of(tree, np.zeros(tree.num_choices)))
    while wanted.any():
        weights, multipliers = _most_slack(problem, ranges, wanted, allowed)
        if (problem.slack(weights)[wanted] > _NO_ROOM * ranges[wanted]).all():
            break
        faces.append(multipliers)
        allowed = allowed & _best_choices(problem, multipliers, ranges, allowed)
        if (multipliers > 0).sum() != 1:
            break
        wanted = wanted & (multipliers == 0)
        even = weights_of(tree, policy_of(tree, allowed.astype(np.float64)))
        weights = weights if meets(problem, weights) and not meets(problem, even) else even
    point = InnerPoint(weights, meets(problem, weights), False, tuple(faces), allowed, wanted)
    return point if point.feasible else replace(point, proven_infeasible=_is_infeasible(problem, point))


def _is_infeasible(problem: HistoryProblem, point: InnerPoint) -> bool:
    """Return whether some multipliers prove that no policy meets the task; multipliers . slack is then below 0 for all.

    The costs are 0, so that the bound is max over policies of multipliers . slack, rounded up.
    """
    costs, none = np.zeros(problem.cells.secret.size), np.zeros(problem.tree.thresholds.size)
    return any(problem.upper_bound(costs, point.add_faces(none, pressure)) < 0 for pressure in PRESSURES)


def meets(problem: HistoryProblem, weights: FloatArray) -> bool:
    """Return whether every requirement holds, up to half of the tolerance that measurements allow.

    weights: [choice].
    """
    tolerances = problem.tolerances(problem.paid(weights))
    return bool((problem.slack(weights) >= -0.5 * tolerances).all())


def repair_weights(problem: HistoryProblem, weights: FloatArray, inner: InnerPoint) -> FloatArray:
    """Return the first weights on the way to the inner point that meet the task: mixtures of weights are weights.

        (1 - s) w + s w_inner,   s the least with every slack >= 0 (slacks are linear).

    weights: [choice]. Where the inner point has no room itself, it is returned.
    """
    slack, room = problem.slack(weights), problem.slack(inner.weights)
    missing = slack < 0
    if not missing.any() or meets(problem, weights):
        return weights
    gain = room[missing] - slack[missing]
    if (room[missing] <= 0).any():
        return inner.weights
    share = min(1.0, float((-slack[missing] / gain).max()) * (1.0 + 1e-9))
    return weights_of(problem.tree, policy_of(problem.tree, (1.0 - share) * weights + share * inner.weights))


def _extremes(problem: HistoryProblem) -> tuple[FloatArray, FloatArray]:
    """Return [requirement], [requirement]: the least and the most that policies reach of it, by dynamic programming."""
    tree, nothing = problem.tree, np.zeros(problem.tree.secret.size)
    units = np.eye(tree.thresholds.size)
    least = [-float(tree.start @ choice_values(tree, nothing, -unit)[1]) for unit in units]
    most = [float(tree.start @ choice_values(tree, nothing, unit)[1]) for unit in units]
    return np.array(least), np.array(most)


def _most_slack(
    problem: HistoryProblem, ranges: FloatArray, wanted: BoolArray, allowed: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return weights with the largest worst slack in units of the ranges, and the multipliers of that.

    ranges, wanted: [requirement]. allowed: [choice]. One requirement alone is a dynamic program, several a linear one.
    """
    if wanted.sum() == 1:
        multipliers = np.where(wanted, 1.0 / ranges, 0.0)
        return weights_of(problem.tree, _greedy(problem, multipliers, allowed)), multipliers
    return _linear_program(problem, ranges, wanted, allowed)


def _greedy(problem: HistoryProblem, multipliers: FloatArray, allowed: BoolArray) -> FloatArray:
    """Return [choice]: the policy that always makes the first best choice for the multipliers [requirement]."""
    tree = problem.tree
    values, node = choice_values(tree, np.zeros(tree.secret.size), multipliers, allowed=allowed)
    best = np.flatnonzero(values >= np.repeat(node, np.diff(tree.choice_start)))
    _, first = np.unique(tree.node_of_choice()[best], return_index=True)
    policy = np.zeros(tree.num_choices)
    policy[best[first]] = 1.0
    return policy


def _linear_program(
    problem: HistoryProblem, ranges: FloatArray, wanted: BoolArray, allowed: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Solve max t subject to slack_i >= t range_i for the wanted requirements, over all weights of allowed choices.

    Returns the weights of the solution's policy and, from its dual, the multipliers. Where the solver fails they are
    those of the even policy, with every wanted requirement weighted alike.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    tree = problem.tree
    node = tree.node_of_choice()
    out = csr_array((np.ones(node.size), (node, np.arange(node.size))), shape=(tree.num_nodes, node.size))
    answer = linprog(
        np.append(np.zeros(tree.num_choices), -1.0),
        A_ub=np.hstack((-(tree.rewards / ranges).T[wanted], np.ones((int(wanted.sum()), 1)))),
        b_ub=-(tree.thresholds / ranges)[wanted],
        A_eq=hstack((out - tree.ahead().T, csr_array((tree.num_nodes, 1))), format="csr"),
        b_eq=tree.start,
        bounds=[(0, None if one else 0) for one in allowed] + [(None, None)],
        method="highs",
    )
    multipliers = np.where(wanted, 1.0 / ranges, 0.0)
    if answer.x is None:
        return weights_of(tree, policy_of(tree, allowed.astype(np.float64))), multipliers
    multipliers[wanted] *= np.where(answer.ineqlin.marginals < -1e-9, -answer.ineqlin.marginals, 0.0)
    return weights_of(tree, policy_of(tree, answer.x[:-1], least=1e-9)), multipliers


def _best_choices(
    problem: HistoryProblem, multipliers: FloatArray, ranges: FloatArray, allowed: BoolArray
) -> BoolArray:
    """Return [choice]: whether a policy that reaches the most for the multipliers can make it.

    ranges: [requirement], whose size says which differences of values are rounding.
    """
    tree = problem.tree
    values, node = choice_values(tree, np.zeros(tree.secret.size), multipliers, allowed=allowed)
    tolerance = max(_SAME * float(multipliers @ ranges), _ROUNDED * float(np.abs(node).max()))
    return np.asarray(values >= np.repeat(node, np.diff(tree.choice_start)) - tolerance)
