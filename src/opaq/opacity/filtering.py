"""Observable operators, filtering, and posteriors of single observation sequences (paper, propositions 1 and 3).

With D_o = diag(E(o | x)) and P_pi[x, x'] = P_pi(x' | x), the unnormalised belief of a sequence is

    alpha(x) = P(o_0 .. o_t, x_t = x) = [D_{o_t} P_pi' .. D_{o_1} P_pi' D_{o_0} mu](x),
    P(o_0 .. o_t) = sum over x of alpha(x).

All functions take a compiled problem, a policy vector [slot] of it, and observations by name; InputError says what does
not fit. They are for single sequences; `opaq.beliefs` handles all sequences at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.errors import Fault, InputError, check_types, describe_value
from opaq.model.arrays import SLACK, FloatArray
from opaq.model.checks import is_masked
from opaq.product.compile import Product


def observable_operator(product: Product, pi: FloatArray, observation: str) -> Any:
    """Return A_o[i, j] = P(x' = i | x = j) E(o | x = j) as a sparse matrix: emit in j, then move to i.

    product: a compiled problem; pi: a policy vector of it; observation: the name of o.
    """
    from scipy.sparse import diags_array

    pi = _check_vector(product, pi)
    process = product.process
    (emitted,) = _emissions(product, [observation])
    return (transition_matrix(process, process.flow(pi)).T @ diags_array(emitted)).tocsr()


def sequence_probability(product: Product, pi: FloatArray, observations: Sequence[str]) -> float:
    """Return P(o_0 .. o_t); 0 where that is too small for a float.

    product: a compiled problem; pi: a policy vector of it; observations: the names of o_0 .. o_t.
    """
    *_, (_, log_probability) = filter_states(product, pi, observations)
    return float(np.exp2(log_probability))


def filter_states(product: Product, pi: FloatArray, observations: Sequence[str]) -> list[tuple[FloatArray, float]]:
    """Return for every time t: P(x_t = x | o_0 .. o_t) over product states, and log2 P(o_0 .. o_t).

    product: a compiled problem; pi: a policy vector of it; observations: the names of o_0 .. o_t.
    Scaled at every step, so that long sequences do not underflow. From the time on at which the sequence becomes
    impossible, beliefs are 0 and the logarithm is -inf.
    Raises InputError for an unknown observation, too many of them, or a vector that is no policy.
    """
    pi, process = _check_vector(product, pi), product.process
    _check_length(product, observations)
    onward = transition_matrix(process, process.flow(pi)).T.tocsr()
    now, log_probability = start_distribution(process), 0.0
    steps = []
    for time, emitted in enumerate(_emissions(product, observations)):
        now = (onward @ now if time else now) * emitted
        total = float(now.sum())
        now = now / total if total > 0.0 else np.zeros_like(now)
        log_probability += np.log2(total) if total > 0.0 else -np.inf
        steps.append((now, log_probability))
    return steps


def secret_posterior(product: Product, pi: FloatArray, observations: Sequence[str]) -> dict[str, float]:
    """Return P(Z = z | o_0 .. o_t) by value; for fewer than all observations, as predicted from those.

    product: a compiled problem; pi: a policy vector of it; observations: the names of o_0 .. o_t.
    Raises InputError when the sequence has probability 0.
    """
    *_, (now, _) = filter_states(product, pi, observations)
    process = product.process
    now = _check_possible(now, observations)
    onward = transition_matrix(process, process.flow(pi)).T.tocsr()
    for _ in range(process.horizon + 1 - len(observations)):
        now = onward @ now
    weights = np.bincount(process.secret, weights=now, minlength=process.num_secrets)
    return dict(zip(product.secret_values, (weights / weights.sum()).tolist(), strict=True))


def start_posterior(product: Product, pi: FloatArray, observations: Sequence[str]) -> dict[str, float]:
    """Return P(s_0 | o_0 .. o_t) by state, by Bayes' rule from P(y | s_0) (paper, proposition 3).

    product: a compiled problem; pi: a policy vector of it; observations: the names of o_0 .. o_t.
    Raises InputError when the sequence has probability 0.
    """
    pi, process = _check_vector(product, pi), product.process
    _check_length(product, observations)
    onward = transition_matrix(process, process.flow(pi))
    likelihood = np.ones(process.num_states)
    for steps, emitted in enumerate(reversed(_emissions(product, observations))):
        likelihood = (onward @ likelihood if steps else likelihood) * emitted
        likelihood /= max(float(likelihood.max()), np.finfo(np.float64).tiny)  # only ratios matter
    joint = _check_possible(start_distribution(process) * likelihood, observations)
    states = product.problem.mdp.states
    weights = np.bincount(product.state_of, weights=joint, minlength=len(states)) / joint.sum()
    starts = np.flatnonzero(product.problem.mdp.start)
    return {states[state]: float(weights[state]) for state in starts}


def _emissions(product: Product, observations: Sequence[str]) -> list[FloatArray]:
    """Return per observation E(o | x) over product states; InputError with every unknown name."""
    known = {name: index for index, name in enumerate(product.observations)}
    faults = [
        _unknown_observation(product, index, name) for index, name in enumerate(observations) if str(name) not in known
    ]
    if faults:
        raise InputError(faults)
    by_observation = product.process.emission.scipy().tocsc()
    columns = {name: by_observation[:, [known[name]]].toarray().reshape(-1) for name in set(observations)}
    return [columns[name] for name in observations]


def _unknown_observation(product: Product, index: int, name: str) -> Fault:
    """Return the fault of an unknown observation, with the nearest name."""
    close = get_close_matches(str(name), product.observations, n=1)
    advice = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(product.observations[:20])}"
    return Fault(f"observations[{index}]", f"the observer has no observation '{name}'", advice)


def _check_vector(product: Product, pi: FloatArray) -> FloatArray:
    """Return a policy vector if it is one of the compiled problem: the right length, rows that sum to 1."""
    check_types({"product": (product, Product, "an opaq.Product, as compile_problem returns it")})
    size = product.process.num_slots
    vector = np.asarray(pi)
    fits = not is_masked(pi) and vector.dtype.kind in "fiu" and vector.shape == (size,) and (vector >= 0).all()
    if not fits or np.abs(np.add.reduceat(vector, product.process.row_start[:-1]) - 1).max(initial=0.0) > SLACK:
        message = f"is {describe_value(pi)}" if vector.shape != (size,) else "is no distribution in some row"
        raise InputError([Fault("pi", message, f"give {size:,} probabilities, as Product.policy_vector returns them")])
    return vector


def _check_length(product: Product, observations: Sequence[str]) -> None:
    """Raise InputError unless there are 1 to horizon + 1 observations."""
    check_types({"observations": (observations, Sequence, "a list of observations")})
    most = product.process.horizon + 1
    if not 1 <= len(observations) <= most:
        message = f"{len(observations)} observations, but a run shows o_0 .. o_{most - 1}"
        raise InputError([Fault("observations", message, f"give 1 to {most}")])


def _check_possible(weights: FloatArray, observations: Sequence[str]) -> FloatArray:
    """Return weights that are not all 0; InputError where the sequence has probability 0."""
    if weights.sum() <= 0.0:
        message = f"the sequence {' '.join(observations)} has probability 0 under this policy"
        raise InputError([Fault("observations", message, "posteriors exist only for sequences that can occur")])
    return weights
