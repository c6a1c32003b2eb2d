"""What is certain before any search: the most that requirements allow, and how many secret values can occur."""

from __future__ import annotations

import numpy as np

from opaq.beliefs.returns import EQUAL, expected_return, most_paid_in_all
from opaq.certificates.decisions import Decisions
from opaq.certificates.rounding import slack
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_LEAST_SCALE = 1e-6
_LEAST_SPAN = 1e-100  # squares of smaller scales underflow


def largest_payoffs(decisions: Decisions, *, stop: Stop) -> FloatArray:
    """[requirement]: the most that any policy reaches of each alone, by dynamic programming over states.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    return np.array([_largest(decisions, unit, stop) for unit in np.eye(len(decisions.names))])


def payoff_scales(process: HiddenProcess, largest: FloatArray) -> FloatArray:
    """[requirement]: how far above the uniform policy's the payoffs can be; never 0."""
    asked = [payoff for payoff in process.payoffs if payoff.threshold is not None]
    usual = np.array([expected_return(process, process.uniform(), payoff) for payoff in asked])
    paid = np.array([most_paid_in_all(process, payoff) for payoff in asked])
    scales = np.maximum(np.abs(largest - usual), _LEAST_SCALE * np.abs(largest) + EQUAL * paid)
    return np.where(scales > _LEAST_SPAN, scales, 1.0)


def unattainable(decisions: Decisions, largest: FloatArray) -> tuple[str, ...]:
    """The requirements that no policy meets, whatever rounding does to the largest payoffs."""
    nothing, units = np.zeros(0), np.eye(len(decisions.names))
    rounding = np.array([slack(decisions, nothing, unit, None) for unit in units])
    short = largest + rounding < decisions.thresholds
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
