"""Figures of every secret for every observer, beside the measurement of the pair that an answer is about.

A measurement of one pair comes in; the same goes out with a figure for each pair, what the task's own figure comes to
where it is the mean or the least of several, and the requirements on figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opaq.beliefs.graph import IMPOSSIBLE, Budget
from opaq.beliefs.returns import EQUAL, expected_return
from opaq.codec import if_known, key
from opaq.model.arrays import FloatArray
from opaq.model.figures import CovertLimit, Pair, UncertaintyLimit
from opaq.model.problem import Task
from opaq.model.secret import Trajectory
from opaq.model.uncertainty import GuessError, Shannon
from opaq.opacity.amount import Amount
from opaq.opacity.assumed import believer
from opaq.opacity.functionals import Combination, Limit
from opaq.opacity.targets import limits_of, target_of, target_pairs
from opaq.product.compile import Product
from opaq.stop import Stop

if TYPE_CHECKING:
    from opaq.opacity.measure import Measurement  # whose figures these are


@dataclass(frozen=True, slots=True)
class Figure:
    """What one observer is left with of one secret.

    of: the secret, by its name.
    for_: the observer, by its name.
    opacity: H(secret | observations) in bits, of an observer who knows model and policy.
    guess_error: the probability that the observer's best guess is wrong; of one that assumes, of its own guess.
    secret_entropy: H(secret) in bits.
    cross_entropy: of an observer that assumes: -E log2 q(secret | observations), in bits, where what it held impossible
        counts its `surprise`; infinite where `excluded` is above 0. Left out of others.
    impossible: the probability of observations that it held impossible.
    excluded: the probability that the secret has a value which it excluded, though what it saw was possible to it.
    """

    of: str
    for_: str = field(metadata=key("for"))
    opacity: Amount
    guess_error: Amount
    secret_entropy: float
    cross_entropy: Amount | None = field(default=None, metadata=if_known())
    impossible: float | None = field(default=None, metadata=if_known())
    excluded: float | None = field(default=None, metadata=if_known())


Figures = Mapping[tuple[str, str], Figure]  # (secret, observer) -> figure


def measure_figures(
    product: Product, pi: FloatArray, own: Measurement, *, measure_view: Callable[[Product], Measurement], stop: Stop
) -> tuple[Figure, ...]:
    """Return the figure of every secret for every observer.

    own: the measurement of the product's own pair. measure_view: measures a view of the product.
    stop: where it is requested, figures of observers that assume are left out.
    """
    problem, figures = product.problem, list[Figure]()
    for pair in problem.figures:
        view = product.view(pair.of, pair.for_)
        if view is product and problem.task.when != "end":  # figures are those after the last observation
            view = replace(product, problem=replace(problem, task=Task(over=problem.task.over)))
        measured = own if view is product else measure_view(view)
        more: dict[str, Any] = {}
        known = not isinstance(problem.secrets[pair.of], Trajectory)  # what it believes of whole runs is not
        if pair.for_ in problem.assumptions and known and not stop.requested:
            more = _believed(product, pi, pair)
        guess_error = more.pop("guess_error", measured.guess_error)
        figures.append(Figure(pair.of, pair.for_, measured.opacity, guess_error, measured.secret_entropy, **more))
    return tuple(figures)


def _believed(product: Product, pi: FloatArray, pair: Pair) -> dict[str, Any]:
    """Return the figures of an observer that assumes."""
    assuming = believer(product, pair.of, pair.for_)
    payoffs = (assuming.cross_entropy, assuming.guess_error, assuming.impossible, assuming.excluded)
    bits, wrong, impossible, excluded = (expected_return(assuming.process, pi, payoff) for payoff in payoffs)
    return {
        "cross_entropy": Amount.exact(math.inf if excluded >= IMPOSSIBLE else max(bits, 0.0)),  # below 0 is rounding
        "guess_error": Amount.exact(wrong),
        "impossible": impossible,
        "excluded": excluded,
    }


def measure_target(product: Product, pi: FloatArray, figures: Figures, *, budget: Budget, stop: Stop) -> Amount | None:
    """Return what the policy reaches of what the task is about; None where that is the uncertainty of the own pair.

    figures: by pair; those of opacity and guess error are not evaluated again.
    """
    problem, pairs = product.problem, target_pairs(product.problem)
    if [(pair.of, pair.for_) for pair in pairs] == [
        (problem.of, problem.for_)
    ] and problem.for_ not in problem.assumptions:
        return None
    target, known = target_of(product), problem.task.when == "end" and isinstance(problem.task.of, Shannon | GuessError)
    assuming = any(pair.for_ in problem.assumptions for pair in pairs)
    if not known or assuming or not isinstance(target, Combination):
        return target.evaluate(pi, budget=budget, stop=stop).amount
    name = "opacity" if isinstance(problem.task.of, Shannon) else "guess_error"
    amounts: list[Amount] = [getattr(figures[pair.of, pair.for_], name) for pair in pairs]
    lower, upper = np.array([(amount.lower, amount.upper) for amount in amounts]).T
    ends = target.enclose(lower, upper)
    errors = [amount.standard_error or 0.0 for amount in amounts]
    if not any(errors):
        return Amount.between(*ends)
    value, weights = target.combine(np.array([amount.value for amount in amounts]))
    return Amount.estimate(value, *ends, standard_error=float(np.linalg.norm(weights * np.array(errors))))


def measure_limits(
    product: Product, pi: FloatArray, figures: Figures, *, budget: Budget, stop: Stop
) -> list[tuple[Limit, Amount]]:
    """Return every requirement on a figure with what the policy reaches of it."""
    problem, amounts = product.problem, list[tuple[Limit, Amount]]()
    for stated, limit in zip(problem.task.limits, limits_of(product), strict=True):
        amount = None
        if isinstance(stated, UncertaintyLimit):
            pair = problem.complete(Pair(stated.of, stated.for_))
            figure = figures[pair.of, pair.for_]
            amount = None if pair.for_ in problem.assumptions else figure.opacity
        if amount is None:
            amount = limit.figure.evaluate(pi, budget=budget, stop=stop).amount
        if isinstance(stated, CovertLimit) and math.isfinite(amount.value):
            amount = Amount.between(max(amount.lower, 0.0), max(amount.upper, 0.0))  # below 0 is rounding
        amounts.append((limit, amount))
    return amounts


def limit_tolerance(limit: Limit) -> float:
    """Return how far on the wrong side of its threshold a figure may be and count as rounding."""
    return EQUAL * max(1.0, abs(limit.threshold))
