"""Compiled: a level of the belief graph under construction, and the memory that grows with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opaq.beliefs.kernels import Arcs, Known, Nodes, NumberArray, ShortArray, longer
from opaq.kernel_cache import njit
from opaq.model.arrays import FloatArray, IndexArray, IntArray

HashArray = NDArray[np.uint64]


@njit(cache=True)
def _taller(table, size):
    taller = np.empty((size, table.shape[1]), table.dtype)
    taller[: table.shape[0]] = table
    return taller


class GrowingLevel(NamedTuple):
    """The nodes of a level under construction, with room for more."""

    start: IntArray  # [node + 1]
    pair: IndexArray  # [entry]
    belief: NumberArray  # [entry]
    mass: NumberArray  # [node]
    best: FloatArray  # [node]
    parent: IntArray  # [node]
    observation: ShortArray  # [node]
    runs: IntArray  # [node]
    hashes: HashArray  # [node, 2]


@njit(cache=True)
def new_level(nodes):
    """Room for four children per node; memory that is never touched costs nothing."""
    room, entries = 4 * nodes.mass.size + 16, 4 * nodes.pair.size + 64
    level = GrowingLevel(
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
def larger_level(level, nodes, entries):
    """The same level with twice the room for so many nodes and entries, where it has less."""
    nodes = 2 * nodes if nodes > level.mass.size else level.mass.size
    entries = 2 * entries if entries > level.pair.size else level.pair.size
    return GrowingLevel(
        longer(level.start, nodes + 1),
        longer(level.pair, entries),
        longer(level.belief, entries),
        longer(level.mass, nodes),
        longer(level.best, nodes),
        longer(level.parent, nodes),
        longer(level.observation, nodes),
        longer(level.runs, nodes),
        _taller(level.hashes, nodes),
    )


@njit(cache=True)
def num_new_entries(num_seen, work):
    """How many entries the children of a node have together, one child per observation seen."""
    entries = 0
    for index in range(num_seen):
        entries += work.fill[work.seen[index]]
    return entries


@njit(cache=True)
def new_arcs(num_nodes):
    """Room for the arcs from so many nodes, four each."""
    room = 4 * num_nodes + 16
    return Arcs(np.zeros(num_nodes + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.float64))


@njit(cache=True)
def larger_arcs(arcs, needed):
    """The same arcs with room for twice as many as needed."""
    return Arcs(arcs.start, longer(arcs.child, 2 * needed), longer(arcs.weight, 2 * needed))


@njit(cache=True)
def new_known():
    """Room for some settled continuations."""
    return Known(np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.float64))


@njit(cache=True)
def larger_known(known, needed):
    """The same continuations with room for twice as many as needed."""
    room = 2 * needed
    return Known(
        longer(known.node, room),
        longer(known.observation, room),
        longer(known.value, room),
        longer(known.mass, room),
    )


@njit(cache=True)
def add_node(level, child, first, last, work):
    """Write the belief of a new node behind the others."""
    fill = level.start[child]
    for at in range(first, last):
        level.pair[fill] = work.pair[at]
        level.belief[fill] = work.value[at]
        fill += 1
    level.start[child + 1] = fill


@njit(cache=True)
def name_node(level, child, observation, hashed, check):
    """What a new node begins with."""
    level.mass[child] = 0.0
    level.best[child] = -1.0
    level.runs[child] = 0
    level.observation[child] = observation
    level.hashes[child, 0] = hashed
    level.hashes[child, 1] = check


@njit(cache=True)
def add_mass(level, child, node, share, likeliest, runs):
    """One more arc leads to a child: its mass, its runs, and whether the likeliest sequence comes this way."""
    level.mass[child] += share
    level.runs[child] += runs
    if likeliest > level.best[child]:
        level.best[child] = likeliest
        level.parent[child] = node


@njit(cache=True)
def note_known(known, index, node, observation, value, mass):
    """A continuation that settles the secret."""
    known.node[index] = node
    known.observation[index] = observation
    known.value[index] = value
    known.mass[index] = mass


@njit(cache=True)
def finished(level, count, arcs, num_arcs, known, num_known, sampled):
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
    known = Known(
        known.node[:num_known], known.observation[:num_known], known.value[:num_known], known.mass[:num_known]
    )
    return nodes, arcs, known
