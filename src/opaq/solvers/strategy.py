"""The protocol of a solver, how a solve makes one, and the ways a solve can end.

A solver is a strategy with a typed state: `init` makes it, `step` moves it, `done` says how it ended. It does not loop,
print or write; `opaq.solvers.loop` does that for all of them. A `SolverFactory` names a solver and plans its starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.model.arrays import ContentEq, FloatArray
from opaq.solvers.objective import Objective
from opaq.solvers.options import Gradients

UNPROVEN = "not proven globally optimal"  # what a certificate can say more about


class Status(Enum):
    """How a solve, or one start of it, ended. The value is the sentence users read; a solution adds its figures."""

    CONVERGED = f"converged: no small change of the policy does better (a local optimum; {UNPROVEN})"
    PROVEN = "proven: no policy does better by more than the gap asked for"
    COMPLETED = "completed, but not known to be an optimum: convergence is not tested"
    SETTLED = "stopped gaining: the search finds nothing better, but the policy is not a local optimum"
    STOPPED = "stopped at the iteration limit: more iterations may do better"
    EDGE = "meets the task, but no start of the search ended there: the policy was made for the task alone"
    INTERRUPTED = "interrupted: this is the best policy so far"
    TIME_LIMIT = "the time limit was reached: this is the best policy so far"
    INFEASIBLE = "infeasible: no policy at all meets the task"
    NOT_FOUND = "no policy found that meets the task, though the task is not proven infeasible"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(ContentEq):
    """One line of a solver's history, as the solver saw it: estimates where gradients are sampled."""

    iteration: int
    score: float  # sign x uncertainty / scale
    slack: FloatArray  # [requirement]
    multipliers: FloatArray  # [requirement]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepInfo(ContentEq):
    """The policy that one step came to, which may be judged, and its line of the history."""

    iteration: int  # from 1
    theta: FloatArray  # [slot], logits
    trace: Trace


class Solver(Protocol):
    """A strategy whose state is a frozen dataclass of arrays and numbers, so that it can be stored and resumed.

    The state must have the fields `theta` [slot] and `multipliers` [requirement].
    """

    @property
    def name(self) -> str:
        """Return what users call it."""

    @property
    def max_steps(self) -> int:
        """Return the most steps a start takes."""

    @property
    def judge_every(self) -> int:
        """Return how many steps lie between two exact judgements of the policy."""

    def init(self, objective: Objective, theta: FloatArray, *, index: int = 0) -> Any:
        """Return the state to begin with.

        theta: [slot], logits. index: the number of the start; starts may begin in different ways.
        """

    def step(self, objective: Objective, state: Any, rng: np.random.Generator) -> tuple[Any, StepInfo]:
        """Take one step and return the state after it, and the policy that it came to.

        rng: the only source of random numbers. Raises StoppedError when the objective's stop is requested meanwhile.
        """

    def done(self, state: Any) -> Status | None:
        """Return how it ended, or None while it goes on."""


_FEW_BELIEFS, _MANY_BELIEFS = 1_000, 30_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds of one wave of starts, and how many waves there may be; see `opaq.solvers.race`.

    For example rounds of 8, 30 and 120 steps with 4, 2 and 2 starts kept, in waves of 4, 4 and 8 starts: four starts
    take 8 steps each, the better two go on to 30 and to 120; if these two end at different scores, four more begin.
    """

    rounds: tuple[Solver, ...]  # the solver of every round, which differ in how many steps they take in all
    kept: tuple[int, ...]  # how many starts take part in every round
    waves: tuple[int, ...]  # how many starts every wave has; later ones run only if the best starts disagree
    budgets: tuple[Budget | None, ...] = ()  # of the belief graph by round, growing; None: sampled; (): the objective's
    refine: Callable[[Any], Any] | None = None  # makes a solver's state go on after the budget has grown
    rescue: int = 0  # starts of a last wave, which runs only if all before end with nothing to hide though some could
    warm: Callable[[Any], Any] | None = None  # makes the solver of the first round that of a policy known to be good


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """All that a plan of starts depends on: what evaluations cost, and how many optima there may be."""

    gradients: Gradients
    beliefs: int  # of the graph of some policy: what an evaluation costs
    num_starts: int | None = None  # None: by need
    settings: Mapping[str, Any] = field(default_factory=dict)  # the options that the factory names
    many_optima: bool = False  # whether policies of the class often have several local optima
    cuts: tuple[Budget | None, ...] = ()  # growing parts of a large belief graph, None for samples; () where it is not
    timed: bool = False  # whether a time limit ends the search

    @property
    def many_starts(self) -> int:
        """Return the number of starts: as the user says, or as many as suit a solver that needs many."""
        by_need = 32 if self.beliefs <= _FEW_BELIEFS else 24 if self.beliefs <= _MANY_BELIEFS else 12
        return self.num_starts or by_need


@dataclass(frozen=True, slots=True)
class SolverFactory:
    """A solver by name, how its starts are planned, and what it can use.

    `register_solver` makes one known to `solve`, `compare` and the command; docs/extensions.md has an example.
    """

    name: str
    plan: Callable[[PlanRequest], Plan]  # makes its strategies
    options: tuple[str, ...] = ()  # fields of SolveOptions that only this solver takes
    needs_exact: bool = False  # sampled gradients are refused
    samples: int = 2000  # runs of a sampled gradient
    climbs_classes: bool = False  # whether a solve first searches coarser classes, whose policies it begins from
    cuts_if_large: bool = False  # with gradients "auto" its plans climb the heaviest beliefs of a graph that is large


def single_round(solver: Solver, request: PlanRequest) -> Plan:
    """Return the plan in which every start runs to its end, all in one wave."""
    return Plan((solver,), (request.many_starts,), (request.many_starts,))
