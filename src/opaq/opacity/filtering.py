"""Observable operators, filtering, and posteriors of single observation sequences (paper, propositions 1 and 3).

With D_o = diag(E(o | x)) and P_pi[x, x'] = P_pi(x' | x), the unnormalised belief of a sequence is

    alpha(x) = P(o_0 .. o_t, x_t = x) = [D_{o_t} P_pi' .. D_{o_1} P_pi' D_{o_0} mu](x),
    P(o_0 .. o_t) = sum over x of alpha(x).

All functions take a compiled problem, a policy vector [slot] of it, and observations by name; InputError says what does
not fit. They are for given sequences, one or a batch; `opaq.beliefs` handles all sequences at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from opaq.beliefs.returns import start_distribution, transition_matrix
from opaq.errors import Fault, InputError, check_types, describe_value, list_names
from opaq.kernel_cache import kernel
from opaq.model.arrays import SLACK, FloatArray, IntArray, indices
from opaq.model.checks import is_masked
from opaq.model.secret import refuse_trajectory
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
    beliefs, logs = _filter_batch(product, pi, [observations], keep=True)
    return list(zip(beliefs, logs.tolist(), strict=True))


def log_probabilities(product: Product, pi: FloatArray, sequences: Sequence[Sequence[str]]) -> FloatArray:
    """Return [sequence]: log2 P(o_0 .. o_t) of many observation sequences at once, -inf for those that cannot occur.

    product: a compiled problem; pi: a policy vector of it; sequences: of each, the names of o_0 .. o_t.
    Raises InputError for an unknown observation, too many of them, or a vector that is no policy.
    """
    _, logs = _filter_batch(product, pi, sequences, keep=False)
    return logs[np.cumsum([len(observations) for observations in sequences], dtype=np.int64) - 1]


def _filter_batch(
    product: Product, pi: FloatArray, sequences: Sequence[Sequence[str]], *, keep: bool
) -> tuple[FloatArray, FloatArray]:
    """Return beliefs [observation, product state], no rows unless they are kept, and logs [observation].

    The observations of all sequences stand one after the other.
    """
    pi, process = _check_vector(product, pi), product.process
    starts = np.concatenate(([0], np.cumsum(_check_lengths(product, sequences))))
    seen, size, emission = _number_observations(product, sequences), process.num_states, process.emission
    by_observation = np.argsort(emission.columns, kind="stable")
    counts = np.bincount(emission.columns, minlength=emission.num_columns)
    beliefs, logs = np.zeros((starts[-1] if keep else 0, size)), np.zeros(starts[-1])
    _filter(
        start_distribution(process),
        *process.edges,
        process.flow(pi),
        indices(np.concatenate(([0], np.cumsum(counts)))),
        indices(emission.row_of_entry()[by_observation]),
        emission.values[by_observation],
        indices(starts),
        indices(seen),
        beliefs,
        logs,
        np.zeros(size),
        np.zeros(size, np.uint32),
        np.zeros(size),
        np.zeros(size, np.uint32),
        np.zeros(size),
    )
    return beliefs, logs


_CELLS_AT_ONCE = 4_000_000  # of beliefs that are made at a time


@kernel
def _filter(
    start, edge_start, edge_target, flow, column_start, column_state, column_value, sequence_start, seen, beliefs, logs,
    predicted, held, share, next_held, next_share,
):  # fmt: skip
    """Filter observation sequences: write log2 P(o_0 .. o_t) for every observation, and beliefs where there is room.

    alpha_t(x') = E(o_t | x') sum over x of P_pi(x' | x) alpha_t-1(x), divided by its sum at every step. Only states
    that emit what was seen are looked at, the entries of its column of the emission.
    Working memory, all [state]: predicted, 0 between steps; a belief by the states that it holds possible and the share
    of each (held, share), and the next one.
    """
    keep = beliefs.shape[0] > 0
    for sequence in range(sequence_start.size - 1):
        num_held, log = 0, 0.0
        for index in range(sequence_start[sequence], sequence_start[sequence + 1]):
            for position in range(num_held):
                for edge in range(edge_start[held[position]], edge_start[held[position] + 1]):
                    predicted[edge_target[edge]] += share[position] * flow[edge]
            num_next, total = 0, 0.0
            for entry in range(column_start[seen[index]], column_start[seen[index] + 1]):
                state = column_state[entry]
                before = start[state] if index == sequence_start[sequence] else predicted[state]
                next_held[num_next] = state
                next_share[num_next] = before * column_value[entry]
                total += next_share[num_next]
                num_next += 1
            for position in range(num_held):
                for edge in range(edge_start[held[position]], edge_start[held[position] + 1]):
                    predicted[edge_target[edge]] = 0.0
            num_held = 0
            for position in range(num_next):
                if next_share[position] > 0.0:
                    held[num_held] = next_held[position]
                    share[num_held] = next_share[position] / total
                    if keep:
                        beliefs[index, held[num_held]] = share[num_held]
                    num_held += 1
            log += np.log2(total) if total > 0.0 else -np.inf
            logs[index] = log


def filter_together(product: Product, pi: FloatArray, sequences: Sequence[Sequence[str]]) -> list[tuple[IntArray, Any]]:
    """Return for every time t the sequences that reach it, by index, and P(x_t = x | o_0 .. o_t) of each as a row.

    product: a compiled problem; pi: a policy vector of it; sequences: names of o_0 .. o_t, of any lengths.
    Rows are sparse [sequence, product state], and do not depend on the other sequences, to the last bit.
    Raises InputError for an unknown observation, too many of them, and for sequences that have probability 0.
    """
    from scipy.sparse import csr_array, vstack

    size, lengths = product.process.num_states, np.array([len(each) for each in sequences], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    at_once = max(_CELLS_AT_ONCE // max(int(lengths.max(initial=1)) * size, 1), 1)
    blocks = [csr_array((0, size))]
    for first in range(0, len(sequences), at_once):
        beliefs, logs = _filter_batch(product, pi, sequences[first : first + at_once], keep=True)
        if np.isinf(logs).any():
            position = int(starts[first] + np.argmax(np.isinf(logs)))
            sequence = int(np.searchsorted(starts, position, side="right")) - 1
            time = position - int(starts[sequence])
            finding = f"'{sequences[sequence][time]}' has probability 0 after what was seen before it"
            raise InputError([Fault(f"observations[{time}]", finding, "give what can be seen of this policy")])
        blocks.append(csr_array(beliefs))
    rows = csr_array(vstack(blocks, format="csr"))
    reached = [np.flatnonzero(lengths > time) for time in range(int(lengths.max(initial=0)))]
    return [(active, rows[starts[active] + time]) for time, active in enumerate(reached)]


def secret_posterior(product: Product, pi: FloatArray, observations: Sequence[str]) -> dict[str, float]:
    """Return P(Z = z | o_0 .. o_t) by value; for fewer than all observations, as predicted from those.

    product: a compiled problem; pi: a policy vector of it; observations: the names of o_0 .. o_t.
    Raises InputError when the sequence has probability 0.
    """
    *_, (now, _) = filter_states(product, pi, observations)
    refuse_trajectory(product.problem.secret)
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
    _check_lengths(product, [observations])
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
    numbers = _number_observations(product, [observations])
    by_observation = product.process.emission.scipy().tocsc()
    columns = {number: by_observation[:, [number]].toarray().reshape(-1) for number in set(numbers)}
    return [columns[number] for number in numbers]


def _number_observations(product: Product, sequences: Sequence[Sequence[str]]) -> list[int]:
    """Return the numbers of the observations of sequences, one after the other.

    Raises InputError with every unknown name of the first sequence that has one.
    """
    known = {name: index for index, name in enumerate(product.observations)}
    try:
        return [known[name] for observations in sequences for name in observations]
    except (KeyError, TypeError):  # TypeError: what cannot be a name
        for observations in sequences:
            unknown = [
                index for index, name in enumerate(observations) if not (isinstance(name, str) and name in known)
            ]
            if unknown:
                faults = [_unknown_observation(product, index, observations[index]) for index in unknown]
                raise InputError(faults) from None
        raise


def _unknown_observation(product: Product, index: int, name: str) -> Fault:
    """Return the fault of an unknown observation, with the nearest name."""
    close = get_close_matches(str(name), product.observations, n=1)
    advice = f"did you mean '{close[0]}'?" if close else f"there are {list_names(product.observations)}"
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


def _check_lengths(product: Product, sequences: Sequence[Sequence[str]]) -> IntArray:
    """Return [sequence]: the number of its observations. Raises InputError unless all have 1 to horizon + 1."""
    for observations in {type(each): each for each in sequences}.values():
        check_types({"observations": (observations, Sequence, "a list of observations")})
    lengths, most = np.array([len(each) for each in sequences], dtype=np.int64), product.process.horizon + 1
    for length in lengths[(lengths < 1) | (lengths > most)].tolist():
        message = f"{length} observations, but a run shows o_0 .. o_{most - 1}"
        raise InputError([Fault("observations", message, f"give 1 to {most}")])
    return lengths


def _check_possible(weights: FloatArray, observations: Sequence[str]) -> FloatArray:
    """Return weights that are not all 0; InputError where the sequence has probability 0."""
    if weights.sum() <= 0.0:
        message = f"the sequence {' '.join(observations)} has probability 0 under this policy"
        raise InputError([Fault("observations", message, "posteriors exist only for sequences that can occur")])
    return weights
