"""P(Z = z | belief) before the end of the run, for many beliefs at once.

Backwards, one sweep from the horizon predicts the secret from every state: u_T(x, z) = [z(x) = z], u_t = P_pi u_{t+1},
P(Z = z | b) = sum over x of b(x) u_t(x, z). Forwards, every belief is moved on to the horizon. The first suits many
beliefs and few secret values, the second few beliefs and many values. `predict_secret` yields blocks without holding a
prediction for every time; `SecretPredictions` keeps those of the last times for trimming.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from opaq.beliefs.graph import Nodes
from opaq.beliefs.returns import transition_matrix
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.model.uncertainty import MassRows, Uncertainty
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_MAX_ENTRIES = 20_000_000  # of all predictions of one process together
SECONDS_AFTER_STOP = 0.2  # predictions may still take this long: without them the interval is trivial
_TINY = 1e-300  # stands for 0 under a logarithm
_CELLS_AT_ONCE = 4_000_000  # of a dense block
_MOST_CELLS = 40_000_000  # of a prediction from every state

_PredictionBlocks = Iterator[tuple[int, int, FloatArray]]  # time, first belief, [belief, secret value]


def predict_secret(
    process: HiddenProcess, pi: FloatArray, beliefs: Sequence[Any], *, backwards: bool
) -> _PredictionBlocks:
    """Yield (time, first belief, [belief, secret value]) blocks of P(Z = z | belief), in no particular order of times.

    beliefs: for time 0 .. t a sparse matrix [belief, product state], whose rows sum to 1.
    backwards: by one sweep from the horizon; otherwise every belief is moved on. `backward_cost` and `forward_cost`
        tell which is cheaper.
    """
    onward = transition_matrix(process, process.flow(pi))
    return _predict_backwards(process, onward, beliefs) if backwards else _predict_forwards(process, onward, beliefs)


def backward_cost(process: HiddenProcess) -> float:
    """Return how many multiplications the backward sweep takes; infinite where its memory would be too large."""
    if process.num_states * process.num_secrets > _MOST_CELLS:
        return np.inf
    return float(process.horizon * process.edge_target.size * process.num_secrets)


def forward_cost(process: HiddenProcess, num_beliefs: int) -> float:
    """Return how many multiplications moving `num_beliefs` beliefs of every time on to the horizon takes."""
    return 0.5 * num_beliefs * process.horizon * (process.horizon + 1) * process.edge_target.size


def _predict_backwards(process: HiddenProcess, onward: Any, beliefs: Sequence[Any]) -> _PredictionBlocks:
    """Yield predictions by one sweep from the horizon, blocks of at most _CELLS_AT_ONCE numbers."""
    prediction = np.zeros((process.num_states, process.num_secrets))
    prediction[np.arange(process.num_states), process.secret] = 1.0
    size = max(1, _CELLS_AT_ONCE // process.num_secrets)
    for time in range(process.horizon, -1, -1):
        if time < len(beliefs):
            for first in range(0, beliefs[time].shape[0], size):
                yield time, first, _normalise(beliefs[time][first : first + size] @ prediction)
        prediction = onward @ prediction if time else prediction


def _predict_forwards(process: HiddenProcess, onward: Any, beliefs: Sequence[Any]) -> _PredictionBlocks:
    """Yield predictions by moving blocks of beliefs on to the horizon."""
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
    """Divide rows by their sums."""
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class SecretPredictions:
    """P(Z = z | x_t = x) for the last times of the horizon; earlier ones, if too large, are bounded crudely."""

    predictions: tuple[Any, ...]  # [time counted from the end] -> sparse [state, secret value]
    horizon: int
    num_secrets: int

    @classmethod
    def of(
        cls,
        process: HiddenProcess,
        flow: FloatArray,
        *,
        steps: int | None = None,
        max_entries: int = _MAX_ENTRIES,
        stop: Stop | None = None,
    ) -> SecretPredictions:
        """Predict backwards from the horizon, all the way or `steps` steps, while it stays affordable.

        flow: [edge] of the chain. max_entries: of all predictions together.
        When `stop` is requested, only as far as a fraction of a second allows.
        """
        from scipy.sparse import csr_array

        size, onward = process.num_states, transition_matrix(process, flow)
        shape = (size, process.num_secrets)
        predictions = [csr_array((np.ones(size), (np.arange(size), process.secret)), shape=shape)]
        entries, started, stop = size, perf_counter(), stop or Stop()
        for _ in range(process.horizon if steps is None else steps):
            predictions.append(csr_array(onward @ predictions[-1]))
            entries += predictions[-1].nnz
            if entries > min(max_entries, _MAX_ENTRIES) or (
                stop.requested and perf_counter() - started > SECONDS_AFTER_STOP
            ):
                break
        return cls(tuple(predictions), process.horizon, process.num_secrets)

    def uncertainty(
        self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any, leaves: Sequence[Uncertainty] = ()
    ) -> tuple[FloatArray, ...]:
        """Return [chosen node] arrays: predicted entropy in bits, guess error, then every leaf's excess.

        time: of the nodes' last observation; -1 before the run. Where no prediction reaches back so far, the largest
            possible values. pair_state: [pair] -> state. The excess of a leaf is how far it is above what is left when
            the secret is known.
        """
        ahead = self.horizon - time
        if time < 0 or ahead >= len(self.predictions):
            largest = (
                math.log2(self.num_secrets),
                1.0 - 1.0 / self.num_secrets,
                *(leaf.largest_excess for leaf in leaves),
            )
            return tuple(np.full(chosen.size, most) for most in largest)
        prediction = self.predict(nodes, time, chosen, pair_state=pair_state)
        entropy = -_row_totals(prediction, prediction.data * np.log2(np.maximum(prediction.data, _TINY)))
        error = 1.0 - np.asarray(prediction.max(axis=1).todense()).reshape(-1)
        rows = MassRows.of(prediction.indptr.astype(np.int64), prediction.indices) if leaves else None
        further = [] if rows is None else [rows.evaluate(leaf, prediction.data)[0] for leaf in leaves]
        return tuple(np.maximum(amounts, 0.0) for amounts in (entropy, error, *further))

    def predict(self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any) -> Any:
        """Return P(Z = z | node) as a sparse matrix [chosen node, secret value]."""
        from scipy.sparse import csr_array

        _, entry = expand_rows(nodes.start, chosen)
        starts = np.concatenate(([0], np.cumsum(nodes.start[chosen + 1] - nodes.start[chosen])))
        prediction = self.predictions[self.horizon - time]
        shape = (chosen.size, prediction.shape[0])
        beliefs = csr_array((np.real(nodes.belief[entry]), pair_state[nodes.pair[entry]], starts), shape=shape)
        return csr_array(beliefs @ prediction)


def _row_totals(matrix: Any, values: FloatArray) -> FloatArray:
    """Return the sums of values over the rows of a sparse matrix whose entries they replace."""
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.bincount(owner, weights=values, minlength=matrix.shape[0]).astype(np.float64)
