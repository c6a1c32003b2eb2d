"""Belief graphs of frozen shape: built once by hashing, then swept while only the policy changes.

While every probability that was positive stays positive, the supports of the beliefs, the arcs between them and the
merges that hold for every policy stay as they are; a sweep then only multiplies numbers, with no hashing and no search.
Merges that held at the policy the shape was built for by coincidence are found out: at every arc into a node that has
its belief already, one random projection of the belief is compared with the node's. The shape is not believed but
checked, and a sweep that finds a mismatch says so instead of giving a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.frozen_shape import Buffers, Links, Shape, make_links, make_shape
from opaq.beliefs.frozen_sweep import entropy_step, fill_leaves, slope_step, sweep_backward, sweep_forward
from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.kernels import ByteArray, Moves
from opaq.beliefs.leaf_rows import LeafRows, cell_values
from opaq.beliefs.returns import secret_slope
from opaq.beliefs.unrolling import unroll
from opaq.model.arrays import BoolArray, FloatArray
from opaq.model.leaf import Leaf
from opaq.product.process import HiddenProcess
from opaq.stop import Stop


@dataclass(frozen=True, slots=True, eq=False)
class FrozenGraph:
    """The belief graph of one process, to be evaluated at many policies near the one it was built for."""

    process: HiddenProcess
    shape: Shape
    links: Links
    weights: FloatArray  # [state]: the random projection
    positive: BoolArray  # [edge]: which flows are positive
    leaf: Leaf | None  # what is evaluated; None: opacity
    rows: LeafRows | None  # the masses at the leaves as rows, where the compiled sweep does not do
    num_nodes: int
    dropped_mass: float  # at the policy it was built for

    @classmethod
    def of(
        cls,
        process: HiddenProcess,
        pi: FloatArray,
        *,
        budget: Budget,
        leaf: Leaf | None = None,
        stop: Stop | None = None,
    ) -> FrozenGraph:
        """Built at one policy vector; what does not fit the budget there is left out for good.

        leaf: the uncertainty that sweeps evaluate, opacity by default.
        """
        chain = Chain.of(process, pi, stop=stop)
        graph = unroll(chain, steps=process.horizon, budget=budget, keep=True)
        chain.stop.check()
        links = make_links(process)
        shape = make_shape(graph, chain, links)
        compiled = leaf is None or leaf.compiled == "opacity"
        return cls(
            process=process,
            shape=shape,
            links=links,
            weights=1.0 + np.random.default_rng(0x0BAC).random(process.num_states + 1),
            positive=np.real(chain.moves.flow) > 0.0,
            leaf=leaf,
            rows=None if compiled else _rows(process, shape),
            num_nodes=graph.num_nodes,
            dropped_mass=graph.dropped_mass,
        )

    def buffers(self, dtype: Any = np.float64) -> Buffers:
        """Memory for sweeps with real or complex numbers; one sweep at a time may use it."""
        num_nodes, num_entries = self.shape.entry_start.size - 1, self.shape.state.size
        return Buffers(
            belief=np.empty(num_entries, dtype),
            mass=np.empty(num_nodes, dtype),
            filled=np.empty(num_nodes, np.bool_),
            projection=np.empty(num_nodes, dtype),
            adjoint=np.empty(num_entries, dtype),
            predicted=np.zeros(self.process.num_states + 1, dtype),
            expected=np.zeros(self.process.num_states + 1, dtype),
            cell_mass=np.zeros(self.process.pairs.cell_observation.size, dtype),
            surprise=np.zeros(self.process.pairs.cell_observation.size, dtype),
            chance=np.zeros(self.process.num_observations, dtype),
            link_chance=np.empty(self.links.cell.size, dtype),
            link_slope=np.empty(self.links.cell.size, dtype),
        )

    def sweep(self, pi: Any, buffers: Buffers, *, stop: Stop | None = None) -> tuple[float, Any] | None:
        """Opacity (or the leaf) and its derivative by the policy vector, or None where the shape does not fit.

        Raises StoppedError when `stop` is requested meanwhile.
        """
        stop = stop or Stop()
        moves = Moves(*self.process.edges, self.process.flow(pi))
        if not np.array_equal(np.real(moves.flow) > 0.0, self.positive):
            return None
        cell = stop.cell()
        fits = sweep_forward(self.shape, moves, self.weights, buffers, cell)
        stop.check()
        if not fits:
            return None
        slope = np.zeros(moves.flow.size, moves.flow.dtype)
        if self.leaf is None or self.rows is None:
            value = entropy_step(self.shape, self.links, moves, buffers, slope, cell)
        else:
            value = self._leaf_step(self.leaf, self.rows, moves, buffers, slope, cell)
        sweep_backward(self.shape, moves, buffers, slope, cell)
        stop.check()
        return self._with_certain(pi, float(value), self.process.edge_slots.T @ slope)

    def _leaf_step(
        self, leaf: Leaf, rows: LeafRows, moves: Moves, buffers: Buffers, slope: Any, cell: ByteArray
    ) -> float:
        """The expected excess of a leaf, and the adjoints there; adds to `slope`."""
        masses = np.zeros(rows.num_entries, moves.flow.dtype)
        fill_leaves(self.shape, self.links, moves, buffers, masses, cell)
        amounts, slopes = rows.evaluate(leaf, masses)
        slope_step(self.shape, self.links, moves, buffers, slopes, slope, cell)
        return float(np.real(buffers.mass[self.shape.first_leaf :]) @ amounts)

    def _with_certain(self, pi: Any, value: float, slope: Any) -> tuple[float, Any]:
        """With what a leaf is where the secret is known."""
        if self.leaf is None or not self.leaf.certain.any():
            return value, slope
        mean, mean_slope = secret_slope(self.process, pi, self.leaf.certain)
        return value + float(np.real(mean)), slope + mean_slope


def _rows(process: HiddenProcess, shape: Shape) -> LeafRows:
    observation = process.pairs.cell_observation[shape.cell].astype(np.int64)
    return LeafRows.of(shape.cell_start.astype(np.int64), cell_values(process)[shape.cell], observation)
