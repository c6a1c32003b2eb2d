"""P(Z = z | belief) for many beliefs of many times, without holding a prediction for every time at once.

Backwards, one sweep from the horizon predicts the secret from every state; forwards, every belief is moved on to the
horizon. The first suits many beliefs and few secret values, the second few beliefs and many values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from opaq.beliefs.returns import moves
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess

_CELLS_AT_ONCE = 4_000_000  # of a dense block
_MOST_CELLS = 40_000_000  # of a prediction from every state

Outlooks = Iterator[tuple[int, int, FloatArray]]  # time, first belief, [belief, secret value]


def predict_secret(process: HiddenProcess, pi: FloatArray, beliefs: Sequence[Any], *, backwards: bool) -> Outlooks:
    """P(Z = z | belief) in blocks, in no particular order.

    beliefs: for time 0 .. t a sparse matrix [belief, product state], whose rows sum to 1.
    backwards: by one sweep from the horizon; otherwise every belief is moved on.
    """
    onward = moves(process, process.flow(pi))
    return _backwards(process, onward, beliefs) if backwards else _forwards(process, onward, beliefs)


def backward_cost(process: HiddenProcess) -> float:
    """How many multiplications the sweep from the horizon takes; infinite where its memory would be too large."""
    if process.num_states * process.num_secrets > _MOST_CELLS:
        return np.inf
    return float(process.horizon * process.edge_target.size * process.num_secrets)


def forward_cost(process: HiddenProcess, num_beliefs: int) -> float:
    """The same for moving beliefs on to the horizon, of which there are so many at every time."""
    return 0.5 * num_beliefs * process.horizon * (process.horizon + 1) * process.edge_target.size


def _backwards(process: HiddenProcess, onward: Any, beliefs: Sequence[Any]) -> Outlooks:
    outlook = np.zeros((process.num_states, process.num_secrets))
    outlook[np.arange(process.num_states), process.secret] = 1.0
    size = max(1, _CELLS_AT_ONCE // process.num_secrets)
    for time in range(process.horizon, -1, -1):
        if time < len(beliefs):
            for first in range(0, beliefs[time].shape[0], size):
                yield time, first, _normalise(beliefs[time][first : first + size] @ outlook)
        outlook = onward @ outlook if time else outlook


def _forwards(process: HiddenProcess, onward: Any, beliefs: Sequence[Any]) -> Outlooks:
    from scipy.sparse import csr_array

    states = np.arange(process.num_states)
    shape = (process.num_secrets, process.num_states)
    secrets = csr_array((np.ones(states.size), (process.secret, states)), shape=shape)
    back, size = onward.T.tocsr(), max(1, _CELLS_AT_ONCE // max(shape))
    for time, block in enumerate(beliefs):
        for first in range(0, block.shape[0], size):
            now = block[first : first + size].toarray().T
            for _ in range(process.horizon - time):
                now = back @ now
            yield time, first, _normalise((secrets @ now).T)


def _normalise(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
