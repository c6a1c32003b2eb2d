"""The default solver: natural gradient (mirror ascent) with momentum on exact gradients of a frozen belief graph.

For a softmax row u, dL/dtheta(u, a) = D(u) pi(a | u) A(u, a) with D(u) the expected visits of the row and A the
advantage of the linearised Lagrangian. The step theta += eta A, that is pi <- pi exp(eta A), does not slow down in
rows that are rarely visited or in actions that are rarely taken, as gradient steps on logits do. Requirements enter by
an augmented Lagrangian (`Merit`), whose multipliers move after every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.model.arrays import FloatArray
from opaq.product.process import HiddenProcess
from opaq.solvers.objective import LEAST_SOFTNESS, LocalObjective, Merit, Objective, Slopes
from opaq.solvers.strategy import Plan, PlanRequest, SolverFactory, Status, StepInfo, Trace

_LOWEST_LOGIT = -35.0  # below the largest of its row: from there an action is back within some iterations
_LARGEST_ADVANTAGE = 10.0
_SMALLEST_RATE = 1e-7
_AGAIN_RATE = 0.05  # at least, after the belief graph has grown
_LEAST_GAIN = 1e-6  # of the merit: a step that gains less has gained next to nothing
_MAX_IDLE = 3
_WINDOW = 8  # steps, and a quarter of those of the round, after which the gain over them is looked at
_CALM_GAIN, _CALM_GAIN_TIMED = 1e-4, 1e-7  # of the score over a window: where there is a time limit, that is the end
_CALM_GAIN_POLISHED = 1e-5  # with a time limit, on a whole graph: the polish that follows climbs faster from there
_EARLY_GAIN = 1e-3  # where a larger part of the belief graph follows
_SWING = 10.0  # times that gain: what moves by more is not calm
_CALM_VIOLATION = 1e-3  # of scaled slacks
_NEARER = 0.9  # of the least violation before: a window that stays above it has come no nearer to meeting the task
_LARGEST_PENALTY = 1e4
_FIRST_RUNS, _MOST_RUNS = 1_000, 10**9  # with fewer, starts go where noise leads them
_MORE_RUNS = 1.2  # times as many after every step
_WARM_RUNS = 8_000  # as after 12 steps: fewer would lead a policy that is good already away from where it is
_LATE = 3.0  # the power of its number by which a step weighs in the average of noisy ones
_NOISE = 1e-12  # of the merit: differences below it are rounding
_MOST_STEPS = 5_000  # of the last round: a search ends when it has settled, or when time is up
_FIRST_STEPS, _CUT_STEPS = 10, 24  # of all starts on the smallest cut of a large belief graph, and of the best on each
_SAMPLED_STEPS = 30  # of every round before it that climbs samples of such a graph
_LARGE_STARTS = 6  # on such a graph: what few steps come to says little of what many do
_ITERATIONS = 20  # of a step
_FIRST_ITERATIONS = 10  # of one on samples and after them, and of all starts on a cut: a step that time ends is lost
_RESCUE = 4  # starts that follow where all before have nothing to hide
_MANY_BELIEFS = 100_000  # above this one wave of starts is all


@dataclass(frozen=True, slots=True)
class NaturalState:
    """Where the ascent stands between two steps."""

    theta: FloatArray  # [slot], logits
    velocity: FloatArray  # [slot], the last move, for momentum
    multipliers: FloatArray  # [requirement], in units of score per scaled slack
    penalty: float
    rate: float  # eta
    violation: float  # the largest after the last step, in units of the scales
    gap: float  # first-order gain that is left, in bits
    idle: int  # steps in a row that gained next to nothing
    standing: FloatArray  # [3]: the best before this window of steps, and the lowest and highest in it
    lacking: FloatArray  # [2]: the least violation before this window of steps, and in it
    window: FloatArray  # [2]: the iterations at which the round and the window began
    calm: bool  # whether the last window was neither better than what was before nor restless
    stuck: bool  # whether it came no nearer to meeting the task, at the largest penalty
    average: FloatArray  # [slot]: probabilities, the mean over the steps so far, later ones weighing more
    runs: int  # sampled per evaluation, where gradients are sampled: more as the ascent goes on
    iteration: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class NaturalGradient:
    """Each step is some iterations on one frozen belief graph with fixed multipliers; then the multipliers move.

        velocity <- momentum velocity + rate A,   theta <- theta + velocity,   l_i <- max(0, l_i - rho s_i).

    Slacks are divided by the objective's scales, so that one penalty suits rewards of any size. The rate grows
    while the merit rises and falls when it does not: an iteration that lowers the merit is taken back.
    """

    max_steps: int = 100
    iterations: int = _ITERATIONS  # per step
    first_rate: float = 0.2
    largest_rate: float = 4.0
    momentum: float = 0.8
    first_penalty: float = 3.0
    tolerance: float = 1e-5  # of the first-order gap, in bits, and of scaled slacks
    calm_gain: float = _CALM_GAIN  # of the score over a window of steps: less is the end
    first_runs: int = _FIRST_RUNS  # sampled per evaluation in the first step

    name = "natural"
    judge_every = 1
    unrecorded = ("calm_gain",)  # a run may go on with another time limit, and so with another end

    def init(self, objective: Objective, theta: FloatArray, *, index: int = 0) -> NaturalState:
        """Begin with zero velocity and multipliers."""
        none = np.zeros(objective.scales.size)
        return NaturalState(
            theta=theta,
            velocity=np.zeros_like(theta),
            multipliers=none,
            penalty=self.first_penalty,
            rate=self.first_rate,
            violation=np.inf,
            gap=np.inf,
            idle=0,
            standing=_NO_STANDING,
            lacking=_NO_LACKING,
            window=np.zeros(2),
            calm=False,
            stuck=False,
            average=objective.process.softmax(theta),
            runs=self.first_runs,
            iteration=0,
            evaluations=0,
        )

    def step(
        self, objective: Objective, state: NaturalState, rng: np.random.Generator
    ) -> tuple[NaturalState, StepInfo]:
        """Take some iterations with fixed multipliers on one frozen graph, then move the multipliers.

        An iteration that lowers the merit by more than noise is taken back: the velocity is 0 then and the rate 0.4
        times as large; otherwise the rate grows by 15% up to its limit.

        rng: gives the seed of sampled runs, one per step.
        Raises StoppedError when the objective's stop is requested meanwhile.
        """
        softness = objective.softness(state.iteration)
        local = objective.near(state.theta, seed=int(rng.integers(2**62)), runs=state.runs, softness=softness)
        return self.ascend(objective, local, state, changing=softness > LEAST_SOFTNESS)

    def ascend(
        self, objective: Objective, local: LocalObjective, state: NaturalState, *, changing: bool = False
    ) -> tuple[NaturalState, StepInfo]:
        """Take one step on what is climbed, which may be other than the objective's own score.

        objective: has the process and the requirements. local: gives the slopes.
        changing: whether what is climbed will be another after this step, which is no end then.
        """
        process, scales = objective.process, objective.scales
        theta, velocity, rate = state.theta, state.velocity, state.rate
        here = local.slopes(theta)
        merit = Merit(state.multipliers, state.penalty, scales)
        value = first_value = merit.value(here)
        count = 1
        for _ in range(self.iterations):
            push = self.momentum * velocity + rate * _advantage(process, here, merit.slope(here))
            tried = clamp_logits(process, theta + push)
            there = local.slopes(tried)
            count += 1
            after_push = merit.value(there)
            if after_push >= value - local.noise - _NOISE * max(1.0, abs(value)):
                theta, velocity, here, value = tried, push, there, after_push
                rate = min(rate * 1.15, self.largest_rate)
            else:
                velocity = np.zeros_like(velocity)
                rate = max(rate * 0.4, _SMALLEST_RATE)
        moved = replace(state, theta=theta, velocity=velocity, rate=rate)
        after = self._update(objective, moved, here, merit, local.noise)
        gained = value - first_value > _LEAST_GAIN * max(1.0, abs(value))
        idle = 0 if gained or local.noise > 0.0 else state.idle + 1  # of noisy steps only many say something
        after = self._watch(after, here, scales, local.noise)
        if changing:
            idle, after = 0, replace(after, gap=np.inf, calm=False, stuck=False)
        runs = min(math.ceil(_MORE_RUNS * state.runs), _MOST_RUNS)
        average = here.pi
        if local.noise > 0.0:
            steps = 1.0 + math.log(state.runs / _FIRST_RUNS, _MORE_RUNS)  # that are behind it, or as good as these
            weight = (_LATE + 1.0) / (steps + _LATE)
            average = (1.0 - weight) * state.average + weight * here.pi
            theta = process.logits(average)
        after = replace(after, idle=idle, average=average, runs=runs, evaluations=state.evaluations + count)
        trace = Trace(after.iteration, here.score, here.slack, after.multipliers / scales)
        return after, StepInfo(iteration=after.iteration, theta=theta, trace=trace)

    def done(self, state: NaturalState) -> Status | None:
        """Return SETTLED when nothing is violated and no first-order gain is left, or it gains no more.

        It gains no more where some steps in a row gained next to nothing, or the last window of steps was calm.
        STOPPED after all steps, or where it comes no nearer to meeting the task, None otherwise. Neither is a proof:
        the verdict tests the policy.
        """
        if state.violation <= self.tolerance and (state.gap <= self.tolerance or state.idle >= _MAX_IDLE):
            return Status.SETTLED
        if state.calm and state.violation <= _CALM_VIOLATION:
            return Status.SETTLED
        return Status.STOPPED if state.stuck or state.iteration >= self.max_steps else None

    def _watch(self, state: NaturalState, here: Slopes, scales: FloatArray, noise: float) -> NaturalState:
        """Return the state with the window of steps moved on, and whether the last one was calm or stuck.

        A window is 8 steps, and a quarter of those of the round. It is calm where its best is no better than the best
        before by more than `calm_gain`, and its values lie close together; both up to the noise of samples, unless a
        time limit ends the search. A step is worth its score less the price of what it lacks.
        """
        missing = np.minimum(here.slack / scales, 0.0)
        worth = here.score + 1.5 * float(state.multipliers @ missing)
        before, low, high = state.standing[0], min(state.standing[1], worth), max(state.standing[2], worth)
        least_lacking, lacking = state.lacking[0], min(state.lacking[1], state.violation)
        start, opened = state.window
        if state.iteration - opened < max(_WINDOW, (state.iteration - start) / 4):
            return replace(state, standing=np.array([before, low, high]), lacking=np.array([least_lacking, lacking]))
        noisy = noise > 0.0
        least, noise = self.calm_gain * max(1.0, abs(high)), 0.0 if self.calm_gain < _CALM_GAIN else noise
        calm = high - before <= least + 2.0 * noise and high - low <= _SWING * least + 6.0 * noise
        hopeless = lacking > max(_NEARER * least_lacking, _CALM_VIOLATION) and state.penalty >= _LARGEST_PENALTY
        return replace(
            state,
            standing=np.array([max(before, high), worth, worth]),
            lacking=np.array([min(least_lacking, lacking), np.inf]),
            window=np.array([start, state.iteration]),
            calm=bool(calm),
            stuck=bool(hopeless) and not noisy,
        )

    def _update(
        self, objective: Objective, state: NaturalState, here: Slopes, merit: Merit, noise: float
    ) -> NaturalState:
        """Return the state with multipliers and penalty moved, and the first-order gap that is left.

        The gap is the sum over rows of max_a D(u) A(u, a): what the best deterministic change promises. A slack that is
        worth no more than the noise of the scores violates nothing: a penalty that grew by it would grow without end.
        """
        slack = here.slack / objective.scales
        multipliers = merit.pressure(here.slack)
        worth = multipliers * np.abs(slack)
        violation = float(np.abs(slack)[worth > noise].max(initial=0.0))
        grow = violation > 0.7 * state.violation and violation > self.tolerance
        best = np.maximum.reduceat(
            _above_mean(objective.process, here.pi, merit.slope(here)), objective.process.row_start[:-1]
        )
        return replace(
            state,
            multipliers=multipliers,
            penalty=min(state.penalty * (1.5 if grow else 1.0), _LARGEST_PENALTY),
            violation=violation,
            gap=float(best.sum()),
            iteration=state.iteration + 1,
        )


_NO_STANDING, _NO_LACKING = np.array([-np.inf, np.inf, -np.inf]), np.array([np.inf, np.inf])


def refine(state: NaturalState) -> NaturalState:
    """Return the state that goes on after the belief graph has grown: what was settled may move again.

    After noisy steps it goes on from their mean.
    """
    began = np.array([state.iteration, state.iteration], dtype=np.float64)
    again = replace(state, velocity=np.zeros_like(state.velocity), gap=np.inf, idle=0, calm=False, stuck=False)
    rate = max(state.rate, _AGAIN_RATE)
    mean = np.log(np.maximum(state.average, np.exp(_LOWEST_LOGIT)))
    return replace(again, theta=mean, rate=rate, standing=_NO_STANDING, lacking=_NO_LACKING, window=began)


def _advantage(process: HiddenProcess, here: Slopes, slope: FloatArray) -> FloatArray:
    """Return [slot]: A(u, a), what action a is worth above the row's mean, per visit; `slope` is that of the merit.

        A(u, a) = (slope(u, a) - sum_b pi(b | u) slope(u, b)) / D(u),

    0 in rows that are never visited, and at most 10 in size.
    """
    above = _above_mean(process, here.pi, slope)
    visits = np.repeat(here.visits, process.row_sizes)
    scaled = np.divide(above, visits, out=np.zeros_like(above), where=visits > 0.0)
    return np.clip(scaled, -_LARGEST_ADVANTAGE, _LARGEST_ADVANTAGE)


def _above_mean(process: HiddenProcess, pi: FloatArray, slope: FloatArray) -> FloatArray:
    """Return [slot]: the slope of every action above the mean of its row under the policy."""
    means = np.add.reduceat(pi * slope, process.row_start[:-1])
    return np.asarray(slope - np.repeat(means, process.row_sizes))


def clamp_logits(process: HiddenProcess, theta: FloatArray) -> FloatArray:
    """Return logits of the same policy with the largest of every row 0, and none below -35."""
    top = np.repeat(np.maximum.reduceat(theta, process.row_start[:-1]), process.row_sizes)
    return np.asarray(np.maximum(theta - top, _LOWEST_LOGIT))


def _plan(request: PlanRequest) -> Plan:
    """Plan all starts for a few steps, the better ones on, and more waves of starts while the best disagree.

    Twice as many starts where policies of the class often have several local optima.
    """
    factor, calm_gain = 2 if request.many_optima else 1, _CALM_GAIN_TIMED if request.timed else _CALM_GAIN
    rescue = 0 if request.num_starts else _RESCUE
    if request.gradients == "sampled":
        return _sampled_plan(request.num_starts or _LARGE_STARTS * factor, rescue, calm_gain)
    if request.cuts:
        return _cut_plan(request.num_starts or _LARGE_STARTS * factor, rescue, calm_gain, request.cuts)
    calm_gain = max(calm_gain, _CALM_GAIN_POLISHED)
    rounds = tuple(NaturalGradient(max_steps=steps, calm_gain=calm_gain) for steps in (8, 30, _MOST_STEPS))
    few = request.beliefs <= _MANY_BELIEFS
    first = request.num_starts or factor * (4 if few else 3)
    waves = (first, 4 * factor, 8 * factor) if few and request.num_starts is None else (first,)
    return Plan(rounds, (first, max(2, (first + 1) // 2), 2), waves, rescue=0 if few else rescue)


def _cut_plan(first: int, rescue: int, calm_gain: float, cuts: tuple[Budget | None, ...]) -> Plan:
    """Plan for a large belief graph: all starts on its heaviest beliefs or on samples, the best on more of it."""
    rounds, steps = list[NaturalGradient](), 0
    for cut in cuts:
        steps += _SAMPLED_STEPS if cut is None else _CUT_STEPS if rounds else _FIRST_STEPS
        iterations = _FIRST_ITERATIONS if None in cuts or not rounds else _ITERATIONS
        rounds.append(NaturalGradient(max_steps=steps, iterations=iterations, calm_gain=_EARLY_GAIN))
    rounds[-1] = replace(rounds[-1], max_steps=_MOST_STEPS, calm_gain=calm_gain)
    kept = (first, *[max(2, first // 2), 2][-len(rounds) + 1 :])
    return Plan(tuple(rounds), kept, (first,), cuts, refine, rescue, _warm)


def _sampled_plan(first: int, rescue: int, calm_gain: float) -> Plan:
    """Plan for gradients that are slow and noisy: short steps, the better half of the starts and then two go on."""
    steps = (_SAMPLED_STEPS // 2, _SAMPLED_STEPS, _MOST_STEPS)
    rounds = tuple(NaturalGradient(max_steps=most, iterations=_FIRST_ITERATIONS, calm_gain=calm_gain) for most in steps)
    return Plan(rounds, (first, max(2, first // 2), 2), (first,), rescue=rescue, warm=_warm)


def _warm(solver: NaturalGradient) -> NaturalGradient:
    """Return the solver for a start that a search has led to: it goes on with as many runs as that ended with."""
    return replace(solver, first_runs=_WARM_RUNS)


FACTORY = SolverFactory(NaturalGradient.name, _plan, samples=20_000, climbs_classes=True, cuts_if_large=True)
