"""Models in forms that other tools can hold: the chain of a policy, and states that show one observation each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.formats.naming import distinct
from opaq.model.arrays import FloatArray, IntArray, SparseRows, floats, ints, spread
from opaq.model.mdp import MDP
from opaq.model.observer import Observer


def induced_chain(mdp: MDP, policy: Any) -> MDP:
    """The Markov chain of a policy that gives every choice its probability, as an MDP of one choice a state."""
    policy = np.asarray(policy, dtype=np.float64)
    rows = mdp.transitions
    state_of = mdp.choice_state()
    choice_of = rows.row_of_entry()
    weights = rows.values * policy[choice_of]
    shape = (mdp.num_states, mdp.num_states)
    return replace(
        mdp,
        actions=("step",),
        choice_start=ints(np.arange(mdp.num_states + 1)),
        choice_action=ints(np.zeros(mdp.num_states)),
        transitions=SparseRows.from_entries(state_of[choice_of], rows.columns, weights, shape=shape),
        rewards=floats(expected_rewards(mdp, policy, mdp.rewards)),
        named_rewards={},
    )


def expected_rewards(mdp: MDP, policy: Any, values: Any) -> FloatArray:
    """What a policy earns in every state, from what its choices earn."""
    weighted = np.bincount(mdp.choice_state(), weights=np.multiply(policy, values), minlength=mdp.num_states)
    return weighted.astype(np.float64)


def unfolded(mdp: MDP, observer: Observer) -> tuple[MDP, Observer]:
    """The same model for tools that know neither noisy sensors nor a start distribution.

    A state becomes one state for each observation it may show, and a first step from the new state "start", which
    is seen as "start" and rewards nothing, draws where to begin: all times move by one.
    """
    refuse_watching_actions(observer)
    pairs = observer.emission
    base, seen = pairs.row_of_entry(), pairs.columns
    places = zip(base, seen, strict=True)
    states = distinct([f"{mdp.states[state]}~{observer.observations[sign]}" for state, sign in places])
    counts = np.diff(mdp.choice_start)[base]
    _, choices = spread(mdp.choice_start, base)
    rows = _with_observations(mdp.transitions, pairs, choices)
    first = _with_observations(SparseRows.from_dense(mdp.start[None, :]), pairs, np.zeros(1, dtype=np.int64))
    start_name = distinct([*states, "start"])[-1]
    shown = distinct([*observer.observations, "start"])[-1]
    size = base.size
    grown = MDP(
        states=(*states, start_name),
        actions=distinct([*mdp.actions, "start"]),
        start=floats(np.eye(1, size + 1, size)[0]),
        choice_start=ints(np.concatenate(([0], np.cumsum([*counts, 1])))),
        choice_action=ints([*mdp.choice_action[choices], len(mdp.actions)]),
        transitions=_stacked(rows, first, size + 1),
        rewards=floats([*mdp.rewards[choices], 0.0]),
        labels={label: ints(np.flatnonzero(mdp.mask(marked)[base])) for label, marked in mdp.labels.items()},
    )
    signs = ints([*seen, len(observer.observations)])
    emission = SparseRows(ints(np.arange(size + 2)), signs, floats(np.ones(size + 1)), len(observer.observations) + 1)
    return grown, Observer(observations=(*observer.observations, shown), emission=emission)


def refuse_watching_actions(observer: Observer, source: str = "") -> None:
    """What depends on more than the state would be lost in silence."""
    if observer.action_emission is not None or observer.after_action is not None:
        found = "what is seen depends on actions, and UMB knows observations of states only"
        raise InputError([Fault("observer", found, "write the model without its observer")], source)


def _with_observations(rows: SparseRows, pairs: SparseRows, chosen: IntArray) -> SparseRows:
    """The chosen rows over states, spread over the observations each state may show."""
    owner, entry = spread(rows.starts, chosen)
    target = rows.columns[entry]
    which, pair = spread(pairs.starts, target)
    values = rows.values[entry][which] * pairs.values[pair]
    return SparseRows.from_entries(owner[which], pair, values, shape=(chosen.size, pairs.columns.size))


def _stacked(upper: SparseRows, lower: SparseRows, num_columns: int) -> SparseRows:
    return SparseRows(
        ints(np.concatenate((upper.starts, upper.starts[-1] + lower.starts[1:]))),
        ints(np.concatenate((upper.columns, lower.columns))),
        floats(np.concatenate((upper.values, lower.values))),
        num_columns,
    )
