"""The one loop for all solvers: step, judge, report, store."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from opaq.model.arrays import ShortRepr
from opaq.solvers.judge import Candidate, judge
from opaq.solvers.objective import Objective
from opaq.solvers.starts import Start
from opaq.solvers.strategy import Solver, Status, Trace
from opaq.stop import StoppedError


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Progress(ShortRepr):
    """What is told after a step of one start: enough to keep the best policy so far."""

    place: int
    trace: Trace
    best: Candidate | None
    seconds: float
    share: float = 0.0  # of the steps planned at most for all starts, how many are done
    unstored: str = ""  # why its checkpoint could not be written


@dataclass(slots=True)
class SolverCheckpoint:
    """All that one start needs to go on exactly where it stopped."""

    state: Any
    rng: np.random.Generator
    best: Candidate | None
    traces: list[Trace]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartResult(ShortRepr):
    """How one start ended."""

    place: int
    kind: str
    status: Status
    best: Candidate | None  # None: it was stopped before any policy was judged
    iterations: int
    traces: tuple[Trace, ...]
    seconds: float
    end: SolverCheckpoint


class Keeper(Protocol):
    """Where snapshots of one start are kept."""

    def load(self) -> SolverCheckpoint | None:
        """The last snapshot, if there is one."""

    def store(self, now: SolverCheckpoint, *, final: bool) -> str:
        """Keep a snapshot; the final one always, others if it is time. Returns why it could not be, or nothing."""


def run_start(
    objective: Objective,
    solver: Solver,
    start: Start,
    *,
    seed: int,
    on_step: Callable[[Progress], None] | None = None,
    keeper: Keeper | None = None,
    begin: SolverCheckpoint | None = None,
    judge_every: int = 1,
) -> StartResult:
    """Run one start to its end, from its beginning or from a snapshot `begin`.

    The same arguments give the same result, however often the run was stopped and resumed. When the objective's stop
    is requested it ends within moments, as it was after its last complete step.
    """
    begun = perf_counter()
    now = (keeper.load() if keeper else None) or begin or _fresh(objective, solver, start, seed)
    while (status := solver.done(now.state)) is None:
        try:
            now = _advance(objective, solver, now, judge_every=judge_every)
        except StoppedError:
            status = Status.INTERRUPTED
            break
        unstored = keeper.store(now, final=solver.done(now.state) is not None) if keeper is not None else ""
        if on_step is not None:
            on_step(Progress(start.place, now.traces[-1], now.best, perf_counter() - begun, unstored=unstored))
    if keeper is not None and status is Status.INTERRUPTED and now.traces:
        keeper.store(now, final=True)
    seconds = perf_counter() - begun
    return StartResult(start.place, start.kind, status, now.best, len(now.traces), tuple(now.traces), seconds, now)


def _advance(objective: Objective, solver: Solver, now: SolverCheckpoint, *, judge_every: int) -> SolverCheckpoint:
    """One step and its judgement. Raises StoppedError, and leaves `now` as it was, when asked to stop meanwhile."""
    rng = deepcopy(now.rng)
    state, info = solver.step(objective, now.state, rng)
    best = now.best
    if info.iteration % judge_every == 0 or solver.done(state) is not None:
        judged = judge(objective, info.theta)
        best = judged if judged.beats(best) else best
    now.traces.append(info.trace)
    return SolverCheckpoint(state, rng, best, now.traces)


def _fresh(objective: Objective, solver: Solver, start: Start, seed: int) -> SolverCheckpoint:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, start.place)))
    return SolverCheckpoint(solver.init(objective, start.theta, place=start.place), rng, None, [])
