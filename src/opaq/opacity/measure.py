"""Measure the opacity of a policy: the one call behind `opaq measure`.

A problem and a policy come in; a `Measurement` goes out: H(Z | Y), guess error, guesswork and what the task is about,
the exact value of every requirement, and the observation sequences that matter most.

The method is chosen by cost. First the whole belief graph is tried: its figures are exact. Where it does not fit the
budget, a part of it that leaves out the probability d gives certified intervals, for opacity

    H_kept <= H(Z | Y) <= H_kept + d log2 |Z|,

and where these stay too wide, runs are sampled and the figures carry standard errors. Every figure is intersected with
what the distribution of the secret alone says (`amount.bound_amount`), so that an estimate lies in a proven interval.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from opaq.beliefs.graph import Budget, Limit
from opaq.beliefs.returns import (
    absolute_payoff,
    expected_return,
    infinite_return,
    secret_distribution,
    threshold_tolerance,
)
from opaq.codec import Result, if_known, infinity, key
from opaq.display import NotebookView, data_frame, posterior_columns
from opaq.errors import BudgetError, Fault, InputError, check_numbers, check_types, choose, is_flag
from opaq.load import as_problem
from opaq.model.arrays import ContentEq, FloatArray, floats
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import GuessError, Guesswork, Shannon, Uncertainty, entropy
from opaq.opacity.amount import Amount, Figures, Target, bound_amount, fano_bound, unknown_amount
from opaq.opacity.channel import Capacity, bound_capacity, check_initial
from opaq.opacity.exact import Evaluation, evaluate
from opaq.opacity.figures import Figure, limit_tolerance, measure_figures, measure_limits, measure_target
from opaq.opacity.leakage import GuessLeakage, leakage_of_guess, leakage_of_loss, map_amount
from opaq.opacity.policies import as_policy
from opaq.opacity.rates import Rate, bound_rate, check_rate
from opaq.opacity.sampled import estimate
from opaq.opacity.sequences import ObservedSequence, rank_sequences
from opaq.opacity.targets import target_title
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Deadline, Stop, StoppedError, interruptible
from opaq.threads import available_cores

if TYPE_CHECKING:
    from pandas import DataFrame


Mode = Literal["auto", "exact", "interval", "sampled"]
_QUICK_NODES = 5_000_000  # beliefs of all levels together for an interval where the whole graph does not fit
_LEAST_QUICK = 500  # with fewer per level it is not worth trying
_MOST_EXPECTED = 1e15  # beliefs; an estimate beyond this says nothing
_HOPELESS = 50  # an interval this many times too wide is not tried with more beliefs


@dataclass(frozen=True, slots=True)
class ExactnessLimit:
    """What kept an answer from being exact, and what the whole belief graph would take where that can be estimated.

    Estimates hold if the levels to come grow as the last ones did.

    limit: "beliefs" on one level, "memory", "time", "work" (of an answer without a time limit), "interrupted", or
        "mode" where the mode asked for is not exact.
    num_nodes: beliefs made by then.
    expected_nodes: beliefs of the whole graph; null where there is no basis for an estimate.
    expected_seconds: the time for the whole graph; null where there is no basis for an estimate.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("advice",)

    limit: Literal["beliefs", "memory", "work", "time", "interrupted", "mode"]
    num_nodes: int = field(default=0, metadata=key("num_beliefs"))
    expected_nodes: int | None = field(default=None, metadata=key("num_beliefs_expected"))
    expected_seconds: float | None = field(default=None, metadata=key("seconds_expected"))

    @property
    def advice(self) -> str:
        """What would make the answer exact, in words."""
        return _ADVICE[self.limit]


_ADVICE = {
    "beliefs": "allow more beliefs at a time (opaq measure --max-beliefs)",
    "memory": "allow more memory for beliefs (opaq measure --max-memory)",
    "time": "allow more time (opaq measure --time; half of it goes to the exact answer)",
    "work": "give a time limit that allows it (opaq measure --time; half of it goes to the exact answer)",
    "interrupted": "let it go on (opaq measure)",
    "mode": "use opaq measure --mode auto or exact",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The uncertainties of a policy, within what the distribution of the secret allows, and how they were obtained."""

    figures: Figures
    num_nodes: int
    explanation: str
    samples: int = 0  # how many runs were sampled, if the answer is an estimate
    exactness_limit: ExactnessLimit | None = None  # None: exact

    @property
    def opacity(self) -> Amount:
        """Return H(Z | Y) in bits."""
        return self.figures[Shannon.name]


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """One policy on one process, and how precise the answer should be.

    The belief graph is tried as a whole, then in parts that give certified intervals, then runs are sampled.
    """

    process: HiddenProcess
    pi: FloatArray
    prior: FloatArray
    uncertainties: Mapping[str, Uncertainty]  # by name, over the secret's values; opacity and guess error among them
    width: float
    samples: int
    rng: np.random.Generator
    time: float | None
    stop: Stop
    tell: Callable[[str], None]

    def answer(self, mode: Mode, budget: Budget) -> Answer:
        """Measure by the given mode; "auto" gives the exact part half of the time and the interval part a quarter.

        mode: "exact", "interval", "sampled" or "auto", as in `measure`.
        budget: of the belief graph. Its limit on work is lifted in mode "exact" and where there is a time limit.
        Returns the figures with `exactness_limit` None where they are exact. Where the stop is requested after the
        first attempt, its interval is the answer. Raises BudgetError in mode "exact" when the graph does not fit, and
        StoppedError in mode "sampled" when not one batch of runs was completed.
        """
        if mode == "sampled":
            return replace(self._sample(None, "as asked"), exactness_limit=ExactnessLimit("mode"))
        if mode == "interval":
            evaluation = self._tighten(None, budget, parts=(64, 8, 1), hopeful=False)
            limit = None if evaluation.whole else ExactnessLimit("mode", evaluation.num_nodes)
            return replace(self._interval(evaluation), exactness_limit=limit)
        if mode == "exact" or self.time is not None:
            budget = replace(budget, whole_work=None)
        growth = Growth(self.process.horizon)
        with self.stop.stage(self._share(0.5 if mode == "auto" else None)):
            first = self._evaluate(budget, whole=True, growth=growth)
            ran_out = self.stop.requested
        if first.whole:
            return self._from(first, _exact_words(first))
        stopped: Literal["interrupted", "time"] = "interrupted" if self.stop.interrupted else "time"
        limit = growth.limited_by(first.limit or stopped)
        if self.stop.requested:
            return replace(self._interval(first), exactness_limit=limit)
        answer = self._inexact(mode, first, budget, ran_out=ran_out)
        return answer if answer.opacity.method == "exact" else replace(answer, exactness_limit=limit)

    def _inexact(self, mode: Mode, first: Evaluation, budget: Budget, *, ran_out: bool) -> Answer:
        """Measure by an interval or an estimate, the whole graph being too large; BudgetError in mode "exact".

        first: the attempt at the whole graph. budget: of the belief graph.
        ran_out: whether time ended the first attempt: what it proved is then used, else only the parts evaluated from
            here.
        """
        if mode == "exact":
            raise BudgetError(
                f"the belief graph has more than {first.num_nodes:,} beliefs, too many for the budget; "
                "use mode interval or sampled, or allow more nodes or memory"
            )
        if self._quick(budget).nodes < min(_LEAST_QUICK, budget.nodes // 8):
            return self._sample_or_interval(first, "the belief graph does not fit the budget")
        with self.stop.stage(self._share(0.25)):
            evaluation = self._tighten(first if ran_out else None, self._quick(budget), parts=(8, 1), hopeful=True)
        return self._interval_or_sample(evaluation)

    def _share(self, part: float | None) -> float | None:
        """Return the seconds that a part of the time limit is; None without a limit, or where no part is set aside."""
        return None if self.time is None or part is None else part * self.time

    def _interval_or_sample(self, evaluation: Evaluation) -> Answer:
        """Return the interval if it is narrow enough, or narrower than sampling would give.

        Narrow enough is `width` bits of opacity. Otherwise runs are sampled, and the interval is preferred still where
        it is no wider than four standard errors of the estimate.
        """
        if evaluation.opacity.width <= self.width or self.stop.requested:
            return self._interval(evaluation)
        reason = f"the certified interval stayed {evaluation.opacity.width:.2g} bits wide"
        sampled = self._sample_or_interval(evaluation, reason)
        if evaluation.opacity.width <= 4 * (sampled.opacity.standard_error or 0.0):
            return self._from(evaluation, f"certified interval, narrower than sampling would give ({reason})")
        return sampled

    def _sample_or_interval(self, evaluation: Evaluation, reason: str) -> Answer:
        """Return an estimate beside the interval, or the interval alone where the work ended before there was one.

        evaluation: what is certified. reason: why runs are sampled, for the explanation.
        """
        try:
            return self._sample(evaluation, reason)
        except StoppedError:
            return self._interval(evaluation)

    def _interval(self, evaluation: Evaluation) -> Answer:
        """Return an evaluation as an answer that explains what was kept, what was dropped and what ended the work."""
        kept = f"{evaluation.num_nodes:,} beliefs kept, {evaluation.dropped_mass:.2g} of the probability dropped"
        if evaluation.whole:
            return self._from(evaluation, _exact_words(evaluation))
        why = f"; {self.stop.reason}" if self.stop.requested else ""
        return self._from(evaluation, f"certified interval: {kept}{why}")

    def _quick(self, budget: Budget) -> Budget:
        """Return an eighth of the budget, less for long horizons: an interval should take no longer than sampling."""
        return replace(budget, nodes=max(1, min(budget.nodes // 8, _QUICK_NODES // (self.process.horizon + 1))))

    def _tighten(self, best: Evaluation | None, budget: Budget, *, parts: tuple[int, ...], hopeful: bool) -> Evaluation:
        """Evaluate ever larger parts of the graph until the interval is narrow enough, or budget or time is used up.

        best: an earlier evaluation of the same policy, whose intervals are intersected with the new ones; None: there
            is none.
        budget: of the largest part. parts: divisors of its number of beliefs per level, largest first.
        hopeful: also end where a larger part can hardly make the interval narrow enough.
        Returns the intersection of all intervals, with the size and the dropped mass of the part that dropped the
        least.
        """
        for part in parts:
            evaluation = self._evaluate(replace(budget, nodes=max(budget.nodes // part, 1)))
            best = evaluation if best is None else _narrower(best, evaluation)
            hopeless = hopeful and best.opacity.width > _HOPELESS * self.width
            if best.whole or hopeless or best.opacity.width <= self.width or self.stop.requested:
                break
        assert best is not None, "there is at least one part"
        return best

    def _evaluate(self, budget: Budget, *, whole: bool = False, growth: Growth | None = None) -> Evaluation:
        """Evaluate a part of the graph; what the prior alone says of the uncertainties tightens their intervals.

        budget: how much of the graph is kept. whole: give up at the first level that does not fit.
        growth: is told the size of every level, for an estimate of the whole graph.
        """
        levels = self.process.horizon

        def on_level(done: int, nodes: int) -> None:
            if growth is not None:
                growth.note(done, nodes)
            self.tell(f"observation {done} of {levels}, {nodes:,} beliefs")

        evaluation = evaluate(
            self.process,
            self.pi,
            leaves=tuple(self.uncertainties.values()),
            budget=budget,
            whole=whole,
            stop=self.stop,
            on_level=on_level,
        )
        bounded = {
            name: bound_amount(amount, self.uncertainties[name], self.prior)
            for name, amount in evaluation.figures.items()
        }
        return replace(evaluation, figures=bounded)

    def _from(self, evaluation: Evaluation, explanation: str) -> Answer:
        """Return the figures of an evaluation as an answer with an explanation in words."""
        return Answer(evaluation.figures, evaluation.num_nodes, explanation)

    def _sample(self, evaluation: Evaluation | None, reason: str) -> Answer:
        """Return an estimate with standard errors, beside whatever interval is certified.

        evaluation: the source of the intervals; None: what the prior alone says. reason: why runs are sampled.
        Raises StoppedError when the stop is requested before any batch of runs is complete.
        """
        estimated = estimate(
            self.process,
            self.pi,
            samples=self.samples,
            rng=self.rng,
            leaves=tuple(self.uncertainties.values()),
            stop=self.stop,
            on_batch=lambda done: self.tell(f"{done:,} of {self.samples:,} runs sampled"),
        )
        figures = {}
        for name, (value, error) in estimated.means.items():
            known = evaluation.figures[name] if evaluation else unknown_amount(self.uncertainties[name], self.prior)
            figures[name] = Amount.estimate(value, known.lower, known.upper, standard_error=error)
        early = f"; {self.stop.reason}" if estimated.samples < self.samples else ""
        return Answer(
            figures,
            evaluation.num_nodes if evaluation else 0,
            f"estimated from {estimated.samples:,} sampled runs ({reason}{early})",
            estimated.samples,
        )


@dataclass(slots=True)
class Growth:
    """The growth of a belief graph, level by level: what an estimate of its whole size and time rests on."""

    horizon: int
    start_time: float = field(default_factory=perf_counter)
    noted: list[tuple[int, int, float]] = field(default_factory=list)  # levels, beliefs so far, seconds

    def note(self, levels: int, num_nodes: int) -> None:
        """Record how many levels are made, the beliefs on all of them together, and the seconds so far."""
        self.noted.append((levels, num_nodes, perf_counter() - self.start_time))

    def limited_by(self, limit: Limit | Literal["time", "interrupted"]) -> ExactnessLimit:
        """Return the limit that was met with an estimate of the whole graph.

        With n_L beliefs on the last of L levels, r = n_L / n_(L-1), N beliefs in all and k levels left, the estimate is

            N + n_L (r + r^2 + .. + r^k) beliefs,

        and the time is in proportion to the beliefs that were expanded so far, N - n_L. There is an estimate where the
        last three levels are known one by one, and no more levels are left than were made. Where memory or time ended
        the work, the last level is not complete, and not counted.
        """
        num_nodes = self.noted[-1][1] if self.noted else 0
        complete = self.noted[:-1] if limit in ("memory", "time", "interrupted") else self.noted
        (last, total, seconds), sizes = complete[-1] if complete else (0, 0, 0.0), _last_sizes(complete)
        left = self.horizon - last
        if sizes is None or left > last:
            return ExactnessLimit(limit, num_nodes)
        ratio = sizes[1] / sizes[0]
        expected = total + sum(sizes[1] * ratio**step for step in range(1, left + 1))
        if expected > _MOST_EXPECTED:
            return ExactnessLimit(limit, num_nodes)
        per_node = seconds / (total - sizes[1])  # nodes of the last level were not looked at beyond it
        return ExactnessLimit(limit, num_nodes, int(expected), expected * per_node)


def _last_sizes(noted: list[tuple[int, int, float]]) -> tuple[int, int] | None:
    """Return the sizes of the last two levels, where those were noted one by one; None otherwise.

    noted: (levels, beliefs so far, seconds), as `Growth` has them.
    """
    if len(noted) < 3 or noted[-1][0] - noted[-3][0] != 2:
        return None
    before, last = (after[1] - first[1] for first, after in pairwise(noted[-3:]))
    return (before, last) if before > 0 else None


def _narrower(first: Evaluation, second: Evaluation) -> Evaluation:
    """Intersect the intervals of two evaluations of a policy; the one that dropped less gives the number of beliefs."""
    figures = {}
    for name, one in first.figures.items():
        lower, upper = max(one.lower, second.figures[name].lower), min(one.upper, second.figures[name].upper)
        figures[name] = Amount.between(lower, max(lower, upper))
    return replace(second if second.dropped_mass <= first.dropped_mass else first, figures=figures)


def _exact_words(evaluation: Evaluation) -> str:
    """Return the explanation of an exact answer."""
    beliefs = "1 belief" if evaluation.num_nodes == 1 else f"{evaluation.num_nodes:,} beliefs"
    return f"exact: the whole belief graph fits ({beliefs})"


_FEW_NODES = 50_000  # a graph of at most this many beliefs is searched as a whole for sequences to show
_SHOWN_RUNS = 200  # sampled runs searched for sequences to show
_LEAST_SHOWN = 64  # of a larger one, at least this many per level


def _choose_sequences(
    product: Product,
    pi: FloatArray,
    prior: FloatArray,
    answer: Answer,
    *,
    count: int,
    budget: Budget,
    rng: np.random.Generator,
    stop: Stop,
) -> tuple[tuple[ObservedSequence, ...], tuple[ObservedSequence, ...]]:
    """Return the most revealing and the most confusing sequences, with less work than the measurement took.

    None where the stop is requested.

    prior: [secret value] P(Z = z). answer: its size and method say how many beliefs, or sampled runs, are searched.
    count: how many of each.
    """
    if not count or stop.requested:
        return (), ()
    samples = min(answer.samples, _SHOWN_RUNS)
    search_budget = replace(budget, nodes=min(budget.nodes, _searched_nodes(answer, product.process.horizon)))
    try:
        return rank_sequences(
            product,
            pi,
            prior,
            count=count,
            budget=search_budget,
            samples=samples,
            rng=rng if samples else None,
            stop=stop,
        )
    except StoppedError:
        return (), ()


def _searched_nodes(answer: Answer, horizon: int) -> int:
    """Return how many beliefs per level are searched: all of a small exact graph, else a quarter of the mean level."""
    if answer.opacity.method == "exact" and answer.num_nodes <= _FEW_NODES:
        return _FEW_NODES
    return max(_LEAST_SHOWN, answer.num_nodes // (4 * (horizon + 1)))


__all__ = [
    "Amount",
    "Measurement",
    "Mode",
    "RequirementResult",
    "evaluate_requirements",
    "measure",
    "measure_product",
    "standard_budget",
    "with_opacity",
]

_NO_ENTROPY = 1e-12  # bits below this are rounding errors
_NO_LIMIT = 2**62
_WHOLE_WORK = 1e9  # operations for the whole graph where no limit is given: 10 to 40 s
_MOST_RUN_STEPS = 10_000_000  # runs x observations sampled by default
_LONGEST_SHOWN = 1000  # sequences of longer runs are shown only if asked for


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One requirement of the task: what was reached, what was asked.

    name: "return", or the requirement as the task names it.
    value: what the policy reaches of it, exactly; the worse end of an interval, null: infinite.
    threshold: what is asked; null: nothing.
    tolerance: how far below the threshold counts as rounding; 0 where the threshold is reached.
    direction: "at_most" of a figure that must not be above the threshold; left out of all others, which must reach it.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("feasible",)

    name: str
    value: float = field(metadata=infinity(math.inf))
    threshold: float | None
    tolerance: float = 0.0
    direction: Literal["at_most"] | None = field(default=None, metadata=if_known())

    @property
    def slack(self) -> float:
        """Return how far the value is on the right side, infinite where nothing is asked; at least 0 is feasible."""
        if self.threshold is None:
            return np.inf
        return self.threshold - self.value if self.direction == "at_most" else self.value - self.threshold

    @property
    def feasible(self) -> bool:
        """Whether the requirement is met, up to rounding."""
        return self.threshold is None or self.slack >= -self.tolerance


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(NotebookView, ContentEq, Result):
    """What a policy gives away, and what it earns.

    Opacity, guess error and guesswork are always measured; where the task is about an expected loss (or another
    uncertainty of the caller's), `objective` is that.

    problem: the problem's name.
    opacity: H(secret | observations) in bits.
    secret_entropy: H(secret) in bits: the uncertainty before observing.
    secret_distribution: secret value -> probability.
    leakage: H(secret) - opacity, in bits.
    guess_error: the probability that the observer's best guess is wrong.
    secret_guess_error: the same without observing.
    vulnerability: the probability that the observer's best guess is right, and what observing adds to it.
    min_entropy_leakage: log2 of the factor by which observing raises that probability, in bits.
    guesswork: how many guesses the observer needs in the mean until one is right; null for trajectories.
    secret_guesswork: the same without observing.
    objective: what the task is about, which is the opacity unless the task says otherwise, and what the policy
        reaches of it.
    secret_uncertainty: the same figure before observing.
    g_leakage: where the task is about an expected loss, that loss and what observing takes from it; null elsewhere.
    fano_bound: the least guess error that Fano's inequality allows at this opacity.
    expected_return: the exact expected return.
    threshold: what the task asks of it; null: nothing.
    feasible: whether every requirement is met.
    requirements: every requirement of the task, the return first.
    revealing: observation sequences by their share of leakage, largest first.
    confusing: observation sequences by their share of opacity, largest first.
    explanation: how the figures were obtained, in words.
    horizon: how many transitions a run has.
    num_product_states: states of the compiled problem.
    num_nodes: beliefs of the belief graph.
    seconds: the time it took.
    exactness_limit: what kept the answer from being exact; null where it is exact.
    figures: what every observer is left with of every secret.
    capacity: the most that the policy gives away over all distributions of an initial secret; left out unless asked
        for.
    opacity_per_step: of a trajectory, and where the task is about every moment: opacity divided by the moments (by
        their discounts) of a run, in bits.
    moments: where the task is about every moment or the least: the opacity of each, given what was seen by then.
    steps_guessed: of a trajectory: the expected share of moments at which the best guess of that moment is right.
    rate: of a trajectory: bits per step of an endless run; left out unless asked for.
    """

    RESULT: ClassVar[str] = "measurement"
    PRINTED_BY: ClassVar[str] = "measure"
    DERIVED: ClassVar[tuple[str, ...]] = ("warnings",)

    problem: str
    opacity: Amount
    secret_entropy: float
    secret_distribution: Mapping[str, float]
    leakage: Amount
    guess_error: Amount
    secret_guess_error: float
    vulnerability: GuessLeakage
    min_entropy_leakage: Amount
    guesswork: Amount | None
    secret_guesswork: float | None
    objective: Target
    secret_uncertainty: float
    g_leakage: GuessLeakage | None
    fano_bound: float
    expected_return: float = field(metadata=key("return"))
    threshold: float | None
    feasible: bool
    requirements: tuple[RequirementResult, ...]
    revealing: tuple[ObservedSequence, ...]
    confusing: tuple[ObservedSequence, ...]
    explanation: str
    horizon: int
    num_product_states: int
    num_nodes: int = field(metadata=key("num_beliefs"))
    seconds: float
    exactness_limit: ExactnessLimit | None = None
    figures: tuple[Figure, ...] = ()
    capacity: Capacity | None = field(default=None, metadata=if_known())
    opacity_per_step: Amount | None = field(default=None, metadata=if_known())
    moments: tuple[Amount, ...] | None = field(default=None, metadata=if_known())
    steps_guessed: Amount | None = field(default=None, metadata=if_known())
    rate: Rate | None = field(default=None, metadata=if_known())
    # What `measure` compiled, with the policy vector [slot]: in memory only, no part of the answer.
    compiled: tuple[Product, FloatArray] | None = field(default=None, compare=False, metadata={"live": True})

    @property
    def of(self) -> Uncertainty:
        """Return the uncertainty that the task is about."""
        return self.objective.of

    @property
    def uncertainty(self) -> Amount:
        """Return what the policy reaches of what the task is about: the opacity, unless the task says otherwise."""
        assert self.objective.amount is not None  # measured
        return self.objective.amount

    def beats(self, other: Measurement, *, margin: float = 0.0) -> bool:
        """Return whether this policy is better: feasible before infeasible, then by the uncertainty of the task.

        other: that of another policy for the same task; infeasible ones are not ranked. margin: by how much at least,
        and by three standard errors more where there is an estimate.
        """
        if not self.feasible or not other.feasible:
            return self.feasible and not other.feasible
        amounts, minimise = (self.uncertainty, other.uncertainty), self.objective.minimise
        noise = 3.0 * math.hypot(*(amount.standard_error or 0.0 for amount in amounts)) if margin > 0.0 else 0.0
        return amounts[0].score(minimise=minimise) > amounts[1].score(minimise=minimise) + margin + noise

    @property
    def constant_secret(self) -> tuple[str, str] | None:
        """Return the one value that the secret takes, and in which runs of the policy; None where it takes several.

        A secret counts as constant where H(Z) is at most 1e-12 bits, of the last moment and of every one that is
        measured: the least of several may be 0 while others hide something.
        """
        shares = self.secret_distribution
        bits = [self.secret_entropy, *(amount.upper for amount in self.moments or ())]
        if max(*bits, entropy(floats(list(shares.values())))) > _NO_ENTROPY:
            return None
        value = max(shares, key=lambda name: shares[name], default="one trajectory")
        rest = sum(share for name, share in shares.items() if name != value)
        return value, f"all but {rest:.1g} of the runs" if rest > 0.0 else "every run"

    @property
    def warnings(self) -> tuple[str, ...]:
        """That there is nothing to hide, where the secret takes one value only; else nothing."""
        constant = self.constant_secret
        if constant is None:
            return ()
        return (f"the secret is '{constant[0]}' in {constant[1]} of this policy: there is nothing to hide",)

    def __repr__(self) -> str:
        task = f"return {self.expected_return:.6g}, {'feasible' if self.feasible else 'infeasible'}"
        return f"<Measurement of '{self.problem[:40]}': {self.opacity} of {self.secret_entropy:.6g} bits, {task}>"

    def to_dataframe(self) -> DataFrame:
        """Return the telling sequences with one line each: what is seen, how likely it is, and P(value) after it."""
        sequences = [("revealing", each) for each in self.revealing] + [("confusing", each) for each in self.confusing]
        names = posterior_columns([self.secret_distribution])
        lines = [
            {
                "kind": kind,
                "observations": each.observations,
                "complete": each.complete,
                "probability": each.probability,
                "likeliest": each.likeliest,
                "num_sequences": each.num_sequences,
                "bits": each.bits,
                **{column: each.posterior.get(value, 0.0) for value, column in names.items()},
            }
            for kind, each in sequences
        ]
        fixed = ("kind", "observations", "complete", "probability", "likeliest", "num_sequences", "bits")
        return data_frame(lines, (*fixed, *names.values()))


def measure(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    mode: Mode = "auto",
    width: float = 1e-3,
    samples: int | None = None,
    seed: int = 0,
    max_beliefs: int | None = None,
    mass: float = 0.0,
    max_memory: float | None = None,
    time_limit: float | None = None,
    workers: int | None = None,
    sequences: int | None = None,
    capacity: bool = False,
    rate: bool = False,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Measurement:
    """Measure H(secret | observations) of a policy, with all that belongs to it.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy.
    mode: "exact" insists on the whole belief graph; "interval" drops what matters least until the certified interval is
        narrower than `width` or the budget is used up; "sampled" estimates from `samples` runs; "auto" is exact
        whenever the whole graph fits the budget, and otherwise takes an interval narrower than `width` or, if there is
        none, the better of interval and estimate.
    width: the widest interval, in bits of opacity, that is narrow enough.
    samples: how many runs are sampled; 10,000, or fewer where runs are long, unless given.
    seed: of the random numbers: it makes what is sampled repeatable.
    max_beliefs: the most beliefs kept per level. Without it and `time_limit`, "auto" gives up the whole graph after
        some 20 seconds of work.
    mass: the most probability that is dropped on purpose.
    max_memory: GiB that the belief graph may take; 4 unless given.
    time_limit: seconds after which what is certain by then is the answer: an interval, or an estimate from fewer runs.
    workers: at most so many threads work on a large belief graph (every core by default), which changes nothing else.
    sequences: how many of the most revealing and of the most confusing observation sequences to choose; 3, none for
        horizons above 1,000, unless given.
    capacity: whether to find also the most that the policy gives away over all distributions of the secret, which must
        be of the initial state.
    rate: whether to find also the bits per step of an endless run; the secret must be a trajectory, and the policy must
        not look at the time.
    stop: ends the work as `time_limit` does when the caller requests it; without one, Ctrl-C raises KeyboardInterrupt
        as soon as the compiled code has returned.
    on_progress: called with words that say how far the work is.

    Returns figures of which each says how it was obtained; what kept them from being exact is the `exactness_limit`.
    Raises InputError when an argument or the policy does not fit, BudgetError when "exact" cannot be had, and
    StoppedError when the work ended before anything was known.
    """
    deadline = Deadline(time_limit)
    choose("mode", mode, get_args(Mode))
    check_numbers(
        {
            "width": (width, 0, math.inf),
            "samples": (samples, 1, 10**12),
            "seed": (seed, 0, 2**64),
            "max_beliefs": (max_beliefs, 1, 10**12),
            "mass": (mass, 0, 1),
            "max_memory": (max_memory, 0, 2**30),
            "time_limit": (time_limit, 0, math.inf),
            "workers": (workers, 1, 10**6),
            "sequences": (sequences, 0, 10**6),
        },
        whole=("samples", "seed", "max_beliefs", "workers", "sequences"),
        optional=("samples", "max_beliefs", "max_memory", "time_limit", "workers", "sequences"),
    )
    check_types(
        {
            "capacity": (capacity, is_flag, "True or False"),
            "rate": (rate, is_flag, "True or False"),
            "stop": (stop, Stop, "an opaq.Stop"),
            "on_progress": (on_progress, callable, "a function"),
        },
        optional=("stop", "on_progress"),
    )
    loaded_problem = as_problem(problem)
    if capacity:
        check_initial(loaded_problem)
    chosen = None if policy is None else as_policy(policy, loaded_problem)
    if rate:
        check_rate(loaded_problem, chosen)
    budget = standard_budget(nodes=max_beliefs, mass=mass, gibibytes=max_memory, workers=workers or available_cores())
    with interruptible(stop, keep_answer=False) as active_stop, active_stop.limit(deadline.left):
        product = compile_problem(loaded_problem, chosen.policy_class if chosen is not None else None, stop=active_stop)
        pi = product.policy_vector(chosen)
        measurement = measure_product(
            product,
            pi,
            mode=mode,
            width=width,
            samples=samples,
            rng=np.random.default_rng(seed),
            budget=budget,
            time=deadline.left,
            sequences=sequences,
            start_time=deadline.entered,
            stop=active_stop,
            on_progress=on_progress,
        )
        most = None
        if capacity:
            most = bound_capacity(loaded_problem, chosen, budget=budget, stop=active_stop)
        per_step = bound_rate(loaded_problem, chosen, stop=active_stop) if rate else None
        return replace(measurement, compiled=(product, pi), capacity=most, rate=per_step)


def measure_product(
    product: Product,
    pi: FloatArray,
    *,
    mode: Mode = "auto",
    width: float = 1e-3,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
    budget: Budget | None = None,
    time: float | None = None,
    sequences: int | None = None,
    start_time: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Measurement:
    """Measure a policy vector of a compiled problem, as `measure` does for the policy of a problem.

    product: the compiled problem. pi: [slot] action probabilities of every policy row.
    mode, width, samples, sequences, on_progress: as in `measure`. rng: what is sampled draws from it; seed 0 unless
        given.
    budget: of the belief graph. time: seconds that "auto" divides among its parts; it does not end the work by itself.
    start_time: `perf_counter` at which the work began, for `seconds`; now unless given.
    stop: when it is requested, what is certain by then is the answer. Raises BudgetError and StoppedError as `measure`.
    """
    stop, budget = stop or Stop(), budget or standard_budget()
    options: dict[str, Any] = {"mode": mode, "width": width, "samples": samples, "budget": budget, "time": time}

    def measure_one(view: Product, count: int | None) -> Measurement:
        return measure_pair(
            view,
            pi,
            **options,
            rng=rng,
            sequences=count,
            start_time=start_time,
            stop=stop,
            on_progress=on_progress,
        )

    own, problem = measure_one(product, sequences), product.problem
    figures = measure_figures(product, pi, own, measure_view=lambda view: measure_one(view, 0), stop=stop)
    if len(figures) == 1 and not problem.assumptions and not problem.task.limits:
        return replace(own, figures=figures)
    by_pair = {(figure.of, figure.for_): figure for figure in figures}
    amount = measure_target(product, pi, by_pair, budget=budget, stop=stop)
    met = tuple(
        RequirementResult(
            limit.name,
            reached.at_least if limit.sign > 0 else reached.at_most,
            limit.threshold,
            limit_tolerance(limit),
            None if limit.sign > 0 else "at_most",
        )
        for limit, reached in measure_limits(product, pi, by_pair, budget=budget, stop=stop)
    )
    return replace(
        own,
        figures=figures,
        objective=own.objective
        if amount is None
        else replace(own.objective, amount=amount, figure=target_title(problem)),
        requirements=(*own.requirements, *met),
        feasible=own.feasible and all(one.feasible for one in met),
    )


def measure_pair(
    product: Product,
    pi: FloatArray,
    *,
    mode: Mode,
    width: float,
    samples: int | None,
    rng: np.random.Generator | None,
    budget: Budget,
    time: float | None,
    sequences: int | None,
    start_time: float | None,
    stop: Stop,
    on_progress: Callable[[str], None] | None,
) -> Measurement:
    """Measure a policy vector for the secret and the observer of a compiled problem; as `measure_product`."""
    start_time = perf_counter() if start_time is None else start_time
    process, problem = product.process, product.problem
    rng, samples = rng or np.random.default_rng(0), samples or _default_samples(process.horizon)
    sequences = (3 if process.horizon <= _LONGEST_SHOWN else 0) if sequences is None else sequences
    if isinstance(problem.secret, Trajectory) or problem.task.when != "end":
        from opaq.opacity.moments import measure_moments  # which builds on this module

        return measure_moments(
            product, pi, mode=mode, width=width, samples=samples, rng=rng, budget=budget, time=time,
            sequences=sequences, start_time=start_time, stop=stop, on_progress=on_progress,
        )  # fmt: skip
    prior = secret_distribution(process, pi, stop=stop)
    met = evaluate_requirements(product, pi, stop=stop)
    stop.check()
    uncertainties = _measured_uncertainties(problem.task.of, product.secret_values)
    evaluator = _Evaluator(
        process,
        pi,
        prior,
        uncertainties=uncertainties,
        width=width,
        samples=samples,
        rng=rng,
        time=time,
        stop=stop,
        tell=on_progress or (lambda text: None),
    )
    answer = evaluator.answer(mode, budget)
    opacity, secret_entropy, own = answer.opacity, entropy(prior), problem.task.of.name
    revealing, confusing = _choose_sequences(
        product, pi, prior, answer, count=sequences, budget=budget, rng=rng, stop=stop
    )
    vulnerability, min_entropy_leakage = leakage_of_guess(prior, answer.figures[GuessError.name])
    return Measurement(
        problem=problem.name,
        opacity=opacity,
        secret_entropy=secret_entropy,
        secret_distribution=dict(zip(product.secret_values, prior.tolist(), strict=True)),
        leakage=leakage_from(secret_entropy, opacity),
        guess_error=answer.figures[GuessError.name],
        secret_guess_error=uncertainties[GuessError.name].prior_limit(prior),
        vulnerability=vulnerability,
        min_entropy_leakage=min_entropy_leakage,
        guesswork=answer.figures[Guesswork.name],
        secret_guesswork=uncertainties[Guesswork.name].value(prior),
        objective=Target.of_task(problem.task.of, minimise=problem.task.minimise, amount=answer.figures[own]),
        secret_uncertainty=uncertainties[own].value(prior),
        g_leakage=leakage_of_loss(uncertainties[own], prior, answer.figures[own]),
        fano_bound=fano_bound(opacity.lower, int((prior > 0).sum())),
        expected_return=met[0].value,
        threshold=met[0].threshold,
        feasible=all(requirement.feasible for requirement in met),
        requirements=met,
        revealing=revealing,
        confusing=confusing,
        explanation=answer.explanation,
        horizon=process.horizon,
        num_product_states=process.num_states,
        num_nodes=answer.num_nodes,
        seconds=perf_counter() - start_time,
        exactness_limit=answer.exactness_limit,
    )


def _measured_uncertainties(of: Uncertainty, secret_values: Sequence[str]) -> dict[str, Uncertainty]:
    """Return opacity, guess error, guesswork, which are always measured, and what the task is about, by their names.

    Raises InputError where an uncertainty of the caller's has the name of one of the three.
    """
    always = {each.name: each.over(secret_values) for each in (Shannon(), GuessError(), Guesswork())}
    own = of.over(secret_values)
    if own.name in always and type(own) is not type(always[own.name]):
        finding = f"is named '{own.name}', as another uncertainty is that every answer has"
        raise InputError([Fault("task.of", finding, "choose another name")])
    return always | {own.name: own}


def _default_samples(horizon: int) -> int:
    """Return how many runs are sampled: 10,000, fewer where runs are long, but at least 100."""
    return max(100, min(10_000, _MOST_RUN_STEPS // (horizon + 1)))


def evaluate_requirements(
    product: Product, pi: FloatArray, *, stop: Stop | None = None
) -> tuple[RequirementResult, ...]:
    """Return the exact value of the return and of every further requirement, with its threshold and its tolerance.

        V_i = sum over t = 0..T of gamma_i^t E[R_i(x_t, a_t)] + E[what the last state is worth],

    to infinity for a return that counts for ever. product: the compiled problem. pi: [slot], the policy vector.
    Raises StoppedError when `stop` is requested meanwhile.
    """
    process, forever = product.process, product.problem.task.over == "forever"
    first = infinite_return(process, pi) if forever else expected_return(process, pi, stop=stop)
    values = [first, *(expected_return(process, pi, payoff, stop=stop) for payoff in process.payoffs[1:])]
    return tuple(
        RequirementResult(payoff.name, value, payoff.threshold, _tolerance(product, pi, index, value))
        for index, (payoff, value) in enumerate(zip(process.payoffs, values, strict=True))
    )


def _tolerance(product: Product, pi: FloatArray, index: int, value: float) -> float:
    """Return how far below its threshold the value of a payoff may be and count as rounding; 0 where it is not below.

    index: of the payoff; the first is the return. value: what the policy reaches of it.
    """
    process = product.process
    payoff, forever = process.payoffs[index], index == 0 and product.problem.task.over == "forever"
    if payoff.threshold is None or value >= payoff.threshold:
        return 0.0
    return threshold_tolerance(process, payoff, absolute_payoff(process, pi, payoff, forever=forever), forever=forever)


def standard_budget(
    *, nodes: int | None = None, mass: float = 0.0, gibibytes: float | None = None, workers: int = 1
) -> Budget:
    """Return a budget; without `nodes`, the graph is limited by memory and by the work for a whole graph.

    nodes: the most beliefs per level. mass: probability dropped on purpose. gibibytes: of memory. workers: threads.
    """
    standard = Budget(mass=mass, workers=workers)
    if gibibytes is not None:
        standard = replace(standard, memory=round(gibibytes * 2**30))
    if nodes is not None:
        return replace(standard, nodes=nodes)
    return replace(standard, whole_nodes=_NO_LIMIT, whole_work=_WHOLE_WORK)


def with_opacity(measurement: Measurement, opacity: Amount) -> Measurement:
    """Return the same measurement with an opacity that is known better, and what follows from it.

    Leakage H(Z) - H(Z | Y), Fano's bound and, where the task is about opacity, the objective change with it.
    """
    values = sum(chance > 0 for chance in measurement.secret_distribution.values())
    own = measurement.of.name == "opacity"
    return replace(
        measurement,
        opacity=opacity,
        objective=replace(measurement.objective, amount=opacity) if own else measurement.objective,
        leakage=leakage_from(measurement.secret_entropy, opacity),
        fano_bound=fano_bound(opacity.lower, values),
    )


def combine_measurements(known: Measurement, other: Measurement) -> Measurement:
    """Return what two measurements of one policy say together of the opacity and of what the task is about.

    known: what else it says is kept.
    """
    combined = with_opacity(known, known.opacity.combine(other.opacity))
    amount = known.uncertainty.combine(other.uncertainty)
    return replace(combined, objective=replace(combined.objective, amount=amount))


def leakage_from(secret_entropy: float, opacity: Amount) -> Amount:
    """Return H(Z) - H(Z | Y) in bits, at least 0; the ends of the interval change places."""
    return map_amount(opacity, lambda bits: max(0.0, secret_entropy - bits), slope=-1.0)
