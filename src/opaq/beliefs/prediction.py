"""Compiled: what may come next after a belief."""

from __future__ import annotations

from opaq.beliefs.kernels import IMPOSSIBLE
from opaq.kernel_cache import njit


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
def look_ahead(nodes, node, moves, pairs, settled, work):
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
def draw_runs(draws, num_seen, work):
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
