"""What every solver is: typed state, a step, and a test for being done; no loop, no printing, no files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.solvers.objective import Objective
from opaq.solvers.status import Status


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace(ByContent):
    """One line of a solver's history, as the solver saw it."""

    iteration: int
    score: float
    slack: FloatArray  # [requirement]
    multipliers: FloatArray  # [requirement]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepInfo(ByContent):
    """What one step did."""

    iteration: int
    theta: FloatArray
    trace: Trace


class Solver(Protocol):
    """A strategy; `State` is a frozen dataclass of arrays and numbers, so that it can be stored and resumed."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def max_steps(self) -> int:
        """The most steps a start takes."""

    @property
    def judge_every(self) -> int:
        """How many steps lie between two exact judgements of the policy."""

    def init(self, objective: Objective, theta: FloatArray, *, place: int = 0) -> Any:
        """The state to begin with; `place` numbers the starts, which may begin in different ways."""

    def step(self, objective: Objective, state: Any, rng: np.random.Generator) -> tuple[Any, StepInfo]:
        """One step."""

    def done(self, state: Any) -> Status | None:
        """How it ended, or None."""
