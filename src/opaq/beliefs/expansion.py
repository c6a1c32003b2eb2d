"""Compiled: the next level of a belief graph; proportional beliefs become one node."""

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
    taller = np.empty((size, table.shape[1]), table.dtype)
    taller[: table.shape[0]] = table
    return taller


class _GrowingLevel(NamedTuple):
    """The nodes of a level under construction, with room for more."""

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
    """Room for four children per node; memory that is never touched costs nothing."""
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
    """The same level with twice the room for so many nodes and entries, where it has less."""
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
    """How many entries the children of a node have together, one child per observation seen."""
    entries = 0
    for index in range(num_seen):
        entries += work.fill[work.seen[index]]
    return entries


@njit(cache=True)
def _new_arcs(num_nodes):
    """Room for the arcs from so many nodes, four each."""
    room = 4 * num_nodes + 16
    return Arcs(np.zeros(num_nodes + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.float64))


@njit(cache=True)
def _enlarge_arcs(arcs, needed):
    """The same arcs with room for twice as many as needed."""
    return Arcs(arcs.start, enlarge(arcs.child, 2 * needed), enlarge(arcs.weight, 2 * needed))


@njit(cache=True)
def _new_settled_arcs():
    """Room for some settled continuations."""
    return SettledArcs(np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.float64))


@njit(cache=True)
def _enlarge_settled_arcs(known, needed):
    """The same continuations with room for twice as many as needed."""
    room = 2 * needed
    return SettledArcs(
        enlarge(known.node, room),
        enlarge(known.observation, room),
        enlarge(known.value, room),
        enlarge(known.mass, room),
    )


@njit(cache=True)
def _add_node(level, child, first, last, work):
    """Write the belief of a new node behind the others."""
    fill = level.start[child]
    for at in range(first, last):
        level.pair[fill] = work.pair[at]
        level.belief[fill] = work.value[at]
        fill += 1
    level.start[child + 1] = fill


@njit(cache=True)
def _initialise_node(level, child, observation, hashed, check):
    """What a new node begins with."""
    level.mass[child] = 0.0
    level.best[child] = -1.0
    level.runs[child] = 0
    level.observation[child] = observation
    level.hashes[child, 0] = hashed
    level.hashes[child, 1] = check


@njit(cache=True)
def _add_mass(level, child, node, share, likeliest, runs):
    """One more arc leads to a child: its mass, its runs, and whether the likeliest sequence comes this way."""
    level.mass[child] += share
    level.runs[child] += runs
    if likeliest > level.best[child]:
        level.best[child] = likeliest
        level.parent[child] = node


@njit(cache=True)
def _add_settled_arc(known, index, node, observation, value, mass):
    """A continuation that settles the secret."""
    known.node[index] = node
    known.observation[index] = observation
    known.value[index] = value
    known.mass[index] = mass


@njit(cache=True)
def _cut_unused_room(level, count, arcs, num_arcs, known, num_known, sampled):
    """The level and how it was reached, without the room that was not used."""
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
def _predict_observations(nodes, node, moves, pairs, settled, work):
    """What may be seen after a node: P(x', o' | node), by observation, in the scratch arrays.

    Returns how many observations were seen; observation o has fill[o] entries in its segment. The reader sets
    fill[o] back to 0.
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
    """A belief entry as a whole number, blind to rounding errors, and to those of its tangent where it has one."""
    slope = value.imag * _TANGENT_GRAIN
    tangent = np.int64(math.floor(min(max(slope, -_TANGENT_LIMIT), _TANGENT_LIMIT) + 0.5))
    bits = np.uint64(((np.float64(value.real).view(np.int64) + _HALF) >> _ROUNDED_BITS) + tangent * _TANGENT_KEY)
    bits *= _MIX  # short fractions end in zeros, which a multiplier alone would keep
    return bits ^ (bits >> _TOP)


@njit(cache=True)
def _new_table(num_nodes):
    """An empty hash table."""
    size = 64
    while size < 4 * num_nodes:
        size *= 2
    return np.full(size, -1, np.int32)


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


@njit(cache=True)
def _find_slot(table, hashes, hashed, check):
    """Where a belief stands in the hash table, or the empty slot where it belongs."""
    mask = np.uint64(table.size - 1)
    slot = (hashed >> _TOP) & mask
    child = table[np.int64(slot)]
    while child >= 0 and (hashes[child, 0] != hashed or hashes[child, 1] != check):
        slot = (slot + _ONE) & mask
        child = table[np.int64(slot)]
    return np.int64(slot)


@njit(cache=True)
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
def expand(nodes, moves, pairs, settled, draws, work, keep_arcs, room):
    """One level of the belief graph from the one before it; proportional beliefs become one node.

    `draws` is empty for the whole graph; with one uniform number per run it follows only sampled observations.
    Children whose secret is settled whatever comes are not made: nothing about them is uncertain; their mass is
    returned. Nodes not reached before the memory of `room` is used, or when asked to stop, are left out; the number of
    nodes expanded is returned.
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
    """Several levels in one call while they stay small: long horizons cost no call per level.

    `draws` has one row per level (no columns: nothing is sampled). Returns the last level that is complete, how many
    levels were made, how many nodes and entries they have together, and the mass that was settled. A level that was
    not finished, or that has more than `max_nodes` nodes, is not returned.
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
