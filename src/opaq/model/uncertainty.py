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

from opaq.choices import is_number, shown
from opaq.errors import Fault, InputError
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

    def __post_init__(self) -> None:
        try:
            rows = [(guess, [(value, loss) for value, loss in row]) for guess, row in self.losses]
        except (TypeError, ValueError):
            raise InputError([Fault("loss", f"is {shown(self.losses)}", "ExpectedLoss.of makes it")]) from None
        named = all(isinstance(name, str) for guess, row in rows for name in (guess, *dict(row)))
        if not rows or not named or not all(_is_loss(loss) for _, row in rows for _, loss in row):
            raise InputError([Fault("loss", "is unusable", "give at least one guess, and finite losses")])
        losses = tuple((guess, tuple((value, float(loss)) for value, loss in row)) for guess, row in rows)
        object.__setattr__(self, "losses", losses)

    @classmethod
    def of(cls, losses: Mapping[str, Mapping[str, float]]) -> ExpectedLoss:
        """From {guess: {secret value: loss}}. Raises InputError without a guess or where a loss is not finite."""
        if not isinstance(losses, Mapping) or not all(isinstance(row, Mapping) for row in losses.values()):
            raise InputError([Fault("loss", f"is {shown(losses)}", "give {guess: {secret value: number}}")])
        return cls(tuple((guess, tuple(row.items())) for guess, row in losses.items()))

    def over(self, secret_values: Sequence[str]) -> Leaf:
        """With the losses as a table [guess, secret value]."""
        rows = [dict(row) for _, row in self.losses]
        return LossLeaf(floats([[row.get(value, 0.0) for value in secret_values] for row in rows]))


def _is_loss(loss: object) -> bool:
    return is_number(loss) and math.isfinite(loss)  # type: ignore[arg-type]


UNCERTAINTIES: dict[str, Uncertainty] = {each.name: each for each in (Shannon(), GuessError(), Guesswork())}
