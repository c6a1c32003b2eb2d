"""Compiled: the next level of a belief graph; proportional beliefs become one node."""

from __future__ import annotations

import math

import numpy as np

from opaq.beliefs.growing_level import (
    add_mass,
    add_node,
    finished,
    larger_arcs,
    larger_known,
    larger_level,
    name_node,
    new_arcs,
    new_known,
    new_level,
    note_known,
    num_new_entries,
)
from opaq.beliefs.kernels import IMPOSSIBLE, STEP
from opaq.beliefs.prediction import draw_runs, look_ahead
from opaq.kernel_cache import njit

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
def _slot_of(table, hashes, hashed, check):
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
    level, arcs, known, table = new_level(nodes), new_arcs(num_nodes), new_known(), _new_table(num_nodes)
    count, num_arcs, num_known, drawn, reached, settled_mass = 0, 0, 0, 0, num_nodes, 0.0
    for node in range(num_nodes):
        used = room.per_entry * level.start[count] + room.per_node * count
        if used > room.total or work.stop[0] != 0:
            reached = node
            arcs.start[node + 1 :] = num_arcs
            break
        num_seen = look_ahead(nodes, node, moves, pairs, settled, work)
        if sampled:
            draw_runs(draws[drawn : drawn + nodes.runs[node]], num_seen, work)
            drawn += nodes.runs[node]
        num_entries = level.start[count] + num_new_entries(num_seen, work)
        if count + num_seen > level.mass.size or num_entries > level.pair.size:
            level = larger_level(level, count + num_seen, num_entries)
        if keep_arcs and num_known + num_seen > known.node.size:
            known = larger_known(known, num_known + num_seen)
        if keep_arcs and num_arcs + num_seen > arcs.child.size:
            arcs = larger_arcs(arcs, num_arcs + num_seen)
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
                    note_known(known, num_known, node, observation, work.settled[observation], share.real)
                    num_known += 1
                continue
            hashed, check = _normalise(first, last, chance, pairs, work)
            slot = _slot_of(table, level.hashes, hashed, check)
            child = int(table[slot])
            if child < 0:
                child = count
                count += 1
                table[slot] = child
                add_node(level, child, first, last, work)
                name_node(level, child, observation, hashed, check)
                if 2 * count > table.size:
                    table = _rehash(4 * table.size, level.hashes, count)
            add_mass(level, child, node, share, nodes.best[node] * chance.real, work.runs[observation])
            if keep_arcs:
                arcs.child[num_arcs] = child
                arcs.weight[num_arcs] = factor
                num_arcs += 1
        arcs.start[node + 1] = num_arcs
    made, arcs, known = finished(level, count, arcs, num_arcs, known, num_known, sampled)
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
