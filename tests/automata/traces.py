"""What formulas mean, said as directly as possible: the definition of LTLf, for all words of a length at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, product

import numpy as np

from opaq.automata.formula import BINARY, FUTURE, PAST, UNARY, Formula
from opaq.model.automaton import Automaton

Letter = frozenset[str]
Truth = np.ndarray  # [word] -> whether it holds


def all_letters(labels: Sequence[str]) -> tuple[Letter, ...]:
    sizes = (combinations(labels, size) for size in range(len(labels) + 1))
    return tuple(frozenset(chosen) for chosen in chain.from_iterable(sizes))


def words(letters: Sequence[Letter], longest: int) -> Iterator[list[tuple[Letter, ...]]]:
    """All words of length 1, then all of length 2, ..."""
    for length in range(1, longest + 1):
        yield list(product(letters, repeat=length))


def satisfies(formula: Formula, given: Sequence[tuple[Letter, ...]]) -> list[bool]:
    """A formula about the future is judged at the first position, one about the past at the last."""
    at = len(given[0]) - 1 if formula.kinds() & PAST else 0
    return truths(formula, given)[at].tolist()


def truths(formula: Formula, given: Sequence[tuple[Letter, ...]]) -> list[Truth]:
    """At every position, the words (all of one length) for which the formula holds there."""
    end = len(given[0])
    parts = [truths(part, given) for part in formula.parts]
    return [_at(formula, parts, given, at, end) for at in range(end)]


def _some(cases: Iterator[Truth], count: int) -> Truth:
    return np.logical_or.reduce([np.zeros(count, dtype=bool), *cases])


def _every(cases: Iterator[Truth], count: int) -> Truth:
    return np.logical_and.reduce([np.ones(count, dtype=bool), *cases])


def _at(formula: Formula, parts: list[list[Truth]], given: Sequence[tuple[Letter, ...]], at: int, end: int) -> Truth:
    count = len(given)
    no, yes = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    one = parts[0] if parts else []
    two = parts[1] if len(parts) > 1 else []

    def until(first: list[Truth], second: list[Truth]) -> Truth:
        return _some((second[k] & _every((first[j] for j in range(at, k)), count) for k in range(at, end)), count)

    meanings: dict[str, Callable[[], Truth]] = {
        "true": lambda: yes,
        "false": lambda: no,
        "last": lambda: yes if at == end - 1 else no,
        "label": lambda: np.array([formula.label in word[at] for word in given]),
        "not": lambda: ~one[at],
        "and": lambda: _every((part[at] for part in parts), count),
        "or": lambda: _some((part[at] for part in parts), count),
        "implies": lambda: ~one[at] | two[at],
        "iff": lambda: one[at] == two[at],
        "next": lambda: one[at + 1] if at + 1 < end else no,
        "weak_next": lambda: one[at + 1] if at + 1 < end else yes,
        "eventually": lambda: _some((one[k] for k in range(at, end)), count),
        "always": lambda: _every((one[k] for k in range(at, end)), count),
        "until": lambda: until(one, two),
        "weak_until": lambda: until(one, two) | _every((one[k] for k in range(at, end)), count),
        "release": lambda: _every(
            (two[k] | _some((one[j] for j in range(at, k)), count) for k in range(at, end)), count
        ),
        "strong_release": lambda: _some(
            (one[k] & _every((two[j] for j in range(at, k + 1)), count) for k in range(at, end)), count
        ),
        "yesterday": lambda: one[at - 1] if at else no,
        "weak_yesterday": lambda: one[at - 1] if at else yes,
        "once": lambda: _some((one[k] for k in range(at + 1)), count),
        "historically": lambda: _every((one[k] for k in range(at + 1)), count),
        "since": lambda: _some(
            (two[k] & _every((one[j] for j in range(k + 1, at + 1)), count) for k in range(at + 1)), count
        ),
    }
    return meanings[formula.kind]()


def accepts(automaton: Automaton, given: Sequence[tuple[Letter, ...]]) -> list[bool]:
    """Which of the words the automaton accepts, by single steps."""
    known: dict[tuple[int, Letter], int] = {}
    found = []
    for word in given:
        state = automaton.initial
        for letter in word:
            if (state, letter) not in known:
                known[state, letter] = automaton.step(state, letter)
            state = known[state, letter]
        found.append(state in automaton.accepting)
    return found


def random_formula(rng: random.Random, labels: Sequence[str], size: int, *, past: bool = False) -> Formula:
    kinds = PAST if past else FUTURE
    if size <= 1:
        leaves = [Formula("label", label) for label in labels for _ in range(4)]
        return rng.choice([*leaves, Formula("true"), Formula("false"), *([] if past else [Formula("last")])])
    if size == 2 or rng.random() < 0.4:
        unary = sorted({"not", *(kind for kind in UNARY if kind in kinds)})
        return Formula(rng.choice(unary), parts=(random_formula(rng, labels, size - 1, past=past),))
    binary = sorted({"and", "or", "implies", "iff", *(kind for kind in BINARY if kind in kinds)})
    left = rng.randint(1, size - 2)
    parts = tuple(random_formula(rng, labels, part, past=past) for part in (left, size - 1 - left))
    return Formula(rng.choice(binary), parts=parts)
