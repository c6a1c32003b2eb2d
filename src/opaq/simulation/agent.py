"""Acting by a policy: which action to take now, given the states (and observations) so far.

The same trackers that compile a policy class into a product follow a single run here, so that a policy acts exactly as
it was measured. `PolicyExecutor` has no state of its own: it maps one `AgentState` to the next. `Agent` keeps one for a
run; `GymAdapter` hands it to the caller, as Stable-Baselines does.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex, overload

import numpy as np

from opaq.errors import Fault, InputError, check_types, suggestion
from opaq.model.arrays import IntArray
from opaq.model.mdp import positions
from opaq.model.policy import Policy, PolicyClass, RowKey, row_name
from opaq.model.problem import Problem
from opaq.opacity.policies import as_policy
from opaq.product.compile import compile_problem
from opaq.product.machine import Branches, Machine
from opaq.product.trackers import ConditionTracker, TrackerContext, condition_machine, free_memory_of, track_condition
from opaq.simulation.sampling import draw_index


@dataclass(frozen=True, slots=True)
class AgentState:
    """Where a run stands: the model's state, and the node of every machine the policy looks at."""

    state: int
    nodes: tuple[int, ...]
    action: int | None = None  # chosen here (an action, or an action and a node); None while it is still to be chosen


@dataclass(frozen=True, slots=True)
class PolicyExecutor:
    """The rules of a policy: how agent states follow from one another, and which row holds in each; immutable."""

    problem: Problem
    policy_class: PolicyClass
    conditions: tuple[ConditionTracker, ...]
    machines: tuple[Machine, ...]  # one per condition
    rows: Mapping[RowKey, Mapping[str, float]]
    state_index: Mapping[str, int]
    choice_index: Mapping[str, int]  # of what rows choose from: actions, or "action>node" with a free memory
    observation_index: Mapping[str, int]

    @classmethod
    def of(cls, problem: Problem, policy: Policy | str | os.PathLike[str]) -> PolicyExecutor:
        """Build the rules of a policy for a problem; InputError when it lacks a row for a case that can occur."""
        check_types({"problem": (problem, Problem, "an opaq.Problem")})
        policy = as_policy(policy, problem)
        product = compile_problem(problem, policy.policy_class)
        complete = product.policy(product.policy_vector(policy)).rows
        setting = TrackerContext.of(problem, policy.policy_class)
        conditions = tuple(track_condition(one, setting) for one in policy.policy_class.conditions)
        memory = free_memory_of(conditions)
        return cls(
            problem=problem,
            policy_class=policy.policy_class,
            conditions=conditions,
            machines=tuple(condition_machine(one, memory) for one in conditions),
            rows={**policy.rows, **complete},
            state_index=problem.mdp.state_index(),
            choice_index=positions(product.actions),
            observation_index=positions(product.observations),
        )

    @property
    def reads_observations(self) -> bool:
        """True if the policy looks at what the observer sees, which then has to be given at every time."""
        return any(one.window is not None for one in self.conditions)

    def model_action(self, current: AgentState) -> int:
        """Return the model's action that was chosen, without the memory node that a free memory chooses with it.

        Raises ValueError when none has been chosen.
        """
        if current.action is None:
            raise ValueError("no action has been chosen")
        return current.action // (len(self.choice_index) // len(self.problem.mdp.actions))

    def begin(self, state: str, rng: np.random.Generator) -> AgentState:
        """Return the agent state of a run that starts in a state; no observation has been received yet.

        rng: draws the first memory node where that is random. Raises InputError for an unknown state.
        """
        index = self._index(state)
        start = np.array([index])
        nodes = tuple(
            _draw_branch(machine.begin(start), rng) if one.window is None else 0
            for one, machine in zip(self.conditions, self.machines, strict=True)
        )
        return AgentState(index, nodes)

    def observe(self, current: AgentState, observation: str | None) -> AgentState:
        """Return the agent state with the present observation received; policies that do not look at it ignore it.

        Raises InputError when an observation is needed and none, or an unknown one, is given.
        """
        if not self.reads_observations:
            return current
        received = np.array([self._observation(observation, current)])
        nodes = tuple(
            node if one.window is None else int(one.window.append(np.array([node]), received)[0])
            for one, node in zip(self.conditions, current.nodes, strict=True)
        )
        return AgentState(current.state, nodes, current.action)

    def choose(self, current: AgentState, rng: np.random.Generator, *, likeliest: bool = False) -> AgentState:
        """Return the agent state with an action chosen: drawn from its row, or the likeliest."""
        row = self.probabilities(current)
        chances = np.fromiter(row.values(), dtype=np.float64)
        name = list(row)[int(chances.argmax()) if likeliest else draw_index(chances, rng)]
        return AgentState(current.state, current.nodes, self.choice_index[name])

    def move(self, current: AgentState, state: str, rng: np.random.Generator) -> AgentState:
        """Return the agent state after the run went on to a state: every machine takes its step.

        Observations wait for `observe`. Raises ValueError when no action has been chosen.
        """
        if current.action is None:
            raise ValueError("choose an action before moving on")
        index = self._index(state)
        source, action, target = (np.array([value]) for value in (current.state, current.action, index))
        nodes = tuple(
            _draw_branch(machine.step(np.array([node]), source, action, target), rng) if one.window is None else node
            for one, machine, node in zip(self.conditions, self.machines, current.nodes, strict=True)
        )
        return AgentState(index, nodes)

    def probabilities(self, current: AgentState) -> Mapping[str, float]:
        """Return the policy's row {action: probability} for an agent state; InputError if it has none."""
        key = tuple(one.word(node) for one, node in zip(self.conditions, current.nodes, strict=True))
        row = self.rows.get(key)
        if not row:
            name = row_name(self.policy_class, key)
            raise InputError([Fault(f"policy row {name}", "the policy has no row for this case", "add the row")])
        return row

    def _index(self, state: str) -> int:
        """Return the position of a state, or raise InputError."""
        if not isinstance(state, str) or state not in self.state_index:
            raise InputError([Fault("", f"unknown state '{state}'", "use the names of the problem's states")])
        return self.state_index[state]

    def _observation(self, observation: str | None, current: AgentState) -> int:
        """Return the position of an observation, or raise InputError with the nearest name."""
        state = self.problem.mdp.states[current.state]
        if observation is None:
            looks = f"the policy looks at observations, and none is given in state '{state}'"
            raise InputError([Fault("", looks, "give what the observer sees")])
        if not isinstance(observation, str) or observation not in self.observation_index:
            advice = suggestion(str(observation), self.observation_index, kind="observation")
            raise InputError([Fault("", f"unknown observation '{observation}'", advice)])
        return self.observation_index[observation]


class Agent:
    """Follows a policy through one run after the other: `start`, then `act` in every state, the first included.

    problem: what the policy is for. policy: an object, a file, "uniform" or "return-optimal".

    A policy that looks at observations is given what the observer sees with every state. The agent never draws an
    observation itself: that would be another one than the observer's.
    """

    def __init__(self, problem: Problem, policy: Policy | str | os.PathLike[str]) -> None:
        self.rules = PolicyExecutor.of(problem, policy)
        self._now: AgentState | None = None

    def start(self, state: str | SupportsIndex, rng: np.random.Generator | None = None) -> None:
        """Begin a run in a state, given as for `act`; `rng` draws the first memory node, where that is random."""
        self._now = self.rules.begin(name_state(state), rng or np.random.default_rng())

    @overload
    def act(self, state: str, rng: np.random.Generator | None = None, *, observation: str | None = None) -> str: ...
    @overload
    def act(
        self, state: SupportsIndex, rng: np.random.Generator | None = None, *, observation: str | None = None
    ) -> int: ...
    def act(
        self, state: str | SupportsIndex, rng: np.random.Generator | None = None, *, observation: str | None = None
    ) -> str | int:
        """Return the action to take now: its name or, given the number of a state, its number.

        state: where the run is: a name or, as an environment of Gymnasium shows it, a number, for which `env.step`
            takes the number that is returned.
        rng: draws the action, and memory updates where they are random.
        observation: what the observer sees in this state, by its name (with a sign of the last action: "name/sign", as
            `Observer.seen_names` lists them); needed by policies that look at observations, not read by others.
        Raises InputError when the policy has no row for the case, or needs an observation and none is given.
        """
        rng, name = rng or np.random.default_rng(), name_state(state)
        now = self._now or self.rules.begin(name, rng)
        if now.action is not None:
            now = self.rules.move(now, name, rng)
        elif self.rules.state_index.get(name) != now.state:
            first = self.rules.problem.mdp.states[now.state]
            raise InputError([Fault("", f"the run began in '{first}', but the first action is asked for in '{name}'")])
        self._now = self.rules.choose(self.rules.observe(now, observation), rng)
        action = self.rules.model_action(self._now)
        return self.rules.problem.mdp.actions[action] if isinstance(state, str) else action


def name_state(state: Any) -> str:
    """Return the name of a state that is given by its name or, as models of Gymnasium name them, by a whole number.

    Anything else comes back as it is, to be refused as unknown.
    """
    try:
        return state if isinstance(state, str | bool) else str(operator.index(state))  # type: ignore[return-value]
    except TypeError:
        return state  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class GymAdapter:
    """A policy with the `predict` of Stable-Baselines; what it remembers travels in `state`."""

    rules: PolicyExecutor
    rng: np.random.Generator
    state_name: Callable[[Any], str] = name_state
    seen_name: Callable[[Any], str] | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        policy: Policy | str | os.PathLike[str],
        *,
        rng: np.random.Generator | None = None,
        state_name: Callable[[Any], str] = name_state,
        seen_name: Callable[[Any], str] | None = None,
    ) -> GymAdapter:
        """Adapt a policy of a problem.

        rng: draws actions, and memory updates where they are random.
        state_name: turns the environment's observation into a state's name; by default a number into that number's
            name.
        seen_name: turns the environment's observation into the name of what the observer sees; policies that look at
            observations need it, and InputError is raised without it.
        """
        rules = PolicyExecutor.of(problem, policy)
        if rules.reads_observations and seen_name is None:
            looks = "looks at observations, and the environment's do not say what the observer sees"
            raise InputError([Fault("policy", looks, "give seen_name, a function that does")])
        return cls(rules, rng or np.random.default_rng(), state_name, seen_name)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, tuple[AgentState, ...]]:
        """Return (action index, state to pass to the next call); arrays of observations give arrays of actions.

        state: what the call before returned; None at the start. episode_start: [observation] True where a run begins
            anew.
        deterministic: take the likeliest action instead of drawing one.
        """
        seen = np.asarray(observation)
        single = seen.ndim == 0
        observations = [observation] if single else list(observation)
        fresh = np.zeros(len(observations), dtype=bool) if episode_start is None else np.atleast_1d(episode_start)
        before = state if state is not None else (None,) * len(observations)
        after = tuple(
            self._next(one, None if begins else last, likeliest=deterministic)
            for one, last, begins in zip(observations, before, fresh, strict=True)
        )
        actions = np.array([self.rules.model_action(current) for current in after], dtype=np.int64)
        return (int(actions[0]) if single else actions), after

    def _next(self, observation: Any, last: AgentState | None, *, likeliest: bool) -> AgentState:
        """Return the agent state after one observation of the environment, an action chosen."""
        state, seen = self.state_name(observation), self.seen_name and self.seen_name(observation)
        now = self.rules.begin(state, self.rng) if last is None else self.rules.move(last, state, self.rng)
        return self.rules.choose(self.rules.observe(now, seen), self.rng, likeliest=likeliest)


def _draw_branch(branches: Branches, rng: np.random.Generator) -> int:
    """Draw one of the branches of a single case."""
    nodes: IntArray = branches.node
    return int(nodes[0] if nodes.size == 1 else nodes[draw_index(branches.probability, rng)])
