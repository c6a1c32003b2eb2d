"""Measure the opacity of a policy: the one call behind `opaq measure`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

import numpy as np

from opaq.errors import BudgetError
from opaq.model.arrays import FloatArray
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity.amount import Amount
from opaq.opacity.beliefs import Budget
from opaq.opacity.exact import Evaluation, evaluate
from opaq.opacity.measures import entropy, fano_bound
from opaq.opacity.returns import expected_return, infinite_return, secret_distribution
from opaq.opacity.sampled import estimate
from opaq.opacity.sequences import Sighting, sightings
from opaq.product.compile import Product, compile_problem
from opaq.product.process import HiddenProcess

Mode = Literal["auto", "exact", "interval", "sampled"]
_ROUNDING = 1e-12  # a return this close to the threshold meets it
_SHOWN_NODES = 50_000  # how much of the graph is searched for sequences to show


@dataclass(frozen=True, slots=True)
class Met:
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


@dataclass(frozen=True, slots=True)
class Measurement:
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
    requirements: tuple[Met, ...]  # the return first, then every further requirement
    revealing: tuple[Sighting, ...]
    confusing: tuple[Sighting, ...]
    explanation: str
    horizon: int
    num_product_states: int
    num_nodes: int
    seconds: float


def measure(
    problem: Problem,
    policy: Policy | None = None,
    *,
    mode: Mode = "auto",
    width: float = 1e-3,
    samples: int = 10_000,
    seed: int = 0,
    nodes: int | None = None,
    mass: float = 0.0,
    memory: int | None = None,
    sequences: int = 3,
) -> Measurement:
    """H(secret | observations) of a policy (uniform if none), with all that belongs to it.

    mode: "exact" insists on the whole belief graph; "interval" drops what matters least until the certified
    interval is narrower than `width` or the budget is used up; "sampled" estimates from `samples` runs; "auto" takes
    the first of these that gives an answer within `width`, and samples when none does.
    nodes (the most beliefs kept a level), mass (the most probability dropped on purpose) and memory (bytes) bound
    the belief graph. Raises InputError when the policy does not fit the problem, BudgetError when "exact" cannot.
    """
    begun = perf_counter()
    product = compile_problem(problem, policy.policy_class if policy is not None else None)
    return measure_product(
        product,
        product.policy_vector(policy),
        mode=mode,
        width=width,
        samples=samples,
        rng=np.random.default_rng(seed),
        budget=_budget(nodes, mass, memory),
        sequences=sequences,
        begun=begun,
    )


def measure_product(
    product: Product,
    pi: FloatArray,
    *,
    mode: Mode = "auto",
    width: float = 1e-3,
    samples: int = 10_000,
    rng: np.random.Generator | None = None,
    budget: Budget | None = None,
    sequences: int = 0,
    begun: float | None = None,
) -> Measurement:
    """The same for a compiled problem and a policy vector over its slots."""
    begun = perf_counter() if begun is None else begun
    process, problem, budget = product.process, product.problem, budget or Budget()
    prior = secret_distribution(process, pi)
    question = _Question(process, pi, prior, width=width, samples=samples, rng=rng or np.random.default_rng(0))
    answer = question.ask(mode, budget)
    opacity, secret_entropy = answer.opacity, entropy(prior)
    met = requirements_met(product, pi)
    shown = replace(budget, nodes=min(budget.nodes, _SHOWN_NODES))
    revealing, confusing = sightings(product, pi, prior, count=sequences, budget=shown) if sequences else ((), ())
    return Measurement(
        problem=problem.name,
        opacity=opacity,
        secret_entropy=secret_entropy,
        secret_distribution=dict(zip(product.secret_values, prior.tolist(), strict=True)),
        leakage=_leakage(secret_entropy, opacity),
        guess_error=answer.guess_error,
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


def requirements_met(product: Product, pi: FloatArray) -> tuple[Met, ...]:
    """The exact value of the return and of every further requirement."""
    process, forever = product.process, product.problem.task.over == "forever"
    first = infinite_return(process, pi) if forever else expected_return(process, pi)
    values = [first, *(expected_return(process, pi, payoff) for payoff in process.payoffs[1:])]
    return tuple(
        Met(payoff.name, value, payoff.threshold) for payoff, value in zip(process.payoffs, values, strict=True)
    )


def _budget(nodes: int | None, mass: float, memory: int | None) -> Budget:
    standard = Budget(mass=mass)
    return replace(standard, nodes=nodes or standard.nodes, memory=memory or standard.memory)


def _leakage(secret_entropy: float, opacity: Amount) -> Amount:
    return replace(
        opacity,
        value=max(0.0, secret_entropy - opacity.value),
        lower=max(0.0, secret_entropy - opacity.upper),
        upper=max(0.0, secret_entropy - opacity.lower),
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    opacity: Amount
    guess_error: Amount
    num_nodes: int
    explanation: str


@dataclass(frozen=True, slots=True)
class _Question:
    """One policy on one process, and how precise the answer should be."""

    process: HiddenProcess
    pi: FloatArray
    prior: FloatArray
    width: float
    samples: int
    rng: np.random.Generator

    def ask(self, mode: Mode, budget: Budget) -> _Answer:
        if mode == "sampled":
            return self._sample(None, "as asked")
        found = self._tighten(budget) if mode != "exact" else evaluate(self.process, self.pi, budget=budget)
        if found.opacity.method == "exact":
            return self._told(found, f"exact: the whole belief graph fits ({found.graph.num_nodes:,} beliefs)")
        if mode == "exact":
            raise BudgetError(
                f"the belief graph has more than {found.graph.num_nodes:,} beliefs, too many for the budget; "
                "use --mode interval or sampled, or allow more --nodes or --memory"
            )
        if mode == "interval" or found.opacity.width <= self.width:
            kept = f"{found.graph.num_nodes:,} beliefs kept, {found.graph.dropped_mass:.2g} of the probability dropped"
            return self._told(found, f"certified interval: {kept}")
        reason = f"the certified interval stayed {found.opacity.width:.2g} bits wide within the budget"
        guess = self._sample(found, reason)
        if found.opacity.width <= 4 * (guess.opacity.standard_error or 0.0):
            return self._told(found, f"certified interval, narrower than sampling would give ({reason})")
        return guess

    def _tighten(self, budget: Budget) -> Evaluation:
        """Ever larger parts of the graph until the interval is narrow enough or the budget is used up."""
        for part in (64, 8):
            found = evaluate(self.process, self.pi, budget=replace(budget, nodes=max(budget.nodes // part, 1)))
            if self._bounded(found).opacity.width <= self.width:
                return self._bounded(found)
        return self._bounded(evaluate(self.process, self.pi, budget=budget))

    def _bounded(self, found: Evaluation) -> Evaluation:
        """What knowing the prior alone says of opacity and guess error tightens the upper ends."""
        return replace(
            found,
            opacity=_below(found.opacity, entropy(self.prior)),
            guess_error=_below(found.guess_error, 1.0 - float(self.prior.max())),
        )

    def _told(self, found: Evaluation, explanation: str) -> _Answer:
        return _Answer(found.opacity, found.guess_error, found.graph.num_nodes, explanation)

    def _sample(self, found: Evaluation | None, reason: str) -> _Answer:
        """An estimate with standard errors, inside whatever interval is certified."""
        guess = estimate(self.process, self.pi, samples=self.samples, rng=self.rng)
        opacity = found.opacity if found else Amount.between(0.0, entropy(self.prior))
        error = found.guess_error if found else Amount.between(0.0, 1.0 - float(self.prior.max()))
        return _Answer(
            _estimated(opacity, guess.opacity, guess.opacity_error),
            _estimated(error, guess.guess_error, guess.guess_error_error),
            found.graph.num_nodes if found else 0,
            f"estimated from {self.samples:,} sampled runs ({reason})",
        )


def _below(amount: Amount, limit: float) -> Amount:
    if amount.method == "exact" or amount.upper <= limit:
        return amount
    return Amount.between(amount.lower, max(limit, amount.lower))


def _estimated(certified: Amount, value: float, standard_error: float) -> Amount:
    inside = min(max(value, certified.lower), certified.upper)
    return Amount(inside, certified.lower, certified.upper, "sampled", standard_error)
