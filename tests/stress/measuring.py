"""What opaq measures against the enumeration of every run: one number per promise, 0 when it is kept."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from math import inf, isfinite

import numpy as np

import oracles
from opaq.beliefs.returns import return_gradient
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.opacity import exact
from opaq.opacity.measure import Measurement, measure
from opaq.product.compile import Product, compile_problem
from stress.extremes import Case, extreme_model
from stress.runner import Outcome

TOLERANCE = 1e-9
_STEP = 1e-5
_SLOPE_TOLERANCE = 1e-6

Differences = dict[str, float]  # what was compared -> how far off it is


def try_model(number: int, *, derivatives: bool = False, second_order: bool = False) -> Outcome:
    """Measure one extreme model in every mode and compare.

    Derivatives cost more and are compared now and then; those of second order take long to compile.
    """
    case = Case.of(number)
    kinds = {"secret": case.secret, "policy class": "-".join(case.conditions), "observer": case.observer}
    tallies = dict.fromkeys(kinds.items(), 1.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "divide by zero" beside an answer is a fault too
            problem, policy = extreme_model(case)
            gaps = measurement_differences(problem, policy, seed=number)
            if derivatives:
                gaps |= derivative_differences(problem, np.random.default_rng(number), second_order=second_order)
    except Exception as error:
        return Outcome((f"{', '.join(kinds.values())}: {type(error).__name__}: {error}",), tallies)
    return Outcome(tuple(f"{', '.join(kinds.values())}: {words}" for words in too_large(gaps)), tallies, gaps)


def too_large(differences: Differences) -> list[str]:
    """Return the differences that break a promise, in words."""
    return [f"{name} off by {gap:.3g}" for name, gap in differences.items() if gap > TOLERANCE]


def measurement_differences(problem: Problem, policy: Policy | None, *, seed: int = 0) -> Differences:
    """Exact, interval and sampled measurement against the truth."""
    truth = oracles.enumerate_truth(problem, policy)
    found = exact_differences(problem, truth, measure(problem, policy, mode="exact"))
    interval = measure(problem, policy, mode="interval", width=0.0, max_beliefs=2, sequences=0)
    found["interval"] = max(
        _outside(oracles.opacity(truth.joint), interval.opacity.lower, interval.opacity.upper),
        _outside(oracles.guess_error(truth.joint), interval.guess_error.lower, interval.guess_error.upper),
    )
    sampled = measure(problem, policy, mode="sampled", samples=20, seed=seed, sequences=0)
    found["sampled"] = _outside(sampled.opacity.value, 0.0, oracles.secret_entropy(truth.joint))
    numbers = (sampled.opacity.standard_error, sampled.guess_error.value, sampled.guess_error.standard_error)
    found["sampled is finite"] = 0.0 if all(number is not None and isfinite(number) for number in numbers) else inf
    return found


def exact_differences(problem: Problem, truth: oracles.Truth, measurement: Measurement) -> Differences:
    """Every number of an exact measurement against the truth."""
    joint = truth.joint
    opacity, entropy, error = oracles.opacity(joint), oracles.secret_entropy(joint), oracles.guess_error(joint)
    found = {
        "opacity": _gap(measurement.opacity.value, opacity),
        "opacity's interval": _outside(opacity, measurement.opacity.lower, measurement.opacity.upper),
        "secret entropy": _gap(measurement.secret_entropy, entropy),
        "guess error": _gap(measurement.guess_error.value, error),
        "prior": distribution_gap(measurement.secret_distribution, oracles.secret_distribution(joint)),
        "return": _gap(measurement.expected_return, truth.expected_return),
        "Fano bound": max(0.0, measurement.fano_bound - error),
        "feasible": 0.0 if _feasibility_right(problem, truth, measurement.feasible) else inf,
    }
    values = [requirement.value for requirement in measurement.requirements[1:]]
    for place, (value, true) in enumerate(zip(values, truth.requirements, strict=True)):
        found[f"requirement {place}"] = _gap(value, true)
    return found | _sequence_differences(truth, measurement)


def thresholds_and_values(problem: Problem, truth: oracles.Truth) -> Iterator[tuple[float, float]]:
    """(threshold, true value) of everything the task asks for."""
    if problem.task.return_at_least is not None:
        yield problem.task.return_at_least, truth.expected_return
    for requirement, value in zip(problem.task.requirements, truth.requirements, strict=True):
        yield requirement.threshold, value


def _feasibility_right(problem: Problem, truth: oracles.Truth, claimed: bool) -> bool:
    """Whether the claim agrees with the true values; closer to a threshold than rounding it may go either way."""
    scaled = [(value - asked) / max(1.0, abs(asked)) for asked, value in thresholds_and_values(problem, truth)]
    slack = min(scaled, default=inf)
    return abs(slack) <= TOLERANCE or claimed == (slack > 0)


def _sequence_differences(truth: oracles.Truth, measurement: Measurement) -> Differences:
    """The sequences shown: probability of each, of its group, and what it says of the secret."""
    seen = {_spelled(y): chance for y, chance in oracles.sequence_probabilities(truth.joint).items()}
    found = {"sequence probability": 0.0, "group probability": 0.0, "posterior": 0.0}
    for shown in (*measurement.revealing, *measurement.confusing):
        length = len(shown.observations)
        true = sum(chance for y, chance in seen.items() if y[:length] == shown.observations)
        found["sequence probability"] = max(found["sequence probability"], _gap(shown.likeliest, true))
        group = true if shown.probability is None else shown.probability
        found["group probability"] = max(found["group probability"], _outside(group, true, 1.0))
        if true > 1e-6:
            gap = distribution_gap(shown.posterior, _posterior(truth.joint, shown.observations, true))
            found["posterior"] = max(found["posterior"], gap if gap > 1e-7 else 0.0)  # beliefs merge when this close
    return found


def _spelled(sequence: oracles.Sequence) -> tuple[str, ...]:
    return tuple("/".join(parts) for parts in sequence)


def _posterior(joint: oracles.Joint, prefix: tuple[str, ...], total: float) -> dict[str, float]:
    mass: dict[str, float] = {}
    for (value, sequence), chance in joint.items():
        if _spelled(sequence)[: len(prefix)] == prefix:
            mass[value] = mass.get(value, 0.0) + chance / total
    return mass


def derivative_differences(problem: Problem, rng: np.random.Generator, *, second_order: bool) -> Differences:
    """Gradients by logits: finite at the edge of their range, and equal to differences of enumerated values."""
    product = compile_problem(problem)
    size = product.process.num_slots
    edge = rng.choice([-700.0, 0.0, 700.0, 3.0], size=size)
    found = {"gradient at 700 is finite": 0.0 if _finite(product, edge, rng, second_order=second_order) else inf}
    theta = rng.choice([-690.0, 0.0, 690.0], size=size) if rng.random() < 0.5 else np.zeros(size)
    theta, along = theta + rng.normal(size=size), rng.normal(size=size)
    along /= np.linalg.norm(along)
    ahead, behind = (_enumerated(problem, product, theta + step * along) for step in (_STEP, -_STEP))
    slopes = (exact.gradient(product.process, theta)[1], return_gradient(product.process, theta)[1])
    for name, slope, more, less in zip(("opacity", "return"), slopes, ahead, behind, strict=True):
        expected = (more - less) / (2 * _STEP)
        gap = _gap(float(slope @ along), expected)
        found[f"gradient of {name}"] = gap if gap > _SLOPE_TOLERANCE * max(1.0, abs(expected)) else 0.0
    return found


def _finite(product: Product, theta: np.ndarray, rng: np.random.Generator, *, second_order: bool) -> bool:
    process = product.process
    value, slope = exact.gradient(process, theta)
    parts = [np.array([value]), slope, return_gradient(process, theta)[1]]
    if second_order:
        parts.append(exact.hessian_vector(process, theta, rng.normal(size=theta.size)))
    return all(bool(np.isfinite(part).all()) for part in parts)


def _enumerated(problem: Problem, product: Product, theta: np.ndarray) -> tuple[float, float]:
    truth = oracles.enumerate_truth(problem, product.policy(product.process.softmax(theta)))
    return oracles.opacity(truth.joint), truth.expected_return


def distribution_gap(found: dict[str, float], expected: dict[str, float]) -> float:
    """The largest difference of any probability."""
    return max(_gap(found.get(name, 0.0), expected.get(name, 0.0)) for name in found.keys() | expected.keys())


def _gap(found: float, truth: float) -> float:
    return abs(found - truth) if isfinite(found) else inf


def _outside(value: float, lower: float, upper: float) -> float:
    """How far a number is from an interval."""
    if not all(isfinite(number) for number in (value, lower, upper)):
        return inf
    return max(0.0, lower - value, value - upper)
