"""What a solve must know of a solver: how it is made, which starts it runs for how long, what it can use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opaq.solvers.options import Gradients
from opaq.solvers.strategy import Solver

_FEW_BELIEFS, _MANY_BELIEFS = 1_000, 30_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds of one wave of starts, and how many waves there may be."""

    rounds: tuple[Solver, ...]  # the solver of every round, which differ in how many steps they take in all
    kept: tuple[int, ...]  # how many starts take part in every round
    waves: tuple[int, ...]  # how many starts every wave has; later ones run only if the best starts disagree


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan depends on."""

    gradients: Gradients
    beliefs: int  # of the graph of some policy: what an evaluation costs
    num_starts: int | None = None  # None: by need
    settings: Mapping[str, Any] = field(default_factory=dict)  # the options that the factory names
    many_optima: bool = False  # whether policies of the class often have several local optima

    @property
    def many_starts(self) -> int:
        """The starts asked for, or as many as suit a solver that needs many."""
        by_need = 32 if self.beliefs <= _FEW_BELIEFS else 24 if self.beliefs <= _MANY_BELIEFS else 12
        return self.num_starts or by_need


@dataclass(frozen=True, slots=True)
class SolverFactory:
    """A solver by name; `plan` makes its strategies."""

    name: str
    plan: Callable[[PlanRequest], Plan]
    options: tuple[str, ...] = ()  # fields of SolveOptions that only this solver takes
    needs_exact: bool = False  # sampled gradients are refused
    samples: int = 2000  # runs of a sampled gradient
    samples_if_large: bool = False  # gradients "auto" are sampled where the belief graph does not fit the budget


def to_the_end(solver: Solver, request: PlanRequest) -> Plan:
    """Every start runs to its end, all in one wave."""
    return Plan((solver,), (request.many_starts,), (request.many_starts,))
