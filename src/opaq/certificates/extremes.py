"""What is certain before any search: the most that requirements allow, and how many secret values can occur."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.returns import expected_return
from opaq.certificates.decisions import Decisions
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_ROUNDING = 1e-9
_LEAST_SCALE = 1e-6


def largest_payoffs(decisions: Decisions, *, stop: Stop) -> FloatArray:
    """[requirement]: the most that any policy reaches of each alone, by dynamic programming over states.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    return np.array([_largest(decisions, unit, stop) for unit in np.eye(len(decisions.names))])


def payoff_scales(process: HiddenProcess, largest: FloatArray) -> FloatArray:
    """[requirement]: how far above the uniform policy's the payoffs can be; never 0."""
    asked = [payoff for payoff in process.payoffs if payoff.threshold is not None]
    usual = np.array([expected_return(process, process.uniform(), payoff) for payoff in asked])
    return np.asarray(np.maximum(np.abs(largest - usual), _LEAST_SCALE * (1.0 + np.abs(largest))))


def unattainable(decisions: Decisions, largest: FloatArray) -> tuple[str, ...]:
    """The requirements that no policy meets."""
    scale = 1.0 + np.abs(decisions.thresholds)
    short = largest < decisions.thresholds - _ROUNDING * scale
    return tuple(name for name, missed in zip(decisions.names, short, strict=True) if missed)


def _largest(decisions: Decisions, weights: FloatArray, stop: Stop) -> float:
    from scipy.sparse import csr_array

    moves, process = decisions.moves, decisions.process
    shape = (moves.branch_start.size - 1, process.num_states)
    ahead = csr_array((moves.branch_chance, moves.branch_target.astype(np.int64), moves.branch_start), shape=shape)
    heads = moves.choice_start[:-1]
    paid = decisions.paid(weights, process.horizon)
    value = decisions.final(weights) + np.maximum.reduceat(paid, heads)
    for time in range(process.horizon - 1, -1, -1):
        stop.check()
        value = np.maximum.reduceat(decisions.paid(weights, time) + ahead @ value, heads)
    return float(decisions.start_chance @ value[decisions.start_state])
