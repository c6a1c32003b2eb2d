"""Sampled runs of a hidden process, and the score-function gradient of its payoffs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.kernel_cache import helper, kernel
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import HiddenProcess, Payoff


@dataclass(frozen=True, slots=True)
class SampledRuns:
    """Sampled runs as arrays: states x_0 .. x_T, the slot drawn in each, and the observations."""

    states: IntArray  # [run, time]
    slots: IntArray  # [run, time]
    observations: IntArray  # [run, time]


def sample_runs(process: HiddenProcess, pi: FloatArray, *, count: int, rng: np.random.Generator) -> SampledRuns:
    """Sample `count` independent runs x_0 .. x_T of a policy vector [slot], with their observations.

    rng: draws count * (T + 1) * 3 uniform numbers, so that the same generator gives the same runs.
    """
    times = process.horizon + 1
    draws = rng.random((count, times, 3))
    slots = process.edge_slots
    emission = process.emission
    runs = SampledRuns(*(np.zeros((count, times), np.int64) for _ in range(3)))
    _sample_kernel(
        process.edge_start,
        process.edge_target,
        process.flow(pi),
        slots.starts,
        slots.columns,
        slots.values,
        process.row_start,
        process.row,
        pi,
        emission.starts,
        emission.columns,
        emission.values,
        draws,
        runs.states,
        runs.slots,
        runs.observations,
    )
    return runs


def score_gradients(
    process: HiddenProcess,
    theta: FloatArray,
    payoffs: tuple[Payoff, ...],
    *,
    samples: int,
    rng: np.random.Generator,
) -> list[tuple[float, FloatArray]]:
    """Estimate payoffs and their gradients [slot] by logits from sampled runs, one pair per payoff.

    With G the payoff of a run, the gradient is the mean of G sum over t of grad log pi(a_t | x_t) (paper, eq.
    estimation_gradient_value_function), and for softmax rows grad log pi = (1 at the slot drawn) - pi of its row.
    theta: [slot] logits. samples: number of runs, shared by all payoffs.
    """
    if not payoffs:
        return []
    pi = process.softmax(theta)
    runs = sample_runs(process, pi, count=samples, rng=rng)
    return [_score_gradient(process, pi, payoff, runs) for payoff in payoffs]


def _score_gradient(
    process: HiddenProcess, pi: FloatArray, payoff: Payoff, runs: SampledRuns
) -> tuple[float, FloatArray]:
    """Return the mean payoff of the runs, and the score-function gradient."""
    gains = _run_payoffs(payoff, runs)
    weights = np.repeat(gains, runs.slots.shape[1])
    drawn = np.bincount(runs.slots.reshape(-1), weights=weights, minlength=process.num_slots)
    rows = np.add.reduceat(drawn, process.row_start[:-1])
    slope = drawn - pi * np.repeat(rows, np.diff(process.row_start))
    return float(gains.mean()), np.asarray(slope / gains.size)


def _run_payoffs(payoff: Payoff, runs: SampledRuns) -> FloatArray:
    """Return [run]: G = sum over t of discount^t R(x_t, slot_t) + final(x_T)."""
    paid = np.asarray(payoff.slots.scipy()[runs.states.reshape(-1), runs.slots.reshape(-1)]).reshape(runs.states.shape)
    discounts = payoff.discount ** np.arange(runs.states.shape[1])
    return np.asarray(paid @ discounts + payoff.final[runs.states[:, -1]])


def draw_index(weights: Any, rng: np.random.Generator) -> int:
    """Draw an index in proportion to weights [index]; rounding goes to the last one that is not 0."""
    sums = np.cumsum(weights)
    index = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))


@helper
def _pick(values, first, last, total, draw):
    """Return the index that a uniform draw falls on among weights first .. last - 1 of this total.

    Rounding errors go to the last one that is not 0.
    """
    left = draw * total
    for index in range(first, last):
        left -= values[index]
        if left < 0.0:
            return index
    index = last - 1
    while index > first and values[index] == 0.0:
        index -= 1
    return index


@kernel
def _sample_kernel(
    edge_start: Any,
    edge_target: Any,
    flow: Any,
    slot_start: Any,
    slot_column: Any,
    slot_value: Any,
    row_start: Any,
    row_of: Any,
    pi: Any,
    pair_start: Any,
    pair_observation: Any,
    pair_value: Any,
    draws: Any,
    states: Any,
    slots: Any,
    seen: Any,
) -> None:
    """Compiled: draw an edge, then the slot that took it: together the same law as drawing the action first.

    draws: [run, time, 3] uniform numbers for edge, slot and observation. Writes to states, slots, seen [run, time].
    """
    count, times = draws.shape[0], draws.shape[1]
    source = edge_start.size - 2
    for run in range(count):
        state = source
        for time in range(times):
            first, last = edge_start[state], edge_start[state + 1]
            edge = _pick(flow, first, last, 1.0, draws[run, time, 0])
            if time > 0:
                total = 0.0
                for entry in range(slot_start[edge], slot_start[edge + 1]):
                    total += slot_value[entry] * pi[slot_column[entry]]
                left = draws[run, time, 1] * total
                chosen = slot_start[edge]
                for entry in range(slot_start[edge], slot_start[edge + 1]):
                    share = slot_value[entry] * pi[slot_column[entry]]
                    if share > 0.0:
                        chosen = entry
                    left -= share
                    if left < 0.0:
                        break
                slots[run, time - 1] = slot_column[chosen]
            state = edge_target[edge]
            states[run, time] = state
            first, last = pair_start[state], pair_start[state + 1]
            seen[run, time] = pair_observation[_pick(pair_value, first, last, 1.0, draws[run, time, 2])]
        row = row_of[state]
        first, last = row_start[row], row_start[row + 1]
        slots[run, times - 1] = _pick(pi, first, last, 1.0, draws[run, 0, 1])
