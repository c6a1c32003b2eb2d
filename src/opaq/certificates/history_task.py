"""Meeting the task on a history tree: policies with slack, proofs that there are none, repairs of small violations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.certificates.history_sweeps import TASK_ROUNDING, HistoryProblem, choice_values, policy_of, weights_of
from opaq.model.arrays import BoolArray, FloatArray

_NO_ROOM = 1e-7  # less slack than this, in units of the requirement's range, is no interior for a solver
_SAME = 1e-10  # choices whose values differ by less of the range are equally good


@dataclass(frozen=True, slots=True, eq=False)
class InnerPoint:
    """The weights whose worst slack is the largest, and the multipliers that prove that no policy has more.

    Where there is no room, every policy that meets the task uses only choices that are best for those multipliers: the
    others are not `allowed`, and a requirement which every such policy meets exactly is not stated to the solver.
    """

    weights: FloatArray  # [choice]
    multipliers: FloatArray  # [requirement]
    feasible: bool
    proven_infeasible: bool
    room: bool
    allowed: BoolArray  # [choice]
    wanted: BoolArray  # [requirement]


def inner_point(problem: HistoryProblem) -> InnerPoint:
    """The weights to mix with where a requirement is missed by a little."""
    tree = problem.tree
    count, everything = tree.thresholds.size, np.ones(tree.num_choices, dtype=np.bool_)
    if count == 0:
        weights = weights_of(tree, policy_of(tree, np.zeros(tree.num_choices)))
        return InnerPoint(weights, np.zeros(0), True, False, True, everything, np.ones(0, dtype=np.bool_))
    ranges = _ranges(problem)
    weights, multipliers = _most_slack(problem, ranges)
    slack = problem.slack(weights)
    feasible = meets(problem, weights)
    bound = problem.upper_bound(np.zeros(problem.sequences.sequence.size), multipliers)
    room = bool((slack > _NO_ROOM * ranges).all())
    allowed, wanted = (everything, np.ones(count, dtype=np.bool_)) if room else _face(problem, multipliers, ranges)
    return InnerPoint(weights, multipliers, feasible, not feasible and bound < 0, room, allowed, wanted)


def meets(problem: HistoryProblem, weights: FloatArray) -> bool:
    """Whether every requirement holds, up to rounding."""
    tolerance = TASK_ROUNDING * np.maximum(1.0, np.abs(problem.tree.thresholds))
    return bool((problem.slack(weights) >= -0.5 * tolerance).all())


def repaired(problem: HistoryProblem, weights: FloatArray, inner: InnerPoint) -> FloatArray:
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


def _ranges(problem: HistoryProblem) -> FloatArray:
    """[requirement]: the most that policies can differ by, at least a little."""
    tree, nothing = problem.tree, np.zeros(problem.tree.secret.size)
    spans = []
    for index in range(tree.thresholds.size):
        unit = np.eye(tree.thresholds.size)[index]
        most = float(tree.start @ choice_values(tree, nothing, unit)[1])
        least = -float(tree.start @ choice_values(tree, nothing, -unit)[1])
        spans.append(max(most - least, 1e-9 * max(1.0, abs(most))))
    return np.array(spans)


def _most_slack(problem: HistoryProblem, ranges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights with the largest worst slack in units of the ranges, and the multipliers of that."""
    if ranges.size == 1:
        return weights_of(problem.tree, _greedy(problem, np.ones(1))), np.ones(1)
    return _linear_program(problem, ranges)


def _greedy(problem: HistoryProblem, multipliers: FloatArray) -> FloatArray:
    """[choice]: the policy that always makes the first best choice."""
    tree = problem.tree
    values, node = choice_values(tree, np.zeros(tree.secret.size), multipliers)
    best = np.flatnonzero(values >= np.repeat(node, np.diff(tree.choice_start)))
    _, first = np.unique(tree.node_of_choice()[best], return_index=True)
    policy = np.zeros(tree.num_choices)
    policy[best[first]] = 1.0
    return policy


def _linear_program(problem: HistoryProblem, ranges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """max t subject to slack_i >= t range_i, over all weights."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    tree = problem.tree
    node = tree.node_of_choice()
    out = csr_array((np.ones(node.size), (node, np.arange(node.size))), shape=(tree.num_nodes, node.size))
    answer = linprog(
        np.append(np.zeros(tree.num_choices), -1.0),
        A_ub=np.hstack((-tree.rewards.T / ranges[:, None], np.ones((ranges.size, 1)))),
        b_ub=-tree.thresholds / ranges,
        A_eq=hstack((out - tree.ahead().T, csr_array((tree.num_nodes, 1))), format="csr"),
        b_eq=tree.start,
        bounds=[(0, None)] * tree.num_choices + [(None, None)],
        method="highs",
    )
    if answer.x is None:
        uniform = policy_of(tree, np.zeros(tree.num_choices))
        return weights_of(tree, uniform), np.ones(ranges.size) / ranges
    multipliers = np.maximum(-np.asarray(answer.ineqlin.marginals), 0.0) / ranges
    return weights_of(tree, policy_of(tree, answer.x[:-1], least=1e-9)), multipliers


def _face(problem: HistoryProblem, multipliers: FloatArray, ranges: FloatArray) -> tuple[BoolArray, BoolArray]:
    """The choices that a policy which meets the task can make, and the requirements that they do not settle."""
    tree = problem.tree
    values, node = choice_values(tree, np.zeros(tree.secret.size), multipliers)
    tolerance = _SAME * max(float(multipliers @ ranges), 1e-300)
    allowed = values >= np.repeat(node, np.diff(tree.choice_start)) - tolerance
    wanted = np.ones(multipliers.size, dtype=np.bool_)
    if (multipliers > 0).sum() == 1:
        wanted = multipliers == 0
    return allowed, wanted
