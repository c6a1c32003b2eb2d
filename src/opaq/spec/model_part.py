"""The plant, from names and distributions or from arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from opaq.choices import some
from opaq.errors import Faults
from opaq.model.arrays import FloatArray, IntArray, spread
from opaq.model.mdp import MAX_ACTIONS, MAX_STATES, MDP
from opaq.spec.cursor import Cursor, gather, given
from opaq.spec.grammar import Fields, Key, Plain, Record, Shape
from opaq.spec.names import Known, Names
from opaq.spec.rewards import NAMED_REWARDS, REWARDS, spread_rewards, written_rewards
from opaq.spec.sets import START, START_ADVICE, STATES, state_set
from opaq.spec.shapes import map_of, unique_names
from opaq.spec.transitions import TRANSITIONS, Choices, Entries, entry_choices, is_array_form, read_entries

_NOT_IN_LABELS = re.compile(r'["&|!~()]')


class Plant(NamedTuple):
    """The names of a model, as far as they can be told, and the model unless it is unusable."""

    names: Names
    mdp: MDP | None


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

    transitions: {state: {action: {next: probability}}} ("*" stands for every action not listed), an array
        [state, action, next], or {action: matrix [state, next]}, where rows of zeros are actions not enabled.
    start: a state, a list of states (each as likely), {state: probability}, or an array [state].
    states, actions: lists of names; with arrays they may be left out and are numbered from 0.
    rewards: {state: number}, {state: {action: number}} or an array [state] or [state, action]; none by default.
    named_rewards: further rewards by name, each written as `rewards` are; requirements of the task refer to them.
    labels: {label: states}; secrets, sensors, guards and formulas refer to labels.
    faults: collects every fault instead of raising InputError; the model is then None when it is unusable.
    path: what faults call the model.
    """
    spec = {"transitions": transitions, "start": start}
    spec |= given(states=states, actions=actions, rewards=rewards, named_rewards=named_rewards, labels=labels)
    return gather(lambda cursor: mdp_of(MODEL.read(cursor)), Names().at_start(spec, path), faults)


def mdp_of(plant: Plant | None) -> MDP | None:
    """The model, unless it is unusable."""
    return None if plant is None else plant.mdp


def check_label(cursor: Cursor, label: str) -> None:
    """Note a label that guards could not mention."""
    if label in ("true", "false", "*"):
        cursor.error(f"'{label}' cannot name a label", "it has a meaning of its own")
    elif _NOT_IN_LABELS.search(label):
        cursor.error(f"'{label}' cannot name a label", 'labels stand in guards: leave out " & | ! ~ ( )')


def read_labels(cursor: Cursor) -> dict[str, IntArray | None] | None:
    """Labels as label -> states; None for one that is unusable. Later labels may use those before them."""
    entries = cursor.entries()
    if entries is None:
        return None
    labels: dict[str, IntArray | None] = dict(cursor.names.labels or {}) if cursor.names.imported else {}
    known = dict(labels)
    for label, entry in entries.items():
        check_label(entry, label)
        labels[label] = state_set(entry.naming(labels=known))
        if cursor.names.imported:
            known[label] = labels[label]
    return labels


def usable_labels(labels: Mapping[str, IntArray | None] | None) -> dict[str, IntArray] | None:
    """The labels when all of them could be read."""
    usable = {label: states for label, states in (labels or {}).items() if states is not None}
    return usable if labels is not None and len(usable) == len(labels) else None


def warn_unreachable(cursor: Cursor, mdp: MDP) -> None:
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
        cursor.warn(f"{count} never reached from the start: {some(missed)}")


def known_names(fields: Fields, states: tuple[str, ...] | None, actions: tuple[str, ...] | None, **how: Any) -> Plain:
    """The names that the other parts of a model may use: its states and actions, and the labels, which are read."""
    listed = {"states": Known.of("state", states, **how), "actions": Known.of("action", actions)}
    known = {**listed, "labels": {}, "variables": {}}
    return known | ({"labels": fields.read("labels", **known)} if "labels" in fields else {})


def assemble(
    fields: Fields, known: Plain, *, choices: Choices | None, start: FloatArray | None, where: Cursor
) -> Plant:
    """The model of these choices and this start with the rewards, which are read here; `where` gets warnings."""
    names = fields.cursor.naming(**known).names
    rewards, further = fields.read("rewards", **known), fields.read("named_rewards", **known)
    labels, states, actions = usable_labels(names.labels), names.states, names.actions
    if choices is None or start is None or labels is None or states.index is None or actions.index is None:
        return Plant(names, None)
    own = spread_rewards(rewards, choices, actions)
    earned = {name: spread_rewards(amounts, choices, actions) for name, amounts in (further or {}).items()}
    placed = (choices.choice_start, choices.choice_action, choices.transitions)
    mdp = MDP(states.listed, actions.listed, start, *placed, own, labels, earned)
    warn_unreachable(where, mdp)
    unread = further is None and "named_rewards" in fields
    return Plant(replace(names, rewards=None if unread else earned), mdp)


def _make(fields: Fields) -> Plant:
    by_array = is_array_form(fields.at("transitions").value)
    if not by_array:
        fields.require("states", "list the states")
        fields.require("actions", "list the actions")
    entries = read_entries(fields.at("transitions")) if by_array else None
    known = known_names(fields, *(_listed(fields, key, entries) for key in ("states", "actions")))
    choices = None
    if entries is not None:
        choices = entry_choices(fields.at("transitions").naming(**known), entries)
    elif not by_array:
        choices = fields.read("transitions", **known)
    start = fields.read("start", **known)
    return assemble(fields, known, choices=choices, start=start, where=fields.at("states"))


def _listed(fields: Fields, key: str, entries: Entries | None) -> tuple[str, ...] | None:
    """The names under a key, else those of the arrays, numbered from 0."""
    if key in fields or entries is None:
        names: tuple[str, ...] | None = fields.read(key)
        return names
    if key == "actions" and entries.action_names is not None:
        return entries.action_names
    count = entries.num_states if key == "states" else entries.num_actions
    if count > MAX_STATES:
        return fields.at("transitions").error(f"has {count:,} {key}, more than {MAX_STATES:,}")
    return tuple(str(index) for index in range(count))


def _parts(mdp: MDP, names: Names) -> Plain:
    return {
        "states": mdp.states,
        "actions": mdp.actions,
        "start": mdp.start,
        "transitions": Choices.of(mdp),
        "rewards": written_rewards(mdp, mdp.rewards),
        "named_rewards": {name: written_rewards(mdp, amounts) for name, amounts in mdp.named_rewards.items()},
        "labels": dict(mdp.labels),
    }


_LABELS: Shape[Any] = map_of(STATES, "label -> states", ref="labels")
LABELS: Shape[Any] = replace(_LABELS, read=read_labels)
_LEADS = "say where every action leads: {state: {action: {next: probability}}}"
MODEL: Record[Any] = Record(
    "model",
    "A Markov decision process, state by state.",
    (
        Key("states", unique_names("state", MAX_STATES), "The states; may be left out with arrays."),
        Key("actions", unique_names("action", MAX_ACTIONS), "The actions; may be left out with arrays."),
        Key("start", START, "Where the run starts.", required=START_ADVICE),
        Key("transitions", TRANSITIONS, "Where every action leads.", required=_LEADS),
        Key("rewards", REWARDS, "What is earned at every time 0 .. horizon."),
        Key("named_rewards", NAMED_REWARDS, "Further rewards, to which requirements of the task refer."),
        Key("labels", LABELS, "Secrets, sensors, guards and formulas refer to labels."),
    ),
    _make,
    _parts,
    example="""\
model:
  states: [q0, q1, q2]
  actions: [a, b]
  start: q0
  transitions:
    q0: {a: q0, b: {q1: 0.5, q2: 0.5}}
    q1: {"*": q1}
    q2: {"*": q2}
  rewards: {q1: 1, q2: 1}
  labels: {secret: [q1], goal: [q1, q2]}""",
)
