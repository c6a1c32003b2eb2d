"""What observing is worth to an observer who guesses: vulnerability, and leakage of quantitative information flow.

Comes in: the distribution of a secret, and what guesses are worth after observing, as amounts. Goes out: the same
before observing, how much is gained (additive leakage) and by which factor (multiplicative leakage), each exact, as an
interval or as an estimate, as the amount it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import ExpectedLoss, Uncertainty
from opaq.opacity.amount import Amount

_TINY = 5e-324  # the smallest positive number


@dataclass(frozen=True, slots=True)
class GuessLeakage:
    """What the best guess is worth before and after observing, and what observing adds (g-leakage).

    prior: the probability that the best guess is right (vulnerability), or its expected loss, before observing.
    posterior: the same after observing.
    additive: how much observing adds to the probability, or takes from the expected loss.
    multiplicative: by which factor observing raises the probability, or divides the expected loss; where no loss is
        positive, losses are gains, and it is the factor by which the gain grows. Null where losses have both signs, and
        where the expected loss may be 0 after observing, or is so small that the factor is no finite number.
    """

    prior: float
    posterior: Amount
    additive: Amount
    multiplicative: Amount | None


def map_amount(amount: Amount, function: Callable[[float], float], *, slope: float) -> Amount:
    """Return a monotone function of an amount: ends go to ends, and an error grows as the function does.

    function: rising or falling. slope: its derivative at the value, for the standard error of an estimate.
    """
    if amount.method == "exact":
        return Amount.exact(function(amount.value))
    lower, upper = sorted((function(amount.lower), function(amount.upper)))
    if amount.method == "interval":
        return Amount.between(lower, upper)
    error = None if amount.standard_error is None else abs(slope) * amount.standard_error
    return Amount.estimate(function(amount.value), lower, upper, standard_error=error)


def leakage_of_guess(prior: FloatArray, guess_error: Amount) -> tuple[GuessLeakage, Amount]:
    """Return the leakage of the guess that should be right (0-1 gain), and log2 of its factor: min-entropy leakage.

        V = max P(z) before observing, V' = 1 - guess error after it; V' - V, V' / V, and log2(V' / V) bits.

    prior: [secret value] P(Z = z).
    """
    before = 1.0 - max(0.0, 1.0 - float(prior.max()))  # rounded as the guess error before observing
    return leakage_of_right(before, map_amount(guess_error, lambda error: 1.0 - error, slope=-1.0))


def leakage_of_right(before: float, after: Amount) -> tuple[GuessLeakage, Amount]:
    """Return the same as `leakage_of_guess`, from how likely the best guess is right before and after observing.

    Guesses of whole runs may be right with any small probability: factors that are no finite number are left out.
    """
    least = max(before, _TINY)
    after = map_amount(after, lambda right: max(before, right), slope=1.0)
    factor = None
    if math.isfinite(after.upper / least) and math.isfinite(1.0 / least):
        factor = map_amount(after, lambda right: right / least, slope=1.0 / least)
    added = map_amount(after, lambda right: right - before, slope=1.0)
    slope = 1.0 / (max(after.value, least) * math.log(2.0))
    bits = map_amount(after, lambda right: math.log2(max(right, least)) - math.log2(least), slope=slope)
    return GuessLeakage(before, after, added, factor), bits


def leakage_of_loss(uncertainty: Uncertainty, prior: FloatArray, loss: Amount) -> GuessLeakage | None:
    """Return the leakage of the guess with the least expected loss; None for other uncertainties than expected losses.

    uncertainty: over the values of the secret. prior: [secret value] P(Z = z). loss: expected after observing.
    """
    if not isinstance(uncertainty, ExpectedLoss):
        return None
    before = uncertainty.value(prior)
    factor = None
    if np.all(uncertainty.table <= 0.0) and before < 0.0:
        factor = map_amount(loss, lambda after: max(1.0, after / before), slope=1.0 / before)
    elif np.all(uncertainty.table >= 0.0) and loss.lower > 0.0:
        slope = before / loss.value / loss.value
        if math.isfinite(slope) and math.isfinite(before / loss.lower):  # not of losses that are 0 but for 1e-300
            factor = map_amount(loss, lambda after: max(1.0, before / after), slope=slope)
    return GuessLeakage(before, loss, map_amount(loss, lambda after: max(0.0, before - after), slope=1.0), factor)
