"""What the observer believes along runs: of the state the run is in, and of the secret, after every observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from opaq.beliefs.returns import moves
from opaq.beliefs.secret_prediction import backward_cost, forward_cost, predict_secret
from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.opacity.filtering import filter_states
from opaq.product.compile import Product
from opaq.simulation.runs import Run

_FEW = 8  # how many runs there mostly are; the same for any number, so that beliefs are the same to the last bit


@dataclass(frozen=True, slots=True, eq=False)
class BeliefTrace:
    """One run, or the observations of one, and the beliefs after each observation."""

    run: Run
    states: Any  # sparse [time, model state]: P(s_t | o_0 .. o_t)
    secrets: FloatArray  # [time, secret value]: P(Z | o_0 .. o_t)


def trace_beliefs(product: Product, pi: FloatArray, runs: Sequence[Run]) -> tuple[BeliefTrace, ...]:
    """The beliefs of an observer who expects a policy vector, along every run.

    Raises InputError when observations have probability 0 under the policy.
    """
    beliefs = [filtered_beliefs(product, pi, run.observations) for run in runs]
    secrets = [np.zeros((len(run.observations), product.process.num_secrets)) for run in runs]
    by_time = _by_time(beliefs)
    blocks = [block for _, block in by_time]
    backwards = backward_cost(product.process) <= forward_cost(product.process, _FEW)
    for time, first, rows in predict_secret(product.process, pi, blocks, backwards=backwards):
        for number, row in zip(by_time[time][0][first:], rows, strict=False):
            secrets[number][time] = row
    return tuple(
        BeliefTrace(run, _over_states(product, belief), shares)
        for run, belief, shares in zip(runs, beliefs, secrets, strict=True)
    )


def filtered_beliefs(product: Product, pi: FloatArray, observations: Sequence[str]) -> Any:
    """P(x_t | o_0 .. o_t) as a sparse matrix [time, product state]; InputError where observations cannot occur."""
    rows = []
    for time, (now, log_probability) in enumerate(filter_states(product, pi, observations)):
        if not np.isfinite(log_probability):
            what = f"'{observations[time]}' has probability 0 after what was seen before it"
            raise InputError([Fault(f"observations[{time}]", what, "give what can be seen of this policy")])
        rows.append(csr_array(now.reshape(1, -1)))
    return csr_array(vstack(rows))


def _by_time(beliefs: Sequence[Any]) -> list[tuple[list[int], Any]]:
    """For every time: the runs that have a belief then, and their beliefs as rows."""
    longest = max((belief.shape[0] for belief in beliefs), default=0)
    numbers = [[run for run, belief in enumerate(beliefs) if time < belief.shape[0]] for time in range(longest)]
    return [(runs, csr_array(vstack([beliefs[run][[time]] for run in runs]))) for time, runs in enumerate(numbers)]


def _over_states(product: Product, beliefs: Any) -> Any:
    """Beliefs over product states as beliefs over the model's states."""
    shape = (product.process.num_states, product.problem.mdp.num_states)
    entries = (np.ones(shape[0]), (np.arange(shape[0]), product.state_of))
    return csr_array(beliefs @ csr_array(entries, shape=shape))


def conditioned_runs(
    product: Product, pi: FloatArray, observations: Sequence[str], *, count: int, rng: np.random.Generator
) -> tuple[Run, ...]:
    """Independent runs x_0 .. x_t drawn from P(run | o_0 .. o_t), in the user's names.

    Observations may end before the run does; the runs end with them, and a secret is named only where it is settled
    by then. Raises InputError when the observations have probability 0 under the policy.
    """
    process = product.process
    beliefs = filtered_beliefs(product, pi, observations).toarray()
    into = moves(process, process.flow(pi)).tocsc()  # the ways into a state are together
    return tuple(_conditioned_run(product, pi, observations, beliefs, into, rng) for _ in range(count))


def _conditioned_run(
    product: Product,
    pi: FloatArray,
    observations: Sequence[str],
    beliefs: FloatArray,
    into: Any,
    rng: np.random.Generator,
) -> Run:
    """One run, from its last state backwards: P(x_t | x_t+1, o_0 .. o_t) ~ belief(x_t) P(x_t+1 | x_t)."""
    states = [_pick(beliefs[-1], rng)]
    slots = [_last_slot(product, pi, states[0], rng)]
    for belief in beliefs[-2::-1]:
        after = states[-1]
        ways = slice(into.indptr[after], into.indptr[after + 1])
        before = into.indices[ways]
        states.append(int(before[_pick(belief[before] * into.data[ways], rng)]))
        slots.append(_taken_slot(product, pi, states[-1], after, rng))
    states, slots = states[::-1], slots[::-1]
    return Run(
        states=tuple(product.problem.mdp.states[product.state_of[state]] for state in states),
        actions=tuple(product.actions[product.slot_action[slot]] for slot in slots),
        observations=tuple(observations),
        secret=_secret(product, states),
    )


def _secret(product: Product, states: Sequence[int]) -> str:
    """What the secret is at the end of the run, or certain to be; empty where that is still open."""
    process, last = product.process, states[-1]
    value = process.secret[last] if len(states) == process.horizon + 1 else process.settled[last]
    return product.secret_values[value] if value >= 0 else ""


def _last_slot(product: Product, pi: FloatArray, state: int, rng: np.random.Generator) -> int:
    """What the policy does in the last state of the run; nothing follows from it."""
    first, last = product.process.row_start[product.process.row[state] :][:2]
    return int(first) + _pick(pi[first:last], rng)


def _taken_slot(product: Product, pi: FloatArray, state: int, after: int, rng: np.random.Generator) -> int:
    """The slot that led from one state to the next."""
    process = product.process
    first, last = process.edge_start[state], process.edge_start[state + 1]
    edge = int(first) + int(np.flatnonzero(process.edge_target[first:last] == after)[0])
    begin, end = process.edge_slots.indptr[edge : edge + 2]
    slots = process.edge_slots.indices[begin:end]
    return int(slots[_pick(process.edge_slots.data[begin:end] * pi[slots], rng)])


def _pick(weights: FloatArray, rng: np.random.Generator) -> int:
    """An index by its weight; rounding goes to the last that is not 0."""
    sums = np.cumsum(weights)
    index = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    return min(index, int(np.flatnonzero(weights)[-1]))
