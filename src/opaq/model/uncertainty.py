"""How uncertain the observer is of the secret: figures that are measured, maximised or minimised, and their leaves.

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
from typing import Any, Literal, Protocol

import numpy as np

from opaq.errors import Fault, InputError, is_number, shown
from opaq.model.arrays import FloatArray, IntArray, floats

Compiled = Literal["opacity", "guess_error", ""]


class Leaf(Protocol):
    """An uncertainty over the numbered values of one secret, ready for arithmetic."""

    @property
    def smooth(self) -> bool:
        """Whether it has no kinks; then `rows` must take complex masses too, as an analytic function."""

    @property
    def compiled(self) -> Compiled:
        """Which figure of the compiled kernels it equals, if any."""

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""

    @property
    def scale(self) -> float:
        """What counts as a large difference; solvers divide by it."""

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """f of every row of masses, and a supergradient of the same shape as the masses.

        masses, values: [row, column]; a row holds the masses of some secret values, those not named have none.
        Columns of mass 0 may stand for no value at all: what they do to the slope is not read.
        """

    def softened(self, softness: float) -> Leaf:
        """A smooth one near it, at most about `softness` per unit of mass away; itself where that is not needed."""


def value_of(leaf: Leaf, masses: FloatArray) -> float:
    """f of one vector of masses, one per secret value."""
    masses = np.asarray(masses, dtype=np.float64)
    amounts, _ = leaf.rows(masses[None, :], np.arange(masses.size)[None, :])
    return float(amounts[0])


def slope_of(leaf: Leaf, masses: FloatArray) -> FloatArray:
    """A supergradient of f at one vector of masses."""
    masses = np.asarray(masses, dtype=np.float64)
    _, slopes = leaf.rows(masses[None, :], np.arange(masses.size)[None, :])
    return np.asarray(slopes[0])


_LARGEST_PAIRWISE = 64  # rows longer than this are not softened pair by pair
_TINY = 1e-300  # stands for 0 under a division
_LEAST_SPAN = 1e-100  # losses that differ by less are equal: what is divided by their span would overflow


@dataclass(frozen=True, slots=True)
class SoftGuessErrorLeaf:
    """sum q - s log sum_z exp(q_z / s) over all values, with s = heat x sum q: smooth, below sum q - max q."""

    num_values: int
    heat: float

    smooth = True
    compiled: Compiled = ""
    scale = 1.0

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.full(self.num_values, -self.heat * math.log1p((self.num_values - 1) * math.exp(-1.0 / self.heat)))

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return 1.0 - 1.0 / max(self.num_values, 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        total = masses.sum(axis=1, keepdims=True)
        share = masses / np.where(total == 0.0, 1.0, total)
        top = np.real(share).max(axis=1, keepdims=True)
        weights = np.exp((share - top) / self.heat)
        unnamed = (self.num_values - masses.shape[1]) * np.exp(-top / self.heat)
        whole = weights.sum(axis=1, keepdims=True) + unnamed
        soft = top + self.heat * np.log(whole)
        chosen = weights / whole
        return (total * (1.0 - soft))[:, 0], 1.0 - chosen - (soft - (chosen * share).sum(axis=1, keepdims=True))

    def softened(self, softness: float) -> Leaf:
        """Itself: it is smooth enough."""
        return self


@dataclass(frozen=True, slots=True)
class SoftGuessworkLeaf:
    """sum q + sum over pairs of (q_i^-p + q_j^-p)^(-1/p), which is below min(q_i, q_j); long rows stay as they are.

    Guesswork is sum q + sum over pairs of min(q_i, q_j): a value is tried before those that are less likely.
    """

    num_values: int
    power: float

    smooth = False  # long rows have kinks
    compiled: Compiled = ""
    scale = 1.0

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.ones(self.num_values)

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return 0.5 * (self.num_values + 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        if masses.shape[1] > _LARGEST_PAIRWISE:
            return rank_masses(masses)
        low = np.minimum(masses[:, :, None], masses[:, None, :])
        high = np.maximum(masses[:, :, None], masses[:, None, :])
        ratio = np.where(high > 0.0, low / np.maximum(high, _TINY), 1.0)
        shrink = (1.0 + ratio**self.power) ** (-1.0 / self.power)
        others = ~np.eye(masses.shape[1], dtype=bool)
        is_low = masses[:, :, None] <= masses[:, None, :]
        by_mass = np.where(is_low, shrink, shrink * ratio) ** (self.power + 1.0)
        amounts = masses.sum(axis=1) + 0.5 * (low * shrink * others).sum(axis=(1, 2))
        return amounts, 1.0 + (by_mass * others).sum(axis=2)

    def softened(self, softness: float) -> Leaf:
        """Itself: it is smooth enough."""
        return self


def rank_masses(masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """sum of rank x mass and the ranks, row by row, the largest mass first; equal masses share their ranks."""
    ranks = 0.5 * (_ranks(masses) + _ranks(masses[:, ::-1])[:, ::-1])  # a mean over ties is a supergradient as well
    return np.asarray((masses * ranks).sum(axis=1)), ranks


def _ranks(masses: FloatArray) -> FloatArray:
    """The rank of every column in its row, largest first, the first of equal ones before the others."""
    order = np.argsort(-masses, axis=1, kind="stable")
    ranks = np.empty(masses.shape)
    np.put_along_axis(ranks, order, np.arange(1.0, masses.shape[1] + 1.0)[None, :], axis=1)
    return ranks


def span_of_losses(table: FloatArray) -> float:
    """The span of the losses in a table; 1 where they are equal."""
    span = float(np.ptp(table))
    return span if span > _LEAST_SPAN else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class SoftLossLeaf:
    """-s log sum_g exp(-loss of g / s) with s = heat x sum q: below `LossLeaf`, concave, smooth."""

    table: FloatArray  # [guess, value]
    heat: float

    smooth = True
    compiled: Compiled = ""

    @property
    def scale(self) -> float:
        """The span of the losses."""
        return span_of_losses(self.table)

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        least = self.table.min(axis=0)
        return np.asarray(least - self.heat * np.log(np.exp((least - self.table) / self.heat).sum(axis=0)))

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return float(self.table.max(axis=1).min())

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        losses = self.table[:, values]
        total = masses.sum(axis=1, keepdims=True)
        expected = np.einsum("grc,rc->rg", losses, masses) / np.where(total == 0.0, 1.0, total)
        least = np.real(expected).min(axis=1, keepdims=True)
        weights = np.exp((least - expected) / self.heat)
        whole = weights.sum(axis=1, keepdims=True)
        soft = least - self.heat * np.log(whole)
        chosen = weights / whole
        slopes = np.einsum("rg,grc->rc", chosen, losses) + soft - (chosen * expected).sum(axis=1, keepdims=True)
        return (total * soft)[:, 0], slopes

    def softened(self, softness: float) -> Leaf:
        """Itself: it is smooth enough."""
        return self


_TIE = 1e-12  # shares of the mass that differ by less are equal


@dataclass(frozen=True, slots=True)
class EntropyLeaf:
    """-sum_z q_z log2(q_z / sum q), with the slope -log2(q_z / sum q); 0 where there is no mass."""

    num_values: int

    smooth = True
    compiled: Compiled = "opacity"
    scale = 1.0

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.zeros(self.num_values)

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return math.log2(max(self.num_values, 1))

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        total = masses.sum(axis=1, keepdims=True)
        positive = np.real(masses) > 0.0
        share = np.where(positive, masses, 1.0) / np.where(positive, total, 1.0)
        surprise = -np.log(share) / math.log(2.0)
        return (masses * surprise).sum(axis=1), surprise

    def softened(self, softness: float) -> Leaf:
        """Itself: it is smooth enough."""
        return self


@dataclass(frozen=True, slots=True)
class GuessErrorLeaf:
    """sum q - max q."""

    num_values: int

    smooth = False
    compiled: Compiled = "guess_error"
    scale = 1.0

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.zeros(self.num_values)

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return 1.0 - 1.0 / max(self.num_values, 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        total = masses.sum(axis=1, keepdims=True)
        largest = masses.max(axis=1, keepdims=True)
        ties = masses >= largest - _TIE * total
        return (total - largest)[:, 0], 1.0 - ties / ties.sum(axis=1, keepdims=True)

    def softened(self, softness: float) -> Leaf:
        """A smooth one near it."""
        return SoftGuessErrorLeaf(self.num_values, softness / math.log(max(self.num_values, 2)))


@dataclass(frozen=True, slots=True)
class GuessworkLeaf:
    """sum_z rank(z) q_z, the largest mass having rank 1; equal masses share their ranks."""

    num_values: int

    smooth = False
    compiled: Compiled = ""
    scale = 1.0

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.ones(self.num_values)

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return 0.5 * (self.num_values + 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        return rank_masses(masses)

    def softened(self, softness: float) -> Leaf:
        """A smooth one near it."""
        return SoftGuessworkLeaf(self.num_values, math.log(2.0) / softness)


@dataclass(frozen=True, slots=True, eq=False)
class LossLeaf:
    """min over guesses g of sum_z loss[g, z] q_z."""

    table: FloatArray  # [guess, value]

    smooth = False
    compiled: Compiled = ""

    @property
    def scale(self) -> float:
        """The span of the losses."""
        return span_of_losses(self.table)

    @property
    def certain(self) -> FloatArray:
        """[value]: f per unit of mass where the secret is known to have this value."""
        return np.asarray(self.table.min(axis=0))

    @property
    def highest(self) -> float:
        """What f per unit of mass never exceeds."""
        return float(self.table.max(axis=1).min())

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Values and supergradients, row by row."""
        losses = self.table[:, values]  # [guess, row, column]
        expected = np.einsum("grc,rc->rg", losses, masses)
        least = expected.min(axis=1, keepdims=True)
        ties = expected <= least + _TIE * self.scale * masses.sum(axis=1, keepdims=True)
        weights = ties / ties.sum(axis=1, keepdims=True)
        return least[:, 0], np.einsum("rg,grc->rc", weights, losses)

    def softened(self, softness: float) -> Leaf:
        """A smooth one near it."""
        return SoftLossLeaf(self.table, softness * self.scale / math.log(max(len(self.table), 2)))


class Uncertainty(Protocol):
    """What a task is about: plain data with a name, an explanation and a way to numbers."""

    @property
    def name(self) -> str:
        """As in `of:` of a problem file, and of `objective` in answers."""

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
