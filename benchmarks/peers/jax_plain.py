"""Peer: the paper's sampled gradient as JAX code is usually written: one run by lax.scan, vmap over runs, grad, jit.

Runs are drawn with jax.random.categorical, beliefs are normalised at every step as in the textbook forward
algorithm, and the surrogate of jax_batched (which explains it) is differentiated by jax.grad through vmap and scan.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.peers.jax_batched import Estimate, Estimator
from benchmarks.peers.paper_grid import Scenario


def estimator(scenario: Scenario, *, samples: int) -> Estimator:
    """The estimator for one scenario; the first call of each function compiles it."""
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

    def gradient(theta: jax.Array, observations: jax.Array) -> Estimate:
        (_, value), direction = jax.value_and_grad(surrogate, has_aux=True)(theta, observations.T)
        return value, direction

    def sampled_gradient(theta: jax.Array, key: jax.Array) -> Estimate:
        return gradient(theta, jax.vmap(lambda key: run(theta, key))(jax.random.split(key, samples)).T)

    return Estimator(jax.jit(gradient), jax.jit(sampled_gradient))


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
