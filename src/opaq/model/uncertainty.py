"""How uncertain the observer is of the secret: the figure that is measured, maximised or minimised.

An uncertainty is a function f of q, the unnormalised probabilities q_z = P(z, y) of the secret's values after one
observation sequence y. It is concave and positively homogeneous, f(c q) = c f(q), so that its sum over all sequences
is the uncertainty that is expected, observations never raise it, and the belief graph gives its value and slope.

To add one: a class here with the attributes and the method of `Uncertainty`, whose `over` returns a `Leaf`, and its
line in UNCERTAINTIES. A task takes any such object as well, registered or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opaq.model.arrays import floats
from opaq.model.leaf import Leaf
from opaq.model.leaf_functions import EntropyLeaf, GuessErrorLeaf, GuessworkLeaf, LossLeaf


class Uncertainty(Protocol):
    """What a task is about: plain data with a name, an explanation and a way to numbers."""

    @property
    def name(self) -> str:
        """As in `of:` of a problem file, and the key of its value in answers."""

    @property
    def title(self) -> str:
        """In words, as in "the largest ... found"."""

    @property
    def unit(self) -> str:
        """Its unit, empty if it has none."""

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """For a secret with these values, in this order."""


@dataclass(frozen=True, slots=True)
class Shannon:
    """Opacity, H(secret | observations): the mean number of yes-or-no questions that remain."""

    name = "opacity"
    title = "opacity"
    unit = "bits"

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """Entropy over as many values."""
        return EntropyLeaf(len(secret_values))


@dataclass(frozen=True, slots=True)
class GuessError:
    """The probability that the best single guess of the secret is wrong (Bayes risk)."""

    name = "guess_error"
    title = "guess error"
    unit = ""

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """1 - max over as many values."""
        return GuessErrorLeaf(len(secret_values))


@dataclass(frozen=True, slots=True)
class Guesswork:
    """The mean number of guesses until one is right, the likeliest value first."""

    name = "guesswork"
    title = "guesswork"
    unit = "guesses"

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """sum of rank x probability over as many values."""
        return GuessworkLeaf(len(secret_values))


@dataclass(frozen=True, slots=True)
class ExpectedLoss:
    """The expected loss of the observer's best guess (g-leakage): min over guesses of the mean of loss(guess, secret).

    losses: every guess with the losses it has for secret values; values that are not named cost nothing.
    """

    losses: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]

    name = "expected_loss"
    title = "expected loss"
    unit = ""

    @classmethod
    def of(cls, losses: Mapping[str, Mapping[str, float]]) -> ExpectedLoss:
        """From {guess: {secret value: loss}}. Raises ValueError without a guess or where a loss is not finite."""
        if not losses or not all(math.isfinite(loss) for row in losses.values() for loss in row.values()):
            raise ValueError("expected loss: give at least one guess, and finite losses")
        return cls(
            tuple((guess, tuple((name, float(loss)) for name, loss in row.items())) for guess, row in losses.items())
        )

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """With the losses as a table [guess, secret value]."""
        rows = [dict(row) for _, row in self.losses]
        return LossLeaf(floats([[row.get(value, 0.0) for value in secret_values] for row in rows]))


UNCERTAINTIES: dict[str, Uncertainty] = {each.name: each for each in (Shannon(), GuessError(), Guesswork())}
