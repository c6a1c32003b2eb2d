"""Measure the opacity of a policy: the one call behind `opaq measure`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, get_args

import numpy as np

from opaq.beliefs.graph import Budget
from opaq.beliefs.returns import expected_return, infinite_return, paid_in_all, secret_distribution, tolerance_of
from opaq.choices import check_numbers, check_types, choose
from opaq.dataframes import data_frame, posterior_columns
from opaq.display import Displayed
from opaq.loading.policy_files import as_policy
from opaq.loading.scenarios import as_problem
from opaq.model.arrays import FloatArray
from opaq.model.content import ByContent
from opaq.model.leaf import value_of
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.uncertainty import Guesswork, Uncertainty
from opaq.opacity.amount import Amount
from opaq.opacity.entropies import entropy, fano_bound
from opaq.opacity.evaluator import Evaluator, ExactnessLimit, Mode
from opaq.opacity.exact import further_leaves
from opaq.opacity.invariants import bounded_error, bounded_leaf, bounded_opacity
from opaq.opacity.sequences import ObservedSequence
from opaq.opacity.shown import shown_sequences
from opaq.product.compile import Product, compile_problem
from opaq.stop import Stop, StoppedError, on_signals

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Amount",
    "Measurement",
    "Mode",
    "RequirementResult",
    "measure",
    "measure_product",
    "requirements_met",
    "with_opacity",
]

_NO_LIMIT = 2**62
_WHOLE_WORK = 1e9  # operations for the whole graph where no limit is given: 10 to 40 s
_MOST_RUN_STEPS = 10_000_000  # runs x observations sampled by default
_LONGEST_SHOWN = 1000  # sequences of longer runs are shown only if asked for


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One requirement of the task: what was reached, what was asked."""

    name: str
    value: float
    threshold: float | None
    tolerance: float = 0.0  # how far below the threshold it was let pass; 0 where nothing had to be

    @property
    def slack(self) -> float:
        """How far above the threshold; at least 0 is feasible."""
        return np.inf if self.threshold is None else self.value - self.threshold

    @property
    def holds(self) -> bool:
        """Whether the requirement is met, up to rounding."""
        return self.threshold is None or self.slack >= -self.tolerance


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement(Displayed, ByContent):
    """What a policy gives away, and what it earns.

    Opacity, guess error and guesswork are always measured; where the task is about an expected loss (or another
    uncertainty of the caller's), `uncertainty` is that.
    """

    problem: str
    opacity: Amount
    secret_entropy: float
    secret_distribution: Mapping[str, float]
    leakage: Amount
    guess_error: Amount
    guesswork: Amount
    secret_guesswork: float  # before observing
    of: Uncertainty  # what the task is about
    uncertainty: Amount  # of that kind: the opacity, unless the task says otherwise
    secret_uncertainty: float  # before observing
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
    exactness_limit: ExactnessLimit | None = None  # what kept the answer from being exact; None: it is

    def __repr__(self) -> str:
        task = f"return {self.expected_return:.6g}, {'feasible' if self.feasible else 'infeasible'}"
        return f"<Measurement of '{self.problem[:40]}': {self.opacity} of {self.secret_entropy:.6g} bits, {task}>"

    def to_dataframe(self) -> DataFrame:
        """The telling sequences with one line each: what is seen, how likely it is, and P(value) after it."""
        shown = [("revealing", each) for each in self.revealing] + [("confusing", each) for each in self.confusing]
        names = posterior_columns([self.secret_distribution])
        lines = [
            {
                "kind": kind,
                "observations": each.observations,
                "complete": each.complete,
                "probability": each.probability,
                "likeliest": each.likeliest,
                "sequences": each.num_sequences,
                "bits": each.bits,
                **{column: each.posterior.get(value, 0.0) for value, column in names.items()},
            }
            for kind, each in shown
        ]
        fixed = ("kind", "observations", "complete", "probability", "likeliest", "sequences", "bits")
        return data_frame(lines, (*fixed, *names.values()))


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
    nodes (the most beliefs kept per level), mass (the most probability dropped on purpose) and memory (bytes, 4 GiB)
    bound the belief graph; without `nodes` and `time`, "auto" gives up the whole graph after some 20 seconds of work.
    What kept an answer from being exact is its `exactness_limit`. time (seconds) bounds the work: what is certain by
    then is the answer, an interval or an estimate from fewer runs. `sequences` of the most revealing and the most
    confusing observations are chosen (3, none for horizons above 1,000). `seed` makes what is sampled repeatable.
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
        optional=("samples", "nodes", "memory", "time", "sequences"),
    )
    check_types(
        {"stop": (stop, Stop, "an opaq.Stop"), "on_progress": (on_progress, callable, "a function")},
        optional=("stop", "on_progress"),
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
    process, problem, budget, stop = (
        product.process,
        product.problem,
        budget or _budget(None, 0.0, None),
        stop or Stop(),
    )
    rng, samples = rng or np.random.default_rng(0), samples or _default_samples(process.horizon)
    sequences = (3 if process.horizon <= _LONGEST_SHOWN else 0) if sequences is None else sequences
    prior = secret_distribution(process, pi, stop=stop)
    met = requirements_met(product, pi, stop=stop)
    stop.check()
    uncertainty = problem.task.of
    guesses, own = Guesswork().over(product.secret_values), uncertainty.over(product.secret_values)
    leaves = (guesses,) if uncertainty.name == Guesswork.name else (guesses, *further_leaves(own))
    evaluator = Evaluator(
        process,
        pi,
        prior,
        leaves=leaves,
        width=width,
        samples=samples,
        rng=rng,
        time=time,
        stop=stop,
        tell=on_progress or _say_nothing,
    )
    answer = evaluator.answer(mode, budget)
    opacity, secret_entropy = bounded_opacity(answer.opacity, prior), entropy(prior)
    guess_error = bounded_error(answer.guess_error, prior)
    guesswork = bounded_leaf(answer.further[0], guesses, prior, what="guesswork")
    further = bounded_leaf(answer.further[-1], leaves[-1], prior, what=uncertainty.title)
    measured = {"opacity": opacity, "guess_error": guess_error, "": further}
    revealing, confusing = shown_sequences(
        product, pi, prior, answer, count=sequences, budget=budget, rng=rng, stop=stop
    )
    return Measurement(
        problem=problem.name,
        opacity=opacity,
        secret_entropy=secret_entropy,
        secret_distribution=dict(zip(product.secret_values, prior.tolist(), strict=True)),
        leakage=_leakage(secret_entropy, opacity),
        guess_error=guess_error,
        guesswork=guesswork,
        secret_guesswork=value_of(guesses, prior),
        of=uncertainty,
        uncertainty=measured[own.compiled],
        secret_uncertainty=value_of(own, prior),
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
        exactness_limit=answer.exactness_limit,
    )


def _default_samples(horizon: int) -> int:
    """10,000 runs, fewer where runs are long."""
    return max(100, min(10_000, _MOST_RUN_STEPS // (horizon + 1)))


def _say_nothing(text: str) -> None:
    """For callers who do not listen."""


def requirements_met(product: Product, pi: FloatArray, *, stop: Stop | None = None) -> tuple[RequirementResult, ...]:
    """The exact value of the return and of every further requirement. Raises StoppedError when `stop` is requested."""
    process, forever = product.process, product.problem.task.over == "forever"
    first = infinite_return(process, pi) if forever else expected_return(process, pi, stop=stop)
    values = [first, *(expected_return(process, pi, payoff, stop=stop) for payoff in process.payoffs[1:])]
    return tuple(
        RequirementResult(payoff.name, value, payoff.threshold, _tolerance(product, pi, index, value))
        for index, (payoff, value) in enumerate(zip(process.payoffs, values, strict=True))
    )


def _tolerance(product: Product, pi: FloatArray, index: int, value: float) -> float:
    """How far below its threshold the value of a payoff may be; 0 where it is not below."""
    process = product.process
    payoff, forever = process.payoffs[index], index == 0 and product.problem.task.over == "forever"
    if payoff.threshold is None or value >= payoff.threshold:
        return 0.0
    return tolerance_of(process, payoff, paid_in_all(process, pi, payoff, forever=forever), forever=forever)


def _budget(nodes: int | None, mass: float, memory: int | None) -> Budget:
    """What is not given is limited by memory and, unless there is a time limit, by the work for a whole graph."""
    standard = Budget(mass=mass)
    standard = replace(standard, memory=memory or standard.memory)
    if nodes is not None:
        return replace(standard, nodes=nodes)
    return replace(standard, whole_nodes=_NO_LIMIT, whole_work=_WHOLE_WORK)


def with_opacity(measurement: Measurement, opacity: Amount) -> Measurement:
    """The same measurement with an opacity that is known better, and what follows from it."""
    values = sum(chance > 0 for chance in measurement.secret_distribution.values())
    own = measurement.of.name == "opacity"
    return replace(
        measurement,
        opacity=opacity,
        uncertainty=opacity if own else measurement.uncertainty,
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
