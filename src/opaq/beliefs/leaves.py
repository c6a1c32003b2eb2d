"""Uncertainty after the last observation, expected at every node before it, and its slope by one sweep back.

The kernels evaluate opacity and guess error. Any other uncertainty f is evaluated by numpy on rows of masses
q_z = P(z, o | node), one row per (node, last observation o): see `MassRows`. The graph leaves out sequences after which
the secret is known, so that only the excess f(q) - sum_z certain_z q_z is carried, which is 0 there.

Slopes go backwards. With alpha(x) the mass of a state after a sequence, f has the derivative c_z(x) at alpha(x), c the
supergradient; a step back multiplies it by the probabilities of the step, and adds to the derivative by every edge's
flow what the edge carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.expansion import predict
from opaq.beliefs.graph import (
    BITS,
    IMPOSSIBLE,
    PART_NODES,
    Budget,
    Chain,
    ChainEdges,
    Graph,
    Level,
    Nodes,
    NumberArray,
    new_numbers,
)
from opaq.beliefs.unroll import Trimmer
from opaq.kernel_cache import inlined, kernel
from opaq.model.arrays import FloatArray, IndexArray, IntArray
from opaq.model.uncertainty import GuessError, MassRows, Shannon, Uncertainty
from opaq.product.process import HiddenProcess, Pairs


@inlined
def _fill_cells(
    num_touched, touched, marked, predicted, pair_start, pair_cell, pair_value, cell_observation,
    listed, cells, cell_mass, chance, largest,
):  # fmt: skip
    """Put P(z, o | node) in `cell_mass`, and P(o | node) in `chance`; return how many cells are listed.

    A cell is one (observation, secret value); those that can follow the node are listed in `cells`.
    """
    num_cells = 0
    for index in range(num_touched):
        state = touched[index]
        marked[state] = False
        for pair in range(pair_start[state], pair_start[state + 1]):
            cell = pair_cell[pair]
            value = predicted[state] * pair_value[pair]
            if listed[cell]:
                cell_mass[cell] += value
            else:
                listed[cell] = True
                cell_mass[cell] = value
                cells[num_cells] = cell
                num_cells += 1
    for index in range(num_cells):
        observation = cell_observation[cells[index]]
        chance[observation] = 0.0
        largest[observation] = 0.0
    for index in range(num_cells):
        cell = cells[index]
        listed[cell] = False
        chance[cell_observation[cell]] += cell_mass[cell]
    return num_cells


@inlined
def _surprise(mass, chance):
    """Return -log2 P(z | y), from P(z, y) and P(y): the derivative of the entropy by the mass; 0 for no mass."""
    surprise = 0.0 * mass
    if mass.real >= IMPOSSIBLE and mass != chance:
        surprise = -np.log(mass / chance) * BITS
    return surprise


@inlined
def _accumulate_adjoint(
    node, start, entry_pair, belief, mass, pair_state, edge_start, edge_target, flow, expected, slope, adjoint
):
    """Add to the adjoints of a node's entries, and to `slope`, given what is expected of every next state.

    expected: [state] the derivative of the value by the mass that arrives there. adjoint(x) += sum over edges of
    flow x expected; slope[edge] += mass x belief(x) x expected.
    """
    for entry in range(np.uint64(start[node]), np.uint64(start[node + 1])):
        state = pair_state[entry_pair[entry]]
        weight = mass[node] * belief[entry]
        total = adjoint[entry]
        for edge in range(edge_start[state], edge_start[state + 1]):
            ahead = expected[edge_target[edge]]
            total += flow[edge] * ahead
            slope[edge] += weight * ahead
        adjoint[entry] = total


@kernel
def _leaf_values(nodes, first, last, moves, pairs, work, entropy, error, starts, kept_cells, kept_masses):
    """Write H(Z | y) and guess error expected at the nodes first .. last - 1, and return the first not dealt with.

    f(alpha) = -sum_z q_z log2(q_z / sum q) has the derivative -log2 P(z(x) | y) at alpha(x); cells of no mass count
    as 0. entropy, error: [node]. starts: [node - first + 1], kept_cells, kept_masses: the cells that may follow each
    node, with P(z, o | node); not written where starts has no room. It ends before a node whose cells might not fit, or
    when it is asked to stop.
    """
    start, entry_pair, belief = nodes.start, nodes.pair, nodes.belief
    edge_start, edge_target, flow = moves.start, moves.target, moves.flow
    pair_start, pair_state, pair_value, pair_cell = pairs.start, pairs.state, pairs.value, pairs.cell
    cell_observation = pairs.cell_observation
    predicted, marked, touched, stop = work.predicted, work.marked, work.touched, work.stop
    listed, cells, cell_mass, chance, largest = work.listed, work.cells, work.cell_mass, work.chance, work.largest
    count = 0
    for node in range(first, last):
        if stop[0] != 0:
            return node
        num_touched = predict(
            start[node], start[node + 1], entry_pair, belief, pair_state, edge_start, edge_target, flow,
            predicted, marked, touched,
        )  # fmt: skip
        num_cells = _fill_cells(
            num_touched, touched, marked, predicted, pair_start, pair_cell, pair_value, cell_observation,
            listed, cells, cell_mass, chance, largest,
        )  # fmt: skip
        if starts.size > 0:
            if count + num_cells > kept_cells.size:
                return node
            for index in range(num_cells):
                kept_cells[count] = cells[index]
                kept_masses[count] = cell_mass[cells[index]]
                count += 1
            starts[node - first + 1] = count
        entropy[node], error[node] = 0.0, 0.0
        for index in range(num_cells):
            cell = cells[index]
            observation = cell_observation[cell]
            share = cell_mass[cell].real
            entropy[node] += share * _surprise(cell_mass[cell], chance[observation]).real
            if share > largest[observation]:
                error[node] += largest[observation]
                largest[observation] = share
            else:
                error[node] += share
    return last


class _Links(NamedTuple):
    """From states to the cells of the next observation: P(o, z | x), summed when a state is first met."""

    first: IndexArray  # [state + 1]: the links of a state are first[x] .. last[x] - 1; the source's last
    last: IndexArray  # [state + 1]: 0 for states that were not met
    cell: IndexArray  # [link]
    chance: NumberArray  # [link]: P(o, z | x)
    slope: NumberArray  # [link]: d value / d that

    @classmethod
    def of(cls, moves: ChainEdges, pairs: Pairs) -> _Links:
        """Return room for the links of all states; memory that is never touched costs nothing."""
        per_edge = (pairs.start[1:] - pairs.start[:-1])[moves.target]
        before = np.concatenate(([0], np.cumsum(per_edge, dtype=np.int64)))[moves.start]  # [state + 2]
        most = int(np.minimum(before[1:] - before[:-1], pairs.cell_observation.size).sum())
        first, last = np.zeros((2, moves.start.size - 1), np.uint32)
        chance, slope = new_numbers(most, moves.flow), new_numbers(most, moves.flow)
        return cls(first, last, np.empty(most, np.uint32), chance, slope)


@inlined
def _link_state(
    state, num_links, edge_start, edge_target, flow, pair_start, pair_cell, pair_value, listed, total,
    link_first, link_last, link_cell, link_chance, link_slope,
):  # fmt: skip
    """Write the links of a state after those there are; return how many there are then.

    Cells that only edges of no flow lead to have links too: the value has a slope by such a flow.
    """
    first = num_links
    for edge in range(edge_start[state], edge_start[state + 1]):
        target = edge_target[edge]
        for pair in range(pair_start[target], pair_start[target + 1]):
            cell = pair_cell[pair]
            if not listed[cell]:
                listed[cell] = True
                total[cell] = 0.0
                link_cell[num_links] = cell
                num_links += 1
            total[cell] += flow[edge] * pair_value[pair]
    for link in range(first, num_links):
        listed[link_cell[link]] = False
        link_chance[link] = total[link_cell[link]]
        link_slope[link] = 0.0
    link_first[state] = first
    link_last[state] = num_links
    return num_links


@kernel
def _entropy_slope(nodes, moves, pairs, links, work, entropy, slope, adjoint):
    """Write H(Z | y) expected at every node, as `_leaf_values` does, and add to the adjoints of all entries.

    Adds the derivative by every edge's flow to `slope`. The step does not go through the next states: with the links,
    P(o, z | x) of one step ahead, P(o, z | node) is the sum over x of b(x) P(o, z | x), the adjoint of x is the sum
    over (o, z) of P(o, z | x) times the surprise, and slopes by links are distributed to the edges at the end.
    """
    start, entry_pair, belief, mass = nodes.start, nodes.pair, nodes.belief, nodes.mass
    edge_start, edge_target, flow = moves.start, moves.target, moves.flow
    pair_start, pair_state, pair_value, pair_cell = pairs.start, pairs.state, pairs.value, pairs.cell
    cell_observation, stop = pairs.cell_observation, work.stop
    listed, cells, cell_mass, chance, surprise = work.listed, work.cells, work.cell_mass, work.chance, work.surprise
    link_first, link_last, link_cell = links.first, links.last, links.cell
    link_chance, link_slope = links.chance, links.slope
    num_links = 0
    for entry in range(belief.size):
        state = pair_state[entry_pair[entry]]
        if link_last[state] == 0:
            num_links = _link_state(
                state, num_links, edge_start, edge_target, flow, pair_start, pair_cell, pair_value,
                listed, surprise, link_first, link_last, link_cell, link_chance, link_slope,
            )  # fmt: skip
    for node in range(mass.size):
        if stop[0] != 0:
            return
        first, last = np.uint64(start[node]), np.uint64(start[node + 1])
        num_cells = 0
        for entry in range(first, last):  # P(o, z | node)
            state = pair_state[entry_pair[entry]]
            weight = belief[entry]
            for link in range(link_first[state], link_last[state]):
                cell = link_cell[link]
                if not listed[cell]:
                    listed[cell] = True
                    cell_mass[cell] = 0.0
                    cells[num_cells] = cell
                    num_cells += 1
                cell_mass[cell] += weight * link_chance[link]
        for index in range(num_cells):  # P(o | node)
            chance[cell_observation[cells[index]]] = 0.0
        for index in range(num_cells):
            cell = cells[index]
            listed[cell] = False
            chance[cell_observation[cell]] += cell_mass[cell]
        total = 0.0
        for index in range(num_cells):
            cell = cells[index]
            surprise[cell] = _surprise(cell_mass[cell], chance[cell_observation[cell]])
            total += cell_mass[cell].real * surprise[cell].real
        entropy[node] = total
        for entry in range(first, last):
            state = pair_state[entry_pair[entry]]
            weight = mass[node] * belief[entry]
            gain = 0.0 * weight
            for link in range(link_first[state], link_last[state]):
                ahead = surprise[link_cell[link]]
                gain += link_chance[link] * ahead
                link_slope[link] += weight * ahead
            adjoint[entry] += gain
    for state in range(link_last.size):
        if link_last[state] == 0:
            continue
        for link in range(link_first[state], link_last[state]):
            surprise[link_cell[link]] = link_slope[link]
        for edge in range(edge_start[state], edge_start[state + 1]):
            target = edge_target[edge]
            for pair in range(pair_start[target], pair_start[target + 1]):
                slope[edge] += pair_value[pair] * surprise[pair_cell[pair]]


@kernel
def _leaf_adjoint(nodes, first, starts, cells, cell_slope, moves, pairs, slope, adjoint, work):
    """Fill the adjoints of some nodes from the slope by the mass of every cell, as `_leaf_values` numbers them."""
    start, entry_pair, belief, mass = nodes.start, nodes.pair, nodes.belief, nodes.mass
    edge_start, edge_target, flow = moves.start, moves.target, moves.flow
    pair_start, pair_state, pair_value, pair_cell = pairs.start, pairs.state, pairs.value, pairs.cell
    predicted, marked, touched, expected, stop = work.predicted, work.marked, work.touched, work.expected, work.stop
    surprise = work.surprise
    for node in range(first, first + starts.size - 1):
        if stop[0] != 0:
            return
        num_touched = predict(
            start[node], start[node + 1], entry_pair, belief, pair_state, edge_start, edge_target, flow,
            predicted, marked, touched,
        )  # fmt: skip
        for index in range(starts[node - first], starts[node - first + 1]):
            surprise[cells[index]] = cell_slope[index]
        for index in range(num_touched):
            state = touched[index]
            marked[state] = False
            ahead = 0.0 * mass[node]
            for pair in range(pair_start[state], pair_start[state + 1]):
                ahead += pair_value[pair] * surprise[pair_cell[pair]]
            expected[state] = ahead
        _accumulate_adjoint(
            node, start, entry_pair, belief, mass, pair_state, edge_start, edge_target, flow, expected, slope, adjoint
        )
        for index in range(num_touched):
            expected[touched[index]] = 0.0


@kernel
def _backward_step(
    start, entry_pair, belief, mass, arc_start, arc_child, arc_weight, child_start, child_pair, child_adjoint,
    edge_start, edge_target, flow, pair_state, pair_value, expected, stop, slope, adjoint,
):  # fmt: skip
    """Add to the adjoints of all entries of a level what those of the next one make of them.

    Adds d value / d flow to `slope`. It is called for every level, and gets no array that it does not need: to hand
    them over takes longer than a small level.
    """
    weighted = arc_weight.size > 0
    for node in range(mass.size):
        if stop[0] != 0:
            return
        for arc in range(arc_start[node], arc_start[node + 1]):
            child = arc_child[arc]
            if child < 0:
                continue
            factor = arc_weight[arc] if weighted else 1.0
            for entry in range(np.uint64(child_start[child]), np.uint64(child_start[child + 1])):
                pair = child_pair[entry]
                expected[pair_state[pair]] += factor * pair_value[pair] * child_adjoint[entry]
        _accumulate_adjoint(
            node, start, entry_pair, belief, mass, pair_state, edge_start, edge_target, flow, expected, slope, adjoint
        )
        for arc in range(arc_start[node], arc_start[node + 1]):
            child = arc_child[arc]
            if child < 0:
                continue
            for entry in range(np.uint64(child_start[child]), np.uint64(child_start[child + 1])):
                expected[pair_state[child_pair[entry]]] = 0.0


_NODES_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, eq=False)
class LastStep:
    """The uncertainties that are expected at every node before the last observation."""

    excess: dict[str, FloatArray]  # name of an uncertainty -> [node] its expected excess; opacity and guess error first
    num_done: int  # how many nodes were dealt with before the work was asked to stop


def evaluate_leaves(chain: Chain, graph: Graph, *, leaves: Sequence[Uncertainty] = ()) -> LastStep:
    """Evaluate opacity, guess error and other uncertainties after the last observation.

    leaves: other uncertainties, over the secret's values. One that the kernels know as well is evaluated by rows.
    """
    return evaluate_nodes(chain, graph.last, leaves=leaves)


def evaluate_nodes(
    chain: Chain, nodes: Nodes, *, leaves: Sequence[Uncertainty] = (), cells: Pairs | None = None
) -> LastStep:
    """Evaluate uncertainties after the next observation at every node of a level.

    leaves: other uncertainties than opacity and guess error, over the secret's values.
    cells: whose masses the uncertainties are functions of; those of (observation, secret value) unless given.
    """
    num_nodes = nodes.mass.size
    excess = {name: np.zeros(num_nodes) for name in (Shannon.name, GuessError.name, *(leaf.name for leaf in leaves))}
    entropy, error = excess[Shannon.name], excess[GuessError.name]

    def evaluate_part(apart: Chain, first: int, last: int) -> tuple[int, bool]:
        """Return the first node that was not dealt with, and whether there is one."""
        blocks = _LeafBlocks(apart, nodes, entropy, error, cells or chain.pairs, first, last)
        if not leaves:
            blocks.evaluate()
        else:
            for block in blocks:
                for leaf in leaves:
                    excess[leaf.name][block.first : block.last] = block.rows.evaluate(leaf, block.masses)[0]
        return blocks.num_done, blocks.num_done < last

    outcomes = list(chain.map_parts(evaluate_part, num_nodes))
    return LastStep(excess, next((done for done, ended in outcomes if ended), num_nodes))


def slope_of_leaf(chain: Chain, graph: Graph, leaf: Uncertainty) -> tuple[FloatArray, Any]:
    """Return [node] the expected excess of one uncertainty, and d its mean / d flow.

    The graph must have kept its levels. Raises StoppedError when the work was asked to stop.
    """
    weights = np.zeros(len(graph.levels))
    weights[-1] = 1.0
    amounts, slope = slope_of_levels(chain, graph, leaf, weights)
    return amounts[-1], slope


def slope_of_levels(
    chain: Chain, graph: Graph, leaf: Uncertainty, weights: FloatArray, *, cells: Pairs | None = None
) -> tuple[list[FloatArray], Any]:
    """Return per level [node] the expected excess of an uncertainty, and d its weighted sum / d flow.

    The uncertainty at a node is that after the next observation, so that the last level of `graph` has the leaves.
    weights: [level], what the mean over a level counts; levels of weight 0 are not evaluated.
    cells: whose masses the uncertainty is a function of; those of (observation, secret value) unless given.
    The graph must have kept its levels. Raises StoppedError when the work was asked to stop.
    """
    slope, adjoint = np.zeros_like(chain.moves.flow), None
    amounts = [np.zeros(0)] * len(graph.levels)
    for index in range(len(graph.levels) - 1, -1, -1):
        nodes = graph.levels[index].nodes
        own, own_slope = np.zeros_like(nodes.belief), slope if weights[index] == 1.0 else np.zeros_like(slope)
        if weights[index] != 0.0:
            amounts[index] = _level_slope(chain, nodes, leaf, cells, own_slope, own)
        if weights[index] not in (0.0, 1.0):
            own *= weights[index]
            slope += weights[index] * own_slope
        if adjoint is not None:
            _carry_back(chain, nodes, graph.levels[index + 1], adjoint, slope, own)
        adjoint = own
    chain.stop.check()
    return amounts, slope


def _level_slope(
    chain: Chain, nodes: Nodes, leaf: Uncertainty, cells: Pairs | None, slope: Any, adjoint: Any
) -> FloatArray:
    """Return [node] the expected excess of an uncertainty after the next observation; adds to slope and adjoint."""
    moves, pairs, amounts = chain.moves, cells or chain.pairs, np.zeros(nodes.mass.size)

    def add_entropy(apart: Chain, first: int, last: int, slope: Any) -> None:
        part, entries = nodes.part(first, last), slice(nodes.start[first], nodes.start[last])
        links = _Links.of(moves, pairs)
        _entropy_slope(part, moves, pairs, links, apart.work, amounts[first:last], slope, adjoint[entries])

    def add_rows(apart: Chain, first: int, last: int, slope: Any) -> None:
        unused = np.zeros_like(amounts)
        for block in _LeafBlocks(apart, nodes, unused, unused, pairs, first, last):
            amounts[block.first : block.last], slopes = block.rows.evaluate(leaf, block.masses)
            _leaf_adjoint(
                nodes, block.first, block.starts, block.cells, slopes, moves, pairs, slope, adjoint, apart.work
            )

    _add_slopes(chain, nodes.mass.size, add_entropy if leaf.compiled == "opacity" else add_rows, slope)
    return amounts


def _carry_back(chain: Chain, nodes: Nodes, child: Level, child_adjoint: Any, slope: Any, adjoint: Any) -> None:
    """Add to the adjoints of a level what those of the next one make of them, and to `slope`."""

    def add_part(apart: Chain, first: int, last: int, slope: Any) -> None:
        part, entries = nodes.part(first, last), slice(nodes.start[first], nodes.start[last])
        _backward_step(
            part.start, part.pair, part.belief, part.mass, child.arcs.start[first : last + 1], child.arcs.child,
            child.arcs.weight, child.nodes.start, child.nodes.pair, child_adjoint, *chain.moves, chain.pairs.state,
            chain.pairs.value, apart.work.expected, apart.work.stop, slope, adjoint[entries],
        )  # fmt: skip

    _add_slopes(chain, nodes.mass.size, add_part, slope)


def _add_slopes(chain: Chain, num_nodes: int, add: Callable[[Chain, int, int, Any], None], slope: Any) -> None:
    """Add the slopes of all parts of a level to `slope`, in their order.

    add: called with a chain, the first node of a part, the first after it, and the slope that it adds to.
    """

    def add_apart(apart: Chain, first: int, last: int) -> Any:
        own = slope if num_nodes <= PART_NODES else np.zeros_like(slope)
        add(apart, first, last, own)
        return own

    for own in chain.map_parts(add_apart, num_nodes):
        if own is not slope:
            slope += own


def unfinished_cost(
    chain: Chain, graph: Graph, end: LastStep, budget: Budget, *, leaves: Sequence[Uncertainty] = ()
) -> FloatArray:
    """Return what the nodes that the last step did not deal with could add: mass, opacity, guess error, every leaf."""
    left = np.arange(end.num_done, graph.last.mass.size)
    trimmer = Trimmer(chain, budget, keep=False, leaves=tuple(leaves))
    return trimmer.cost(graph.last, chain.process.horizon - 1, left)


class _LeafBlock(NamedTuple):
    """The masses P(z, o | node) of the nodes first .. last - 1, and how they form rows."""

    first: int
    last: int
    rows: MassRows
    starts: IntArray  # [node - first + 1]
    cells: IndexArray  # the cells that may follow each node
    masses: NumberArray  # of those


@dataclass(slots=True, eq=False)
class _LeafBlocks:
    """Evaluates the last step some nodes at a time; iterating over it gives the masses at those."""

    chain: Chain
    nodes: Nodes
    entropy: FloatArray  # [node], written
    error: FloatArray  # [node], written
    cells: Pairs  # whose masses are evaluated
    num_done: int  # the first node that is not dealt with yet
    last: int  # the first that is not to be dealt with

    def evaluate(self) -> None:
        """Evaluate opacity and guess error of the nodes without keeping masses, until the work is asked to stop."""
        self._run(self.last, np.zeros(0, np.int64), np.zeros(0, np.uint32), self.nodes.belief[:0])

    def __iter__(self) -> Iterator[_LeafBlock]:
        """Yield blocks of nodes, in order, until all are done or the work is asked to stop."""
        room, values = 64 + 4 * min(self.last - self.num_done, _NODES_AT_ONCE), cell_values(self.chain.process)
        while self.num_done < self.last:
            first = self.num_done
            last = min(first + _NODES_AT_ONCE, self.last)
            starts, cells = np.zeros(last - first + 1, np.int64), np.empty(room, np.uint32)
            masses = new_numbers(room, self.nodes.belief)
            self._run(last, starts, cells, masses)
            if self.chain.stop.requested and self.num_done < last:
                return
            room = room if self.num_done == last else 2 * room
            starts = starts[: self.num_done - first + 1]
            cells = cells[: starts[-1]]
            observations = self.chain.pairs.cell_observation[cells].astype(np.int64)
            rows = MassRows.of(starts, values[cells], observations)
            if self.num_done > first:
                yield _LeafBlock(first, self.num_done, rows, starts, cells, masses[: starts[-1]])

    def _run(self, last: int, starts: IntArray, cells: IndexArray, masses: NumberArray) -> None:
        """Call the kernel for the nodes from the first that is not done on."""
        chain = self.chain
        self.num_done = _leaf_values(
            self.nodes, self.num_done, last, chain.moves, self.cells, chain.work, self.entropy, self.error, starts,
            cells, masses,
        )  # fmt: skip


def cell_values(process: HiddenProcess) -> IntArray:
    """Return the secret value of every (observation, secret value) cell."""
    values = np.zeros(process.pairs.cell_observation.size, dtype=np.int64)
    values[process.pairs.cell[:-1]] = process.secret[process.pairs.state[:-1]]
    return values
