"""Compiled sweeps over layers. Per node, values and masses of next states pass through a buffer by state.

Those that take `nodes` deal with the nodes from the first up to the second one given: threads can share a layer.
Kernels read `stop` and return False when it is set: what they were filling is then incomplete.
"""

from __future__ import annotations

import math

import numpy as np

from opaq.kernel_cache import njit

_NOTHING = -300.0  # exponentials of less are 0 beside the probabilities that policies keep
_LEAST = 1e-100  # probabilities of actions do not fall below: an action that is 0 could never come back


@njit(cache=True, nogil=True)
def forward(layer, nodes, moves, mass, policy, masses_after, used, ahead, stop):
    """Adds to the masses of the next layer's entries, and to how often every (pair, action) is used."""
    for node in range(nodes[0], nodes[1]):
        if stop[0] != 0:
            return False
        for entry in range(layer.node_start[node], layer.node_start[node + 1]):
            pair = layer.pair[entry]
            state = moves.pair_state[pair]
            first, menu = layer.menu_start[entry], moves.menu_start[pair]
            choice = moves.choice_start[state]
            for action in range(moves.choice_start[state + 1] - choice):
                share = mass[entry] * policy[first + action]
                used[menu + action] += share
                for branch in range(moves.branch_start[choice + action], moves.branch_start[choice + action + 1]):
                    ahead[moves.branch_target[branch]] += share * moves.branch_chance[branch]
        for index in range(layer.next_start[node], layer.next_start[node + 1]):
            state = layer.next_state[index]
            weight = ahead[state]
            ahead[state] = 0.0
            emitted = moves.pair_start[state]
            first = layer.child_start[index]
            for offset in range(layer.child_start[index + 1] - first):
                masses_after[layer.child[first + offset]] += weight * moves.pair_chance[emitted + offset]
    return True


@njit(cache=True, nogil=True)
def last_use(layer, moves, mass, policy, used):
    """Adds to how often every (pair, action) is used at the last time."""
    for entry in range(layer.pair.size):
        first, menu = layer.menu_start[entry], moves.menu_start[layer.pair[entry]]
        for action in range(layer.menu_start[entry + 1] - first):
            used[menu + action] += mass[entry] * policy[first + action]


@njit(cache=True, nogil=True, inline="always")
def _expected(layer, moves, index, values):
    """What a next state is worth, on average over what it emits."""
    first = layer.child_start[index]
    emitted = moves.pair_start[layer.next_state[index]]
    total = 0.0
    for offset in range(layer.child_start[index + 1] - first):
        total += moves.pair_chance[emitted + offset] * values[layer.child[first + offset]]
    return total


@njit(cache=True, nogil=True)
def improve(layer, nodes, moves, paid, penalty, soft_after, hard_after, policy, step, soft, hard, ahead, stop):
    """One backward step of the mirror ascent: the policy's update, its soft values and the largest values.

    policy <- policy exp(step Q) / normaliser, soft = log(normaliser) / step, where Q is what an action pays plus the
    expected soft value after it (the proximal step in the relative entropy of whole runs); hard = max over actions of
    the same with hard values. In the last layer nothing follows and soft, hard hold what the end is worth.
    """
    soft_ahead, hard_ahead = ahead[0], ahead[1]
    wish = ahead[2]
    follows = layer.child.size > 0
    for node in range(nodes[0], nodes[1]):
        if stop[0] != 0:
            return False
        for index in range(layer.next_start[node], layer.next_start[node + 1]):
            state = layer.next_state[index]
            soft_ahead[state] = _expected(layer, moves, index, soft_after)
            hard_ahead[state] = _expected(layer, moves, index, hard_after)
        for entry in range(layer.node_start[node], layer.node_start[node + 1]):
            pair = layer.pair[entry]
            state = moves.pair_state[pair]
            first, menu = layer.menu_start[entry], moves.menu_start[pair]
            choice = moves.choice_start[state]
            count = moves.choice_start[state + 1] - choice
            best, best_wish = -np.inf, -np.inf
            for action in range(count):
                hard_value = paid[choice + action] + penalty[menu + action]
                soft_value = hard_value
                if follows:
                    for branch in range(moves.branch_start[choice + action], moves.branch_start[choice + action + 1]):
                        chance = moves.branch_chance[branch]
                        target = moves.branch_target[branch]
                        hard_value += chance * hard_ahead[target]
                        soft_value += chance * soft_ahead[target]
                best = max(best, hard_value)
                best_wish = max(best_wish, soft_value)
                wish[action] = soft_value
            total = 0.0
            for action in range(count):
                exponent = step * (wish[action] - best_wish)
                weight = policy[first + action] * math.exp(exponent) if exponent > _NOTHING else 0.0
                wish[action] = weight
                total += weight
            for action in range(count):
                policy[first + action] = max(wish[action] / total, _LEAST)
            soft[entry] += best_wish + math.log(total) / step
            hard[entry] += best
    return True


@njit(cache=True, nogil=True)
def maximise(layer, moves, paid, penalty, after, values, ahead, stop):
    """One backward step of dynamic programming: adds the largest value over actions to what values hold."""
    follows = layer.child.size > 0
    for node in range(layer.node_start.size - 1):
        if stop[0] != 0:
            return False
        for index in range(layer.next_start[node], layer.next_start[node + 1]):
            ahead[layer.next_state[index]] = _expected(layer, moves, index, after)
        for entry in range(layer.node_start[node], layer.node_start[node + 1]):
            pair = layer.pair[entry]
            state = moves.pair_state[pair]
            menu, choice = moves.menu_start[pair], moves.choice_start[state]
            best = -np.inf
            for action in range(moves.choice_start[state + 1] - choice):
                value = paid[choice + action] + penalty[menu + action]
                if follows:
                    for branch in range(moves.branch_start[choice + action], moves.branch_start[choice + action + 1]):
                        value += moves.branch_chance[branch] * ahead[moves.branch_target[branch]]
                best = max(best, value)
            values[entry] += best
    return True
