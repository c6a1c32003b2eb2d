"""What words of emissions show the observer: masses of (word, secret) to masses of (observation sequence, secret).

An agent that sees no observation has histories, of which the observer is shown y with the probability
prod_t E(y_t | k_t), where k_t is the kind of emission at time t: the word k_0 .. k_T is all that matters. Words are
many and so are sequences, but what leads from one to the other is a product over times. It is carried out time by
time, the last one first: with A_t(k_0 .. k_t; y_(t+1) .. y_T, z),

    A_(t-1)(k_0 .. k_(t-1); y_t .. y_T, z) = sum over k_t of E(y_t | k_t) A_t(k_0 .. k_t; y_(t+1) .. y_T, z),

from A_T(word; z), the masses of words, to A_(-1)(; y, z), those of cells. What is in between is large neither at the
beginning nor at the end, and no table of pairs (word, sequence) is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from opaq.kernel_cache import kernel
from opaq.model.arrays import FloatArray, IndexArray, IntArray, indices
from opaq.threads import map_in_threads

_LONG = 1 << 20  # numbers: work on fewer takes hardly longer than a thread does to begin


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of all times, and the cells (observation sequence, secret) that some word leads to."""

    parent: tuple[IndexArray, ...]  # [time][word] -> word one time before; at time 0: 0
    kind: tuple[IndexArray, ...]  # [time][word] -> kind of emission that it ends with
    chance: FloatArray  # [kind, observation]
    num_secrets: int
    cells: IndexArray  # [cell] -> its place among all pairs (sequence, secret)
    room: tuple[FloatArray, FloatArray]  # two arrays of work space: every A_t has its place in one of them, in turns

    @classmethod
    def of(cls, codes: list[IntArray], chance: FloatArray, *, num_secrets: int, possible: IntArray) -> Words:
        """Lay out the words, and find the cells.

        codes: [time][word], the number whose digits, in the base of the number of kinds, are its kinds.
        chance: [kind, observation]. possible: pairs (word of the last time, secret) that occur, each as one number.
        """
        base, parents = chance.shape[0], [indices(np.zeros(codes[0].size))]
        for before, code in pairwise(codes):
            order = np.argsort(before)
            parents.append(indices(order[np.searchsorted(before[order], code // base)]))
        kinds, none = tuple(indices(code % base) for code in codes), indices(np.zeros(0))
        occurs = np.zeros(codes[-1].size * num_secrets)
        occurs[possible] = 1.0
        sizes = _sizes([code.size for code in codes], chance.shape[1], num_secrets)
        room = np.zeros(max(sizes[::2])), np.zeros(max(sizes[1::2]))
        shown = cls(tuple(parents), kinds, (chance > 0.0).astype(np.float64), num_secrets, none, room)
        return replace(shown, chance=chance, cells=indices(np.flatnonzero(shown.push(occurs))))

    @property
    def secret(self) -> IntArray:
        """Return [cell] -> secret value."""
        return (self.cells % self.num_secrets).astype(np.int64)

    @property
    def sequence(self) -> IntArray:
        """Return [cell] -> observation sequence, ascending."""
        return (self.cells // self.num_secrets).astype(np.int64)

    def emit(self, mass: FloatArray, *, workers: int) -> FloatArray:
        """Return the masses of cells. mass: [word of the last time, secret]. workers: the most threads."""
        everywhere, masses = self.push(mass, workers=workers), np.empty(self.cells.size)
        _share(lambda low, high: _gather(everywhere, self.cells, masses, low, high), _cut(masses.size, workers))
        return masses

    def expect(self, values: FloatArray, *, workers: int) -> FloatArray:
        """Return [word of the last time, secret] what the cells are worth that it leads to, on average.

        values: [cell]. workers: the most threads.
        """
        size = self.chance.shape[1]
        width = size ** len(self.parent) * self.num_secrets
        after = self.room[0][:width]
        spread = after  # what pairs that are no cells are worth is multiplied by 0
        _share(lambda low, high: _scatter(values, self.cells, spread, low, high), _cut(values.size, workers))
        for time, (parent, kind) in enumerate(zip(self.parent, self.kind, strict=True)):
            width //= size
            before = self.room[(time + 1) % 2][: parent.size * width]
            how = (parent, kind, self.chance, after, before, width)
            _share(lambda *part, how=how: _pull_words(*how, *part), _cut_words(parent, width, workers))
            after = before
        return after.copy()

    def push(self, mass: FloatArray, *, workers: int = 1) -> FloatArray:
        """Return the masses of all pairs (sequence, secret). mass: [word of the last time, secret]."""
        width, size = self.num_secrets, self.chance.shape[1]
        for time in range(len(self.parent) - 1, -1, -1):
            count = self.parent[time - 1].size if time else 1
            after = self.room[time % 2][: count * size * width]
            after.fill(0.0)
            how = (self.parent[time], self.kind[time], self.chance, mass, after, width)
            parts = _cut_words(self.parent[time], width, workers)
            _share(lambda *part, how=how: _push_words(*how, *part), parts)
            mass, width = after, width * size
        return mass


def count_values(counts: list[int], num_observations: int, num_secrets: int) -> int:
    """Return how many numbers of work space words need. counts: [time], how many words there are."""
    sizes = _sizes(counts, num_observations, num_secrets)
    return max(sizes[::2]) + max(sizes[1::2])


def _sizes(counts: list[int], num_observations: int, num_secrets: int) -> list[int]:
    """Return how many numbers A_(-1), .., A_T have. counts: [time], how many words there are."""
    times = len(counts)
    return [count * num_observations ** (times - time) * num_secrets for time, count in enumerate([1, *counts])]


def _share(work: Callable[..., None], parts: list[tuple[int, ...]]) -> None:
    """Do work in threads, one for each of its parts."""
    for _ in map_in_threads(lambda part: work(*part), parts, workers=len(parts)):
        pass


def _cut(size: int, parts: int) -> list[tuple[int, ...]]:
    """Return where each of some parts of a size begins and ends; only one where threads would gain nothing."""
    cuts = np.linspace(0, size, (parts if size >= _LONG else 1) + 1).astype(np.int64)
    return list(pairwise(cuts.tolist()))


def _cut_words(parent: IndexArray, width: int, parts: int) -> list[tuple[int, ...]]:
    """Return parts of all words and their rests (as the kernels below take them) of which no two write the same.

    parent: [word], ascending. width: the rests of a word.
    """
    if parts == 1 or parent.size * width < _LONG:
        return [(0, parent.size, 0, width)]
    if width > parent.size:
        return [(0, parent.size, *part) for part in pairwise(np.linspace(0, width, parts + 1).astype(int).tolist())]
    cuts = np.searchsorted(parent, parent[np.linspace(0, parent.size - 1, parts + 1).astype(int)])
    cuts[-1] = parent.size
    return [(*part, 0, width) for part in pairwise(cuts.tolist())]


@kernel
def _push_words(parent, kind, chance, mass, after, width, first_word, end_word, first_rest, end_rest):
    """Add A_(t-1) to `after`: the masses of shorter words with one more observation to come.

    parent, kind: [word]. chance: [kind, observation]. mass: [(word, rest)], where `width` rests follow a word.
    after: [(shorter word, observation, rest)]. The last four arguments say which words and rests are pushed.
    """
    size = chance.shape[1]
    for word in range(first_word, end_word):
        first = word * width
        for observation in range(size):
            share = chance[kind[word], observation]
            if share > 0.0:
                place = (parent[word] * size + observation) * width
                for rest in range(first_rest, end_rest):
                    after[place + rest] += share * mass[first + rest]


@kernel
def _pull_words(parent, kind, chance, after, values, width, first_word, end_word, first_rest, end_rest):
    """Write the values of words: the mean over one observation more of what is worth `after`, as in `_push_words`."""
    size = chance.shape[1]
    for word in range(first_word, end_word):
        first = word * width
        for rest in range(first_rest, end_rest):
            values[first + rest] = 0.0
        for observation in range(size):
            share = chance[kind[word], observation]
            if share > 0.0:
                place = (parent[word] * size + observation) * width
                for rest in range(first_rest, end_rest):
                    values[first + rest] += share * after[place + rest]


@kernel
def _gather(everywhere, cells, masses, first, end):
    """Write the masses of some cells, from those of all pairs (sequence, secret)."""
    for cell in range(first, end):
        masses[cell] = everywhere[cells[cell]]


@kernel
def _scatter(values, cells, everywhere, first, end):
    """Write what some cells are worth where they are among all pairs (sequence, secret)."""
    for cell in range(first, end):
        everywhere[cells[cell]] = values[cell]
