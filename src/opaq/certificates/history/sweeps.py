"""Sweeps over a history tree, the observation sequences at its end, and their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from opaq.beliefs.returns import EQUAL
from opaq.certificates.history.tree import HistoryChoices, HistoryTree
from opaq.errors import BudgetError
from opaq.model.arrays import BoolArray, FloatArray, IntArray
from opaq.stop import Stop

_MOST_ENTRIES = 20_000_000  # (sequence, word) pairs of positive likelihood
_DIGITS = 13  # of the likelihoods that are compared; merging what differs by less only raises the upper bound by less


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Cells: pairs of a merged observation sequence and a secret value that can occur with it, by sequence."""

    likelihood: Any  # sparse [cell, leaf]: P(y | leaf) where the leaf has the cell's secret value
    sequence: IntArray  # [cell]
    secret: IntArray  # [cell]
    num_sequences: int
    num_secrets: int

    def totals(self, cells: FloatArray) -> FloatArray:
        """[sequence]: the sum over secret values."""
        return np.bincount(self.sequence, weights=cells, minlength=self.num_sequences).astype(np.float64)


def observe_tree(tree: HistoryTree, moves: HistoryChoices, *, num_secrets: int, stop: Stop) -> Sequences:
    """The cells of a tree; sequences with which only one secret value can occur are left out: nothing is uncertain."""
    words = _word_likelihoods(tree, moves, stop)
    leaves = words[:, tree.word[tree.leaves]].tocoo()
    keys, cell = np.unique(leaves.row.astype(np.int64) * num_secrets + tree.secret[leaves.col], return_inverse=True)
    cell = cell.reshape(-1)
    sequence, secret = keys // num_secrets, keys % num_secrets
    kept = np.bincount(sequence, minlength=words.shape[0])[sequence] > 1
    return _cells(leaves, cell, kept, sequence=sequence[kept], secret=secret[kept], num_secrets=num_secrets)


def _cells(
    leaves: Any, cell: IntArray, kept: Any, *, sequence: IntArray, secret: IntArray, num_secrets: int
) -> Sequences:
    from scipy.sparse import csr_array

    number = np.cumsum(kept) - 1
    entries = kept[cell]
    place = (number[cell[entries]], leaves.col[entries])
    likelihood = csr_array((leaves.data[entries], place), shape=(int(kept.sum()), leaves.shape[1]))
    distinct, numbered = np.unique(sequence, return_inverse=True)
    return Sequences(likelihood, numbered.reshape(-1), secret, int(distinct.size), num_secrets)


def _word_likelihoods(tree: HistoryTree, moves: HistoryChoices, stop: Stop) -> Any:
    """Sparse [merged sequence, word of the last time]: P(y | word), summed over the merged."""
    from scipy.sparse import csr_array

    rows = csr_array(np.ones((1, 1)))
    parents = (np.zeros(tree.classes[0].size, dtype=np.int64), *tree.parents)
    for parent, shown in zip(parents, tree.classes, strict=True):
        stop.check()
        rows = _merge_proportional(_extend_sequences(rows, parent, moves.emission[shown]))
    return rows


def _extend_sequences(rows: Any, parent: IntArray, emission: FloatArray) -> Any:
    """Every sequence followed by every observation, over the words that follow."""
    from scipy.sparse import csr_array, diags_array, vstack

    before = rows.tocsc()[:, parent].tocsr()
    if before.nnz * int((emission > 0).sum(axis=1).max()) > _MOST_ENTRIES:
        raise BudgetError(
            f"the history program would have more than {_MOST_ENTRIES:,} pairs of histories and observations"
        )
    blocks = [csr_array(before @ diags_array(column)) for column in emission.T if column.any()]
    longer = csr_array(vstack(blocks, format="csr"))
    longer.eliminate_zeros()
    return longer[np.diff(longer.indptr) > 0]


def _merge_proportional(rows: Any) -> Any:
    """Proportional rows added."""
    from scipy.sparse import csr_array

    rows.sort_indices()
    largest = np.maximum.reduceat(rows.data, rows.indptr[:-1])
    shape = np.round(rows.data / np.repeat(largest, np.diff(rows.indptr)), _DIGITS)
    number: dict[bytes, int] = {}
    group = np.zeros(rows.shape[0], dtype=np.int64)
    for row, (first, end) in enumerate(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)):
        key = rows.indices[first:end].tobytes() + shape[first:end].tobytes()
        group[row] = number.setdefault(key, len(number))
    gather = csr_array((np.ones(group.size), (group, np.arange(group.size))), shape=(len(number), group.size))
    return csr_array(gather @ rows)


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


class HistoryEntropy:
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
        return _bits(sequences, _mix_with_uniform(sequences, _shares(sequences, np.maximum(cells, 0.0)), mixed))

    def nearest_costs(self, sequences: Sequences, slopes: FloatArray) -> FloatArray:
        """The decoder 2^-slope, normalised."""
        weights = np.exp2(-np.clip(slopes, -100.0, 100.0))
        return _bits(sequences, _mix_with_uniform(sequences, _shares(sequences, weights), 1e-12))

    def expression(self, sequences: Sequences, cells: Any, scale: FloatArray) -> tuple[Any, list[Any]]:
        """A sum of relative entropies: one exponential cone per cell."""
        import cvxpy

        weights = scale[sequences.sequence] / np.log(2.0)
        gather = _gather(sequences)
        return -(weights @ cvxpy.rel_entr(cells, (gather @ gather.T) @ cells)), []


class HistoryGuessError:
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
        return 1.0 - _mix_with_uniform(sequences, _shares(sequences, top), mixed)

    def nearest_costs(self, sequences: Sequences, slopes: FloatArray) -> FloatArray:
        """The guess 1 - slope, normalised."""
        return 1.0 - _shares(sequences, np.clip(1.0 - slopes, 0.0, 1.0))

    def expression(self, sequences: Sequences, cells: Any, scale: FloatArray) -> tuple[Any, list[Any]]:
        """Linear, with a variable per sequence above all its cells."""
        import cvxpy

        gather = _gather(sequences)
        largest = cvxpy.Variable(sequences.num_sequences)
        return scale @ (gather.T @ cells) - scale @ largest, [gather @ largest >= cells]


UNCERTAINTIES: dict[str, LeafUncertainty] = {one.name: one for one in (HistoryEntropy(), HistoryGuessError())}


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


def _mix_with_uniform(sequences: Sequences, shares: FloatArray, mixed: float) -> FloatArray:
    """With a share of the uniform distribution over the values that can occur."""
    counts = np.bincount(sequences.sequence, minlength=sequences.num_sequences)[sequences.sequence]
    return (1.0 - mixed) * shares + mixed / np.maximum(counts, 1)


def _bits(sequences: Sequences, decoder: FloatArray) -> FloatArray:
    """-log2 r; r is made a little smaller so that rounding cannot make it more than a distribution."""
    excess = np.maximum(sequences.totals(decoder), 1.0)[sequences.sequence] * (1.0 + 1e-15)
    return -np.log2(decoder / excess)


_UNIT = 2.0**-52
PRESSURES = (1.0, 1e2, 1e4, 1e6)  # of multipliers that hold policies to a task that leaves them no room


@dataclass(frozen=True, slots=True, eq=False)
class HistoryProblem:
    """Weights over the tree's choices in; uncertainty and slacks out."""

    tree: HistoryTree
    sequences: Sequences
    uncertainty: LeafUncertainty

    def cells(self, weights: FloatArray) -> FloatArray:
        """[cell]: P(y, z) under a weight vector."""
        leaves = inflow(self.tree, weights)[self.tree.leaves]
        return np.asarray(self.sequences.likelihood @ leaves)

    def value(self, weights: FloatArray) -> float:
        """The uncertainty of a weight vector."""
        return self.uncertainty.value(self.sequences, self.cells(weights))

    def slack(self, weights: FloatArray) -> FloatArray:
        """[requirement]: how far above its threshold."""
        return np.asarray(weights @ self.tree.rewards - self.tree.thresholds)

    def tolerances(self, paid: FloatArray) -> FloatArray:
        """[requirement]: how far below its threshold a return meets it. paid: the size of all that is added up."""
        return EQUAL * np.abs(self.tree.thresholds) + min(EQUAL, 4.0 * self.tree.rounding) * paid

    def paid(self, weights: FloatArray) -> FloatArray:
        """[requirement]: the expected sum of |payments|."""
        return np.asarray(weights @ np.abs(self.tree.rewards))

    def most_paid(self) -> FloatArray:
        """[requirement]: the same at most, for any policy."""
        tree = self.tree
        sizes = [np.abs(tree.rewards[tree.choices_at(time)]).max(axis=0, initial=0.0) for time in tree.times]
        return np.asarray(np.sum(sizes, axis=0))

    def leaf_costs(self, costs: FloatArray) -> FloatArray:
        """[leaf]: the expected cost of ending there, given costs of cells."""
        return np.asarray(self.sequences.likelihood.T @ costs)

    def upper_bound(self, costs: FloatArray, multipliers: FloatArray) -> float:
        """No policy with every slack >= 0 exceeds this, whatever the (valid) costs and the multipliers >= 0 are.

        f(q) <= costs . q for every q, and multipliers . slack >= 0 for every feasible policy; the maximum of the sum
        over all policies is a dynamic program. What rounding can lose in it is added, and what policies may gain that
        miss a threshold by no more than counts as rounding.
        """
        tree, most = self.tree, self.most_paid()
        leaf_costs = self.leaf_costs(costs)
        _, node = choice_values(tree, leaf_costs, multipliers)
        size = 1.0 + float(np.abs(leaf_costs).max(initial=0.0)) + float(multipliers @ (most + np.abs(tree.thresholds)))
        steps = 4 * (tree.level.size + 8) * (2 + tree.branching) + self.sequences.sequence.size + int(tree.level[1])
        missed = float(multipliers @ (self.tolerances(most) + tree.rounding * most))
        return float(tree.start @ node) - float(multipliers @ tree.thresholds) + missed + steps * _UNIT * size


def inflow(tree: HistoryTree, weights: FloatArray) -> FloatArray:
    """[node]: the sum of its choices' weights."""
    return np.asarray(np.add.reduceat(weights, tree.choice_start[:-1]))


def policy_of(tree: HistoryTree, weights: FloatArray, *, least: float = 0.0) -> FloatArray:
    """[choice]: the probability of a choice at its node; even where the node has no weight.

    least: smaller probabilities count as 0.
    """
    counts = np.diff(tree.choice_start)
    kept = np.maximum(weights, 0.0)
    for _ in range(2):  # the second time without what is too small
        totals = np.repeat(inflow(tree, kept), counts)
        shares = np.where(totals > 0, kept / np.where(totals > 0, totals, 1.0), np.repeat(1.0 / counts, counts))
        kept = np.where(shares >= least, shares, 0.0)
    return shares


def weights_of(tree: HistoryTree, policy: FloatArray) -> FloatArray:
    """[choice]: the probability that a history occurs and the choice is made there."""
    node, weights = tree.start.copy(), np.zeros(tree.num_choices)
    counts = np.diff(tree.choice_start)
    for time in tree.times:
        nodes, choices = tree.nodes_at(time), tree.choices_at(time)
        weights[choices] = np.repeat(node[nodes], counts[nodes]) * policy[choices]
        if time < tree.times[-1]:
            node[tree.nodes_at(time + 1)] = tree.steps[time].T @ weights[choices]
    return weights


def choice_values(
    tree: HistoryTree,
    leaf_costs: FloatArray,
    multipliers: FloatArray,
    policy: FloatArray | None = None,
    *,
    allowed: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """[choice], [node]: leaf costs and multiplied rewards still to come, by the best policy or by a given one.

    allowed: [choice]: what the best policy may choose, at least one choice per node; everything unless given.
    """
    values = np.asarray(tree.rewards @ multipliers)
    if allowed is not None:
        values[~allowed] = -np.inf
    values[tree.choices_at(tree.times[-1])] += np.repeat(leaf_costs, np.diff(tree.choice_start)[tree.leaves])
    node = np.zeros(tree.num_nodes)
    for time in reversed(tree.times):
        nodes, choices = tree.nodes_at(time), tree.choices_at(time)
        if time < tree.times[-1]:
            values[choices] += tree.steps[time] @ node[tree.nodes_at(time + 1)]
        heads = tree.choice_start[nodes] - choices.start
        own = values[choices]
        node[nodes] = (
            np.maximum.reduceat(own, heads) if policy is None else np.add.reduceat(policy[choices] * own, heads)
        )
    return values, node
