"""Deterministic automata over labels, as users draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opaq.model.content import ByContent
from opaq.model.guard import Guard


@dataclass(frozen=True, slots=True)
class Edge:
    """One arrow: taken when its guard holds for the labels read."""

    source: int
    target: int
    guard: Guard


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Automaton(ByContent):
    """States and guarded edges; edges are tried in order, and no match means stay.

    `reads` says which label moves it: that of the state entered (starting with s_0), or of the state left.
    """

    states: tuple[str, ...]
    initial: int
    accepting: frozenset[int]
    edges: tuple[Edge, ...]
    reads: Literal["entered", "left"] = "entered"

    def step(self, state: int, labels: frozenset[str]) -> int:
        """The state after reading one set of labels."""
        for edge in self.edges:
            if edge.source == state and edge.guard.holds(labels):
                return edge.target
        return state
