"""A number with how it was obtained, and the inequalities that no answer may violate.

Conservation: all observation sequences together have probability 1. Every uncertainty lies between what is left when
the secret is known and what there is before observing, sum_z P(z) certain_z <= f <= f(prior). Fano's inequality ties
the guess error e to the opacity, h(e) + e log2(|Z| - 1) >= H(Z | Y). A number that breaks one of the first two is an
error in opaq, and raises InvariantError instead of being returned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from decimal import Decimal, localcontext
from typing import Any, Literal

import numpy as np

from opaq.codec import as_text, flat, if_known, infinity
from opaq.errors import InvariantError, is_number
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.uncertainty import UNCERTAINTIES, Uncertainty, entropy

Method = Literal["exact", "interval", "sampled"]


@dataclass(frozen=True, slots=True, eq=False)
class Amount:
    """A value with its certified interval; a sampled one also has a standard error (and lies within the interval).

    It is used like its value: float(amount), f"{amount:.3f}", amount > 0.5, and sorting go by it. What is certain is
    told by `lower` and `upper`. Two amounts are equal if all they say is; an amount equals a number if its value does.

    value: the number; the middle of an interval, or the estimate; null: infinite.
    lower: it is certainly no less.
    upper: it is certainly no more; null: infinite.
    method: "exact", "interval" or "sampled".
    standard_error: of an estimate; left out of others.
    """

    value: float = field(metadata=infinity(math.inf))
    lower: float = field(metadata=infinity(math.inf))
    upper: float = field(metadata=infinity(math.inf))
    method: Method
    standard_error: float | None = field(default=None, metadata=if_known())

    def __str__(self) -> str:
        if self.standard_error is not None:
            return f"{self.value:.6g} +- {self.standard_error:.2g}"
        lower, upper = f"{self.lower:.6g}", f"{self.upper:.6g}"
        return lower if lower == upper else f"[{lower}, {upper}]"  # one number where the digits tell no two apart

    def __format__(self, spec: str) -> str:
        """Return the value, as floats are formatted; without a specification all that is known, as `str` does."""
        return format(self.value, spec) if spec else str(self)

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Amount):
            return astuple(self) == astuple(other)
        return self.value == other if is_number(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Amount | float) -> bool:
        return self.value < float(other) if isinstance(other, Amount) or is_number(other) else NotImplemented

    def __le__(self, other: Amount | float) -> bool:
        return self.value <= float(other) if isinstance(other, Amount) or is_number(other) else NotImplemented

    def __gt__(self, other: Amount | float) -> bool:
        return self.value > float(other) if isinstance(other, Amount) or is_number(other) else NotImplemented

    def __ge__(self, other: Amount | float) -> bool:
        return self.value >= float(other) if isinstance(other, Amount) or is_number(other) else NotImplemented

    @property
    def width(self) -> float:
        """Return the width of the certified interval."""
        return self.upper - self.lower

    @property
    def at_least(self) -> float:
        """Return the value where it is exact or estimated, else the lower end: the most that is proven."""
        return self.lower if self.method == "interval" else self.value

    @property
    def at_most(self) -> float:
        """Return the value where it is exact or estimated, else the upper end of the interval."""
        return self.upper if self.method == "interval" else self.value

    def score(self, *, minimise: bool) -> float:
        """Return the end that is certain, or the estimate, higher where it is better; minimise: small ones are."""
        return -self.at_most if minimise else self.at_least

    def minus(self, other: Amount) -> Amount:
        """Return the difference: an interval if one of the two is one, estimated if one is, else exact.

        The interval is [lower - other.upper, upper - other.lower]; standard errors add as sqrt(a^2 + b^2), as of
        independent estimates.
        """
        lower, upper = self.lower - other.upper, self.upper - other.lower
        if "interval" in (self.method, other.method):
            return Amount.between(lower, upper)
        value, errors = self.value - other.value, (self.standard_error, other.standard_error)
        if errors == (None, None):
            return Amount.exact(value)
        return Amount(value, lower, upper, "sampled", math.hypot(*(error or 0.0 for error in errors)))

    def combine(self, other: Amount) -> Amount:
        """Return what two measurements of the same number say together.

        The interval is what both allow. An estimate stays one, the sharper of two, until the interval is narrower than
        its error.
        """
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        if lower > upper:  # by rounding
            lower = upper = 0.5 * (lower + upper)
        estimates = [each for each in (self, other) if each.standard_error is not None]
        best = min(estimates, key=lambda each: each.standard_error or 0.0, default=None)
        if best is None or best.standard_error is None or upper - lower <= best.standard_error:
            return Amount.between(lower, upper)
        return Amount.estimate(best.value, lower, upper, standard_error=best.standard_error)

    @classmethod
    def exact(cls, value: float) -> Amount:
        """Return a number that is known up to rounding."""
        return cls(value, value, value, "exact")

    @classmethod
    def between(cls, lower: float, upper: float) -> Amount:
        """Return a number that is known to lie in an interval; its middle stands for it.

        Exact where the two ends are equal.
        """
        return cls(0.5 * (lower + upper), lower, upper, "interval") if upper > lower else cls.exact(lower)

    @classmethod
    def estimate(cls, value: float, lower: float, upper: float, *, standard_error: float | None) -> Amount:
        """Return an estimate beside what is certified.

        Moved to the nearer end of the interval where it is not possible.

        Moving it biases estimates at the ends a little.

        value: the estimate.
        lower, upper: what is certified.
        standard_error: of the value; None where it is not known.
        """
        return cls(min(max(value, lower), upper), lower, upper, "sampled", standard_error)


Figures = Mapping[str, Amount]  # name of an uncertainty -> its amount


class _ReadUncertainty(Uncertainty):
    """An uncertainty that an answer names and opaq does not know: it has a name, and no numbers."""

    def __init__(self, name: str) -> None:
        self.name, self.title = name, name.replace("_", " ")  # type: ignore[misc]  # of this one alone

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Refuse: there are no numbers."""
        raise NotImplementedError(f"{self.name} was read from JSON, which holds its name alone")


@dataclass(frozen=True, slots=True)
class Target:
    """What a task is about: which uncertainty, and whether it is to be large or small.

    direction: "maximise" or "minimise".
    of: the uncertainty: "opacity", "guess_error", "guesswork", "expected_loss" or another one by its name.
    amount: what a policy reaches of it; left out where there are several policies.
    figure: the secrets and observers that it is about, in words, where that is not the pair of the answer alone.
    """

    direction: Literal["maximise", "minimise"]
    of: Uncertainty = field(
        metadata=as_text(lambda of: str(of.name), lambda name: UNCERTAINTIES.get(name) or _ReadUncertainty(name))
    )
    amount: Amount | None = field(default=None, metadata=flat())
    figure: str | None = field(default=None, metadata=if_known())

    @classmethod
    def of_task(
        cls, of: Uncertainty, *, minimise: bool, amount: Amount | None = None, figure: str | None = None
    ) -> Target:
        """Return the target of a task: its uncertainty, its direction, what a policy reaches, and the figure named."""
        return cls("minimise" if minimise else "maximise", of, amount, figure)

    @property
    def title(self) -> str:
        """Return what it is in words: the figure where that is named, else the uncertainty."""
        return self.figure or self.of.title

    @property
    def minimise(self) -> bool:
        """Return whether it is to be small."""
        return self.direction == "minimise"


_ROUNDING = 1e-9


def check_masses(kept: Any, settled: float, dropped: float, *, horizon: int) -> None:
    """Raise InvariantError unless the observation sequences kept, settled and dropped have probability 1 together.

    kept: [belief] masses. settled, dropped: total masses. horizon: the rounding allowed grows with it, 1e-9 (1 +
        horizon / 1000).
    """
    total = float(np.sum(kept)) + settled + dropped
    if not abs(total - 1.0) <= _ROUNDING * (1.0 + 1e-3 * horizon):
        raise InvariantError(f"the probabilities of all observation sequences sum to {total!r}, not 1")


def unknown_amount(uncertainty: Uncertainty, prior: FloatArray) -> Amount:
    """Return what the distribution of the secret alone says of an uncertainty: sum_z P(z) certain_z <= f <= f(prior).

    uncertainty: over the values of the secret. prior: [secret value] P(Z = z).
    """
    least = float(uncertainty.certain @ prior)
    return Amount.between(least, max(least, uncertainty.prior_limit(prior)))


def bound_amount(amount: Amount, uncertainty: Uncertainty, prior: FloatArray) -> Amount:
    """Intersect what is certified of an uncertainty with what the distribution of the secret alone says.

    sum_z P(z) certain_z <= f <= f before observing. An estimate moves to the nearer end where it lies outside. Raises
    InvariantError where nothing is left of the interval, up to rounding.
    """
    known = unknown_amount(uncertainty, prior)
    least, largest, rounding = known.lower, known.upper, _ROUNDING * max(1.0, uncertainty.scale)
    if not (amount.lower <= largest + rounding and amount.upper >= least - rounding and amount.upper >= amount.lower):
        interval, limits = f"[{amount.lower!r}, {amount.upper!r}]", f"{least:g} and {largest!r}, that before observing"
        raise InvariantError(f"the {uncertainty.title} came out as {interval}, but it lies between {limits}")
    lower, upper = (min(max(end, least), largest) for end in (amount.lower, amount.upper))
    if amount.method == "sampled":
        return Amount.estimate(amount.value, lower, upper, standard_error=amount.standard_error)
    return Amount.between(lower, upper) if amount.method == "interval" else Amount.exact(lower)


# Fano's inequality: 1e-12 in the guess error takes 1e-24 in the entropy where its slope is 0.
_DIGITS = 40
_MARGIN = Decimal("1e-7")  # more than doubles can be wrong by
_NEGLIGIBLE = Decimal("1e-17")
_STEPS = 60


def fano_bound(opacity: float, num_values: int) -> float:
    """Return the least guess error e that Fano's inequality allows: h(e) + e log2(num_values - 1) >= opacity.

    opacity: bits. num_values: how many values of the secret have positive probability.

    Tighter than the paper's (H - 1) / log2(num_values - 1), which follows from it, and valid for two values as well.
    The left side is flat at e = 1 - 1/num_values, where doubles lose half of their digits, so that the root is
    polished in decimals: the answer is within 1e-15 of it and never above.
    """
    if num_values < 2 or opacity <= 0.0:
        return 0.0
    rough = _rough_fano_root(opacity, num_values)
    with localcontext() as context:
        context.prec = _DIGITS
        nats = Decimal(opacity) * Decimal(2).ln()
        if nats >= Decimal(num_values).ln():
            return _round_down(1 - 1 / Decimal(num_values))
        return _round_down(_polished_fano_root(nats, num_values, Decimal(rough) * (1 - _MARGIN)))


def _rough_fano_root(opacity: float, num_values: int) -> float:
    """Return the root by bisection in doubles, good to about 1e-8 where the left side is flat. opacity: bits."""
    low, high = 0.0, 1.0 - 1.0 / num_values
    for _ in range(60):
        middle = 0.5 * (low + high)
        if entropy(np.array([middle, 1.0 - middle])) + middle * math.log2(num_values - 1) < opacity:
            low = middle
        else:
            high = middle
    return low


def _polished_fano_root(nats: Decimal, num_values: int, guess: Decimal) -> Decimal:
    """Return the root by Newton's method: the left side is concave, so that every step ends at or below the root.

    nats: the opacity in nats. guess: where to begin, below the root. Returns 0 where a step ends there or below.
    """
    spread = Decimal(num_values - 1).ln()
    for _ in range(_STEPS):
        if guess <= 0:
            return Decimal(0)
        log_wrong, log_right = guess.ln(), (1 - guess).ln()
        missing = nats + guess * log_wrong + (1 - guess) * log_right - guess * spread
        step = missing / (log_right - log_wrong + spread)
        guess += step
        if abs(step) < _NEGLIGIBLE:
            break
    return guess


def _round_down(value: Decimal) -> float:
    """Return the largest double that is not above the value."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Decimal(nearest) > value else nearest
