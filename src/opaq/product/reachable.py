"""What can be the case at the end of a run, whatever the policy does."""

from __future__ import annotations

import numpy as np

from opaq.model.arrays import IntArray, spread
from opaq.product.compile import Product

_MOST_WORK = 50_000_000  # states looked at, over all steps
_STEP = 1_000  # what a step costs beside its states


def possible_secrets(product: Product) -> tuple[str, ...]:
    """The secret values that runs can end with under some policy.

    Follows the sets of states reachable after 0, 1, ... steps. Where that takes too long, all values that occur in
    the product are taken to be possible.
    """
    process = product.process
    reached = _followers(product, np.array([process.num_states]))  # the start comes after all states
    work = 0
    for _ in range(process.horizon):
        after = _followers(product, reached)
        work += after.size + _STEP
        if np.array_equal(after, reached):
            break
        if work > _MOST_WORK:
            return product.secret_values
        reached = after
    return tuple(product.secret_values[value] for value in np.unique(process.secret[reached]))


def _followers(product: Product, states: IntArray) -> IntArray:
    """The states one step later, ascending."""
    _, edges = spread(product.process.edge_start, states)
    return np.unique(product.process.edge_target[edges])
