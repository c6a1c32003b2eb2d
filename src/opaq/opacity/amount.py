"""A number and how it was obtained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Method = Literal["exact", "interval", "sampled"]


@dataclass(frozen=True, slots=True)
class Amount:
    """A value with its certified interval; a sampled one also has a standard error (and lies within the interval)."""

    value: float
    lower: float
    upper: float
    method: Method
    standard_error: float | None = None

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
