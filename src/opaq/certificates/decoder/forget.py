"""The policy that an agent which sees the observations late would follow, if it did not see them.

A bound comes from the best policy of an agent that sees more than it may. How often that agent acts so in a window of
states, whatever it has seen, is a policy of the class that looks at the window: no proof, but a place to begin from
that the bound itself has chosen. The tighter the bound, the better it is.
"""

from __future__ import annotations

import numpy as np

from opaq.certificates.decoder.sweeps import Sweeper
from opaq.model.arrays import FloatArray, IntArray, expand_rows
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess


def forget_observations(sweeper: Sweeper, base: Product, product: Product) -> FloatArray | None:
    """Return the policy vector [slot] of a product that acts in its states as the late agent does on average.

    sweeper: holds the late agent's policy. base: the product whose states its windows consist of.
    product: of a class that has a clock and looks at (at least) the states of a window. None where the states of the
        product do not tell the window: the model's state must tell the product states that a window leads to apart.
    Raises StoppedError when the sweeper's stop is requested meanwhile.
    """
    windows, process = sweeper.decisions.windows, product.process
    found = _follow_windows(windows.process, base.state_of[windows.newest], process, product.state_of)
    if found is None:
        return None
    window, time = found
    use, first = sweeper.window_use(), sweeper.decisions.moves.choice_start
    window = np.where(window >= 0, windows.alike[window], -1)
    reached = np.flatnonzero(window >= 0)
    owner, slot = expand_rows(process.row_start, process.row[reached])
    counts = np.diff(process.row_start)[process.row[reached]]
    place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = use[time[reached][owner], first[window[reached]][owner] + place]
    weights = np.bincount(slot, weights=taken, minlength=process.num_slots).astype(np.float64)
    totals = np.repeat(np.add.reduceat(weights, process.row_start[:-1]), np.diff(process.row_start))
    return np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), process.uniform())


def _follow_windows(
    windows: HiddenProcess, shown: IntArray, process: HiddenProcess, state_of: IntArray
) -> tuple[IntArray, IntArray] | None:
    """Return [state of the process] its window and the time at which it is first reached, -1 where it is not.

    shown: [window] -> model state. state_of: [state] -> model state. Both processes are followed from the start, edge
    by edge. None where an edge of the windows is not known by the model state that it leads to.
    """
    size = int(max(shown.max(initial=0), state_of.max(initial=0))) + 1
    source = np.repeat(np.arange(windows.num_states + 1), np.diff(windows.edge_start))
    edges = np.unique(np.column_stack((source * size + shown[windows.edge_target], windows.edge_target)), axis=0)
    keys, targets = edges[:, 0], edges[:, 1]
    if np.any(keys[1:] == keys[:-1]):
        return None
    window, time = (np.full(process.num_states + 1, -1, dtype=np.int64) for _ in range(2))
    frontier, window[-1] = np.array([process.num_states]), windows.num_states
    for moment in range(process.horizon + 1):
        owner, edge = expand_rows(process.edge_start, frontier)
        state = process.edge_target[edge]
        wanted = window[frontier][owner] * size + state_of[state]
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        new = (window[state] < 0) & (keys[place] == wanted)
        window[state[new]], time[state[new]] = targets[place[new]], moment
        frontier = np.unique(state[new])
    return window[:-1], time[:-1]
