"""Compiled: expand one level of a belief graph into the next; proportional beliefs become one node.

For a node with belief b and mass m, and every observation o that may follow,

    P(x', o | b) = E(o | x') sum over x of b(x) P_pi(x' | x),     P(o | b) = sum over x' of P(x', o | b),

the child has belief P(x', o | b) / P(o | b) and receives the mass m P(o | b). Children are looked up in a hash table by
two multilinear hashes of their belief, rounded to 38 of 52 bits, so that rounding errors do not keep equal beliefs
apart. Children whose secret is settled get no node.

The kernel allocates nothing: it writes into arrays with room, and returns when a node's children might not fit. Python
then makes room and calls it again, and it goes on with that node.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from opaq.beliefs.graph import (
    IMPOSSIBLE,
    STEP,
    Arcs,
    Chain,
    Level,
    Nodes,
    NumberArray,
    Room,
    SettledArcs,
    ShortArray,
)
from opaq.kernel_cache import helper, inlined, kernel
from opaq.model.arrays import FloatArray, IndexArray, IntArray
from opaq.product.process import FOR_EVER

HashArray = NDArray[np.uint64]


class _GrowingLevel(NamedTuple):
    """The nodes of a level with room for more; fields as in `Nodes`, and two hashes per node."""

    start: IntArray  # [node + 1]
    pair: IndexArray  # [entry]
    belief: NumberArray  # [entry]
    mass: NumberArray  # [node]
    best: FloatArray  # [node]
    parent: ShortArray  # [node]
    observation: ShortArray  # [node]
    runs: ShortArray  # [node]
    hashes: HashArray  # [node, 2]


# What the kernel counts, in one array of whole numbers: where it stands, so that it can go on.
_LEVELS, _NODES, _NODE, _DRAWN, _MADE, _ARCS, _KNOWN, _SWAPS, _ALL_NODES, _ALL_ENTRIES, _NEW, _ENTRIES = range(12)
_FIRST, _BASE = 12, 13  # where the level that is expanded begins in its arrays, and the next one in those of its own
_NUM_COUNTS = 14


@inlined
def predict(
    first, last, entry_pair, entry_belief, pair_state, edge_start, edge_target, flow, predicted, marked, touched
):
    """Predict the state after a node with the entries first .. last - 1: P(x' | node), for the touched states.

    Returns how many states were touched; they stay marked, and the reader clears `marked`.
    """
    num_touched = 0
    for entry in range(np.uint64(first), np.uint64(last)):
        state = pair_state[entry_pair[entry]]
        weight = entry_belief[entry]
        for edge in range(edge_start[state], edge_start[state + 1]):
            share = flow[edge]
            if share.real == 0.0:
                continue
            target = edge_target[edge]
            if marked[target]:
                predicted[target] += weight * share
            else:
                marked[target] = True
                predicted[target] = weight * share
                touched[num_touched] = target
                num_touched += 1
    return num_touched


_ROUNDED_BITS = np.int64(14)  # beliefs that agree but for these last bits of 52 are one node
_HALF = np.int64(1 << 13)
_TANGENT_GRAIN = 2.0**30 / STEP
_TANGENT_LIMIT = 2.0**62
_TANGENT_KEY = np.int64(0x5DEECE66D)
_TOP = np.uint64(32)  # the high bits of a multilinear hash are the good ones
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LEAST_SLOTS = 64  # of a hash table


@inlined
def _digits(value):
    """Return a belief entry as a whole number, blind to rounding errors in it and, where it has one, in its tangent."""
    slope = value.imag * _TANGENT_GRAIN
    tangent = np.int64(math.floor(min(max(slope, -_TANGENT_LIMIT), _TANGENT_LIMIT) + 0.5))
    bits = np.uint64(((np.float64(value.real).view(np.int64) + _HALF) >> _ROUNDED_BITS) + tangent * _TANGENT_KEY)
    bits *= _MIX  # short fractions end in zeros, which a multiplier alone would keep
    return bits ^ (bits >> _TOP)


@helper
def _fill_table(table, hashes, base, num_nodes, least):
    """Enter all nodes into a hash table of at least four slots per expected node; return its size less 1.

    hashes: [base + node, 2]. table: with room for a power of two of slots, of which the first ones are used; -1 is an
    empty one.
    """
    size = _LEAST_SLOTS
    while size < least and size < table.size:
        size *= 2
    for empty in range(size):
        table[empty] = -1
    mask = np.uint64(size - 1)
    for node in range(num_nodes):
        slot = (hashes[base + node, 0] >> _TOP) & mask
        while table[slot] >= 0:
            slot = (slot + _ONE) & mask
        table[slot] = node
    return mask


@kernel
def _expand(
    count,
    totals,
    now,
    made,
    table,
    arcs,
    known,
    ends,
    moves,
    pairs,
    secret,
    lasting,
    left,
    draws,
    work,
    keep_arcs,
    room,
    levels,
    limit,
    small,
):
    """Expand levels into the next ones, from where `count` and `totals` stand; return whether it came to an end.

    now, made: the level that is expanded, and room for the next; they change places after every level. With arcs, where
        several levels are made, both are the same arrays, and every level begins one node after the end of the one
        before: `start` and `arcs.start` then have an end for every level.
    draws: [draw] uniform numbers, none for the whole graph; with one per run and level only sampled observations are
        followed, and masses are weighted by count / (runs * P(o | node)). With arcs every level goes on where the one
        before ended; without, each has as many numbers as the others.
    secret, lasting: [state] the secret value, and for how many steps it lasts.
    left: steps that follow the first level; a child whose states have one value, which lasts as long, is settled.
    keep_arcs: record arcs and settled continuations, for gradients.
    room: nodes that are not reached before its memory is used, or when asked to stop, are left out.
    levels, limit, small: how many to make, the most nodes of one that counts as made, and of one that is expanded
        after another.
    ends: [level, 2], written with arcs: nodes of every level that was made, and settled continuations so far.
    Returns False where a node's children might not fit: count[_NEW] more, and count[_ENTRIES] entries in all.
    """
    start, entry_pair, entry_belief, mass, best, runs = now.start, now.pair, now.belief, now.mass, now.best, now.runs
    parent, last_seen, hashes = now.parent, now.observation, now.hashes
    new_start, new_pair, new_belief, new_mass, new_best = made.start, made.pair, made.belief, made.mass, made.best
    new_runs, new_parent, new_seen, new_hashes = made.runs, made.parent, made.observation, made.hashes
    arc_start, arc_child, arc_weight = arcs.start, arcs.child, arcs.weight
    known_node, known_observation, known_value, known_mass = known.node, known.observation, known.value, known.mass
    edge_start, edge_target, flow = moves.start, moves.target, moves.flow
    pair_start, pair_state, pair_observation, pair_value = pairs.start, pairs.state, pairs.observation, pairs.value
    segment, key = pairs.segment, pairs.key
    predicted, marked, touched, chances, fill = work.predicted, work.marked, work.touched, work.chance, work.fill
    agreed, drawn_runs, seen, piece_pair, piece = work.settled, work.runs, work.seen, work.pair, work.value
    stop = work.stop
    sampled = draws.size > 0
    for step in range(count[_LEVELS], levels):
        most = left - step
        num_nodes, num_made, num_arcs, num_known = count[_NODES], count[_MADE], count[_ARCS], count[_KNOWN]
        drawn, reached, settled_mass = count[_DRAWN], num_nodes, totals[0]
        first_node, base = count[_FIRST], count[_BASE]
        mask = _fill_table(table, new_hashes, base, num_made, 4 * max(num_nodes, num_made))
        if keep_arcs and count[_NODE] == 0:
            arc_start[first_node] = num_arcs
        for node in range(count[_NODE], num_nodes):
            own = first_node + node
            if room.per_entry * new_start[base + num_made] + room.per_node * num_made > room.total or stop[0] != 0:
                reached = node
                break
            # P(x', o' | node), one segment of `piece` per observation that may follow
            num_touched = predict(
                start[own], start[own + 1], entry_pair, entry_belief, pair_state,
                edge_start, edge_target, flow, predicted, marked, touched,
            )  # fmt: skip
            num_seen, num_entries = 0, new_start[base + num_made]
            for index in range(num_touched):
                state = touched[index]
                marked[state] = False
                arrived = predicted[state]
                settles = secret[state] if lasting[state] >= most else -1
                for pair in range(pair_start[state], pair_start[state + 1]):
                    value = arrived * pair_value[pair]
                    if value.real == 0.0:
                        continue
                    observation = pair_observation[pair]
                    filled = fill[observation]
                    if filled == 0:
                        chances[observation] = value
                        agreed[observation] = settles
                        drawn_runs[observation] = 0
                        seen[num_seen] = observation
                        num_seen += 1
                    else:
                        chances[observation] += value
                        if agreed[observation] != settles:
                            agreed[observation] = -1
                    at = segment[observation] + filled
                    piece_pair[at] = pair
                    piece[at] = value
                    fill[observation] = filled + 1
                    num_entries += 1
            if (
                base + num_made + num_seen > new_hashes.shape[0]
                or num_entries > new_pair.size
                or 2 * (num_made + num_seen) > table.size
                or (keep_arcs and num_arcs + num_seen > arc_child.size)
                or (keep_arcs and num_known + num_seen > known_node.size)
            ):
                for index in range(num_seen):
                    fill[seen[index]] = 0
                count[_NODE], count[_DRAWN], count[_MADE], count[_ARCS], count[_KNOWN] = (
                    node,
                    drawn,
                    num_made,
                    num_arcs,
                    num_known,
                )
                count[_NEW], count[_ENTRIES], totals[0] = num_seen, num_entries, settled_mass
                return False
            if sampled:
                _draw_runs(draws, drawn, runs[own], num_seen, seen, chances, drawn_runs)
                drawn += runs[own]
            for index in range(num_seen):
                observation = seen[index]
                first = segment[observation]
                last = first + fill[observation]
                fill[observation] = 0
                chance = chances[observation]
                if chance.real < IMPOSSIBLE or (sampled and drawn_runs[observation] == 0):
                    continue
                factor = drawn_runs[observation] / (runs[own] * chance.real) if sampled else 1.0
                share = mass[own] * (chance * factor)
                if agreed[observation] >= 0:
                    settled_mass += share.real
                    if keep_arcs:
                        known_node[num_known] = node
                        known_observation[num_known] = observation
                        known_value[num_known] = agreed[observation]
                        known_mass[num_known] = share.real
                        num_known += 1
                    continue
                # The belief that results, and two hashes of it
                hashed, check = np.uint64(last - first), np.uint64(last - first)
                scale = 1.0 / chance
                for at in range(first, last):
                    posterior = piece[at] * scale
                    piece[at] = posterior
                    digits = _digits(posterior)
                    pair = piece_pair[at]
                    hashed += digits * key[pair, 0]
                    check += digits * key[pair, 1]
                slot = (hashed >> _TOP) & mask
                child = table[slot]
                while child >= 0 and (new_hashes[base + child, 0] != hashed or new_hashes[base + child, 1] != check):
                    slot = (slot + _ONE) & mask
                    child = table[slot]
                if child < 0:
                    child = num_made
                    num_made += 1
                    table[slot] = child
                    to = base + child
                    entry = np.uint64(new_start[to])
                    for at in range(first, last):
                        new_pair[entry] = piece_pair[at]
                        new_belief[entry] = piece[at]
                        entry += _ONE
                    new_start[to + 1] = entry
                    new_mass[to] = 0.0
                    new_best[to] = -1.0
                    new_runs[to] = 0
                    new_seen[to] = observation
                    new_hashes[to, 0] = hashed
                    new_hashes[to, 1] = check
                    if 2 * num_made > mask:
                        mask = _fill_table(table, new_hashes, base, num_made, 8 * num_made)
                to = base + child
                new_mass[to] += share
                new_runs[to] += drawn_runs[observation]
                likeliest = best[own] * chance.real
                if likeliest > new_best[to]:
                    new_best[to] = likeliest
                    new_parent[to] = node
                if keep_arcs:
                    arc_child[num_arcs] = child
                    if sampled:
                        arc_weight[num_arcs] = factor
                    num_arcs += 1
            if keep_arcs:
                arc_start[own + 1] = num_arcs
        count[_NODE], count[_DRAWN], count[_MADE], count[_ARCS], count[_KNOWN], totals[0] = (
            reached,
            drawn,
            num_made,
            num_arcs,
            num_known,
            settled_mass,
        )
        if reached < num_nodes or num_made > limit:
            return True
        if keep_arcs:
            ends[step, 0] = num_made
            ends[step, 1] = num_known
        count[_LEVELS] += 1
        count[_ALL_NODES] += num_made
        count[_ALL_ENTRIES] += new_start[base + num_made] - new_start[base]
        totals[1] += settled_mass
        if step + 1 == levels or num_made > small or (num_made == 0 and not keep_arcs):
            return True
        # The level that was made is the next one to be expanded
        count[_NODES], count[_NODE], count[_MADE], totals[0] = num_made, 0, 0, 0.0
        if keep_arcs:
            count[_FIRST], count[_BASE] = base, base + num_made + 1
            new_start[base + num_made + 1] = new_start[base + num_made]
            continue
        count[_DRAWN] = (step + 1) * (draws.size // levels)
        count[_SWAPS] += 1
        start, entry_pair, entry_belief, mass, new_start, new_pair, new_belief, new_mass = (
            new_start, new_pair, new_belief, new_mass, start, entry_pair, entry_belief, mass,
        )  # fmt: skip
        best, runs, parent, last_seen, hashes, new_best, new_runs, new_parent, new_seen, new_hashes = (
            new_best, new_runs, new_parent, new_seen, new_hashes, best, runs, parent, last_seen, hashes,
        )  # fmt: skip
        new_start[0] = 0
    return True


@helper
def _draw_runs(draws, first, num_runs, num_seen, seen, chances, drawn_runs):
    """Distribute sampled runs over the observations seen, by their chances; rounding errors go to the likeliest.

    draws: [draw] uniform numbers in [0, 1), of which `num_runs` from `first` on are used. Adds to `drawn_runs`.
    """
    likeliest = 0
    for index in range(num_seen):
        if chances[seen[index]].real > chances[seen[likeliest]].real:
            likeliest = index
    for run in range(first, first + num_runs):
        left = draws[run]
        chosen = likeliest
        for index in range(num_seen):
            chance = chances[seen[index]].real
            left -= chance
            if left < 0.0:
                if chance >= IMPOSSIBLE:
                    chosen = index
                break
        drawn_runs[seen[chosen]] += 1


NEVER = FOR_EVER // 2  # more steps than any secret that may change lasts


class Expansion(NamedTuple):
    """What a level was expanded into."""

    nodes: Nodes  # of the last level that was made, complete or not
    arcs: Arcs  # from the level before to it; empty where they are not kept
    known: SettledArcs  # its settled continuations; empty where arcs are not kept
    levels: int  # how many levels are complete
    reached: int  # how many nodes of the level before were expanded
    num_nodes: int  # of all complete levels together
    num_entries: int
    settled_mass: float  # of all levels
    hashes: HashArray  # [node, 2]: of `nodes`


def expand(
    chain: Chain, nodes: Nodes, *, left: int = NEVER, draws: FloatArray, keep_arcs: bool, room: Room
) -> Expansion:
    """Expand one level of the belief graph into the next.

    left: steps that follow the next level: where these cannot change the secret it is settled. NEVER: no steps can.
    draws: [run], one uniform number per sampled run; none for the whole graph.
    keep_arcs: record arcs and settled continuations, for gradients and for naming sequences.
    room: nodes that are not reached before its memory is used, or when asked to stop, are left out.
    """
    made = _new_level(nodes, 4 * nodes.mass.size + _LEAST_NODES, 4 * nodes.pair.size + _LEAST_ENTRIES)
    limits = _Limits(left, room, levels=1, most=_NO_LIMIT, small=0)
    return _run(chain, nodes, _without_room(nodes), made, draws, limits, keep_arcs=keep_arcs).cut()[1]


def expand_levels(
    chain: Chain, nodes: Nodes, *, left: int = NEVER, draws: FloatArray, room: Room, levels: int, max_nodes: int
) -> Expansion:
    """Expand several levels in one call while they stay small: long horizons cost no call per level.

    left: as of `expand`, of the first level. draws: [level x run]. levels: how many to make at most. A level that was
    not finished, or that has more than `max_nodes` nodes, is not returned. No arcs are kept.
    """
    made = _new_level(nodes, 4 * nodes.mass.size + _LEAST_NODES, 4 * nodes.pair.size + _LEAST_ENTRIES)
    limits = _Limits(left, room, levels=levels, most=max_nodes, small=max_nodes)
    before, expansion = _run(chain, nodes, _without_room(nodes), made, draws, limits, keep_arcs=False).cut()
    finished = expansion.reached == before.mass.size  # and not asked to stop before its end
    if expansion.nodes.mass.size == 0 and expansion.levels and finished:  # nothing is left, and nothing will follow
        return expansion._replace(levels=levels)
    if expansion.levels == 0:
        return expansion._replace(nodes=before, settled_mass=0.0)
    return expansion if expansion.levels == levels else expansion._replace(nodes=before)


def expand_kept_levels(
    chain: Chain,
    nodes: Nodes,
    *,
    left: int = NEVER,
    draws: FloatArray,
    room: Room,
    levels: int,
    max_nodes: int,
    small: int,
) -> tuple[list[Level], float, int]:
    """Expand several levels in one call, as `expand_levels`, and keep all of them with their arcs.

    small: a level of more nodes is the last one.
    draws: [draw], those of a level after those of the level before: one per sampled run that is not settled by then.
    room: the memory for all levels together. Returns the levels that are complete, the mass that was settled on the way
    to them, and how many numbers were drawn.
    """
    num_nodes, num_entries = nodes.mass.size, nodes.pair.size
    kept = _new_level(nodes, 4 * num_nodes + _LEAST_KEPT_NODES, 4 * num_entries + _LEAST_KEPT_ENTRIES, levels=levels)
    for array, given in zip(kept, nodes, strict=False):
        array[: given.size] = given
    kept.start[num_nodes + 1] = num_entries
    limits = _Limits(left, room, levels=levels, most=max_nodes, small=small)
    run = _run(chain, nodes, kept, kept, draws, limits, keep_arcs=True, base=num_nodes + 1)
    return run.cut_levels(num_nodes), float(run.totals[1]), int(run.counts[_DRAWN])


_NO_LIMIT = 2**62
_LEAST_NODES, _LEAST_ENTRIES = 256, 4096  # room of a new level
_LEAST_KEPT_NODES, _LEAST_KEPT_ENTRIES = 2048, 32768  # room of several


class _Limits(NamedTuple):
    """How far the kernel goes; see `_expand`."""

    left: int
    room: Room
    levels: int
    most: int  # nodes of a level that counts as made
    small: int  # nodes of a level that is expanded after another


class _Run(NamedTuple):
    """What the kernel has written when it came to an end."""

    counts: IntArray  # see `_expand`
    totals: FloatArray
    now: _GrowingLevel
    made: _GrowingLevel
    arcs: Arcs
    known: SettledArcs
    ends: IntArray  # [level, 2]

    def cut(self) -> tuple[Nodes, Expansion]:
        """Return the level before the last one, and what it was expanded into, without the room that was not used."""
        count = [int(each) for each in self.counts]
        reached, num_made, num_arcs, num_known = (count[of] for of in (_NODE, _MADE, _ARCS, _KNOWN))
        self.arcs.start[reached + 1 :] = num_arcs
        arcs = Arcs(
            self.arcs.start[: count[_NODES] + 1], _cut(self.arcs.child, num_arcs), _cut(self.arcs.weight, num_arcs)
        )
        return _cut_level(self.now, count[_NODES]), Expansion(
            nodes=_cut_level(self.made, num_made),
            arcs=arcs,
            known=SettledArcs(*(_cut(array, num_known) for array in self.known)),
            levels=count[_LEVELS],
            reached=reached,
            num_nodes=count[_ALL_NODES],
            num_entries=count[_ALL_ENTRIES],
            settled_mass=float(self.totals[1] if count[_LEVELS] else self.totals[0]),
            hashes=self.made.hashes[:num_made],
        )

    def cut_levels(self, before: int) -> list[Level]:
        """Return all complete levels after the first one, which has `before` nodes."""
        start, pair, belief, *others = self.made[:8]
        arc_start, child, weight = self.arcs
        levels, base, first_known = list[Level](), 0, 0
        parents, end = slice(0, before + 1), before  # of the level before, and the node that marks its end
        for num_nodes, last_known in self.ends[: self.counts[_LEVELS]].tolist():
            base, end = end + 1, end + 1 + num_nodes
            starts, arc_starts = start[base : end + 1], arc_start[parents]
            entries, arcs = slice(starts[0], starts[-1]), slice(arc_starts[0], arc_starts[-1])
            per_node: list[Any] = [array[base:end] for array in others]
            settled: list[Any] = [array[first_known:last_known] for array in self.known]
            levels.append(
                Level(
                    Nodes(starts - starts[0], pair[entries], belief[entries], *per_node),
                    Arcs(arc_starts - arc_starts[0], child[arcs], weight[arcs]),
                    SettledArcs(*settled),
                )
            )
            parents, first_known = slice(base, end + 1), last_known
        return levels


def _run(
    chain: Chain,
    nodes: Nodes,
    now: _GrowingLevel,
    made: _GrowingLevel,
    draws: FloatArray,
    limits: _Limits,
    *,
    keep_arcs: bool,
    base: int = 0,
) -> _Run:
    """Call the kernel, and make room, until it comes to an end.

    nodes: of the first level. now, made, base: the arrays that it is expanded in, where the next one begins; the same
    ones where several levels are kept.
    """
    num_nodes, sampled, flat = nodes.mass.size, draws.size > 0, now is made
    many = made.mass.size if keep_arcs else 0
    arc_start = np.zeros(made.start.size if flat else num_nodes + 1 if keep_arcs else 0, np.int64)
    arcs = Arcs(arc_start, np.empty(many, np.int32), np.empty(many if sampled else 0))
    known = SettledArcs(np.empty(many, np.int64), np.empty(many, np.int64), np.empty(many, np.int64), np.empty(many))
    table = _new_table(made)
    count, totals = np.zeros(_NUM_COUNTS, np.int64), np.zeros(2)
    count[_NODES], count[_BASE] = num_nodes, base
    ends = np.zeros((limits.levels, 2), np.int64)
    secret, lasting = chain.process.secret, chain.process.lasting
    left, room, *numbers = limits
    fixed = (ends, chain.moves, chain.pairs, secret, lasting, left, draws, chain.work, keep_arcs, room, *numbers)
    while not _expand(count, totals, now, made, table, arcs, known, *fixed):
        if count[_SWAPS] % 2:
            now, made = made, now
        count[_SWAPS] = 0
        new, num_arcs, num_known, num_entries = (int(count[of]) for of in (_NEW, _ARCS, _KNOWN, _ENTRIES))
        used = int(count[_BASE] + count[_MADE])
        if used + new > made.hashes.shape[0] or num_entries > made.pair.size:
            least = (now.mass.size, now.pair.size) if used == 0 else (0, 0)  # levels seldom shrink
            larger = _new_level(
                nodes, max(2 * (used + new), least[0]), max(2 * num_entries, least[1]), levels=limits.levels
            )
            sizes = (used + 1, made.start[used], made.start[used], *[used] * 6)
            for old, longer, size in zip(made, larger, sizes, strict=True):
                written = old[:size]  # the end of a level that filled all the room is beyond the arrays of nodes
                longer[: written.shape[0]] = written
            now, made = (larger if flat else now), larger
        if table.size < 4 * made.mass.size:
            table = _new_table(made)
        if keep_arcs:
            starts = _enlarge(arcs.start, used + 1, made.start.size - used - 1) if flat else arcs.start
            weight = _enlarge(arcs.weight, num_arcs, new) if sampled else arcs.weight
            arcs = Arcs(starts, _enlarge(arcs.child, num_arcs, new), weight)
            known = SettledArcs(*(_enlarge(array, num_known, new) for array in known))
    if count[_SWAPS] % 2:
        now, made = made, now
    return _Run(count, totals, now, made, arcs, known, ends)


def _without_room(nodes: Nodes) -> _GrowingLevel:
    """Return the nodes of a level as one that is never written to."""
    return _GrowingLevel(*nodes, np.empty((0, 2), np.uint64))


def _new_level(like: Nodes, num_nodes: int, num_entries: int, *, levels: int = 1) -> _GrowingLevel:
    """Return an empty level with room for so many nodes and entries; memory that is never touched costs nothing.

    levels: how many may be put there one after the other, each with an end of its own.
    """
    start, dtype = np.empty(num_nodes + 1 + levels, np.int64), cast(Any, like.belief.dtype)  # real or complex
    start[0] = 0
    return _GrowingLevel(
        start=start,
        pair=np.empty(num_entries, np.uint32),
        belief=np.empty(num_entries, dtype),
        mass=np.empty(num_nodes, dtype),
        best=np.empty(num_nodes),
        parent=np.empty(num_nodes, np.int32),
        observation=np.empty(num_nodes, np.int32),
        runs=np.empty(num_nodes, np.int32),
        hashes=np.empty((num_nodes, 2), np.uint64),
    )


def _new_table(level: _GrowingLevel) -> ShortArray:
    """Return a hash table with at least four slots per node that a level has room for, a power of two."""
    return np.empty(1 << max(4 * level.mass.size, _LEAST_SLOTS - 1).bit_length(), np.int32)


def _enlarge(array: Any, used: int, new: int) -> Any:
    """Return an array with room for `new` more entries than are used; what is beyond those is not initialised."""
    if used + new <= array.size:
        return array
    longer = np.empty(2 * (used + new), array.dtype)
    longer[:used] = array[:used]
    return longer


def _cut(array: Any, used: int) -> Any:
    """Return the used entries of an array, without the memory for the others where that is most of it."""
    return array[:used] if 2 * used >= array.size else array[:used].copy()


def _cut_level(level: _GrowingLevel, num_nodes: int) -> Nodes:
    """Return the nodes of a level, without the room that was not used."""
    num_entries = int(level.start[num_nodes])
    sizes = (num_nodes + 1, num_entries, num_entries, *[num_nodes] * 5)
    return Nodes(*(_cut(array, size) for array, size in zip(level, sizes, strict=False)))
