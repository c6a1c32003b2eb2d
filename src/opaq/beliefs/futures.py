"""What is still open about the secret: the certificate for beliefs that are dropped.

Observations to come can only lower an uncertainty, so a dropped belief adds at most mass x f(Z | belief), where
f(Z | belief) is the uncertainty (opacity: the entropy) of the secret predicted from the belief alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from opaq.beliefs.kernels import Nodes
from opaq.beliefs.leaf_rows import excess_of_rows, largest_excess
from opaq.beliefs.returns import moves
from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.model.leaf import Leaf
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_MAX_ENTRIES = 20_000_000
_MOMENT = 0.2  # seconds for predictions when the work was asked to stop: without them the interval is trivial
_TINY = 1e-300  # stands for 0 under a logarithm


@dataclass(frozen=True, slots=True)
class Futures:
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
    ) -> Futures:
        """Predict backwards from the horizon, all the way or a number of steps, while it stays affordable.

        When `stop` is requested, only as far as a moment allows.
        """
        from scipy.sparse import csr_array

        size, onward = process.num_states, moves(process, flow)
        shape = (size, process.num_secrets)
        predictions = [csr_array((np.ones(size), (np.arange(size), process.secret)), shape=shape)]
        entries, begun, stop = size, perf_counter(), stop or Stop()
        for _ in range(process.horizon if steps is None else steps):
            predictions.append(csr_array(onward @ predictions[-1]))
            entries += predictions[-1].nnz
            if entries > min(max_entries, _MAX_ENTRIES) or (stop.requested and perf_counter() - begun > _MOMENT):
                break
        return cls(tuple(predictions), process.horizon, process.num_secrets)

    def doubt(
        self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any, leaves: Sequence[Leaf] = ()
    ) -> tuple[FloatArray, ...]:
        """Entropy and guess error of the secret predicted from the chosen nodes (time -1: before the run).

        Then, for every leaf, how far it is above what is left when the secret is known.
        """
        ahead = self.horizon - time
        if time < 0 or ahead >= len(self.predictions):
            crude = (math.log2(self.num_secrets), 1.0 - 1.0 / self.num_secrets, *map(largest_excess, leaves))
            return tuple(np.full(chosen.size, most) for most in crude)
        outlook = self.outlook(nodes, time, chosen, pair_state=pair_state)
        entropy = -_row_totals(outlook, outlook.data * np.log2(np.maximum(outlook.data, _TINY)))
        error = 1.0 - np.asarray(outlook.max(axis=1).todense()).reshape(-1)
        further = [excess_of_rows(leaf, outlook.indptr, outlook.indices, outlook.data) for leaf in leaves]
        return tuple(np.maximum(amounts, 0.0) for amounts in (entropy, error, *further))

    def outlook(self, nodes: Nodes, time: int, chosen: IntArray, *, pair_state: Any) -> Any:
        """P(Z = z | node) as a sparse matrix [node, secret value]."""
        from scipy.sparse import csr_array

        _, entry = spread(nodes.start, chosen)
        starts = np.concatenate(([0], np.cumsum(nodes.start[chosen + 1] - nodes.start[chosen])))
        prediction = self.predictions[self.horizon - time]
        shape = (chosen.size, prediction.shape[0])
        beliefs = csr_array((np.real(nodes.belief[entry]), pair_state[nodes.pair[entry]], starts), shape=shape)
        return csr_array(beliefs @ prediction)


def _row_totals(matrix: Any, values: FloatArray) -> FloatArray:
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.bincount(owner, weights=values, minlength=matrix.shape[0]).astype(np.float64)
