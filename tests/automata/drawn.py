"""Random automata, and damage done to texts."""

from __future__ import annotations

import random

from opaq.automata.dfa import tabulate
from opaq.model.automaton import Automaton, Edge, parse_guard

LETTERS = tuple(frozenset(letter) for letter in ("", "a", "b", "ab"))
GUARDS = ["a", "!a", "b", "a & !b", "a | b", "!(a & b)", "(a & b) | (!a & !b)", "true", "false"]
SIGNS = '[]{}()!&|"\\\n-0123456789atf:=;>,./*#@\x00é'
NAMES = ["q0", "two words", 'a "quote"', "back\\slash", "ünï", "start", "graph"]


def random_automaton(rng: random.Random) -> Automaton:
    size = rng.randint(1, len(NAMES))
    edges = [
        Edge(rng.randrange(size), rng.randrange(size), parse_guard(rng.choice(GUARDS)))
        for _ in range(rng.randint(0, 12))
    ]
    accepting = frozenset(rng.sample(range(size), rng.randint(0, size)))
    reads = rng.choice(["entered", "left"])
    return Automaton(tuple(rng.sample(NAMES, size)), rng.randrange(size), accepting, tuple(edges), reads)


def same(one: Automaton, other: Automaton) -> bool:
    """The same states do the same on every letter."""
    parts = [
        (each.states, each.initial, each.accepting, each.reads, tabulate(each, LETTERS).tolist())
        for each in (one, other)
    ]
    return parts[0] == parts[1]


def damaged(text: str, rng: random.Random) -> str:
    """A text with a few characters changed, pieces cut, doubled or swapped."""
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randint(0, len(text)) for _ in range(2))
        end = min(end, at + rng.choice([1, 3, 20]))
        piece = rng.choice(
            ["", rng.choice('[]{}()!&|"\\\n-0123456789atf:=;>,./*#@\x00é'), text[at:end] * 2, "99999999999999"]
        )
        text = text[:at] + piece + text[end:]
    return text
