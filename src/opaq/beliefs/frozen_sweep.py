"""Compiled sweeps over belief graphs of frozen shape: numbers only, no hashing and no search."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.kernels import BITS, IMPOSSIBLE, STEP
from opaq.kernel_cache import njit

_TOLERANCE = 1e-9  # of a projection, whose weights are between 1 and 2; merged beliefs agree to 4e-12


@njit(cache=True)
def _weigh(first, last, states, emission, predicted, weights):
    """The chance of a child's observation, and the random projection of the belief it leads to, not normalised."""
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
    """The belief of a child, from what is predicted."""
    for entry in range(first, last):
        belief[entry] = predicted[states[entry]] * emission[entry] * scale


@njit(cache=True, nogil=True)
def sweep_forward(shape, moves, weights, buffers, stop):
    """Beliefs and masses of all nodes; False where two beliefs that were merged are no longer proportional."""
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
            chance, seen = _weigh(first, last, shape.state, shape.emission, predicted, weights)
            if chance.real < IMPOSSIBLE:
                continue
            if not filled[child]:
                _fill_belief(first, last, shape.state, shape.emission, predicted, 1.0 / chance, belief)
                buffers.projection[child] = seen / chance
                filled[child] = True
            elif _apart(seen / chance - buffers.projection[child]):
                _clear(shape, node, moves, predicted)
                return False
            mass[child] += mass[node] * chance
        _clear(shape, node, moves, predicted)
    for node in range(filled.size):
        if not filled[node]:  # it has no mass at this policy, and no belief
            belief[shape.entry_start[node] : shape.entry_start[node + 1]] = 0.0
    return True


@njit(cache=True)
def _apart(difference):
    """Whether two projections differ by more than rounding; derivatives count too (written so that NaN differs)."""
    return not (abs(difference.real) <= _TOLERANCE and abs(difference.imag) <= _TOLERANCE * STEP)


@njit(cache=True, inline="always")
def _fill_links(links, moves, buffers):
    """P(o, z | x) of every link, and slopes of 0."""
    buffers.link_chance[:] = 0.0
    buffers.link_slope[:] = 0.0
    for edge in range(moves.flow.size):
        for part in range(links.part_start[edge], links.part_start[edge + 1]):
            buffers.link_chance[links.part_link[part]] += moves.flow[edge] * links.part_value[part]


@njit(cache=True, inline="always")
def _fill_cells(shape, leaf, links, buffers):
    """P(o, z | leaf), added to zeros."""
    node = shape.first_leaf + leaf
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = buffers.belief[entry]
        for link in range(links.start[state], links.start[state + 1]):
            buffers.cell_mass[links.cell[link]] += weight * buffers.link_chance[link]


@njit(cache=True, inline="always")
def _leaf_adjoint(shape, leaf, links, buffers):
    """The adjoints of a leaf's entries from the slope by every cell's mass, buffers.surprise; adds to link_slope."""
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
    """Adds d value / d flow to `slope`, from the slopes of the links."""
    for edge in range(moves.flow.size):
        for part in range(links.part_start[edge], links.part_start[edge + 1]):
            slope[edge] += links.part_value[part] * buffers.link_slope[links.part_link[part]]


@njit(cache=True, nogil=True)
def entropy_step(shape, links, moves, buffers, slope, stop):
    """After the last observation: the expected H(Z | y), and the adjoints of the leaves; adds to d value / d flow.

    See last_observation.last_step for the derivative. Cells of no mass count as 0, with derivative 0.
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
def fill_leaves(shape, links, moves, buffers, masses, stop):
    """P(o, z | leaf) of every cell that may follow a leaf, as shape.cell lists them."""
    _fill_links(links, moves, buffers)
    for leaf in range(shape.cell_start.size - 1):
        if stop[0] != 0:
            break
        _fill_cells(shape, leaf, links, buffers)
        for index in range(shape.cell_start[leaf], shape.cell_start[leaf + 1]):
            masses[index] = buffers.cell_mass[shape.cell[index]]
            buffers.cell_mass[shape.cell[index]] = 0.0


@njit(cache=True, nogil=True)
def slope_step(shape, links, moves, buffers, cell_slope, slope, stop):
    """The adjoints of the leaves from the slope by the mass of every cell that follows; adds to d value / d flow."""
    for leaf in range(shape.cell_start.size - 1):
        if stop[0] != 0:
            break
        for index in range(shape.cell_start[leaf], shape.cell_start[leaf + 1]):
            buffers.surprise[shape.cell[index]] = cell_slope[index]
        _leaf_adjoint(shape, leaf, links, buffers)
    _add_link_slopes(links, moves, buffers, slope)


@njit(cache=True, inline="always")
def _surprises(shape, leaf, links, cell_mass, surprise, chance):
    """H(Z | y) expected after a leaf, and -log2 P(z | y) in every cell; clears the masses."""
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
    """The adjoints of a node's entries, given what is expected of every next state; adds to d value / d flow."""
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
    """P(x' | node), added to zeros."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        weight = belief[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] += weight * moves.flow[edge]


@njit(cache=True, inline="always")
def _clear(shape, node, moves, predicted):
    """Zeros again where _predict wrote."""
    for entry in range(shape.entry_start[node], shape.entry_start[node + 1]):
        state = shape.state[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            predicted[moves.target[edge]] = 0.0


@njit(cache=True, nogil=True)
def sweep_backward(shape, moves, buffers, slope, stop):
    """Adjoints of all entries from those of the last level; adds d value / d flow to `slope`."""
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
