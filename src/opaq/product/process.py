"""The hidden process: all mathematics runs on it, and it knows nothing of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opaq.model.arrays import FloatArray, IndexArray, IntArray, ShortRepr, SparseRows, indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST_LOGIT = 700.0


class Edges(NamedTuple):
    """The edges of a process, laid out for compiled code."""

    start: IndexArray  # [state + 2]: edges leaving each state, then those leaving the source
    target: IndexArray  # [edge]


class Pairs(NamedTuple):
    """(state, observation) pairs with positive emission, by state; the last pair is the source's."""

    start: IndexArray  # [state + 1]
    state: IndexArray  # [pair]
    observation: IndexArray  # [pair]
    value: FloatArray  # [pair]: E(o | x)
    segment: IndexArray  # [observation]: where its entries begin in a buffer of all pairs
    cell: IndexArray  # [pair]: which (observation, secret value) it belongs to
    cell_observation: IndexArray  # [cell]
    key: Any  # [pair, 2]: odd multipliers that hash a belief as a sum over its pairs

    @classmethod
    def of(cls, emission: SparseRows, secret: IntArray) -> Pairs:
        """Laid out once for all belief graphs of a process."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Payoff:
    """Sum over t = 0 .. horizon of discount^t R(x_t, a_t), plus what the last state is worth; wanted: >= threshold."""

    name: str
    slots: csr_array  # [state, slot]: reward per unit of policy
    final: FloatArray  # [state]
    discount: float
    threshold: float | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HiddenProcess(ShortRepr):
    """What the observer faces: x moves along edges whose probabilities are linear in the policy.

    A policy is one flat vector over slots; a slot is one action of one policy row. State `num_states` is the
    source: its edges draw the start, so that the first observation needs no special case.
    """

    edge_start: IntArray  # [state + 2]: edges leaving each state, then those leaving the source
    edge_target: IntArray  # [edge]
    edges: Edges  # the same, laid out for compiled code
    edge_base: FloatArray  # [edge]: the part no policy changes (the start distribution)
    edge_slots: csr_array  # [edge, slot]: probability of the edge per unit of policy
    payoffs: tuple[Payoff, ...]  # the return first, then the other requirements
    emission: SparseRows  # [state, observation]
    pairs: Pairs  # the same, laid out for the belief graph
    secret: IntArray  # [state] -> secret value
    settled: IntArray  # [state] -> the secret value that is certain from here on, or -1
    row: IntArray  # [state] -> policy row
    row_start: IntArray  # [row + 1]: the slots of each policy row
    num_observations: int
    num_secrets: int
    horizon: int

    @property
    def num_states(self) -> int:
        """States, the source not counted."""
        return int(self.secret.size)

    @property
    def num_slots(self) -> int:
        """The length of a policy vector."""
        return int(self.row_start[-1])

    @property
    def num_rows(self) -> int:
        """How many policy rows there are."""
        return int(self.row_start.size - 1)

    def row_of_slot(self) -> IntArray:
        """The policy row of every slot."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.row_start))

    def uniform(self) -> FloatArray:
        """Every action of a row alike."""
        counts = np.diff(self.row_start)
        return np.repeat(1.0 / counts, counts)

    def softmax(self, theta: Any) -> Any:
        """pi = softmax of the logits, row by row; logits are projected to [-700, 700] (paper, section III.B).

        Complex logits carry a derivative in their imaginary part.
        """
        theta = np.asarray(theta)
        real = np.clip(theta.real, -LARGEST_LOGIT, LARGEST_LOGIT)
        logits = real + 1j * theta.imag if np.iscomplexobj(theta) else real
        heads, counts = self.row_start[:-1], np.diff(self.row_start)
        weights = np.exp(logits - np.repeat(np.maximum.reduceat(real, heads), counts))
        return weights / np.repeat(np.add.reduceat(weights, heads), counts)

    def logits(self, pi: FloatArray) -> FloatArray:
        """Logits whose softmax is pi; probability 0 becomes the smallest logit."""
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(pi), -LARGEST_LOGIT)

    def pull_back(self, pi: Any, slope: Any) -> Any:
        """The gradient with respect to logits, from the gradient with respect to pi."""
        weighted = pi * slope
        sums = np.add.reduceat(weighted, self.row_start[:-1])
        return weighted - pi * np.repeat(sums, np.diff(self.row_start))

    def flow(self, pi: Any) -> Any:
        """P_pi(x' | x) on every edge, the source's included."""
        return self.edge_base + self.edge_slots @ pi
