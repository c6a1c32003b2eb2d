"""Compiled inner loops of the belief graph. Cost follows the support of the beliefs.

Beliefs are stored sparsely: node n owns the entries start[n] .. start[n + 1] - 1, and an entry names a *pair* (state,
observation that the state just emitted), so that its state, its observation and E(o | x) are all at hand. Every
kernel works for real and for complex numbers: an imaginary part of size STEP carries a derivative along a direction
(the complex-step method), which turns the gradient code into Hessian-vector products.

Zero is a value, never a mark: products of small probabilities underflow to 0. What has been visited is recorded in
flags of its own, and every buffer is sized by what can be visited once. Kernels that loop over nodes read `work.stop`
and return early when it is set; they say how many nodes they dealt with.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray

ShortArray = NDArray[np.int32]

STEP = 1e-20  # size of the imaginary part that carries a derivative
_ROUNDED_BITS = np.int64(14)  # beliefs that agree but for these last bits of 52 are one node
_HALF = np.int64(1 << 13)
_TANGENT_GRAIN = 2.0**30 / STEP
_TANGENT_LIMIT = 2.0**62
_TANGENT_KEY = np.int64(0x5DEECE66D)
_TOP = np.uint64(32)  # the high bits of a multilinear hash are the good ones
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_IMPOSSIBLE = 1e-290  # observations less likely than this are left out: dividing by less overflows
_BITS = 1.0 / math.log(2.0)


class Moves(NamedTuple):
    """The Markov chain under a policy: edges by state, the source last."""

    start: IndexArray  # [state + 2]
    target: IndexArray  # [edge]
    flow: Any  # [edge], real or complex


class Nodes(NamedTuple):
    """The distinct beliefs of one level."""

    start: IntArray  # [node + 1]
    pair: IndexArray  # [entry]
    belief: Any  # [entry]: P(x | y), summing to 1 over a node; real or complex
    mass: Any  # [node]: P(y), summed over the sequences of the node; real or complex
    best: FloatArray  # [node]: probability of its likeliest sequence
    parent: IntArray  # [node]: the node which that sequence comes from
    observation: ShortArray  # [node]: the last observation
    runs: IntArray  # [node]: how many sampled runs passed (0 when nothing is sampled)


class Arcs(NamedTuple):
    """From the nodes of one level to those of the next; weight is empty where every weight is 1."""

    start: IntArray  # [node + 1]
    child: IntArray  # [arc]
    weight: FloatArray  # [arc]


class Known(NamedTuple):
    """Continuations after which the secret is settled, whatever comes."""

    node: IntArray
    observation: IntArray
    value: IntArray
    mass: FloatArray


class Scratch(NamedTuple):
    """Working memory, clean between nodes, and the byte that asks a kernel to stop."""

    predicted: Any  # [state]
    marked: BoolArray  # [state]: whether it is among the touched ones
    touched: IndexArray  # [state]: the marked states
    chance: Any  # [observation]: P(o | node)
    fill: IntArray  # [observation]: how many entries it has; 0 between nodes
    settled: IntArray  # [observation]
    runs: IntArray  # [observation]
    seen: IndexArray  # [observation]: those with entries
    pair: IndexArray  # [pair]: entries, a segment per observation
    value: Any  # [pair]
    listed: BoolArray  # [cell]: whether it is among the listed cells; False between nodes
    cells: IndexArray  # [cell]: the listed cells
    cell_mass: Any  # [cell]
    surprise: Any  # [cell]
    largest: FloatArray  # [observation]
    expected: Any  # [state]: 0 between nodes
    stop: Any  # [1]: not 0 when the work should end


def scratch(num_states: int, num_observations: int, num_pairs: int, num_cells: int, dtype: Any, stop: Any) -> Scratch:
    """Working memory for the kernels."""
    return Scratch(
        predicted=np.zeros(num_states + 1, dtype),
        marked=np.zeros(num_states + 1, np.bool_),
        touched=np.zeros(num_states + 1, np.uint32),
        chance=np.zeros(num_observations, dtype),
        fill=np.zeros(num_observations, np.int64),
        settled=np.zeros(num_observations, np.int64),
        runs=np.zeros(num_observations, np.int64),
        seen=np.zeros(num_observations, np.uint32),
        pair=np.zeros(num_pairs, np.uint32),
        value=np.zeros(num_pairs, dtype),
        listed=np.zeros(num_cells, np.bool_),
        cells=np.zeros(num_cells, np.uint32),
        cell_mass=np.zeros(num_cells, dtype),
        surprise=np.zeros(num_cells, dtype),
        largest=np.zeros(num_observations, np.float64),
        expected=np.zeros(num_states + 1, dtype),
        stop=stop,
    )


@njit(cache=True, inline="always")
def _digits(value):
    """A belief entry as a whole number, blind to rounding errors, and to those of its tangent where it has one."""
    slope = value.imag * _TANGENT_GRAIN
    tangent = np.int64(math.floor(min(max(slope, -_TANGENT_LIMIT), _TANGENT_LIMIT) + 0.5))
    bits = np.uint64(((np.float64(value.real).view(np.int64) + _HALF) >> _ROUNDED_BITS) + tangent * _TANGENT_KEY)
    bits *= _MIX  # short fractions end in zeros, which a multiplier alone would keep
    return bits ^ (bits >> _TOP)


@njit(cache=True)
def longer(array, size):
    """The array with room for more."""
    longer = np.empty(size, array.dtype)
    longer[: array.size] = array
    return longer


@njit(cache=True)
def _taller(table, size):
    taller = np.empty((size, table.shape[1]), table.dtype)
    taller[: table.shape[0]] = table
    return taller


class _Columns(NamedTuple):
    """The nodes of a level under construction, with room for more."""

    start: Any
    mass: Any
    best: Any
    parent: Any
    observation: Any
    runs: Any
    hashes: Any  # [node, 2]


@njit(cache=True)
def _new_columns(room, mass):
    """Memory that is never touched costs nothing."""
    columns = _Columns(
        np.empty(room + 1, np.int64),
        np.empty(room, mass.dtype),
        np.empty(room, np.float64),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty((room, 2), np.uint64),
    )
    columns.start[0] = 0
    return columns


@njit(cache=True)
def _room_for_nodes(columns, needed):
    if needed <= columns.mass.size:
        return columns
    room = 2 * needed
    return _Columns(
        longer(columns.start, room + 1),
        longer(columns.mass, room),
        longer(columns.best, room),
        longer(columns.parent, room),
        longer(columns.observation, room),
        longer(columns.runs, room),
        _taller(columns.hashes, room),
    )


@njit(cache=True)
def _room_for_known(known, needed):
    if needed <= known.node.size:
        return known
    room = 2 * needed
    return Known(
        longer(known.node, room),
        longer(known.observation, room),
        longer(known.value, room),
        longer(known.mass, room),
    )


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
def _slot_of(table, hashes, hashed, check):
    """Where a belief stands in the hash table, or the empty slot where it belongs."""
    mask = np.uint64(table.size - 1)
    slot = (hashed >> _TOP) & mask
    child = table[np.int64(slot)]
    while child >= 0 and (hashes[child, 0] != hashed or hashes[child, 1] != check):
        slot = (slot + _ONE) & mask
        child = table[np.int64(slot)]
    return np.int64(slot)


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

    Returns how many observations were seen; observation o has fill[o] entries in its segment. The reader sets
    fill[o] back to 0.
    """
    num_touched = _predict(nodes, node, moves, pairs, work)
    num_seen = 0
    for index in range(num_touched):
        state = work.touched[index]
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
    """Distribute sampled runs over the observations seen, by their chances; rounding errors go to the likeliest."""
    likeliest = 0
    for index in range(num_seen):
        if work.chance[work.seen[index]].real > work.chance[work.seen[likeliest]].real:
            likeliest = index
    for draw in draws:
        left = draw
        chosen = likeliest
        for index in range(num_seen):
            chance = work.chance[work.seen[index]].real
            left -= chance
            if left < 0.0:
                if chance >= _IMPOSSIBLE:
                    chosen = index
                break
        work.runs[work.seen[chosen]] += 1


@njit(cache=True, inline="always")
def _normalise(first, last, chance, pairs, work):
    """Divide a segment by its sum; two hashes of the belief that results."""
    hashed, check = np.uint64(last - first), np.uint64(last - first)
    scale = 1.0 / chance
    for at in range(first, last):
        work.value[at] *= scale
        digits = _digits(work.value[at])
        hashed += digits * pairs.key[work.pair[at], 0]
        check += digits * pairs.key[work.pair[at], 1]
    return hashed, check


@njit(cache=True, nogil=True)
def expand(nodes, moves, pairs, settled, draws, work, keep_arcs, max_entries):
    """One level of the belief graph from the one before it; proportional beliefs become one node.

    `draws` is empty for the whole graph; with one uniform number per run it follows only sampled observations.
    Children whose secret is settled whatever comes are not made: they add nothing to opacity or guess error; their
    mass is returned. Nodes not reached before `max_entries` is exceeded, or when asked to stop, are left out; the
    number of nodes expanded is returned.
    """
    num_nodes = nodes.mass.size
    sampled = draws.size > 0
    columns = _new_columns(4 * num_nodes + 16, nodes.mass)
    pair = np.empty(4 * nodes.pair.size + 64, np.uint32)
    belief = np.empty(4 * nodes.pair.size + 64, nodes.belief.dtype)
    arc_start = np.zeros(num_nodes + 1, np.int64)
    arc_child = np.empty(4 * num_nodes + 16, np.int64)
    arc_weight = np.empty(4 * num_nodes + 16, np.float64)
    known = Known(np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.float64))
    table_size = 64
    while table_size < 4 * num_nodes:
        table_size *= 2
    table = np.full(table_size, -1, np.int32)
    count, num_arcs, num_known, drawn, reached, settled_mass = 0, 0, 0, 0, num_nodes, 0.0

    for node in range(num_nodes):
        if columns.start[count] > max_entries or work.stop[0] != 0:
            reached = node
            arc_start[node + 1 :] = num_arcs
            break
        num_seen = _look_ahead(nodes, node, moves, pairs, settled, work)
        if sampled:
            _draw(draws[drawn : drawn + nodes.runs[node]], num_seen, work)
            drawn += nodes.runs[node]
        num_entries = columns.start[count]
        for index in range(num_seen):
            num_entries += work.fill[work.seen[index]]
        columns = _room_for_nodes(columns, count + num_seen)
        if num_entries > pair.size:
            pair = longer(pair, 2 * num_entries)
            belief = longer(belief, 2 * num_entries)
        if keep_arcs:
            known = _room_for_known(known, num_known + num_seen)
            if num_arcs + num_seen > arc_child.size:
                arc_child = longer(arc_child, 2 * (num_arcs + num_seen))
                arc_weight = longer(arc_weight, 2 * (num_arcs + num_seen))
        for index in range(num_seen):
            observation = work.seen[index]
            first = pairs.segment[observation]
            last = first + work.fill[observation]
            work.fill[observation] = 0
            chance = work.chance[observation]
            factor = 1.0
            if chance.real < _IMPOSSIBLE or (sampled and work.runs[observation] == 0):
                continue
            if sampled:
                factor = work.runs[observation] / (nodes.runs[node] * chance.real)
            share = nodes.mass[node] * (chance * factor)
            if work.settled[observation] >= 0:
                settled_mass += share.real
                if keep_arcs:
                    known.node[num_known] = node
                    known.observation[num_known] = observation
                    known.value[num_known] = work.settled[observation]
                    known.mass[num_known] = share.real
                    num_known += 1
                continue
            likeliest = nodes.best[node] * chance.real
            hashed, check = _normalise(first, last, chance, pairs, work)
            slot = _slot_of(table, columns.hashes, hashed, check)
            child = int(table[slot])
            if child >= 0:
                columns.mass[child] += share
                columns.runs[child] += work.runs[observation]
                if likeliest > columns.best[child]:
                    columns.best[child] = likeliest
                    columns.parent[child] = node
            else:
                child = count
                count += 1
                table[slot] = child
                fill = columns.start[child]
                for at in range(first, last):
                    pair[fill] = work.pair[at]
                    belief[fill] = work.value[at]
                    fill += 1
                columns.start[count] = fill
                columns.mass[child] = share
                columns.best[child] = likeliest
                columns.parent[child] = node
                columns.observation[child] = observation
                columns.runs[child] = work.runs[observation]
                columns.hashes[child, 0] = hashed
                columns.hashes[child, 1] = check
                if 2 * count > table.size:
                    table = _rehash(4 * table.size, columns.hashes, count)
            if keep_arcs:
                arc_child[num_arcs] = child
                arc_weight[num_arcs] = factor
                num_arcs += 1
        arc_start[node + 1] = num_arcs
    fill = columns.start[count]
    made = Nodes(
        columns.start[: count + 1],
        pair[:fill],
        belief[:fill],
        columns.mass[:count],
        columns.best[:count],
        columns.parent[:count],
        columns.observation[:count],
        columns.runs[:count],
    )
    arcs = Arcs(arc_start, arc_child[:num_arcs], arc_weight[: num_arcs if sampled else 0])
    known = Known(
        known.node[:num_known], known.observation[:num_known], known.value[:num_known], known.mass[:num_known]
    )
    return made, arcs, known, reached, settled_mass


@njit(cache=True, nogil=True)
def expand_levels(nodes, moves, pairs, settled, draws, work, steps, max_nodes, max_entries):
    """Several levels in one call while they stay small: long horizons cost no call per level.

    `draws` has one row per level (no columns: nothing is sampled). Returns the last level that is complete, how many
    levels were made, how many nodes and entries they have together, and the mass that was settled. A level that was
    not finished, or that has more than `max_nodes` nodes, is not returned.
    """
    num_nodes, num_entries, total_settled = 0, 0, 0.0
    for step in range(steps):
        left = nodes.runs.sum() if draws.shape[1] > 0 else 0
        made, _, _, reached, settled_mass = expand(
            nodes, moves, pairs, settled, draws[step, :left], work, False, max_entries
        )
        if reached < nodes.mass.size or made.mass.size > max_nodes:
            return nodes, step, num_nodes, num_entries, total_settled
        nodes = made
        num_nodes += made.mass.size
        num_entries += made.pair.size
        total_settled += settled_mass
        if made.mass.size == 0:
            return nodes, steps, num_nodes, num_entries, total_settled
    return nodes, steps, num_nodes, num_entries, total_settled


@njit(cache=True, inline="always")
def _accumulate_adjoint(nodes, node, moves, pairs, expected, slope, adjoint):
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


@njit(cache=True, inline="always")
def _fill_cells(num_touched, pairs, work):
    """P(z, o | node) in work.cell_mass for the listed cells; a cell is one (observation, secret value)."""
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


@njit(cache=True, nogil=True)
def last_step(nodes, moves, pairs, work, with_slope, slope):
    """After the last observation: H(Z | y) and guess error expected at every node before it, and the adjoints there.

    f(alpha) = -sum_z q_z log2(q_z / sum q) has the derivative -log2 P(z(x) | y) at alpha(x); cells of no mass count
    as 0, with derivative 0. Returns also how many nodes were dealt with before it was asked to stop.
    """
    num_nodes = nodes.mass.size
    entropy = np.zeros(num_nodes, np.float64)
    error = np.zeros(num_nodes, np.float64)
    adjoint = np.zeros(nodes.belief.size if with_slope else 0, nodes.belief.dtype)
    for node in range(num_nodes):
        if work.stop[0] != 0:
            return entropy, error, adjoint, node
        num_touched = _predict(nodes, node, moves, pairs, work)
        num_cells = _fill_cells(num_touched, pairs, work)
        for index in range(num_cells):
            cell = work.cells[index]
            observation = pairs.cell_observation[cell]
            share = work.cell_mass[cell].real
            surprise = 0.0 * work.cell_mass[cell]
            if share >= _IMPOSSIBLE and work.cell_mass[cell] != work.chance[observation]:
                surprise = -np.log(work.cell_mass[cell] / work.chance[observation]) * _BITS
                entropy[node] += share * surprise.real
            work.surprise[cell] = surprise
            if share > work.largest[observation]:
                error[node] += work.largest[observation]
                work.largest[observation] = share
            else:
                error[node] += share
        if with_slope:
            for index in range(num_touched):
                state = work.touched[index]
                for pair in range(pairs.start[state], pairs.start[state + 1]):
                    work.expected[state] += pairs.value[pair] * work.surprise[pairs.cell[pair]]
            _accumulate_adjoint(nodes, node, moves, pairs, work.expected, slope, adjoint)
            for index in range(num_touched):
                work.expected[work.touched[index]] = 0.0
    return entropy, error, adjoint, num_nodes


@njit(cache=True, nogil=True)
def backward_step(nodes, arcs, children, child_adjoint, moves, pairs, slope, work):
    """One level backwards: the adjoint of every entry; adds d opacity / d flow to `slope`."""
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


@njit(cache=True, nogil=True)
def push_forward(start, moves, reward, discount, steps):
    """sum over t = 0 .. steps of discount^t E[reward(x_t)], and the distribution of the last state."""
    now = start.copy()
    total, worth = 0.0, 1.0
    for time in range(steps + 1):
        paid = 0.0
        for state in range(now.size):
            paid += now[state] * reward[state]
        total += worth * paid
        worth *= discount
        if time < steps:
            ahead = np.zeros_like(now)
            for state in range(now.size):
                weight = now[state]
                if weight != 0.0:
                    for edge in range(moves.start[state], moves.start[state + 1]):
                        ahead[moves.target[edge]] += weight * moves.flow[edge]
            now = ahead
    return total, now


@njit(cache=True, nogil=True)
def pay(start, moves, reward, final, discount, horizon):
    """Expected payoff of a chain, its derivatives by flow and by reward, and the expected visits of every state.

    One sweep forward, one back, over the states that can be reached at each time. `start` is P(x_0 = x); edges of the
    source are not counted.
    """
    size = start.size
    first, state_at, visit_at = _visits_by_time(start, moves, horizon)
    slope = np.zeros(moves.flow.size, moves.flow.dtype)
    paid = np.zeros(size, moves.flow.dtype)
    visits = np.zeros(size, np.float64)
    ahead = np.zeros(size, moves.flow.dtype)  # the value of every state that can be reached at the next time
    value = np.zeros(size, moves.flow.dtype)
    for time in range(horizon, -1, -1):
        worth = discount**time
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            weight = visit_at[index]
            paid[state] += worth * weight
            visits[state] += weight.real
            total = worth * reward[state]
            if time == horizon:
                total += final[state]
            else:
                for edge in range(moves.start[state], moves.start[state + 1]):
                    slope[edge] += weight * ahead[moves.target[edge]]
                    total += moves.flow[edge] * ahead[moves.target[edge]]
            value[state] = total
        for index in range(first[time], first[time + 1]):
            ahead[state_at[index]] = value[state_at[index]]
    total = 0.0 * ahead[0]
    for index in range(first[0], first[1]):
        total += visit_at[index] * ahead[state_at[index]]
    return total, slope, paid, visits


@njit(cache=True)
def _visits_by_time(start, moves, horizon):
    """The states that can be reached at each time and their probabilities: those of time t from first[t] on."""
    size = start.size
    first = np.zeros(horizon + 2, np.int64)
    state_at = np.empty(4 * size + 16, np.int64)
    visit_at = np.empty(4 * size + 16, moves.flow.dtype)
    listed = np.zeros(size, np.bool_)
    now = np.zeros(size, moves.flow.dtype)
    count = 0
    for state in range(size):
        if start[state] > 0.0:
            state_at[count] = state
            visit_at[count] = start[state]
            count += 1
    first[1] = count
    for time in range(horizon):
        if count + size > state_at.size:
            state_at = longer(state_at, 2 * (count + size))
            visit_at = longer(visit_at, 2 * (count + size))
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            for edge in range(moves.start[state], moves.start[state + 1]):
                target = moves.target[edge]
                if moves.flow[edge].real == 0.0:
                    continue
                if not listed[target]:
                    listed[target] = True
                    now[target] = 0.0
                    state_at[count] = target
                    count += 1
                now[target] += visit_at[index] * moves.flow[edge]
        first[time + 2] = count
        for index in range(first[time + 1], count):
            visit_at[index] = now[state_at[index]]
            listed[state_at[index]] = False
    return first, state_at, visit_at
