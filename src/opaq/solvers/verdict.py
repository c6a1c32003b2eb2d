"""The verdict on the best policy of a race: polish it, measure what is left to gain, and say what that proves.

The status of a solve follows from evidence at the policy that is returned, not from what a solver claims. At a local
maximum of the score under the requirements there are multipliers l >= 0 with l_i slack_i = 0 for which no movement of
probability gains, D(u) A(u, a) <= 0 of the Lagrangian L = score + l slack for all rows u and actions a, and L curves
upwards along no direction that keeps the active requirements. The file reads in this order: these measures
(`measure_optimality`), the climb that removes what is left of them (`polish`), the verdict (`judge_optimality`) and its
sentence (`describe_verdict`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from opaq.model.arrays import ContentEq, FloatArray
from opaq.model.uncertainty import Shannon
from opaq.opacity.measure import Measurement
from opaq.product.process import LARGEST_LOGIT, HiddenProcess
from opaq.solvers.loop import NO_SECRET, Candidate, judge
from opaq.solvers.objective import Merit, Objective, Point, Slopes
from opaq.solvers.policy_classes import has_many_optima
from opaq.solvers.starts import Attainable, row_visits
from opaq.solvers.strategy import UNPROVEN, Status, Trace

_TOLERANCE = 1e-4  # of the most bits a secret can have (1 at least): what counts as no gain
LEAST_PROBABILITY = 1e-12  # gains are measured where every action has at least this probability
_NEAR_ACTIVE = 1e-3  # a requirement with less slack than this share of its threshold may have a multiplier
_PROBE, _MOST_PROBES = 1e-5, 40  # probability moved in a trial, and how many trials there may be
_MAX_HESSIAN = 400  # parameters; beyond this the full Hessian is not formed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Optimality(ContentEq):
    """What is left to gain: at a local maximum gradient norm and residual are 0 and the curvature is not positive.

    gradient_norm: the largest entry of the Lagrangian's gradient with respect to logits.
    residual: bits gained per unit of probability moved to the best other action; also what unused slack costs.
    multipliers: what one more unit of each threshold would cost, in bits.
    curvature: the largest eigenvalue of the Lagrangian's Hessian along the active requirements; null: not computed.
    tolerance: what counts as none of these.
    """

    gradient_norm: float
    residual: float
    multipliers: FloatArray  # [requirement]
    curvature: float | None
    tolerance: float = _TOLERANCE

    def in_units(self, scale: float) -> Optimality:
        """Return the measures of scores that are multiplied by the scale: in units of the uncertainty."""
        curvature = None if self.curvature is None else scale * self.curvature
        measures = (scale * self.gradient_norm, scale * self.residual, scale * self.multipliers)
        return Optimality(*measures, curvature, scale * self.tolerance)

    @property
    def stationary(self) -> bool:
        """Return whether no first-order gain is left."""
        return self.residual <= self.tolerance and self.gradient_norm <= self.tolerance

    @property
    def holds(self) -> bool:
        """Return whether all that was measured speaks for a local maximum."""
        return self.stationary and (self.curvature is None or self.curvature <= self.tolerance)


@dataclass(frozen=True, slots=True)
class _FirstOrder:
    """First-order measures with the point and the gains that they come from."""

    optimality: Optimality
    point: Point
    gains: FloatArray  # [slot]: bits per unit of probability moved there
    active: Any = field(default_factory=lambda: np.zeros(0, dtype=bool))  # [requirement]


def measure_optimality(objective: Objective, theta: FloatArray, *, second_order: bool = True) -> Optimality:
    """Measure the optimality of one policy.

    theta: [slot], logits.
    second_order: whether to add the curvature, where there are at most 400 parameters: it takes one product with the
        Hessian per parameter.
    Raises StoppedError when the objective's stop is requested meanwhile.
    """
    first = measure_first_order(objective, theta)
    if not second_order or theta.size > _MAX_HESSIAN:
        return first.optimality
    return _measure_curvature(objective, first)[0]


def measure_first_order(objective: Objective, theta: FloatArray) -> _FirstOrder:
    """Measure the gain of moving probability to an action, D(u) A(u, a), for every action of every row.

    The multipliers are the non-negative ones that explain the gradient best. A gradient with respect to logits is
    pi D A: it vanishes with pi, and so says nothing of actions that are hardly
    ever taken. D A is the gradient on the simplex: at a local optimum none is positive. Where an uncertainty has a
    kink, the slope is a supergradient: no direction gains more than it says, so that a maximum may be confirmed by it
    but not refuted, and single moves that do not gain prove nothing. Hence no probing there.
    """
    process, own = objective.process, objective.process.softmax(theta)
    theta = raise_probabilities(process, theta, LEAST_PROBABILITY)
    pi = process.softmax(theta)
    point = objective.at(theta, softness=objective.tie)
    size = np.maximum(1.0, np.abs(objective.thresholds()))
    active = np.abs(point.slack) <= _NEAR_ACTIVE * size
    by_score, by_slack = point.score_slope / pi, point.slack_slope / pi
    best = None
    for multipliers in _multipliers(point, by_score, by_slack, active):
        gains = by_score + multipliers @ by_slack
        unused = float(multipliers @ np.maximum(point.slack, 0.0))
        residual = max(float(gains.max(initial=0.0)), unused)
        if best is None or residual < best[0]:
            best = residual, multipliers, gains
    assert best is not None
    residual, multipliers, gains = best
    if residual > _tolerance(objective) and objective.smooth:
        residual = max(
            _probe_gains(objective, own, multipliers, gains), float(multipliers @ np.maximum(point.slack, 0.0))
        )
    norm = float(np.abs(pi * gains).max(initial=0.0))
    measures = Optimality(norm, residual, multipliers, None, _tolerance(objective))
    return _FirstOrder(measures, point, gains, active)


def _probe_gains(objective: Objective, pi: FloatArray, multipliers: FloatArray, gains: FloatArray) -> float:
    """Return the largest gain per unit of a small move to one action, among the actions whose slope promises one.

    Next to a boundary of the simplex a slope may hold only for moves far smaller than any that matters: an action that
    is seen and never taken is a new observation, and the opacity has a kink there.
    """
    promising = np.flatnonzero(gains > _tolerance(objective))
    here = _lagrangian(objective, pi, multipliers) if promising.size <= _MOST_PROBES else -np.inf
    if here == -np.inf:  # nothing can be compared with it
        return float(gains.max())
    process = objective.process
    rows = process.row_of_slot()
    largest = 0.0
    for slot in promising:
        moved = np.where(rows == rows[slot], (1.0 - _PROBE) * pi, pi)
        moved[slot] += _PROBE
        largest = max(largest, (_lagrangian(objective, moved, multipliers) - here) / _PROBE)
    return largest


def _lagrangian(objective: Objective, pi: FloatArray, multipliers: FloatArray) -> float:
    """Return score + multipliers x slacks of a policy vector, by exact evaluation; -inf where a slack is.

    pi: [slot]. multipliers: [requirement]. Raises StoppedError when the objective's stop is requested meanwhile.
    """
    amount, _, _ = objective.target.evaluate(pi, budget=objective.budget, stop=objective.stop)
    slack = objective.slack_at(pi)
    objective.stop.check()
    if np.isinf(slack).any():
        return -np.inf
    return objective.sign * amount.lower / objective.scale + float(multipliers @ slack)


def _tolerance(objective: Objective) -> float:
    """Return what counts as no gain, in units of score: a share of the most that can be uncertain.

    For opacity that is the most bits a secret can have.
    """
    least, most = objective.target.bounds
    return _TOLERANCE * max(1.0, (most - least) / objective.scale)


def raise_probabilities(process: HiddenProcess, theta: FloatArray, least: float) -> FloatArray:
    """Return the logits [slot] of the same policy with every probability at least (nearly) `least`.

    At 0 a logit would be infinite, and the slope by a probability may be.
    """
    return np.asarray(np.log(np.maximum(process.softmax(theta), least)))


def _measure_curvature(objective: Objective, first: _FirstOrder) -> tuple[Optimality, FloatArray]:
    """Return the measures with the largest curvature added, and the direction [slot] that has it.

    That is the largest eigenvalue of N H N, H the Hessian of the Lagrangian by logits and N the projection onto
    directions along which the active requirements with a multiplier do not change.
    """
    theta, multipliers = first.point.theta, first.optimality.multipliers
    product = objective.hessian_products(theta, multipliers)
    matrix = np.stack([product(unit) for unit in np.eye(theta.size)], axis=1)
    normal = first.point.slack_slope[first.active & (multipliers > 0)]
    normals = np.linalg.svd(normal)[2][: np.linalg.matrix_rank(normal)] if normal.size else np.zeros((0, theta.size))
    onto = np.eye(theta.size) - normals.T @ normals
    values, vectors = np.linalg.eigh(onto @ (0.5 * (matrix + matrix.T)) @ onto)
    return replace(first.optimality, curvature=float(values[-1])), np.asarray(vectors[:, -1])


def _multipliers(point: Point, by_score: FloatArray, by_slack: FloatArray, active: Any) -> list[FloatArray]:
    """Return two guesses of the multipliers [requirement]; only active requirements have one.

    Least squares on logits is right inside the simplex, the least largest gain (a linear program) on its boundary.
    """
    least_squares = np.zeros(point.slack.size)
    if not active.any():
        return [least_squares]

    from scipy.optimize import linprog, nnls

    least_squares[active] = nnls(point.slack_slope[active].T, -point.score_slope)[0]
    count = int(active.sum())
    # minimise r subject to by_score + multipliers @ by_slack <= r, r >= unused slack, all >= 0
    limits = np.vstack((np.column_stack((by_slack[active].T, -np.ones(by_score.size))), [*point.slack[active], -1.0]))
    solved = linprog([0.0] * count + [1.0], A_ub=limits, b_ub=np.append(-by_score, 0.0), bounds=(0, None))
    if solved.x is None:
        return [least_squares]
    least_gain = np.zeros(point.slack.size)
    least_gain[active] = solved.x[:count]
    return [least_squares, least_gain]


_STEPS_PER_ROUND = 30
_PENALTY = 100.0
_LEAST = (1e-4, 1e-6, 1e-8)  # actions are given this probability back when a round begins; later rounds less
_GAIN = 1e-8  # a round that gains less has stopped gaining
_MAX_IDLE = 3  # rounds without a gain, after which there is none
_MAX_SADDLES = 3
_SOFTNESS = (1e-2, 1e-3, 1e-4, 1e-5)  # of uncertainties with kinks, round by round


@dataclass(frozen=True, slots=True)
class _PolishResult:
    """A polished policy, the evidence for it, and whether the evaluations ran out while it still gained."""

    candidate: Candidate
    optimality: Optimality
    gaining: bool


def polish(
    objective: Objective,
    candidate: Candidate,
    *,
    evaluations: int,
    second_order: bool,
) -> _PolishResult:
    """Climb from a feasible policy until no gain is left, it stops gaining, or `evaluations` gradients were taken.

    Every round is a quasi-Newton solve of the augmented Lagrangian in logits divided by sqrt(D(u) pi(a | u)): steps
    as of the natural gradient, which do not slow down in rows that are rarely visited and for actions that are rarely
    taken. From a saddle it goes on along the direction of positive curvature.

    evaluations: how many gradients may be taken.
    second_order: whether to measure the curvature of stationary policies.
    Raises StoppedError when the objective's stop is requested meanwhile.
    """
    with threadpool_limits(1):  # sums over several threads round differently
        return _Polish(objective, evaluations, second_order).run(candidate)


class _Polish:
    """One polish, which counts the evaluations that are left."""

    def __init__(
        self,
        objective: Objective,
        evaluations: int,
        second_order: bool,
    ) -> None:
        self._objective, self._scales = objective, objective.scales
        self._left = evaluations
        self._second_order = second_order

    def run(self, candidate: Candidate) -> _PolishResult:
        """Climb, and leave saddles, until neither gains."""
        best, evidence = candidate, measure_first_order(self._objective, candidate.theta)
        saddles = 0
        while True:
            if not evidence.optimality.stationary:
                best, evidence, gaining = self._climb(best, evidence)
                if not evidence.optimality.stationary:
                    return _PolishResult(best, evidence.optimality, gaining)
            if not self._second_order:
                return _PolishResult(best, evidence.optimality, False)
            measures, direction = _measure_curvature(self._objective, evidence)
            saddles += 1
            beyond = None if measures.holds or saddles > _MAX_SADDLES else self._leave_saddle(best, direction)
            if beyond is None:
                return _PolishResult(best, measures, False)
            best, evidence = beyond, measure_first_order(self._objective, beyond.theta)

    def _climb(self, best: Candidate, evidence: _FirstOrder) -> tuple[Candidate, _FirstOrder, bool]:
        """Run rounds until the best policy is stationary, gets no better, or the evaluations are used up.

        Returns it with its evidence, and whether it was still gaining.
        """
        theta, multipliers = best.theta, evidence.optimality.multipliers * self._scales
        idle, number = 0, 0
        while self._left > 0:
            least = _LEAST[min(number, len(_LEAST) - 1)]
            softness = 0.0 if self._objective.smooth else _SOFTNESS[min(number, len(_SOFTNESS) - 1)]
            theta, multipliers = self._round(theta, multipliers, least, softness)
            reached = judge(self._objective, theta)
            gain = reached.score - best.score
            if reached.beats(best):
                best, evidence = reached, measure_first_order(self._objective, reached.theta)
                if evidence.optimality.stationary:
                    return best, evidence, False
            idle = 0 if reached.feasible and gain > _GAIN else idle + 1
            number += 1
            if idle >= _MAX_IDLE:
                return best, evidence, False
        return best, evidence, True

    def _round(
        self, theta: FloatArray, multipliers: FloatArray, least: float, softness: float
    ) -> tuple[FloatArray, FloatArray]:
        """Run one quasi-Newton solve and return logits [slot] and multipliers [requirement].

        Multipliers are in units of score per scaled slack.
        """
        from scipy.optimize import minimize

        process = self._objective.process
        theta = raise_probabilities(process, theta, least)
        pi = process.softmax(theta)
        weight = np.repeat(row_visits(process, pi), np.diff(process.row_start)) * pi
        stretch = 1.0 / np.sqrt(np.maximum(weight, 1e-8))
        merit = Merit(multipliers, _PENALTY, self._scales)
        climb = _StretchedMerit(self._objective, merit, theta, stretch, softness)
        options = {"maxiter": _STEPS_PER_ROUND, "maxfun": self._left, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-9}
        solved = minimize(climb, np.zeros(theta.size), jac=True, method="L-BFGS-B", options=options)
        self._left -= int(solved.nfev)
        assert climb.best is not None
        return climb.theta, merit.pressure(climb.best.slack)

    def _leave_saddle(self, best: Candidate, direction: FloatArray) -> Candidate | None:
        """Return the best policy some way along a direction [slot] of positive curvature, either way, if it is better.

        Long moves are tried first: a short one gains with the square of its length, which may be lost to rounding.
        """
        better: Candidate | None = None
        for length in (1.0, 0.3, 0.1, 0.03):
            for sign in (1.0, -1.0):
                theta = np.clip(best.theta + sign * length * direction, -LARGEST_LOGIT, LARGEST_LOGIT)
                moved = judge(self._objective, theta)
                self._left -= 1
                if moved.feasible and moved.score > best.score + _GAIN and moved.beats(better):
                    better = moved
            if better is not None:
                return better
        return None


class _StretchedMerit:
    """Minus the merit as a function of a move m, at logits theta + stretch m; remembers the best point evaluated."""

    def __init__(
        self, objective: Objective, merit: Merit, theta: FloatArray, stretch: FloatArray, softness: float
    ) -> None:
        self._objective, self._merit = objective, merit
        self._theta, self._stretch = theta, stretch
        self._local = objective.near(theta, softness=softness)
        self._lowest = np.inf
        self.theta = theta
        self.best: Slopes | None = None

    def __call__(self, move: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the merit and its derivative by the move [slot]."""
        theta = np.clip(self._theta + self._stretch * move, -LARGEST_LOGIT, LARGEST_LOGIT)
        here = self._local.slopes(theta)
        value = -self._merit.value(here)
        if value < self._lowest:
            self._lowest, self.theta, self.best = value, theta, here
        return value, -self._stretch * self._objective.process.pull_back(here.pi, self._merit.slope(here))


_CHEAP_HESSIAN = 2_000_000  # parameters x beliefs up to which the Hessian takes seconds
_FEWEST_EVALUATIONS = 30
_CHEAP_POLISH = 1_000_000  # evaluations x beliefs that take about a second, up to
_CHEAP_EVALUATIONS = 500
_FEWEST_STEPS = 5  # a quarter of the steps of a search, these at least, say how far it still moves
_TOO_LARGE = "too large a problem to test its curvature"
_MANY_OPTIMA = "policies with such a memory often have other local optima that are better"
_CERTIFIED = "the certificate says how good"
_NOTHING_SECRET = (
    "nothing is secret under this policy: its runs have one value of the secret, so it has nothing to hide"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The policy that a solve returns, how the solve ended, and the evidence for it.

    CONVERGED needs a local optimum within tolerance, by first order and, where it is affordable, by second order.
    """

    candidate: Candidate
    status: Status
    optimality: Optimality | None
    untested: str = ""  # why convergence is not tested, and how far the search still moved
    many_optima: bool = False  # whether policies of this class often have other, better optima


def judge_optimality(
    objective: Objective,
    candidate: Candidate,
    *,
    claimed: Status,
    evaluations: int,
    trace: tuple[Trace, ...] = (),
) -> Verdict:
    """Judge a feasible policy that a search ended with.

    A claim of convergence, a limit reached, or a policy no search began from is followed by a polish on exact
    gradients: about as many evaluations as given, more where they are cheap. Then the evidence decides. Where gradients
    are sampled, or the belief graph does not fit the budget, convergence is not tested.

    claimed: how the search says that it ended. evaluations: how many gradients a polish may take.
    trace: of the search; where convergence is not tested, the verdict says how far its values still moved.
    Raises StoppedError when the objective's stop is requested meanwhile.
    """
    untested = claimed if claimed in (Status.STOPPED, Status.EDGE) else Status.COMPLETED
    if objective.gradients == "sampled":
        calm = claimed is Status.SETTLED
        where = "; the search ended where its samples show no gain beyond their noise" if calm else ""
        return Verdict(
            candidate, untested, None, f"the gradients were sampled{where}{_describe_movement(objective, trace)}"
        )
    pi, smooth = objective.process.softmax(candidate.theta), objective.smooth
    whole = objective.target.evaluate(pi, budget=objective.budget, stop=objective.stop)
    objective.stop.check()
    cheap = smooth and pi.size <= _MAX_HESSIAN and pi.size * whole.num_nodes < _CHEAP_HESSIAN
    is_exact = whole.amount.method == "exact"
    if claimed is Status.COMPLETED or not is_exact:
        reason = "the solver runs the iterations asked for"
        if claimed is not Status.COMPLETED:
            cut = replace(candidate, beliefs=whole.num_nodes, dropped=whole.dropped_mass)
            reason = f"the belief graph is larger than the budget: {describe_cut(cut)}"
        measures = None
        if is_exact and (smooth or objective.sign > 0):
            measures = measure_optimality(objective, candidate.theta, second_order=cheap).in_units(objective.scale)
        return Verdict(candidate, untested, measures, f"{reason}{_describe_movement(objective, trace)}")
    quick = min(_CHEAP_POLISH // max(whole.num_nodes, 1), _CHEAP_EVALUATIONS)
    allowed = max(evaluations, quick, _FEWEST_EVALUATIONS)
    polished = polish(objective, candidate, evaluations=allowed, second_order=cheap)
    measures = polished.optimality.in_units(objective.scale)
    if not smooth and (objective.sign < 0 or not polished.optimality.holds):
        # A slope can neither confirm nor refute an optimum; for a minimum it bounds nothing, and is left out.
        status = Status.STOPPED if polished.gaining and objective.sign > 0 else Status.COMPLETED
        reason = f"the {objective.product.problem.task.of.title} has kinks, where no slope proves an optimum"
        return Verdict(polished.candidate, status, measures if objective.sign > 0 else None, reason)
    if polished.optimality.holds:
        many = has_many_optima(objective.product.policy_class)
        return Verdict(polished.candidate, Status.CONVERGED, measures, many_optima=many)
    return Verdict(polished.candidate, Status.STOPPED if polished.gaining else Status.SETTLED, measures)


def describe_cut(candidate: Candidate) -> str:
    """Describe which part of the belief graph a candidate was judged on; nothing where that is all of it."""
    if candidate.dropped <= 0.0:
        return ""
    share = f"{candidate.dropped:.2g} of the probability"
    return f"gradients on the heaviest {candidate.beliefs:,} beliefs, which leave out {share}"


def _describe_movement(objective: Objective, trace: tuple[Trace, ...]) -> str:
    """Describe between which values the search still moved in its last steps."""
    last = trace[-max(len(trace) // 4, _FEWEST_STEPS) :]
    if len(last) < 2:
        return ""
    values = [objective.sign * objective.scale * each.score for each in last]
    low, high = f"{min(values) + 0.0:.4f}", f"{max(values) + 0.0:.4f}"
    of = objective.product.problem.task.of.title
    what = f"the estimated {of}" if objective.gradients == "sampled" else f"the {of}"
    steps = f"in the last {len(last):,} of {len(trace):,} steps"
    if low == high:
        return f"; {steps} {what} stayed at {low}"
    return f"; {steps} {what} still moved between {low} and {high}"


def describe_verdict(
    verdict: Verdict, measurement: Measurement, attainable: tuple[Attainable, ...], *, minimise: bool = False
) -> str:
    """Return the status of a solve as a sentence, with the figures it rests on.

    measurement: of the policy of the verdict. attainable: the most that can be reached of each requirement.
    minimise: whether the task asks for as little as possible.
    """
    sentence = _describe_end(verdict, measurement, attainable, minimise=minimise)
    return _add_empty_secret(sentence, measurement)


def describe_certified(measures: Optimality, measurement: Measurement, *, many_optima: bool, minimise: bool) -> str:
    """Return the sentence of a converged solve that is shown beside a certificate, which says how good the policy is.

    measures: the evidence for a local optimum. measurement: of the policy. many_optima, minimise: as in the verdict and
        the task.
    """
    sentence = _describe_optimum(measures, measurement, minimise=minimise, many_optima=many_optima, proof=_CERTIFIED)
    return _add_empty_secret(sentence, measurement)


def _add_empty_secret(sentence: str, measurement: Measurement) -> str:
    """Return the sentence and, where the secret has one value at every moment, that there is nothing to hide."""
    bits = [measurement.secret_entropy, *(amount.upper for amount in measurement.moments or ())]
    return sentence if max(bits) > NO_SECRET else f"{sentence}; {_NOTHING_SECRET}"


def _describe_end(
    verdict: Verdict, measurement: Measurement, attainable: tuple[Attainable, ...], *, minimise: bool
) -> str:
    """Return how the solve ended, and the evidence where there is any."""
    status, measures, of = verdict.status, verdict.optimality, measurement.of
    sentence: str = status.value
    unit = of.unit or f"of {of.title}"
    if status is Status.CONVERGED and measures is not None:
        many = verdict.many_optima
        return _describe_optimum(measures, measurement, minimise=minimise, many_optima=many, proof=UNPROVEN)
    if status in (Status.SETTLED, Status.STOPPED) and measures is not None:
        limit = f"converged would be {measures.tolerance:.1e}"
        if measures.stationary:
            return f"{sentence} (a saddle: the largest curvature is {measures.curvature:.1e}, {limit})"
        gain = f"moving probability to another action still gains up to {measures.residual:.1e} {unit} per unit"
        return f"{sentence} ({gain}, {limit})"
    if status in (Status.COMPLETED, Status.STOPPED) and verdict.untested:
        return f"{sentence}: {verdict.untested}"
    if status in (Status.INFEASIBLE, Status.NOT_FOUND):
        return f"{sentence}; {_describe_closest(measurement, attainable)}"
    if status in (Status.INTERRUPTED, Status.TIME_LIMIT) and not measurement.feasible:
        when = "interrupted" if status is Status.INTERRUPTED else "the time limit was reached"
        return f"{when}: no policy that meets the task was found yet; this one comes closest"
    return f"{sentence}; {verdict.untested}" if verdict.untested else sentence


def _describe_optimum(
    measures: Optimality, measurement: Measurement, *, minimise: bool, many_optima: bool, proof: str
) -> str:
    """Return the sentence for a local optimum; `proof` says what is known beyond that."""
    of, figure = measurement.of, measurement.objective.figure or ""
    unit, many = of.unit or f"of {of.title}", f"; {_MANY_OPTIMA}" if many_optima else ""
    gain = f"moving probability to another action gains at most {measures.residual:.1e} {unit} per unit"
    if measures.curvature is None:
        least = measurement.moments is not None and measurement.opacity_per_step is None
        kinks = of.name != Shannon.name or figure.startswith("least of") or least
        why = "its curvature is not tested" if kinks else _TOO_LARGE
        return f"converged: {gain} (a stationary point; {why}{many})"
    better = "downwards" if minimise else "upwards"
    return f"converged: {gain} and no direction curves {better} (a local optimum{many}; {proof})"


def _describe_closest(measurement: Measurement, attainable: tuple[Attainable, ...]) -> str:
    """Describe how close the policy comes to a task that it misses."""
    required = [one for one in measurement.requirements if one.threshold is not None]
    if len(required) != 1 or len(attainable) != 1:
        return "this policy comes closest"
    most, value = attainable[0].largest, required[0].value
    if value >= most - 1e-9 * max(1.0, abs(most)):
        return f"this policy earns the most that is attainable, {value:.6g}"
    return f"this policy earns {value:.6g}, the most found in its class (no policy earns more than {most:.6g})"
