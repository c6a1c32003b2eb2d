"""From the statements of a .pomdp file to a model and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opaq.formats.naming import unused
from opaq.formats.pomdp.pomdp_tables import Filled, Rewards, Table
from opaq.formats.pomdp.pomdp_walk import MAX_ENTRIES, MOST_FAULTS, StopError, Walk
from opaq.model.arrays import FloatArray, SparseRows, floats, ints
from opaq.model.distributions import NormalisedRows, normalise_rows
from opaq.model.imported import Imported
from opaq.model.mdp import MDP
from opaq.model.observer import Observer


@dataclass(slots=True)
class Statements:
    """What the statements of a file say."""

    discount: float | None = None
    costs: bool = False
    start: FloatArray | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    rewards: Rewards | None = None


def assembled(read: Statements, walk: Walk) -> Imported | None:
    """Everything together, once all statements are read; None when there are faults, which are noted."""
    for head in ("states", "actions"):
        if head not in walk.names:
            walk.faults.error("", f"the file declares no {head}", f"add a line '{head}: ...'")
    if walk.faults.errors:
        return None
    states, actions = walk.known("states"), walk.known("actions")
    walk.check_size(len(states), len(actions))
    transitions = _stochastic(read, "T", len(states), walk)
    observations = walk.known("observations") if "observations" in walk.names else ()
    emission = _stochastic(read, "O", len(observations), walk) if observations else None
    if walk.faults.errors or transitions is None:
        return None
    rewards = _expected(read, transitions, emission, walk)
    row = np.arange(len(actions) * len(states))
    start = np.full(len(states), 1 / len(states)) if read.start is None else read.start
    mdp = MDP(
        states=states,
        actions=actions,
        start=floats(start),
        choice_start=ints(np.arange(len(states) + 1) * len(actions)),
        choice_action=ints(np.tile(np.arange(len(actions)), len(states))),
        transitions=_reordered(transitions, row % len(states) * len(actions) + row // len(states)),
        rewards=floats(rewards.reshape(len(actions), len(states)).T.reshape(-1)),
        labels={},
    )
    observer = None if emission is None else _observer(emission, len(states), observations)
    return Imported(mdp, observer, warnings=tuple(walk.faults.warnings), discount=read.discount)


def _stochastic(read: Statements, head: str, width: int, walk: Walk) -> SparseRows | None:
    """The rows of a table, each summing to 1; else the faults are noted."""
    actions, states = len(walk.known("actions")), len(walk.known("states"))
    filled = (read.tables.get(head) or Table(actions, states, width)).filled()
    done = normalise_rows(filled.rows, filled.values, actions * states)
    if done.off.size:
        _note_sums(head, filled, done, walk)
        return None
    if done.scaled.size:
        at = int(filled.touched[np.abs(done.sums - 1).argmax()])
        count = f"{done.scaled.size:,} of {actions * states:,}"
        found = f"rows of {head} miss the sum 1 ({count}), by at most {done.worst_gap():.2g}"
        walk.faults.warn(walk.where(at), found, "they were scaled to sum to 1")
    return SparseRows.from_entries(filled.rows, filled.columns, done.values, shape=(actions * states, width))


def _note_sums(head: str, filled: Filled, done: NormalisedRows, walk: Walk) -> None:
    states, actions, faults = walk.known("states"), walk.known("actions"), walk.faults
    for row in done.off[:MOST_FAULTS].tolist():
        action, state = divmod(row, len(states))
        name, line = f"{head}: {actions[action]} : {states[state]}", int(filled.touched[row])
        if line < 0:
            faults.error("", f"{name} has no probabilities", f"add a '{head}:' statement for it")
        else:
            found = f"{name}: probabilities sum to {done.sums[row]:.7g}, not 1"
            faults.error(walk.where(line), found, "make them sum to 1")
    if done.off.size > MOST_FAULTS:
        faults.error("", f"and {done.off.size - MOST_FAULTS:,} more rows of {head} that do not sum to 1")


def _expected(read: Statements, transitions: SparseRows, emission: SparseRows | None, walk: Walk) -> FloatArray:
    if read.rewards is None:
        return np.zeros(transitions.num_rows)
    if read.rewards.cases(transitions, emission) > MAX_ENTRIES:
        found = f"rewards depend on more than {MAX_ENTRIES:,} cases of next state and observation"
        walk.faults.error("", found, "give them by action and state")
        raise StopError
    value = read.rewards.expected(transitions, emission)
    return -value if read.costs else value


def _reordered(matrix: SparseRows, new_row: np.ndarray) -> SparseRows:
    """The same rows in another order: row i goes to new_row[i]."""
    rows = new_row[matrix.row_of_entry()]
    return SparseRows.from_entries(rows, matrix.columns, matrix.values, shape=(matrix.num_rows, matrix.num_columns))


def _observer(emission: SparseRows, num_states: int, observations: tuple[str, ...]) -> Observer:
    """What is seen in a state, or, when that depends on the action that led there, a blank at time 0."""
    width, row = len(observations), emission.row_of_entry()
    first = row < num_states
    if _same_for_all_actions(emission, num_states):
        shape = (num_states, width)
        seen = SparseRows.from_entries(row[first], emission.columns[first], emission.values[first], shape=shape)
        return Observer(observations, seen)
    at_start = SparseRows.from_entries(
        np.arange(num_states), np.full(num_states, width), np.ones(num_states), shape=(num_states, width + 1)
    )
    shape = (emission.num_rows, width + 1)
    after = SparseRows.from_entries(row, emission.columns, emission.values, shape=shape)
    return Observer((*observations, unused("start", observations)), at_start, after_action=after)


def _same_for_all_actions(emission: SparseRows, num_states: int) -> bool:
    counts = np.diff(emission.starts).reshape(-1, num_states)
    if (counts != counts[0]).any():
        return False
    size = int(counts[0].sum())
    columns, values = emission.columns.reshape(-1, size), emission.values.reshape(-1, size)
    return bool((columns == columns[0]).all() and (values == values[0]).all())
