"""Uncertainties about the secret: what is measured, maximised or minimised, and certified.

An uncertainty is a function f of q, the unnormalised probabilities q_z = P(z, y) of the secret's values after one
observation sequence y. It must be concave and positively homogeneous, f(c q) = c f(q). Three things follow, and all of
opaq rests on them:

- the sum of f over all sequences is the expected uncertainty, and observations never raise it;
- a supergradient c of f at any masses satisfies f(q) = c . q there and f(q) <= c . q everywhere, so that one sweep back
  over the belief graph gives the slope of the sum by the policy;
- any such c are *costs* of a decoder: no policy exceeds the largest expected cost, which dynamic programming finds.
  That is the whole argument of every certificate.

To add one: a class here (or anywhere) that derives from `Uncertainty` and gives `rows`, f and its supergradient, and
its line in UNCERTAINTIES. All else has defaults: such a class can be measured, solved for and certified at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from opaq.errors import Fault, InputError, describe_value, is_number
from opaq.model.arrays import BoolArray, FloatArray, IntArray, distinct, floats

Compiled = Literal["opacity", "guess_error", ""]

_UNIT = 2.0**-53  # the unit roundoff
_NO_MASS = 1e-290  # totals of masses below are nothing
_TIE = 1e-12  # shares of the mass that differ by less are equal
_NEAR_TIE = 1e-6  # a decoder's guesses whose masses differ by a smaller share are equally good
_ENTRIES_PER_BLOCK = 1 << 18  # bounds the memory of one evaluation


# -- masses in groups -------------------------------------------------------------------------------------------------


class _Block(NamedTuple):
    """Rows of about the same length, side by side."""

    owner: IntArray  # [row]
    entry: IntArray  # [row, column]; one beyond the last entry where the row is shorter
    value: IntArray  # [row, column]; 0 where the row is shorter


@dataclass(frozen=True, slots=True, eq=False)
class MassRows:
    """Entries (one mass per secret value) in rows, one per observation sequence; every row belongs to an owner.

    Rows are padded with entries of no mass to the next power of two, so that numpy works on few blocks.
    """

    blocks: tuple[_Block, ...]
    num_owners: int
    num_entries: int

    @classmethod
    def of(cls, starts: IntArray, values: IntArray, keys: IntArray | None = None) -> MassRows:
        """Group entries into rows.

        starts: [owner + 1]; owner n has the entries starts[n] .. starts[n + 1] - 1.
        values: [entry] its secret value.
        keys: [entry]; those of one owner with the same key form one row. All of an owner do unless given.
        """
        owner = np.repeat(np.arange(starts.size - 1), starts[1:] - starts[:-1])
        keys = np.zeros(values.size, dtype=np.int64) if keys is None else keys
        order = np.lexsort((keys, owner))
        sorted_owner, sorted_key = owner[order], keys[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(sorted_owner) != 0) | (np.diff(sorted_key) != 0)
        first = np.flatnonzero(new)
        lengths = np.diff(np.append(first, order.size))
        widths = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
        blocks = []
        for width in distinct(widths):
            chosen = np.flatnonzero(widths == width)
            for part in np.array_split(chosen, -(-chosen.size * int(width) // _ENTRIES_PER_BLOCK)):
                columns = np.arange(width)[None, :]
                inside = columns < lengths[part][:, None]
                index = np.where(inside, first[part][:, None] + columns, 0)
                entry = np.where(inside, order[index], order.size)
                value = np.where(inside, values[order[index]], 0)
                blocks.append(_Block(sorted_owner[first[part]], entry, value))
        return cls(tuple(blocks), int(starts.size - 1), int(order.size))

    def evaluate(self, uncertainty: Uncertainty, masses: Any) -> tuple[FloatArray, Any]:
        """Return [owner] the excess of an uncertainty, summed over the owner's rows, and [entry] its supergradient.

            excess(q) = f(q) - sum_z certain_z q_z.

        masses: [entry], complex where the derivative along a direction rides in the imaginary part.
        """
        padded = np.append(masses, 0.0)
        slopes = np.zeros(padded.size, padded.dtype)
        amounts = np.zeros(self.num_owners)
        for block in self.blocks:
            excess, slope = uncertainty.excess(padded[block.entry], block.value)
            slopes[block.entry] = slope
            amounts += np.bincount(block.owner, weights=np.real(excess), minlength=self.num_owners)
        return amounts, slopes[:-1]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Pairs of a group and a secret value that can occur with it, group by group: what a decoder has costs for.

    A group is all that a decoder can tell apart: a node of an observation machine, or the observation sequences that
    the history program has merged.
    """

    start: IntArray  # [group + 1]; no group is empty
    group: IntArray  # [cell]
    secret: IntArray  # [cell]
    settled: BoolArray  # [cell]: the secret is known in its group, whatever the cells say
    rows: MassRows

    @classmethod
    def of(cls, start: IntArray, secret: IntArray, settled: BoolArray | None = None) -> Cells:
        """Describe the cells of groups.

        start: [group + 1]. secret: [cell]. settled: [group], False unless given.
        """
        group = np.repeat(np.arange(start.size - 1), np.diff(start))
        known = np.zeros(secret.size, dtype=np.bool_) if settled is None else settled[group]
        return cls(start, group, secret, known, MassRows.of(start, secret))

    @property
    def num_groups(self) -> int:
        """Return the number of groups."""
        return int(self.start.size - 1)

    @property
    def counts(self) -> IntArray:
        """Return [cell]: how many secret values can occur in its group."""
        return np.diff(self.start)[self.group]

    def totals(self, masses: FloatArray) -> FloatArray:
        """Return [cell]: the mass of its whole group. masses: [cell]."""
        return np.asarray(np.add.reduceat(masses, self.start[:-1])[self.group])

    def largest(self, masses: FloatArray) -> FloatArray:
        """Return [cell]: the largest mass in its group. masses: [cell]."""
        return np.asarray(np.maximum.reduceat(masses, self.start[:-1])[self.group])

    def normalise(self, weights: FloatArray) -> FloatArray:
        """Return [cell]: the weights [cell] divided by their group's total; even where that is 0."""
        totals = self.totals(weights)
        return np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / self.counts)


class Smoothing(NamedTuple):
    """How a decoder differs from the best one for given masses.

    The best decoder jumps, or has infinite costs, where masses come to 0 or to a tie; a search over policies needs
    costs that change little when the masses do. Costs are valid whatever these numbers are.
    """

    uniform: float = 0.0  # the share of a decoder that knows the group's values, but not their masses
    floor: float = 0.0  # mass added to every group, spread evenly over its values
    softness: float = 0.0  # guesses whose expected losses differ by much less (in units of the scale) are drawn alike


@dataclass(frozen=True, slots=True, eq=False)
class ConeForm:
    """The sum of f over all groups as the maximum of a cone program; it needs no constants, f being homogeneous.

        total(q) = max objective . x   over x = (q, auxiliary variables)   subject to   rows x in the cones.

    The last rows are triples (a, b, c) in exponential cones, b exp(a / b) <= c; all rows before are at least 0.
    """

    objective: FloatArray  # [variable]: the masses q [cell] first, then the auxiliary variables
    rows: Any  # sparse [row, variable]
    num_exponential: int = 0  # cones, three rows each


# -- the base ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uncertainty(ABC):
    """An uncertainty: its name, its value and slope, and the costs that make a bound.

    A subclass names itself and defines `rows`; one with data of its own is a frozen dataclass, without slots. As stated
    in a task it is not about any secret yet: `over` gives a copy over the values of one secret, which all arithmetic
    needs. What such a copy knows beyond the fields (the values, how it is softened) is no part of what was stated, and
    takes no part in comparisons and fingerprints.
    """

    secret_values: ClassVar[tuple[str, ...]] = ()  # a copy's own are set by `over`

    name: ClassVar[str]  # as in `of:` of a problem file, and the key of its value in answers
    title: ClassVar[str]  # in words, as in "the largest ... found"
    unit: ClassVar[str] = ""  # empty if it has none

    def over(self, secret_values: Sequence[str]) -> Self:
        """Return the same uncertainty over these values of a secret, in this order."""
        return self._copy(secret_values=tuple(secret_values))

    def _copy(self, **attributes: object) -> Self:
        """Return a copy with attributes of its own that are no fields."""
        copied = copy(self)
        for name, value in attributes.items():
            object.__setattr__(copied, name, value)
        return copied

    @property
    def num_values(self) -> int:
        """Return the number of the secret's values."""
        return len(self.secret_values)

    # value and slope

    @abstractmethod
    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return f of every row of masses, and a supergradient of the same shape as the masses.

        masses, values: [row, column]; a row holds the masses of some secret values, and those not named have none.
        Columns of mass 0 may stand for no value at all: their slope is not read.
        """

    @property
    def smooth(self) -> bool:
        """Return whether f has no kinks; then `rows` must take complex masses too, as an analytic function."""
        return False

    @property
    def compiled(self) -> Compiled:
        """Return the figure of the compiled kernels that it equals, if any."""
        return ""

    @property
    def certain(self) -> FloatArray:
        """Return [value]: f per unit of mass where the secret is known to have this value."""
        amounts, _ = self.rows(np.ones((self.num_values, 1)), np.arange(self.num_values)[:, None])
        return np.asarray(amounts)

    @property
    def highest(self) -> float:
        """Return a number that f per unit of mass never exceeds.

        By default it is the largest slope c at the uniform distribution: f(q) <= c . q <= max c for every q of total 1.
        Where f treats all values alike this is f of the uniform one.
        """
        count = max(self.num_values, 1)
        _, slopes = self.rows(np.full((1, count), 1.0 / count), np.arange(count)[None, :])
        return float(np.max(slopes))

    @property
    def scale(self) -> float:
        """Return the size of a large difference; solvers divide by it."""
        return 1.0

    def soften(self, softness: float) -> Uncertainty:
        """Return a smooth one near it, at most about `softness` x scale per unit of mass below; itself by default."""
        return self

    def value(self, masses: FloatArray) -> float:
        """Return f of one vector of masses, one per secret value."""
        masses = np.asarray(masses, dtype=np.float64)
        amounts, _ = self.rows(masses[None, :], np.arange(masses.size)[None, :])
        return float(amounts[0])

    def prior_limit(self, prior: FloatArray) -> float:
        """Return the most that is possible where the secret has this distribution: f before observing."""
        return self.value(prior)

    def excess(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return f(q) - sum_z certain_z q_z of every row, and its supergradient. Arguments as in `rows`.

        The belief graph leaves out sequences after which the secret is known. There f(q) = certain_z q_z, so that the
        excess is 0; it is never negative, f being concave. What was left out is the mean of certain_Z, which is exact.
        """
        masses = masses if self.smooth else np.real(masses)
        amounts, slopes = self.rows(masses, values)
        certain = self.certain
        if not certain.any():
            return amounts, slopes
        known = certain[values]
        return amounts - (masses * known).sum(axis=1), slopes - known

    @property
    def largest_excess(self) -> float:
        """Return a number that the excess per unit of mass never exceeds."""
        return self.highest - float(self.certain.min(initial=self.highest))

    # bounds

    @property
    def trivial_bound(self) -> float:
        """Return a bound for every policy that needs no search: `highest`, rounded up."""
        return self.highest + 4.0 * _UNIT * abs(self.highest)

    def total(self, masses: FloatArray, cells: Cells) -> float:
        """Return the sum of f over all groups, where cells have these masses [cell]; no bound depends on it.

        In groups whose secret is settled f is certain_z q_z, whatever other values their cells have.
        """
        amounts, _ = cells.rows.evaluate(self, np.where(cells.settled, 0.0, masses))
        return float(amounts.sum() + masses @ self.certain[cells.secret])

    def costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return [cell] costs with f(q) <= sum_z cost_z q_z for all q >= 0 in every group, near those at the masses.

        By default the supergradient at the smoothed masses, rounded up by far more than `rows` may be off: 1e-13 of
        its size and of the scale.

        masses: [cell].
        smoothing: how far from the best decoder for them; it decides how tight costs are, not whether they are valid.
        """
        _, slopes = cells.rows.evaluate(self, _smooth_posterior(masses, cells, smoothing))
        costs = np.asarray(slopes) + self.certain[cells.secret]
        return costs + 1e-13 * (np.abs(costs) + self.scale)

    def smoothing(self, rounds: int, num_groups: int) -> Smoothing:
        """Return the smoothing of costs after so many rounds of a search; it vanishes as they go on."""
        late = 1.0 / (1.0 + rounds) ** 2
        return Smoothing(uniform=min(0.03, 3.0 * late), floor=min(0.3, 20.0 * late) / max(num_groups, 1))

    def step(self, rounds: int) -> float:
        """Return a step of mirror ascent that is safe: 1 / (smoothness of the smoothed f relative to entropy).

        No bound depends on it. By default f is taken to be twice its largest excess smooth, as sum q - sum q^2 is.
        """
        return 0.5 / max(self.largest_excess, _NO_MASS)

    def decoder_costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return the costs [cell] of `costs`, those that are certain where the secret is settled."""
        costs = self.costs(masses, cells, smoothing)
        return np.where(cells.settled, self.certain[cells.secret], costs)

    # the cone program of the history program, for uncertainties that have one

    @property
    def has_cone(self) -> bool:
        """Return whether `cone_form` and `nearest_costs` are given, so that the history program can be solved."""
        return False

    def cone_form(self, cells: Cells, unit: FloatArray) -> ConeForm:
        """Return the sum of f over all groups, as in `total`, as the maximum of a cone program.

        unit: [group] the unit in which the masses of its cells are given; f of a group is multiplied by it.
        """
        raise NotImplementedError

    def nearest_costs(self, slopes: FloatArray, cells: Cells) -> FloatArray:
        """Return [cell] valid costs near some slopes of f, such as a cone solver's multipliers."""
        raise NotImplementedError


def _smooth_posterior(masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
    """Return [cell]: P(value | group), with the floor added to every group's mass, mixed with the uniform distribution.

    (1 - uniform) (q_z + floor / n) / (sum q + floor) + uniform / n,   n the values that can occur in the group.
    """
    counts = cells.counts
    totals = cells.totals(masses) + smoothing.floor
    some = totals > 0.0
    posterior = np.where(some, (masses + smoothing.floor / counts) / np.where(some, totals, 1.0), 1.0 / counts)
    return (1.0 - smoothing.uniform) * posterior + smoothing.uniform / counts


def _sharpen(rounds: int) -> float:
    """Return the softness after so many rounds, 1 / (4 + rounds / 2): smoothing costs about as much."""
    return 1.0 / (4.0 + 0.5 * rounds)


def _sum_by_group(cells: Cells) -> Any:
    """Return sparse [cell, group]: 1 where the cell belongs to the group."""
    from scipy.sparse import csr_array

    count = cells.group.size
    return csr_array((np.ones(count), (np.arange(count), cells.group)), shape=(count, cells.num_groups))


# -- the uncertainties ------------------------------------------------------------------------------------------------


def plogp(p: FloatArray) -> FloatArray:
    """Return p log2 p, 0 where p is 0."""
    return p * np.log2(p, out=np.zeros_like(p), where=p > 0)


def entropy(p: FloatArray) -> float:
    """Return -sum p log2 p of a distribution, in bits."""
    return max(0.0, -float(plogp(np.asarray(p, dtype=np.float64)).sum()))


@dataclass(frozen=True)
class Shannon(Uncertainty):
    """Opacity, H(secret | observations): the mean number of yes-or-no questions that remain.

    f(q) = -sum_z q_z log2(q_z / sum q), with the slope -log2(q_z / sum q); 0 where there is no mass. A decoder is a
    distribution r over the values, and its costs are -log2 r_z (Gibbs' inequality).
    """

    name = "opacity"
    title = "opacity"
    unit = "bits"

    smooth = True
    compiled: ClassVar[Compiled] = "opacity"
    has_cone = True

    @property
    def certain(self) -> FloatArray:
        """Return [value]: 0, since nothing is open."""
        return np.zeros(self.num_values)

    @property
    def highest(self) -> float:
        """Return log2 of the number of values."""
        return math.log2(max(self.num_values, 1))

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return entropies sum_z q_z s_z and surprises s_z = -log2(q_z / sum q), row by row."""
        total = masses.sum(axis=1, keepdims=True)
        positive = np.real(masses) > 0.0
        share = np.where(positive, masses, 1.0) / np.where(positive, total, 1.0)
        surprise = -np.log(share) / math.log(2.0)
        return (masses * surprise).sum(axis=1), surprise

    def prior_limit(self, prior: FloatArray) -> float:
        """Return H(Z)."""
        return entropy(prior)

    def costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return -log2 of the smoothed posterior."""
        return self._bits(_smooth_posterior(masses, cells, smoothing), cells)

    def step(self, rounds: int) -> float:
        """Return log 2: conditional entropy in nats is 1-smooth relative to the entropy of runs."""
        return math.log(2.0)

    def cone_form(self, cells: Cells, unit: FloatArray) -> ConeForm:
        """Return one exponential cone per cell, with an auxiliary variable t.

            sum over cells of -unit q log2(q / sum q) = max sum of unit t / log 2   subject to   q exp(t / q) <= sum q.

        Arguments as in `Uncertainty.cone_form`.
        """
        from scipy.sparse import block_array, csr_array, eye_array

        count, by_group = cells.group.size, _sum_by_group(cells)
        one = eye_array(count)
        rows = csr_array(block_array([[None, one], [one, None], [by_group @ by_group.T, None]]))
        triples = np.arange(3 * count).reshape(3, count).T.ravel()  # (t, q, sum q) of the first cell, of the second ..
        objective = np.concatenate([np.zeros(count), unit[cells.group] / math.log(2.0)])
        return ConeForm(objective, rows[triples], num_exponential=count)

    def nearest_costs(self, slopes: FloatArray, cells: Cells) -> FloatArray:
        """Return the costs of the decoder 2^-slope, normalised."""
        decoder = cells.normalise(np.exp2(-np.clip(slopes, -100.0, 100.0)))
        return self._bits((1.0 - 1e-12) * decoder + 1e-12 / cells.counts, cells)

    def _bits(self, decoder: FloatArray, cells: Cells) -> FloatArray:
        """Return [cell]: -log2 of a decoder, normalised, and rounded up by more than rounding can make of it.

        0 in groups with one value: nothing is open there.
        """
        counts = cells.counts
        bits = np.abs(np.log2(decoder / cells.totals(decoder)))
        padded = bits + _UNIT * (8.0 * bits + 4.0 * (counts + 8))
        return np.where(counts == 1, 0.0, padded)


@dataclass(frozen=True)
class GuessError(Uncertainty):
    """The probability that the best single guess of the secret is wrong (Bayes risk).

    f(q) = sum q - max q. A decoder is a random guess r, and its costs are 1 - r_z. Softened by a heat h > 0 it is
    sum q - s log sum_z exp(q_z / s) over all values, with s = h sum q: smooth, and below f.
    """

    name = "guess_error"
    title = "guess error"
    has_cone = True

    heat: ClassVar[float] = 0.0  # a softened copy's own is set by `soften`

    @property
    def smooth(self) -> bool:
        """Return whether it is softened."""
        return self.heat > 0.0

    @property
    def compiled(self) -> Compiled:
        """Return the kernels' guess error, unless it is softened."""
        return "" if self.heat else "guess_error"

    @property
    def certain(self) -> FloatArray:
        """Return [value]: 0, or a little less where it is softened."""
        if not self.heat:
            return np.zeros(self.num_values)
        return np.full(self.num_values, -self.heat * math.log1p((self.num_values - 1) * math.exp(-1.0 / self.heat)))

    @property
    def highest(self) -> float:
        """Return 1 - 1 / n, the error of a guess among n equally likely values."""
        return 1.0 - 1.0 / max(self.num_values, 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return errors and supergradients, row by row; ties share the guess."""
        total = masses.sum(axis=1, keepdims=True)
        if not self.heat:
            largest = masses.max(axis=1, keepdims=True)
            ties = masses >= largest - _TIE * total
            return (total - largest)[:, 0], 1.0 - ties / ties.sum(axis=1, keepdims=True)
        share = masses / np.where(total == 0.0, 1.0, total)
        top = np.real(share).max(axis=1, keepdims=True)
        weights = np.exp((share - top) / self.heat)
        unnamed = (self.num_values - masses.shape[1]) * np.exp(-top / self.heat)
        whole = weights.sum(axis=1, keepdims=True) + unnamed
        soft = top + self.heat * np.log(whole)
        chosen = weights / whole
        return (total * (1.0 - soft))[:, 0], 1.0 - chosen - (soft - (chosen * share).sum(axis=1, keepdims=True))

    def soften(self, softness: float) -> GuessError:
        """Return it with the heat that costs at most `softness`; itself where it has one."""
        return self if self.heat else self._copy(heat=softness / math.log(max(self.num_values, 2)))

    def prior_limit(self, prior: FloatArray) -> float:
        """Return 1 - max P(z): guessing without looking does no worse."""
        return max(0.0, 1.0 - float(prior.max()))

    @property
    def trivial_bound(self) -> float:
        """Return the error of a guess at random, rounded up."""
        return self.highest * (1.0 + 4.0 * _UNIT * (self.num_values + 4))

    def costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return the errors of a guess with weights exp(P(value | group) / softness); the likeliest if that is 0.

            cost_z = 1 - r_z,   r = (1 - uniform) guess + uniform / n.

        Arguments as in `Uncertainty.costs`; n is the number of values that can occur in the group.
        """
        counts = cells.counts
        if smoothing.softness:
            share = masses / np.maximum(cells.totals(masses), _NO_MASS)
            top = cells.largest(share)
            weights = np.exp((share - top) / smoothing.softness)
            elsewhere = (self.num_values - counts) * np.exp(-top / smoothing.softness)  # values that cannot occur
            guess = weights / (cells.totals(weights) + elsewhere)
        else:
            guess = cells.normalise((masses >= (1.0 - _NEAR_TIE) * cells.largest(masses)).astype(np.float64))
        guess = (1.0 - smoothing.uniform) * guess + smoothing.uniform / counts
        return self._errors(guess)

    def smoothing(self, rounds: int, num_groups: int) -> Smoothing:
        """Return softness that falls as 1 / rounds."""
        return Smoothing(softness=_sharpen(rounds))

    def step(self, rounds: int) -> float:
        """Return the softness: the smoothed error is (1 / softness)-smooth."""
        return _sharpen(rounds)

    def cone_form(self, cells: Cells, unit: FloatArray) -> ConeForm:
        """Return linear rows, with an auxiliary variable per group that is above the masses of all its cells.

            sum over groups of unit (sum q - max q) = max sum of unit (sum q - m)   subject to   m >= q.

        Arguments as in `Uncertainty.cone_form`.
        """
        from scipy.sparse import csr_array, eye_array, hstack

        rows = csr_array(hstack([-eye_array(cells.group.size), _sum_by_group(cells)]))
        return ConeForm(np.concatenate([unit[cells.group], -unit]), rows)

    def nearest_costs(self, slopes: FloatArray, cells: Cells) -> FloatArray:
        """Return the costs of the guess 1 - slope, normalised."""
        return self._errors(cells.normalise(np.clip(1.0 - slopes, 0.0, 1.0)))

    def _errors(self, guess: FloatArray) -> FloatArray:
        """Return [cell]: 1 - the probability of a guess, rounded up."""
        return 1.0 - guess + 8.0 * _UNIT * (2 * self.num_values + 8)


@dataclass(frozen=True)
class Guesswork(Uncertainty):
    """The mean number of guesses until one is right, the likeliest value first.

    f(q) = sum_z rank(z) q_z, the largest mass having rank 1, which is sum q + sum over pairs of min(q_y, q_z): a value
    is tried before those that are less likely. A decoder puts every pair in order at random: with the chances s(y, z)
    that y is tried before z, s(y, z) + s(z, y) = 1, its costs are 1 + sum_y s(y, z). Softened by a power p > 0 the
    minimum is (q_y^-p + q_z^-p)^(-1/p), which is below it; rows of many values stay as they are.
    """

    name = "guesswork"
    title = "guesswork"
    unit = "guesses"

    power: ClassVar[float] = 0.0  # a softened copy's own is set by `soften`
    _WIDEST: ClassVar[int] = 64  # rows of more values are not softened: that takes work for every pair

    @property
    def certain(self) -> FloatArray:
        """Return [value]: 1 guess."""
        return np.ones(self.num_values)

    @property
    def highest(self) -> float:
        """Return (n + 1) / 2, the guesses that n equally likely values take."""
        return 0.5 * (self.num_values + 1)

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return numbers of guesses and ranks, row by row; equal masses share their ranks.

        A softened one is sum q + sum over pairs of (q_y^-p + q_z^-p)^(-1/p), computed from the ratio low / high of a
        pair.
        """
        if not self.power or masses.shape[1] > self._WIDEST:
            # The mean over the orders of ties is a supergradient as well.
            ranks = 0.5 * (_rank_columns(masses) + _rank_columns(masses[:, ::-1])[:, ::-1])
            return np.asarray((masses * ranks).sum(axis=1)), ranks
        low = np.minimum(masses[:, :, None], masses[:, None, :])
        high = np.maximum(masses[:, :, None], masses[:, None, :])
        ratio = np.where(high > 0.0, low / np.maximum(high, 1e-300), 1.0)
        shrink = (1.0 + ratio**self.power) ** (-1.0 / self.power)
        others = ~np.eye(masses.shape[1], dtype=bool)
        is_low = masses[:, :, None] <= masses[:, None, :]
        by_mass = np.where(is_low, shrink, shrink * ratio) ** (self.power + 1.0)
        amounts = masses.sum(axis=1) + 0.5 * (low * shrink * others).sum(axis=(1, 2))
        return amounts, 1.0 + (by_mass * others).sum(axis=2)

    def soften(self, softness: float) -> Guesswork:
        """Return it with the power that costs about `softness`; itself where it has one."""
        return self if self.power else self._copy(power=math.log(2.0) / softness)

    def costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return expected ranks 1 + sum_y s(y, z), where the better order of a pair is the likelier one.

        s(y, z) = logistic((P(y) - P(z)) / softness), the chance that y is tried before z; 1, 1/2 or 0 where softness is
        0.
        """
        padded = np.append(masses / np.maximum(cells.totals(masses), _NO_MASS), 0.0)
        ranks = np.ones(padded.size)
        for block in cells.rows.blocks:
            share, inside = padded[block.entry], block.entry < masses.size
            earlier = np.zeros(share.shape)
            for column in range(share.shape[1]):
                ahead = share[:, column, None] - share
                soft = smoothing.softness
                chance = _logistic(ahead / soft) if soft else 0.5 * (1.0 + np.sign(ahead))
                chance[:, column] = 0.0
                earlier += np.where(inside[:, column, None], chance, 0.0)
            ranks[block.entry] = 1.0 + earlier
        mixed = (1.0 - smoothing.uniform) * ranks[:-1] + smoothing.uniform * 0.5 * (cells.counts + 1)
        return np.asarray(mixed * (1.0 + 8.0 * _UNIT * (cells.counts + 8)))

    def smoothing(self, rounds: int, num_groups: int) -> Smoothing:
        """Return softness that falls as 1 / rounds."""
        return Smoothing(softness=_sharpen(rounds))

    def step(self, rounds: int) -> float:
        """Return half the softness: smoothed ranks are (1 / softness)-smooth for either value of a pair."""
        return 0.5 * _sharpen(rounds)


def _rank_columns(masses: FloatArray) -> FloatArray:
    """Return the rank of every column in its row, largest first, the first of equal ones before the others."""
    order = np.argsort(-masses, axis=1, kind="stable")
    ranks = np.empty(masses.shape)
    np.put_along_axis(ranks, order, np.arange(1.0, masses.shape[1] + 1.0)[None, :], axis=1)
    return ranks


def _logistic(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


@dataclass(frozen=True)
class ExpectedLoss(Uncertainty):
    """The expected loss of the observer's best guess (g-leakage): min over guesses of the mean of loss(guess, secret).

    f(q) = min over guesses g of sum_z loss(g, z) q_z. A decoder is a distribution r over guesses, and its costs are
    sum_g r_g loss(g, z). Softened by a heat h > 0 it is -s log sum_g exp(-(loss of g) / s) with s = h sum q: concave,
    smooth, and below f.

    losses: every guess with the losses it has for secret values; values that are not named cost nothing.
    """

    losses: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]

    name = "expected_loss"
    title = "expected loss"

    table: ClassVar[FloatArray]  # [guess, value]; set by `over`
    heat: ClassVar[float] = 0.0  # a softened copy's own is set by `soften`
    _LEAST_SPAN: ClassVar[float] = 1e-100  # losses that differ by less are equal: divisions by their span overflow

    def __post_init__(self) -> None:
        try:
            rows = [(guess, [(value, loss) for value, loss in row]) for guess, row in self.losses]
        except (TypeError, ValueError):
            raise InputError([Fault("loss", f"is {describe_value(self.losses)}", "ExpectedLoss.of makes it")]) from None
        named = all(isinstance(name, str) for guess, row in rows for name in (guess, *dict(row)))
        if not rows or not named or not all(_is_loss(loss) for _, row in rows for _, loss in row):
            raise InputError([Fault("loss", "is unusable", "give at least one guess, and finite losses")])
        losses = tuple((guess, tuple((value, float(loss)) for value, loss in row)) for guess, row in rows)
        object.__setattr__(self, "losses", losses)

    @classmethod
    def of(cls, losses: Mapping[str, Mapping[str, float]]) -> ExpectedLoss:
        """Build it from {guess: {secret value: loss}}; InputError without a guess or where a loss is not finite."""
        if not isinstance(losses, Mapping) or not all(isinstance(row, Mapping) for row in losses.values()):
            raise InputError([Fault("loss", f"is {describe_value(losses)}", "give {guess: {secret value: number}}")])
        return cls(tuple((guess, tuple(row.items())) for guess, row in losses.items()))

    def over(self, secret_values: Sequence[str]) -> Self:
        """Return it with the losses as a table [guess, value]."""
        rows = [dict(row) for _, row in self.losses]
        table = floats([[row.get(value, 0.0) for value in secret_values] for row in rows])
        return self._copy(secret_values=tuple(secret_values), table=table)

    @property
    def smooth(self) -> bool:
        """Return whether it is softened."""
        return self.heat > 0.0

    @property
    def scale(self) -> float:
        """Return the span of the losses; 1 where they are equal."""
        span = float(np.ptp(self.table))
        return span if span > self._LEAST_SPAN else 1.0

    @property
    def certain(self) -> FloatArray:
        """Return [value]: the loss of the best guess when the value is known; a little less where it is softened."""
        least = self.table.min(axis=0)
        if not self.heat:
            return np.asarray(least)
        return np.asarray(least - self.heat * np.log(np.exp((least - self.table) / self.heat).sum(axis=0)))

    @property
    def highest(self) -> float:
        """Return the largest loss of the guess whose largest loss is least."""
        return float(self.table.max(axis=1).min())

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return losses and supergradients, row by row; guesses that tie are drawn alike."""
        losses = self.table[:, values]  # [guess, row, column]
        if not self.heat:
            expected = np.einsum("grc,rc->rg", losses, masses)
            least = expected.min(axis=1, keepdims=True)
            ties = expected <= least + _TIE * self.scale * masses.sum(axis=1, keepdims=True)
            weights = ties / ties.sum(axis=1, keepdims=True)
            return least[:, 0], np.einsum("rg,grc->rc", weights, losses)
        total = masses.sum(axis=1, keepdims=True)
        expected = np.einsum("grc,rc->rg", losses, masses) / np.where(total == 0.0, 1.0, total)
        least = np.real(expected).min(axis=1, keepdims=True)
        weights = np.exp((least - expected) / self.heat)
        whole = weights.sum(axis=1, keepdims=True)
        soft = least - self.heat * np.log(whole)
        chosen = weights / whole
        slopes = np.einsum("rg,grc->rc", chosen, losses) + soft - (chosen * expected).sum(axis=1, keepdims=True)
        return (total * soft)[:, 0], slopes

    def soften(self, softness: float) -> ExpectedLoss:
        """Return it with the heat that costs at most `softness` x scale; itself where it has one."""
        return self if self.heat else self._copy(heat=softness * self.scale / math.log(max(len(self.table), 2)))

    @property
    def trivial_bound(self) -> float:
        """Return the loss of the guess whose largest loss is least, or of a guess at random where that is less."""
        rounding = 4.0 * _UNIT * (self.table.shape[0] + 4) * self._size
        return float(min(self.highest, float(self.table.mean(axis=0).max()) + rounding))

    def costs(self, masses: FloatArray, cells: Cells, smoothing: Smoothing) -> FloatArray:
        """Return mean losses of guesses with weights exp(-loss / (softness x size)) or, if that is 0, of the best."""
        from scipy.sparse import csr_array

        by_group = csr_array((masses, cells.secret, cells.start), shape=(cells.num_groups, self.num_values))
        totals = np.maximum(np.add.reduceat(masses, cells.start[:-1]), _NO_MASS)
        losses = np.asarray(by_group @ self.table.T) / totals[:, None]  # [group, guess]
        above = (losses - losses.min(axis=1, keepdims=True)) / self._size
        weights = np.exp(-above / smoothing.softness) if smoothing.softness else (above <= _NEAR_TIE).astype(np.float64)
        guess = weights / weights.sum(axis=1, keepdims=True)
        mean = ((1.0 - smoothing.uniform) * guess + smoothing.uniform / len(self.table)) @ self.table
        return np.asarray(mean[cells.group, cells.secret] + 8.0 * _UNIT * (sum(self.table.shape) + 8) * self._size)

    def smoothing(self, rounds: int, num_groups: int) -> Smoothing:
        """Return softness that falls as 1 / rounds."""
        return Smoothing(softness=_sharpen(rounds))

    def step(self, rounds: int) -> float:
        """Return softness / size: the smoothed loss is (size / softness)-smooth."""
        return _sharpen(rounds) / self._size

    @property
    def _size(self) -> float:
        """Return the span of the losses and 0; no loss, nor difference of losses, is larger."""
        largest, least = float(self.table.max(initial=0.0)), float(self.table.min(initial=0.0))
        return max(largest - least, _NO_MASS)


def _is_loss(loss: object) -> bool:
    """Return whether a loss is a finite number."""
    return is_number(loss) and math.isfinite(loss)  # type: ignore[arg-type]


UNCERTAINTIES: dict[str, Uncertainty] = {each.name: each for each in (Shannon(), GuessError(), Guesswork())}
