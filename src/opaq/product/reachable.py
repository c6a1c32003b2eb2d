"""What can be the case at the end of a run, whatever the policy does."""

from __future__ import annotations

import numpy as np

from opaq.model.arrays import BoolArray, spread
from opaq.product.compile import Product

_MOST_WORK = 200_000_000  # edges followed, over all steps


def possible_secrets(product: Product) -> tuple[str, ...]:
    """The secret values that runs can end with under some policy.

    Follows the sets of states reachable after 0, 1, ... steps. Where that takes too long, all values that occur in
    the product are taken to be possible.
    """
    process = product.process
    reached: BoolArray = np.zeros(process.num_states, dtype=bool)
    reached[_followers(product, np.array([process.num_states]))] = True
    work = 0
    for _ in range(process.horizon):
        followers = _followers(product, np.flatnonzero(reached))
        work += followers.size
        if work > _MOST_WORK:
            return product.secret_values
        after = np.zeros_like(reached)
        after[followers] = True
        if np.array_equal(after, reached):
            break
        reached = after
    return tuple(product.secret_values[value] for value in np.unique(process.secret[reached]))


def _followers(product: Product, states: np.ndarray) -> np.ndarray:
    _, edges = spread(product.process.edge_start, states)
    return np.asarray(product.process.edge_target[edges])
