"""A family of models that grows in one thing at a time: a ring of cells with lanes.

The run advances one cell per step and may change lanes; every cell has a beacon that may show the lane. Every few cells
it surely does, so that no belief covers more than a few states however long the run is.
"""

from __future__ import annotations

import numpy as np

from opaq.model.arrays import SparseRows, floats, ints
from opaq.model.mdp import MDP
from opaq.model.observer import Observer
from opaq.model.problem import Problem
from opaq.model.secret import LastState, StateClasses

HOLDS = 0.9  # how surely an action has its way with the lane
SHOWS = 0.5  # how often a cell shows the lane
CHECKPOINT = 4  # every so many cells the lane is shown for certain


def ring(*, cells: int, horizon: int, lanes: int = 2, shades: int = 1, discount: float = 1.0) -> Problem:
    """The secret is the lane at the end; each sign is shown in one of some shades that mean nothing.

    States: cells x lanes; observations: cells x (lanes + 1) x shades; secret values: lanes.
    """
    classes = StateClasses(tuple(f"lane {lane}" for lane in range(lanes)), ints(np.tile(np.arange(lanes), cells)))
    return Problem(_mdp(cells, lanes), _beacons(cells, lanes, shades), LastState(classes), horizon, discount)


def _mdp(cells: int, lanes: int) -> MDP:
    """State lanes * cell + lane; the choices of a state are (keep, change); keeping lane 0 earns 1."""
    states = cells * lanes
    state = np.repeat(np.arange(states), 4)  # each choice has two outcomes
    keeps = np.tile([1, 1, 0, 0], states)
    succeeds = np.tile([1, 0, 1, 0], states)
    lane = (state % lanes + (keeps != succeeds)) % lanes
    target = lanes * ((state // lanes + 1) % cells) + lane
    transitions = SparseRows.from_entries(
        np.repeat(np.arange(2 * states), 2), target, np.where(succeeds, HOLDS, 1 - HOLDS), shape=(2 * states, states)
    )
    return MDP(
        states=tuple(f"{cell}.{lane}" for cell in range(cells) for lane in range(lanes)),
        actions=("keep", "change"),
        start=floats(np.full(states, 1 / states)),
        choice_start=ints(np.arange(states + 1) * 2),
        choice_action=ints(np.tile([0, 1], states)),
        transitions=transitions,
        rewards=floats(np.tile([1.0, 0.0], states) * (np.repeat(np.arange(states), 2) % lanes == 0)),
        labels={},
    )


def _beacons(cells: int, lanes: int, shades: int) -> Observer:
    """Cell i shows the lane, or only that the run is in cell i, in any shade."""
    state = np.repeat(np.arange(cells * lanes), shades)
    shade = np.tile(np.arange(shades), cells * lanes)
    cell, lane = state // lanes, state % lanes
    shown = np.where(cell % CHECKPOINT == 0, 1.0, SHOWS)
    signs = np.concatenate([(lanes + 1) * cell + lane, (lanes + 1) * cell + lanes])
    emission = SparseRows.from_entries(
        np.concatenate([state, state]),
        shades * signs + np.tile(shade, 2),
        np.concatenate([shown, 1 - shown]) / shades,
        shape=(cells * lanes, cells * (lanes + 1) * shades),
    )
    names = (f"{cell}.{sign}.{shade}" for cell in range(cells) for sign in range(lanes + 1) for shade in range(shades))
    return Observer(tuple(names), emission)
