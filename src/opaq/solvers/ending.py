"""After the search: the best policy, the verdict on it, and its measurement, also when time is up."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from opaq.model.arrays import FloatArray
from opaq.opacity.amount import Amount
from opaq.opacity.measurement import Measurement, Mode, measure_product, with_opacity
from opaq.solvers.feasible import even_feasible_policy, feasible_policy
from opaq.solvers.judge import Candidate, judge, judge_at_once
from opaq.solvers.objective import Objective
from opaq.solvers.race import Outcome
from opaq.solvers.search import Search
from opaq.solvers.status import Status
from opaq.solvers.verdict import Verdict, reach_verdict
from opaq.stop import Stop, StoppedError

_JUDGING_SECONDS = 1.0  # for a policy made for the task after an interrupt or when time is up
_LAST_SECONDS = 3.0  # for measuring the best policy then


def verdict_on(search: Search, outcome: Outcome) -> Verdict:
    """The best policy and what may be said of it; when asked to stop nothing more is tried."""
    objective, stop = search.objective, search.objective.stop
    best, ended = outcome.best, outcome.claimed
    if best is None or not best.feasible:
        best, ended = _closest(objective, best, search.options.seed), Status.EDGE
    if search.impossible and not best.feasible:
        return Verdict(best, Status.INFEASIBLE, None)
    if stop.requested:
        return Verdict(best, _stopped(stop), None)
    if not best.feasible:
        return Verdict(best, Status.NOT_FOUND, None)
    spent = 3 * sum(result.iterations for result in outcome.results) // 2
    try:
        return reach_verdict(objective, best, claimed=ended, evaluations=spent, trace=outcome.trace)
    except StoppedError:
        return Verdict(best, _stopped(stop), None)


def measured(search: Search, candidate: Candidate) -> tuple[FloatArray, Measurement]:
    """The policy vector and its measurement; after a stop in a few seconds, and without sequences."""
    objective, stop = search.objective, search.objective.stop
    pi = objective.process.softmax(candidate.theta)
    if not stop.requested:
        measurement = measure_product(search.product, pi, sequences=search.options.sequences, stop=stop)
    else:
        last = Stop()
        mode: Mode = "sampled" if objective.gradients == "sampled" else "auto"
        with last.limit(_LAST_SECONDS):
            measurement = measure_product(search.product, pi, mode=mode, time=_LAST_SECONDS, sequences=0, stop=last)
    return pi, _with_what_is_known(measurement, candidate, objective)


def _stopped(stop: Stop) -> Status:
    return Status.INTERRUPTED if stop.interrupted else Status.TIME_LIMIT


def _closest(objective: Objective, best: Candidate | None, seed: int) -> Candidate:
    """Where no start ended feasible: a policy made to meet the task, or the one that comes closest."""
    theta = objective.process.logits(_closest_policy(objective, seed))
    made = _judged(objective, theta)
    return best if best is not None and not made.beats(best) else made


def _judged(objective: Objective, theta: FloatArray) -> Candidate:
    """A policy judged; when asked to stop, before or meanwhile, by what can be said in a second."""
    with suppress(StoppedError):
        objective.stop.check()
        return judge(objective, theta)
    last = Stop()
    with last.limit(_JUDGING_SECONDS):
        return judge_at_once(objective, theta, stop=last)


def _closest_policy(objective: Objective, seed: int) -> FloatArray:
    """A policy made for the task; after a stop there is one second for it, and then the uniform one.

    The search has then had no time for anything: where opacity is asked for, an even policy hides more than one that
    earns as much as it can.
    """
    if not objective.stop.requested:
        with suppress(StoppedError):
            return feasible_policy(objective, seed=seed).pi
    last = Stop()
    with suppress(StoppedError), last.limit(1.0):
        hurried = replace(objective, stop=last)
        if objective.sign > 0:
            return even_feasible_policy(hurried, seed=seed)
        return feasible_policy(hurried, seed=seed, climb=False).pi
    return objective.process.uniform()


def _with_what_is_known(measurement: Measurement, candidate: Candidate, objective: Objective) -> Measurement:
    """An interval tightened by what the search has certified of the same policy."""
    opacity = measurement.opacity
    other = measurement.of.name != "opacity"  # then the search has certified something else
    if other or opacity.method == "exact" or objective.gradients == "sampled":
        return measurement
    bound = abs(candidate.score)
    lower, upper = (max(opacity.lower, bound), opacity.upper) if objective.sign > 0 else (opacity.lower, bound)
    if lower <= opacity.lower and upper >= opacity.upper:
        return measurement
    tighter = Amount.between(min(lower, opacity.upper), min(upper, opacity.upper))
    if opacity.method == "sampled":
        value = min(max(opacity.value, tighter.lower), tighter.upper)
        tighter = Amount(value, tighter.lower, tighter.upper, "sampled", opacity.standard_error)
    return with_opacity(measurement, tighter)
