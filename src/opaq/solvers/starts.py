"""Where the starts of a solve begin, and policies that meet the task: exact returns, and no belief graph.

Only where the task limits figures, telling what meets it takes belief graphs.

A solve runs several starts, since a local search finds local optima. They begin at a uniform policy, at one that earns
much, at one that makes the secret itself uncertain (who has nothing to hide cannot climb), at random ones and, where
none of these meets the task, at a policy made for it by `find_feasible_policy`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opaq.beliefs.dynamic_program import greedy_policy, largest_return
from opaq.beliefs.graph import Budget, Chain
from opaq.beliefs.returns import EQUAL, return_slope
from opaq.beliefs.unroll import unroll
from opaq.model.arrays import FloatArray
from opaq.opacity.functionals import Linear
from opaq.product.process import LARGEST_LOGIT, HiddenProcess
from opaq.solvers.natural import NaturalGradient
from opaq.solvers.objective import Objective, PriorObjective
from opaq.solvers.policy_classes import has_many_optima
from opaq.stop import Stop

_BYTES_PER_ENTRY = 40  # of a frozen graph, with its buffers
_WIDE = 3.0  # logits of a random start that is nearly deterministic
_PRIOR_STEPS = 25  # for a secret that is uncertain before anything is observed
_MISSING = 10.0  # bits of H(Z) that a requirement missed by all of its size outweighs
_EVEN = 0.02  # share of the uniform policy in such a start
_CHEAP_BELIEFS = 150_000  # up to which the whole graph is climbed from the first step on
_CUT_BELIEFS, _CUT_ENTRIES = 100_000, 2_000_000  # of a cut, in all: a step on it takes some seconds at most
_MOST_LOST = 0.4  # probability that a cut may leave out of a random policy: beyond it larger ones leave out much too
_NUM_RANDOM = 6  # random policies among those that feasible ones are searched from
_ENOUGH = 1e-12  # a scaled slack this close to the largest is the largest
_MAX_STEPS = 200  # from one beginning, for one sharpness
_SHARPNESS = (10.0, 100.0, 1e3, 1e4)  # of the smooth minimum over several requirements, one after the other
_LEAST_PROBABILITY = 1e-9  # while climbing: what has probability 0 cannot come back
_ROW_BY_ROW = 200_000  # slots squared x times up to which single rows are tried


@dataclass(frozen=True, slots=True)
class Attainable:
    """The most that any policy can reach of one requirement, by dynamic programming.

    Every requirement is taken alone: that each is within reach does not say that all are at once.

    name: the requirement.
    largest: what no policy exceeds of it.
    threshold: what is asked.
    rounding: how far below the exact figure the largest may have come out, and still be measured as met.
    """

    name: str
    largest: float
    threshold: float
    rounding: float = 0.0

    @property
    def out_of_reach(self) -> bool:
        """Whether it is proven that no policy meets the threshold, rounding included."""
        return self.largest + self.rounding < self.threshold - EQUAL * abs(self.threshold)


WARM, LIFTED, PERTURBED = KNOWN = ("warm", "lifted", "perturbed")  # given; of a coarser class; close to that


@dataclass(frozen=True, slots=True)
class Start:
    """One initial policy: its index among the starts, what kind it is, and its logits."""

    index: int
    kind: str  # "uniform", "return-optimal", "secret", "program", "blended", "random", "feasible" or one of KNOWN
    theta: FloatArray  # [slot]

    @property
    def known(self) -> bool:
        """Return whether it is a policy that is known to be good, or close to one."""
        return self.kind in KNOWN


def make_starts(
    objective: Objective, *, count: int, kind: str = "mixed", seed: int = 0, warm: FloatArray | None = None
) -> list[Start]:
    """Return the initial policies of a solve. The same seed gives the same starts.

    kind: that of all starts, or "mixed": the first uniform, the second return-optimal, the third "secret" where opacity
        is maximised, the fifth "blended", halfway between return-optimal and random, the others random. Uniform and
        return-optimal ones carry a little noise, since exactly uniform may be a saddle. A "secret" one maximises H(Z),
        the uncertainty of the secret before anything is observed, under the requirements; where the target is an
        expected payoff, a "program" one, which is best by a dynamic program, takes its place. Where policies of the
        class often have several local optima, every second random start is nearly deterministic: one with even odds
        forgets what its memory holds, and ends where no memory is used.
    warm: a policy vector [slot] that takes the place of the first start.
    Raises StoppedError when the objective's stop is requested meanwhile.
    """
    process, begins = objective.process, list[Start]()
    many_optima = has_many_optima(objective.product.policy_class)
    mixed = {0: "uniform", 1: "return-optimal", 2: "secret" if objective.sign > 0 else "random", 4: "blended"}
    if isinstance(objective.target, Linear):  # then a dynamic program knows what is best, or nearly
        mixed[2] = "program"
    for index, child in enumerate(np.random.SeedSequence(seed).spawn(count)):
        each = mixed.get(index, "random") if kind == "mixed" else kind
        noise = np.random.default_rng(child).normal(size=process.num_slots)
        if each == "uniform":
            theta = 0.05 * noise
        elif each == "return-optimal":
            theta = np.log(0.6 * _greedy(objective) + 0.4 * process.uniform()) + 0.05 * noise
        elif each == "program":
            theta = np.log(0.9 * _best_of_target(objective) + 0.1 * process.uniform()) + 0.05 * noise
        elif each == "secret":
            theta = _find_uncertain_secret(objective, 0.05 * noise)
        elif each == "blended":
            theta = np.log(0.5 * _greedy(objective) + 0.5 * process.softmax(noise))
        else:
            theta = _WIDE * noise if index % 2 == 1 and many_optima else noise
        begins.append(Start(index, each, theta))
    if warm is not None:
        begins[0] = Start(0, WARM, process.logits(warm))
    return begins


def _greedy(objective: Objective) -> FloatArray:
    """Return a policy vector [slot] that earns much of the first requirement, or of the first payoff without any."""
    payoff = (objective.requirements() or objective.process.payoffs)[0]
    return greedy_policy(objective.process, payoff, weighting="times", stop=objective.stop)


def _best_of_target(objective: Objective) -> FloatArray:
    """Return a policy vector [slot] that reaches much of a target that is an expected payoff, by a dynamic program.

    Where rows tell apart all that the program does, it is the best of all.
    """
    target = objective.target
    assert isinstance(target, Linear)
    sign, paid = objective.sign, target.payoff.slots
    payoff = replace(target.payoff, slots=replace(paid, values=sign * paid.values), final=sign * target.payoff.final)
    return greedy_policy(target.process, payoff, weighting="times", stop=objective.stop)


def _find_uncertain_secret(objective: Objective, noise: FloatArray) -> FloatArray:
    """Return logits whose policy has nearly the largest H(Z) under the requirements, slightly mixed with uniform.

    noise: [slot], added to the logits of the policies to climb from: the uniform one, and one that earns more. From one
    that earns much the climb would lead to a policy that earns most: there the secret has often one value already.
    """
    process, solver, prior = objective.process, NaturalGradient(max_steps=_PRIOR_STEPS), PriorObjective(objective)
    ends = list[tuple[float, FloatArray]]()
    for share in (0.0, 0.3):
        state = solver.init(objective, np.log(share * _greedy(objective) + (1.0 - share) * process.uniform()) + noise)
        while solver.done(state) is None:
            objective.stop.check()
            state, info = solver.ascend(objective, prior, state)
        ends.append((info.trace.score - _MISSING * state.violation, state.theta))
    pi = process.softmax(max(ends, key=lambda end: end[0])[1])
    return np.asarray(np.log((1.0 - _EVEN) * pi + _EVEN * process.uniform()))


def add_feasible_start(objective: Objective, begins: list[Start], *, seed: int) -> list[Start]:
    """Return the starts with one that meets the task, if such a policy can be found.

    Where none of them meets it, the last random (else the uniform) one is replaced by a policy that does, as close to
    uniform as it can be, or by the one that comes closest.
    """
    ascent = _Ascent(objective)
    softmax = objective.process.softmax
    replaced = next((begin for begin in reversed(begins) if begin.kind in ("random", "uniform")), None)
    if replaced is None or any(ascent.closest(softmax(begin.theta)).feasible for begin in begins):
        return begins
    pi = ascent.approach(objective.process.uniform(), find_feasible_policy(objective, seed=seed))
    made = Start(replaced.index, "feasible", np.log(np.maximum(pi, _LEAST_PROBABILITY)))
    return [made if begin is replaced else begin for begin in begins]


def count_beliefs(process: HiddenProcess, *, budget: Budget, stop: Stop) -> tuple[int, int, bool]:
    """Return how many beliefs and entries the graph of some policy has, and whether all of it fits the budget.

    This is what one evaluation costs. Raises StoppedError when `stop` is requested meanwhile.
    """
    graph = unroll(_random_chain(process, stop), steps=process.horizon, early=True, budget=budget, whole=True)
    stop.check()
    fits = graph.whole and graph.num_entries * _BYTES_PER_ENTRY <= budget.memory
    return graph.num_nodes, graph.num_entries, fits


def _random_chain(process: HiddenProcess, stop: Stop) -> Chain:
    """Return the chain of the policy that graphs are counted at: random, but always the same.

    The graph of the uniform policy is smaller than most by its symmetry.
    """
    theta = np.random.default_rng(0).normal(size=process.num_slots)
    return Chain.of(process, process.softmax(theta), stop=stop)


@dataclass(frozen=True, slots=True)
class BeliefCount:
    """How large the belief graph is, and how it is best cut where it is too large to begin with."""

    beliefs: int  # of the graph of some policy: what one evaluation costs
    whole: bool  # whether all of it fits the budget
    cuts: tuple[Budget | None, ...]  # of the rounds of a search, growing; None: samples; (): the whole graph is cheap
    thin: bool  # whether even the largest leaves out too much: then runs are sampled


def plan_cuts(process: HiddenProcess, *, budget: Budget, stop: Stop) -> BeliefCount:
    """Count the beliefs and, where there are many or they do not fit, choose the cuts that a search climbs.

    A cut keeps the heaviest beliefs of every level, at most 100,000 in all; the last one is the whole budget. Where a
    few beliefs have most of the probability, as on maps, a cut leaves out up to a seventh of a random policy and next
    to nothing of those that a search comes to. Where all beliefs weigh about the same it leaves out most of any policy,
    and so does one of ten times the size, but a sample tells much of them: a search begins on sampled runs, and goes on
    to all beliefs at once or, where they do not fit, stays with samples.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    beliefs, entries, whole = count_beliefs(process, budget=budget, stop=stop)
    if whole and beliefs <= _CHEAP_BELIEFS:
        return BeliefCount(beliefs, True, (), False)
    total = min(_CUT_BELIEFS, _CUT_ENTRIES * beliefs // entries)
    cut = replace(budget, nodes=min(max(total // max(process.horizon, 1), 1), budget.nodes))
    graph = unroll(_random_chain(process, stop), steps=process.horizon, early=True, budget=cut)
    stop.check()
    lossy = graph.dropped_mass > _MOST_LOST
    cuts = (None, None, budget) if lossy else (cut, cut, budget)
    return BeliefCount(beliefs, whole, cuts, thin=lossy and not whole)


def row_visits(process: HiddenProcess, pi: FloatArray) -> FloatArray:
    """Return [row]: D(u), the expected number of visits of every policy row under a policy vector."""
    return return_slope(process, pi)[2]


@dataclass(frozen=True, slots=True)
class FeasibilityResult:
    """A policy, its worst slack in units of what the requirements can differ by, and whether it meets the task."""

    pi: FloatArray  # [slot]
    slack: float
    feasible: bool


def find_feasible_policy(objective: Objective, *, seed: int = 0, climb: bool = True) -> FeasibilityResult:
    """Return a policy that meets every requirement or, if none is found, one whose worst slack is the largest found.

    Begins at the policies that earn most of each requirement, at mixtures of them, at the uniform and at random ones,
    and climbs from each until the task is met or no policy at all could come closer.

    seed: of the random policies; the same seed gives the same policy.
    climb: whether there is time to climb; without, the best of the policies to begin from is returned.
    Raises StoppedError when the objective's stop is requested meanwhile.
    """
    process, ascent = objective.process, _Ascent(objective)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    payoffs = objective.requirements() or process.payoffs[:1]
    earning = [greedy_policy(process, payoff, weighting="visits", stop=objective.stop) for payoff in payoffs]
    uniform, together = process.uniform(), np.asarray(np.mean(earning, axis=0))
    random = [process.softmax(rng.normal(size=process.num_slots)) for _ in range(_NUM_RANDOM)]
    begins = [*earning, together, uniform, 0.5 * (together + uniform), *random]
    best = max((ascent.closest(pi) for pi in begins), key=lambda result: result.slack)
    enough = ascent.largest_slack() - _ENOUGH if climb else -np.inf
    for pi in begins:
        if best.feasible or best.slack >= enough:
            return best
        climbed = ascent.climb(pi)
        best = climbed if climbed.slack > best.slack else best
    return best


def find_even_policy(objective: Objective, *, seed: int = 0) -> FloatArray:
    """Return a policy vector that meets the task and is as close to uniform as it can be, made in little time."""
    return approach_policy(objective, objective.process.uniform(), seed=seed)


def approach_policy(objective: Objective, aim: FloatArray, *, seed: int = 0) -> FloatArray:
    """Return a policy vector that meets the task and is as close to another as it can be, made in little time.

    aim: [slot], the other, which is returned if it meets the task itself.
    seed: as of `find_feasible_policy`, from whose policy the way leads to the aim.
    """
    if _Ascent(objective).closest(aim).feasible:
        return aim
    return _Ascent(objective).approach(aim, find_feasible_policy(objective, seed=seed, climb=False))


class _Ascent:
    """Climbs the smallest scaled slack, min_i slack_i / scale_i, by natural-gradient steps on exact returns.

    With several requirements a smooth minimum takes its place, which is made sharper and sharper.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective, self._process, self._scales = objective, objective.process, objective.scales
        self._stop = objective.stop

    def closest(self, pi: FloatArray) -> FeasibilityResult:
        """Return the policy with its worst slack; without requirements none is bad."""
        slack = self._objective.slack_at(pi)
        feasible = bool((slack >= 0.0).all() or (slack >= -self._objective.tolerances(pi)).all())
        return FeasibilityResult(pi, float((slack / self._scales).min(initial=np.inf)), feasible)

    def largest_slack(self) -> float:
        """Return the worst slack that no policy exceeds, by dynamic programming."""
        objective = self._objective
        payoffs = objective.requirements()
        most = [largest_return(self._process, payoff) - float(payoff.threshold or 0.0) for payoff in payoffs]
        most += [limit.most_slack for limit in objective.limits]
        return float((np.array(most) / self._scales).min(initial=np.inf))

    def climb(self, pi: FloatArray) -> FeasibilityResult:
        """Return the policy with the largest worst slack that is reached from one policy."""
        theta = np.log(np.maximum(pi, _LEAST_PROBABILITY))
        for sharpness in _SHARPNESS if self._scales.size > 1 else _SHARPNESS[:1]:
            theta = self._rise(theta, sharpness)
        pi = self._process.softmax(theta)
        kept = np.where(pi > 1e-6, pi, 0.0)  # without actions that are hardly ever taken
        row_start = self._process.row_start
        pure = np.asarray(kept / np.repeat(np.add.reduceat(kept, row_start[:-1]), np.diff(row_start)))
        return self._row_by_row(max((self.closest(pi), self.closest(pure)), key=lambda result: result.slack))

    def _row_by_row(self, best: FeasibilityResult) -> FeasibilityResult:
        """Set rows to single actions, one after the other, while that comes closer: for small problems.

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
                changed = self.closest(pi)
                if changed.slack > best.slack + 1e-12 * max(1.0, abs(best.slack)):
                    best, improved = changed, True
        return best

    def approach(self, aim: FloatArray, result: FeasibilityResult) -> FloatArray:
        """Return the policy vector on the way from one to an aim [slot] that is nearest to it and meets the task.

        result: where the way begins; where that policy misses the task, it is returned.
        """
        share, above = 0.0, 1.0
        for _ in range(20 if result.feasible else 0):
            middle = 0.5 * (share + above)
            if self.closest((1.0 - middle) * result.pi + middle * aim).feasible:
                share = middle
            else:
                above = middle
        return (1.0 - share) * result.pi + share * aim

    def _rise(self, theta: FloatArray, sharpness: float) -> FloatArray:
        """Take steps theta += length x advantage, longer after a success and shorter after a failure."""
        length = 1.0
        worth, advantage = self._smooth(theta, sharpness)
        for _ in range(_MAX_STEPS):
            after = np.clip(theta + length * advantage, -LARGEST_LOGIT, LARGEST_LOGIT)
            after = np.log(np.maximum(self._process.softmax(after), _LEAST_PROBABILITY))
            value, ahead = self._smooth(after, sharpness)
            if value > worth:
                gain, length = value - worth, min(2.0 * length, 1e6)
                theta, worth, advantage = after, value, ahead
                if gain <= 1e-12 * max(1.0, abs(worth)):
                    break
            else:
                length *= 0.25
                if length < 1e-8:
                    break
        return theta

    def _smooth(self, theta: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Return min_i s_i - log(sum_i exp(-k (s_i - min s))) / k of the scaled slacks s, and its advantages [slot].

        k is the sharpness. The advantage A(u, a) is the slope by logits divided by D(u) pi(a | u), as in the natural
        gradient.
        """
        self._stop.check()
        process = self._process
        slack, slopes = self._objective.slack_gradients(theta)
        slack = slack / self._scales
        weights = np.exp(-sharpness * (slack - slack.min()))
        slope = (weights / weights.sum() / self._scales) @ slopes
        pi = process.softmax(theta)
        visited = np.repeat(row_visits(process, pi), np.diff(process.row_start)) * pi
        advantage = np.where(visited > 0, slope / np.where(visited > 0, visited, 1.0), 0.0)
        return float(slack.min() - np.log(weights.sum()) / sharpness), advantage
