"""Sums over all levels of a belief graph: what every belief adds, not only the last ones.

With f positively homogeneous, a node of mass m and belief b at level t adds m times f after the next observation o_t:

    value = sum over t of w_t sum over nodes n of level t of m_n f(masses of the cells of o_t | b_n).

What f is a function of are the cells. With those of (observation, secret value) and Shannon's f this is
sum_t w_t H(Z_t | o_0 .. o_t), the secret's value being that of the present. With one cell per observation, and the
observer blind to all, it is the entropy of the outputs, H(O_0 .. O_T) = sum_t H(O_t | o_0 .. o_{t-1}): the sum over
arcs of k log2(m / k), k being the part of m that the arc carries. The leaf of `leaves` has w = (0, .., 0, 1).

Continuations after which the secret is settled still add to such sums, so that the process may have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opaq.beliefs.frozen import Buffers, FrozenGraph, entropy_step, leaf_cells, sweep_backward, sweep_forward
from opaq.beliefs.graph import Budget, Chain, ChainEdges, Graph, new_scratch
from opaq.beliefs.leaves import evaluate_nodes
from opaq.beliefs.unroll import unroll
from opaq.kernel_cache import kernel
from opaq.model.arrays import FloatArray, IndexArray, IntArray, SparseRows, indices, inner_product, ints
from opaq.model.uncertainty import Uncertainty
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop


def show(process: HiddenProcess, emission: SparseRows, secret: IntArray) -> HiddenProcess:
    """Return the same process seen through another emission, with another secret of the present; none is settled.

    emission: [state, observation]. secret: [state] -> secret value.
    """
    return replace(
        process,
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=ints(secret),
        settled=ints(np.full(process.num_states, -1)),
        lasting=ints(np.zeros(process.num_states)),
        num_observations=emission.num_columns,
        num_secrets=int(secret.max(initial=0)) + 1,
    )


def output_cells(process: HiddenProcess) -> Pairs:
    """Return one cell per observation, all of them unseen: opacity is then the entropy of the next observation.

    Observations that the graph merges, because they say the same about the state, have cells of their own.
    """
    nothing = np.zeros(process.num_states, dtype=np.int64)
    named = Pairs.of(process.emission, nothing, merged=False)
    return named._replace(state=process.pairs.state, cell_observation=indices(np.zeros(named.cell_observation.size)))


def chain_with_cells(
    process: HiddenProcess, pi: Any, cells: Pairs, *, stop: Stop | None = None, workers: int = 1
) -> Chain:
    """Lay out a process under one policy vector, with working memory for these cells."""
    chain = Chain.of(process, pi, stop=stop, workers=workers)
    work = new_scratch(
        num_states=process.num_states,
        num_observations=process.num_observations,
        num_pairs=chain.pairs.state.size,
        num_cells=max(cells.cell_observation.size, chain.pairs.cell_observation.size),
        like=chain.moves.flow,
        stop=chain.stop.cell(),
    )
    return replace(chain, work=work)


@dataclass(frozen=True, slots=True)
class LevelMeans:
    """The mean of an uncertainty over the nodes of every level, and how much probability they lack."""

    kept: FloatArray  # [time]: sum over nodes of mass x expected excess
    missing: FloatArray  # [time]: probability that was left out


def level_means(chain: Chain, graph: Graph, leaf: Uncertainty, cells: Pairs) -> LevelMeans:
    """Return the means of an uncertainty over the levels of a graph that has kept them.

    Levels that were not made, and nodes that were not dealt with when the work was asked to stop, count as missing.
    """
    horizon = chain.process.horizon
    kept, missing = np.zeros(horizon + 1), np.ones(horizon + 1)
    for time, level in enumerate(graph.levels):
        step = evaluate_nodes(chain, level.nodes, leaves=() if leaf.compiled else (leaf,), cells=cells)
        mass, excess = np.real(level.nodes.mass), step.excess[leaf.compiled or leaf.name]
        kept[time] = inner_product(mass[: step.num_done], excess[: step.num_done])
        done = step.num_done == mass.size
        missing[time] = 0.0 if graph.whole and done else max(0.0, 1.0 - float(mass[: step.num_done].sum()))
    return LevelMeans(kept, missing)


@kernel
def _forward(shape, moves, weights, buffers, stop):
    """Compute beliefs and masses of all nodes for one policy; return whether the shape fits it."""
    return sweep_forward(
        shape.entry_start, shape.state, shape.emission, shape.arc_start, shape.child, shape.first_leaf,
        moves.start, moves.target, moves.flow, weights,
        buffers.belief, buffers.mass, buffers.filled, buffers.projection, buffers.predicted, stop,
    )  # fmt: skip


@kernel
def _level_entropy(shape, first, cell_start, cell, links, moves, buffers, slope, stop):
    """Return the entropy expected at the nodes of one level, write their adjoints, and add to `slope`."""
    return entropy_step(
        shape.entry_start, shape.state, first, cell_start, cell,
        links.start, links.cell, links.observation, links.part_start, links.part_link, links.part_value, moves.flow,
        buffers.belief, buffers.mass, buffers.adjoint, buffers.cell_mass, buffers.surprise, buffers.chance,
        buffers.link_chance, buffers.link_slope, slope, stop,
    )  # fmt: skip


@kernel
def _backward(shape, moves, buffers, slope, stop):
    """Carry the adjoints of all levels back to the root, and add d value / d flow to `slope`."""
    sweep_backward(
        shape.entry_start, shape.state, shape.emission, shape.arc_start, shape.child, shape.first_leaf,
        moves.start, moves.target, moves.flow, buffers.belief, buffers.mass, buffers.adjoint, buffers.expected,
        slope, stop,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class FrozenLevels:
    """A belief graph of frozen shape on which the entropy of the cells is evaluated at every level."""

    graph: FrozenGraph
    first: IntArray  # [level]: its first node
    cells: tuple[tuple[IndexArray, IndexArray], ...]  # [level] -> where the cells of its nodes begin, and the cells

    @classmethod
    def of(
        cls, process: HiddenProcess, pi: FloatArray, cells: Pairs, *, budget: Budget, stop: Stop | None = None
    ) -> FrozenLevels:
        """Build the shape at one policy vector; what does not fit the budget there is left out for good.

        cells: whose masses the entropy is a function of. Raises StoppedError when `stop` is requested meanwhile.
        """
        chain = chain_with_cells(process, pi, cells, stop=stop, workers=budget.workers)
        unrolled = unroll(chain, steps=process.horizon, budget=budget, keep=True)
        chain.stop.check()
        graph = FrozenGraph.from_graph(chain, unrolled, cells=cells)
        listed = [leaf_cells(level.nodes, graph.links, chain) for level in unrolled.levels]
        sizes = [level.num_nodes for level in unrolled.levels]
        return cls(
            graph,
            ints(np.concatenate(([0], np.cumsum(sizes[:-1])))),
            tuple((indices(start), indices(cell)) for start, cell in listed),
        )

    def sweep(
        self, pi: Any, weights: FloatArray, buffers: Buffers, *, stop: Stop | None = None
    ) -> tuple[FloatArray, Any] | None:
        """Return the entropy of every level [time] and d their weighted sum / d pi; None where the shape does not fit.

        pi: [slot] policy vector, real or complex. weights: [time]. buffers: of the same number type, of the graph's.
        Raises StoppedError when `stop` is requested meanwhile.
        """
        stop, graph = stop or Stop(), self.graph
        moves = ChainEdges(*graph.process.edges, graph.process.flow(pi))
        if not np.array_equal(np.real(moves.flow) > 0.0, graph.positive):
            return None
        byte, slope = stop.cell(), np.zeros(moves.flow.size, moves.flow.dtype)
        if not _forward(graph.shape, moves, graph.weights, buffers, byte):
            return None
        values, ends = np.zeros(weights.size), graph.shape.entry_start[[*self.first, -1]]
        for time, (start, cell) in enumerate(self.cells):
            own = np.zeros_like(slope)
            values[time] = _level_entropy(
                graph.shape, self.first[time], start, cell, graph.links, moves, buffers, own, byte
            )
            slope += weights[time] * own
            buffers.adjoint[ends[time] : ends[time + 1]] *= weights[time]
        _backward(graph.shape, moves, buffers, slope, byte)
        stop.check()
        return values, graph.process.edge_slots.T @ slope
