"""What no answer may violate: checked at the border of every measurement.

A violation is an error in opaq, not in the input: it is raised, and never passed on as an answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opaq.errors import InvariantError
from opaq.model.arrays import FloatArray
from opaq.model.leaf import Leaf, value_of
from opaq.opacity.amount import Amount
from opaq.opacity.entropies import entropy

_ROUNDING = 1e-9


def check_masses(kept: Any, settled: float, dropped: float, *, horizon: int) -> None:
    """The observation sequences kept, settled and dropped have probability 1 together."""
    total = float(np.sum(kept)) + settled + dropped
    if not abs(total - 1.0) <= _ROUNDING * (1.0 + 1e-3 * horizon):
        raise InvariantError(f"the probabilities of all observation sequences sum to {total!r}, not 1")


def bounded_opacity(opacity: Amount, prior: FloatArray) -> Amount:
    """The opacity within 0 .. H(Z)."""
    return _bounded(opacity, entropy(prior), what="opacity", limit="H(secret)")


def bounded_error(error: Amount, prior: FloatArray) -> Amount:
    """The guess error within 0 .. 1 - max P(z): guessing without looking does no worse."""
    return _bounded(error, max(0.0, 1.0 - float(prior.max())), what="guess error", limit="1 - max P(secret)")


def bounded_leaf(amount: Amount, leaf: Leaf, prior: FloatArray, *, what: str) -> Amount:
    """Any uncertainty between what is left when the secret is known and what there is before observing."""
    least, most = float(leaf.certain @ prior), value_of(leaf, prior)
    rounding = _ROUNDING * max(1.0, leaf.scale)
    return _bounded(amount, max(least, most), what=what, limit="that before observing", least=least, rounding=rounding)


def _bounded(
    amount: Amount, largest: float, *, what: str, limit: str, least: float = 0.0, rounding: float = _ROUNDING
) -> Amount:
    """Intersect what is certified with least .. largest; an estimate moves to the nearer end where it lies outside.

    Raises InvariantError where nothing is left of the interval, up to rounding.
    """
    if not (amount.lower <= largest + rounding and amount.upper >= least - rounding and amount.upper >= amount.lower):
        interval = f"[{amount.lower!r}, {amount.upper!r}]"
        raise InvariantError(
            f"the {what} came out as {interval}, but it lies between {least:g} and {limit} = {largest!r}"
        )
    lower, upper = (min(max(end, least), largest) for end in (amount.lower, amount.upper))
    if amount.method == "sampled":
        return Amount.estimate(amount.value, lower, upper, standard_error=amount.standard_error)
    return Amount.between(lower, upper) if amount.method == "interval" else Amount.exact(lower)
