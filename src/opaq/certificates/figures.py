"""Bounds on tasks about several figures, limits on figures, and observers that assume.

What a task maximises is concave in the law of runs where its figures are opacities. With any weights w on the simplex
and any prices l >= 0 of limits from below, every policy that meets the task has

    min_i H_i <= sum_i w_i H_i + sum_j l_j (H_j - c_j),

and so has the mean of H_i with its own weights. For one observer the right side is an uncertainty about all its secrets
at once, which `certify` bounds as any other (`MarginalSum`). Figures of different observers are bounded one by one.
Limits from above, and covert ones, are left out: what is bounded then are policies that need not meet them.

The cross-entropy of an observer that assumes is linear in the law of runs: a dynamic program over product states and
the nodes of its filter gives the most, or the least, that any policy reaches, policies that see the observations
included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as combinations
from typing import Any, ClassVar

import numpy as np

from opaq.beliefs.dynamic_program import best_values
from opaq.certificates.certify import STATE_CLASS, Certificate, CertificateStatus, certify
from opaq.certificates.decoder.decisions import Decisions
from opaq.certificates.decoder.search import BoundStep
from opaq.certificates.rounding import slack
from opaq.model.arrays import FloatArray, IntArray
from opaq.model.figures import Pair, UncertaintyLimit
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Jointly, Trajectory
from opaq.model.uncertainty import GuessError, Shannon, Uncertainty
from opaq.opacity.assumed import assumed_filter, follow_filter
from opaq.opacity.functionals import Least
from opaq.opacity.measure import Measurement, measure_product
from opaq.opacity.targets import figure_title, pair_weights, target_pairs
from opaq.product.compile import compile_problem
from opaq.product.trackers import track_secret
from opaq.solvers.solve import Solution
from opaq.stop import Deadline, Stop, StoppedError

JOINTLY = "all at once"
_TIE = 1e-3  # bits: figures this close to the least share the weight
_PRICE_STEPS = 48  # of the search for the price of one requirement
_MOST_PRICE = 1e6


@dataclass(frozen=True)
class MarginalSum(Uncertainty):
    """A weighted sum of the opacities of several secrets, as an uncertainty about all of them at once.

    f(q) = sum_i w_i H(marginal i of q): concave and homogeneous, with the slope sum_i w_i (-log2 P(z_i)).

    weights: at least 0. parts: value of all secrets at once -> the value of each, by its number.
    """

    weights: tuple[float, ...]
    parts: Mapping[str, tuple[int, ...]]

    name = "figures"
    title = "weighted sum of figures"
    unit = "bits"
    smooth = True
    has_cone: ClassVar[bool] = False

    @property
    def certain(self) -> FloatArray:
        """Return [value]: 0, since nothing is open."""
        return np.zeros(self.num_values)

    @property
    def highest(self) -> float:
        """Return the weighted sum of log2 of the numbers of values that occur."""
        table = self._table()
        counts = [np.unique(column).size for column in table.T]
        return float(np.array(self.weights) @ np.log2(np.maximum(counts, 1)))

    def rows(self, masses: Any, values: IntArray) -> tuple[Any, Any]:
        """Return the weighted entropies of the marginals, and their slopes, row by row."""
        table, total = self._table(), masses.sum(axis=1, keepdims=True)
        amounts: Any = 0.0
        slopes: Any = 0.0
        for weight, column in zip(self.weights, table.T, strict=True):
            own = column[values]
            marginal = np.zeros_like(masses)
            for value in np.unique(own):
                same = own == value
                marginal = np.where(same, (masses * same).sum(axis=1, keepdims=True), marginal)
            positive = np.real(marginal) > 0.0
            share = np.where(positive, marginal, 1.0) / np.where(positive, total, 1.0)
            surprise = -np.log(share) / math.log(2.0)
            amounts, slopes = amounts + weight * (masses * surprise).sum(axis=1), slopes + weight * surprise
        return amounts, slopes

    def step(self, rounds: int) -> float:
        """Return a step that is safe: the entropies of marginals are as smooth as that of all at once."""
        return math.log(2.0) / max(sum(self.weights), 1e-12)

    def _table(self) -> IntArray:
        """Return [value, secret] -> the value of every secret, by its number."""
        return np.array([self.parts[name] for name in self.secret_values], dtype=np.int64).reshape(
            self.num_values, len(self.weights)
        )


@dataclass(frozen=True, slots=True, eq=False)
class FigureBounds:
    """One certificate of a task about figures in the making."""

    problem: Problem
    policy: Policy | None
    measurement: Measurement | None  # of the policy given, or of the uniform one
    weights: FloatArray  # [pair]: of the least of several, those near the policy
    prices: Mapping[int, float]  # limit -> what one more bit of it costs, about
    gap: float
    deadline: Deadline
    memory: float
    aware: bool
    stop: Stop
    on_progress: Callable[[BoundStep], None] | None

    @classmethod
    def of(
        cls, problem: Problem, policy: Policy | None, solution: Solution | None, *, stop: Stop, **limits: Any
    ) -> FigureBounds:
        """Measure the policy, and take weights and prices from it."""
        measurement = None if solution is None else solution.measurement
        if measurement is None:
            product = compile_problem(problem, None if policy is None else policy.policy_class, stop=stop)
            measurement = measure_product(product, product.policy_vector(policy), sequences=0, stop=stop)
        pairs = target_pairs(problem)
        weights = pair_weights(pairs)
        if problem.task.taken == "least" and len(pairs) > 1:
            figures = {(one.of, one.for_): (one.cross_entropy or one.opacity).value for one in measurement.figures}
            values = np.array([figures[pair.of, pair.for_] for pair in pairs])
            weights = Least((), _TIE).combine(values)[1]
        prices = {}
        if solution is not None and solution.optimality is not None:
            known = solution.optimality.multipliers
            count = known.size - len(problem.task.limits)
            prices = {index: float(known[count + index]) for index in range(len(problem.task.limits))}
        return cls(problem, policy, measurement, weights, prices, stop=stop, **limits)

    def run(self) -> Certificate:
        """Return the best of the bounds on the figures one by one and, for one observer, on all of them at once."""
        problem, pairs = self.problem, target_pairs(self.problem)
        jobs = list(self._jobs(pairs))
        certificates, singles = list[tuple[float, Certificate]](), list[tuple[float, Certificate]]()
        least, minimise = problem.task.taken == "least" and len(pairs) > 1, problem.task.minimise
        for index, (make, offset, _) in enumerate(jobs):
            try:
                certificate = make(self.deadline.part(1.0 / (len(jobs) - index)))
            except StoppedError:
                if not certificates or (index < len(pairs) and not least):
                    raise
                break
            certificates.append((certificate.bound - offset, certificate))
            singles += certificates[-1:] if index < len(pairs) else []
        joint = certificates[len(singles) :]
        bounds = np.array([bound for bound, _ in singles])
        apart = float(bounds.min()) if least else float(pair_weights(pairs) @ bounds)
        if least or len(pairs) == 1:
            best = min(singles, key=lambda one: one[0])[1]
        else:
            best = max(singles, key=lambda one: one[0])[1]
        bound, used = apart, frozenset[int]()
        for (value, certificate), (_, _, priced) in zip(joint, jobs[len(pairs) :], strict=False):
            if value < bound:
                bound, best, used = value, certificate, priced
        left_out = self._left_out(used)
        infeasible = any(one.status is CertificateStatus.INFEASIBLE for _, one in certificates)
        trivial = np.array([one.trivial_bound for _, one in singles])
        return replace(
            best,
            problem=problem.name,
            of=problem.task.of.name,
            unit=problem.task.of.unit,
            upper_bound=None if minimise else -math.inf if infeasible else bound,
            lower_bound=(math.inf if infeasible else bound) if minimise else None,
            trivial_bound=float(trivial.min()) if least else float(pair_weights(pairs) @ trivial),
            upper_bound_aware=None if minimise else best.upper_bound_aware if len(certificates) == 1 else None,
            aware=any(one.aware for _, one in certificates),
            measurement=self.measurement,
            left_out=left_out,
            given=self.policy is not None,
            status=CertificateStatus.INFEASIBLE
            if infeasible
            else _ending(best.status, alone=len(jobs) == 1, whole=not left_out),
            ladder=tuple(rung for _, one in certificates for rung in one.ladder),
            seconds=self.deadline.elapsed,
        )

    def _left_out(self, used: Collection[int]) -> tuple[str, ...]:
        """Return the limits that a bound does not use, in words; used: the numbers of those that it does."""
        problem, words = self.problem, list[str]()
        for index, limit in enumerate(problem.task.limits):
            if index not in used:
                kind, asked = "relative entropy", "at most"
                if isinstance(limit, UncertaintyLimit):
                    kind = figure_title(problem, problem.complete(Pair(limit.of, limit.for_)))
                    asked = limit.direction.replace("_", " ")
                words.append(f"{kind} {asked} {limit.threshold:.6g}")
        return tuple(words)

    def _jobs(
        self, pairs: tuple[Pair, ...]
    ) -> Iterator[tuple[Callable[[Deadline], Certificate], float, frozenset[int]]]:
        """Yield what makes a certificate, given its deadline, what is to be taken from its bound, and the limits used.

        First every figure alone, then all figures of one observer with the limits from below that it has.
        """
        problem, task = self.problem, self.problem.task
        for pair in pairs:
            alone = replace(problem, task=replace(task, pairs=(), limits=(), taken="mean"))
            about = alone.about(of=pair.of, for_=pair.for_)
            if pair.for_ in problem.assumptions:
                yield partial(self._bound_linear, about), 0.0, frozenset()
            else:
                yield partial(self._bound, replace(about, assumptions={})), 0.0, frozenset()
        plain = task.when == "end" and isinstance(task.of, Shannon) and not task.minimise
        observers = {pair.for_ for pair in pairs}
        if not plain or len(observers) > 1 or observers & set(problem.assumptions):
            return
        (for_,) = observers
        if any(isinstance(problem.secrets[pair.of], Trajectory) for pair in pairs):
            return
        weights: dict[str, float] = {}
        for pair, weight in zip(pairs, self.weights, strict=True):
            weights[pair.of] = weights.get(pair.of, 0.0) + float(weight)
        offset, used = 0.0, set[int]()
        for index, limit in enumerate(task.limits):
            if isinstance(limit, UncertaintyLimit) and limit.direction == "at_least":
                stated, price = problem.complete(Pair(limit.of, limit.for_)), self.prices.get(index, 0.0)
                joins = stated.for_ == for_ and not isinstance(problem.secrets[stated.of], Trajectory)
                if joins and price > 0.0:
                    weights[stated.of] = weights.get(stated.of, 0.0) + price
                    offset += price * limit.threshold
                    used.add(index)
        weights = {of: weight for of, weight in weights.items() if weight > 1e-9}
        if len(weights) == 1 and not offset:
            return  # a figure alone, which is bounded already
        yield partial(self._bound, self._joint(weights, for_)), offset, frozenset(used)

    def _joint(self, weights: Mapping[str, float], for_: str) -> Problem:
        """Return the problem of the weighted sum of the opacities of some secrets for one observer."""
        problem = self.problem
        secret = Jointly(tuple(problem.secrets[of] for of in weights))
        values = [track_secret(one, problem.mdp, problem.horizon).values for one in secret.secrets]
        numbers = combinations(*(range(len(each)) for each in values))
        parts = dict(zip(secret.join(values), numbers, strict=True))
        of = MarginalSum(tuple(weights.values()), parts)
        task = replace(problem.task, pairs=(), limits=(), taken="mean", of=of)
        secrets = {**problem.secrets, JOINTLY: secret}
        observer = problem.observers[for_]
        return replace(
            problem, task=task, secret=secret, secrets=secrets, of=JOINTLY, observer=observer, for_=for_, assumptions={}
        )

    def _bound(self, about: Problem, deadline: Deadline) -> Certificate:
        """Certify a plain problem; the policy says what is near."""
        with self.stop.part() as part:  # the time limit of one part is not that of all
            return certify(
                about,
                self.policy,
                gap=self.gap,
                time_limit=max(deadline.left or 0.0, 1e-3),
                max_memory=self.memory,
                observation_aware=self.aware,
                stop=part,
                on_progress=self.on_progress,
            )

    def _bound_linear(self, about: Problem, deadline: Deadline) -> Certificate:
        """Bound what an observer that assumes is left with, by a dynamic program; any prices make a bound."""
        assumption = about.assumptions[about.for_]
        filter = assumed_filter(about, assumption, of=about.of, for_=about.for_)
        product = compile_problem(about, STATE_CLASS, assumed=filter.graph, stop=self.stop)
        assuming = follow_filter(product, filter, assumption)
        payoff = assuming.guess_error if isinstance(about.task.of, GuessError) else assuming.cross_entropy
        sign = -1.0 if about.task.minimise else 1.0
        decisions = Decisions.of(product.process, forever=about.task.over == "forever", stop=self.stop)
        program = _Program(decisions, sign * payoff.final, self.stop)
        prices = program.best_prices()
        bound, trivial = sign * program.bound(prices), sign * float((sign * payoff.final).max(initial=0.0))
        return Certificate(
            problem=about.name,
            of=about.task.of.name,
            unit=about.task.of.unit,
            upper_bound=None if sign < 0 else bound,
            lower_bound=bound if sign < 0 else None,
            trivial_bound=trivial,
            upper_bound_aware=bound if sign > 0 else None,
            aware=True,
            measurement=None,
            given=False,
            prices=dict(zip(decisions.names, prices.tolist(), strict=True)),
            machine="the filter of the observer that assumes",
            ladder=(),
            status=CertificateStatus.OPTIMUM,
            seconds=deadline.elapsed,
        )


def _ending(status: CertificateStatus, *, alone: bool, whole: bool) -> CertificateStatus:
    """Return how a search for a bound ended: an optimum of a part, or of less than is asked, is none of the task.

    alone: whether one bound is all of it. whole: whether it uses every limit.
    """
    proven = status in (CertificateStatus.OPTIMUM, CertificateStatus.CONVERGED)
    return CertificateStatus.FINEST if proven and not (alone and whole) else status


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """The most that any policy reaches of a worth of the last state, with payoffs at a price."""

    decisions: Decisions
    final: FloatArray  # [state]
    stop: Stop

    def bound(self, prices: FloatArray) -> float:
        """Return max over policies of E[final] + prices (payoffs - thresholds), rounded up: convex in the prices."""
        decisions = self.decisions
        value = best_values(
            decisions.choices,
            lambda time: decisions.paid(prices, time),
            self.final + decisions.final(prices),
            horizon=decisions.process.horizon,
            stop=self.stop,
        )
        most = float(decisions.start_chance @ value[decisions.start_state]) - float(prices @ decisions.thresholds)
        return most + slack(decisions, self.final, prices, None)

    def best_prices(self) -> FloatArray:
        """Return prices [requirement] near the best, one after the other; without requirements none."""
        prices = np.zeros(len(self.decisions.names))
        for index in (*range(prices.size), *range(prices.size)) if prices.size > 1 else range(prices.size):
            prices[index] = self._best_price(prices, index)
        return prices

    def _best_price(self, prices: FloatArray, index: int) -> float:
        """Return the price of one requirement that gives the least bound, by a golden section search."""

        def at(price: float) -> float:
            changed = prices.copy()
            changed[index] = price
            return self.bound(changed)

        low, high = 0.0, 1.0
        while high < _MOST_PRICE and at(2.0 * high) < at(high):
            high *= 2.0
        high, golden = 2.0 * high, 0.5 * (math.sqrt(5.0) - 1.0)
        for _ in range(_PRICE_STEPS):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if at(left) <= at(right) else (left, high)
        return min((0.0, low, 0.5 * (low + high), high), key=at)
