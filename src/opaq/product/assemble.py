"""The arrays of the hidden process, put together from explored states, rows, emission, secret and payoffs."""

from __future__ import annotations

import numpy as np

from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, indices, ints, spread
from opaq.product.explore import ProductStates
from opaq.product.process import Edges, HiddenProcess, Pairs, Payoff
from opaq.product.rows import PolicyRows


def assemble(
    states: ProductStates,
    rows: PolicyRows,
    *,
    emission: SparseRows,
    secret: IntArray,
    payoffs: tuple[Payoff, ...],
    horizon: int,
) -> HiddenProcess:
    """One process over product states: branches between the same two states are merged into one edge.

    emission: [product state, observation]. secret: [product state] -> secret value.
    """
    from scipy.sparse import csr_array

    num_states, branches = secret.size, states.transitions
    slot = rows.slot(branches.source, branches.choice)
    pairs, edge = np.unique(branches.source * num_states + branches.target, return_inverse=True)
    start_state, start_probability = _summed(*states.start)
    shape = (pairs.size + start_state.size, rows.num_slots)
    counts = np.concatenate((np.bincount(pairs // num_states, minlength=num_states), [start_state.size]))
    target = np.concatenate((pairs % num_states, start_state))
    edge_start = np.concatenate(([0], np.cumsum(counts)))
    return HiddenProcess(
        edge_start=ints(edge_start),
        edge_target=ints(target),
        edges=Edges(indices(edge_start), indices(target)),
        edge_base=floats(np.concatenate((np.zeros(pairs.size), start_probability))),
        edge_slots=csr_array((branches.probability, (edge.reshape(-1), slot)), shape=shape),
        payoffs=payoffs,
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=ints(secret),
        settled=ints(_settled(secret, edge_start, target)),
        row=ints(rows.of_state),
        row_start=ints(rows.row_start),
        num_observations=emission.num_columns,
        num_secrets=int(secret.max(initial=0)) + 1,
        horizon=horizon,
    )


def _summed(states: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """The sum of the values of every distinct state."""
    distinct, inverse = np.unique(states, return_inverse=True)
    return distinct, np.bincount(inverse.reshape(-1), weights=values, minlength=distinct.size).astype(np.float64)


def _settled(secret: IntArray, edge_start: IntArray, edge_target: IntArray) -> IntArray:
    """The value every continuation ends with, or -1: states that cannot reach another value than their own."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    num_states = secret.size
    owner, entry = spread(edge_start, np.arange(num_states))
    target = edge_target[entry]
    doubtful = np.unique(owner[secret[owner] != secret[target]])
    rows = np.concatenate((target, np.full(doubtful.size, num_states)))
    columns = np.concatenate((owner, doubtful))
    backwards = csr_array((np.ones(rows.size, dtype=np.int8), (rows, columns)), shape=(num_states + 1, num_states + 1))
    open_states = breadth_first_order(backwards, num_states, return_predecessors=False)
    settled = secret.copy()
    settled[open_states[open_states < num_states]] = -1
    return settled
