"""Smooth stand-ins for uncertainties with kinks: concave, positively homogeneous, slightly below the real ones.

Solvers climb them while they are far from an optimum; policies are judged by the real ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.model.arrays import FloatArray, IntArray
from opaq.model.leaf import Compiled, Leaf

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
            return ranked(masses)
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


def ranked(masses: FloatArray) -> tuple[FloatArray, FloatArray]:
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
