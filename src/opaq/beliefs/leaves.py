"""Uncertainty after the last observation, expected at every node before it, and its slope by one sweep back.

The kernels evaluate opacity and guess error. Any other uncertainty f is evaluated by numpy on rows of masses
q_z = P(z, o | node), one row per (node, last observation o): see `MassRows`. The graph leaves out sequences after which
the secret is known, so that only the excess f(q) - sum_z certain_z q_z is carried, which is 0 there.

Slopes go backwards. With alpha(x) the mass of a state after a sequence, f has the derivative c_z(x) at alpha(x), c the
supergradient; a step back multiplies it by the probabilities of the step, and adds to the derivative by every edge's
flow what the edge carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.beliefs.expansion import predict
from opaq.beliefs.graph import BITS, IMPOSSIBLE, Budget, Chain, Graph, enlarge
from opaq.beliefs.unroll import Trimmer
from opaq.kernel_cache import njit
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.uncertainty import GuessError, MassRows, Shannon, Uncertainty
from opaq.product.process import HiddenProcess


@njit(cache=True)
def _accumulate_adjoint(nodes, node, moves, pairs, expected, slope, adjoint):
    """Add to the adjoints of a node's entries, and to `slope`, given what is expected of every next state.

    expected: [state] the derivative of the value by the mass that arrives there. adjoint(x) += sum over edges of
    flow x expected; slope[edge] += mass x belief(x) x expected.
    """
    for entry in range(nodes.start[node], nodes.start[node + 1]):
        state = pairs.state[nodes.pair[entry]]
        weight = nodes.mass[node] * nodes.belief[entry]
        total = adjoint[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            ahead = expected[moves.target[edge]]
            total += moves.flow[edge] * ahead
            slope[edge] += weight * ahead
        adjoint[entry] = total


@njit(cache=True)
def _fill_cells(num_touched, pairs, work):
    """Put P(z, o | node) in work.cell_mass, and P(o | node) in work.chance; return how many cells are listed.

    A cell is one (observation, secret value); those that can follow the node are listed in work.cells.
    """
    num_cells = 0
    for index in range(num_touched):
        state = work.touched[index]
        work.marked[state] = False
        for pair in range(pairs.start[state], pairs.start[state + 1]):
            cell = pairs.cell[pair]
            value = work.predicted[state] * pairs.value[pair]
            if work.listed[cell]:
                work.cell_mass[cell] += value
            else:
                work.listed[cell] = True
                work.cell_mass[cell] = value
                work.cells[num_cells] = cell
                num_cells += 1
    for index in range(num_cells):
        observation = pairs.cell_observation[work.cells[index]]
        work.chance[observation] = 0.0
        work.largest[observation] = 0.0
    for index in range(num_cells):
        cell = work.cells[index]
        work.listed[cell] = False
        work.chance[pairs.cell_observation[cell]] += work.cell_mass[cell]
    return num_cells


@njit(cache=True)
def _surprises(num_cells, pairs, work):
    """Return H(Z | y) and guess error expected after a node; put -log2 P(z | y) of every cell in work.surprise."""
    entropy, error = 0.0, 0.0
    for index in range(num_cells):
        cell = work.cells[index]
        observation = pairs.cell_observation[cell]
        share = work.cell_mass[cell].real
        surprise = 0.0 * work.cell_mass[cell]
        if share >= IMPOSSIBLE and work.cell_mass[cell] != work.chance[observation]:
            surprise = -np.log(work.cell_mass[cell] / work.chance[observation]) * BITS
            entropy += share * surprise.real
        work.surprise[cell] = surprise
        if share > work.largest[observation]:
            error += work.largest[observation]
            work.largest[observation] = share
        else:
            error += share
    return entropy, error


@njit(cache=True)
def _node_adjoint(nodes, node, num_touched, moves, pairs, slope, adjoint, work):
    """Add to the adjoints of a node's entries, work.surprise being the slope by the mass of every cell."""
    for index in range(num_touched):
        state = work.touched[index]
        for pair in range(pairs.start[state], pairs.start[state + 1]):
            work.expected[state] += pairs.value[pair] * work.surprise[pairs.cell[pair]]
    _accumulate_adjoint(nodes, node, moves, pairs, work.expected, slope, adjoint)
    for index in range(num_touched):
        work.expected[work.touched[index]] = 0.0


@njit(cache=True, nogil=True)
def last_step(nodes, moves, pairs, work, with_slope, slope):
    """Return [node] H(Z | y) and guess error expected at every node before the last observation, and the adjoints.

    f(alpha) = -sum_z q_z log2(q_z / sum q) has the derivative -log2 P(z(x) | y) at alpha(x); cells of no mass count
    as 0, with derivative 0. Returns also how many nodes were dealt with before it was asked to stop. With `with_slope`
    the derivative by every edge's flow is added to `slope`; without, there are no adjoints.
    """
    num_nodes = nodes.mass.size
    entropy = np.zeros(num_nodes, np.float64)
    error = np.zeros(num_nodes, np.float64)
    adjoint = np.zeros(nodes.belief.size if with_slope else 0, nodes.belief.dtype)
    for node in range(num_nodes):
        if work.stop[0] != 0:
            return entropy, error, adjoint, node
        num_touched = predict(nodes, node, moves, pairs, work)
        num_cells = _fill_cells(num_touched, pairs, work)
        entropy[node], error[node] = _surprises(num_cells, pairs, work)
        if with_slope:
            _node_adjoint(nodes, node, num_touched, moves, pairs, slope, adjoint, work)
    return entropy, error, adjoint, num_nodes


@njit(cache=True, nogil=True)
def _leaf_masses(nodes, first, last, moves, pairs, work):
    """Return (starts, cell, mass): P(z, o | node) of the cells that may follow each of the nodes first .. last - 1.

    Returns also the first node that was not dealt with before it was asked to stop; it and later ones have no cells.
    """
    starts = np.zeros(last - first + 1, np.int64)
    cells = np.empty(64 + 4 * (last - first), np.uint32)
    masses = np.empty(cells.size, nodes.belief.dtype)
    count = 0
    for node in range(first, last):
        if work.stop[0] != 0:
            starts[node - first + 1 :] = count
            return starts, cells[:count], masses[:count], node
        num_cells = _fill_cells(predict(nodes, node, moves, pairs, work), pairs, work)
        if count + num_cells > cells.size:
            cells = enlarge(cells, 2 * (count + num_cells))
            masses = enlarge(masses, 2 * (count + num_cells))
        for index in range(num_cells):
            cells[count] = work.cells[index]
            masses[count] = work.cell_mass[work.cells[index]]
            count += 1
        starts[node - first + 1] = count
    return starts, cells[:count], masses[:count], last


@njit(cache=True, nogil=True)
def _leaf_adjoint(nodes, first, starts, cells, cell_slope, moves, pairs, slope, adjoint, work):
    """Fill the adjoints of some nodes from the slope by the mass of every cell, as _leaf_masses numbers them."""
    for offset in range(starts.size - 1):
        if work.stop[0] != 0:
            return
        num_touched = predict(nodes, first + offset, moves, pairs, work)
        for index in range(num_touched):
            work.marked[work.touched[index]] = False
        for index in range(starts[offset], starts[offset + 1]):
            work.surprise[cells[index]] = cell_slope[index]
        _node_adjoint(nodes, first + offset, num_touched, moves, pairs, slope, adjoint, work)


@njit(cache=True, nogil=True)
def _backward_step(nodes, arcs, children, child_adjoint, moves, pairs, slope, work):
    """Return the adjoint of every entry of a level from those of the next; add d value / d flow to `slope`."""
    adjoint = np.zeros(nodes.belief.size, nodes.belief.dtype)
    weighted = arcs.weight.size > 0
    expected = work.expected
    for node in range(nodes.mass.size):
        if work.stop[0] != 0:
            return adjoint
        for arc in range(arcs.start[node], arcs.start[node + 1]):
            child = arcs.child[arc]
            if child < 0:
                continue
            factor = arcs.weight[arc] if weighted else 1.0
            for entry in range(children.start[child], children.start[child + 1]):
                pair = children.pair[entry]
                expected[pairs.state[pair]] += factor * pairs.value[pair] * child_adjoint[entry]
        _accumulate_adjoint(nodes, node, moves, pairs, expected, slope, adjoint)
        for arc in range(arcs.start[node], arcs.start[node + 1]):
            child = arcs.child[arc]
            if child < 0:
                continue
            for entry in range(children.start[child], children.start[child + 1]):
                expected[pairs.state[children.pair[entry]]] = 0.0
    return adjoint


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
    nothing = np.zeros(0, chain.moves.flow.dtype)
    entropy, error, _, num_done = last_step(graph.last, chain.moves, chain.pairs, chain.work, False, nothing)
    excess = {Shannon.name: entropy, GuessError.name: error} | {leaf.name: np.zeros(entropy.size) for leaf in leaves}
    for first in range(0, num_done if leaves else 0, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, num_done)
        rows, _, masses, done = _masses(chain, graph, first, last)
        for leaf in leaves:
            excess[leaf.name][first:last] = rows.evaluate(leaf, masses)[0]
        if done < last:
            num_done = done
            break
    return LastStep(excess, int(num_done))


def slope_of_leaf(chain: Chain, graph: Graph, leaf: Uncertainty) -> tuple[FloatArray, Any]:
    """Return [node] the expected excess of one uncertainty, and d its mean / d flow.

    The graph must have kept its levels. Raises StoppedError when the work was asked to stop.
    """
    moves, pairs, work = chain.moves, chain.pairs, chain.work
    slope = np.zeros(moves.flow.size, moves.flow.dtype)
    if leaf.compiled == "opacity":
        amounts, _, adjoint, _ = last_step(graph.last, moves, pairs, work, True, slope)
    else:
        amounts, adjoint = _leaf_by_rows(chain, graph, leaf, slope)
    for level, child in zip(graph.levels[-2::-1], graph.levels[:0:-1], strict=True):
        adjoint = _backward_step(level.nodes, child.arcs, child.nodes, adjoint, moves, pairs, slope, work)
    chain.stop.check()
    return amounts, slope


def unfinished_cost(
    chain: Chain, graph: Graph, end: LastStep, budget: Budget, *, leaves: Sequence[Uncertainty] = ()
) -> FloatArray:
    """Return what the nodes that the last step did not deal with could add: mass, opacity, guess error, every leaf."""
    left = np.arange(end.num_done, graph.last.mass.size)
    trimmer = Trimmer(chain, budget, keep=False, leaves=tuple(leaves))
    return trimmer.cost(graph.last, chain.process.horizon - 1, left)


def _leaf_by_rows(chain: Chain, graph: Graph, leaf: Uncertainty, slope: Any) -> tuple[FloatArray, Any]:
    """The excess of an uncertainty at every node and its adjoints; adds to `slope`."""
    nodes = graph.last
    amounts = np.zeros(nodes.mass.size)
    adjoint = np.zeros(nodes.belief.size, nodes.belief.dtype)
    for first in range(0, nodes.mass.size, _NODES_AT_ONCE):
        last = min(first + _NODES_AT_ONCE, nodes.mass.size)
        rows, cells, masses, _ = _masses(chain, graph, first, last)
        chain.stop.check()
        amounts[first:last], slopes = rows.evaluate(leaf, masses)
        _leaf_adjoint(nodes, first, *cells, slopes, chain.moves, chain.pairs, slope, adjoint, chain.work)
    return amounts, adjoint


def _masses(chain: Chain, graph: Graph, first: int, last: int) -> tuple[MassRows, tuple[Any, Any], Any, int]:
    """The masses P(z, o | node) of some nodes, how they form rows, and where the work ended."""
    starts, cell, masses, done = _leaf_masses(graph.last, first, last, chain.moves, chain.pairs, chain.work)
    values = cell_values(chain.process)[cell]
    rows = MassRows.of(starts, values, chain.pairs.cell_observation[cell].astype(np.int64))
    return rows, (starts, cell), masses, int(done)


def cell_values(process: HiddenProcess) -> IntArray:
    """Return the secret value of every (observation, secret value) cell."""
    values = np.zeros(process.pairs.cell_observation.size, dtype=np.int64)
    values[process.pairs.cell[:-1]] = process.secret[process.pairs.state[:-1]]
    return values
