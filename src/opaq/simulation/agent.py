"""Running a policy: what to do now, given the states seen so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opaq.errors import Fault, InputError
from opaq.model.arrays import IntArray
from opaq.model.mdp import positions
from opaq.model.policy import Policy, PolicyClass, RowKey
from opaq.model.problem import Problem
from opaq.model.secret import Language
from opaq.product.compile import compile_problem
from opaq.product.free import unfold
from opaq.product.machine import Branches, Carried, Clock, Idle, Machine, Recent, Snapshot
from opaq.product.tracker import read


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a run stands: the state, and the node of every machine the policy looks at."""

    state: int
    nodes: tuple[int, ...]
    action: int | None = None  # taken here; None while it is still to be chosen


@dataclass(frozen=True, slots=True)
class Rules:
    """How situations follow from one another and what the policy does in them; nothing here changes."""

    problem: Problem
    conditions: tuple[str, ...]
    machines: tuple[Machine, ...]  # one a condition
    rows: Mapping[RowKey, Mapping[str, float]]
    state_index: Mapping[str, int]
    action_index: Mapping[str, int]
    nodes_an_action: int = 1  # above 1 where the policy chooses its next memory node with the action

    @classmethod
    def of(cls, problem: Problem, policy: Policy) -> Rules:
        """The rules of a policy; raises InputError when it lacks a row for a case that can occur."""
        product = compile_problem(problem, policy.policy_class)
        complete = product.policy(product.policy_vector(policy)).rows
        conditions = policy.policy_class.conditions_on
        unfolded, policy_class = unfold(problem, policy.policy_class)
        machines = tuple(_machine(condition, unfolded, policy_class) for condition in conditions)
        mdp = unfolded.mdp
        rows = {**policy.rows, **complete}
        nodes = len(mdp.actions) // len(problem.mdp.actions)
        return cls(problem, conditions, machines, rows, positions(mdp.states), positions(mdp.actions), nodes)

    def played(self, situation: Situation) -> int:
        """The model's action that was chosen; where the policy also chooses its next memory node, without the node."""
        if situation.action is None:
            raise ValueError("no action has been chosen")
        return situation.action // self.nodes_an_action

    def begin(self, state: str, rng: np.random.Generator) -> Situation:
        """A run starts."""
        place = self._place(state)
        start = np.array([place])
        return Situation(place, tuple(_drawn(machine.begin(start), rng) for machine in self.machines))

    def choose(self, situation: Situation, rng: np.random.Generator, *, likeliest: bool = False) -> Situation:
        """The same situation with an action taken: drawn, or the likeliest."""
        row = self.probabilities(situation)
        chances = np.fromiter(row.values(), dtype=np.float64)
        name = list(row)[int(chances.argmax()) if likeliest else _draw(chances, rng)]
        return Situation(situation.state, situation.nodes, self.action_index[name])

    def move(self, situation: Situation, state: str, rng: np.random.Generator) -> Situation:
        """The run goes on to a state; every machine takes its step."""
        if situation.action is None:
            raise ValueError("choose an action before moving on")
        place = self._place(state)
        source, action, target = (np.array([value]) for value in (situation.state, situation.action, place))
        nodes = tuple(
            _drawn(machine.step(np.array([node]), source, action, target), rng)
            for machine, node in zip(self.machines, situation.nodes, strict=True)
        )
        return Situation(place, nodes)

    def probabilities(self, situation: Situation) -> Mapping[str, float]:
        """The policy's row for a situation."""
        key = tuple(
            self._word(condition, machine, node, situation.state)
            for condition, machine, node in zip(self.conditions, self.machines, situation.nodes, strict=True)
        )
        row = self.rows.get(key)
        if not row:
            told = ", ".join(f"{name}={word}" for name, word in zip(self.conditions, key, strict=True))
            raise InputError([Fault(f"policy row {told}", "the policy has no row for this case", "add the row")])
        return row

    def _place(self, state: str) -> int:
        if state not in self.state_index:
            raise InputError([Fault("", f"unknown state '{state}'", "use the names of the problem's states")])
        return self.state_index[state]

    def _word(self, condition: str, machine: Machine, node: int, state: int) -> str | int | tuple[str, ...]:
        """What a policy row calls the node of a machine."""
        states = self.problem.mdp.states
        if condition == "time":
            return node
        if isinstance(machine, Recent):
            return tuple(states[place] for place in machine.states(node))
        if isinstance(machine, Carried):
            return machine.memory.nodes[node]
        if condition == "automaton" and isinstance(self.problem.secret, Language):
            return self.problem.secret.automaton.states[node]
        return states[node] if condition == "start" else states[state]


class Agent:
    """Follows a policy through one run after the other: `start`, then `act` in every state, the first included."""

    def __init__(self, problem: Problem, policy: Policy) -> None:
        self.rules = Rules.of(problem, policy)
        self._now: Situation | None = None

    def start(self, state: str, rng: np.random.Generator | None = None) -> None:
        """Begin a run in a state; `rng` draws the first memory node, where that is random."""
        self._now = self.rules.begin(state, rng or np.random.default_rng())

    def act(self, state: str, rng: np.random.Generator | None = None) -> str:
        """The action to take now that the run is in `state`; draws it, and memory updates, from `rng`."""
        rng = rng or np.random.default_rng()
        if self._now is None:
            self.start(state, rng)
        assert self._now is not None
        if self._now.action is not None:
            self._now = self.rules.move(self._now, state, rng)
        elif self.rules.state_index.get(state) != self._now.state:
            began = self.rules.problem.mdp.states[self._now.state]
            raise InputError([Fault("", f"the run began in '{began}', but the first action is asked for in '{state}'")])
        self._now = self.rules.choose(self._now, rng)
        return self.rules.problem.mdp.actions[self.rules.played(self._now)]


def numbered_state(observation: Any) -> str:
    """The state named by a whole number, as models read from Gymnasium name them."""
    return str(int(observation))


@dataclass(frozen=True, slots=True)
class GymAdapter:
    """A policy with the `predict` of Stable-Baselines; what it remembers travels in `state`."""

    rules: Rules
    rng: np.random.Generator
    state_name: Callable[[Any], str] = numbered_state

    @classmethod
    def of(
        cls,
        problem: Problem,
        policy: Policy,
        *,
        rng: np.random.Generator | None = None,
        state_name: Callable[[Any], str] = numbered_state,
    ) -> GymAdapter:
        """For a problem and a policy; `state_name` turns the environment's observation into a state's name."""
        return cls(Rules.of(problem, policy), rng or np.random.default_rng(), state_name)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, tuple[Situation, ...]]:
        """(action index, state to pass to the next call); arrays of observations give arrays of actions."""
        seen = np.asarray(observation)
        single = seen.ndim == 0
        observations = [observation] if single else list(observation)
        fresh = np.zeros(len(observations), dtype=bool) if episode_start is None else np.atleast_1d(episode_start)
        before = state if state is not None else (None,) * len(observations)
        after = tuple(
            self._next(self.state_name(one), None if begins else last, likeliest=deterministic)
            for one, last, begins in zip(observations, before, fresh, strict=True)
        )
        actions = np.array([self.rules.played(situation) for situation in after], dtype=np.int64)
        return (int(actions[0]) if single else actions), after

    def _next(self, state: str, last: Situation | None, *, likeliest: bool) -> Situation:
        now = self.rules.begin(state, self.rng) if last is None else self.rules.move(last, state, self.rng)
        return self.rules.choose(now, self.rng, likeliest=likeliest)


def _machine(condition: str, problem: Problem, policy_class: PolicyClass) -> Machine:
    """The machine that follows what a condition looks at."""
    mdp, memory = problem.mdp, policy_class.memory
    if condition == "time":
        return Clock(problem.horizon)
    if condition == "start":
        return Snapshot(0, np.arange(mdp.num_states))
    if condition == "last_states":
        return Recent(policy_class.last_states, mdp.num_states)
    if condition == "memory" and memory is not None:
        return Carried(memory)
    if condition == "automaton" and isinstance(problem.secret, Language):
        return read(problem.secret.automaton, mdp)
    return Idle()


def _drawn(branches: Branches, rng: np.random.Generator) -> int:
    """One of the branches of a single case."""
    nodes: IntArray = branches.node
    return int(nodes[0] if nodes.size == 1 else nodes[_draw(branches.probability, rng)])


def _draw(chances: Any, rng: np.random.Generator) -> int:
    sums = np.cumsum(chances)
    return int(min(np.searchsorted(sums, rng.random() * sums[-1], side="right"), np.flatnonzero(chances)[-1]))
