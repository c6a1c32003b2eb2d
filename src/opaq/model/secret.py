"""What must stay hidden: a finite-valued function of the run s_0 .. s_T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from opaq.model.arrays import IntArray
from opaq.model.automaton import Automaton
from opaq.model.content import ByContent


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateClasses(ByContent):
    """A partition of the states: what about a state is secret (the state itself, or which set it is in)."""

    names: tuple[str, ...]
    of_state: IntArray  # [state] -> class


class Secret(ByContent):
    """What must stay hidden; `opaq.product` knows which machine follows each kind."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LastState(Secret):
    """Z = class of s_T (paper, problem 1)."""

    classes: StateClasses


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InitialState(Secret):
    """Z = class of s_0 (paper, problem 2)."""

    classes: StateClasses


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StateAt(Secret):
    """Z = class of s_t for one fixed time t."""

    time: int
    classes: StateClasses


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepsAgo(Secret):
    """Z = class of s_{T-k}."""

    steps: int
    classes: StateClasses


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Visited(Secret):
    """Z = whether any of the states was ever visited."""

    states: IntArray
    name: str = "visited"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Language(Secret):
    """Z = the automaton's state after the run ("progress"), or whether it accepts ("acceptance")."""

    automaton: Automaton
    reveal: Literal["progress", "acceptance"] = "progress"
