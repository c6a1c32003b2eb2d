"""How far rounding can put a computed bound below the exact one.

The value of the dynamic program is a sum of products of numbers that are known exactly: probabilities, costs, payoffs,
multipliers. A sum of products evaluated in floating point, each term passing through at most n operations, is off by
at most gamma_n = n u / (1 - n u) times the sum of the terms' absolute values (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1), u = 2^-53. Maximising over actions adds no error. Per time a term passes through at
most (branches of a choice) + (observations of a state) + (requirements) + 8 operations, powers of discounts and
penalties included; the absolute values add up to at most

    M = largest cost + sum over times of (sum over i of multiplier_i |payoff_i| + largest penalty)
        + multipliers |thresholds|.

The policies bounded have rows that sum to 1 up to rounding, as models have, which adds as many operations again, and
penalties have mean 0 up to the rounding of their centring: twice their size times as many operations. All this is
doubled: slack = 4 n u M.
"""

from __future__ import annotations

import math

import numpy as np

from opaq.certificates.decoder.decisions import Decisions
from opaq.model.arrays import FloatArray

UNIT = 2.0**-53


def sum_error(operations: int, magnitude: float) -> float:
    """Return how far rounding can put a sum of products from the exact one, to first order.

    operations: the most that any term passes through. magnitude: the sum of the terms' absolute values.
    """
    return operations * UNIT * magnitude


def slack(
    decisions: Decisions, costs: FloatArray, multipliers: FloatArray, penalty: FloatArray | None, *, ends: int = 1
) -> float:
    """Return what must be added to a computed bound so that it is one: 4 n u M of the module's argument.

    costs: [cell]. multipliers: [requirement]. penalty: [time, (pair, action)] if there are penalties.
    ends: the most cells that one entry can end in, whose costs are added up.
    """
    moves, horizon = decisions.moves, decisions.process.horizon
    branches = int(np.diff(moves.branch_start).max(initial=1))
    emitted = int(np.diff(moves.pair_start).max(initial=1))
    actions = int(np.diff(moves.choice_start).max(initial=1))
    operations = (horizon + 2) * (branches + 2 * emitted + actions + len(decisions.names) + 8)
    operations += decisions.start_state.size * emitted + ends + decisions.windows.delay
    magnitude = largest_size(costs) + most_paid(decisions, multipliers)
    if penalty is not None:
        magnitude += 2.0 * float(np.abs(penalty).max(axis=1, initial=0.0).sum())
    return sum_error(4 * operations, magnitude)


def largest_size(values: FloatArray) -> float:
    """Return the largest absolute value, 0 where there are none."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def most_paid(decisions: Decisions, multipliers: FloatArray) -> float:
    """Return sum_i multiplier_i (sum_t discount_i^t max |reward_i| + max |final_i| + max |tail_i| + |threshold_i|).

    It is the most that weighted payoffs and thresholds can amount to.
    """
    if not multipliers.size:
        return 0.0
    times = np.arange(decisions.process.horizon + 1)
    weights = np.abs(decisions.discounts)[:, None] ** times
    most = np.abs(decisions.rewards).max(axis=1, initial=0.0) * weights.sum(axis=1)
    most += np.abs(decisions.finals).max(axis=1, initial=0.0) + np.abs(decisions.tails).max(axis=1, initial=0.0)
    return float(multipliers @ (most + np.abs(decisions.thresholds)))


def outward(value: float, digits: int) -> float:
    """Return the value rounded up to a number of digits after the point."""
    if not math.isfinite(value):
        return value
    scaled = math.ceil(value * 10.0**digits)
    rounded = scaled / 10.0**digits
    return rounded if rounded >= value else (scaled + 1) / 10.0**digits
