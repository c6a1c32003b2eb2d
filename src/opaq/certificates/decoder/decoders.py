"""Decoders: the cost per secret value at a node of the observation machine, for every uncertainty.

Every uncertainty f that is concave and positively homogeneous has costs c with f(q) <= sum over z of c_z q_z for all
masses q >= 0; the bound holds for all such costs, whatever masses they were computed from. They are computed from the
masses q0 of the current policy, where f is smoothed so that they change little when q0 does:
- entropy: c_z = -log2 r_z for a distribution r (Gibbs' inequality; r is the posterior mixed with a little uniform);
- expected loss of a guess: c_z = sum over guesses g of r_g loss(g, z) for a distribution r over guesses;
- guesswork: c_z = 1 + sum over other values y of s(y, z) where s(y, z) + s(z, y) = 1, because the number of guesses is
  sum_z q_z + sum over pairs of min(q_y, q_z).
Costs are rounded up by more than their rounding errors (`_UNIT` is the unit roundoff).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple, Protocol

import numpy as np

from opaq.errors import Fault, InputError
from opaq.kernel_cache import njit
from opaq.model import uncertainty as kinds
from opaq.model.arrays import BoolArray, FloatArray, IntArray

_UNIT = 2.0**-53
_TINY = 1e-290  # masses below are nothing


@dataclass(frozen=True, slots=True, eq=False)
class DecoderCells:
    """(node, secret value) pairs of the last layer that can occur."""

    start: IntArray  # [node + 1]
    node: IntArray  # [cell]
    secret: IntArray  # [cell]
    settled: BoolArray  # [cell]: whether the secret is settled at its node, each value for itself
    num_secrets: int

    def totals(self, masses: FloatArray) -> FloatArray:
        """[node]: the mass of all its cells."""
        return np.asarray(np.add.reduceat(masses, self.start[:-1]))

    @property
    def counts(self) -> IntArray:
        """[node]: how many secret values can occur."""
        return np.diff(self.start)


class Decoder(Protocol):
    """One uncertainty: what it is worth, and valid costs near some masses."""

    @property
    def name(self) -> str:
        """Of the uncertainty."""

    def value(self, masses: FloatArray, cells: DecoderCells) -> float:
        """f of all nodes together; no bound depends on it."""

    def costs(self, masses: FloatArray, cells: DecoderCells, rounds: int) -> FloatArray:
        """[cell]: valid costs, the closer to those at the masses the more rounds there were."""

    def step(self, rounds: int) -> float:
        """A step of the mirror ascent that is safe for the smoothed f: 1 / its smoothness relative to entropy."""

    def certain(self, num_secrets: int) -> FloatArray:
        """[secret value]: f of one unit of mass on the value alone."""

    def most(self, num_secrets: int) -> float:
        """f of one unit of mass on so many values, at most."""


@dataclass(frozen=True, slots=True)
class EntropyDecoder:
    """H(Z | M) in bits."""

    name: str = "entropy"

    def value(self, masses: FloatArray, cells: DecoderCells) -> float:
        """Sum over nodes of q log2(total / q)."""
        share = masses / np.maximum(cells.totals(masses)[cells.node], _TINY)
        surprise = -np.log2(np.where(masses > _TINY, share, 1.0))
        return float(np.sum(np.where(cells.settled, 0.0, masses * surprise)))

    def costs(self, masses: FloatArray, cells: DecoderCells, rounds: int) -> FloatArray:
        """-log2 of the posterior, mixed with the uniform distribution: the more, the less mass the node has."""
        count, late = cells.counts[cells.node], 1.0 / (1.0 + rounds) ** 2
        mass = min(1.0, 2000.0 * late) / max(cells.start.size - 1, 1)
        mixed = min(0.03, 30.0 * late)
        posterior = (masses + mass / count) / (cells.totals(masses)[cells.node] + mass)
        share = (1.0 - mixed) * posterior + mixed / count
        bits = -np.log2(share / cells.totals(share)[cells.node])
        padded = np.abs(bits) + _UNIT * (8.0 * np.abs(bits) + 4.0 * (count + 8))
        return np.where(cells.settled | (count == 1), 0.0, padded)

    def step(self, rounds: int) -> float:
        """Conditional entropy in nats is 1-smooth relative to the entropy of runs."""
        return math.log(2.0)

    def certain(self, num_secrets: int) -> FloatArray:
        """Nothing is open."""
        return np.zeros(num_secrets)

    def most(self, num_secrets: int) -> float:
        """Of the uniform distribution."""
        return math.log2(num_secrets) * (1.0 + 4.0 * _UNIT)


@dataclass(frozen=True, slots=True, eq=False)
class LossDecoder:
    """The least expected loss of a guess; the loss of every (guess, secret value) is at least 0."""

    loss: FloatArray  # [guess, secret value]
    name: str = "expected loss"

    def value(self, masses: FloatArray, cells: DecoderCells) -> float:
        """Sum over nodes of the best guess's loss."""
        open_losses = self._losses(np.where(cells.settled, 0.0, masses), cells).min(axis=1).sum()
        return float(open_losses + np.sum(np.where(cells.settled, masses * self.certain(0)[cells.secret], 0.0)))

    def costs(self, masses: FloatArray, cells: DecoderCells, rounds: int) -> FloatArray:
        """Guesses drawn with weights exp(-sharpness x expected loss)."""
        losses = self._losses(masses, cells) / np.maximum(cells.totals(masses), _TINY)[:, None]
        weights = np.exp(-_sharpness(rounds) / self._scale() * (losses - losses.min(axis=1, keepdims=True)))
        mixed = weights / weights.sum(axis=1, keepdims=True) @ self.loss
        padded = mixed[cells.node, cells.secret] + 8.0 * _UNIT * (sum(self.loss.shape) + 8) * self._scale()
        return np.where(cells.settled, self.certain(0)[cells.secret], padded)

    def step(self, rounds: int) -> float:
        """The smoothed loss is (sharpness x range)-smooth."""
        return 1.0 / (_sharpness(rounds) * self._scale())

    def certain(self, num_secrets: int) -> FloatArray:
        """The best guess when the value is known."""
        return np.asarray(self.loss.min(axis=0))

    def most(self, num_secrets: int) -> float:
        """No guess does worse than the one whose largest loss is least, nor than a guess at random."""
        random = float(self.loss.mean(axis=0).max()) * (1.0 + 4.0 * _UNIT * (self.loss.shape[0] + 4))
        return float(min(self.loss.max(axis=1).min(), random))

    def _losses(self, masses: FloatArray, cells: DecoderCells) -> FloatArray:
        """[node, guess]."""
        from scipy.sparse import csr_array

        shape = (cells.start.size - 1, self.loss.shape[1])
        return np.asarray(csr_array((masses, cells.secret, cells.start), shape=shape) @ self.loss.T)

    def _scale(self) -> float:
        return max(float(self.loss.max(initial=0.0)), _TINY)


def guess_error_decoder(num_secrets: int) -> LossDecoder:
    """The probability that the observer's best guess is wrong."""
    return LossDecoder(1.0 - np.eye(num_secrets), "guess error")


@dataclass(frozen=True, slots=True)
class GuessworkDecoder:
    """The expected number of guesses, in the best order."""

    name: str = "guesswork"

    def value(self, masses: FloatArray, cells: DecoderCells) -> float:
        """Sum over nodes of rank x mass."""
        order = np.lexsort((-masses, cells.node))
        rank = np.arange(masses.size) - cells.start[cells.node[order]] + 1
        ranks = np.where(cells.settled[order], 1, rank)
        return float(np.sum(ranks * masses[order]))

    def costs(self, masses: FloatArray, cells: DecoderCells, rounds: int) -> FloatArray:
        """Expected ranks, where every pair of values is put in order at random, most often in the better one."""
        share = masses / np.maximum(cells.totals(masses)[cells.node], _TINY)
        ranks = _soft_ranks(share, cells.start, _sharpness(rounds))
        padded = ranks * (1.0 + 8.0 * _UNIT * (cells.counts[cells.node] + 8))
        return np.where(cells.settled, 1.0, padded)

    def step(self, rounds: int) -> float:
        """Smoothed ranks are (sharpness)-smooth for every pair of values."""
        return 1.0 / (2.0 * _sharpness(rounds))

    def certain(self, num_secrets: int) -> FloatArray:
        """One guess."""
        return np.ones(num_secrets)

    def most(self, num_secrets: int) -> float:
        """Of the uniform distribution."""
        return 0.5 * (num_secrets + 1)


def _sharpness(rounds: int) -> float:
    """How closely guesses follow the best one: smoothing costs about 1 / sharpness."""
    return 4.0 + 0.5 * rounds


@njit(cache=True)
def _soft_ranks(share, start, sharpness):
    """[cell]: 1 + the chance of each other value of its node to be guessed earlier."""
    ranks = np.ones(share.size)
    for node in range(start.size - 1):
        for one in range(start[node], start[node + 1]):
            for other in range(one + 1, start[node + 1]):
                first = 1.0 / (1.0 + math.exp(-sharpness * (share[other] - share[one])))
                ranks[one] += first  # the other one is guessed earlier
                ranks[other] += 1.0 - first
    return ranks


class Shifted(NamedTuple):
    """A decoder, and what its figures exceed the uncertainty by: decoders need losses that are not negative."""

    decoder: Decoder
    shift: float = 0.0


@singledispatch
def decoder_of(uncertainty: object, secret_values: Sequence[str]) -> Shifted:
    """The decoder of an uncertainty; InputError for one that has none. Register a function for a kind of your own."""
    title = getattr(uncertainty, "title", type(uncertainty).__name__)
    finding = f"no certificate is known for the {title}"
    raise InputError([Fault("task.of", finding, "register a decoder for it, or certify another uncertainty")])


def has_certificate(uncertainty: object) -> bool:
    """Whether there is a decoder for an uncertainty."""
    return decoder_of.dispatch(type(uncertainty)) is not decoder_of.dispatch(object)


@decoder_of.register
def _(uncertainty: kinds.Shannon, secret_values: Sequence[str]) -> Shifted:
    return Shifted(EntropyDecoder())


@decoder_of.register
def _(uncertainty: kinds.GuessError, secret_values: Sequence[str]) -> Shifted:
    return Shifted(guess_error_decoder(len(secret_values)))


@decoder_of.register
def _(uncertainty: kinds.Guesswork, secret_values: Sequence[str]) -> Shifted:
    return Shifted(GuessworkDecoder())


@decoder_of.register
def _(uncertainty: kinds.ExpectedLoss, secret_values: Sequence[str]) -> Shifted:
    rows = [dict(row) for _, row in uncertainty.losses]
    losses = np.array([[row.get(value, 0.0) for value in secret_values] for row in rows])
    shift = max(0.0, -float(losses.min()))
    return Shifted(LossDecoder(losses + shift), shift)
