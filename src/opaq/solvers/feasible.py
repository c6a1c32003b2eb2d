"""Policies that meet the task, or come as close to it as can be found: exact returns only, no belief graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opaq.beliefs.returns import expected_return, return_gradient, return_slope, start_distribution
from opaq.model.arrays import FloatArray, IntArray
from opaq.product.process import LARGEST_LOGIT, HiddenProcess, Payoff
from opaq.solvers.objective import Objective
from opaq.solvers.starts import Start, StateActions, eager_policy, largest_return
from opaq.stop import Stop

_NUM_RANDOM = 6
_ENOUGH = 1e-12  # a scaled slack this close to the largest is the largest
_MAX_STEPS = 200  # from one beginning, for one sharpness
_SHARPNESS = (10.0, 100.0, 1e3, 1e4)  # of the smooth minimum over several requirements, one after the other
_LEAST_PROBABILITY = 1e-9  # while climbing: what has probability 0 cannot come back
_ROW_BY_ROW = 200_000  # slots squared x times up to which single rows are tried
_LARGEST_TABLE = 50_000_000  # entries of a table of decisions over time


@dataclass(frozen=True, slots=True)
class FeasibilityResult:
    """A policy, its worst slack in units of what the requirements can differ by, and whether it meets the task."""

    pi: FloatArray
    slack: float
    feasible: bool


def feasible_policy(objective: Objective, *, seed: int = 0, climb: bool = True) -> FeasibilityResult:
    """A policy that meets every requirement or, if none is found, one whose worst slack is the largest found.

    Begins at the policies that earn most of each requirement, at mixtures of them, at the uniform and at random ones,
    and climbs from each (unless told not to) until the task is met or no policy at all could come closer. The same
    seed gives the same policy.
    """
    ascent = _Ascent(objective)
    begins = _begins(objective, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))))
    best = max((ascent.closest(pi) for pi in begins), key=lambda found: found.slack)
    enough = ascent.largest_slack() - _ENOUGH if climb else -np.inf
    for pi in begins:
        if best.feasible or best.slack >= enough:
            return best
        found = ascent.climb(pi)
        best = found if found.slack > best.slack else best
    return best


def even_feasible_policy(objective: Objective, *, seed: int = 0) -> FloatArray:
    """A policy that meets the task and is as close to uniform as it can be, made in little time."""
    made = feasible_policy(objective, seed=seed, climb=False)
    return _Ascent(objective).towards_uniform(made)


def with_feasible_start(objective: Objective, begins: list[Start], *, seed: int) -> list[Start]:
    """The same starts or, when none of them meets the task, with a random (or the uniform) one replaced.

    What takes its place meets the task, if such a policy is found, and is otherwise as close to uniform as it can be.
    """
    ascent = _Ascent(objective)
    softmax = objective.process.softmax
    replaced = next((begin for begin in reversed(begins) if begin.kind in ("random", "uniform")), None)
    if replaced is None or any(ascent.closest(softmax(begin.theta)).feasible for begin in begins):
        return begins
    pi = ascent.towards_uniform(feasible_policy(objective, seed=seed))
    made = Start(replaced.place, "feasible", np.log(np.maximum(pi, _LEAST_PROBABILITY)))
    return [made if begin is replaced else begin for begin in begins]


def return_seeking_policy(process: HiddenProcess, payoff: Payoff, *, stop: Stop) -> FloatArray:
    """The policy of the dynamic program: every row plays what the best policy plays where it visits that row.

    When rows tell product states and times apart this is the dynamic program's policy itself, and earns the largest
    return; otherwise rows mix its actions by how often they are played.
    """
    otherwise = eager_policy(process, payoff, stop=stop)
    if process.num_states * (process.horizon + 1) > _LARGEST_TABLE:
        return otherwise
    choices = StateActions.of(process, payoff)
    head = choices.first - process.row_start[process.row]
    played = np.zeros(process.num_slots)
    now = start_distribution(process)
    for slots in _decisions(choices, payoff, process.horizon, stop):
        stop.check()
        np.add.at(played, slots, now)
        now = choices.ahead[head + slots].T @ now
    totals = np.repeat(np.add.reduceat(played, process.row_start[:-1]), np.diff(process.row_start))
    return np.where(totals > 0, played / np.where(totals > 0, totals, 1.0), otherwise)


def _decisions(choices: StateActions, payoff: Payoff, horizon: int, stop: Stop) -> list[IntArray]:
    """The best slot of every state, time by time."""
    found = []
    values = payoff.discount**horizon * choices.paid
    value = payoff.final + choices.best(values)
    found.append(choices.greedy(values))
    for time in range(horizon - 1, -1, -1):
        stop.check()
        values = payoff.discount**time * choices.paid + choices.ahead @ value
        value = choices.best(values)
        found.append(choices.greedy(values))
    return found[::-1]


def _begins(objective: Objective, rng: np.random.Generator) -> list[FloatArray]:
    process = objective.process
    payoffs = objective.requirements() or process.payoffs[:1]
    seeking = [return_seeking_policy(process, payoff, stop=objective.stop) for payoff in payoffs]
    uniform, together = process.uniform(), np.asarray(np.mean(seeking, axis=0))
    random = [process.softmax(rng.normal(size=process.num_slots)) for _ in range(_NUM_RANDOM)]
    return [*seeking, together, uniform, 0.5 * (together + uniform), *random]


class _Ascent:
    """Climbs the smallest scaled slack by natural-gradient steps."""

    def __init__(self, objective: Objective) -> None:
        self.payoffs = objective.requirements()
        self._process, self._thresholds = objective.process, objective.thresholds()
        self._scales, self._tolerances = objective.scales, objective.tolerances
        self._stop = objective.stop

    def closest(self, pi: FloatArray) -> FeasibilityResult:
        """A policy with its worst slack; without requirements none is bad."""
        values = np.array([expected_return(self._process, pi, payoff) for payoff in self.payoffs])
        slack = values - self._thresholds
        feasible = bool((slack >= 0.0).all() or (slack >= -self._tolerances(pi)).all())
        return FeasibilityResult(pi, float((slack / self._scales).min(initial=np.inf)), feasible)

    def largest_slack(self) -> float:
        """What no policy exceeds, by dynamic programming."""
        most = np.array([largest_return(self._process, payoff) for payoff in self.payoffs])
        return float(((most - self._thresholds) / self._scales).min(initial=np.inf))

    def climb(self, pi: FloatArray) -> FeasibilityResult:
        """The largest worst slack reached from one policy."""
        theta = np.log(np.maximum(pi, _LEAST_PROBABILITY))
        for sharpness in _SHARPNESS if len(self.payoffs) > 1 else _SHARPNESS[:1]:
            theta = self._rise(theta, sharpness)
        pi = self._process.softmax(theta)
        candidates = (self.closest(pi), self.closest(_without_traces(self._process, pi)))
        return self._row_by_row(max(candidates, key=lambda found: found.slack))

    def _row_by_row(self, best: FeasibilityResult) -> FeasibilityResult:
        """The same with rows set to single actions, one after the other, while that comes closer: for small problems.

        Leaves local optima of the ascent that one row alone can leave.
        """
        process = self._process
        if process.num_slots**2 * (process.horizon + 1) > _ROW_BY_ROW:
            return best
        rows, improved = process.row_of_slot(), True
        while improved:
            improved = False
            for slot in range(process.num_slots):
                self._stop.check()
                pi = np.where(rows == rows[slot], 0.0, best.pi)
                pi[slot] = 1.0
                found = self.closest(pi)
                if found.slack > best.slack + 1e-12 * max(1.0, abs(best.slack)):
                    best, improved = found, True
        return best

    def towards_uniform(self, found: FeasibilityResult) -> FloatArray:
        """The most even policy on the way to the uniform one that still meets the task."""
        uniform, share, above = self._process.uniform(), 0.0, 1.0
        for _ in range(20 if found.feasible else 0):
            middle = 0.5 * (share + above)
            if self.closest((1.0 - middle) * found.pi + middle * uniform).feasible:
                share = middle
            else:
                above = middle
        return (1.0 - share) * found.pi + share * uniform

    def _rise(self, theta: FloatArray, sharpness: float) -> FloatArray:
        """Steps theta += length x advantage, longer after a success and shorter after a failure."""
        length = 1.0
        worth, advantage = self._smooth(theta, sharpness)
        for _ in range(_MAX_STEPS):
            after = np.clip(theta + length * advantage, -LARGEST_LOGIT, LARGEST_LOGIT)
            after = np.log(np.maximum(self._process.softmax(after), _LEAST_PROBABILITY))
            found, ahead = self._smooth(after, sharpness)
            if found > worth:
                gain, length = found - worth, min(2.0 * length, 1e6)
                theta, worth, advantage = after, found, ahead
                if gain <= 1e-12 * max(1.0, abs(worth)):
                    break
            else:
                length *= 0.25
                if length < 1e-8:
                    break
        return theta

    def _smooth(self, theta: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """A smooth minimum of the scaled slacks, and the advantage of every action for it."""
        self._stop.check()
        process = self._process
        found = [return_gradient(process, theta, payoff) for payoff in self.payoffs]
        slack = (np.array([value for value, _ in found]) - self._thresholds) / self._scales
        weights = np.exp(-sharpness * (slack - slack.min()))
        slope = (weights / weights.sum() / self._scales) @ np.array([slope for _, slope in found])
        pi = process.softmax(theta)
        visited = np.repeat(row_visits(process, pi), np.diff(process.row_start)) * pi
        advantage = np.where(visited > 0, slope / np.where(visited > 0, visited, 1.0), 0.0)
        return float(slack.min() - np.log(weights.sum()) / sharpness), advantage


def row_visits(process: HiddenProcess, pi: FloatArray) -> FloatArray:
    """D(u): the expected number of visits of every policy row."""
    return return_slope(process, pi)[2]


def _without_traces(process: HiddenProcess, pi: FloatArray) -> FloatArray:
    """The same policy without actions that are hardly ever taken."""
    kept = np.where(pi > 1e-6, pi, 0.0)
    return np.asarray(kept / np.repeat(np.add.reduceat(kept, process.row_start[:-1]), np.diff(process.row_start)))
