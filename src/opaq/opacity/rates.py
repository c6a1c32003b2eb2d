"""Bits per step in the long run: what a stationary policy hides of every further step of an endless run.

Comes in: a problem whose secret is a trajectory, and a policy that does not look at the time. Goes out: the rates

    h(W | Y) = h(W, Y) - h(Y),   h(U) = lim 1/n H(U_1 .. U_n),

each between two numbers that are certain. For a stationary process and every n (Cover and Thomas, Elements of
Information Theory, theorem 4.5.1)

    H(U_n | U_1 .. U_n-1, X_0) <= h(U) <= H(U_n | U_1 .. U_n-1),

both of them figures of one moment (`beliefs.levels`): the right one starts in the long-run distribution of the states,
the left one shows the observer the state at time 0. Both come closer with n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, indices, ints
from opaq.model.conditions import BeliefNode, Observations, Time
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.opacity.amount import Amount
from opaq.opacity.levels import Levels, show_words
from opaq.product.compile import compile_problem
from opaq.product.process import Edges, HiddenProcess, Pairs
from opaq.stop import Stop

_LONGEST = 1_000  # steps after which the product is taken to have shown all its states
_STEPS = (4, 8, 16, 32, 64, 128)  # n, one after the other
_NODES = 20_000  # beliefs kept per level
_MOST_NODES = 400_000  # of all levels together: longer sequences are not tried


@dataclass(frozen=True, slots=True)
class Rate:
    """Bits per step of an endless run.

    opacity: what the observer does not know of the trajectory.
    secret: what there is to know, without observing.
    leakage: what the observer learns of it.
    observations: what it sees.
    steps: how many observations the bounds look back over.
    """

    opacity: Amount
    secret: Amount
    leakage: Amount
    observations: Amount
    steps: int


def check_rate(problem: Problem, policy: Policy | None) -> None:
    """Raise InputError for a problem or a policy that has no rate."""
    conditions = (problem.policy_class if policy is None else policy.policy_class).conditions
    faults = []
    if not isinstance(problem.secret, Trajectory):
        finding = "is no trajectory: of any other secret nothing is left per step of an endless run"
        faults.append(Fault("secret", finding, "ask for the rate of a secret {trajectory: ...}"))
    grows = Observations("all")
    if any(isinstance(one, Time | BeliefNode) or one == grows for one in conditions):
        finding = "looks at the time or at a growing history, so that it has no long run"
        faults.append(Fault("policy.conditions_on", finding, "ask for the rate of a policy by state"))
    if faults:
        raise InputError(faults)


def bound_rate(
    problem: Problem, policy: Policy | None, *, width: float = 1e-4, budget: Budget | None = None, stop: Stop
) -> Rate:
    """Return the rates of a policy, each in a certified interval.

    policy: None is the uniform policy. width: the interval of the opacity that is narrow enough, in bits per step.
    budget: of belief graphs. When `stop` is requested the best bounds by then are returned. Raises InputError as
    `check_rate` does, and where the policy has no row for a state that only longer runs reach.
    """
    check_rate(problem, policy)
    longer = replace(problem, horizon=max(problem.horizon, _LONGEST))
    product = compile_problem(longer, None if policy is None else policy.policy_class, stop=stop)
    process, pi = product.process, product.policy_vector(policy)
    moves = transition_matrix(process, process.flow(pi))
    start = long_run(moves, start_distribution(process))
    views = [
        show_words(process, process.secret, beside=True),
        process,
        show_words(process, process.secret, beside=False),
    ]
    budget, best = budget or Budget(nodes=_NODES), [(0.0, np.inf)] * len(views)
    opacity, steps = (0.0, np.inf), 0
    for steps in _STEPS:
        sizes = 0
        for index, view in enumerate(views):
            if best[index][1] - best[index][0] > 0.1 * width:
                low, high, nodes = _bounds(view, moves, start, steps, budget, stop)
                best[index], sizes = (max(best[index][0], low), min(best[index][1], high)), max(sizes, nodes)
        joint, seen, _ = best
        opacity = (max(0.0, joint[0] - seen[1]), joint[1] - seen[0])
        if opacity[1] - opacity[0] <= width or sizes > _MOST_NODES or stop.requested:
            break
    words = Amount.between(best[2][0], best[2][1])
    hidden = Amount.between(opacity[0], max(opacity[0], min(opacity[1], words.upper)))
    leakage = Amount.between(max(0.0, words.lower - hidden.upper), max(0.0, words.upper - hidden.lower))
    return Rate(hidden, words, leakage, Amount.between(best[1][0], best[1][1]), steps)


def _bounds(
    view: HiddenProcess, moves: Any, start: FloatArray, steps: int, budget: Budget, stop: Stop
) -> tuple[float, float, int]:
    """Return H(U_n | U_<n, X_0) and H(U_n | U_<n), the best of all n up to `steps`, and how many beliefs that took."""
    plain = _fixed(view, moves, start, view.emission, steps)
    above = Levels.outputs(plain).moments(np.zeros(view.num_slots), budget=budget, stop=stop)
    # The state at time 0 is shown: copies of the states, each of which emits its own number, lead on as they do.
    from scipy.sparse import block_array, csr_array

    size, emission = view.num_states, view.emission
    nothing = csr_array((size, size))
    doubled = block_array([[moves, nothing], [moves, nothing]], format="csr")
    rows = np.concatenate((emission.row_of_entry(), size + np.arange(size)))
    columns = np.concatenate((emission.columns, emission.num_columns + np.arange(size)))
    values = np.concatenate((emission.values, np.ones(size)))
    shown = SparseRows.from_entries(rows, columns, values, shape=(2 * size, emission.num_columns + size))
    known = _fixed(view, doubled, np.concatenate((np.zeros(size), start)), shown, steps)
    below = Levels.outputs(known).moments(np.zeros(view.num_slots), budget=budget, stop=stop)
    lower = max((amount.lower for amount in below.amounts[1:]), default=0.0)
    upper = min(amount.upper for amount in above.amounts)
    return min(lower, upper), upper, above.num_nodes + below.num_nodes


def _fixed(view: HiddenProcess, moves: Any, start: FloatArray, emission: SparseRows, horizon: int) -> HiddenProcess:
    """Return a process whose transitions no policy changes, with another start."""
    from scipy.sparse import csr_array

    moves = csr_array(moves)
    moves.sort_indices()
    size, begun = moves.shape[0], np.flatnonzero(start)
    edge_start = np.concatenate((moves.indptr, [moves.nnz + begun.size])).astype(np.int64)
    target = np.concatenate((moves.indices, begun)).astype(np.int64)
    secret = ints(np.zeros(size, dtype=np.int64))
    return replace(
        view,
        edge_start=ints(edge_start),
        edge_target=ints(target),
        edges=Edges(indices(edge_start), indices(target)),
        edge_base=floats(np.concatenate((moves.data, start[begun]))),
        edge_slots=SparseRows.from_entries([], [], [], shape=(target.size, view.num_slots)),
        payoffs=(),
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=secret,
        settled=ints(np.full(size, -1)),
        lasting=ints(np.zeros(size)),
        row=ints(np.zeros(size, dtype=np.int64)),
        num_observations=emission.num_columns,
        num_secrets=1,
        horizon=horizon,
    )


def long_run(moves: Any, start: FloatArray) -> FloatArray:
    """Return [state] how often every state is visited in the long run, from a start [state]; it is stationary.

    Every closed class of states keeps what reaches it: absorption probabilities times its own stationary distribution.
    moves: sparse [state, state], rows sum to 1.
    """
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import splu

    moves = csr_array(moves, copy=True)
    moves.eliminate_zeros()
    _, class_of = connected_components(moves, connection="strong")
    source, target = moves.nonzero()
    leaves = np.zeros(class_of.max() + 1, dtype=bool)
    leaves[class_of[source[class_of[source] != class_of[target]]]] = True
    passing = np.flatnonzero(leaves[class_of])
    absorbed = np.where(leaves[class_of], 0.0, start)
    if passing.size:
        inside = eye_array(passing.size, format="csc") - moves[passing][:, passing].tocsc()
        visits = splu(inside.T.tocsc()).solve(start[passing])
        absorbed = absorbed + np.where(leaves[class_of], 0.0, moves[passing].T @ visits)
    occupancy = np.zeros_like(start)
    for one in np.flatnonzero(~leaves):
        members: IntArray = np.flatnonzero(class_of == one)
        weight = float(absorbed[members].sum())
        if weight > 0.0:
            occupancy[members] = weight * _stationary(moves[members][:, members])
    return floats(occupancy / occupancy.sum())


def _stationary(moves: Any) -> FloatArray:
    """Return the stationary distribution of an irreducible chain: one balance equation gives way to the sum of 1."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    size = moves.shape[0]
    system = (eye_array(size, format="csr") - moves.T).tolil()
    system[-1, :] = np.ones(size)
    solved = splu(csc_array(system)).solve(np.append(np.zeros(size - 1), 1.0))
    return floats(np.maximum(solved, 0.0))
