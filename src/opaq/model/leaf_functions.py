"""The uncertainties that come with opaq, over numbered secret values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.leaf import Compiled, Leaf
from opaq.model.softened_leaves import SoftGuessErrorLeaf, SoftGuessworkLeaf, SoftLossLeaf, ranked, span_of_losses

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
        return ranked(masses)

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
