"""The policy that an agent which sees the observations late would follow, if it did not see them.

A bound comes from the best policy of an agent that sees more than it may. How often that agent acts so in a window of
states, whatever it has seen, is a policy of the class that looks at the window: no proof, but a place to begin from
that the bound itself has chosen. The tighter the bound, the better it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from opaq.certificates.decoder.layers import Layer
from opaq.certificates.decoder.sweeps import Sweeper
from opaq.model.arrays import BoolArray, FloatArray, IndexArray, IntArray, distinct, expand_rows
from opaq.product.compile import Product
from opaq.product.process import HiddenProcess

_HARDLY = 1e-10  # histories with less probability are left out: they are most of them, and together some 1e-5


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
    process, size = product.process, len(base.problem.mdp.states)
    source = np.repeat(np.arange(process.num_states + 1), np.diff(process.edge_start))
    edges = np.unique(
        np.column_stack((source * size + product.state_of[process.edge_target], process.edge_target)), axis=0
    )
    keys, targets = edges[:, 0], edges[:, 1]
    if np.any(keys[1:] == keys[:-1]):
        return None
    weights = np.zeros(process.num_slots)
    where, state = np.array([-1]), np.array([process.num_states])  # the sources
    for time in _follow_histories(sweeper) if sweeper.decisions.windows.unseen else _follow_windows(sweeper):
        sweeper.stop.check()
        owner, target, newest = time.step(where)
        wanted = state[owner] * size + base.state_of[newest]
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        known = (keys[place] == wanted) & time.seen[target]
        pairs = distinct(target[known] * process.num_states + targets[place[known]])
        where, state = pairs // process.num_states, pairs % process.num_states
        owner, slot = expand_rows(process.row_start, process.row[state])
        counts = np.diff(process.row_start)[process.row[state]]
        action = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        weights += np.bincount(slot, weights=time.used[time.first[where][owner] + action], minlength=weights.size)
    totals = np.repeat(np.add.reduceat(weights, process.row_start[:-1]), np.diff(process.row_start))
    return np.where(totals > 0.0, weights / np.where(totals > 0.0, totals, 1.0), process.uniform())


class _Time(NamedTuple):
    """One time of the late agent: how one comes to its windows, or histories, from those before, and what it does."""

    step: Callable[[IntArray], tuple[IntArray, IntArray, IntArray]]
    # from positions of the time before (-1: before the first): which of them, the position after, its product state
    used: FloatArray  # how often actions are taken
    first: IntArray  # [position]: where its actions begin
    seen: BoolArray  # [position]: whether it is reached more than hardly ever


def _follow_windows(sweeper: Sweeper) -> Iterator[_Time]:
    """Yield the times of an agent that sees the observations late: positions are windows."""
    windows, first = sweeper.decisions.windows, sweeper.decisions.moves.choice_start
    starts, targets = windows.process.edge_start, windows.process.edge_target

    def step(where: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        owner, edge = expand_rows(starts, np.where(where < 0, windows.process.num_states, where))
        after = windows.alike[targets[edge]]
        return owner, after, windows.newest[after]

    for used in sweeper.window_use():
        yield _Time(step, used, first, np.add.reduceat(used, first[:-1]) > 0.0)


def _follow_histories(sweeper: Sweeper) -> Iterator[_Time]:
    """Yield the times of an agent that never sees the observations: positions are entries, which are histories.

    What it does is its plan, the average over all rounds of a search. At the last time positions are product states.
    """
    moves, layers, process = sweeper.decisions.moves, sweeper.layers.layers, sweeper.decisions.process
    size, plan = process.num_states, sweeper.plan
    entry = distinct(sweeper.layers.root)
    state = moves.pair_state[layers[0].pair[entry]].astype(np.int64)
    owner, entry = np.zeros_like(entry), entry if len(plan) > 1 else state
    step = partial(_return_given, (owner, entry, state))
    for layer, used in zip(layers[:-1], plan, strict=False):
        yield _Time(step, used, layer.menu_start, np.add.reduceat(used, layer.menu_start[:-1]) > _HARDLY)
        step = partial(_follow_layer, layer, moves.pair_state[layer.pair], process, layer is layers[-2])
    yield _Time(step, plan[-1], moves.choice_start, np.ones(size, dtype=np.bool_))


def _return_given(given: tuple[IntArray, IntArray, IntArray], where: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return what is given: where runs begin."""
    return given


def _follow_layer(
    layer: Layer, state: IndexArray, process: HiddenProcess, last: bool, where: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Take one step from entries of a layer; see `_Time.step`.

    state: [entry]. last: whether the last time comes next, so that positions are product states. where: entries.
    """
    owner, edge = expand_rows(process.edge_start, state[where].astype(np.int64))
    follower = process.edge_target[edge]
    if last:
        return owner, follower, follower
    node = np.repeat(np.arange(layer.node_start.size - 1), np.diff(layer.node_start))
    next_node = np.repeat(np.arange(layer.next_start.size - 1), np.diff(layer.next_start))
    keys = next_node * process.num_states + layer.next_state
    order = np.argsort(keys)
    index = order[np.searchsorted(keys[order], node[where][owner] * process.num_states + follower)]
    return owner, layer.child[index].astype(np.int64), follower
