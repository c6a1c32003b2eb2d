"""What the observer believes along runs: of the state the run is in, and of the secret, after every observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from opaq.beliefs.outlooks import backward_cost, forward_cost, secret_outlooks
from opaq.errors import Fault, InputError
from opaq.model.arrays import FloatArray
from opaq.opacity.operators import filtered
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
    for time, first, rows in secret_outlooks(product.process, pi, blocks, backwards=backwards):
        for number, row in zip(by_time[time][0][first:], rows, strict=False):
            secrets[number][time] = row
    return tuple(
        BeliefTrace(run, _over_states(product, belief), shares)
        for run, belief, shares in zip(runs, beliefs, secrets, strict=True)
    )


def filtered_beliefs(product: Product, pi: FloatArray, observations: Sequence[str]) -> Any:
    """P(x_t | o_0 .. o_t) as a sparse matrix [time, product state]; InputError where observations cannot occur."""
    rows = []
    for time, (now, log_probability) in enumerate(filtered(product, pi, observations)):
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
