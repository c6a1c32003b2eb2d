"""One start of a solve: step, evaluate exactly, report, store, until the solver is done.

A solver proposes logits; `judge` decides what they are worth. It moves a policy that misses a threshold by very little
onto the feasible side and evaluates it exactly (or, where the belief graph does not fit the budget, by its certain
side), so that solvers of every kind are compared by the same figure.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.model.arrays import ContentEq, FloatArray, ShortRepr
from opaq.opacity.levels import Levels
from opaq.product.process import LARGEST_LOGIT
from opaq.solvers.objective import Objective
from opaq.solvers.starts import Start
from opaq.solvers.strategy import Solver, Status, Trace
from opaq.stop import Deadline, Stop, StoppedError

if TYPE_CHECKING:
    from opaq.solvers.runs import Checkpoint  # which stores what is defined here

NO_SECRET = 1e-6  # bits of H(Z) up to which a policy has nothing to hide
_MARGIN = 1e-12  # aimed at beyond the threshold, so that rounding does not undo the repair
_MAX_DEFICIT = 1e-2  # a policy that misses by more of the scale than this is not repaired
_LEAST_ERROR = 1e-12  # of an estimate whose draws all agree: it is one still
_JUDGING_SEED, _JUDGING_NODES, _LEAST_NODES = 0x0BAC, 4_000, 32  # beliefs of an estimate: in all, and per level


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Candidate(ContentEq):
    """A policy and its exact (or certified lower) score; only one with every slack >= 0 is feasible."""

    theta: FloatArray  # [slot], logits
    score: float  # sign x uncertainty / scale, as the objective has it
    slack: FloatArray  # [requirement], in units of max(1, |threshold|); rounding is added where a threshold is missed
    error: float = 0.0  # the standard error of a score that is an estimate (sampled gradients), in its unit
    beliefs: int = 0  # that the score rests on; 0 where it is an estimate
    dropped: float = 0.0  # the probability that these leave out

    @property
    def feasible(self) -> bool:
        """Return whether every requirement holds, up to rounding."""
        return bool((self.slack >= 0.0).all())

    @property
    def is_estimate(self) -> bool:
        """Return whether the score is an estimate, which proves nothing."""
        return self.error > 0.0

    def beats(self, other: Candidate | None) -> bool:
        """Return whether this is the better answer: feasible, then of higher score, then with less violation.

        other: None is no answer, which any beats.
        """
        if other is None or self.feasible != other.feasible:
            return other is None or self.feasible
        if self.feasible:
            return self.score > other.score
        return float(self.slack.min()) > float(other.slack.min())


def has_no_secret(objective: Objective, theta: FloatArray) -> bool:
    """Return whether (nearly) all runs of a policy have one value of the secret, so that it has nothing to hide.

    Where the least of all moments counts, at every one of them. theta: [slot], logits.
    """
    target = objective.target
    if isinstance(target, Levels):
        target = replace(target, unseen=target.unseen and replace(target.unseen, least=None))
    return target.prior(objective.process.softmax(theta), stop=Stop())[0] <= NO_SECRET


def judge(objective: Objective, theta: FloatArray, *, within: Stop | None = None) -> Candidate:
    """Repair a small violation of the task, then evaluate the policy.

    Where gradients are sampled the score is an estimate too; those of all policies use the same random numbers.

    theta: [slot], logits.
    within: evaluate in the time that this stop leaves; where there is too little for an estimate, exactly as far as it
        goes: what has not been looked at then counts as nothing. Without it the objective's own stop holds, and
        StoppedError is raised when it is requested.
    """
    objective = objective if within is None else replace(objective, stop=within)
    theta = repair(objective, theta)
    process, target, pi = objective.process, objective.target, objective.process.softmax(theta)
    score, error, beliefs, dropped = -np.inf, 0.0, 0, 0.0
    if objective.gradients == "sampled":
        rng = np.random.default_rng(_JUDGING_SEED)
        nodes = max(_JUDGING_NODES // max(process.horizon, 1), _LEAST_NODES)
        try:
            mean, deviation = target.estimate(pi, nodes=nodes, rng=rng, stop=objective.stop)
            score, error = objective.sign * mean / target.scale, max(deviation / target.scale, _LEAST_ERROR)
        except StoppedError:
            if within is None:
                raise
    if error == 0.0:
        amount, beliefs, dropped = target.evaluate(pi, budget=objective.budget, stop=objective.stop)
        score = (amount.lower if objective.sign > 0 else -amount.upper) / target.scale
    slack = objective.slack(theta)
    if within is None:
        objective.stop.check()
    if (slack < 0.0).any():
        slack = slack + np.where(slack < 0.0, objective.tolerances(process.softmax(theta)), 0.0)
    slack = np.asarray(slack / np.maximum(1.0, np.abs(objective.thresholds())))
    return Candidate(theta, score, slack, error, beliefs, dropped)


def repair(objective: Objective, theta: FloatArray) -> FloatArray:
    """Return the nearest logits along the gradients of the violated requirements that meet them, if a small step does.

    theta: [slot], logits; returned as they are where nothing is violated, or too much, and when the objective's stop is
    requested. Each of at most twelve steps solves slopes x step = missing slack by least squares.
    """
    first, scales = theta, objective.scales
    for _ in range(12):
        slack = objective.slack(theta)
        if not slack.size or slack.min() >= 0.0:
            return theta
        if (slack / scales).min() < -_MAX_DEFICIT:
            return first
        missed = slack < 1e-9 * scales
        try:
            slopes = objective.slack_gradients(theta)[1][missed]
        except StoppedError:
            return first
        aim = np.maximum(-slack[missed], 0.0) * (1.0 + 1e-6) + _MARGIN * scales[missed]
        step = np.linalg.lstsq(slopes, aim, rcond=None)[0]
        theta = np.clip(theta + step, -LARGEST_LOGIT, LARGEST_LOGIT)
    return theta


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Progress(ShortRepr):
    """The report of one step of one start: enough to keep the best policy so far."""

    index: int  # of the start
    trace: Trace
    best: Candidate | None
    seconds: float
    share: float = 0.0  # of the steps planned at most for all starts, how many are done
    unstored: str = ""  # why its checkpoint could not be written


@dataclass(slots=True)
class SolverCheckpoint:
    """All that one start needs to go on exactly where it stopped: a resumed run ends as one that was not stopped."""

    state: Any  # of the solver
    rng: np.random.Generator
    best: Candidate | None
    traces: list[Trace]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StartResult(ShortRepr):
    """How one start ended, the best policy it met and its whole history."""

    index: int
    kind: str
    status: Status
    best: Candidate | None  # None: it was stopped before any policy was judged
    iterations: int
    traces: tuple[Trace, ...]
    seconds: float
    end: SolverCheckpoint


def run_start(
    objective: Objective,
    solver: Solver,
    start: Start,
    *,
    seed: int,
    on_step: Callable[[Progress], None] | None = None,
    file: Checkpoint | None = None,
    begin: SolverCheckpoint | None = None,
    judge_every: int = 1,
) -> StartResult:
    """Run one start to its end.

    The same arguments give the same result, however often the run was stopped and resumed. When the objective's stop
    is requested it ends within moments, as it was after its last complete step.

    seed: of the random numbers of the solver, with the index of the start.
    on_step: called after every step.
    file: stores checkpoints; the one that it holds already is where the start goes on.
    begin: where the start goes on otherwise; None: at its initial policy.
    judge_every: how many steps lie between two exact evaluations.
    """
    clock = Deadline()
    now = (file.load() if file is not None else None) or begin
    if now is None:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, start.index)))
        now = SolverCheckpoint(solver.init(objective, start.theta, index=start.index), rng, None, [])
    while (status := solver.done(now.state)) is None:
        try:
            now = _advance(objective, solver, now, judge_every=judge_every)
        except StoppedError:
            status = Status.INTERRUPTED
            break
        unstored = file.store(now, final=solver.done(now.state) is not None) if file is not None else ""
        if on_step is not None:
            on_step(Progress(start.index, now.traces[-1], now.best, clock.elapsed, unstored=unstored))
    if file is not None and status is Status.INTERRUPTED and now.traces:
        file.store(now, final=True)
    traces = tuple(now.traces)
    return StartResult(start.index, start.kind, status, now.best, len(traces), traces, clock.elapsed, now)


def _advance(objective: Objective, solver: Solver, now: SolverCheckpoint, *, judge_every: int) -> SolverCheckpoint:
    """Take one step and judge it. Raises StoppedError, and leaves `now` as it was, when asked to stop meanwhile."""
    rng = deepcopy(now.rng)
    state, info = solver.step(objective, now.state, rng)
    best = now.best
    if info.iteration % judge_every == 0 or solver.done(state) is not None:
        judged = judge(objective, info.theta)
        best = judged if judged.beats(best) else best
    now.traces.append(info.trace)
    return SolverCheckpoint(state, rng, best, now.traces)
