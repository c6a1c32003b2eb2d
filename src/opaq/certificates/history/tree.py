"""The tree of a problem's histories, with exchangeable ones merged, and the observation sequences at its end.

Policies see the states and not the observations, so an observation sequence has probability
P(y | x_0..x_T) = prod_t E(y_t | x_t). Two histories that end in the same product state and whose states showed the
same at every time (equal emission rows) have the same future and the same likelihoods: they are one node here, and its
weight is the sum of theirs. What they showed is the node's word, a sequence of emission classes.

Merging loses nothing: f(q) and the returns depend on the sums alone, and any weights of merged nodes are those of some
policy over the histories. At the end, observation sequences whose likelihoods P(y | leaf) are proportional tell the
observer the same; f is positively homogeneous, so that they are added too.

Comes in: a process compiled for policies that look at the state, and its requirements. Goes out: a `HistoryTree`, and
the sparse table of P(y | leaf) by which the masses q(y, z) are linear in the weights.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from opaq.beliefs.dynamic_program import StateActions
from opaq.beliefs.returns import rounding_share, start_distribution
from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray, IntArray, SparseRows
from opaq.model.uncertainty import Cells
from opaq.product.process import HiddenProcess, Payoff
from opaq.stop import Stop


@dataclass(frozen=True, slots=True, eq=False)
class HistoryChoices:
    """Distinct choices of every product state: those before the last time, and those at it."""

    first: IntArray  # [state]: its first choice; the others follow in the order of the row's slots
    slot: IntArray  # [choice] -> slot of the policy vector
    alike: IntArray  # [choice] -> the first choice of the same state that leads to the same and pays the same
    paid: FloatArray  # [choice, requirement], not discounted
    ahead: Any  # sparse [choice, state]
    before: tuple[IntArray, ...]  # [state] -> its distinct choices while the run goes on
    last: tuple[IntArray, ...]  # [state] -> its distinct choices at the last time, when only what they pay counts
    emission_class: IntArray  # [state]: states that show the same with the same probabilities are of one class
    emission: FloatArray  # [class, observation]

    @classmethod
    def of(cls, process: HiddenProcess, requirements: tuple[Payoff, ...]) -> HistoryChoices:
        """Tabulate the distinct choices of a process compiled for policies that look at the state.

        requirements: the payoffs that have a threshold. Choices of one state are the same before the last time where
            they lead
        to the same states with the same probabilities and pay the same, and at the last time where they pay the same.
        """
        choices = StateActions.of(process)
        paid = _paid(choices, requirements)
        ahead = choices.ahead
        emission_class, emission = _emission_classes(process.emission)
        signatures = [paid[choice].tobytes() for choice in range(choices.slot.size)]
        moving = [_row_bytes(ahead, choice) + signatures[choice] for choice in range(choices.slot.size)]
        bounds = np.append(choices.first, choices.slot.size)
        return cls(
            first=choices.first,
            slot=choices.slot,
            alike=_first_alike(moving, bounds),
            paid=paid,
            ahead=ahead,
            before=_distinct(_first_alike(moving, bounds), bounds),
            last=_distinct(_first_alike(signatures, bounds), bounds),
            emission_class=emission_class,
            emission=emission,
        )


def _paid(choices: StateActions, requirements: tuple[Payoff, ...]) -> FloatArray:
    """Return [choice, requirement]: what a choice pays, not discounted."""
    columns = [choices.paid(payoff) for payoff in requirements]
    return np.column_stack(columns) if columns else np.zeros((choices.slot.size, 0))


def _row_bytes(matrix: Any, row: int) -> bytes:
    """Return the columns and values of one row of a sparse matrix as bytes that are equal where the rows are."""
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return bytes(matrix.indices[entries].astype(np.int64).tobytes() + matrix.data[entries].tobytes() + b"|")


def _first_alike(signatures: list[bytes], bounds: IntArray) -> IntArray:
    """Return [choice] -> the first choice of the same state with the same signature.

    signatures: of every choice. bounds: [state + 1], where the choices of a state begin.
    """
    alike = np.zeros(len(signatures), dtype=np.int64)
    for first, end in pairwise(bounds.tolist()):
        earliest: dict[bytes, int] = {}
        for choice in range(first, end):
            alike[choice] = earliest.setdefault(signatures[choice], choice)
    return alike


def _distinct(alike: IntArray, bounds: IntArray) -> tuple[IntArray, ...]:
    """Return per state the first choice of every kind. alike: [choice]. bounds: [state + 1]."""
    return tuple(np.unique(alike[first:end]) for first, end in pairwise(bounds))


def _emission_classes(emission: SparseRows) -> tuple[IntArray, FloatArray]:
    """Return [state] -> class, and [class, observation] the probabilities; equal emission rows are one class."""
    keys = [b"|".join(part.tobytes() for part in emission.row(state)) for state in range(emission.num_rows)]
    number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    of_state = np.array([number[key] for key in keys], dtype=np.int64)
    table = np.zeros((len(number), emission.num_columns))
    for state in range(emission.num_rows):
        columns, values = emission.row(state)
        table[of_state[state], columns] = values
    return of_state, table


_MOST_SUPPORTS = 20_000  # different sets of states after a word while histories are counted
_LARGEST_COUNT = 10**15  # of histories: what is more is not counted to the end


@dataclass(frozen=True, slots=True, eq=False)
class HistoryTree:
    """Merged histories as nodes, numbered time by time; weights of (node, choice) pairs are a policy.

    Weights p >= 0 are a policy's if at every node h the sum over a of p(h, a) is start(h) plus the sum over (h', a') of
    p(h', a') P(h | h', a').
    """

    start: FloatArray  # [node]: P(x_0) for the nodes of time 0, else 0
    level: IntArray  # [horizon + 2]: the first node of every time
    state: IntArray  # [node] -> product state
    word: IntArray  # [node] -> word, numbered within its time
    choice_start: IntArray  # [node + 1]: the choices of each node
    slot: IntArray  # [choice] -> slot of the policy vector
    steps: tuple[Any, ...]  # per time before the last: sparse [choice of this time, node of the next]
    rewards: FloatArray  # [choice, requirement], discounted; what the last state is worth is part of the last choices
    thresholds: FloatArray  # [requirement]
    rounding: float  # how far rounding can put a return from the exact one, as a share of all that is paid
    parents: tuple[IntArray, ...]  # per time from 1: [word] -> the word before
    classes: tuple[IntArray, ...]  # per time: [word] -> emission class shown last
    secret: IntArray  # [leaf] -> secret value

    @property
    def num_nodes(self) -> int:
        """Return the number of merged histories of all times together."""
        return int(self.state.size)

    @property
    def num_choices(self) -> int:
        """Return the length of a weight vector."""
        return int(self.slot.size)

    @property
    def leaves(self) -> slice:
        """Return the nodes of the last time."""
        return slice(int(self.level[-2]), int(self.level[-1]))

    @property
    def times(self) -> range:
        """Return 0 .. horizon."""
        return range(self.level.size - 1)

    @property
    def branching(self) -> int:
        """Return the most nodes that one choice can lead to, or the number of requirements where that is larger.

        It bounds the operations of one term of a sweep, of which rounding errors are made.
        """
        branches = [int(np.diff(step.indptr).max(initial=0)) for step in self.steps]
        return max(self.thresholds.size, *branches, 1)

    def nodes_at(self, time: int) -> slice:
        """Return the nodes of one time."""
        return slice(int(self.level[time]), int(self.level[time + 1]))

    def choices_at(self, time: int) -> slice:
        """Return the choices of one time's nodes."""
        nodes = self.nodes_at(time)
        return slice(int(self.choice_start[nodes.start]), int(self.choice_start[nodes.stop]))

    def ahead(self) -> Any:
        """Return all steps in one numbering: sparse [choice, node] P(h' | h, a).

        Nothing follows the choices of the last time.
        """
        from scipy.sparse import block_diag, csr_array

        first, last = int(self.level[1]), self.choices_at(self.times[-1])
        outer = [csr_array((0, first)), *self.steps, csr_array((last.stop - last.start, 0))]
        return csr_array(block_diag(outer, format="csr"))

    def node_of_choice(self) -> IntArray:
        """Return [choice] -> node."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.choice_start))


def count_histories(
    process: HiddenProcess, moves: HistoryChoices, *, most: int, stop: Stop | None = None
) -> tuple[int, bool]:
    """Return how many nodes the tree has, and whether that is the whole count, without building the tree.

    moves: the distinct choices of every state. most: a count above this need not be complete.

    Words that can end in the same set of states are counted together: a set of k states that n words lead to stands for
    k n nodes. The count ends early only where there are too many such sets or histories, and then above `most`. Raises
    StoppedError when `stop` is requested meanwhile.
    """
    successors = [_successors(moves, state) for state in range(process.num_states)]
    begin = np.flatnonzero(start_distribution(process)).tolist()
    words = Counter(_by_class(moves, begin))
    total = sum(len(support) * count for support, count in words.items())
    for _ in range(process.horizon):
        if stop is not None:
            stop.check()
        following: Counter[frozenset[int]] = Counter()
        for support, count in words.items():
            reached = set().union(*(successors[state] for state in support))
            for part in _by_class(moves, sorted(reached)):
                following[part] += count
        words = following
        total += sum(len(support) * count for support, count in words.items())
        if total > most and (len(words) > _MOST_SUPPORTS or total > _LARGEST_COUNT):
            return total, False
    return total, True


def _successors(moves: HistoryChoices, state: int) -> set[int]:
    """Return the states that some choice of a state may lead to."""
    kept = moves.before[state]
    return set(moves.ahead[kept].indices.tolist()) if kept.size else set()


def _by_class(moves: HistoryChoices, states: list[int]) -> list[frozenset[int]]:
    """Return the states in sets, those that show the same together."""
    parts: dict[int, set[int]] = {}
    for state in states:
        parts.setdefault(int(moves.emission_class[state]), set()).add(state)
    return [frozenset(part) for part in parts.values()]


def grow_tree(
    process: HiddenProcess,
    moves: HistoryChoices,
    requirements: tuple[Payoff, ...],
    *,
    max_histories: int,
    stop: Stop,
) -> HistoryTree:
    """Build the tree of all merged histories that some policy reaches.

    moves: the distinct choices of every state. requirements: the payoffs that have a threshold, in their order.
    Raises BudgetError when there are more than `max_histories`, StoppedError when `stop` is requested.
    """
    count, whole = count_histories(process, moves, most=max_histories, stop=stop)
    if count > max_histories:
        amount = f"{count:,}" if whole else f"more than {count:,}"
        raise BudgetError(
            f"the history program would have {amount} histories of states, more than the {max_histories:,} allowed: "
            "shorten the horizon, allow more, or use a decoder bound, which needs no histories"
        )
    levels = _TreeLevels(process, moves, requirements)
    for time in range(process.horizon + 1):
        stop.check()
        levels.add_choices(time)
        if time < process.horizon:
            levels.grow()
    return levels.tree()


class _TreeLevels:
    """The tree while it grows, one time after the other.

    Per time it holds the states and words of the nodes, their choices and what these pay, and the sparse step to the
    next.
    """

    def __init__(self, process: HiddenProcess, moves: HistoryChoices, requirements: tuple[Payoff, ...]) -> None:
        self._process, self._moves, self._requirements = process, moves, requirements
        start = start_distribution(process)
        states = np.flatnonzero(start)
        classes, words = np.unique(moves.emission_class[states], return_inverse=True)
        self._start = start[states]
        self._states, self._words = [states], [words.reshape(-1)]
        self._classes, self._parents = [classes], list[IntArray]()
        self._counts, self._choices, self._rewards = list[IntArray](), list[IntArray](), list[FloatArray]()
        self._blocks = list[Any]()  # per time: sparse [choice of this time, node of the next]

    def add_choices(self, time: int) -> None:
        """Add the choices of the newest nodes and what they pay.

        Discount^time x reward, at the end also the last state's worth.
        """
        ends = time == self._process.horizon
        states, kept = self._states[-1], self._moves.last if ends else self._moves.before
        counts = np.array([kept[state].size for state in states], dtype=np.int64)
        choices = np.concatenate([kept[state] for state in states])
        discounts = np.array([payoff.discount**time for payoff in self._requirements])
        rewards = self._moves.paid[choices] * discounts
        if ends and self._requirements:
            final = np.column_stack([payoff.final for payoff in self._requirements])
            rewards = rewards + np.repeat(final[states], counts, axis=0)
        self._counts.append(counts)
        self._choices.append(choices)
        self._rewards.append(rewards)

    def grow(self) -> None:
        """Add the nodes that the newest choices lead to: one per (word, emission class shown next, state)."""
        from scipy.sparse import csr_array

        moves, choices = self._moves, self._choices[-1]
        ahead = moves.ahead[choices].tocoo()
        origin = np.repeat(self._words[-1], self._counts[-1])[ahead.row]
        num_classes, num_states = moves.emission.shape[0], self._process.num_states
        pairs, word = np.unique(origin * num_classes + moves.emission_class[ahead.col], return_inverse=True)
        nodes, node = np.unique(word.reshape(-1) * num_states + ahead.col, return_inverse=True)
        self._blocks.append(csr_array((ahead.data, (ahead.row, node.reshape(-1))), shape=(choices.size, nodes.size)))
        self._words.append(nodes // num_states)
        self._states.append(nodes % num_states)
        self._parents.append(pairs // num_classes)
        self._classes.append(pairs % num_classes)

    def tree(self) -> HistoryTree:
        """Return everything in one numbering, time by time."""
        sizes = [states.size for states in self._states]
        level = np.concatenate(([0], np.cumsum(sizes)))
        thresholds = np.array([float(payoff.threshold or 0.0) for payoff in self._requirements])
        return HistoryTree(
            start=np.concatenate((self._start, np.zeros(int(level[-1]) - self._start.size))),
            level=level,
            state=np.concatenate(self._states),
            word=np.concatenate(self._words),
            choice_start=np.concatenate(([0], np.cumsum(np.concatenate(self._counts)))),
            slot=self._moves.slot[np.concatenate(self._choices)],
            steps=tuple(self._blocks),
            rewards=np.concatenate(self._rewards),
            thresholds=thresholds,
            rounding=rounding_share(self._process),
            parents=tuple(self._parents),
            classes=tuple(self._classes),
            secret=self._process.secret[self._states[-1]],
        )


_MOST_ENTRIES = 20_000_000  # (sequence, word) pairs of positive likelihood
_DIGITS = 13  # of the likelihoods that are compared; merging what differs by less only raises the upper bound by less


def observe_tree(tree: HistoryTree, moves: HistoryChoices, *, num_secrets: int, stop: Stop) -> tuple[Any, Cells]:
    """Return sparse [cell, leaf] P(y | leaf) where the leaf has the cell's secret value, and the cells themselves.

    num_secrets: of the process. Raises BudgetError when there are too many pairs of sequences and words, StoppedError
        when
    `stop` is requested.

    A group of the cells is a set of observation sequences y whose likelihoods are proportional: observers learn the
    same from all of them. Groups with which only one secret value can occur are left out: nothing is uncertain there.
    """
    from scipy.sparse import csr_array

    words = _word_likelihoods(tree, moves, stop)
    leaves = words[:, tree.word[tree.leaves]].tocoo()
    keys, cell = np.unique(leaves.row.astype(np.int64) * num_secrets + tree.secret[leaves.col], return_inverse=True)
    cell = cell.reshape(-1)
    group, secret = keys // num_secrets, keys % num_secrets
    kept = np.bincount(group, minlength=words.shape[0])[group] > 1
    number = np.cumsum(kept) - 1
    entries = kept[cell]
    shape = (int(kept.sum()), leaves.shape[1])
    likelihood = csr_array((leaves.data[entries], (number[cell[entries]], leaves.col[entries])), shape=shape)
    _, counts = np.unique(group[kept], return_counts=True)
    return likelihood, Cells.of(np.concatenate(([0], np.cumsum(counts))), secret[kept])


def _word_likelihoods(tree: HistoryTree, moves: HistoryChoices, stop: Stop) -> Any:
    """Return sparse [merged sequence, word of the last time]: P(y | word), summed over the merged.

        P(y_0..y_t | word) = P(y_0..y_(t-1) | the word before) E(y_t | class shown last),

    one time after the other, proportional rows being added at each.
    """
    from scipy.sparse import csr_array

    rows = csr_array(np.ones((1, 1)))
    parents = (np.zeros(tree.classes[0].size, dtype=np.int64), *tree.parents)
    for parent, last_class in zip(parents, tree.classes, strict=True):
        stop.check()
        rows = _merge_proportional(_extend_sequences(rows, parent, moves.emission[last_class]))
    return rows


def _extend_sequences(rows: Any, parent: IntArray, emission: FloatArray) -> Any:
    """Return every sequence followed by every observation, over the words that follow.

    rows: sparse [sequence, word]. parent: [following word] -> word. emission: [following word, observation].
    Raises BudgetError when there would be too many entries.
    """
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
    """Return the rows [sequence, word] with proportional ones added.

    They are compared to 13 digits of their largest entry.
    """
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
