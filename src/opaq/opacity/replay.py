"""Sampled runs told in the user's names, with what the observer sees and comes to believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opaq.model.arrays import FloatArray
from opaq.opacity.operators import secret_posterior
from opaq.opacity.simulate import simulate
from opaq.product.compile import Product


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
    told = []
    for states, slots, seen in zip(runs.states, runs.slots, runs.observations, strict=True):
        observations = [product.observations[observation] for observation in seen]
        moments = tuple(
            Moment(
                time=time,
                state=product.problem.mdp.states[product.state_of[state]],
                action=product.problem.mdp.actions[product.slot_action[slot]],
                observation=observations[time],
                posterior=secret_posterior(product, pi, observations[: time + 1]),
            )
            for time, (state, slot) in enumerate(zip(states, slots, strict=True))
        )
        told.append(Run(moments, product.secret_values[product.process.secret[states[-1]]]))
    return tuple(told)
