"""The plant: a Markov decision process with named states and actions, and what a foreign model file adds to it.

A *choice* is one action enabled in one state. Choices are numbered state by state and, within a state, in the order of
the actions; every table of the plant has one row per choice, so that actions that are not enabled take no room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opaq.errors import Fault, describe_value
from opaq.model.arrays import (
    BoolArray,
    ContentEq,
    FloatArray,
    IntArray,
    SparseRows,
    find_improbable,
    normalise,
    probability_fault,
    sum_fault,
)
from opaq.model.checks import MAX_REWARD, Checked, Checks, ReadOnlyDict, read_only
from opaq.model.observer import Observer

MAX_STATES = 5_000_000
MAX_ACTIONS = 1_000_000
_CELL = re.compile(r"\((\d{1,6}),(\d{1,6})\)")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MDP(Checked):
    """A Markov decision process: s_0 ~ start, s_{t+1} ~ P(s' | s_t, a_t), rewards R(s_t, a_t), labels of states.

    states, actions: distinct names.
    start: [state], sums to 1.
    choice_start, choice_action: which actions each state enables, at least one.
    transitions: [choice, state], rows sum to 1; sums that miss 1 by rounding are scaled.
    rewards: [choice], of the return; named_rewards: further ones, for requirements.
    labels: what formulas and automata read of a state.
    positions: where pictures put each state, x to the right and y up; they decide nothing else.

    InputError lists every fault when one is made; arrays and mappings are read-only.
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    start: FloatArray  # [state]
    choice_start: IntArray  # [state + 1]: the choices of state s are choice_start[s] .. choice_start[s + 1] - 1
    choice_action: IntArray  # [choice]
    transitions: SparseRows  # [choice, state]
    rewards: FloatArray  # [choice]
    labels: Mapping[str, IntArray]  # label -> the states that carry it, ascending
    named_rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # further rewards -> [choice]
    positions: FloatArray | None = None  # [state, 2]: x to the right, y up

    def __post_init__(self) -> None:
        checks = Checks(self, "model")
        _check_plant(self, checks)
        checks.finish()
        _check_earnings(self, checks)
        checks.finish()

    def __repr__(self) -> str:
        return f"<MDP: {self.num_states} states, {len(self.actions)} actions, {self.num_choices} choices>"

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def num_choices(self) -> int:
        """Number of (state, enabled action) pairs."""
        return int(self.choice_action.size)

    def choice_state(self) -> IntArray:
        """Return [choice] -> state."""
        return np.arange(self.num_states).repeat(self.choice_start[1:] - self.choice_start[:-1])

    def state_index(self) -> dict[str, int]:
        """Return state name -> position."""
        return positions(self.states)

    def action_index(self) -> dict[str, int]:
        """Return action name -> position."""
        return positions(self.actions)

    def mask(self, states: IntArray) -> BoolArray:
        """Return [state]: True for the given states."""
        chosen = np.zeros(self.num_states, dtype=bool)
        chosen[states] = True
        return chosen

    def cells(self) -> IntArray | None:
        """Return the (column, row) of every state, [state, 2], where all are called "(column,row)", else None."""
        matches = [_CELL.fullmatch(state) for state in self.states]
        cells = [(int(match[1]), int(match[2])) for match in matches if match is not None]
        return np.array(cells, dtype=np.int64) if len(cells) == len(matches) else None

    def labels_of(self) -> tuple[frozenset[str], ...]:
        """Return per state the labels it carries."""
        by_state: list[set[str]] = [set() for _ in self.states]
        for label, states in self.labels.items():
            for state in states:
                by_state[state].add(label)
        return tuple(frozenset(labels) for labels in by_state)


def positions(names: tuple[str, ...]) -> dict[str, int]:
    """Return name -> position."""
    return {name: position for position, name in enumerate(names)}


def _check_plant(mdp: MDP, checks: Checks) -> None:
    """Check names, start, choices and transitions."""
    states = checks.names("states", kind="state", most=MAX_STATES)
    actions = checks.names("actions", kind="action", most=MAX_ACTIONS)
    if states is None or actions is None:
        return
    _check_start(checks, len(states))
    owner = _check_choices(mdp, checks)
    if owner is not None:

        def spell(choice: int) -> str:
            return f".{states[owner[choice]]}.{actions[mdp.choice_action[choice]]}"

        checks.distributions("transitions", num_rows=owner.size, num_columns=len(states), column="state", spell=spell)


def _check_start(checks: Checks, num_states: int) -> None:
    """Check that the start is a distribution over states, and scale it where it misses 1 by rounding."""
    start = checks.floats("start", (num_states,))
    if start is None:
        return
    done, outside = normalise(start), find_improbable(start)
    for state in outside[:1].tolist():
        checks.error(f"start[{state}]", *probability_fault(start[state]))
    if done.off.size and not outside.size:
        checks.error("start", *sum_fault(done.sums[0]))
    checks.put("start", read_only(done.values))


def _check_choices(mdp: MDP, checks: Checks) -> IntArray | None:
    """Return [choice] -> state if every state enables some actions, each once; None otherwise.

    Notes bounds that do not ascend, states that enable nothing, and actions enabled twice.
    """
    bounds = checks.ints("choice_start", (mdp.num_states + 1,), most=2**62, what="choice")
    if bounds is None:
        return None
    counts = bounds[1:] - bounds[:-1]
    if bounds[0] != 0 or counts.min() < 0:
        return checks.error("choice_start", "does not ascend from 0")
    if counts.min() == 0:
        state = mdp.states[int(np.argmin(counts))]
        return checks.error("choice_start", f"no action is enabled in state '{state}'", "enable at least one")
    chosen = checks.ints("choice_action", (int(bounds[-1]),), most=len(mdp.actions), what="action")
    if chosen is None:
        return None
    owner = np.arange(mdp.num_states).repeat(counts)
    pairs = owner * len(mdp.actions) + chosen
    if (pairs[1:] <= pairs[:-1]).any() and np.unique(pairs).size < pairs.size:
        return checks.error("choice_action", "enables an action twice in one state", "keep one of them")
    return owner


def _check_earnings(mdp: MDP, checks: Checks) -> None:
    """Check rewards, labels and positions."""
    _check_amounts(mdp, "rewards", checks.floats("rewards", (mdp.num_choices,)), checks)
    if mdp.positions is not None:
        checks.floats("positions", (mdp.num_states, 2))
    labels = _check_mapping(mdp.labels, "labels", checks)
    for name, states in labels.items():
        labels[name] = checks.ints(f"labels.{name}", None, most=mdp.num_states, what="state", value=states)
        if labels[name] is not None and (labels[name][1:] <= labels[name][:-1]).any():
            checks.error(f"labels.{name}", "is not a list of states that ascend", "use np.unique")
    earned = _check_mapping(mdp.named_rewards, "named_rewards", checks)
    for name, amounts in earned.items():
        earned[name] = checks.floats(f"named_rewards.{name}", (mdp.num_choices,), amounts)
        _check_amounts(mdp, f"named_rewards.{name}", earned[name], checks)
    checks.put("labels", ReadOnlyDict(labels))
    checks.put("named_rewards", ReadOnlyDict(earned))


def _check_mapping(value: object, path: str, checks: Checks) -> dict[str, Any]:
    """Return the entries of a mapping from names; {} with a fault where it is none."""
    if not isinstance(value, Mapping):
        checks.error(path, f"is {describe_value(value)}, not a mapping")
        return {}
    for name in value:
        if not isinstance(name, str) or not name:
            checks.error(path, f"the key {describe_value(name)} is not a name")
    return dict(value)


def _check_amounts(mdp: MDP, path: str, amounts: FloatArray | None, checks: Checks) -> None:
    """Note rewards so large that their sums could overflow."""
    if amounts is None or (np.abs(amounts) <= MAX_REWARD).all():
        return
    beyond = np.flatnonzero(np.abs(amounts) > MAX_REWARD)
    state = mdp.states[mdp.choice_state()[beyond[0]]]
    more = f" ({beyond.size:,} such rewards)" if beyond.size > 1 else ""
    finding = f"the reward of state '{state}' is {amounts[beyond[0]]:g}, beyond {MAX_REWARD:g}{more}"
    checks.error(path, finding, "scale all rewards and thresholds down")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Imported(ContentEq):
    """A model read from another tool's file; a problem file adds what the format lacks.

    Every field but `mdp` is something that a problem file may use or replace: the file's observations, its state
    variables (for observers and sets of states), its rewards by name and its discount.
    """

    mdp: MDP
    observer: Observer | None = None  # the file's own observations, if it has any
    variables: Mapping[str, Any] = field(default_factory=dict)  # state variable -> its value in every state (array)
    rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # every named reward -> [choice]
    warnings: tuple[Fault, ...] = ()
    discount: float | None = None  # the file's own discount, if it has one
