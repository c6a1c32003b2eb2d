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

from opaq.beliefs.graph import BITS, IMPOSSIBLE, STEP, Budget, ByteArray, Chain, ChainEdges, Graph, NumberArray, enlarge
from opaq.beliefs.leaves import cell_values
from opaq.beliefs.returns import secret_slope
from opaq.beliefs.unroll import unroll
from opaq.kernel_cache import njit
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, expand_rows, indices
from opaq.model.uncertainty import MassRows, Uncertainty
from opaq.product.process import HiddenProcess
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


def _make_links(process: HiddenProcess) -> _Links:
    """Return what every edge adds to the cells that its state leads to.

    A link is a (state, cell) with P(o, z | x) > 0 for some policy; a part is one (edge, pair of its target) that adds
    to it.
    """
    pairs, num_edges = process.pairs, process.edge_target.size
    owner = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    edge, pair = expand_rows(process.emission.starts, process.edge_target)
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


def _make_shape(graph: Graph, chain: Chain, links: _Links) -> _GraphShape:
    """Return all levels of a graph as one shape; arcs to dropped nodes are left out."""
    sizes = [level.num_nodes for level in graph.levels]
    first = np.concatenate(([0], np.cumsum(sizes)))
    counts = np.concatenate([np.diff(level.nodes.start) for level in graph.levels])
    arc_counts, children = [], []
    for depth, level in enumerate(graph.levels[1:], start=1):
        owner = np.repeat(np.arange(sizes[depth - 1]), np.diff(level.arcs.start))
        kept = level.arcs.child >= 0
        arc_counts.append(np.bincount(owner[kept], minlength=sizes[depth - 1]))
        children.append(level.arcs.child[kept] + first[depth])
    arc_counts.append(np.zeros(sizes[-1], dtype=np.int64))
    pair = np.concatenate([level.nodes.pair for level in graph.levels])
    cell_start, cell = _list_leaf_cells(graph.last, links, chain.pairs, chain.work)
    return _GraphShape(
        entry_start=indices(np.concatenate(([0], np.cumsum(counts)))),
        state=indices(chain.pairs.state[pair]),
        emission=chain.pairs.value[pair],
        arc_start=indices(np.concatenate(([0], np.cumsum(np.concatenate(arc_counts))))),
        child=indices(np.concatenate([*children, np.zeros(0, dtype=np.int64)])),
        first_leaf=int(first[-2]),
        cell_start=indices(cell_start),
        cell=indices(cell),
    )


@njit(cache=True, nogil=True)
def _list_leaf_cells(leaves, links, pairs, work):
    """Return the cells that may follow each leaf: (cell_start [leaf + 1], cell)."""
    num_leaves = leaves.mass.size
    cell_start = np.zeros(num_leaves + 1, np.int64)
    cells = np.empty(2 * leaves.pair.size + 64, np.int32)
    num_cells = 0
    for leaf in range(num_leaves):
        for entry in range(leaves.start[leaf], leaves.start[leaf + 1]):
            state = pairs.state[leaves.pair[entry]]
            for link in range(links.start[state], links.start[state + 1]):
                cell = links.cell[link]
                if work.listed[cell]:
                    continue
                work.listed[cell] = True
                if num_cells == cells.size:
                    cells = enlarge(cells, 2 * num_cells)
                cells[num_cells] = cell
                num_cells += 1
        for index in range(cell_start[leaf], num_cells):
            work.listed[cells[index]] = False
        cell_start[leaf + 1] = num_cells
    return cell_start, cells[:num_cells].copy()


_TOLERANCE = 1e-9  # of a projection, whose weights are between 1 and 2; merged beliefs agree to 4e-12


@njit(cache=True)
def _project_child(first, last, states, emission, predicted, weights):
    """Return the chance of a child's observation, and the random projection of its belief before normalising.

    first, last: the child's entries. weights: [state] of the projection.
    """
    chance = predicted[0] * 0.0
    seen = predicted[0] * 0.0
    for entry in range(first, last):
        state = states[entry]
        value = predicted[state] * emission[entry]
        chance += value
        seen += value * weights[state]
    return chance, seen


@njit(cache=True)
def _fill_belief(first, last, states, emission, predicted, scale, belief):
    """Write the belief of a child: predicted * emission * scale, scale being 1 / P(o | parent)."""
    for entry in range(first, last):
        belief[entry] = predicted[states[entry]] * emission[entry] * scale


@njit(cache=True, nogil=True)
def _sweep_forward(shape, moves, weights, buffers, stop):
    """Compute beliefs and masses of all nodes for one policy.

    Returns False where two beliefs that were merged are no longer proportional.
    """
    belief, mass, filled, predicted = buffers.belief, buffers.mass, buffers.filled, buffers.predicted
    mass[:] = 0.0
    filled[:] = False
    mass[0] = 1.0
    belief[0] = 1.0
    filled[0] = True
    for node in range(shape.first_leaf):
        if stop[0] != 0:
            break
        if not filled[node]:
            continue
        _predict(shape, node, moves, belief, predicted)
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            first, last = shape.entry_start[child], shape.entry_start[child + 1]
            chance, seen = _project_child(first, last, shape.state, shape.emission, predicted, weights)
            if chance.real < IMPOSSIBLE:
                continue
            if not filled[child]:
                _fill_belief(first, last, shape.state, shape.emission, predicted, 1.0 / chance, belief)
                buffers.projection[child] = seen / chance
                filled[child] = True
            elif _differ(seen / chance - buffers.projection[child]):
                _clear(shape, node, moves, predicted)
                return False
            mass[child] += mass[node] * chance
        _clear(shape, node, moves, predicted)
    for node in range(filled.size):
        if not filled[node]:  # it has no mass at this policy, and no belief
            belief[shape.entry_start[node] : shape.entry_start[node + 1]] = 0.0
    return True


@njit(cache=True)
def _differ(difference):
    """Return whether two projections differ by more than rounding; tangents count too, and NaN differs."""
    return not (abs(difference.real) <= _TOLERANCE and abs(difference.imag) <= _TOLERANCE * STEP)


@njit(cache=True, inline="always")
def _fill_links(links, moves, buffers):
    """Write P(o, z | x) of every link, and slopes of 0."""
    buffers.link_chance[:] = 0.0
    buffers.link_slope[:] = 0.0
    for edge in range(moves.flow.size):
        for part in range(links.part_start[edge], links.part_start[edge + 1]):
            buffers.link_chance[links.part_link[part]] += moves.flow[edge] * links.part_value[part]


@njit(cache=True, inline="always")
def _fill_cells(shape, leaf, links, buffers):
    """Add P(o, z | leaf) to the cells, which are 0 before."""
    node = shape.first_leaf + leaf
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = buffers.belief[entry]
        for link in range(links.start[state], links.start[state + 1]):
            buffers.cell_mass[links.cell[link]] += weight * buffers.link_chance[link]


@njit(cache=True, inline="always")
def _leaf_adjoint(shape, leaf, links, buffers):
    """Write the adjoints of a leaf's entries, given the slope by every cell's mass in buffers.surprise.

    Adds the leaf's part of d value / d P(o, z | x) to buffers.link_slope.
    """
    node = shape.first_leaf + leaf
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = buffers.mass[node] * buffers.belief[entry]
        adjoint = 0.0 * weight
        for link in range(links.start[state], links.start[state + 1]):
            ahead = buffers.surprise[links.cell[link]]
            adjoint += buffers.link_chance[link] * ahead
            buffers.link_slope[link] += weight * ahead
        buffers.adjoint[entry] = adjoint


@njit(cache=True, inline="always")
def _add_link_slopes(links, moves, buffers, slope):
    """Add d value / d flow to `slope` [edge], from the slopes of the links."""
    for edge in range(moves.flow.size):
        for part in range(links.part_start[edge], links.part_start[edge + 1]):
            slope[edge] += links.part_value[part] * buffers.link_slope[links.part_link[part]]


@njit(cache=True, nogil=True)
def _entropy_step(shape, links, moves, buffers, slope, stop):
    """Return the expected H(Z | y) in bits after the last observation, and write the adjoints of the leaves.

    Adds d value / d flow to `slope`. Cells of no mass count as 0, with derivative 0. See `leaves.last_step`.
    """
    _fill_links(links, moves, buffers)
    total = 0.0
    for leaf in range(shape.cell_start.size - 1):
        if stop[0] != 0:
            break
        _fill_cells(shape, leaf, links, buffers)
        mass = buffers.mass[shape.first_leaf + leaf].real
        total += mass * _surprises(shape, leaf, links, buffers.cell_mass, buffers.surprise, buffers.chance)
        _leaf_adjoint(shape, leaf, links, buffers)
    _add_link_slopes(links, moves, buffers, slope)
    return total


@njit(cache=True, nogil=True)
def _fill_leaf_masses(shape, links, moves, buffers, masses, stop):
    """Write P(o, z | leaf) of every cell that may follow a leaf, in the order of shape.cell."""
    _fill_links(links, moves, buffers)
    for leaf in range(shape.cell_start.size - 1):
        if stop[0] != 0:
            break
        _fill_cells(shape, leaf, links, buffers)
        for index in range(shape.cell_start[leaf], shape.cell_start[leaf + 1]):
            masses[index] = buffers.cell_mass[shape.cell[index]]
            buffers.cell_mass[shape.cell[index]] = 0.0


@njit(cache=True, nogil=True)
def _slope_step(shape, links, moves, buffers, cell_slope, slope, stop):
    """Write the adjoints of the leaves, given the slope by the mass of every cell; adds d value / d flow to `slope`."""
    for leaf in range(shape.cell_start.size - 1):
        if stop[0] != 0:
            break
        for index in range(shape.cell_start[leaf], shape.cell_start[leaf + 1]):
            buffers.surprise[shape.cell[index]] = cell_slope[index]
        _leaf_adjoint(shape, leaf, links, buffers)
    _add_link_slopes(links, moves, buffers, slope)


@njit(cache=True, inline="always")
def _surprises(shape, leaf, links, cell_mass, surprise, chance):
    """Return the H(Z | y) expected after a leaf, and write -log2 P(z | y) of every cell; clears the masses."""
    first, last = shape.cell_start[leaf], shape.cell_start[leaf + 1]
    for index in range(first, last):
        cell = shape.cell[index]
        chance[links.observation[cell]] += cell_mass[cell]
    entropy = 0.0
    for index in range(first, last):
        cell = shape.cell[index]
        share = cell_mass[cell]
        whole = chance[links.observation[cell]]
        cell_mass[cell] = 0.0
        if share.real >= IMPOSSIBLE and share != whole:
            surprise[cell] = np.log(whole / share) * BITS
            entropy += share.real * surprise[cell].real
        else:
            surprise[cell] = 0.0
    for index in range(first, last):
        chance[links.observation[shape.cell[index]]] = 0.0
    return entropy


@njit(cache=True, inline="always")
def _accumulate_adjoint(shape, node, moves, buffers, slope):
    """Write the adjoints of a node's entries, given what is expected of every next state; adds d value / d flow."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = buffers.mass[node] * buffers.belief[entry]
        total = 0.0 * weight
        for edge in range(moves.start[state], moves.start[state + 1]):
            ahead = buffers.expected[moves.target[edge]]
            total += moves.flow[edge] * ahead
            slope[edge] += weight * ahead
        buffers.adjoint[entry] = total


@njit(cache=True, inline="always")
def _predict(shape, node, moves, belief, predicted):
    """Add P(x' | node) to `predicted`, which is 0 before."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = belief[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] += weight * moves.flow[edge]


@njit(cache=True, inline="always")
def _clear(shape, node, moves, predicted):
    """Set `predicted` back to 0 where _predict wrote."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] = 0.0


@njit(cache=True, nogil=True)
def _sweep_backward(shape, moves, buffers, slope, stop):
    """Compute the adjoints of all entries from those of the last level; adds d value / d flow to `slope`."""
    adjoint, expected = buffers.adjoint, buffers.expected
    for node in range(shape.first_leaf - 1, -1, -1):
        if stop[0] != 0:
            break
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            for entry in range(shape.entry_start[child], shape.entry_start[child + 1]):
                expected[shape.state[entry]] += shape.emission[entry] * adjoint[entry]
        _accumulate_adjoint(shape, node, moves, buffers, slope)
        for arc in range(shape.arc_start[node], shape.arc_start[node + 1]):
            child = shape.child[arc]
            for entry in range(shape.entry_start[child], shape.entry_start[child + 1]):
                expected[shape.state[entry]] = 0.0


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
        chain = Chain.of(process, pi, stop=stop)
        graph = unroll(chain, steps=process.horizon, budget=budget, keep=True)
        chain.stop.check()
        links = _make_links(process)
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
            cell_mass=np.zeros(self.process.pairs.cell_observation.size, dtype),
            surprise=np.zeros(self.process.pairs.cell_observation.size, dtype),
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
        cell = stop.cell()
        fits = _sweep_forward(self.shape, moves, self.weights, buffers, cell)
        stop.check()
        if not fits:
            return None
        slope = np.zeros(moves.flow.size, moves.flow.dtype)
        if self.leaf is None or self.rows is None:
            value = _entropy_step(self.shape, self.links, moves, buffers, slope, cell)
        else:
            value = self._leaf_step(self.leaf, self.rows, moves, buffers, slope, cell)
        _sweep_backward(self.shape, moves, buffers, slope, cell)
        stop.check()
        return self._with_certain(pi, float(value), self.process.edge_slots.T @ slope)

    def _leaf_step(
        self, leaf: Uncertainty, rows: MassRows, moves: ChainEdges, buffers: Buffers, slope: Any, cell: ByteArray
    ) -> float:
        """Return the expected excess of a leaf and write the adjoints there; adds to `slope`."""
        masses = np.zeros(rows.num_entries, moves.flow.dtype)
        _fill_leaf_masses(self.shape, self.links, moves, buffers, masses, cell)
        amounts, slopes = rows.evaluate(leaf, masses)
        _slope_step(self.shape, self.links, moves, buffers, slopes, slope, cell)
        return float(np.real(buffers.mass[self.shape.first_leaf :]) @ amounts)

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
