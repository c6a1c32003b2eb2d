"""Number what is distinct among many cases: layers are put together by hash tables, not by sorting their cases."""

from __future__ import annotations

import numpy as np

from opaq.kernel_cache import inlined, kernel
from opaq.model.arrays import IntArray

_LARGEST_KEY = 2**62
_FEWEST_SLOTS = 1 << 10  # of a hash table


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
