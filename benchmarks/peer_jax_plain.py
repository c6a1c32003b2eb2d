"""Peer: the paper's sampled gradient as JAX code is usually written: one run by lax.scan, vmap over runs, grad, jit.

Runs are drawn with jax.random.categorical, beliefs are normalised at every step as in the textbook forward
algorithm, and the surrogate of peer_jax (which explains it) is differentiated by jax.grad through vmap and scan.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import peer_jax
from scenario import Scenario, last_state_grid, random_theta, sample_observations

Estimate = tuple[jax.Array, jax.Array]


def sampled_gradient(scenario: Scenario, *, samples: int) -> Callable[[jax.Array, jax.Array], Estimate]:
    """theta, key -> value, gradient; the first call compiles it."""
    moves = jnp.asarray(scenario.transitions)
    shows = jnp.asarray(scenario.emission)
    start = jnp.asarray(scenario.start).sum(axis=0)

    def run(theta: jax.Array, key: jax.Array) -> jax.Array:
        def step(state: jax.Array, key: jax.Array) -> Estimate:
            act, move, show = jax.random.split(key, 3)
            seen = jax.random.categorical(show, jnp.log(shows[state]))
            action = jax.random.categorical(act, theta[state])
            return jax.random.categorical(move, jnp.log(moves[state, action])), seen

        first, *keys = jax.random.split(key, scenario.horizon + 2)
        return jax.lax.scan(step, jax.random.categorical(first, jnp.log(start)), jnp.stack(keys))[1]

    def surrogate(theta: jax.Array, observations: jax.Array) -> Estimate:
        entropy, log_probability = jax.vmap(lambda seen: posterior(scenario, theta, seen))(observations)
        held = jax.lax.stop_gradient(entropy)
        return jnp.mean(entropy + held * log_probability), jnp.mean(entropy)

    def estimate(theta: jax.Array, key: jax.Array) -> Estimate:
        observations = jax.vmap(lambda key: run(theta, key))(jax.random.split(key, samples))
        (_, value), direction = jax.value_and_grad(surrogate, has_aux=True)(theta, observations)
        return value, direction

    return jax.jit(estimate)


def posterior(scenario: Scenario, theta: jax.Array, seen: jax.Array) -> Estimate:
    """H(Z | y) in bits and ln P(y) of one sequence, by the normalised forward algorithm."""
    chain = jnp.einsum("ia,iaj->ij", jax.nn.softmax(theta, axis=1), jnp.asarray(scenario.transitions))
    shows = jnp.asarray(scenario.emission)

    def step(carry: Estimate, shown: jax.Array) -> tuple[Estimate, None]:
        belief, log_probability = carry
        ahead = (belief @ chain) * shows[:, shown]
        total = ahead.sum()
        return (ahead / total, log_probability + jnp.log(total)), None

    first = jnp.asarray(scenario.start) * shows[:, seen[0]]  # [track, state]
    begin = (first / first.sum(), jnp.log(first.sum()))
    (belief, log_probability), _ = jax.lax.scan(step, begin, seen[1:])
    shares = jnp.einsum("zki,ki->z", jnp.asarray(scenario.readout), belief)
    possible = shares > 0
    entropy = -jnp.where(possible, shares * jnp.log2(jnp.where(possible, shares, 1.0)), 0.0).sum()
    return entropy, log_probability


def validate() -> None:
    """Raise unless it agrees with the tuned JAX peer on the same sequences."""
    scenario = last_state_grid()
    theta = jnp.asarray(random_theta(scenario))
    observations = sample_observations(scenario, np.asarray(theta), samples=20, rng=np.random.default_rng(2))
    value, _ = peer_jax.estimator(scenario, samples=20).gradient(theta, jnp.asarray(observations.T))
    entropy, _ = jax.vmap(lambda seen: posterior(scenario, theta, seen))(jnp.asarray(observations))
    np.testing.assert_allclose(float(entropy.mean()), float(value), rtol=0, atol=1e-10)


if __name__ == "__main__":
    validate()
    print("peer_jax_plain: agrees with the tuned JAX peer to 1e-10")
