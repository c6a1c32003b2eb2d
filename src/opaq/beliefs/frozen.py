"""Belief graphs of frozen shape: built once by hashing, then swept while only the policy changes.

While every probability that was positive stays positive, the supports of the beliefs, the arcs between them and the
merges that hold for every policy stay as they are; a sweep then only multiplies numbers, with no hashing and no search.
The shape is not believed but checked: merges that held only by coincidence at the policy it was built for are found at
every arc into a node that has its belief already, where one random projection sum over x of w(x) b(x) is compared with
the node's. A sweep that finds a mismatch returns None instead of a number.

The last observation needs no nodes: with P(o, z | x) of one step ahead (links), a leaf b contributes

    - sum over (o, z) of P(o, z | b) log2(P(o, z | b) / P(o | b)),

whose derivative by b(x) is - sum over (o, z) of P(o, z | x) log2 P(z | b, o). The backward sweep carries these adjoints
up. With a_o(x') the adjoint of the child that observation o leads to, a node of mass m and belief b has

    ahead(x') = sum over o of E(o | x') a_o(x'),     a(x) = sum over x' of P_pi(x' | x) ahead(x'),

and adds m b(x) ahead(x') to the derivative by P_pi(x' | x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.graph import BITS, IMPOSSIBLE, STEP, Budget, ByteArray, Chain, ChainEdges, Graph, Nodes, NumberArray
from opaq.beliefs.leaves import cell_values
from opaq.beliefs.returns import secret_slope
from opaq.beliefs.unroll import unroll
from opaq.kernel_cache import helper, inlined, kernel
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray, expand_rows, frozen, indices, inner_product
from opaq.model.uncertainty import MassRows, Uncertainty
from opaq.product.process import HiddenProcess, Pairs
from opaq.stop import Stop


class _GraphShape(NamedTuple):
    """The nodes of all levels, one level after the other, without their numbers."""

    entry_start: IndexArray  # [node + 1]
    state: IndexArray  # [entry]
    emission: FloatArray  # [entry]: E(o | x) of the observation that led there
    arc_start: IndexArray  # [node + 1]: nodes of the last level have no arcs
    child: IndexArray  # [arc]
    first_leaf: int  # the first node of the last level
    cell_start: IndexArray  # [leaf + 1]
    cell: IndexArray  # the (observation, secret value) cells that may follow a leaf


class _Links(NamedTuple):
    """From a state to the cells of the last observation, one step ahead.

    P(o, z | x) is the sum over parts, (edge of x, pair of its target) with that cell, of flow[edge] * E(o | target).
    """

    start: IndexArray  # [state + 2]: the links of every state, the source's last
    cell: IndexArray  # [link]
    observation: IndexArray  # [cell]
    part_start: IndexArray  # [edge + 1]
    part_link: IndexArray  # [part]: the link that an (edge, pair of its target) adds to
    part_value: FloatArray  # [part]: E(o | target)


class Buffers(NamedTuple):
    """The numbers of a sweep; the memory is used again by the next one.

    Arrays that are "0 between nodes" (or leaves) are cleaned where they were written; the others need not be.
    """

    belief: NumberArray  # [entry]
    mass: NumberArray  # [node]
    filled: BoolArray  # [node]: whether a sweep has given it its belief
    projection: NumberArray  # [node]
    adjoint: NumberArray  # [entry]
    predicted: NumberArray  # [state]: 0 between nodes
    expected: NumberArray  # [state]: 0 between nodes
    cell_mass: NumberArray  # [cell]: 0 between leaves
    surprise: NumberArray  # [cell]
    chance: NumberArray  # [observation]: 0 between leaves
    link_chance: NumberArray  # [link]: P(o, z | x)
    link_slope: NumberArray  # [link]: d value / d that


def _make_links(process: HiddenProcess, pairs: Pairs) -> _Links:
    """Return what every edge adds to the cells that its state leads to.

    A link is a (state, cell) with P(o, z | x) > 0 for some policy; a part is one (edge, pair of its target) that adds
    to it. pairs: whose cells they are.
    """
    num_edges = process.edge_target.size
    owner = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    edge, pair = expand_rows(pairs.start.astype(np.int64), process.edge_target)
    num_cells = pairs.cell_observation.size
    codes, link = np.unique(owner[edge] * num_cells + pairs.cell[pair], return_inverse=True)
    counts = np.bincount(codes // num_cells, minlength=process.num_states + 1)
    return _Links(
        start=indices(np.concatenate(([0], np.cumsum(counts)))),
        cell=indices(codes % num_cells),
        observation=indices(pairs.cell_observation),
        part_start=indices(np.concatenate(([0], np.cumsum(np.bincount(edge, minlength=num_edges))))),
        part_link=indices(link.reshape(-1)),
        part_value=pairs.value[pair],
    )


def leaf_cells(leaves: Nodes, links: _Links, chain: Chain) -> tuple[IntArray, IndexArray]:
    """Return the cells that may follow each leaf: cell_start [leaf + 1], and the cells."""
    num_leaves, done = leaves.mass.size, 0
    cell_start, cells = np.zeros(num_leaves + 1, np.int64), np.empty(2 * leaves.pair.size + 64, np.uint32)
    while True:
        done = _list_leaf_cells(
            leaves.start, leaves.pair, chain.pairs.state, links.start, links.cell, chain.work.listed, done, cell_start,
            cells,
        )  # fmt: skip
        if done == num_leaves:
            return cell_start, cells[: cell_start[-1]]
        cells = np.concatenate((cells, np.empty_like(cells)))


def _make_shape(graph: Graph, chain: Chain, links: _Links) -> _GraphShape:
    """Return all levels of a graph as one shape; arcs to dropped nodes are left out."""
    sizes = [level.num_nodes for level in graph.levels]
    first = np.concatenate(([0], np.cumsum(sizes)))
    counts = np.concatenate([np.diff(level.nodes.start) for level in graph.levels])
    arc_counts, children = [], []
    for depth, level in enumerate(graph.levels[1:], start=1):
        owner = np.repeat(np.arange(sizes[depth - 1], dtype=np.int32), np.diff(level.arcs.start))
        kept = level.arcs.child >= 0
        arc_counts.append(np.bincount(owner[kept], minlength=sizes[depth - 1]))
        children.append(indices(level.arcs.child[kept] + first[depth]))
    arc_counts.append(np.zeros(sizes[-1], dtype=np.int64))
    pair = np.concatenate([level.nodes.pair for level in graph.levels])
    cell_start, cell = leaf_cells(graph.last, links, chain)
    return _GraphShape(
        entry_start=indices(np.concatenate(([0], np.cumsum(counts)))),
        state=frozen(chain.pairs.state[pair]),
        emission=chain.pairs.value[pair],
        arc_start=indices(np.concatenate(([0], np.cumsum(np.concatenate(arc_counts))))),
        child=frozen(np.concatenate([*children, np.zeros(0, dtype=np.uint32)])),
        first_leaf=int(first[-2]),
        cell_start=indices(cell_start),
        cell=indices(cell),
    )


@kernel
def _list_leaf_cells(start, entry_pair, pair_state, link_start, link_cell, listed, leaf, cell_start, cells):
    """List the cells that may follow each leaf, from leaf number `leaf` on; return the first whose cells do not fit.

    cell_start: [leaf + 1], cells: the cells of leaf l are cell_start[l] .. cell_start[l + 1] - 1.
    """
    while leaf < cell_start.size - 1:
        num_cells = cell_start[leaf]
        fits = True
        for entry in range(start[leaf], start[leaf + 1]):
            state = pair_state[entry_pair[entry]]
            for link in range(link_start[state], link_start[state + 1]):
                cell = link_cell[link]
                if listed[cell]:
                    continue
                if num_cells == cells.size:
                    fits = False
                    break
                listed[cell] = True
                cells[num_cells] = cell
                num_cells += 1
        for index in range(cell_start[leaf], num_cells):
            listed[cells[index]] = False
        if not fits:
            return leaf
        leaf += 1
        cell_start[leaf] = num_cells
    return leaf


_TOLERANCE = 1e-9  # of a projection, whose weights are between 1 and 2; merged beliefs agree to 4e-12


@helper
def sweep_forward(
    entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow, weights,
    belief, mass, filled, projection, predicted, stop,
):  # fmt: skip
    """Compute beliefs and masses of all nodes for one policy.

    Returns False where two beliefs that were merged are no longer proportional: where the random projections that the
    `weights` [state] define differ by more than rounding. Tangents count too, and NaN differs.
    """
    for node in range(mass.size):
        mass[node] = 0.0
        filled[node] = False
    mass[0] = 1.0
    belief[0] = 1.0
    filled[0] = True
    fits = True
    for node in range(first_leaf):
        if stop[0] != 0 or not fits:
            break
        if not filled[node]:
            continue
        for entry in range(entry_start[node], entry_start[node + 1]):  # P(x' | node)
            state = entry_state[entry]
            weight = belief[entry]
            for edge in range(edge_start[state], edge_start[state + 1]):
                predicted[edge_target[edge]] += weight * flow[edge]
        for arc in range(arc_start[node], arc_start[node + 1]):
            child = arc_child[arc]
            first, last = entry_start[child], entry_start[child + 1]
            chance, seen = 0.0 * mass[0], 0.0 * mass[0]  # P(o | node), and the projection before normalising
            for entry in range(first, last):
                value = predicted[entry_state[entry]] * emission[entry]
                chance += value
                seen += value * weights[entry_state[entry]]
            if chance.real < IMPOSSIBLE:
                continue
            seen = seen / chance
            if not filled[child]:
                scale = 1.0 / chance
                for entry in range(first, last):
                    belief[entry] = predicted[entry_state[entry]] * emission[entry] * scale
                projection[child] = seen
                filled[child] = True
            else:
                off = seen - projection[child]
                if not (abs(off.real) <= _TOLERANCE and abs(off.imag) <= _TOLERANCE * STEP):
                    fits = False
                    break
            mass[child] += mass[node] * chance
        for entry in range(entry_start[node], entry_start[node + 1]):
            state = entry_state[entry]
            for edge in range(edge_start[state], edge_start[state + 1]):
                predicted[edge_target[edge]] = 0.0
    for node in range(mass.size):
        if not filled[node]:  # it has no mass at this policy, and no belief
            for entry in range(entry_start[node], entry_start[node + 1]):
                belief[entry] = 0.0
    return fits


@inlined
def _fill_links(part_start, part_link, part_value, flow, link_chance, link_slope):
    """Write P(o, z | x) of every link, and slopes of 0."""
    for link in range(link_chance.size):
        link_chance[link] = 0.0
        link_slope[link] = 0.0
    for edge in range(flow.size):
        for part in range(part_start[edge], part_start[edge + 1]):
            link_chance[part_link[part]] += flow[edge] * part_value[part]


@inlined
def _fill_cells(node, entry_start, entry_state, belief, link_start, link_cell, link_chance, cell_mass):
    """Add P(o, z | leaf) to the cells, which are 0 before."""
    for entry in range(entry_start[node], entry_start[node + 1]):
        state = entry_state[entry]
        weight = belief[entry]
        for link in range(link_start[state], link_start[state + 1]):
            cell_mass[link_cell[link]] += weight * link_chance[link]


@inlined
def _leaf_adjoint(
    node, entry_start, entry_state, belief, mass, link_start, link_cell, link_chance, link_slope, surprise, adjoint
):
    """Write the adjoints of a leaf's entries, given the slope by every cell's mass in `surprise`.

    Adds the leaf's part of d value / d P(o, z | x) to `link_slope`.
    """
    for entry in range(entry_start[node], entry_start[node + 1]):
        state = entry_state[entry]
        weight = mass[node] * belief[entry]
        total = 0.0 * weight
        for link in range(link_start[state], link_start[state + 1]):
            ahead = surprise[link_cell[link]]
            total += link_chance[link] * ahead
            link_slope[link] += weight * ahead
        adjoint[entry] = total


@inlined
def clear_adjoints(entry_start, first_leaf, adjoint):
    """Set the adjoints of all nodes before the leaves to 0, where only leaves have a value."""
    for entry in range(entry_start[first_leaf]):
        adjoint[entry] = 0.0


@inlined
def _add_link_slopes(part_start, part_link, part_value, link_slope, slope):
    """Add d value / d flow to `slope` [edge], from the slopes of the links."""
    for edge in range(slope.size):
        for part in range(part_start[edge], part_start[edge + 1]):
            slope[edge] += part_value[part] * link_slope[part_link[part]]


@helper
def entropy_step(
    entry_start, entry_state, first_leaf, cell_start, leaf_cell,
    link_start, link_cell, cell_observation, part_start, part_link, part_value, flow,
    belief, mass, adjoint, cell_mass, surprise, chance, link_chance, link_slope, slope, stop,
):  # fmt: skip
    """Return the expected H(Z | y) in bits after the last observation, and write the adjoints of the leaves.

    Adds d value / d flow to `slope`. Cells of no mass count as 0, with derivative 0. See `leaves._leaf_values`.
    """
    _fill_links(part_start, part_link, part_value, flow, link_chance, link_slope)
    total = 0.0
    for leaf in range(cell_start.size - 1):
        if stop[0] != 0:
            break
        node = first_leaf + leaf
        _fill_cells(node, entry_start, entry_state, belief, link_start, link_cell, link_chance, cell_mass)
        first, last = cell_start[leaf], cell_start[leaf + 1]
        for index in range(first, last):
            cell = leaf_cell[index]
            chance[cell_observation[cell]] += cell_mass[cell]
        entropy = 0.0
        for index in range(first, last):  # -log2 P(z | y)
            cell = leaf_cell[index]
            share = cell_mass[cell]
            whole = chance[cell_observation[cell]]
            cell_mass[cell] = 0.0
            if share.real >= IMPOSSIBLE and share != whole:
                surprise[cell] = np.log(whole / share) * BITS
                entropy += share.real * surprise[cell].real
            else:
                surprise[cell] = 0.0
        for index in range(first, last):
            chance[cell_observation[leaf_cell[index]]] = 0.0
        total += mass[node].real * entropy
        _leaf_adjoint(
            node, entry_start, entry_state, belief, mass, link_start, link_cell, link_chance, link_slope, surprise,
            adjoint,
        )  # fmt: skip
    _add_link_slopes(part_start, part_link, part_value, link_slope, slope)
    return total


@helper
def sweep_backward(
    entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow,
    belief, mass, adjoint, expected, slope, stop,
):  # fmt: skip
    """Add to the adjoints of all entries what follows from those of the next level; adds d value / d flow to `slope`.

    Before, the adjoints of the last level are known, and those of other levels are what their nodes add themselves.
    """
    for behind in range(first_leaf):
        node = first_leaf - 1 - behind
        if stop[0] != 0:
            break
        for arc in range(arc_start[node], arc_start[node + 1]):  # ahead(x') = sum over o of E(o | x') a_o(x')
            child = arc_child[arc]
            for entry in range(entry_start[child], entry_start[child + 1]):
                expected[entry_state[entry]] += emission[entry] * adjoint[entry]
        for entry in range(entry_start[node], entry_start[node + 1]):  # a(x) += sum over x' of P_pi(x' | x) ahead(x')
            state = entry_state[entry]
            weight = mass[node] * belief[entry]
            total = adjoint[entry]
            for edge in range(edge_start[state], edge_start[state + 1]):
                ahead = expected[edge_target[edge]]
                total += flow[edge] * ahead
                slope[edge] += weight * ahead
            adjoint[entry] = total
        for arc in range(arc_start[node], arc_start[node + 1]):
            child = arc_child[arc]
            for entry in range(entry_start[child], entry_start[child + 1]):
                expected[entry_state[entry]] = 0.0


@kernel
def _sweep(shape, links, moves, weights, buffers, slope, stop):
    """Return whether the shape fits a policy, and the expected H(Z | y) in bits; add d value / d flow to `slope`."""
    entry_start, entry_state, emission, arc_start = shape.entry_start, shape.state, shape.emission, shape.arc_start
    arc_child, first_leaf, edge_start, edge_target = shape.child, shape.first_leaf, moves.start, moves.target
    flow, belief, mass, adjoint = moves.flow, buffers.belief, buffers.mass, buffers.adjoint
    fits = sweep_forward(
        entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow, weights,
        belief, mass, buffers.filled, buffers.projection, buffers.predicted, stop,
    )  # fmt: skip
    if not fits:
        return False, 0.0
    value = entropy_step(
        entry_start, entry_state, first_leaf, shape.cell_start, shape.cell,
        links.start, links.cell, links.observation, links.part_start, links.part_link, links.part_value, flow,
        belief, mass, adjoint, buffers.cell_mass, buffers.surprise, buffers.chance, buffers.link_chance,
        buffers.link_slope, slope, stop,
    )  # fmt: skip
    clear_adjoints(entry_start, first_leaf, adjoint)
    sweep_backward(
        entry_start, entry_state, emission, arc_start, arc_child, first_leaf, edge_start, edge_target, flow,
        belief, mass, adjoint, buffers.expected, slope, stop,
    )  # fmt: skip
    return True, value


@kernel
def _sweep_to_leaves(shape, links, moves, weights, buffers, masses, stop):
    """Write P(o, z | leaf) of every cell that may follow a leaf, in the order of shape.cell.

    Returns whether the shape fits the policy.
    """
    entry_start, entry_state, first_leaf = shape.entry_start, shape.state, shape.first_leaf
    cell_start, leaf_cell, link_start, link_cell = shape.cell_start, shape.cell, links.start, links.cell
    flow, belief, cell_mass, link_chance = moves.flow, buffers.belief, buffers.cell_mass, buffers.link_chance
    part_start, part_link, part_value = links.part_start, links.part_link, links.part_value
    link_slope = buffers.link_slope
    fits = sweep_forward(
        entry_start, entry_state, shape.emission, shape.arc_start, shape.child, first_leaf, moves.start, moves.target,
        flow, weights, belief, buffers.mass, buffers.filled, buffers.projection, buffers.predicted, stop,
    )  # fmt: skip
    if not fits:
        return False
    _fill_links(part_start, part_link, part_value, flow, link_chance, link_slope)
    for leaf in range(cell_start.size - 1):
        if stop[0] != 0:
            break
        _fill_cells(first_leaf + leaf, entry_start, entry_state, belief, link_start, link_cell, link_chance, cell_mass)
        for index in range(cell_start[leaf], cell_start[leaf + 1]):
            masses[index] = cell_mass[leaf_cell[index]]
            cell_mass[leaf_cell[index]] = 0.0
    return True


@kernel
def _sweep_from_leaves(shape, links, moves, buffers, cell_slope, slope, stop):
    """Add d value / d flow to `slope`, given the slope by the mass of every cell that may follow a leaf."""
    entry_start, entry_state, first_leaf = shape.entry_start, shape.state, shape.first_leaf
    cell_start, leaf_cell, link_start, link_cell = shape.cell_start, shape.cell, links.start, links.cell
    part_start, part_link, part_value = links.part_start, links.part_link, links.part_value
    flow, belief, mass, adjoint, surprise = moves.flow, buffers.belief, buffers.mass, buffers.adjoint, buffers.surprise
    link_chance, link_slope = buffers.link_chance, buffers.link_slope
    for leaf in range(cell_start.size - 1):
        if stop[0] != 0:
            break
        for index in range(cell_start[leaf], cell_start[leaf + 1]):
            surprise[leaf_cell[index]] = cell_slope[index]
        _leaf_adjoint(
            first_leaf + leaf, entry_start, entry_state, belief, mass, link_start, link_cell, link_chance, link_slope,
            surprise, adjoint,
        )  # fmt: skip
    _add_link_slopes(part_start, part_link, part_value, link_slope, slope)
    clear_adjoints(entry_start, first_leaf, adjoint)
    sweep_backward(
        entry_start, entry_state, shape.emission, shape.arc_start, shape.child, first_leaf, moves.start, moves.target,
        flow, belief, mass, adjoint, buffers.expected, slope, stop,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class FrozenGraph:
    """The belief graph of one process, to be evaluated at many policies near the one it was built for.

    A sweep costs a fraction of unrolling, since nothing is hashed: one pass forward for beliefs and masses, one step at
    the leaves, one pass back for the derivative. It is exact up to what the budget dropped (`dropped_mass`, 0 if
    nothing).
    """

    process: HiddenProcess
    shape: _GraphShape
    links: _Links
    weights: FloatArray  # [state]: the random projection
    positive: BoolArray  # [edge]: which flows are positive
    leaf: Uncertainty | None  # what is evaluated; None: opacity
    rows: MassRows | None  # the masses at the leaves as rows, where the compiled sweep does not do
    num_nodes: int
    dropped_mass: float  # at the policy it was built for

    @classmethod
    def of(
        cls,
        process: HiddenProcess,
        pi: FloatArray,
        *,
        budget: Budget,
        leaf: Uncertainty | None = None,
        stop: Stop | None = None,
    ) -> FrozenGraph:
        """Build the shape at one policy vector; what does not fit the budget there is left out for good.

        process, pi: the process, and the policy vector [slot] at which it is unrolled.
        budget: of the belief graph, all of whose levels are kept.
        leaf: the uncertainty that sweeps evaluate, opacity by default.
        Raises StoppedError when `stop` is requested meanwhile.
        """
        chain = Chain.of(process, pi, stop=stop, workers=budget.workers)
        graph = unroll(chain, steps=process.horizon, early=True, budget=budget, keep=True, shape_only=True)
        chain.stop.check()
        return cls.from_graph(chain, graph, leaf=leaf)

    @classmethod
    def from_graph(
        cls, chain: Chain, graph: Graph, *, leaf: Uncertainty | None = None, cells: Pairs | None = None
    ) -> FrozenGraph:
        """Freeze the shape of a graph that has kept its levels.

        leaf: as in `of`. cells: whose masses opacity is a function of; (observation, secret value) unless given.
        """
        process, links = chain.process, _make_links(chain.process, cells or chain.pairs)
        shape = _make_shape(graph, chain, links)
        compiled = leaf is None or leaf.compiled == "opacity"
        return cls(
            process=process,
            shape=shape,
            links=links,
            weights=1.0 + np.random.default_rng(0x0BAC).random(process.num_states + 1),
            positive=np.real(chain.moves.flow) > 0.0,
            leaf=leaf,
            rows=None if compiled else _leaf_rows(process, shape),
            num_nodes=graph.num_nodes,
            dropped_mass=graph.dropped_mass,
        )

    def buffers(self, dtype: Any = np.float64) -> Buffers:
        """Return memory for sweeps with numbers of this type; one sweep at a time may use it."""
        num_nodes, num_entries = self.shape.entry_start.size - 1, self.shape.state.size
        return Buffers(
            belief=np.empty(num_entries, dtype),
            mass=np.empty(num_nodes, dtype),
            filled=np.empty(num_nodes, np.bool_),
            projection=np.empty(num_nodes, dtype),
            adjoint=np.empty(num_entries, dtype),
            predicted=np.zeros(self.process.num_states + 1, dtype),
            expected=np.zeros(self.process.num_states + 1, dtype),
            cell_mass=np.zeros(self.links.observation.size, dtype),
            surprise=np.zeros(self.links.observation.size, dtype),
            chance=np.zeros(self.process.num_observations, dtype),
            link_chance=np.empty(self.links.cell.size, dtype),
            link_slope=np.empty(self.links.cell.size, dtype),
        )

    def sweep(self, pi: Any, buffers: Buffers, *, stop: Stop | None = None) -> tuple[float, Any] | None:
        """Return opacity (or the leaf's mean) and its derivative [slot] by pi; None where the shape does not fit pi.

        pi: [slot] policy vector; complex where it carries a direction, and the derivative is complex then.
        buffers: of the same number type, from `buffers`.
        Raises StoppedError when `stop` is requested meanwhile.
        """
        stop = stop or Stop()
        moves = ChainEdges(*self.process.edges, self.process.flow(pi))
        if not np.array_equal(np.real(moves.flow) > 0.0, self.positive):
            return None
        cell, slope = stop.cell(), np.zeros(moves.flow.size, moves.flow.dtype)
        if self.leaf is None or self.rows is None:
            fits, value = _sweep(self.shape, self.links, moves, self.weights, buffers, slope, cell)
        else:
            fits, value = self._sweep_rows(self.leaf, self.rows, moves, buffers, slope, cell)
        stop.check()
        if not fits:
            return None
        return self._with_certain(pi, float(value), self.process.edge_slots.T @ slope)

    def _sweep_rows(
        self, leaf: Uncertainty, rows: MassRows, moves: ChainEdges, buffers: Buffers, slope: Any, cell: ByteArray
    ) -> tuple[bool, float]:
        """Return whether the shape fits, and the expected excess of a leaf that numpy evaluates; adds to `slope`."""
        masses = np.zeros(rows.num_entries, moves.flow.dtype)
        if not _sweep_to_leaves(self.shape, self.links, moves, self.weights, buffers, masses, cell):
            return False, 0.0
        amounts, slopes = rows.evaluate(leaf, masses)
        _sweep_from_leaves(self.shape, self.links, moves, buffers, slopes, slope, cell)
        return True, inner_product(np.real(buffers.mass[self.shape.first_leaf :]), amounts)

    def _with_certain(self, pi: Any, value: float, slope: Any) -> tuple[float, Any]:
        """Add E[c_Z], what a leaf is where the secret is known, to value and slope."""
        if self.leaf is None or not self.leaf.certain.any():
            return value, slope
        mean, mean_slope = secret_slope(self.process, pi, self.leaf.certain)
        return value + float(np.real(mean)), slope + mean_slope


def _leaf_rows(process: HiddenProcess, shape: _GraphShape) -> MassRows:
    """Return how the cells that follow the leaves form rows, one per (leaf, observation)."""
    observation = process.pairs.cell_observation[shape.cell].astype(np.int64)
    return MassRows.of(shape.cell_start.astype(np.int64), cell_values(process)[shape.cell], observation)
