"""Compiled: expand one level of a belief graph into the next; proportional beliefs become one node.

For a node with belief b and mass m, and every observation o that may follow,

    P(x', o | b) = E(o | x') sum over x of b(x) P_pi(x' | x),     P(o | b) = sum over x' of P(x', o | b),

the child has belief P(x', o | b) / P(o | b) and receives the mass m P(o | b). Children are looked up in a hash table by
two multilinear hashes of their belief, rounded to 38 of 52 bits, so that rounding errors do not keep equal beliefs
apart. Children whose secret is settled get no node.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opaq.beliefs.graph import IMPOSSIBLE, STEP, Arcs, Nodes, NumberArray, SettledArcs, ShortArray, enlarge
from opaq.kernel_cache import njit
from opaq.model.arrays import FloatArray, IndexArray, IntArray

_HashArray = NDArray[np.uint64]


@njit(cache=True)
def _enlarge_rows(table, size):
    """Return a copy of a table with room for `size` rows."""
    taller = np.empty((size, table.shape[1]), table.dtype)
    taller[: table.shape[0]] = table
    return taller


class _GrowingLevel(NamedTuple):
    """The nodes of a level under construction, with room for more; fields as in `Nodes`, and two hashes per node."""

    start: IntArray  # [node + 1]
    pair: IndexArray  # [entry]
    belief: NumberArray  # [entry]
    mass: NumberArray  # [node]
    best: FloatArray  # [node]
    parent: IntArray  # [node]
    observation: ShortArray  # [node]
    runs: IntArray  # [node]
    hashes: _HashArray  # [node, 2]


@njit(cache=True)
def _new_level(nodes):
    """Return an empty level with room for four children per node; memory that is never touched costs nothing."""
    room, entries = 4 * nodes.mass.size + 16, 4 * nodes.pair.size + 64
    level = _GrowingLevel(
        np.empty(room + 1, np.int64),
        np.empty(entries, np.uint32),
        np.empty(entries, nodes.belief.dtype),
        np.empty(room, nodes.mass.dtype),
        np.empty(room, np.float64),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty((room, 2), np.uint64),
    )
    level.start[0] = 0
    return level


@njit(cache=True)
def _enlarge_level(level, nodes, entries):
    """Return the same level with twice the room for so many nodes and entries, where it has less."""
    nodes = 2 * nodes if nodes > level.mass.size else level.mass.size
    entries = 2 * entries if entries > level.pair.size else level.pair.size
    return _GrowingLevel(
        enlarge(level.start, nodes + 1),
        enlarge(level.pair, entries),
        enlarge(level.belief, entries),
        enlarge(level.mass, nodes),
        enlarge(level.best, nodes),
        enlarge(level.parent, nodes),
        enlarge(level.observation, nodes),
        enlarge(level.runs, nodes),
        _enlarge_rows(level.hashes, nodes),
    )


@njit(cache=True)
def _count_new_entries(num_seen, work):
    """Return how many entries the children of a node have together, one child per observation seen."""
    entries = 0
    for index in range(num_seen):
        entries += work.fill[work.seen[index]]
    return entries


@njit(cache=True)
def _new_arcs(num_nodes):
    """Return room for the arcs from so many nodes, four each."""
    room = 4 * num_nodes + 16
    return Arcs(np.zeros(num_nodes + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.float64))


@njit(cache=True)
def _enlarge_arcs(arcs, needed):
    """Return the same arcs with room for twice as many as needed."""
    return Arcs(arcs.start, enlarge(arcs.child, 2 * needed), enlarge(arcs.weight, 2 * needed))


@njit(cache=True)
def _new_settled_arcs():
    """Return room for some settled continuations."""
    return SettledArcs(np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.float64))


@njit(cache=True)
def _enlarge_settled_arcs(known, needed):
    """Return the same settled continuations with room for twice as many as needed."""
    room = 2 * needed
    return SettledArcs(
        enlarge(known.node, room),
        enlarge(known.observation, room),
        enlarge(known.value, room),
        enlarge(known.mass, room),
    )


@njit(cache=True)
def _add_node(level, child, first, last, work):
    """Write the belief of a new node, entries first .. last - 1 of the scratch segment, behind the others."""
    fill = level.start[child]
    for at in range(first, last):
        level.pair[fill] = work.pair[at]
        level.belief[fill] = work.value[at]
        fill += 1
    level.start[child + 1] = fill


@njit(cache=True)
def _initialise_node(level, child, observation, hashed, check):
    """Give a new node no mass, no runs, no likeliest sequence, its observation and its two hashes."""
    level.mass[child] = 0.0
    level.best[child] = -1.0
    level.runs[child] = 0
    level.observation[child] = observation
    level.hashes[child, 0] = hashed
    level.hashes[child, 1] = check


@njit(cache=True)
def _add_mass(level, child, node, share, likeliest, runs):
    """Add one more arc to a child: its mass, its runs, and the likeliest sequence if it comes this way."""
    level.mass[child] += share
    level.runs[child] += runs
    if likeliest > level.best[child]:
        level.best[child] = likeliest
        level.parent[child] = node


@njit(cache=True)
def _add_settled_arc(known, index, node, observation, value, mass):
    """Write a continuation that settles the secret at `index`."""
    known.node[index] = node
    known.observation[index] = observation
    known.value[index] = value
    known.mass[index] = mass


@njit(cache=True)
def _cut_unused_room(level, count, arcs, num_arcs, known, num_known, sampled):
    """Return nodes, arcs and settled continuations as views without the room that was not used."""
    entries = level.start[count]
    nodes = Nodes(
        level.start[: count + 1],
        level.pair[:entries],
        level.belief[:entries],
        level.mass[:count],
        level.best[:count],
        level.parent[:count],
        level.observation[:count],
        level.runs[:count],
    )
    arcs = Arcs(arcs.start, arcs.child[:num_arcs], arcs.weight[: num_arcs if sampled else 0])
    known = SettledArcs(
        known.node[:num_known], known.observation[:num_known], known.value[:num_known], known.mass[:num_known]
    )
    return nodes, arcs, known


@njit(cache=True, inline="always")
def predict(nodes, node, moves, pairs, work):
    """Predict the state after a node: P(x' | node) in work.predicted, for the touched states.

    Returns how many states were touched; they stay marked, and the reader clears work.marked.
    """
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
def _predict_observations(nodes, node, moves, pairs, settled, work):
    """Predict what may be seen after a node: P(x', o' | node), one segment of the scratch arrays per observation.

    Returns how many observations were seen. Observation o has fill[o] entries in its segment, work.chance[o] = P(o |
    node) and work.settled[o] = the secret value that all its states agree on, or -1. The reader sets fill[o] back to 0.
    """
    num_touched = predict(nodes, node, moves, pairs, work)
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
def _draw_runs(draws, num_seen, work):
    """Distribute sampled runs over the observations seen, by their chances; rounding errors go to the likeliest.

    draws: [run] uniform numbers in [0, 1). Adds to work.runs.
    """
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
                if chance >= IMPOSSIBLE:
                    chosen = index
                break
        work.runs[work.seen[chosen]] += 1


_ROUNDED_BITS = np.int64(14)  # beliefs that agree but for these last bits of 52 are one node
_HALF = np.int64(1 << 13)
_TANGENT_GRAIN = 2.0**30 / STEP
_TANGENT_LIMIT = 2.0**62
_TANGENT_KEY = np.int64(0x5DEECE66D)
_TOP = np.uint64(32)  # the high bits of a multilinear hash are the good ones
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def _digits(value):
    """Return a belief entry as a whole number, blind to rounding errors in it and, where it has one, in its tangent."""
    slope = value.imag * _TANGENT_GRAIN
    tangent = np.int64(math.floor(min(max(slope, -_TANGENT_LIMIT), _TANGENT_LIMIT) + 0.5))
    bits = np.uint64(((np.float64(value.real).view(np.int64) + _HALF) >> _ROUNDED_BITS) + tangent * _TANGENT_KEY)
    bits *= _MIX  # short fractions end in zeros, which a multiplier alone would keep
    return bits ^ (bits >> _TOP)


@njit(cache=True)
def _new_table(num_nodes):
    """Return an empty hash table (-1 everywhere) with at least four slots per expected node, a power of two."""
    size = 64
    while size < 4 * num_nodes:
        size *= 2
    return np.full(size, -1, np.int32)


@njit(cache=True)
def _rehash(size, hashes, count):
    """Return a larger hash table with all nodes entered again."""
    table = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for node in range(count):
        slot = (hashes[node, 0] >> _TOP) & mask
        while table[np.int64(slot)] >= 0:
            slot = (slot + _ONE) & mask
        table[np.int64(slot)] = node
    return table


@njit(cache=True)
def _find_slot(table, hashes, hashed, check):
    """Return the slot of the hash table where a belief stands, or the empty one where it belongs."""
    mask = np.uint64(table.size - 1)
    slot = (hashed >> _TOP) & mask
    child = table[np.int64(slot)]
    while child >= 0 and (hashes[child, 0] != hashed or hashes[child, 1] != check):
        slot = (slot + _ONE) & mask
        child = table[np.int64(slot)]
    return np.int64(slot)


@njit(cache=True)
def _normalise(first, last, chance, pairs, work):
    """Divide a segment by its sum and return two hashes of the belief that results."""
    hashed, check = np.uint64(last - first), np.uint64(last - first)
    scale = 1.0 / chance
    for at in range(first, last):
        work.value[at] *= scale
        digits = _digits(work.value[at])
        hashed += digits * pairs.key[work.pair[at], 0]
        check += digits * pairs.key[work.pair[at], 1]
    return hashed, check


@njit(cache=True, nogil=True)
def expand(nodes, moves, pairs, settled, draws, work, keep_arcs, room):
    """Expand one level of the belief graph into the next; proportional beliefs become one node.

    nodes, moves, pairs: the level, the chain and the emissions. settled: [state] secret value certain from there on, or
        -1.
    draws: empty for the whole graph; with one uniform number per run only sampled observations are followed, and masses
        are weighted by count / (runs * P(o | node)).
    keep_arcs: record arcs and settled continuations, for gradients.
    room: nodes that are not reached before its memory is used, or when asked to stop, are left out.
    Returns (nodes, arcs, settled continuations, number of nodes expanded, settled mass).
    """
    num_nodes, sampled = nodes.mass.size, draws.size > 0
    level, arcs, known, table = _new_level(nodes), _new_arcs(num_nodes), _new_settled_arcs(), _new_table(num_nodes)
    count, num_arcs, num_known, drawn, reached, settled_mass = 0, 0, 0, 0, num_nodes, 0.0
    for node in range(num_nodes):
        used = room.per_entry * level.start[count] + room.per_node * count
        if used > room.total or work.stop[0] != 0:
            reached = node
            arcs.start[node + 1 :] = num_arcs
            break
        num_seen = _predict_observations(nodes, node, moves, pairs, settled, work)
        if sampled:
            _draw_runs(draws[drawn : drawn + nodes.runs[node]], num_seen, work)
            drawn += nodes.runs[node]
        num_entries = level.start[count] + _count_new_entries(num_seen, work)
        if count + num_seen > level.mass.size or num_entries > level.pair.size:
            level = _enlarge_level(level, count + num_seen, num_entries)
        if keep_arcs and num_known + num_seen > known.node.size:
            known = _enlarge_settled_arcs(known, num_known + num_seen)
        if keep_arcs and num_arcs + num_seen > arcs.child.size:
            arcs = _enlarge_arcs(arcs, num_arcs + num_seen)
        for index in range(num_seen):
            observation = work.seen[index]
            first = pairs.segment[observation]
            last = first + work.fill[observation]
            work.fill[observation] = 0
            chance = work.chance[observation]
            if chance.real < IMPOSSIBLE or (sampled and work.runs[observation] == 0):
                continue
            factor = work.runs[observation] / (nodes.runs[node] * chance.real) if sampled else 1.0
            share = nodes.mass[node] * (chance * factor)
            if work.settled[observation] >= 0:
                settled_mass += share.real
                if keep_arcs:
                    _add_settled_arc(known, num_known, node, observation, work.settled[observation], share.real)
                    num_known += 1
                continue
            hashed, check = _normalise(first, last, chance, pairs, work)
            slot = _find_slot(table, level.hashes, hashed, check)
            child = int(table[slot])
            if child < 0:
                child = count
                count += 1
                table[slot] = child
                _add_node(level, child, first, last, work)
                _initialise_node(level, child, observation, hashed, check)
                if 2 * count > table.size:
                    table = _rehash(4 * table.size, level.hashes, count)
            _add_mass(level, child, node, share, nodes.best[node] * chance.real, work.runs[observation])
            if keep_arcs:
                arcs.child[num_arcs] = child
                arcs.weight[num_arcs] = factor
                num_arcs += 1
        arcs.start[node + 1] = num_arcs
    made, arcs, known = _cut_unused_room(level, count, arcs, num_arcs, known, num_known, sampled)
    return made, arcs, known, reached, settled_mass


@njit(cache=True, nogil=True)
def expand_levels(nodes, moves, pairs, settled, draws, work, steps, max_nodes, room):
    """Expand several levels in one call while they stay small: long horizons cost no call per level.

    draws: [level, run], no columns where nothing is sampled.
    Returns the last level that is complete, how many levels were made, how many nodes and entries they have together,
    and the settled mass. A level that was not finished, or that has more than `max_nodes` nodes, is not returned.
    """
    num_nodes, num_entries, total_settled = 0, 0, 0.0
    for step in range(steps):
        left = nodes.runs.sum() if draws.shape[1] > 0 else 0
        made, _, _, reached, settled_mass = expand(nodes, moves, pairs, settled, draws[step, :left], work, False, room)
        if reached < nodes.mass.size or made.mass.size > max_nodes:
            return nodes, step, num_nodes, num_entries, total_settled
        nodes = made
        num_nodes += made.mass.size
        num_entries += made.pair.size
        total_settled += settled_mass
        if made.mass.size == 0:
            return nodes, steps, num_nodes, num_entries, total_settled
    return nodes, steps, num_nodes, num_entries, total_settled
