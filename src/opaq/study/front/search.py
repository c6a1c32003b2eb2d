"""Find the most opaque policy at one threshold of a front.

Comes in: a problem, and thresholds one after the other. Goes out: a `FrontSolution` for each. The problem is compiled
once; thresholds are exchanged in what was compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy, PolicyClass
from opaq.model.problem import Problem, ReturnAtLeast
from opaq.opacity.measure import Measurement, measure_product
from opaq.product.process import HiddenProcess
from opaq.product.trackers import track_requirement
from opaq.solvers.loop import Progress
from opaq.solvers.options import SolveOptions, StartChoice
from opaq.solvers.race import RaceResult, run_race
from opaq.solvers.registry import factory_of
from opaq.solvers.solve import Search, finish_search, measure_winner, reconcile
from opaq.solvers.starts import Start, make_starts, row_visits
from opaq.solvers.strategy import PlanRequest, Status
from opaq.solvers.verdict import Verdict, describe_verdict, raise_probabilities
from opaq.stop import Deadline, Stop, StoppedError

_RETURN = "return"
FEW_BELIEFS = 2_000  # up to this an evaluation takes about a millisecond
_FRESH_STARTS = 3  # beside the warm ones, where evaluations are that cheap; otherwise 1
_LAST_SECONDS = 3.0
_LEAST = 1e-6  # every action of a warm start has about this probability, so that it can come back


@dataclass(frozen=True, slots=True, eq=False)
class FrontSolution:
    """The policy that a search at one threshold ended with."""

    threshold: float | None  # None: without that requirement
    pi: FloatArray  # [slot]: the probability of each action in each row of the policy
    value: float  # what the policy reaches of the requirement
    score: float  # the certain end of the uncertainty, negative where it is minimised: higher is better
    measurement: Measurement
    slope: float | None  # of the front
    status: Status
    status_text: str
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class FrontSearch:
    """A prepared search whose threshold for one payoff is exchanged."""

    search: Search
    payoff: int  # which of the process's payoffs
    sizes: dict[int, float]  # payoff -> how far it can vary

    @classmethod
    def prepare(
        cls,
        problem: Problem,
        policy_class: PolicyClass,
        options: SolveOptions,
        *,
        against: str | None,
        warm: Policy | None = None,
        stop: Stop,
    ) -> FrontSearch:
        """Compile the problem once, with some threshold for the requirement that varies.

        options: of every solve. against: the requirement, by its name; None: the one that the task has.
        warm: a policy to begin from, beside others. stop: ends the work when it is requested.
        Raises InputError for an unknown requirement, StoppedError when the work ends before there is a search.
        """
        payoff = payoff_index(problem, against)
        problem = with_threshold(problem, payoff, 0.0)
        search = Search.prepare(problem, policy_class, factory_of(options.solver), options, warm=warm, stop=stop)
        required = [index for index, each in enumerate(search.product.process.payoffs) if each.threshold is not None]
        return cls(search, payoff, dict(zip(required, search.objective.scales.tolist(), strict=False)))

    @property
    def process(self) -> HiddenProcess:
        """The hidden process, whose payoffs have the thresholds of the problem."""
        return self.search.product.process

    @property
    def name(self) -> str:
        """The name of the requirement, as it is reported."""
        return self.process.payoffs[self.payoff].name

    @property
    def largest(self) -> float:
        """The most that any policy reaches of the requirement."""
        return next(most.largest for most in self.search.attainable if most.name == self.name)

    @property
    def least(self) -> float:
        """The least threshold that can be stated: 0 of a probability, none of a return."""
        requirements = (None, *self.search.problem.task.requirements)
        return -math.inf if isinstance(requirements[self.payoff], ReturnAtLeast | None) else 0.0

    @property
    def size(self) -> float:
        """The range of the requirement over all policies: its unit for tolerances."""
        return self.sizes[self.payoff]

    @property
    def sign(self) -> float:
        """+1 where the uncertainty is maximised, -1 where it is minimised."""
        return self.search.objective.sign

    def at(self, threshold: float | None, *, stop: Stop) -> Search:
        """Return the search with another threshold; nothing is compiled again.

        threshold: of the requirement that varies; None takes it out. stop: ends what the search then computes.
        """
        process, search = self.process, self.search
        payoffs = list(process.payoffs)
        payoffs[self.payoff] = replace(payoffs[self.payoff], threshold=threshold)
        problem = with_threshold(search.problem, self.payoff, threshold)
        product = replace(search.product, problem=problem, process=replace(process, payoffs=tuple(payoffs)))
        sizes = [size for index, size in self.sizes.items() if payoffs[index].threshold is not None]
        limits = search.objective.limits
        sizes += search.objective.scales[len(self.sizes) :].tolist()  # of limits of figures
        largest = {most.name: most for most in search.attainable}
        required = {each.name: each.threshold for each in payoffs if each.threshold is not None}
        required |= {limit.name: limit.threshold for limit in limits if limit.name in largest}
        return replace(
            search,
            problem=problem,
            product=product,
            objective=replace(search.objective, product=product, sizes=np.array(sizes), stop=stop),
            attainable=tuple(replace(largest[name], threshold=float(wanted)) for name, wanted in required.items()),
        )

    def solve(
        self,
        threshold: float | None,
        policies: Sequence[FloatArray] = (),
        *,
        stop: Stop,
        seed: int = 0,
        on_step: Callable[[Progress], None] | None = None,
    ) -> FrontSolution:
        """Return the best policy that is found at a threshold (None: without that requirement).

        policies: where the search begins, beside some fresh starts; without any it is an ordinary solve.
        stop: ends the search with the best policy so far. seed: of the fresh starts, added to that of the options.
        on_step: called now and then with where the search is. Raises StoppedError when there is no policy at all.
        """
        call = Deadline()
        search = self.at(threshold, stop=stop)
        outcome = RaceResult((), None, (), Status.INTERRUPTED)
        with suppress(StoppedError):
            if policies:
                outcome = self._warm_race(search, policies, seed, on_step)
            elif not search.impossible:
                outcome = search.race(folder=None, deadline=call, on_step=on_step)
        verdict = finish_search(search, outcome)
        pi, measurement = measure_winner(search, verdict.candidate, deadline=call)
        verdict = reconcile(verdict, measurement)
        return FrontSolution(
            threshold=threshold,
            pi=pi,
            value=measurement.requirements[self.payoff].value,
            score=measurement.uncertainty.score(minimise=self.sign < 0),
            measurement=measurement,
            slope=self._slope(search, verdict, threshold),
            status=verdict.status,
            status_text=describe_verdict(
                verdict, measurement, search.attainable, minimise=search.product.problem.task.minimise
            ),
            seconds=call.elapsed,
        )

    def ask_for_own_value(self, solved: FrontSolution) -> FrontSolution:
        """Return the same policy as the point of the value that it reaches, where there was no time to improve it.

        solved: the policy, which is measured again at that threshold, in 3 s at most.
        """
        search = self.at(solved.value, stop=Stop())
        measurement = measure_product(search.product, solved.pi, time=_LAST_SECONDS, sequences=0)
        score = measurement.uncertainty.score(minimise=self.sign < 0)
        return replace(solved, threshold=solved.value, measurement=measurement, score=score)

    def _warm_race(
        self, search: Search, policies: Sequence[FloatArray], seed: int, on_step: Callable[[Progress], None] | None
    ) -> RaceResult:
        """Return the result of a race of the policies against a few fresh starts.

        search: at its threshold. policies: [slot] each, made a little more random, so that every action can come back.
        seed: added to that of the options. on_step: called now and then; None for nobody.
        All starts but two are dropped after the first round, and all but one after the second.
        """
        process, options = search.objective.process, search.options
        factory = factory_of(options.solver)
        settings = {name: getattr(options, name) for name in factory.options}
        logits = [raise_probabilities(process, process.logits(pi), _LEAST) for pi in policies]
        count = _FRESH_STARTS if search.beliefs <= FEW_BELIEFS else 1
        kind: StartChoice = "mixed" if count > 1 else "random"
        fresh = make_starts(search.objective, count=count, kind=kind, seed=options.seed + seed)
        racing = [Start(index, "warm", theta) for index, theta in enumerate(logits)]
        racing += [replace(start, index=len(logits) + start.index) for start in fresh]
        cuts = search.plan.budgets[1:]
        request = PlanRequest(search.objective.gradients, search.beliefs, len(racing), settings, cuts=cuts)
        plan = factory.plan(request)
        kept = [
            min(count, most) for count, most in zip(plan.kept, (len(racing), 2, *[1] * len(plan.kept)), strict=False)
        ]
        plan = replace(plan, kept=tuple(kept))  # after a few steps it is known which start leads
        return run_race(
            search.objective,
            plan,
            racing,
            seed=options.seed,
            folder=None,
            workers=1,
            deadline=Deadline(),
            on_step=on_step,
        )

    def _slope(self, search: Search, verdict: Verdict, threshold: float | None) -> float | None:
        """Return minus the multiplier of the requirement: what one more unit of threshold changes. None: not known."""
        if threshold is None:
            return 0.0
        if verdict.optimality is None:
            return None
        required = [index for index in self.sizes if search.product.process.payoffs[index].threshold is not None]
        return -self.sign * float(verdict.optimality.multipliers[required.index(self.payoff)])

    def mixture(self, first: FrontSolution, second: FrontSolution, threshold: float) -> FloatArray:
        """Return a policy between two, that reaches about the threshold.

        With share s of the way from the first value to the second, and v1, v2 the expected visits of a row,

            pi(a | row) = ((1 - s) v1 pi1(a | row) + s v2 pi2(a | row)) / ((1 - s) v1 + s v2).

        Where rows tell states and times apart this has the visits of a coin tossed at the start between the two, and
        so exactly the mean of their returns.
        """
        span = second.value - first.value
        share = min(max((threshold - first.value) / span, 0.0), 1.0) if span > 0 else 0.5
        counts = np.diff(self.process.row_start)
        weights = [(1.0 - share) * row_visits(self.process, first.pi), share * row_visits(self.process, second.pi)]
        total = weights[0] + weights[1]
        part = np.divide(weights[1], total, out=np.full_like(total, share), where=total > 0.0)
        by_slot = np.repeat(part, counts)
        return np.asarray((1.0 - by_slot) * first.pi + by_slot * second.pi)


def payoff_index(problem: Problem, against: str | None) -> int:
    """Return the position of a requirement among the payoffs; the return has position 0.

    against: "return", or the name of a requirement as it is reported or as the task states it; None: the return where
    the task asks for one or for nothing, else its first requirement. Raises InputError for any other.
    """
    if against is None:
        return int(problem.task.return_at_least is None and bool(problem.task.requirements))
    names = [_RETURN]
    for position, requirement in enumerate(problem.task.requirements, start=1):
        tracked = track_requirement(requirement, problem).name
        own = str(getattr(requirement, "name", "") or getattr(requirement, "reward", ""))
        if against in (tracked, own):
            return position
        names.append(tracked)
    if against == _RETURN:
        return 0
    raise InputError([Fault("against", f"no requirement is called '{against}'", f"there are {', '.join(names)}")])


def with_threshold(problem: Problem, payoff: int, threshold: float | None) -> Problem:
    """Return the problem with another threshold for one payoff.

    payoff: its position, 0 for the return, then the requirements in their order. threshold: None takes it out.
    """
    task = problem.task
    if payoff == 0:
        return replace(problem, task=replace(task, return_at_least=threshold))
    requirements = list(task.requirements)
    if threshold is None:
        del requirements[payoff - 1]
    else:
        requirements[payoff - 1] = replace(requirements[payoff - 1], threshold=threshold)  # type: ignore[type-var]
    return replace(problem, task=replace(task, requirements=tuple(requirements)))
