"""Number what is distinct among many cases, and group what is close.

Layers are put together by hash tables and marks, not by sorting their cases.
"""

from __future__ import annotations

import numpy as np

from opaq.kernel_cache import helper, inlined, kernel
from opaq.model.arrays import IntArray

_LARGEST_KEY = 2**62
_FEWEST_SLOTS = 1 << 10  # of a hash table
_LEAST_SPREAD = 1e-12  # of the sum of squares: less is rounding


def number_distinct(*parts: IntArray) -> tuple[IntArray, IntArray]:
    """Return [case] its number among the distinct combinations of the parts, and [number] the first case that has it.

    parts: [case] each. Numbers ascend with the first cases, so that cases that are near get numbers that are near.
    """
    first, *others = _pack(parts)
    for second in others or (np.zeros_like(first),):
        first, example = _number_pairs(first, second)
    return first, example


def number_within(group: IntArray, *parts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the same for combinations of a group [case] and the parts, with numbers that ascend with the group."""
    number, example = number_distinct(group, *parts)
    order = np.argsort(group[example], kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[number], example[order]


def _pack(parts: tuple[IntArray, ...]) -> list[IntArray]:
    """Return fewer parts [case] that tell the same cases apart: several are one whole number where they fit it."""
    packed, spans = list[IntArray](), list[int]()
    for part in parts:
        least = int(part.min(initial=0))
        span = int(part.max(initial=0)) - least + 1
        if packed and span * spans[-1] <= _LARGEST_KEY:
            packed[-1] = packed[-1] * span + (part - least)
            spans[-1] *= span
        else:
            packed.append(part - least if span <= _LARGEST_KEY else part)
            spans.append(span)
    return packed


def _number_pairs(first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct pairs; see `number_distinct`."""
    number, example = np.empty(first.size, dtype=np.int64), np.empty(first.size, dtype=np.int64)
    keys = np.empty((first.size, 2), dtype=np.int64)
    table = np.zeros(max(_FEWEST_SLOTS, 4 * 2 ** first.size.bit_length()), dtype=np.uint32)
    parts = (np.require(part, np.int64, ["C", "W"]) for part in (first, second))  # read-only arrays have other types
    count = _fill_table(*parts, number, example, keys, table)
    return number, example[:count].copy()


@inlined
def _find_slot(one, two, keys, table, last_slot):
    """Return the slot of a pair (one, two), or the empty one where it belongs, by open addressing."""
    bits = (np.uint64(one) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(two)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    slot = (bits ^ (bits >> np.uint64(32))) & last_slot
    while table[slot] != 0 and (keys[table[slot] - 1, 0] != one or keys[table[slot] - 1, 1] != two):
        slot = (slot + np.uint64(1)) & last_slot
    return slot


@kernel
def _fill_table(first, second, number, example, keys, table):
    """Number the distinct pairs (first, second) by a hash table that grows with them, and return how many there are.

    first, second: [case]. number: [case], example: [number] and keys: [number, 2] the pair, written.
    table: [slot] -> number + 1, 0 where the slot is empty; zeros before. Only its beginning is used while pairs are
        few: twice their number at least, so that it stays in the caches.
    """
    num_slots, count = _FEWEST_SLOTS, 0
    last_slot = np.uint64(num_slots - 1)
    for case in range(first.size):
        one, two = first[case], second[case]
        slot = _find_slot(one, two, keys, table, last_slot)
        if table[slot] != 0:
            number[case] = table[slot] - 1
            continue
        example[count] = case
        keys[count, 0], keys[count, 1] = one, two
        number[case] = count
        count += 1
        table[slot] = count
        if 2 * count > num_slots:
            for index in range(num_slots):
                table[index] = 0
            num_slots *= 2
            last_slot = np.uint64(num_slots - 1)
            for known in range(count):
                table[_find_slot(keys[known, 0], keys[known, 1], keys, table, last_slot)] = known + 1
    return count


@kernel
def list_followers(node_start, states, edge_start, edge_target, seen, next_start, found):
    """List the states that may follow every node, each once, and return how many there are.

    node_start: [node + 1]. states: of the node's entries. seen: [state], zeros before. next_start: [node + 1], zeros
    before, written: where the followers of a node begin. found: written: the followers, node by node.
    """
    count = 0
    for node in range(node_start.size - 1):
        for entry in range(node_start[node], node_start[node + 1]):
            for edge in range(edge_start[states[entry]], edge_start[states[entry] + 1]):
                target = edge_target[edge]
                if seen[target] != node + 1:
                    seen[target] = node + 1
                    found[count] = target
                    count += 1
        next_start[node + 1] = count
    return count


@kernel
def list_arcs(item_start, kinds, shown_start, observation, target, value, last_arc, arcs, case_arc, case_target):
    """List the arcs (node, observation) of items that show something, and return how many there are.

    item_start: [node + 1], where the items of a node begin. kinds: [item]. shown_start: [kind + 1]; what kinds show:
    observation, what the item is after it (target) and the settled value of the secret then.
    last_arc: [observation, 2], zeros before: the node of its last arc + 1 and that arc. arcs: [arc, 5], written: node,
    observation, the number of cases, the least value and the most. case_arc, case_target: [case], written; a case is
    (item, what it shows).
    """
    count, case = 0, 0
    for node in range(item_start.size - 1):
        for item in range(item_start[node], item_start[node + 1]):
            for shown in range(shown_start[kinds[item]], shown_start[kinds[item] + 1]):
                seen = last_arc[observation[shown]]
                if seen[0] != node + 1:
                    seen[0], seen[1] = node + 1, count
                    arcs[count, 0], arcs[count, 1], arcs[count, 2] = node, observation[shown], 0
                    arcs[count, 3] = arcs[count, 4] = value[shown]
                    count += 1
                arc = arcs[seen[1]]
                arc[2] += 1
                arc[3], arc[4] = min(arc[3], value[shown]), max(arc[4], value[shown])
                case_arc[case], case_target[case] = seen[1], target[shown]
                case += 1
    return count


@kernel
def number_targets(order, arc_node, arc_end, case_arc, case_target, sorted_case, seen, child, start, found):
    """Number the distinct (node, target) of cases, node by node, and return how many there are.

    order: the arcs, by the node that they lead to. arc_node: [arc], that node. arc_end: [arc], zero before that of the
    first case in the order of arcs, written: where its cases end. sorted_case: [case] of work space.
    seen: [target, 2], zeros before. child: [case], written: its number. start: [node + 1], zeros before, written: where
    the numbers of a node begin. found: [number], written: the target.
    """
    for case in range(case_arc.size):
        arc = case_arc[case]
        sorted_case[arc_end[arc]] = case
        arc_end[arc] += 1
    count, position = 0, 0
    for arc in order:
        node = arc_node[arc]
        while position < arc_end[arc]:
            case = sorted_case[position]
            known = seen[case_target[case]]
            if known[0] != node + 1:
                known[0], known[1] = node + 1, count
                found[count] = case_target[case]
                count += 1
            child[case] = known[1]
            position += 1
        start[node + 1] = count
    return count


@kernel
def split_points(points, weight, order, bounds, cuts, sums):
    """Split points into groups, those that vary most first: in two, at the mean of the axis on which they vary most.

    points: [point, axis]. weight: [point]. order: the points, brought into the order of groups. bounds: [group, 3],
    written: where in the order it begins and ends, and its axis. cuts: [group, 2], written: how much the group varies
    on the axis, and its mean there. sums: [2, axis] of work space. Returns the number of groups: as many as bounds has
    room for, or fewer where none varies.
    """
    most = bounds.shape[0]
    bounds[0, 0], bounds[0, 1] = 0, order.size
    count, measured = 1, 0
    while count < most:
        worst = 0.0
        for group in range(count):
            if group >= measured:
                _measure_spread(group, points, weight, order, bounds, cuts, sums)
            worst = max(worst, cuts[group, 0])
        if worst <= 0.0:
            break
        measured = count
        for group in range(measured):
            if cuts[group, 0] < 0.5 * worst or count == most:
                continue
            low, high = bounds[group, 0], bounds[group, 1]
            while low < high:  # points above the mean go to the end
                point = order[low]
                if points[point, bounds[group, 2]] > cuts[group, 1]:
                    high -= 1
                    order[low], order[high] = order[high], point
                else:
                    low += 1
            if low == bounds[group, 0] or low == bounds[group, 1]:
                cuts[group, 0] = 0.0
                continue
            bounds[count, 0], bounds[count, 1], bounds[group, 1] = low, bounds[group, 1], low
            count += 1
            _measure_spread(group, points, weight, order, bounds, cuts, sums)
    return count


@helper
def _measure_spread(group, points, weight, order, bounds, cuts, sums):
    """Write the axis on which the points of a group vary most, their mean there and the weighted squares about it.

    The arguments are those of `split_points`.
    """
    total = 0.0
    sums[:] = 0.0
    for position in range(bounds[group, 0], bounds[group, 1]):
        point = order[position]
        total += weight[point]
        for axis in range(points.shape[1]):
            value = weight[point] * points[point, axis]
            sums[0, axis] += value
            sums[1, axis] += value * points[point, axis]
    cuts[group, 0] = 0.0
    if total > 0.0:
        for axis in range(points.shape[1]):
            varies = sums[1, axis] - sums[0, axis] * sums[0, axis] / total
            if varies > max(cuts[group, 0], _LEAST_SPREAD * sums[1, axis]):
                cuts[group, 0], cuts[group, 1], bounds[group, 2] = varies, sums[0, axis] / total, axis
