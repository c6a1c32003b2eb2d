"""Measure the opacity of a policy: the one call behind `opaq measure`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal, get_args

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return, infinite_return, secret_distribution
from opaq.choices import check_numbers, choose
from opaq.errors import BudgetError
from opaq.loading.policy_files import as_policy
from opaq.loading.scenarios import as_problem
from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.entropies import entropy, fano_bound
from opaq.opacity.exact import Evaluation, evaluate
from opaq.opacity.invariants import bounded_error, bounded_opacity
from opaq.opacity.sampled import estimate
from opaq.opacity.sequences import ObservedSequence, observed_sequences
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess
from opaq.stop import Stop, StoppedError, on_signals

Mode = Literal["auto", "exact", "interval", "sampled"]
_ROUNDING = 1e-12  # a return this close to the threshold meets it
_FEW_NODES = 50_000  # a graph of at most this many beliefs is searched as a whole for sequences to show
_QUICK_NODES = 5_000_000  # beliefs of all levels together for an interval where the whole graph does not fit
_LEAST_QUICK = 500  # with fewer per level it is not worth trying
_HOPELESS = 50  # an interval this many times too wide is not tried with more beliefs
_MOST_RUN_STEPS = 10_000_000  # runs x observations sampled by default
_LONGEST_SHOWN = 1000  # sequences of longer runs are shown only if asked for
_SHOWN_RUNS = 200  # sampled runs searched for sequences to show
_LEAST_SHOWN = 64  # of a larger one, at least this many per level


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One requirement of the task: what was reached, what was asked."""

    name: str
    value: float
    threshold: float | None

    @property
    def slack(self) -> float:
        """How far above the threshold; at least 0 is feasible."""
        return np.inf if self.threshold is None else self.value - self.threshold

    @property
    def holds(self) -> bool:
        """Whether the requirement is met, up to rounding."""
        return self.threshold is None or self.slack >= -_ROUNDING * max(1.0, abs(self.threshold))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(ByContent):
    """What a policy gives away, and what it earns."""

    problem: str
    opacity: Amount
    secret_entropy: float
    secret_distribution: Mapping[str, float]
    leakage: Amount
    guess_error: Amount
    fano_bound: float
    expected_return: float
    threshold: float | None
    feasible: bool
    requirements: tuple[RequirementResult, ...]  # the return first, then every further requirement
    revealing: tuple[ObservedSequence, ...]
    confusing: tuple[ObservedSequence, ...]
    explanation: str
    horizon: int
    num_product_states: int
    num_nodes: int
    seconds: float

    def __repr__(self) -> str:
        task = f"return {self.expected_return:.6g}, {'feasible' if self.feasible else 'infeasible'}"
        return f"<Measurement of '{self.problem[:40]}': {self.opacity} of {self.secret_entropy:.6g} bits, {task}>"


def measure(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    mode: Mode = "auto",
    width: float = 1e-3,
    samples: int | None = None,
    seed: int = 0,
    nodes: int | None = None,
    mass: float = 0.0,
    memory: int | None = None,
    time: float | None = None,
    sequences: int | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Measurement:
    """H(secret | observations) of a policy, with all that belongs to it.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object or the name of a file; None is the uniform policy.
    mode: "exact" insists on the whole belief graph; "interval" drops what matters least until the certified
    interval is narrower than `width` or the budget is used up; "sampled" estimates from `samples` runs (10,000, or
    fewer where runs are long); "auto" is exact whenever the whole graph fits the budget, and otherwise takes an
    interval narrower than `width` or, if there is none, the better of interval and estimate.
    nodes (the most beliefs kept per level), mass (the most probability dropped on purpose) and memory (bytes) bound
    the belief graph; time (seconds) bounds the work: what is certain by then is the answer, an interval or an
    estimate from fewer runs. `sequences` of the most revealing and the most confusing observations are chosen (3, none
    for horizons above 1,000). `seed` makes what is sampled repeatable.
    `stop` ends the work as `time` does when the caller requests it; without one, Ctrl-C raises KeyboardInterrupt as
    soon as the compiled code has returned. `on_progress` is called with words that say how far the work is.
    Raises InputError when an argument or the policy does not fit, BudgetError when "exact" cannot be had, and
    StoppedError when the work ended before anything was known.
    """
    begun = perf_counter()
    choose("mode", mode, get_args(Mode))
    check_numbers(
        {
            "width": (width, 0, math.inf),
            "samples": (samples, 1, 10**12),
            "seed": (seed, 0, 2**64),
            "nodes": (nodes, 1, 10**12),
            "mass": (mass, 0, 1),
            "memory": (memory, 1, 2**60),
            "time": (time, 0, math.inf),
            "sequences": (sequences, 0, 10**6),
        },
        whole=("samples", "seed", "nodes", "memory", "sequences"),
    )
    stated = as_problem(problem)
    chosen = None if policy is None else as_policy(policy, stated)
    own = Stop()
    with on_signals(lambda number: own.request()) if stop is None else nullcontext():
        stop = stop or own
        with stop.limit(time):
            try:
                product = compile_problem(stated, chosen.policy_class if chosen is not None else None, stop=stop)
                measurement = measure_product(
                    product,
                    product.policy_vector(chosen),
                    mode=mode,
                    width=width,
                    samples=samples,
                    rng=np.random.default_rng(seed),
                    budget=_budget(nodes, mass, memory),
                    time=None if time is None else time - (perf_counter() - begun),
                    sequences=sequences,
                    begun=begun,
                    stop=stop,
                    on_progress=on_progress,
                )
            except StoppedError:
                if not own.interrupted:
                    raise
    if own.interrupted:
        raise KeyboardInterrupt
    return measurement


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
    begun: float | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Measurement:
    """The same for a compiled problem and a policy vector over its slots."""
    begun = perf_counter() if begun is None else begun
    process, problem, budget, stop = product.process, product.problem, budget or Budget(), stop or Stop()
    rng, samples = rng or np.random.default_rng(0), samples or _default_samples(process.horizon)
    sequences = (3 if process.horizon <= _LONGEST_SHOWN else 0) if sequences is None else sequences
    prior = secret_distribution(process, pi)
    met = requirements_met(product, pi)
    stop.check()
    tell = on_progress or _say_nothing
    evaluator = _Evaluator(process, pi, prior, width=width, samples=samples, rng=rng, time=time, stop=stop, tell=tell)
    answer = evaluator.answer(mode, budget)
    opacity, secret_entropy = bounded_opacity(answer.opacity, prior), entropy(prior)
    revealing, confusing = _shown(product, pi, prior, answer, count=sequences, budget=budget, rng=rng, stop=stop)
    return Measurement(
        problem=problem.name,
        opacity=opacity,
        secret_entropy=secret_entropy,
        secret_distribution=dict(zip(product.secret_values, prior.tolist(), strict=True)),
        leakage=_leakage(secret_entropy, opacity),
        guess_error=bounded_error(answer.guess_error, prior),
        fano_bound=fano_bound(opacity.lower, int((prior > 0).sum())),
        expected_return=met[0].value,
        threshold=met[0].threshold,
        feasible=all(requirement.holds for requirement in met),
        requirements=met,
        revealing=revealing,
        confusing=confusing,
        explanation=answer.explanation,
        horizon=process.horizon,
        num_product_states=process.num_states,
        num_nodes=answer.num_nodes,
        seconds=perf_counter() - begun,
    )


def _default_samples(horizon: int) -> int:
    """10,000 runs, fewer where runs are long."""
    return max(100, min(10_000, _MOST_RUN_STEPS // (horizon + 1)))


def _say_nothing(text: str) -> None:
    """For callers who do not listen."""


def requirements_met(product: Product, pi: FloatArray) -> tuple[RequirementResult, ...]:
    """The exact value of the return and of every further requirement."""
    process, forever = product.process, product.problem.task.over == "forever"
    first = infinite_return(process, pi) if forever else expected_return(process, pi)
    values = [first, *(expected_return(process, pi, payoff) for payoff in process.payoffs[1:])]
    return tuple(
        RequirementResult(payoff.name, value, payoff.threshold)
        for payoff, value in zip(process.payoffs, values, strict=True)
    )


def _budget(nodes: int | None, mass: float, memory: int | None) -> Budget:
    standard = Budget(mass=mass)
    return replace(standard, nodes=nodes or standard.nodes, memory=memory or standard.memory)


def with_opacity(measurement: Measurement, opacity: Amount) -> Measurement:
    """The same measurement with an opacity that is known better, and what follows from it."""
    values = sum(chance > 0 for chance in measurement.secret_distribution.values())
    return replace(
        measurement,
        opacity=opacity,
        leakage=_leakage(measurement.secret_entropy, opacity),
        fano_bound=fano_bound(opacity.lower, values),
    )


def _leakage(secret_entropy: float, opacity: Amount) -> Amount:
    """H(Z) - H(Z | Y)."""
    return replace(
        opacity,
        value=max(0.0, secret_entropy - opacity.value),
        lower=max(0.0, secret_entropy - opacity.upper),
        upper=max(0.0, secret_entropy - opacity.lower),
    )


def _shown(
    product: Product,
    pi: FloatArray,
    prior: FloatArray,
    answer: _Answer,
    *,
    count: int,
    budget: Budget,
    rng: np.random.Generator,
    stop: Stop,
) -> tuple[tuple[ObservedSequence, ...], tuple[ObservedSequence, ...]]:
    """Sequences worth showing, with less work than the measurement was; none when asked to stop."""
    if not count or stop.requested:
        return (), ()
    samples = min(answer.samples, _SHOWN_RUNS)
    shown = replace(budget, nodes=min(budget.nodes, _shown_nodes(answer, product.process.horizon)))
    try:
        return observed_sequences(
            product, pi, prior, count=count, budget=shown, samples=samples, rng=rng if samples else None, stop=stop
        )
    except StoppedError:
        return (), ()


def _shown_nodes(answer: _Answer, horizon: int) -> int:
    """How many beliefs per level are searched."""
    if answer.opacity.method == "exact" and answer.num_nodes <= _FEW_NODES:
        return _FEW_NODES
    return max(_LEAST_SHOWN, answer.num_nodes // (4 * (horizon + 1)))


@dataclass(frozen=True, slots=True)
class _Answer:
    opacity: Amount
    guess_error: Amount
    num_nodes: int
    explanation: str
    samples: int = 0  # how many runs were sampled, if the answer is an estimate


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """One policy on one process, and how precise the answer should be."""

    process: HiddenProcess
    pi: FloatArray
    prior: FloatArray
    width: float
    samples: int
    rng: np.random.Generator
    time: float | None
    stop: Stop
    tell: Callable[[str], None]

    def answer(self, mode: Mode, budget: Budget) -> _Answer:
        """By the mode asked for; "auto" gives the exact and then the interval part of the time each a share."""
        if mode == "sampled":
            return self._sample(None, "as asked")
        if mode == "interval":
            return self._interval(self._tighten(None, budget, parts=(64, 8, 1), hopeful=False))
        with self.stop.stage(self._share(0.5 if mode == "auto" else None)):
            first = self._evaluate(budget, whole=True)
            ran_out = self.stop.requested
        if first.whole:
            return self._from(first, f"exact: the whole belief graph fits ({first.num_nodes:,} beliefs)")
        if self.stop.requested:
            return self._interval(first)
        if mode == "exact":
            raise BudgetError(
                f"the belief graph has more than {first.num_nodes:,} beliefs, too many for the budget; "
                "use mode interval or sampled, or allow more nodes or memory"
            )
        if self._quick(budget).nodes < min(_LEAST_QUICK, budget.nodes // 8):
            return self._sample(first if ran_out else None, "the belief graph does not fit the budget")
        with self.stop.stage(self._share(0.25)):
            evaluation = self._tighten(first if ran_out else None, self._quick(budget), parts=(8, 1), hopeful=True)
        return self._interval_or_sample(evaluation)

    def _share(self, part: float | None) -> float | None:
        return None if self.time is None or part is None else part * self.time

    def _interval_or_sample(self, evaluation: Evaluation) -> _Answer:
        """The interval if it is narrow enough, or narrower than sampling would give."""
        if evaluation.opacity.width <= self.width or self.stop.requested:
            return self._interval(evaluation)
        reason = f"the certified interval stayed {evaluation.opacity.width:.2g} bits wide"
        try:
            sampled = self._sample(evaluation, reason)
        except StoppedError:
            return self._interval(evaluation)
        if evaluation.opacity.width <= 4 * (sampled.opacity.standard_error or 0.0):
            return self._from(evaluation, f"certified interval, narrower than sampling would give ({reason})")
        return sampled

    def _interval(self, evaluation: Evaluation) -> _Answer:
        kept = f"{evaluation.num_nodes:,} beliefs kept, {evaluation.dropped_mass:.2g} of the probability dropped"
        if evaluation.whole:
            return self._from(evaluation, f"exact: the whole belief graph fits ({evaluation.num_nodes:,} beliefs)")
        why = f"; {self.stop.reason}" if self.stop.requested else ""
        return self._from(evaluation, f"certified interval: {kept}{why}")

    def _quick(self, budget: Budget) -> Budget:
        """An eighth of the budget, less for long horizons: an interval should not take longer than sampling would."""
        return replace(budget, nodes=max(1, min(budget.nodes // 8, _QUICK_NODES // (self.process.horizon + 1))))

    def _tighten(self, best: Evaluation | None, budget: Budget, *, parts: tuple[int, ...], hopeful: bool) -> Evaluation:
        """Ever larger parts of the graph until the interval is narrow enough, the budget is used up or time is.

        With `hopeful` also until a larger part can hardly make it narrow enough.
        """
        for part in parts:
            evaluation = self._evaluate(replace(budget, nodes=max(budget.nodes // part, 1)))
            best = evaluation if best is None else _narrower(best, evaluation)
            hopeless = hopeful and best.opacity.width > _HOPELESS * self.width
            if best.whole or hopeless or best.opacity.width <= self.width or self.stop.requested:
                break
        assert best is not None, "there is at least one part"
        return best

    def _evaluate(self, budget: Budget, *, whole: bool = False) -> Evaluation:
        """What knowing the prior alone says of opacity and guess error tightens the upper ends."""
        levels = self.process.horizon

        def on_level(done: int, nodes: int) -> None:
            self.tell(f"observation {done} of {levels}, {nodes:,} beliefs")

        evaluation = evaluate(self.process, self.pi, budget=budget, whole=whole, stop=self.stop, on_level=on_level)
        return replace(
            evaluation,
            opacity=bounded_opacity(evaluation.opacity, self.prior),
            guess_error=bounded_error(evaluation.guess_error, self.prior),
        )

    def _from(self, evaluation: Evaluation, explanation: str) -> _Answer:
        return _Answer(evaluation.opacity, evaluation.guess_error, evaluation.num_nodes, explanation)

    def _sample(self, evaluation: Evaluation | None, reason: str) -> _Answer:
        """An estimate with standard errors, beside whatever interval is certified."""
        estimated = estimate(
            self.process,
            self.pi,
            samples=self.samples,
            rng=self.rng,
            stop=self.stop,
            on_batch=lambda done: self.tell(f"{done:,} of {self.samples:,} runs sampled"),
        )
        opacity = evaluation.opacity if evaluation else Amount.between(0.0, entropy(self.prior))
        error = evaluation.guess_error if evaluation else Amount.between(0.0, 1.0 - float(self.prior.max()))
        early = f"; {self.stop.reason}" if estimated.samples < self.samples else ""
        return _Answer(
            _estimated(opacity, _within(opacity, estimated.opacity), estimated.opacity_error),
            _estimated(error, estimated.guess_error, estimated.guess_error_error),
            evaluation.num_nodes if evaluation else 0,
            f"estimated from {estimated.samples:,} sampled runs ({reason}{early})",
            estimated.samples,
        )


def _narrower(first: Evaluation, second: Evaluation) -> Evaluation:
    """What two evaluations of one policy say together."""
    return replace(
        second if second.dropped_mass <= first.dropped_mass else first,
        opacity=_both(first.opacity, second.opacity),
        guess_error=_both(first.guess_error, second.guess_error),
    )


def _both(first: Amount, second: Amount) -> Amount:
    lower, upper = max(first.lower, second.lower), min(first.upper, second.upper)
    return Amount.between(lower, max(lower, upper))


def _within(certified: Amount, value: float) -> float:
    """An opacity that is not possible is not shown, though moving it biases an estimate at the ends a little."""
    return min(max(value, certified.lower), certified.upper)


def _estimated(certified: Amount, value: float, standard_error: float) -> Amount:
    """An estimate beside what is certain."""
    return Amount(value, certified.lower, certified.upper, "sampled", standard_error)
