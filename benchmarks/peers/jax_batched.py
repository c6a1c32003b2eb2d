"""Peer: the paper's sampled gradient in JAX tuned by hand: batched products, unrolled scan, cheapest draws, float64.

The estimator of eq. HMM_approx_gradient_entropy is the gradient of mean_k [h(y_k) + stop(h(y_k)) ln P(y_k)] with
h(y) = H(Z | y): a surrogate that reverse mode differentiates in one sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from benchmarks.peers.paper_grid import Scenario

jax.config.update("jax_enable_x64", True)

Estimate = tuple[jax.Array, jax.Array]


@dataclass(frozen=True, slots=True)
class Estimator:
    """Compiled functions of one scenario."""

    gradient: Callable[[jax.Array, jax.Array], Estimate]  # theta, observations [time, sample] -> value, gradient
    sampled_gradient: Callable[[jax.Array, jax.Array], Estimate]  # theta, key -> value, gradient


def estimator(scenario: Scenario, *, samples: int) -> Estimator:
    """The estimator for one scenario; the first call of each function compiles it."""

    def surrogate(theta: jax.Array, observations: jax.Array) -> Estimate:
        entropy, log_probability = _posterior(scenario, _chain(scenario, theta), observations)
        held = jax.lax.stop_gradient(entropy)
        return jnp.mean(entropy + held * log_probability), jnp.mean(entropy)

    def gradient(theta: jax.Array, observations: jax.Array) -> Estimate:
        (_, value), direction = jax.value_and_grad(surrogate, has_aux=True)(theta, observations)
        return value, direction

    def sampled_gradient(theta: jax.Array, key: jax.Array) -> Estimate:
        return gradient(theta, _sample(scenario, _chain(scenario, theta), key, samples=samples))

    return Estimator(jax.jit(gradient), jax.jit(sampled_gradient))


def _chain(scenario: Scenario, theta: jax.Array) -> jax.Array:
    return jnp.einsum("ia,iaj->ij", jax.nn.softmax(theta, axis=1), jnp.asarray(scenario.transitions))


def _posterior(scenario: Scenario, chain: jax.Array, observations: jax.Array) -> Estimate:
    """H(Z | y) in bits and ln P(y) of every sequence, by the forward recursion over the whole batch."""
    shows = jnp.asarray(scenario.emission.T)

    def step(alpha: jax.Array, shown: jax.Array) -> tuple[jax.Array, None]:
        return (alpha @ chain) * shows[shown], None

    first = jnp.asarray(scenario.start)[:, None, :] * shows[observations[0]]  # [track, sample, state]
    alpha, _ = jax.lax.scan(step, first, observations[1:], unroll=True)
    joint = jnp.einsum("zki,kyi->yz", jnp.asarray(scenario.readout), alpha)
    probability = joint.sum(axis=1)
    posterior = joint / probability[:, None]
    possible = posterior > 0
    entropy = -jnp.where(possible, posterior * jnp.log2(jnp.where(possible, posterior, 1.0)), 0.0).sum(axis=1)
    return entropy, jnp.log(probability)


def _sample(scenario: Scenario, chain: jax.Array, key: jax.Array, *, samples: int) -> jax.Array:
    """Observation sequences [time, sample] by inversion of cumulative rows, the cheapest draw on a CPU."""
    uniforms = jax.random.uniform(key, (scenario.horizon + 1, 2, samples))
    moves = jnp.cumsum(chain, axis=1)
    shows = jnp.cumsum(jnp.asarray(scenario.emission), axis=1)

    def draw(cumulative: jax.Array, uniform: jax.Array) -> jax.Array:
        return (uniform[:, None] * cumulative[..., -1:] >= cumulative).sum(axis=-1)

    def step(state: jax.Array, uniform: jax.Array) -> Estimate:
        state = draw(moves[state], uniform[0])
        return state, draw(shows[state], uniform[1])

    state = draw(jnp.cumsum(jnp.asarray(scenario.start).sum(axis=0)), uniforms[0, 0])
    seen = draw(shows[state], uniforms[0, 1])
    _, later = jax.lax.scan(step, state, uniforms[1:])
    return jnp.concatenate([seen[None], later])
