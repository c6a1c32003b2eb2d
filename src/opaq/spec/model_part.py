"""The plant, from names and distributions or from arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray, floats, spread
from opaq.model.mdp import MDP
from opaq.spec.cursor import (
    at,
    check_keys,
    gather,
    is_int,
    item,
    mapping,
    scale_to_one,
    some,
    unique_names,
    wrong,
)
from opaq.spec.matrices import check_shape, dense
from opaq.spec.names import Known, Names, distribution, known, state_set
from opaq.spec.rewards import read_named_rewards, read_rewards, spread_rewards
from opaq.spec.transitions import (
    Choices,
    Entries,
    is_array_form,
    read_entries,
    read_entry_choices,
    read_transitions,
)

MAX_STATES = 5_000_000
MAX_ACTIONS = 1_000_000
KEYS = ("states", "actions", "start", "transitions", "rewards", "named_rewards", "labels")
_START = "say where the run starts: a state, or {state: probability}"
_TRANSITIONS = "say where every action leads: {state: {action: {next: probability}}}"
_NOT_IN_LABELS = re.compile(r'["&|!~()]')


def build_mdp(
    *,
    transitions: Any,
    start: Any,
    states: Any = None,
    actions: Any = None,
    rewards: Any = None,
    named_rewards: Any = None,
    labels: Any = None,
    faults: Faults | None = None,
    path: str = "model",
) -> MDP:
    """A Markov decision process from names and distributions, or from arrays.

    `transitions` is {state: {action: {next: probability}}} ("*" stands for every action not listed), an array
    [state, action, next], or {action: matrix [state, next]}, where rows of zeros are actions not enabled. With arrays
    `states` and `actions` may be left out and are numbered from 0. `named_rewards` are further rewards by name, each
    written as `rewards` are; requirements of the task refer to them.
    Raises InputError with every fault; given `faults`, adds to it instead and returns None when unusable.
    """
    stated = {"states": states, "actions": actions, "rewards": rewards, "labels": labels}
    stated["named_rewards"] = named_rewards
    spec = {"transitions": transitions, "start": start}
    spec |= {key: value for key, value in stated.items() if value is not None}
    return gather(lambda found: read_mdp(spec, path, found)[1], faults)


def read_mdp(value: Any, path: str, faults: Faults) -> tuple[Names, MDP | None]:
    """The names of a model, as far as they can be told, and the model unless it is unusable."""
    spec = mapping(value, path, faults)
    if spec is None:
        return Names.unread(), None
    by_array = is_array_form(spec.get("transitions"))
    listed = {} if by_array else {"states": "list the states", "actions": "list the actions"}
    check_keys(spec, path, faults, allowed=KEYS, required=listed | {"start": _START, "transitions": _TRANSITIONS})
    entries = read_entries(spec["transitions"], at(path, "transitions"), faults) if by_array else None
    state_names = _states(spec, path, faults, entries)
    action_names = _actions(spec, path, faults, entries)
    states, actions = known("state", state_names), known("action", action_names)
    labels = read_labels(spec.get("labels", {}), at(path, "labels"), faults, states)
    names = Names(states, actions, labels)
    if entries is not None:
        choices = _entry_choices(entries, at(path, "transitions"), faults, names)
    else:
        choices = _dict_choices(spec, path, faults, names, by_array=by_array)
    start = read_start(spec["start"], at(path, "start"), faults, names) if "start" in spec else None
    rewards = read_rewards(spec.get("rewards", {}), at(path, "rewards"), faults, states=states, actions=actions)
    further = read_named_rewards(
        spec.get("named_rewards", {}), at(path, "named_rewards"), faults, states=states, actions=actions
    )
    carriers = usable_labels(labels)
    if state_names is None or action_names is None or start is None or choices is None or carriers is None:
        return names, None
    mdp = assemble(
        state_names,
        action_names,
        start=start,
        choices=choices,
        rewards=spread_rewards(rewards, choices, faults, actions=actions),
        named_rewards={
            title: spread_rewards(amounts, choices, faults, actions=actions) for title, amounts in further.items()
        },
        labels=carriers,
    )
    warn_unreachable(mdp, at(path, "states"), faults)
    return names, mdp


def assemble(
    states: tuple[str, ...],
    actions: tuple[str, ...],
    *,
    start: FloatArray,
    choices: Choices,
    rewards: FloatArray,
    named_rewards: Mapping[str, FloatArray],
    labels: Mapping[str, IntArray],
) -> MDP:
    """Put the parts of a model together."""
    placed = (choices.choice_start, choices.choice_action, choices.transitions)
    return MDP(states, actions, start, *placed, rewards, dict(labels), dict(named_rewards))


def read_labels(value: Any, path: str, faults: Faults, states: Known) -> dict[str, IntArray | None] | None:
    """Labels as label -> states; None for one that is unusable."""
    table = mapping(value, path, faults)
    if table is None:
        return None
    unlabelled = Names(states, Known("action", None), {})
    found: dict[str, IntArray | None] = {}
    for label, listed in table.items():
        check_label(label, at(path, label), faults)
        found[label] = state_set(listed, at(path, label), faults, unlabelled)
    return found


def usable_labels(labels: Mapping[str, IntArray | None] | None) -> dict[str, IntArray] | None:
    """The labels when all of them could be read."""
    usable = {label: states for label, states in (labels or {}).items() if states is not None}
    return usable if labels is not None and len(usable) == len(labels) else None


def read_start(value: Any, path: str, faults: Faults, names: Names) -> FloatArray | None:
    """The start: a state, {state: probability}, a list of states (each as likely), or an array [state]."""
    if _is_vector(value):
        return _start_vector(value, path, faults, names.states)
    if isinstance(value, Mapping):
        shares = distribution(value, path, faults, names.states)
    elif isinstance(value, str | list | tuple | np.ndarray) or is_int(value):
        shares = _uniform(value, path, faults, names)
    else:
        wrong(value, path, faults, "a state, a list of states or a mapping {state: probability}")
        return None
    if shares is None:
        return None
    start = np.zeros(len(names.states))
    start[list(shares)] = list(shares.values())
    return floats(start)


def warn_unreachable(mdp: MDP, path: str, faults: Faults) -> None:
    """Warn of states that no action reaches from the start."""
    reached = mdp.start > 0
    frontier = np.flatnonzero(reached)
    while frontier.size:
        _, choices = spread(mdp.choice_start, frontier)
        _, entries = spread(mdp.transitions.starts, choices)
        followers = np.unique(mdp.transitions.columns[entries])
        frontier = followers[~reached[followers]]
        reached[frontier] = True
    missed = [mdp.states[state] for state in np.flatnonzero(~reached)]
    if missed:
        count = "1 state is" if len(missed) == 1 else f"{len(missed):,} states are"
        faults.warn(path, f"{count} never reached from the start: {some(missed)}")


def _states(spec: Mapping[str, Any], path: str, faults: Faults, entries: Entries | None) -> tuple[str, ...] | None:
    if "states" in spec:
        return unique_names(spec["states"], at(path, "states"), faults, kind="state", most=MAX_STATES)
    if entries is None:
        return None
    if entries.num_states > MAX_STATES:
        faults.error(at(path, "transitions"), f"has {entries.num_states:,} states, more than {MAX_STATES:,}")
        return None
    return tuple(str(state) for state in range(entries.num_states))


def _actions(spec: Mapping[str, Any], path: str, faults: Faults, entries: Entries | None) -> tuple[str, ...] | None:
    if "actions" in spec:
        return unique_names(spec["actions"], at(path, "actions"), faults, kind="action", most=MAX_ACTIONS)
    if entries is None:
        return None
    return entries.action_names or tuple(str(action) for action in range(entries.num_actions))


def _dict_choices(
    spec: Mapping[str, Any], path: str, faults: Faults, names: Names, *, by_array: bool
) -> Choices | None:
    if by_array or "transitions" not in spec:
        return None
    where = at(path, "transitions")
    return read_transitions(spec["transitions"], where, faults, states=names.states, actions=names.actions)


def _entry_choices(entries: Entries, path: str, faults: Faults, names: Names) -> Choices | None:
    """The choices of arrays whose sizes and action names agree with the names listed."""
    placed = _in_listed_order(entries, path, faults, names.actions)
    agrees = names.states.index is None or entries.num_states == len(names.states)
    if not agrees:
        faults.error(path, f"has {entries.num_states:,} states, but {len(names.states):,} are listed")
    return read_entry_choices(placed, path, faults, states=names.states) if placed is not None and agrees else None


def _in_listed_order(entries: Entries, path: str, faults: Faults, actions: Known) -> Entries | None:
    if actions.index is None:
        return entries
    if entries.action_names is None:
        if entries.num_actions == len(actions):
            return entries
        faults.error(path, f"has {entries.num_actions:,} actions, but {len(actions):,} are listed")
        return None
    places = [actions.find(action, at(path, action), faults) for action in entries.action_names]
    missing = [action for action in actions.index if action not in entries.action_names]
    for action in missing:
        faults.error(at(path, action), "is missing", "give its matrix [state, next]")
    if missing or None in places:
        return None
    moved = np.array(places, dtype=np.int64)[entries.actions]
    sizes = (entries.num_states, tuple(actions.index), len(actions))
    return Entries(entries.states, moved, entries.nexts, entries.values, *sizes)


def check_label(label: str, path: str, faults: Faults) -> None:
    """Note a label that guards could not mention."""
    if label in ("true", "false", "*"):
        faults.error(path, f"'{label}' cannot name a label", "it has a meaning of its own")
    elif _NOT_IN_LABELS.search(label):
        faults.error(path, f"'{label}' cannot name a label", 'labels stand in guards: leave out " & | ! ~ ( )')


def _is_vector(value: Any) -> bool:
    """Whether the start is an array of probabilities rather than a list of names."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu"
    return isinstance(value, list | tuple) and any(isinstance(entry, float) for entry in value)


def _start_vector(value: Any, path: str, faults: Faults, states: Known) -> FloatArray | None:
    vector = dense(value, path, faults, axes=("state",))
    if vector is None or states.index is None or not check_shape(vector.shape, (len(states),), path, faults):
        return None
    negative = np.flatnonzero((vector < 0) | (vector > 1))
    for state in negative.tolist():
        faults.error(item(path, state), f"is {vector[state]:.7g}, not a probability", "use a number from 0 to 1")
    scale = None if negative.size else scale_to_one(float(vector.sum()), path, faults)
    return None if scale is None else floats(vector * scale)


def _uniform(value: Any, path: str, faults: Faults, names: Names) -> dict[int, float] | None:
    states = state_set(value, path, faults, names)
    if states is None:
        return None
    if not states.size:
        faults.error(path, "is empty", _START)
        return None
    return {int(state): 1 / states.size for state in states}
