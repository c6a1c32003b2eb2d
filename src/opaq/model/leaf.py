"""What the belief graph asks of an uncertainty: values, slopes and bounds over numbered secret values."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from opaq.model.arrays import FloatArray, IntArray

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
