"""Meeting the task on a history tree: policies with slack, proofs that there are none, repairs of small violations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.beliefs.returns import EQUAL
from opaq.certificates.history.sweeps import PRESSURES, HistoryProblem, choice_values, policy_of, weights_of
from opaq.model.arrays import BoolArray, FloatArray

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

    def pressed(self, multipliers: FloatArray, pressure: float) -> FloatArray:
        """Multipliers with those of the faces added, the first of them the most."""
        count = len(self.faces)
        return multipliers + sum((pressure ** (count - index) * face for index, face in enumerate(self.faces)), 0.0)


def inner_point(problem: HistoryProblem) -> InnerPoint:
    """The weights to mix with where a requirement is missed by a little."""
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
    """Whether some multipliers prove that no policy meets the task: their sum of slacks is below 0 for every policy."""
    costs, none = np.zeros(problem.sequences.sequence.size), np.zeros(problem.tree.thresholds.size)
    return any(problem.upper_bound(costs, point.pressed(none, pressure)) < 0 for pressure in PRESSURES)


def meets(problem: HistoryProblem, weights: FloatArray) -> bool:
    """Whether every requirement holds, up to rounding."""
    tolerances = problem.tolerances(problem.paid(weights))
    return bool((problem.slack(weights) >= -0.5 * tolerances).all())


def repair_weights(problem: HistoryProblem, weights: FloatArray, inner: InnerPoint) -> FloatArray:
    """The nearest weights on the way to the inner point that meet the task (weights of policies may be mixed)."""
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
    """[requirement]: the least and the most that policies reach of it."""
    tree, nothing = problem.tree, np.zeros(problem.tree.secret.size)
    units = np.eye(tree.thresholds.size)
    least = [-float(tree.start @ choice_values(tree, nothing, -unit)[1]) for unit in units]
    most = [float(tree.start @ choice_values(tree, nothing, unit)[1]) for unit in units]
    return np.array(least), np.array(most)


def _most_slack(
    problem: HistoryProblem, ranges: FloatArray, wanted: BoolArray, allowed: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Weights with the largest worst slack in units of the ranges, and the multipliers of that, in the same units."""
    if wanted.sum() == 1:
        multipliers = np.where(wanted, 1.0 / ranges, 0.0)
        return weights_of(problem.tree, _greedy(problem, multipliers, allowed)), multipliers
    return _linear_program(problem, ranges, wanted, allowed)


def _greedy(problem: HistoryProblem, multipliers: FloatArray, allowed: BoolArray) -> FloatArray:
    """[choice]: the policy that always makes the first best choice."""
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
    """max t subject to slack_i >= t range_i for the wanted requirements, over all weights of allowed choices."""
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
    """[choice]: whether a policy that reaches the most for the multipliers can make it."""
    tree = problem.tree
    values, node = choice_values(tree, np.zeros(tree.secret.size), multipliers, allowed=allowed)
    tolerance = max(_SAME * float(multipliers @ ranges), _ROUNDED * float(np.abs(node).max()))
    return np.asarray(values >= np.repeat(node, np.diff(tree.choice_start)) - tolerance)
