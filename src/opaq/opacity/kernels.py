"""Compiled inner loops of the belief graph. Cost follows the support of the beliefs.

Beliefs are stored sparsely: node n owns the entries start[n] .. start[n + 1] - 1, and an entry names a *pair* (state,
observation that the state just emitted), so that its state, its observation and E(o | x) are all at hand. Every
kernel works for real and for complex numbers: an imaginary part of size STEP carries a derivative along a direction
(the complex-step method), which turns the gradient code into Hessian-vector products.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

STEP = 1e-20  # size of the imaginary part that carries a derivative
_ROUNDED_BITS = np.int64(14)  # beliefs that agree but for these last bits of 52 are one node
_HALF = np.int64(1 << 13)
_TANGENT_GRAIN = 2.0**30 / STEP
_TANGENT_KEY = np.int64(0x5DEECE66D)
_TOP = np.uint64(32)  # the high bits of a multilinear hash are the good ones
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_IMPOSSIBLE = 1e-290  # observations less likely than this are left out: dividing by less overflows
_BITS = 1.0 / math.log(2.0)


class Moves(NamedTuple):
    """The Markov chain under a policy: edges by state, the source last."""

    start: Any  # [state + 2]
    target: Any  # [edge]
    flow: Any  # [edge]


class Nodes(NamedTuple):
    """The distinct beliefs of one level."""

    start: Any  # [node + 1]
    pair: Any  # [entry]
    belief: Any  # [entry]: P(x | y), summing to 1 over a node
    mass: Any  # [node]: P(y), summed over the sequences of the node
    best: Any  # [node]: probability of its likeliest sequence
    parent: Any  # [node]: the node which that sequence comes from
    observation: Any  # [node]: the last observation
    runs: Any  # [node]: how many sampled runs passed (0 when nothing is sampled)


class Arcs(NamedTuple):
    """From the nodes of one level to those of the next; weight is empty where every weight is 1."""

    start: Any  # [node + 1]
    child: Any  # [arc]
    weight: Any  # [arc]


class Known(NamedTuple):
    """Continuations after which the secret is settled, whatever comes."""

    node: Any
    observation: Any
    value: Any
    mass: Any


class Scratch(NamedTuple):
    """Working memory, clean between nodes."""

    predicted: Any  # [state]
    marked: Any  # [state]
    touched: Any  # [state]: the marked states
    chance: Any  # [observation]: P(o | node)
    fill: Any  # [observation]: how many entries it has; 0 between nodes
    settled: Any  # [observation]
    runs: Any  # [observation]
    seen: Any  # [observation]: those with entries
    pair: Any  # [pair]: entries, a segment an observation
    value: Any  # [pair]
    cells: Any  # [cell]: those touched
    cell_mass: Any  # [cell]: always zero between nodes
    surprise: Any  # [cell]
    largest: Any  # [observation]
    expected: Any  # [state]: always zero between nodes


def scratch(num_states: int, num_observations: int, num_pairs: int, num_cells: int, dtype: Any) -> Scratch:
    """Working memory for the kernels."""
    return Scratch(
        predicted=np.zeros(num_states + 1, dtype),
        marked=np.zeros(num_states + 1, np.bool_),
        touched=np.zeros(num_states + 1, np.int64),
        chance=np.zeros(num_observations, dtype),
        fill=np.zeros(num_observations, np.int64),
        settled=np.zeros(num_observations, np.int64),
        runs=np.zeros(num_observations, np.int64),
        seen=np.zeros(num_observations, np.int64),
        pair=np.zeros(num_pairs, np.int32),
        value=np.zeros(num_pairs, dtype),
        cells=np.zeros(num_cells + 1, np.int64),
        cell_mass=np.zeros(num_cells, dtype),
        surprise=np.zeros(num_cells, dtype),
        largest=np.zeros(num_observations, np.float64),
        expected=np.zeros(num_states + 1, dtype),
    )


@njit(cache=True, inline="always")
def _digits(value):
    """A belief entry as a whole number, blind to rounding errors, and to those of its tangent where it has one."""
    tangent = np.int64(math.floor(value.imag * _TANGENT_GRAIN + 0.5))
    bits = np.uint64(((np.float64(value.real).view(np.int64) + _HALF) >> _ROUNDED_BITS) + tangent * _TANGENT_KEY)
    bits *= _MIX  # short fractions end in zeros, which a multiplier alone would keep
    return bits ^ (bits >> _TOP)


@njit(cache=True)
def _longer(array, size):
    longer = np.empty(size, array.dtype)
    longer[: array.size] = array
    return longer


@njit(cache=True)
def _taller(table, size):
    taller = np.empty((size, table.shape[1]), table.dtype)
    taller[: table.shape[0]] = table
    return taller


@njit(cache=True)
def _rehash(size, hashes, count):
    table = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for node in range(count):
        slot = (hashes[node, 0] >> _TOP) & mask
        while table[np.int64(slot)] >= 0:
            slot = (slot + _ONE) & mask
        table[np.int64(slot)] = node
    return table


@njit(cache=True, inline="always")
def _predict(nodes, node, moves, pairs, work):
    """Where the state may be after a node: P(x' | node) in work.predicted, for the touched states."""
    num_touched = 0
    for entry in range(nodes.start[node], nodes.start[node + 1]):
        state = pairs.state[nodes.pair[entry]]
        weight = nodes.belief[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            flow = moves.flow[edge]
            if flow.real == 0.0:
                continue
            target = moves.target[edge]
            if work.marked[target]:
                work.predicted[target] += weight * flow
            else:
                work.marked[target] = True
                work.predicted[target] = weight * flow
                work.touched[num_touched] = target
                num_touched += 1
    return num_touched


@njit(cache=True, inline="always")
def _look_ahead(nodes, node, moves, pairs, settled, work):
    """What may be seen after a node: P(x', o' | node), by observation, in the scratch arrays.

    Returns how many observations were seen; observation o has fill[o] entries in its segment. Who reads them sets
    fill[o] back to 0.
    """
    num_touched = _predict(nodes, node, moves, pairs, work)
    num_seen = 0
    for place in range(num_touched):
        state = work.touched[place]
        work.marked[state] = False
        for pair in range(pairs.start[state], pairs.start[state + 1]):
            value = work.predicted[state] * pairs.value[pair]
            if value.real == 0.0:
                continue
            observation = pairs.observation[pair]
            filled = work.fill[observation]
            if filled == 0:
                work.chance[observation] = value
                work.settled[observation] = settled[state]
                work.runs[observation] = 0
                work.seen[num_seen] = observation
                num_seen += 1
            else:
                work.chance[observation] += value
                if work.settled[observation] != settled[state]:
                    work.settled[observation] = -1
            at = pairs.segment[observation] + filled
            work.pair[at] = pair
            work.value[at] = value
            work.fill[observation] = filled + 1
    return num_seen


@njit(cache=True)
def _draw(draws, num_seen, work):
    """Deal sampled runs out to the observations seen, by their chances."""
    for draw in draws:
        left = draw
        chosen = num_seen - 1
        for place in range(num_seen):
            left -= work.chance[work.seen[place]].real
            if left < 0.0:
                chosen = place
                break
        work.runs[work.seen[chosen]] += 1


@njit(cache=True, nogil=True)
def expand(nodes, moves, pairs, settled, draws, work, keep_arcs, max_entries):
    """One level of the belief graph from the one before it; proportional beliefs become one node.

    `draws` is empty for the whole graph; with one uniform number a run it follows only sampled observations.
    Children whose secret is settled whatever comes are not made: they add nothing to opacity or guess error.
    Nodes not reached before `max_entries` is exceeded are left out; the first one left out is returned.
    """
    num_nodes = nodes.mass.size
    sampled = draws.size > 0
    room = 4 * num_nodes + 16  # memory that is never touched costs nothing
    start = np.empty(room + 1, np.int64)
    mass = np.empty(room, nodes.mass.dtype)
    best = np.empty(room, np.float64)
    parent = np.empty(room, np.int64)
    last_observation = np.empty(room, np.int32)
    runs = np.empty(room, np.int64)
    hashes = np.empty((room, 2), np.uint64)
    start[0] = 0
    pair = np.empty(4 * nodes.pair.size + 64, np.int32)
    belief = np.empty(4 * nodes.pair.size + 64, nodes.belief.dtype)
    arc_start = np.zeros(num_nodes + 1, np.int64)
    arc_child = np.empty(room, np.int64)
    arc_weight = np.empty(room, np.float64)
    known_node = np.empty(16, np.int64)
    known_observation = np.empty(16, np.int64)
    known_value = np.empty(16, np.int64)
    known_mass = np.empty(16, np.float64)
    table_size = 64
    while table_size < 4 * num_nodes:
        table_size *= 2
    table = np.full(table_size, -1, np.int32)
    count, num_arcs, num_known, drawn, reached = 0, 0, 0, 0, num_nodes

    for node in range(num_nodes):
        if start[count] > max_entries:
            reached = node
            arc_start[node + 1 :] = num_arcs
            break
        num_seen = _look_ahead(nodes, node, moves, pairs, settled, work)
        if sampled:
            _draw(draws[drawn : drawn + nodes.runs[node]], num_seen, work)
            drawn += nodes.runs[node]
        if count + num_seen > mass.size:
            room = 2 * (count + num_seen)
            start = _longer(start, room + 1)
            mass = _longer(mass, room)
            best = _longer(best, room)
            parent = _longer(parent, room)
            last_observation = _longer(last_observation, room)
            runs = _longer(runs, room)
            hashes = _taller(hashes, room)
        num_entries = 0
        for place in range(num_seen):
            num_entries += work.fill[work.seen[place]]
        if start[count] + num_entries > pair.size:
            room = 2 * (start[count] + num_entries)
            pair = _longer(pair, room)
            belief = _longer(belief, room)
        if keep_arcs and num_arcs + num_seen > arc_child.size:
            room = 2 * (num_arcs + num_seen)
            arc_child = _longer(arc_child, room)
            arc_weight = _longer(arc_weight, room)
        if keep_arcs and num_known + num_seen > known_node.size:
            room = 2 * (num_known + num_seen)
            known_node = _longer(known_node, room)
            known_observation = _longer(known_observation, room)
            known_value = _longer(known_value, room)
            known_mass = _longer(known_mass, room)
        for place in range(num_seen):
            observation = work.seen[place]
            first = pairs.segment[observation]
            last = first + work.fill[observation]
            work.fill[observation] = 0
            chance = work.chance[observation]
            if chance.real < _IMPOSSIBLE:
                continue
            factor = 1.0
            if sampled:
                if work.runs[observation] == 0:
                    continue
                factor = work.runs[observation] / (nodes.runs[node] * chance.real)
            share = nodes.mass[node] * chance * factor
            likeliest = nodes.best[node] * chance.real
            if work.settled[observation] >= 0:
                if keep_arcs:
                    known_node[num_known] = node
                    known_observation[num_known] = observation
                    known_value[num_known] = work.settled[observation]
                    known_mass[num_known] = share.real
                    num_known += 1
                continue
            scale = 1.0 / chance
            hashed, check = np.uint64(last - first), np.uint64(last - first)
            for at in range(first, last):
                work.value[at] *= scale
                digits = _digits(work.value[at])
                hashed += digits * pairs.key[work.pair[at], 0]
                check += digits * pairs.key[work.pair[at], 1]
            mask = np.uint64(table_size - 1)
            slot = (hashed >> _TOP) & mask
            child = table[np.int64(slot)]
            while child >= 0 and (hashes[child, 0] != hashed or hashes[child, 1] != check):
                slot = (slot + _ONE) & mask
                child = table[np.int64(slot)]
            if child >= 0:
                mass[child] += share
                runs[child] += work.runs[observation]
                if likeliest > best[child]:
                    best[child] = likeliest
                    parent[child] = node
            else:
                child = count
                count += 1
                table[np.int64(slot)] = child
                fill = start[child]
                for at in range(first, last):
                    pair[fill] = work.pair[at]
                    belief[fill] = work.value[at]
                    fill += 1
                start[count] = fill
                mass[child] = share
                best[child] = likeliest
                parent[child] = node
                last_observation[child] = observation
                runs[child] = work.runs[observation]
                hashes[child, 0] = hashed
                hashes[child, 1] = check
                if 2 * count > table_size:
                    table_size *= 4
                    table = _rehash(table_size, hashes, count)
            if keep_arcs:
                arc_child[num_arcs] = child
                arc_weight[num_arcs] = factor
                num_arcs += 1
        arc_start[node + 1] = num_arcs
    fill = start[count]
    made = Nodes(
        start[: count + 1],
        pair[:fill],
        belief[:fill],
        mass[:count],
        best[:count],
        parent[:count],
        last_observation[:count],
        runs[:count],
    )
    arcs = Arcs(arc_start, arc_child[:num_arcs], arc_weight[: num_arcs if sampled else 0])
    known = Known(
        known_node[:num_known],
        known_observation[:num_known],
        known_value[:num_known],
        known_mass[:num_known],
    )
    return made, arcs, known, reached


@njit(cache=True, inline="always")
def _blame(nodes, node, moves, pairs, expected, slope, adjoint):
    """The adjoints of a node's entries, given what is expected of every next state; adds to d opacity / d flow."""
    for entry in range(nodes.start[node], nodes.start[node + 1]):
        state = pairs.state[nodes.pair[entry]]
        weight = nodes.mass[node] * nodes.belief[entry]
        total = adjoint[entry]
        for edge in range(moves.start[state], moves.start[state + 1]):
            ahead = expected[moves.target[edge]]
            total += moves.flow[edge] * ahead
            slope[edge] += weight * ahead
        adjoint[entry] = total


@njit(cache=True, nogil=True)
def conclude(nodes, moves, pairs, work, with_slope, slope):
    """After the last observation: H(Z | y) and guess error expected at every node before it, and the adjoints there.

    f(alpha) = -sum_z q_z log2(q_z / sum q) has the derivative -log2 P(z(x) | y) at alpha(x). A cell is one
    (observation, secret value); nothing need be sorted.
    """
    num_nodes = nodes.mass.size
    entropy = np.zeros(num_nodes, np.float64)
    error = np.zeros(num_nodes, np.float64)
    adjoint = np.zeros(nodes.belief.size if with_slope else 0, nodes.belief.dtype)
    for node in range(num_nodes):
        num_touched = _predict(nodes, node, moves, pairs, work)
        num_cells = 0
        for place in range(num_touched):
            state = work.touched[place]
            work.marked[state] = False
            for pair in range(pairs.start[state], pairs.start[state + 1]):
                cell = pairs.cell[pair]
                if work.cell_mass[cell] == 0.0:
                    work.cells[num_cells] = cell
                    num_cells += 1
                work.cell_mass[cell] += work.predicted[state] * pairs.value[pair]
        for place in range(num_cells):
            cell = work.cells[place]
            observation = pairs.cell_observation[cell]
            work.chance[observation] = 0.0
            work.largest[observation] = 0.0
        for place in range(num_cells):
            cell = work.cells[place]
            work.chance[pairs.cell_observation[cell]] += work.cell_mass[cell]
        for place in range(num_cells):
            cell = work.cells[place]
            observation = pairs.cell_observation[cell]
            share = work.cell_mass[cell].real
            surprise = 0.0 * work.cell_mass[cell]
            if share >= _IMPOSSIBLE and work.cell_mass[cell] != work.chance[observation]:
                surprise = -np.log(work.cell_mass[cell] / work.chance[observation]) * _BITS
                entropy[node] += share * surprise.real
            work.surprise[cell] = surprise
            error[node] += share
            if share > work.largest[observation]:
                error[node] -= share - work.largest[observation]
                work.largest[observation] = share
        if with_slope:
            for place in range(num_touched):
                state = work.touched[place]
                for pair in range(pairs.start[state], pairs.start[state + 1]):
                    work.expected[state] += pairs.value[pair] * work.surprise[pairs.cell[pair]]
            _blame(nodes, node, moves, pairs, work.expected, slope, adjoint)
            for place in range(num_touched):
                work.expected[work.touched[place]] = 0.0
        for place in range(num_cells):
            work.cell_mass[work.cells[place]] = 0.0
    return entropy, error, adjoint


@njit(cache=True, nogil=True)
def retreat(nodes, arcs, children, child_adjoint, moves, pairs, slope, expected):
    """One level backwards: the adjoint of every entry; adds d opacity / d flow to `slope`."""
    adjoint = np.zeros(nodes.belief.size, nodes.belief.dtype)
    weighted = arcs.weight.size > 0
    for node in range(nodes.mass.size):
        for arc in range(arcs.start[node], arcs.start[node + 1]):
            child = arcs.child[arc]
            if child < 0:
                continue
            factor = arcs.weight[arc] if weighted else 1.0
            for entry in range(children.start[child], children.start[child + 1]):
                pair = children.pair[entry]
                expected[pairs.state[pair]] += factor * pairs.value[pair] * child_adjoint[entry]
        _blame(nodes, node, moves, pairs, expected, slope, adjoint)
        for arc in range(arcs.start[node], arcs.start[node + 1]):
            child = arcs.child[arc]
            if child < 0:
                continue
            for entry in range(children.start[child], children.start[child + 1]):
                expected[pairs.state[children.pair[entry]]] = 0.0
    return adjoint


@njit(cache=True, nogil=True)
def pay(start, moves, reward, final, discount, horizon):
    """Expected payoff of a chain, with its derivatives by flow and by reward: one sweep forward, one back.

    `start` is P(x_0 = x); edges of the source are not counted.
    """
    size = start.size
    visits = np.zeros((horizon + 1, size), moves.flow.dtype)
    visits[0] = start
    for time in range(horizon):
        for state in range(size):
            weight = visits[time, state]
            if weight != 0.0:
                for edge in range(moves.start[state], moves.start[state + 1]):
                    visits[time + 1, moves.target[edge]] += weight * moves.flow[edge]
    slope = np.zeros(moves.flow.size, moves.flow.dtype)
    paid = np.zeros(size, moves.flow.dtype)
    value = np.zeros(size, moves.flow.dtype)
    value[:] = final
    for time in range(horizon, -1, -1):
        worth = discount**time
        ahead = value.copy()
        for state in range(size):
            weight = visits[time, state]
            paid[state] += worth * weight
            total = value[state] if time == horizon else 0.0 * value[state]
            if time < horizon:
                for edge in range(moves.start[state], moves.start[state + 1]):
                    slope[edge] += weight * ahead[moves.target[edge]]
                    total += moves.flow[edge] * ahead[moves.target[edge]]
            value[state] = total + worth * reward[state]
    total = 0.0 * value[0]
    for state in range(size):
        total += start[state] * value[state]
    return total, slope, paid
