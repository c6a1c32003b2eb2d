"""Agents that see the observations with a delay: between those that see all of them and those that see none.

Policies that do not see the observations are also policies of an agent that sees o_0 .. o_(t-d) at time t, so a bound
for that agent holds for them, the tighter the longer the delay d; from d = T + 1 on it sees none. The agent knows
x_0 .. x_t, and of these only the window (x_(t-d), .., x_t) matters beside what the machine has read: the older states
have shown all they will show, and of those that wait it matters only how they emit. Once x_(t-d) has emitted, windows
that differ only in it are alike. So a delayed agent is an ordinary one on a process of windows (kinds of emission, then
the newest state) that emits, at time t, what x_(t-d) emits (nothing while t < d); at the end the states that are still
waiting emit together.

Windows are many where the delay is half of the horizon, and fewer again where it is all of it: an agent that sees no
observation at all is an ordinary one that sees the kind of emission of every state (`reveal_kinds`), and what these
words of kinds show the observer is worked out at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.certificates.decoder.numbering import number_distinct
from opaq.errors import BudgetError
from opaq.model.arrays import IntArray, SparseRows, distinct, expand_rows, floats, indices, ints
from opaq.product.process import Edges, HiddenProcess, Pairs

MOST_WINDOWS = 400_000
_LARGEST_CODE = 2**62  # windows are numbered in 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A process of windows of product states, and what they stand for; with delay 0 the process itself.

    unseen: whether the agent sees no observation at all: windows are then product states, and the observations of the
        process are the kinds of their emissions, which the observer does not see.
    """

    delay: int
    process: HiddenProcess  # whose states are windows; its last observation stands for "nothing yet"
    newest: IntArray  # [window] -> product state
    waiting: IntArray  # [window, delay] -> kinds of the states that have not emitted yet, oldest first; -1: none
    emission: SparseRows  # [kind, observation]
    alike: IntArray  # [window] -> the first of those that differ only in the oldest state, which has emitted
    alike_pair: IntArray  # [(window, observation)] -> the same for pairs
    unseen: bool = False

    @property
    def late(self) -> bool:
        """Return whether the agent sees the observations late or never, so that others are not bounded."""
        return self.unseen or self.delay > 0


def delay_observations(process: HiddenProcess, delay: int, *, most: int = MOST_WINDOWS) -> Windows:
    """Return the process on windows of `delay` + 1 product states in which every emission comes `delay` steps late.

    most: how many windows there may be. Raises BudgetError when there are more.
    """
    if delay == 0:
        states, none = np.arange(process.num_states), np.zeros((process.num_states, 0), int)
        return Windows(0, process, states, none, process.emission, states, np.arange(process.emission.columns.size))
    kind, emission_of = _emission_kinds(process)
    base, kinds = process.num_states + 1, emission_of.starts.size
    if base * kinds**delay >= _LARGEST_CODE:
        raise BudgetError(f"windows of {delay + 1} states of {process.num_states} are too many to number")
    first = int(process.edge_start[process.num_states])
    span = kinds ** (delay - 1)

    def follow(codes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return (position in codes, edge of the process, code after it); see `codes`."""
        state = codes % base - 1
        owner, edge = expand_rows(process.edge_start, state)
        older = (codes // base % span * kinds + kind[state] + 1)[owner]
        return owner, edge, older * base + process.edge_target[edge] + 1

    # A code has a digit per state of the window, oldest first: the kind of emission + 1, last the newest state + 1.
    codes = frontier = distinct(process.edge_target[first:] + 1)
    while frontier.size:
        frontier = np.setdiff1d(distinct(follow(frontier)[2]), codes, assume_unique=True)
        codes = np.sort(np.concatenate((codes, frontier)))
        if codes.size > most:
            raise BudgetError(f"there are more than {most:,} windows of {delay + 1} states")
    owner, edge, after = follow(codes)
    newest = codes % base - 1
    digits = codes[:, None] // base // kinds ** np.arange(delay - 1, -1, -1) % kinds - 1  # [window, delay]
    oldest, waiting = digits[:, 0], np.column_stack((digits[:, 1:], kind[newest]))
    counts = np.append(np.bincount(owner, minlength=codes.size), process.edge_target.size - first)
    edge_start = np.concatenate(([0], np.cumsum(counts)))
    target = np.searchsorted(codes, np.concatenate((after, process.edge_target[first:] + 1)))
    kept = np.concatenate((edge, np.arange(first, process.edge_target.size)))
    shown = np.flatnonzero(oldest >= 0)
    position, entry = expand_rows(emission_of.starts, oldest[shown])
    silent = np.flatnonzero(oldest < 0)
    emission = SparseRows.from_entries(
        np.concatenate((shown[position], silent)),
        np.concatenate((emission_of.columns[entry], np.full(silent.size, process.num_observations))),
        np.concatenate((emission_of.values[entry], np.ones(silent.size))),
        shape=(codes.size, process.num_observations + 1),
    )
    secret = process.secret[newest]
    delayed = replace(
        process,
        edge_start=ints(edge_start),
        edge_target=ints(target),
        edges=Edges(indices(edge_start), indices(target)),
        edge_base=floats(process.edge_base[kept]),
        edge_slots=process.edge_slots.take(kept),
        payoffs=tuple(replace(one, slots=one.slots.take(newest), final=one.final[newest]) for one in process.payoffs),
        emission=emission,
        pairs=Pairs.of(emission, secret),
        secret=ints(secret),
        settled=ints(process.settled[newest]),
        lasting=ints(process.lasting[newest]),
        row=ints(process.row[newest]),
        num_observations=process.num_observations + 1,
    )
    alike = _first_alike(codes % (base * span))
    pairs = _first_alike(alike[emission.row_of_entry()] * delayed.num_observations + emission.columns)
    return Windows(delay, delayed, ints(newest), ints(waiting), emission_of, ints(alike), ints(pairs))


def reveal_kinds(process: HiddenProcess) -> Windows:
    """Return the process whose observations are the kinds of emission, for an agent that sees no real observation.

    Of a history x_0 .. x_t it matters what x_0 .. x_(t-1) may have shown, and x_t: histories with the same word of
    kinds that end in the same state are one. No secret counts as settled, since the observer does not see the word.
    """
    kind, emission_of = _emission_kinds(process)
    states = np.arange(process.num_states)
    shape = (process.num_states, emission_of.starts.size - 1)
    emission = SparseRows.from_entries(states, kind, np.ones(kind.size), shape=shape)
    revealed = replace(
        process,
        emission=emission,
        pairs=Pairs.of(emission, process.secret),
        settled=ints(np.full(kind.size, -1)),
        num_observations=shape[1],
    )
    none = np.zeros((process.num_states, 0), dtype=np.int64)
    return Windows(0, revealed, ints(states), none, emission_of, ints(states), ints(states), unseen=True)


def _first_alike(codes: IntArray) -> IntArray:
    """Return [position]: the first position that has the same code."""
    number, example = number_distinct(codes)
    return np.asarray(example[number])


def _emission_kinds(process: HiddenProcess) -> tuple[IntArray, SparseRows]:
    """Return [product state] -> its kind, the same for states that emit alike, and [kind, observation] emissions."""
    emission = process.emission
    numbers = dict[bytes, int]()
    kind, examples = np.zeros(process.num_states, dtype=np.int64), list[int]()
    for state in range(process.num_states):
        row = slice(emission.starts[state], emission.starts[state + 1])
        alike = emission.columns[row].tobytes() + emission.values[row].tobytes()
        if alike not in numbers:
            numbers[alike] = len(examples)
            examples.append(state)
        kind[state] = numbers[alike]
    owner, entry = expand_rows(emission.starts, np.array(examples, dtype=np.int64))
    shape = (len(examples), process.num_observations)
    return kind, SparseRows.from_entries(owner, emission.columns[entry], emission.values[entry], shape=shape)
