"""Peers for plain filtering: ln P(o_0 .. o_t) of observation sequences by hmmlearn (compiled) and dynamax (JAX)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Chain:
    """A hidden Markov chain by dense arrays, which is all these libraries take."""

    start: np.ndarray  # [state]
    moves: np.ndarray  # [state, next state]
    emission: np.ndarray  # [state, observation]


def hmmlearn_likelihood(chain: Chain, sequences: np.ndarray) -> Callable[[], np.ndarray]:
    """ln P of every sequence [sequence, time] by hmmlearn, whose forward pass is compiled C++."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(n_components=len(chain.start), init_params="", params="", implementation="scaling")
    model.startprob_, model.transmat_, model.emissionprob_ = chain.start, chain.moves, chain.emission
    model.n_features = chain.emission.shape[1]
    columns = [sequence[:, None] for sequence in sequences]
    return lambda: np.array([model.score(column) for column in columns])


def dynamax_likelihood(chain: Chain, sequences: np.ndarray) -> Callable[[], np.ndarray]:
    """ln P of every sequence [sequence, time] by dynamax, compiled once for all sequences together.

    Raises ValueError where a sequence is impossible: dynamax says ln P = 0 of such, and sees nothing wrong.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports what JAX deprecates
        import jax
        import jax.numpy as jnp
        from dynamax.hidden_markov_model import hmm_filter

    jax.config.update("jax_enable_x64", True)
    start, moves, emission = (jnp.asarray(array) for array in (chain.start, chain.moves, chain.emission))
    given = jnp.asarray(sequences)

    @jax.jit
    def likelihood(sequences: jax.Array) -> jax.Array:
        def one(sequence: jax.Array) -> jax.Array:
            return hmm_filter(start, moves, jnp.log(emission.T[sequence])).marginal_loglik

        return jax.vmap(one)(sequences)

    if not np.all(np.asarray(likelihood(given)) < 0.0):
        raise ValueError("dynamax gives ln P = 0 where a sequence is impossible: compare possible sequences only")
    return lambda: np.asarray(likelihood(given))
