"""How uncertain the observer stays at the end of a history tree, as a concave function of the cells' joint weights.

An uncertainty f is concave and positively homogeneous, so f(q) = min over valid costs g of sum_z g(z) q(z): a cost
vector is what a fixed way of guessing pays for each secret value. Any valid g gives a linear upper bound, on which the
proofs rest.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from opaq.certificates.history_sequences import Sequences
from opaq.model.arrays import FloatArray


class LeafUncertainty(Protocol):
    """What the history program needs to know of an uncertainty."""

    name: ClassVar[str]

    def value(self, sequences: Sequences, cells: FloatArray) -> float:
        """The sum over sequences of f(q_y)."""

    def posterior_costs(self, sequences: Sequences, cells: FloatArray, *, mixed: float) -> FloatArray:
        """[cell]: valid costs that are tight at these weights, but for a share `mixed` of guessing blindly."""

    def nearest_costs(self, sequences: Sequences, slopes: FloatArray) -> FloatArray:
        """[cell]: valid costs near given slopes of f (a solver's multipliers)."""

    def expression(self, sequences: Sequences, cells: Any, scale: FloatArray) -> tuple[Any, list[Any]]:
        """The value as a concave cvxpy expression of the cells' weights, and constraints that belong to it.

        scale: [sequence]: the unit in which its cells are given.
        """


class Shannon:
    """H(Z | Y) in bits; the costs are -log2 r(z | y) for any decoder r."""

    name: ClassVar[str] = "shannon"

    def value(self, sequences: Sequences, cells: FloatArray) -> float:
        """- sum of q log2 (q / sum of q), 0 log 0 = 0."""
        totals = sequences.totals(cells)[sequences.sequence]
        shares = np.maximum(cells, 0.0) / np.where(totals > 0, totals, 1.0)
        some = shares > 0  # a share that is 0 in floating point adds less than 1e-300 bits
        return float(0.0 - (cells[some] * np.log2(shares[some])).sum())

    def posterior_costs(self, sequences: Sequences, cells: FloatArray, *, mixed: float) -> FloatArray:
        """The decoder is the posterior of the weights."""
        return _bits(sequences, _mixed(sequences, _shares(sequences, np.maximum(cells, 0.0)), mixed))

    def nearest_costs(self, sequences: Sequences, slopes: FloatArray) -> FloatArray:
        """The decoder 2^-slope, normalised."""
        weights = np.exp2(-np.clip(slopes, -100.0, 100.0))
        return _bits(sequences, _mixed(sequences, _shares(sequences, weights), 1e-12))

    def expression(self, sequences: Sequences, cells: Any, scale: FloatArray) -> tuple[Any, list[Any]]:
        """A sum of relative entropies: one exponential cone per cell."""
        import cvxpy

        weights = scale[sequences.sequence] / np.log(2.0)
        gather = _gather(sequences)
        return -(weights @ cvxpy.rel_entr(cells, (gather @ gather.T) @ cells)), []


class GuessError:
    """The probability that the observer's best guess is wrong; costs are 1 - r(z | y) for any random guess r."""

    name: ClassVar[str] = "guess_error"

    def value(self, sequences: Sequences, cells: FloatArray) -> float:
        """The sum over sequences of (sum of q) - (max of q)."""
        largest = np.zeros(sequences.num_sequences)
        np.maximum.at(largest, sequences.sequence, cells)
        return float(cells.sum() - largest.sum())

    def posterior_costs(self, sequences: Sequences, cells: FloatArray, *, mixed: float) -> FloatArray:
        """The guess of the largest weight, ties shared."""
        largest = np.zeros(sequences.num_sequences)
        np.maximum.at(largest, sequences.sequence, cells)
        top = (cells >= (1.0 - 1e-6) * largest[sequences.sequence]).astype(np.float64)
        return 1.0 - _mixed(sequences, _shares(sequences, top), mixed)

    def nearest_costs(self, sequences: Sequences, slopes: FloatArray) -> FloatArray:
        """The guess 1 - slope, normalised."""
        return 1.0 - _shares(sequences, np.clip(1.0 - slopes, 0.0, 1.0))

    def expression(self, sequences: Sequences, cells: Any, scale: FloatArray) -> tuple[Any, list[Any]]:
        """Linear, with a variable per sequence above all its cells."""
        import cvxpy

        gather = _gather(sequences)
        largest = cvxpy.Variable(sequences.num_sequences)
        return scale @ (gather.T @ cells) - scale @ largest, [gather @ largest >= cells]


UNCERTAINTIES: dict[str, LeafUncertainty] = {one.name: one for one in (Shannon(), GuessError())}


def _gather(sequences: Sequences) -> Any:
    """Sparse [cell, sequence]: 1 where the cell belongs to the sequence."""
    from scipy.sparse import csr_array

    count = sequences.sequence.size
    place = (np.arange(count), sequences.sequence)
    return csr_array((np.ones(count), place), shape=(count, sequences.num_sequences))


def _shares(sequences: Sequences, weights: FloatArray) -> FloatArray:
    """Normalised within every sequence; even where all weights are 0."""
    counts = np.bincount(sequences.sequence, minlength=sequences.num_sequences)[sequences.sequence]
    totals = sequences.totals(weights)[sequences.sequence]
    return np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / np.maximum(counts, 1))


def _mixed(sequences: Sequences, shares: FloatArray, mixed: float) -> FloatArray:
    """With a share of the uniform distribution over the values that can occur."""
    counts = np.bincount(sequences.sequence, minlength=sequences.num_sequences)[sequences.sequence]
    return (1.0 - mixed) * shares + mixed / np.maximum(counts, 1)


def _bits(sequences: Sequences, decoder: FloatArray) -> FloatArray:
    """-log2 r; r is made a little smaller so that rounding cannot make it more than a distribution."""
    excess = np.maximum(sequences.totals(decoder), 1.0)[sequences.sequence] * (1.0 + 1e-15)
    return -np.log2(decoder / excess)
