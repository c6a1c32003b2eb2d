"""Compiled sweeps for expected payoffs: one forward, one back, over the states that can be reached."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.kernels import longer
from opaq.kernel_cache import njit


@njit(cache=True, nogil=True)
def push_forward(start, moves, reward, discount, steps, stop):
    """sum over t = 0 .. steps of discount^t E[reward(x_t)], and the distribution of the last state.

    `stop` is the byte that asks to stop; what is returned then means nothing.
    """
    now = start.copy()
    total, worth = 0.0, 1.0
    for time in range(steps + 1):
        if stop[0] != 0:
            break
        paid = 0.0
        for state in range(now.size):
            paid += now[state] * reward[state]
        total += worth * paid
        worth *= discount
        if time < steps:
            ahead = np.zeros_like(now)
            for state in range(now.size):
                weight = now[state]
                if weight != 0.0:
                    for edge in range(moves.start[state], moves.start[state + 1]):
                        ahead[moves.target[edge]] += weight * moves.flow[edge]
            now = ahead
    return total, now


@njit(cache=True, nogil=True)
def pay(start, moves, reward, final, discount, horizon):
    """Expected payoff of a chain, its derivatives by flow and by reward, and the expected visits of every state.

    One sweep forward, one back, over the states that can be reached at each time. `start` is P(x_0 = x); edges of the
    source are not counted.
    """
    size = start.size
    first, state_at, visit_at = _visits_by_time(start, moves, horizon)
    slope = np.zeros(moves.flow.size, moves.flow.dtype)
    paid = np.zeros(size, moves.flow.dtype)
    visits = np.zeros(size, np.float64)
    ahead = np.zeros(size, moves.flow.dtype)  # the value of every state that can be reached at the next time
    value = np.zeros(size, moves.flow.dtype)
    for time in range(horizon, -1, -1):
        worth = discount**time
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            weight = visit_at[index]
            paid[state] += worth * weight
            visits[state] += weight.real
            total = worth * reward[state]
            if time == horizon:
                total += final[state]
            else:
                for edge in range(moves.start[state], moves.start[state + 1]):
                    slope[edge] += weight * ahead[moves.target[edge]]
                    total += moves.flow[edge] * ahead[moves.target[edge]]
            value[state] = total
        for index in range(first[time], first[time + 1]):
            ahead[state_at[index]] = value[state_at[index]]
    total = 0.0 * ahead[0]
    for index in range(first[0], first[1]):
        total += visit_at[index] * ahead[state_at[index]]
    return total, slope, paid, visits


@njit(cache=True)
def _visits_by_time(start, moves, horizon):
    """The states that can be reached at each time and their probabilities: those of time t from first[t] on."""
    size = start.size
    first = np.zeros(horizon + 2, np.int64)
    state_at = np.empty(4 * size + 16, np.int64)
    visit_at = np.empty(4 * size + 16, moves.flow.dtype)
    listed = np.zeros(size, np.bool_)
    now = np.zeros(size, moves.flow.dtype)
    count = 0
    for state in range(size):
        if start[state] > 0.0:
            state_at[count] = state
            visit_at[count] = start[state]
            count += 1
    first[1] = count
    for time in range(horizon):
        if count + size > state_at.size:
            state_at = longer(state_at, 2 * (count + size))
            visit_at = longer(visit_at, 2 * (count + size))
        for index in range(first[time], first[time + 1]):
            state = state_at[index]
            for edge in range(moves.start[state], moves.start[state + 1]):
                target = moves.target[edge]
                if moves.flow[edge].real == 0.0:
                    continue
                if not listed[target]:
                    listed[target] = True
                    now[target] = 0.0
                    state_at[count] = target
                    count += 1
                now[target] += visit_at[index] * moves.flow[edge]
        first[time + 2] = count
        for index in range(first[time + 1], count):
            visit_at[index] = now[state_at[index]]
            listed[state_at[index]] = False
    return first, state_at, visit_at
