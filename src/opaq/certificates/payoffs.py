"""What policies can be paid at most of every requirement alone: what is out of reach, how far payoffs can move."""

from __future__ import annotations

from functools import partial

import numpy as np

from opaq.beliefs.dynamic_program import best_values
from opaq.beliefs.returns import EQUAL, expected_return, largest_absolute_payoff
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.rounding import slack
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.stop import Stop

_LEAST_SCALE = 1e-6
_LEAST_SPAN = 1e-100  # squares of smaller scales underflow


def largest_payoffs(decisions: Decisions, *, stop: Stop) -> FloatArray:
    """Return [requirement]: the most that any policy reaches of each alone, by dynamic programming over states.

    Raises StoppedError when `stop` is requested meanwhile.
    """
    horizon, largest = decisions.process.horizon, []
    for unit in np.eye(len(decisions.names)):
        paid = partial(decisions.paid, unit)
        value = best_values(decisions.choices, paid, decisions.final(unit), horizon=horizon, stop=stop)
        largest.append(float(decisions.start_chance @ value[decisions.start_state]))
    return np.array(largest)


def payoff_scales(process: HiddenProcess, largest: FloatArray) -> FloatArray:
    """Return [requirement]: how far above the uniform policy's the payoffs can be; never 0.

    largest: [requirement], the most that any policy reaches.
    """
    required = [payoff for payoff in process.payoffs if payoff.threshold is not None]
    usual = np.array([expected_return(process, process.uniform(), payoff) for payoff in required])
    paid = np.array([largest_absolute_payoff(process, payoff) for payoff in required])
    scales = np.maximum(np.abs(largest - usual), _LEAST_SCALE * np.abs(largest) + EQUAL * paid)
    return np.where(scales > _LEAST_SPAN, scales, 1.0)


def find_unattainable(decisions: Decisions, largest: FloatArray) -> tuple[str, ...]:
    """Return the names of the requirements that no policy meets, whatever rounding does to the largest payoffs."""
    nothing, units = np.zeros(0), np.eye(len(decisions.names))
    rounding = np.array([slack(decisions, nothing, unit, None) for unit in units])
    short = largest + rounding < decisions.thresholds
    return tuple(name for name, missed in zip(decisions.names, short, strict=True) if missed)
