"""Expand a level of any size: a large one in parts, side by side, whose equal beliefs then become one node.

Every part is expanded as a level of its own, with a hash table that fits the caches. Children of different parts that
have the same belief are merged afterwards: the first of them stays, so that nodes are numbered as if the level had been
expanded in one, and the masses of the others are added to its own, in the order of the parts. They are looked up by
their hashes, in buckets that know nothing of each other. Neither parts nor buckets depend on the number of threads, and
so no figure does.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from opaq.beliefs.expansion import NEVER, Expansion, HashArray, expand
from opaq.beliefs.graph import (
    PART_NODES,
    Arcs,
    Chain,
    Level,
    Nodes,
    NumberArray,
    Room,
    SettledArcs,
    ShortArray,
)
from opaq.kernel_cache import kernel
from opaq.model.arrays import BoolArray, FloatArray
from opaq.threads import map_in_threads

_BUCKETS = 8
_BUCKET_SHIFT = np.uint64(61)  # the highest three bits of a hash tell its bucket
_LEAST_SLOTS = 64  # of a hash table
_SLOT_SHIFT = np.uint64(32)
_ONE = np.uint64(1)


def expand_level(
    chain: Chain, nodes: Nodes, *, left: int = NEVER, draws: FloatArray, keep_arcs: bool, room: Room
) -> tuple[Level, int, float]:
    """Expand one level into the next, by as many threads as the chain allows; arguments as of `expand`.

    Returns the next level, how many nodes of this one were expanded, and the mass that was settled. A large level of
    which a part needs more than its share of the memory is expanded in one: what is left out are then its last nodes.
    """
    num_nodes = nodes.mass.size
    if num_nodes > PART_NODES:
        runs = np.concatenate(([0], np.cumsum(nodes.runs)))
        share = room._replace(total=room.total * PART_NODES // num_nodes)

        def expand_part(apart: Chain, first: int, last: int) -> Expansion:
            own = draws[runs[first] : runs[last]]
            return expand(apart, nodes.part(first, last), left=left, draws=own, keep_arcs=keep_arcs, room=share)

        parts = list(chain.map_parts(expand_part, num_nodes))
        if sum(part.reached for part in parts) == num_nodes:
            return _merge(parts, num_nodes, workers=chain.workers)
        if chain.stop.requested:
            complete = list(takewhile(lambda part: part.reached == PART_NODES, parts))
            return _merge(complete or parts[:1], num_nodes, workers=chain.workers)
    made = expand(chain, nodes, left=left, draws=draws, keep_arcs=keep_arcs, room=room)
    return Level(made.nodes, made.arcs, made.known), made.reached, made.settled_mass


class _Children(NamedTuple):
    """The children of all parts, in the order of the parts; fields as of `Nodes`, after two hashes."""

    hashes: HashArray  # [child, 2]
    mass: NumberArray  # [child]
    best: FloatArray  # [child]
    parent: ShortArray  # [child]: among the nodes of all parts
    observation: ShortArray  # [child]
    runs: ShortArray  # [child]


@kernel
def _merge_bucket(bucket, buckets, children, table, first):
    """Write which child of one bucket is the first of the same belief, and add the masses of the others to its own.

    buckets: [child], by the highest bits of its hash. table: with room for a power of two of slots, at least four per
    child, of which the first ones are used. first: [child], written for those of the bucket.
    """
    hashes, mass, best, parent, runs = children.hashes, children.mass, children.best, children.parent, children.runs
    count, size = 0, _LEAST_SLOTS
    for child in range(first.size):
        if buckets[child] == bucket:
            count += 1
    while size < 4 * count:
        size *= 2
    for empty in range(size):
        table[empty] = -1
    mask = np.uint64(size - 1)
    for child in range(first.size):
        if buckets[child] != bucket:
            continue
        hashed, check = hashes[child, 0], hashes[child, 1]
        slot = (hashed >> _SLOT_SHIFT) & mask
        same = table[slot]
        while same >= 0 and (hashes[same, 0] != hashed or hashes[same, 1] != check):
            slot = (slot + _ONE) & mask
            same = table[slot]
        if same < 0:
            table[slot] = child
            first[child] = child
            continue
        first[child] = same
        mass[same] += mass[child]
        runs[same] += runs[child]
        if best[child] > best[same]:
            best[same] = best[child]
            parent[same] = parent[child]


def _merge(parts: list[Expansion], num_nodes: int, *, workers: int) -> tuple[Level, int, float]:
    """Return what `expand_level` does, from the expansions of the first parts of a level, or of all, in order.

    num_nodes: of the whole level.
    """
    children = _join_children(parts)
    first, buckets = np.empty(children.mass.size, np.int32), (children.hashes[:, 0] >> _BUCKET_SHIFT).astype(np.uint8)

    def merge_bucket(bucket: int) -> None:
        table = np.empty(_LEAST_SLOTS << (4 * first.size // _LEAST_SLOTS).bit_length(), np.int32)
        _merge_bucket(bucket, buckets, children, table, first)

    list(map_in_threads(merge_bucket, range(_BUCKETS), workers=workers))
    kept = first == np.arange(first.size)
    number = (np.cumsum(kept, dtype=np.int32) - np.int32(1))[first]
    nodes = _place_nodes(parts, children, kept, workers=workers)
    level = Level(nodes, _join_arcs(parts, number, num_nodes), _join_known(parts))
    return level, sum(part.reached for part in parts), sum(part.settled_mass for part in parts)


def _join_children(parts: list[Expansion]) -> _Children:
    """Return the children of all parts, those of later ones after those of earlier ones."""
    nodes = [part.nodes for part in parts]
    return _Children(
        hashes=np.concatenate([part.hashes for part in parts]),
        mass=np.concatenate([each.mass for each in nodes]),
        best=np.concatenate([each.best for each in nodes]),
        parent=np.concatenate([each.parent + np.int32(part * PART_NODES) for part, each in enumerate(nodes)]),
        observation=np.concatenate([each.observation for each in nodes]),
        runs=np.concatenate([each.runs for each in nodes]),
    )


def _place_nodes(parts: list[Expansion], children: _Children, kept: BoolArray, *, workers: int) -> Nodes:
    """Return the children that are kept, with their entries. kept: [child]."""
    ends = np.cumsum([0, *(part.nodes.mass.size for part in parts)])
    masks = [kept[first:last] for first, last in pairwise(ends)]
    sizes = np.concatenate([np.diff(part.nodes.start)[mask] for part, mask in zip(parts, masks, strict=True)])
    start = np.concatenate(([0], np.cumsum(sizes)))
    begins = start[np.cumsum([0, *(np.count_nonzero(mask) for mask in masks)])]  # [part + 1], among all entries
    pair, belief = np.empty(start[-1], np.uint32), np.empty(start[-1], children.mass.dtype)

    def place_entries(part: int) -> None:
        nodes, target = parts[part].nodes, slice(begins[part], begins[part + 1])
        entries = np.repeat(masks[part], np.diff(nodes.start))
        pair[target], belief[target] = nodes.pair[entries], nodes.belief[entries]

    list(map_in_threads(place_entries, range(len(parts)), workers=workers))
    per_node: list[Any] = [array[kept] for array in children[1:]]
    return Nodes(start, pair, belief, *per_node)


def _join_arcs(parts: list[Expansion], number: ShortArray, num_nodes: int) -> Arcs:
    """Return the arcs of all parts of a level of so many nodes; number: [child] -> node of the next level."""
    if parts[0].arcs.start.size == 0:  # arcs are not kept
        return parts[0].arcs
    arcs = [part.arcs for part in parts]
    begins = np.cumsum([0, *(each.child.size for each in arcs)])
    ends = np.cumsum([0, *(part.nodes.mass.size for part in parts)])
    start = np.full(num_nodes + 1, begins[-1])
    joined = np.concatenate([[0], *(each.start[1:] + begin for each, begin in zip(arcs, begins, strict=False))])
    start[: joined.size] = joined
    child = np.concatenate([number[each.child + first] for each, first in zip(arcs, ends, strict=False)])
    return Arcs(start, child, np.concatenate([each.weight for each in arcs]))


def _join_known(parts: list[Expansion]) -> SettledArcs:
    """Return the settled continuations of all parts."""
    nodes = [part.known.node + index * PART_NODES for index, part in enumerate(parts)]
    others = (np.concatenate(column) for column in zip(*(part.known[1:] for part in parts), strict=True))
    return SettledArcs(np.concatenate(nodes), *others)
