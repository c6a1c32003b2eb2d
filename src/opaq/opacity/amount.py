"""A number with how it was obtained, and the invariants that no answer may violate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from opaq.codec import as_text, flat, if_known
from opaq.errors import InvariantError
from opaq.model.arrays import FloatArray
from opaq.model.uncertainty import UNCERTAINTIES, Leaf, Uncertainty, value_of
from opaq.opacity.entropies import entropy

Method = Literal["exact", "interval", "sampled"]


@dataclass(frozen=True, slots=True)
class Amount:
    """A value with its certified interval; a sampled one also has a standard error (and lies within the interval).

    value: the number; the middle of an interval, or the estimate.
    lower: it is certainly no less.
    upper: it is certainly no more.
    method: "exact", "interval" or "sampled".
    standard_error: of an estimate; left out of others.
    """

    value: float
    lower: float
    upper: float
    method: Method
    standard_error: float | None = field(default=None, metadata=if_known())

    def __str__(self) -> str:
        if self.standard_error is not None:
            return f"{self.value:.6g} +- {self.standard_error:.2g}"
        return f"{self.value:.6g}" if self.method == "exact" else f"[{self.lower:.6g}, {self.upper:.6g}]"

    @property
    def width(self) -> float:
        """The width of the certified interval."""
        return self.upper - self.lower

    @property
    def at_least(self) -> float:
        """The value where it is exact or estimated, else the lower end of the interval: the most that is proven."""
        return self.lower if self.method == "interval" else self.value

    @property
    def at_most(self) -> float:
        """The value where it is exact or estimated, else the upper end of the interval."""
        return self.upper if self.method == "interval" else self.value

    def minus(self, other: Amount) -> Amount:
        """The difference: an interval if one of the two is one, estimated if one is, else exact."""
        lower, upper = self.lower - other.upper, self.upper - other.lower
        if "interval" in (self.method, other.method):
            return Amount.between(lower, upper)
        value, errors = self.value - other.value, (self.standard_error, other.standard_error)
        if errors == (None, None):
            return Amount.exact(value)
        return Amount(value, lower, upper, "sampled", math.hypot(*(error or 0.0 for error in errors)))

    @classmethod
    def exact(cls, value: float) -> Amount:
        """A number known up to rounding."""
        return cls(value, value, value, "exact")

    @classmethod
    def between(cls, lower: float, upper: float) -> Amount:
        """A number known to lie in an interval; its middle stands for it."""
        return cls(0.5 * (lower + upper), lower, upper, "interval") if upper > lower else cls.exact(lower)

    @classmethod
    def estimate(cls, value: float, lower: float, upper: float, *, standard_error: float | None) -> Amount:
        """An estimate beside what is certified; one that is not possible moves to the nearer end of the interval.

        Moving it biases estimates at the ends a little.
        """
        return cls(min(max(value, lower), upper), lower, upper, "sampled", standard_error)


@dataclass(frozen=True, slots=True)
class _ReadUncertainty:
    """An uncertainty that an answer names and opaq does not know: it has a name, and no numbers."""

    name: str
    unit = ""

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    def over(self, secret_values: Sequence[str]) -> Leaf:
        raise NotImplementedError(f"{self.name} was read from JSON, which holds its name alone")


@dataclass(frozen=True, slots=True)
class Target:
    """What a task is about: which uncertainty, and whether it is to be large or small.

    direction: "maximise" or "minimise".
    of: the uncertainty: "opacity", "guess_error", "guesswork", "expected_loss" or another one by its name.
    amount: what a policy reaches of it; left out where there are several policies.
    """

    direction: Literal["maximise", "minimise"]
    of: Uncertainty = field(
        metadata=as_text(lambda of: str(of.name), lambda name: UNCERTAINTIES.get(name) or _ReadUncertainty(name))
    )
    amount: Amount | None = field(default=None, metadata=flat())

    @classmethod
    def of_task(cls, of: Uncertainty, *, minimise: bool, amount: Amount | None = None) -> Target:
        """Return the target of a task: its uncertainty, its direction, and what a policy reaches."""
        return cls("minimise" if minimise else "maximise", of, amount)

    @property
    def minimise(self) -> bool:
        """Whether it is to be small."""
        return self.direction == "minimise"


_ROUNDING = 1e-9


def check_masses(kept: Any, settled: float, dropped: float, *, horizon: int) -> None:
    """The observation sequences kept, settled and dropped have probability 1 together."""
    total = float(np.sum(kept)) + settled + dropped
    if not abs(total - 1.0) <= _ROUNDING * (1.0 + 1e-3 * horizon):
        raise InvariantError(f"the probabilities of all observation sequences sum to {total!r}, not 1")


def bounded_opacity(opacity: Amount, prior: FloatArray) -> Amount:
    """The opacity within 0 .. H(Z)."""
    return _clip_amount(opacity, entropy(prior), what="opacity", limit="H(secret)")


def bounded_error(error: Amount, prior: FloatArray) -> Amount:
    """The guess error within 0 .. 1 - max P(z): guessing without looking does no worse."""
    return _clip_amount(error, max(0.0, 1.0 - float(prior.max())), what="guess error", limit="1 - max P(secret)")


def bounded_leaf(amount: Amount, leaf: Leaf, prior: FloatArray, *, what: str) -> Amount:
    """Any uncertainty between what is left when the secret is known and what there is before observing."""
    least, most = float(leaf.certain @ prior), value_of(leaf, prior)
    rounding = _ROUNDING * max(1.0, leaf.scale)
    return _clip_amount(
        amount, max(least, most), what=what, limit="that before observing", least=least, rounding=rounding
    )


def _clip_amount(
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
