"""Runs of a policy in the user's names: the call `opaq.simulate`."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from opaq.errors import check_numbers
from opaq.model.arrays import FloatArray, IntArray, ShortRepr
from opaq.model.policy import Policy
from opaq.model.problem import Problem
from opaq.model.secret import Trajectory
from opaq.opacity.policies import compile_for_policy
from opaq.product.compile import Product
from opaq.simulation.sampling import sample_runs

MOST_RUNS = 10**7


@dataclass(frozen=True, slots=True, repr=False)
class Run(ShortRepr):
    """One run s_0 .. s_T: what happened, what the observer saw, and the secret."""

    states: tuple[str, ...]
    actions: tuple[str, ...]  # as the policy's rows call them; the last one is drawn and has no effect
    observations: tuple[str, ...]
    secret: str


def simulate(
    problem: Problem | str | os.PathLike[str],
    policy: Policy | str | os.PathLike[str] | None = None,
    *,
    runs: int = 1000,
    seed: int = 0,
) -> tuple[Run, ...]:
    """Draw independent runs of a policy.

    problem: an object, the name of a file, or the name of a scenario.
    policy: an object, a file, "uniform" or "return-optimal"; None is the uniform policy.
    runs: how many. seed: the same seed gives the same runs.

    Raises InputError when an argument does not fit.
    """
    check_numbers({"runs": (runs, 1, MOST_RUNS), "seed": (seed, 0, 2**64)}, whole=("runs", "seed"))
    product, pi = compile_for_policy(problem, policy)
    return simulate_product(product, pi, count=runs, rng=np.random.default_rng(seed))


def simulate_product(product: Product, pi: FloatArray, *, count: int, rng: np.random.Generator) -> tuple[Run, ...]:
    """Draw independent runs of a policy vector [slot] of a product, in the user's names."""
    sampled = sample_runs(product.process, pi, count=count, rng=rng)
    mdp = product.problem.mdp
    states, actions = np.array(mdp.states, dtype=object), np.array(product.actions, dtype=object)
    observations = np.array(product.observations, dtype=object)
    return tuple(
        Run(
            states=tuple(states[product.state_of[visited]]),
            actions=tuple(actions[product.slot_action[slots]]),
            observations=tuple(observations[seen]),
            secret=secret_of_run(product, visited),
        )
        for visited, slots, seen in zip(sampled.states, sampled.slots, sampled.observations, strict=True)
    )


def secret_of_run(product: Product, visited: IntArray) -> str:
    """Return the secret of a whole run, by its product states [time]; the words of a trajectory one after the other."""
    words = product.process.secret[visited]
    told = words if isinstance(product.problem.secret, Trajectory) else words[-1:]
    return " -> ".join(product.secret_values[word] for word in told)
