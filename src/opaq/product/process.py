"""The hidden process: arrays that all mathematics runs on, without names.

For a policy vector pi (one probability per slot) the hidden state x moves with

    P_pi(x' | x) = base(x, x') + sum over slots of M[(x, x'), slot] pi[slot],

linear in pi, and emits o with probability E(o | x). Opacity is H(Z | o_0 .. o_T) with Z = secret[x_T]; a payoff is a
discounted sum of rewards that is linear in pi at every step. Policies are parametrised by logits theta, pi =
softmax(theta) row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from opaq.model.arrays import FloatArray, IndexArray, IntArray, ShortRepr, SparseRows, indices

LARGEST_LOGIT = 700.0
FOR_EVER = 2**62  # steps


class Edges(NamedTuple):
    """Edges of a process with 32-bit indices, as compiled code reads them."""

    start: IndexArray  # [state + 2]: edges leaving each state, then those leaving the source
    target: IndexArray  # [edge]


class Pairs(NamedTuple):
    """(state, observation) pairs of positive emission, ordered by state; the last pair belongs to the source.

    A belief entry names a pair rather than a state, so that the observation just emitted and E(o | x) are at hand. A
    *cell* is an (observation, secret value); all pairs of a cell contribute to P(o, z | ...).

    Observations that say the same, whose columns of the emission are proportional, leave the same belief: here they are
    one, which is emitted as often as all of them. Only what is shown by name needs them one by one.
    """

    start: IndexArray  # [state + 1]
    state: IndexArray  # [pair]
    observation: IndexArray  # [pair]
    value: FloatArray  # [pair]: E(o | x)
    segment: IndexArray  # [observation]: where its entries begin in a buffer of all pairs
    cell: IndexArray  # [pair]: which (observation, secret value) it belongs to
    cell_observation: IndexArray  # [cell]
    key: Any  # [pair, 2]: odd multipliers that hash a belief as a sum over its pairs

    @classmethod
    def of(cls, emission: SparseRows, secret: IntArray, *, merged: bool = True) -> Pairs:
        """Lay out the pairs of an emission table, once for all belief graphs of a process.

        emission: [state, observation], rows sum to 1.
        secret: [state] -> secret value.
        merged: False keeps observations that say the same apart, numbered as in the table.
        """
        emission = merge_observations(emission) if merged else emission
        state = np.append(emission.row_of_entry(), emission.num_rows)
        rng = np.random.default_rng(0x0BAC)
        key = rng.integers(0, 2**63, size=(state.size, 2), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        counts = np.bincount(emission.columns, minlength=emission.num_columns)
        segment = np.concatenate(([0], np.cumsum(counts)[:-1]))
        num_secrets = int(secret.max(initial=0)) + 1
        cells, cell = np.unique(emission.columns * num_secrets + secret[state[:-1]], return_inverse=True)
        value = np.append(emission.values, 1.0)
        return cls(
            indices(emission.starts),
            indices(state),
            indices(np.append(emission.columns, 0)),
            value,
            indices(segment),
            indices(np.append(cell.reshape(-1), 0)),
            indices(cells // num_secrets),
            key,
        )


_ROUNDED_BITS = 8  # of 52: ratios that agree but for these last bits are equal, to 6e-14
_LEAST_RATIO = 1e-290
_MIX = np.uint64(0x9E3779B97F4A7C15)


def merge_observations(emission: SparseRows) -> SparseRows:
    """Return the emission table with one column for all those that are proportional, their sum.

    Columns are told apart by two multilinear hashes of their entries divided by the largest, as beliefs are. One with
    entries so small beside it that the ratio says little stays alone.
    """
    order = np.argsort(emission.columns, kind="stable")
    rows, columns, values = emission.row_of_entry()[order], emission.columns[order], emission.values[order]
    seen, heads, counts = np.unique(columns, return_index=True, return_counts=True)
    if not seen.size:
        return emission
    ratios = values / np.repeat(np.maximum.reduceat(values, heads), counts)
    alone = np.where(np.minimum.reduceat(ratios, heads) < _LEAST_RATIO, 1 + np.arange(seen.size), 0)
    digits = ((ratios.view(np.int64) + (1 << (_ROUNDED_BITS - 1))) >> _ROUNDED_BITS).astype(np.uint64) * _MIX
    digits ^= digits >> np.uint64(32)
    keys = np.random.default_rng(0x0BAD).integers(0, 2**63, size=(2, emission.num_rows), dtype=np.uint64)
    hashes = [np.add.reduceat(digits * (2 * key + 1)[rows], heads) for key in keys]
    kinds = np.stack([counts.astype(np.uint64), alone.astype(np.uint64), *hashes])
    _, first, group = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
    if first.size == seen.size:
        return emission
    number = np.argsort(np.argsort(first))[group.reshape(-1)]  # in the order of the first column of each group
    columns = np.repeat(number, counts)
    return SparseRows.from_entries(rows, columns, values, shape=(emission.num_rows, first.size))


@dataclass(frozen=True, slots=True, eq=False)
class Payoff:
    """V = sum over t = 0 .. horizon of discount^t E[R(x_t, a_t)] + E[final(x_T)], with the wish V >= threshold."""

    name: str
    slots: SparseRows  # [state, slot]: reward per unit of policy
    final: FloatArray  # [state]
    discount: float
    threshold: float | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HiddenProcess(ShortRepr):
    """A Markov chain whose edges are linear in the policy, seen by the observer through an emission.

    A policy is one flat vector over slots; a slot is one action of one policy row, and product states that a policy
    cannot tell apart share a row. State `num_states` is the source: its edges draw the start, so that the first
    observation needs no special case. All arrays are read-only; states, slots and rows are numbered from 0.
    """

    edge_start: IntArray  # [state + 2]: edges leaving each state, then those leaving the source
    edge_target: IntArray  # [edge]
    edges: Edges  # the same, laid out for compiled code
    edge_base: FloatArray  # [edge]: the part no policy changes (the start distribution)
    edge_slots: SparseRows  # [edge, slot]: probability of the edge per unit of policy
    payoffs: tuple[Payoff, ...]  # the return first, then the other requirements
    emission: SparseRows  # [state, observation]
    pairs: Pairs  # the same, laid out for the belief graph: observations that say the same are one
    secret: IntArray  # [state] -> secret value
    settled: IntArray  # [state] -> the secret value that is certain from here on, or -1
    lasting: IntArray  # [state]: for so many steps, or more, the secret value of a state cannot change; FOR_EVER
    row: IntArray  # [state] -> policy row
    row_start: IntArray  # [row + 1]: the slots of each policy row
    num_observations: int
    num_secrets: int
    horizon: int

    @property
    def num_states(self) -> int:
        """Number of product states, the source not counted."""
        return int(self.secret.size)

    @property
    def num_slots(self) -> int:
        """Length of a policy vector."""
        return int(self.row_start[-1])

    @property
    def num_rows(self) -> int:
        """Number of policy rows."""
        return int(self.row_start.size - 1)

    @property
    def row_sizes(self) -> IntArray:
        """[row]: how many slots a policy row has."""
        return self.row_start[1:] - self.row_start[:-1]  # np.diff takes four times as long

    def row_of_slot(self) -> IntArray:
        """Return [slot]: the policy row of every slot."""
        return np.repeat(np.arange(self.num_rows), self.row_sizes)

    def uniform(self) -> FloatArray:
        """Return the policy vector [slot] that takes every action of a row with the same probability."""
        return np.repeat(1.0 / self.row_sizes, self.row_sizes)

    def softmax(self, theta: Any) -> Any:
        """Return pi = softmax(theta) row by row: pi(a | u) = exp(theta[u, a]) / sum over b of exp(theta[u, b]).

        theta: [slot] logits, projected to [-700, 700] (paper, section III.B). Complex logits carry a derivative in
            their imaginary part, which the result then carries too.
        """
        theta = np.asarray(theta)
        real = np.clip(theta.real, -LARGEST_LOGIT, LARGEST_LOGIT)
        logits = real + 1j * theta.imag if np.iscomplexobj(theta) else real
        heads, counts = self.row_start[:-1], self.row_sizes
        weights = np.exp(logits - np.maximum.reduceat(real, heads).repeat(counts))
        return weights / np.add.reduceat(weights, heads).repeat(counts)

    def logits(self, pi: FloatArray) -> FloatArray:
        """Return logits [slot] whose softmax is pi; probability 0 becomes the smallest logit, -700."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(pi), -LARGEST_LOGIT)

    def pull_back(self, pi: Any, slope: Any) -> Any:
        """Return the gradient by logits from the gradient by pi: pi * (slope - sum over the row of pi * slope).

        pi: [slot] policy vector; slope: [slot] d value / d pi. Both may be complex.
        """
        weighted = pi * slope
        sums = np.add.reduceat(weighted, self.row_start[:-1])
        return weighted - pi * sums.repeat(self.row_sizes)

    def flow(self, pi: Any) -> Any:
        """Return [edge]: P_pi(x' | x) on every edge, those of the source included. Complex for complex pi."""
        return self.edge_base + self.edge_slots @ pi
