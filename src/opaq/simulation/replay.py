"""Sampled runs told in the user's names, with what the observer sees and comes to believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from opaq.beliefs.returns import moves
from opaq.model.arrays import FloatArray
from opaq.opacity.operators import filtered
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess
from opaq.simulation.sampling import simulate


@dataclass(frozen=True, slots=True)
class Moment:
    """One time of a run."""

    time: int
    state: str
    action: str
    observation: str
    posterior: Mapping[str, float]  # P(Z = z | observations so far)


@dataclass(frozen=True, slots=True)
class Run:
    """One sampled run and its secret."""

    moments: tuple[Moment, ...]
    secret: str


def replay(product: Product, pi: FloatArray, *, count: int, rng: np.random.Generator) -> tuple[Run, ...]:
    """Independent runs of a policy vector."""
    runs = simulate(product.process, pi, count=count, rng=rng)
    names = [[product.observations[observation] for observation in seen] for seen in runs.observations]
    beliefs = [[csr_array(now.reshape(1, -1)) for now, _ in filtered(product, pi, seen)] for seen in names]
    posteriors = _posteriors(product.process, pi, beliefs)
    states, actions = product.problem.mdp.states, product.actions
    return tuple(
        Run(
            tuple(
                Moment(
                    time=time,
                    state=states[product.state_of[runs.states[run, time]]],
                    action=actions[product.slot_action[runs.slots[run, time]]],
                    observation=names[run][time],
                    posterior=dict(zip(product.secret_values, posteriors[time][run].tolist(), strict=True)),
                )
                for time in range(product.process.horizon + 1)
            ),
            product.secret_values[product.process.secret[runs.states[run, -1]]],
        )
        for run in range(count)
    )


def _posteriors(process: HiddenProcess, pi: FloatArray, beliefs: list[list[Any]]) -> list[FloatArray]:
    """P(Z = z | o_0 .. o_t) for every time and run, from the beliefs over states: one sweep from the horizon back."""
    onward = moves(process, process.flow(pi))
    size = process.num_states
    outlook = csr_array((np.ones(size), (np.arange(size), process.secret)), shape=(size, process.num_secrets))
    posteriors: list[FloatArray] = []
    for time in range(process.horizon, -1, -1):
        weights = (vstack([run[time] for run in beliefs]) @ outlook).toarray()
        posteriors.append(weights / weights.sum(axis=1, keepdims=True))
        outlook = onward @ outlook
    return posteriors[::-1]
