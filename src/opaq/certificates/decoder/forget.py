"""The policy that an agent which sees the observations late would follow, if it did not see them.

A bound comes from the best policy of an agent that sees more than it may. How often that agent acts so in a window of
states, whatever it has seen, is a policy of the class that looks at the window: no proof, but a place to begin from
that the bound itself has chosen. The tighter the bound, the better it is.
"""

from __future__ import annotations

import numpy as np

from opaq.certificates.decoder.sweeps import Sweeper
from opaq.model.arrays import FloatArray, distinct, expand_rows
from opaq.product.compile import Product


def forget_observations(sweeper: Sweeper, base: Product, product: Product) -> FloatArray | None:
    """Return the policy vector [slot] of a product that acts in its rows as the late agent does on average.

    sweeper: holds the late agent's policy. base: the product whose states its windows consist of.
    product: of a class that has a clock. None where its rows choose nodes of a memory too, or where the model's state
        does not tell the product states that may come next apart.
    Raises StoppedError when the sweeper's stop is requested meanwhile.
    """
    memory = product.policy_class.memory
    if memory is not None and memory.free:
        return None
    windows, process = sweeper.decisions.windows, product.process
    use, first = sweeper.window_use(), sweeper.decisions.moves.choice_start
    size = len(base.problem.mdp.states)
    source = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    edges = np.unique(
        np.column_stack((source * size + product.state_of[process.edge_target], process.edge_target)), axis=0
    )
    keys, targets = edges[:, 0], edges[:, 1]
    if np.any(keys[1:] == keys[:-1]):
        return None
    weights = np.zeros(process.num_slots)
    window, state = np.array([windows.process.num_states]), np.array([process.num_states])  # the sources
    for taken in use:
        sweeper.stop.check()
        owner, edge = expand_rows(windows.process.edge_start, window)
        target = windows.alike[windows.process.edge_target[edge]]
        wanted = state[owner] * size + base.state_of[windows.newest[target]]
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        known = keys[place] == wanted
        pairs = distinct(target[known] * process.num_states + targets[place[known]])
        window, state = pairs // process.num_states, pairs % process.num_states
        owner, slot = expand_rows(process.row_start, process.row[state])
        counts = np.diff(process.row_start)[process.row[state]]
        action = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        weights += np.bincount(slot, weights=taken[first[window][owner] + action], minlength=weights.size)
    totals = np.repeat(np.add.reduceat(weights, process.row_start[:-1]), np.diff(process.row_start))
    return np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), process.uniform())
