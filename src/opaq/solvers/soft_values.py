"""The paper's baseline: entropy-regularised MDPs by soft value iteration (section VI.B)."""

from __future__ import annotations

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.solvers.attainable import Choices


def soft_policy(
    process: HiddenProcess, *, temperature: float, discount: float = 0.8, tolerance: float = 1e-12
) -> FloatArray:
    """The policy vector that maximises discounted return + temperature x discounted policy entropy.

    Q = R + discount P V, V = temperature log sum exp(Q / temperature). The process must be closed (compiled for an
    endless run) and every product state must have a policy row of its own.
    """
    if process.num_rows != process.num_states:
        raise BudgetError("soft value iteration needs one policy row a product state; condition on more")
    choices = Choices.of(process, process.payoffs[0])
    value = np.zeros(process.num_states)
    for _ in range(100_000):
        quality = choices.paid + discount * (choices.ahead @ value)
        top = choices.best(quality)
        counts = np.diff(np.append(choices.first, quality.size))
        weights = np.exp((quality - np.repeat(top, counts)) / temperature)
        totals = np.add.reduceat(weights, choices.first)
        after = top + temperature * np.log(totals)
        settled = np.abs(after - value).max() <= tolerance * max(1.0, np.abs(after).max())
        value = after
        if settled:
            break
    pi = np.zeros(process.num_slots)
    pi[choices.slot] = weights / np.repeat(totals, counts)
    return pi
